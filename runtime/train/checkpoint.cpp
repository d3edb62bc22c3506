#include "runtime/train/checkpoint.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "compiler/support/atomic_file.h"
#include "compiler/support/json_util.h"
#include "compiler/support/mapped_file.h"
#include "compiler/support/text.h"
#include "runtime/train/padded_copy.h"

namespace mezzo::runtime {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kFormat = "mezzo-checkpoint";
constexpr const char* kModelFile = "model.safetensors";
constexpr const char* kOptimizerFile = "optimizer.safetensors";
constexpr const char* kAverageFile = "ema.safetensors";
constexpr const char* kStateFile = "state.json";

// {"bytes", "xxh3"} of a file.
StatusOr<json> file_facts(const std::string& path) {
  MEZZO_ASSIGN_OR_RETURN(const auto file, MappedFile::open(path));
  const auto bytes = file->bytes();
  std::array<char, 17> digest{};
  std::snprintf(digest.data(), digest.size(), "%016llx",
                static_cast<unsigned long long>(XXH3_64bits(bytes.data(), bytes.size())));
  return json{{"bytes", bytes.size()}, {"xxh3", digest.data()}};
}

Status write_tensors(const std::string& path, std::span<const PaddedTensor> tensors,
                     std::span<const FixedTensor> fixed = {}) {
  std::vector<SafetensorsDecl> decls;
  for (const PaddedTensor& tensor : tensors) {
    MEZZO_RETURN_IF_ERROR(check_padding(tensor.name, tensor.dims, tensor.padded_dims));
    decls.push_back({tensor.name, DType::kFloat32, tensor.dims});
  }
  for (const FixedTensor& tensor : fixed) decls.push_back({tensor.name, tensor.dtype, tensor.dims});
  MEZZO_ASSIGN_OR_RETURN(auto writer, SafetensorsWriter::create(path, decls, {{"format", "pt"}}));
  std::vector<float> logical;
  for (const PaddedTensor& tensor : tensors) {
    std::size_t elems = 1;
    for (const std::int64_t dim : tensor.dims) elems *= static_cast<std::size_t>(dim);
    std::span<const float> values(tensor.values, elems);
    if (tensor.dims != tensor.padded_dims) {
      logical.resize(elems);
      copy_without_padding(tensor.values, tensor.padded_dims, logical.data(), tensor.dims);
      values = logical;
    }
    MEZZO_RETURN_IF_ERROR(writer.write(std::as_bytes(values)));
  }
  for (const FixedTensor& tensor : fixed) MEZZO_RETURN_IF_ERROR(writer.write(tensor.bytes));
  return writer.commit();
}

// A folder that is replaced loses all it holds, so it must be a checkpoint or empty.
Status check_target(const std::string& folder) {
  std::error_code error;
  for (auto entry = fs::directory_iterator(folder, error);
       !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name != kModelFile && name != kOptimizerFile && name != kAverageFile &&
        name != kStateFile) {
      return invalid_argument(printable(folder) + ": holds '" + printable(name) +
                              "', which is no part of a checkpoint, and is left as it is. Hint: "
                              "give another --out");
    }
  }
  return ok_status();  // a folder that is missing or no folder is AtomicDirectory's business
}

json object_or_empty(const std::shared_ptr<const json>& value) {
  return value != nullptr ? *value : json::object();
}

Status parse_optimizers(const json& saved, TrainingState& state) {
  if (!saved.contains("optimizers")) return ok_status();
  MEZZO_ASSIGN_OR_RETURN(const json* rows, json_array(saved, "optimizers"));
  for (const json& row : *rows) {
    OptimizerProgress progress;
    MEZZO_ASSIGN_OR_RETURN(progress.name, json_string(row, "name"));
    MEZZO_ASSIGN_OR_RETURN(progress.applied_steps, json_int(row, "applied_steps"));
    if (progress.applied_steps < 0 || progress.applied_steps > state.step)
      return invalid_argument("key 'optimizers': applied_steps is outside 0.." +
                              std::to_string(state.step));
    state.optimizers.push_back(std::move(progress));
  }
  return ok_status();
}

Status parse_options(const json& saved, TrainingState& state) {
  if (!saved.contains("options")) return ok_status();
  MEZZO_ASSIGN_OR_RETURN(const json* options, json_object(saved, "options"));
  state.options.emplace();
  for (const auto& [name, value] : options->items()) {
    if (!value.is_string()) return invalid_argument("key 'options': expected texts");
    state.options->emplace(name, value.get<std::string>());
  }
  return ok_status();
}

StatusOr<TrainingState> parse_state(const json& saved) {
  TrainingState state;
  MEZZO_ASSIGN_OR_RETURN(state.step, json_int(saved, "step"));
  MEZZO_ASSIGN_OR_RETURN(state.applied_steps, json_int(saved, "applied_steps"));
  if (state.applied_steps < 0 || state.step < state.applied_steps ||
      state.step == std::numeric_limits<std::int64_t>::max()) {
    return invalid_argument("keys 'step' and 'applied_steps' do not fit each other");
  }
  MEZZO_RETURN_IF_ERROR(parse_optimizers(saved, state));
  MEZZO_RETURN_IF_ERROR(parse_options(saved, state));
  MEZZO_ASSIGN_OR_RETURN(const json* scaler, json_object(saved, "loss_scaler"));
  auto loaded = LossScaler::load(*scaler);
  if (!loaded.ok()) return loaded.status().with_context("key 'loss_scaler'");
  state.loss_scaler = *std::move(loaded);
  MEZZO_ASSIGN_OR_RETURN(const json* rng, json_object(saved, "rng"));
  MEZZO_ASSIGN_OR_RETURN(state.rng_seed, json_uint(*rng, "seed"));
  MEZZO_ASSIGN_OR_RETURN(state.rng_draws, json_uint(*rng, "draws"));
  MEZZO_ASSIGN_OR_RETURN(state.options_digest, json_string(saved, "options_digest"));
  MEZZO_ASSIGN_OR_RETURN(const json* data, json_object(saved, "data"));
  state.data = std::make_shared<const json>(*data);
  MEZZO_ASSIGN_OR_RETURN(const json* extra, json_object(saved, "extra"));
  state.extra = std::make_shared<const json>(*extra);
  return state;
}

Status check_format(const json& saved) {
  MEZZO_ASSIGN_OR_RETURN(const std::string format, json_string(saved, "format"));
  if (format != kFormat) return invalid_argument("is not the state of a mezzo checkpoint");
  MEZZO_ASSIGN_OR_RETURN(const std::int64_t version, json_int(saved, "format_version"));
  if (version == kCheckpointVersion) return ok_status();
  return unimplemented("checkpoint format version " + std::to_string(version) + "; version " +
                       std::to_string(kCheckpointVersion) + " is supported");
}

// Opens a tensor file after comparing size and checksum with state.json.
StatusOr<SafetensorsFile> open_tensors(const std::string& folder, const char* name,
                                       const json& files) {
  const std::string path = folder + "/" + name;
  MEZZO_ASSIGN_OR_RETURN(const json facts, file_facts(path));
  const auto expected = files.find(name);
  if (expected == files.end() || *expected != facts) {
    return invalid_argument(printable(path) +
                            ": its checksum is not the one state.json tells. Hint: the file is "
                            "damaged, or from another checkpoint");
  }
  return SafetensorsFile::open(path);
}

json optimizer_rows(const TrainingState& state) {
  json rows = json::array();
  for (const OptimizerProgress& progress : state.optimizers)
    rows.push_back({{"name", progress.name}, {"applied_steps", progress.applied_steps}});
  return rows;
}

}  // namespace

Status save_checkpoint(const std::string& folder, const CheckpointTensors& tensors,
                       const TrainingState& state) {
  MEZZO_RETURN_IF_ERROR(check_target(folder));
  MEZZO_ASSIGN_OR_RETURN(auto output, AtomicDirectory::create(folder));
  json files = json::object();
  const auto write = [&](const char* name, std::span<const PaddedTensor> padded,
                         std::span<const FixedTensor> fixed) -> Status {
    MEZZO_RETURN_IF_ERROR(write_tensors(output.file(name), padded, fixed));
    MEZZO_ASSIGN_OR_RETURN(files[name], file_facts(output.file(name)));
    return ok_status();
  };
  MEZZO_RETURN_IF_ERROR(write(kModelFile, tensors.weights, tensors.fixed));
  MEZZO_RETURN_IF_ERROR(write(kOptimizerFile, tensors.optimizer, {}));
  if (!tensors.average.empty())
    MEZZO_RETURN_IF_ERROR(write(kAverageFile, tensors.average, tensors.fixed));
  json saved = {{"format", kFormat},
                {"format_version", kCheckpointVersion},
                {"step", state.step},
                {"applied_steps", state.applied_steps},
                {"loss_scaler", state.loss_scaler.save()},
                {"rng", {{"seed", state.rng_seed}, {"draws", state.rng_draws}}},
                {"options_digest", state.options_digest},
                {"data", object_or_empty(state.data)},
                {"extra", object_or_empty(state.extra)},
                {"files", std::move(files)}};
  if (!state.optimizers.empty()) saved["optimizers"] = optimizer_rows(state);
  if (state.options) saved["options"] = *state.options;
  MEZZO_RETURN_IF_ERROR(write_file(output.file(kStateFile), json_text(saved, 2) + "\n"));
  return output.commit();
}

StatusOr<Checkpoint> load_checkpoint(const std::string& folder) {
  const std::string path = folder + "/" + kStateFile;
  MEZZO_ASSIGN_OR_RETURN(const json saved, read_json(path));
  if (Status format = check_format(saved); !format.ok())
    return format.with_context(printable(path));
  auto state = parse_state(saved);
  if (!state.ok()) return state.status().with_context(printable(path));
  const auto files = json_object(saved, "files");
  if (!files.ok()) return files.status().with_context(printable(path));
  MEZZO_ASSIGN_OR_RETURN(auto model, open_tensors(folder, kModelFile, **files));
  MEZZO_ASSIGN_OR_RETURN(auto optimizer, open_tensors(folder, kOptimizerFile, **files));
  Checkpoint checkpoint{*std::move(state), std::move(model), std::move(optimizer), std::nullopt};
  if ((*files)->contains(kAverageFile)) {
    MEZZO_ASSIGN_OR_RETURN(checkpoint.average, open_tensors(folder, kAverageFile, **files));
  }
  return checkpoint;
}

Status restore_tensors(const SafetensorsFile& file, std::span<const PaddedTensor> tensors,
                       std::span<const FixedTensor> fixed) {
  std::vector<const SafetensorsEntry*> found;
  for (const PaddedTensor& tensor : tensors) {
    MEZZO_RETURN_IF_ERROR(check_padding(tensor.name, tensor.dims, tensor.padded_dims));
    MEZZO_ASSIGN_OR_RETURN(const SafetensorsEntry* entry,
                           file.get_floats(tensor.name, tensor.dims));
    found.push_back(entry);
  }
  std::set<const SafetensorsEntry*> used(found.begin(), found.end());
  for (const FixedTensor& tensor : fixed) {
    const SafetensorsEntry* entry = file.find(tensor.name);
    if (entry == nullptr) continue;
    if (entry->dtype != tensor.dtype || entry->shape != tensor.dims ||
        !std::ranges::equal(entry->bytes, tensor.bytes)) {
      return invalid_argument(printable(file.path()) + ": tensor '" + printable(tensor.name) +
                              "', which is not trained, differs from the model's. Hint: resume "
                              "with the model that the checkpoint was written with");
    }
    used.insert(entry);
  }
  for (const SafetensorsEntry& entry : file.entries()) {
    if (!used.contains(&entry)) {
      return invalid_argument(printable(file.path()) + ": tensor '" + printable(entry.name) +
                              "' is not part of this run. Hint: resume with the model and options "
                              "that the checkpoint was written with");
    }
  }
  std::vector<float> logical;  // through a copy, as the file need not align its data
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::span<const std::byte> bytes = found[i]->bytes;
    logical.resize(bytes.size() / sizeof(float));
    if (!bytes.empty()) std::memcpy(logical.data(), bytes.data(), bytes.size());
    copy_with_padding(logical.data(), tensors[i].dims, tensors[i].values, tensors[i].padded_dims);
  }
  return ok_status();
}

}  // namespace mezzo::runtime
