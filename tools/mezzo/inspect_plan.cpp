// What a plan holds: provenance, memory, tensors, steps, parameters.

#include <fmt/format.h>

#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "compiler/plan/plan.pb.h"
#include "compiler/report/format.h"
#include "compiler/report/text_table.h"
#include "compiler/support/json_util.h"
#include "compiler/support/text.h"
#include "runtime/exec/plan_check.h"
#include "runtime/exec/plan_file.h"
#include "tools/mezzo/inspect.h"

namespace mezzo::cli {
namespace {

constexpr std::size_t kProgramLimit = 2000;  // characters shown

using nlohmann::json;

const char* role_name(proto::Role role) {
  static constexpr std::array kNames = {"activation", "input",    "master",  "low copy",
                                        "state",      "constant", "gradient"};
  const auto index = static_cast<std::size_t>(role);
  return index < kNames.size() ? kNames[index] : "?";
}

const char* phase_name(proto::PhaseKind kind) {
  static constexpr std::array kNames = {"forward", "backward", "evaluate"};
  const auto index = static_cast<std::size_t>(kind);
  return index < kNames.size() ? kNames[index] : "?";
}

std::vector<std::int64_t> dims_of(const proto::Tensor& tensor) {
  return {tensor.dims().begin(), tensor.dims().end()};
}

DType dtype_of(const proto::Tensor& tensor) { return static_cast<DType>(tensor.dtype()); }

std::string type_text(const proto::Tensor& tensor) {
  return std::string(dtype_name(dtype_of(tensor))) + format_dims(dims_of(tensor));
}

// Writes both forms side by side, so that they say the same.
class PlanPrinter {
 public:
  PlanPrinter(const proto::Plan& plan, int width) : plan_(plan), width_(width) {}

  Inspection run() {
    json_ = {
        {"kind", "plan"}, {"format_version", plan_.format_version()}, {"target", plan_.target()}};
    provenance();
    training();
    arenas();
    phases();
    ports("inputs", plan_.inputs());
    ports("outputs", plan_.outputs());
    parameters();
    tensors();
    return {std::move(text_), std::make_shared<const json>(std::move(json_))};
  }

 private:
  void provenance() {
    const proto::Provenance& from = plan_.provenance();
    const std::map<std::string, std::string> options(from.options().begin(), from.options().end());
    text_ += fmt::format("plan, format version {}, for {}\nmade from {} by mezzo {}\n",
                         plan_.format_version(), printable(plan_.target(), 40),
                         printable(from.source_name()), printable(from.tool_version(), 40));
    if (!from.weights_file().empty())
      text_ += "weights in " + printable(from.weights_file()) + "\n";
    for (const auto& [name, value] : options) {
      text_ += "  " + printable(name, 60) + ": " + printable(value, 300) + "\n";
    }
    json_["provenance"] = {{"tool_version", from.tool_version()},
                           {"source_name", from.source_name()},
                           {"source_hash", fmt::format("{:016x}", from.source_hash())},
                           {"weights_file", from.weights_file()},
                           {"options", options}};
  }

  void training() {
    const proto::Summary& summary = plan_.summary();
    if (summary.flops() > 0) {
      text_ += fmt::format("low precision: {} of {}, {} casts\n",
                           format_share(summary.low_flops(), summary.flops()),
                           format_flops(summary.flops()), summary.casts());
    }
    json_["summary"] = {{"casts", summary.casts()},
                        {"flops", json_from_number(summary.flops())},
                        {"low_flops", json_from_number(summary.low_flops())}};
    if (!plan_.has_training()) return;
    const std::string& loss = plan_.tensors(plan_.training().loss()).name();
    text_ += fmt::format("training in {}, loss '{}'\n", printable(plan_.training().precision(), 40),
                         printable(loss));
    json_["training"] = {{"precision", plan_.training().precision()}, {"loss", loss}};
  }

  void arenas() {
    TextTable table(
        {{"arena", false, 10}, {"bytes", true}, {"alive at most", true}, {"tensors", true}});
    std::vector<std::size_t> counts(static_cast<std::size_t>(plan_.arenas_size()));
    for (const proto::Tensor& tensor : plan_.tensors()) {
      if (tensor.arena() < counts.size()) ++counts[tensor.arena()];
    }
    json list = json::array();
    for (int i = 0; i < plan_.arenas_size(); ++i) {
      const proto::Arena& arena = plan_.arenas(i);
      const std::size_t count = counts[static_cast<std::size_t>(i)];
      table.add({printable(arena.name(), 60), format_bytes(arena.bytes()),
                 arena.live_bytes() > 0 ? format_bytes(arena.live_bytes()) : "-",
                 std::to_string(count)});
      list.push_back({{"name", arena.name()},
                      {"bytes", arena.bytes()},
                      {"live_bytes", arena.live_bytes()},
                      {"tensors", count}});
    }
    json_["arenas"] = std::move(list);
    text_ += "\n" + table.text(width_);
  }

  std::string operand_text(int tensor) const {
    return tensor < 0 ? "-" : printable(plan_.tensors(tensor).name(), 60);
  }

  void phases() {
    json list = json::array();
    for (const proto::Phase& phase : plan_.phases()) {
      TextTable table(
          {{"#", true}, {"op", false, 10}, {"result", false, 14}, {"type"}, {"node", false, 16}});
      json steps = json::array();
      std::string programs;
      int casts = 0;
      for (int i = 0; i < phase.steps_size(); ++i) {
        const proto::Step& step = phase.steps(i);
        casts += step.op() == "Cast" ? 1 : 0;
        const int result = step.outputs_size() > 0 ? step.outputs(0) : -1;
        table.add({std::to_string(i), printable(step.op(), 60), operand_text(result),
                   result >= 0 ? type_text(plan_.tensors(result)) : "-", printable(step.node())});
        steps.push_back(
            {{"op", step.op()},
             {"node", step.node()},
             {"inputs", std::vector<int>(step.inputs().begin(), step.inputs().end())},
             {"outputs", std::vector<int>(step.outputs().begin(), step.outputs().end())}});
        // What a fused step computes: x0, x1, ... are its inputs.
        for (const proto::Attribute& attribute : step.attributes()) {
          if (attribute.name() != "program") continue;
          steps.back()["program"] = printable(attribute.s(), kProgramLimit);
          programs += fmt::format("{:>5}  {}\n", i, printable(attribute.s(), kProgramLimit));
        }
      }
      text_ += fmt::format("\n{}: {} steps, {} of them casts\n", phase_name(phase.kind()),
                           phase.steps_size(), casts);
      text_ += table.text(width_);
      if (!programs.empty()) text_ += "programs of the fused steps:\n" + programs;
      list.push_back(
          {{"kind", phase_name(phase.kind())}, {"casts", casts}, {"steps", std::move(steps)}});
    }
    json_["phases"] = std::move(list);
  }

  template <typename Ports>
  void ports(const char* what, const Ports& list_of_ports) {
    json list = json::array();
    text_ += fmt::format("\n{}\n", what);
    for (const proto::Port& port : list_of_ports) {
      const proto::Tensor& tensor = plan_.tensors(port.tensor());
      const std::vector<std::int64_t> dims(port.logical_dims().begin(), port.logical_dims().end());
      text_ += fmt::format("  {}  {}{}\n", printable(port.name()), dtype_name(dtype_of(tensor)),
                           format_dims(dims));
      list.push_back({{"name", port.name()},
                      {"dtype", std::string(dtype_name(dtype_of(tensor)))},
                      {"shape", dims}});
    }
    json_[what] = std::move(list);
  }

  void parameters() {
    TextTable table({{"parameter", false, 20}, {"shape"}, {"stored"}, {"low copy"}, {"trained"}});
    json list = json::array();
    for (const proto::Parameter& parameter : plan_.parameters()) {
      const std::vector<std::int64_t> dims(parameter.logical_dims().begin(),
                                           parameter.logical_dims().end());
      const proto::Tensor& master = plan_.tensors(parameter.master());
      const std::string low(parameter.low_copy() < 0
                                ? "-"
                                : short_dtype(dtype_of(plan_.tensors(parameter.low_copy()))));
      table.add({printable(parameter.name()), format_dims(dims), type_text(master), low,
                 parameter.gradient() < 0 ? "no" : "yes"});
      list.push_back({{"name", parameter.name()},
                      {"shape", dims},
                      {"stored_shape", dims_of(master)},
                      {"low_copy", low},
                      {"trained", parameter.gradient() >= 0}});
    }
    json states = json::array();
    for (const proto::State& state : plan_.states()) states.push_back(state.name());
    json_["parameters"] = std::move(list);
    json_["states"] = std::move(states);
    if (!table.empty()) text_ += "\n" + table.text(width_);
    if (plan_.states_size() > 0)
      text_ += fmt::format("and {} running statistics\n", plan_.states_size());
  }

  void tensors() {
    TextTable table({{"#", true},
                     {"tensor", false, 20},
                     {"type"},
                     {"role"},
                     {"arena"},
                     {"offset", true},
                     {"bytes", true}});
    json list = json::array();
    for (int i = 0; i < plan_.tensors_size(); ++i) {
      const proto::Tensor& tensor = plan_.tensors(i);
      const std::uint64_t bytes = runtime::tensor_bytes(tensor);
      const std::string arena(tensor.arena() < static_cast<std::uint32_t>(plan_.arenas_size())
                                  ? plan_.arenas(static_cast<int>(tensor.arena())).name()
                                  : "-");
      table.add({std::to_string(i), printable(tensor.name()), type_text(tensor),
                 role_name(tensor.role()), printable(arena, 60), std::to_string(tensor.offset()),
                 format_bytes(bytes)});
      list.push_back({{"name", tensor.name()},
                      {"dtype", std::string(dtype_name(dtype_of(tensor)))},
                      {"shape", dims_of(tensor)},
                      {"role", role_name(tensor.role())},
                      {"arena", arena},
                      {"offset", tensor.offset()},
                      {"bytes", bytes}});
    }
    json_["tensors"] = std::move(list);
    text_ += "\n" + table.text(width_);
  }

  const proto::Plan& plan_;
  int width_;
  std::string text_;
  json json_;
};

}  // namespace

StatusOr<Inspection> inspect_plan(const std::string& path, const InspectOptions& options) {
  // The weights beside it need not be there to look at a plan.
  MEZZO_ASSIGN_OR_RETURN(const auto plan, runtime::read_plan(path));
  return PlanPrinter(*plan, options.width).run();
}

}  // namespace mezzo::cli
