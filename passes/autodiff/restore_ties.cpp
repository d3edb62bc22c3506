// 1. An initializer that the exporter computed and that holds the transpose of an embedding table
//    or of another weight gives way to a Transpose of that.
// 2. One named after a call of expand, with equal slices, that the exporter computed gives way to
//    an Expand of one slice.
#include "passes/autodiff/restore_ties.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "passes/autodiff/exporter_notes.h"
#include "passes/autodiff/weight_facts.h"

namespace mezzo::passes {
namespace {

// The bytes of `turned` [b,a] are those of `weight` [a,b] transposed.
bool is_transpose(const Tensor& turned, const Tensor& weight) {
  const std::vector<std::int64_t>& dims = weight.dims();
  if (dims.size() != 2 || turned.dims() != std::vector<std::int64_t>{dims[1], dims[0]} ||
      turned.dtype() != weight.dtype())
    return false;
  const auto bytes_of = [](const Tensor& tensor, std::vector<std::byte>& copy) {
    const std::span<const std::byte> stored = tensor.stored_bytes();
    if (!stored.empty()) return stored;
    copy = tensor.copy_bytes();
    return std::span<const std::byte>(copy);
  };
  std::vector<std::byte> copies[2];
  const auto a = bytes_of(turned, copies[0]), b = bytes_of(weight, copies[1]);
  const auto rows = static_cast<std::size_t>(dims[0]), columns = static_cast<std::size_t>(dims[1]);
  const std::size_t size = rows * columns == 0 ? 0 : b.size() / (rows * columns);
  if (size == 0 || a.size() != b.size()) return false;
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < columns; ++c) {
      if (std::memcmp(&a[(c * rows + r) * size], &b[(r * columns + c) * size], size) != 0)
        return false;
    }
  }
  return true;
}

void tie(Graph& graph, PassContext& ctx, Value* turned, Value* weight) {
  Node* first = graph.nodes().empty() ? nullptr : graph.nodes().front().get();
  const std::vector<std::string> names = {graph.unique_name(weight->name() + "/transposed")};
  const std::vector<Value*> operands = {weight};
  Node* transpose = graph.add_node("Transpose", "", operands, names, first);
  transpose->name = names[0];
  transpose->result()->type = turned->type;
  ctx.records.warnings.push_back("'" + turned->name() + "' is '" + weight->name() +
                                 "' transposed: they are trained as one, as they were tied");
  graph.replace_uses(turned, transpose->result());
  if (!turned->has_uses() && !turned->is_graph_input()) graph.erase_initializer(turned);
  ctx.stats.add("parameters-tied", 1);
}

bool is_table(const Value& weight) {
  return std::any_of(weight.uses().begin(), weight.uses().end(),
                     [](const Use& use) { return use.node->is("Gather") && use.operand == 0; });
}

// What the exporters call a matrix that they have transposed: "onnx::MatMul_12" or "val_4", or
// after the call that did it, "t" or "transpose_1".
bool is_turned_name(const std::string& name) {
  const std::string call = without_numbers(name);
  return name.starts_with("onnx::MatMul_") || name.starts_with("val_") || call == "t" ||
         call == "t_#" || call == "transpose" || call == "transpose_#" || call == "permute" ||
         call == "permute_#" || call == "numpy_t" || call == "numpy_t_#";
}

// Exporters transpose the weight of an output layer ahead of time; where that weight is the
// embedding's, or else used as it is, the two part.
bool tie_output_layers(Graph& graph, PassContext& ctx) {
  bool changed = false;
  const std::vector<Value*> initializers = graph.initializers();
  std::unordered_set<const Value*> gone;  // erased by tie()
  for (Value* turned : initializers) {
    if (!is_weight(turned) || !is_turned_name(turned->name())) continue;
    for (Value* weight : initializers) {
      if (weight == turned || gone.count(weight) > 0 || !is_weight(weight) ||
          is_turned_name(weight->name()) ||
          !is_transpose(*turned->constant(), *weight->constant()) ||
          has_one_value(*weight->constant()))  // last, as it reads all of the table
        continue;
      // Two symmetric matrices, such as identities, may be equal by chance.
      if (!is_table(*weight) && is_transpose(*weight->constant(), *weight->constant())) continue;
      gone.insert(turned);
      tie(graph, ctx, turned, weight);
      changed = true;
      break;
    }
  }
  return changed;
}

using NotedKinds = std::unordered_map<std::string, std::string>;

// Named after a call of expand in a graph whose notes know of no such parameter or buffer, with
// equal slices along the first axis.
bool is_expansion(const Value& value, const NotedKinds& kinds) {
  if (kinds.empty() || kinds.count(value.name()) > 0) return false;
  const Tensor& tensor = *value.constant();
  const std::string name = without_numbers(value.name());
  if ((name != "expand" && name != "expand_#") || tensor.dims().size() < 2 ||
      tensor.dims()[0] < 2 || tensor.elems() > kMostCompared)
    return false;
  const std::vector<std::byte> bytes = tensor.copy_bytes();
  const std::size_t slice = bytes.size() / static_cast<std::size_t>(tensor.dims()[0]);
  for (std::size_t at = slice; slice > 0 && at + slice <= bytes.size(); at += slice) {
    if (std::memcmp(bytes.data(), bytes.data() + at, slice) != 0) return false;
  }
  return slice > 0 && value.uses().size() > 0 && !value.is_graph_output();
}

// torch.export's optimiser computes x.expand(batch, ...) of a parameter where the batch is fixed:
// each sample would then train a copy of its own.
bool undo_expansions(Graph& graph, PassContext& ctx) {
  bool changed = false;
  const NotedKinds kinds = noted_kinds(graph);
  const std::vector<Value*> initializers = graph.initializers();
  for (Value* expanded : initializers) {
    if (!is_weight(expanded) || !is_expansion(*expanded, kinds)) continue;
    const TensorRef tensor = expanded->constant();
    const std::vector<std::int64_t> dims = tensor->dims();
    std::vector<std::int64_t> one = dims;
    one[0] = 1;
    std::vector<std::byte> bytes = tensor->copy_bytes();
    bytes.resize(bytes.size() / static_cast<std::size_t>(dims[0]));
    const std::string name = expanded->name();
    graph.rename(expanded, graph.unique_name(name + "/expanded"));
    const std::vector<Value*> operands = {
        graph.add_initializer(name, Tensor::from_bytes(tensor->dtype(), one, std::move(bytes))),
        graph.add_initializer(graph.unique_name(name + "/shape"),
                              Tensor::from_ints({static_cast<std::int64_t>(dims.size())}, dims))};
    const std::vector<std::string> names = {graph.unique_name(name + "/by_sample")};
    Node* node = graph.add_node("Expand", "", operands, names, graph.nodes().front().get());
    node->name = names[0];
    node->result()->type = expanded->type;
    graph.replace_uses(expanded, node->result());
    graph.erase_initializer(expanded);
    ctx.records.warnings.push_back("the exporter expanded '" + name + "' over the batch of " +
                                   std::to_string(dims[0]) +
                                   " ahead of time: it is trained as one for all samples");
    ctx.stats.add("expansions-undone", 1);
    changed = true;
  }
  return changed;
}

}  // namespace

bool restore_ties(Graph& graph, PassContext& ctx) {
  const bool tied = tie_output_layers(graph, ctx);
  return undo_expansions(graph, ctx) || tied;
}

}  // namespace mezzo::passes
