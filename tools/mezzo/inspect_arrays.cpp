// Files that hold named arrays: checkpoints, safetensors, npz.

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "compiler/artifacts/ort_checkpoint.h"
#include "compiler/report/text_table.h"
#include "compiler/support/json_util.h"
#include "compiler/support/text.h"
#include "runtime/io/npz.h"
#include "runtime/io/safetensors.h"
#include "runtime/train/checkpoint.h"
#include "tools/mezzo/inspect.h"

namespace mezzo::cli {
namespace {

using nlohmann::json;

class ArrayList {
 public:
  void add(const std::string& name, DType dtype, const std::vector<std::int64_t>& shape,
           std::uint64_t bytes) {
    table_.add(
        {printable(name), std::string(dtype_name(dtype)), format_dims(shape), format_bytes(bytes)});
    json_.push_back({{"name", name},
                     {"dtype", std::string(dtype_name(dtype))},
                     {"shape", shape},
                     {"bytes", bytes}});
    total_ += bytes;
  }
  std::string heading(std::string_view what) const {
    return fmt::format("{}: {} array{}, {}\n", what, json_.size(), json_.size() == 1 ? "" : "s",
                       format_bytes(total_));
  }
  std::string text(int width) const { return table_.empty() ? "" : table_.text(width); }
  const json& list() const { return json_; }

 private:
  TextTable table_{{{"name", false, 20}, {"type"}, {"shape"}, {"bytes", true}}};
  json json_ = json::array();
  std::uint64_t total_ = 0;
};

Inspection finish(std::string text, json value) {
  return {std::move(text), std::make_shared<const json>(std::move(value))};
}

ArrayList list_of(const runtime::SafetensorsFile& file) {
  ArrayList list;
  for (const auto& entry : file.entries()) {
    list.add(entry.name, entry.dtype, entry.shape, entry.bytes.size());
  }
  return list;
}

std::string state_text(const runtime::TrainingState& state) {
  const runtime::LossScaler& scaler = state.loss_scaler;
  std::string text = fmt::format("step: {} ({} applied, {} skipped)\n", state.step,
                                 state.applied_steps, state.step - state.applied_steps);
  text += "loss scaler: " + printable(json_text(scaler.save()), 400) + "\n";
  text += fmt::format("random numbers: seed {}, {} drawn\n", state.rng_seed, state.rng_draws);
  for (const runtime::OptimizerProgress& optimizer : state.optimizers) {
    text += fmt::format("optimizer {}: {} steps applied\n", printable(optimizer.name),
                        optimizer.applied_steps);
  }
  if (state.options && !state.options->empty()) {
    text += "options:";
    for (const auto& [name, value] : *state.options)
      text += " --" + printable(name, 60) + " " + printable(value, 200);
    text += "\n";
  }
  if (state.data) text += "data: " + printable(json_text(*state.data), 400) + "\n";
  return text;
}

}  // namespace

StatusOr<Inspection> inspect_safetensors(const std::string& path, const InspectOptions& options) {
  MEZZO_ASSIGN_OR_RETURN(const auto file, runtime::SafetensorsFile::open(path));
  const ArrayList list = list_of(file);
  std::string text = list.heading("safetensors");
  for (const auto& [key, value] : file.metadata()) {
    text += printable(key, 60) + ": " + printable(value, 400) + "\n";
  }
  return finish(text + list.text(options.width),
                {{"kind", "safetensors"}, {"metadata", file.metadata()}, {"arrays", list.list()}});
}

StatusOr<Inspection> inspect_npz(const std::string& path, const InspectOptions& options) {
  MEZZO_ASSIGN_OR_RETURN(const auto file, runtime::NpzFile::open(path));
  ArrayList list;
  for (const auto& array : file.arrays())
    list.add(array.name, array.dtype, array.shape, array.bytes);
  return finish(list.heading("npz") + list.text(options.width),
                {{"kind", "npz"}, {"arrays", list.list()}});
}

StatusOr<Inspection> inspect_ort_checkpoint(const std::string& path,
                                            const InspectOptions& options) {
  MEZZO_ASSIGN_OR_RETURN(const OrtCheckpoint checkpoint, load_ort_checkpoint(path));
  const auto list_tensors = [](const std::vector<CheckpointTensor>& tensors) {
    ArrayList list;
    for (const CheckpointTensor& tensor : tensors)
      list.add(tensor.name, tensor.tensor->dtype(), tensor.tensor->dims(),
               tensor.tensor->byte_size());
    return list;
  };
  const ArrayList trained = list_tensors(checkpoint.trained),
                  frozen = list_tensors(checkpoint.frozen);
  std::string text =
      fmt::format("checkpoint of ONNX Runtime, format version {}\n", checkpoint.version);
  json groups = json::array();
  for (const OrtOptimizerGroup& group : checkpoint.groups) {
    text += fmt::format(
        "optimizer group {}: {} steps applied, learning rate {}, state of {} "
        "parameters\n",
        printable(group.name), group.step, group.initial_lr, group.parameters.size());
    groups.push_back({{"name", group.name},
                      {"step", group.step},
                      {"learning_rate", group.initial_lr},
                      {"parameters", group.parameters.size()}});
  }
  json properties = json::object();
  for (const auto& [name, value] : checkpoint.properties) {
    json& property = properties[name];
    std::visit([&property](const auto& known) { property = known; }, value);
    text += printable(name, 60) + ": " + printable(json_text(property), 400) + "\n";
  }
  text += "\n" + trained.heading("trained") + trained.text(options.width);
  text += "\n" + frozen.heading("frozen") + frozen.text(options.width);
  return finish(std::move(text), {{"kind", "ort_checkpoint"},
                                  {"version", checkpoint.version},
                                  {"optimizer_groups", groups},
                                  {"properties", properties},
                                  {"trained", trained.list()},
                                  {"frozen", frozen.list()}});
}

StatusOr<Inspection> inspect_checkpoint(const std::string& folder, const InspectOptions& options) {
  MEZZO_ASSIGN_OR_RETURN(const auto checkpoint, runtime::load_checkpoint(folder));
  MEZZO_ASSIGN_OR_RETURN(const json state,
                         read_json((std::filesystem::path(folder) / "state.json").string()));
  const ArrayList weights = list_of(checkpoint.model), moments = list_of(checkpoint.optimizer);
  std::string text = "checkpoint, checksums fit\n" + state_text(checkpoint.state) + "\n";
  text += weights.heading("weights") + weights.text(options.width);
  text += "\n" + moments.heading("optimizer state") + moments.text(options.width);
  json found = {{"kind", "checkpoint"},
                {"state", state},
                {"weights", weights.list()},
                {"optimizer_state", moments.list()}};
  if (checkpoint.average) {
    const ArrayList average = list_of(*checkpoint.average);
    text += "\n" + average.heading("averaged weights") + average.text(options.width);
    found["averaged_weights"] = average.list();
  }
  return finish(std::move(text), std::move(found));
}

}  // namespace mezzo::cli
