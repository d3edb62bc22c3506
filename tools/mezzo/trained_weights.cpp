#include "tools/mezzo/trained_weights.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>

#include "compiler/support/dtype.h"
#include "compiler/support/text.h"
#include "passes/autodiff/separate_parameters.h"
#include "passes/pass_runner.h"
#include "passes/pipeline.h"
#include "runtime/io/safetensors.h"

namespace mezzo::cli {
namespace {

constexpr std::size_t kNamesShown = 8;

std::string some_of(const std::vector<std::string>& names) {
  std::vector<std::string> shown;
  for (std::size_t i = 0; i < names.size() && i < kNamesShown; ++i)
    shown.push_back("'" + printable(names[i]) + "'");
  return join(shown, ", ") + (names.size() > kNamesShown ? ", ..." : "");
}

bool is_sixteen_bits(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBFloat16; }

// An initializer, or an input that a tensor can take the place of.
bool holds_weights(const Value& value) {
  if (value.is_initializer()) return value.constant() != nullptr;
  return value.is_graph_input() && value.type.is_tensor() && value.tensor_type().has_static_shape();
}

void remove_input(Graph& graph, const Value* value) {
  const auto& inputs = graph.inputs();
  graph.remove_input(
      static_cast<std::size_t>(std::find(inputs.begin(), inputs.end(), value) - inputs.begin()));
}

struct Holder {
  Graph* graph = nullptr;
  Value* value = nullptr;  // null: several graphs hold one of the name
};

// By name, those of loops and branches as well. Of equal names the outermost graph's counts.
std::map<std::string, Holder> holders_of_weights(Graph& outermost) {
  std::map<std::string, Holder> holders;
  const auto add = [&](Graph& graph, Value* value) {
    if (!holds_weights(*value)) return;
    const auto [place, is_new] = holders.try_emplace(value->name(), Holder{&graph, value});
    if (!is_new && place->second.graph != &outermost) place->second.value = nullptr;
  };
  for (Value* value : outermost.inputs()) add(outermost, value);
  for_each_graph(outermost, [&](Graph& graph) {
    for (Value* value : graph.initializers()) add(graph, value);
  });
  return holders;
}

Status exchange(Graph& graph, Value* value, const runtime::SafetensorsEntry& entry) {
  const bool rounds = entry.dtype == DType::kFloat32 && is_sixteen_bits(value->dtype());
  if (entry.shape != value->tensor_type().dims() || (entry.dtype != value->dtype() && !rounds)) {
    return invalid_argument("'" + printable(entry.name) + "': expected " + to_string(value->type) +
                            " as in the model, got " +
                            to_string(TensorType::of(entry.dtype, entry.shape)));
  }
  TensorRef tensor = std::make_shared<const Tensor>(
      entry.dtype, entry.shape,
      Tensor::Storage(std::vector<std::byte>(entry.bytes.begin(), entry.bytes.end())),
      value->is_initializer() ? value->constant()->origin() : Tensor::Origin());
  if (tensor->dtype() != value->dtype())
    tensor = Tensor::cast_of(std::move(tensor), value->dtype(), false);
  if (value->is_initializer()) {
    graph.replace_constant(value, std::move(tensor));
  } else {
    graph.set_initializer(value, std::move(tensor));
    remove_input(graph, value);
  }
  return ok_status();
}

}  // namespace

Status apply_trained_weights(Model& model, const std::string& path,
                             std::vector<std::string>& warnings) {
  std::error_code ignored;
  const bool is_folder = std::filesystem::is_directory(path, ignored);
  const std::string file = is_folder ? path + "/model.safetensors" : path;
  MEZZO_ASSIGN_OR_RETURN(const auto weights, runtime::SafetensorsFile::open(file));
  passes::PassContext ctx;
  MEZZO_RETURN_IF_ERROR(passes::separate_parameters(model, ctx).status());
  const std::map<std::string, Holder> holders = holders_of_weights(*model.graph);
  std::set<const Value*> taken;
  std::vector<std::string> strangers;
  for (const runtime::SafetensorsEntry& entry : weights.entries()) {
    const auto holder = holders.find(entry.name);
    if (holder == holders.end() || holder->second.value == nullptr) {
      strangers.push_back(entry.name);
      continue;
    }
    const auto& [graph, value] = holder->second;
    taken.insert(value);
    MEZZO_RETURN_IF_ERROR(exchange(*graph, value, entry).with_context(file));
  }
  if (taken.empty()) {
    return invalid_argument(file +
                            ": none of its tensors has the name of an initializer of the model");
  }
  std::vector<std::string> left;
  for_each_graph(*model.graph, [&](Graph& graph) {
    for (const Value* value : graph.initializers()) {
      if (is_floating(value->dtype()) && taken.count(value) == 0) left.push_back(value->name());
    }
  });
  // What training alone needs the file may hold as well: no word of it.
  if (!left.empty()) {
    warnings.push_back(
        file + ": holds nothing for " + std::to_string(left.size()) +
        " initializers, which stay as they are: " + some_of(left) +
        (strangers.empty() ? "" : "; and nothing has the names " + some_of(strangers)));
  }
  return passes::run_passes(
      model, ctx, {passes::find_pass("inference-form"), passes::find_pass("dce")}, {}, nullptr);
}

}  // namespace mezzo::cli
