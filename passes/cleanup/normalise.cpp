// One walk in graph order; every rule looks at one node and its operands:
//
// 1. no-ops: the result is the operand;
// 2. sequences that only carry the parts of a split: Split;
// 3. CastLike: Cast to the type that its second operand has.

#include "passes/cleanup/normalise.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "compiler/ir/builder.h"
#include "compiler/ops/op_def.h"

namespace mezzo::passes {
namespace {

std::optional<std::vector<std::int64_t>> constant_ints(const Value* value) {
  if (value == nullptr || !value->is_fixed() || !value->constant()) return std::nullopt;
  return value->constant()->to_ints();
}

bool same_type(const Value& a, const Value& b) {
  return a.type.is_tensor() && b.type.is_tensor() && a.type.tensor.has_static_shape() &&
         a.type.tensor == b.type.tensor;
}

// Dropout in inference form, or with a ratio of zero; its mask unused.
bool drops_nothing(const Node& node) {
  if (!node.is("Dropout") || (node.result(1) != nullptr && node.result(1)->has_uses()))
    return false;
  if (node.operand(1) == nullptr && node.operand_count() < 2 && node.has_attribute("ratio")) {
    return node.float_attribute("ratio", 0.5F) == 0.0F;
  }
  const Value* ratio = node.operand(1);
  if (ratio != nullptr && ratio->is_fixed() && ratio->constant()) {
    const std::vector<double> values = ratio->constant()->to_doubles();
    return values.size() == 1 && values.front() == 0.0;
  }
  return false;
}

bool keeps_order(const Node& node) {
  std::vector<std::int64_t> identity(node.operand(0)->tensor_type().rank().value_or(0));
  std::iota(identity.begin(), identity.end(), 0);
  const std::vector<std::int64_t> reversed(identity.rbegin(), identity.rend());
  return node.ints_attribute("perm", reversed) == identity;
}

// A slice of equal shape could still run backwards.
bool steps_forward(const Node& node) {
  if (node.operand(4) == nullptr) return true;
  const auto steps = constant_ints(node.operand(4));
  return steps &&
         std::all_of(steps->begin(), steps->end(), [](std::int64_t step) { return step == 1; });
}

bool changes_nothing(const Node& node) {
  const Value *operand = node.operand(0), *result = node.result();
  if (operand == nullptr || result == nullptr) return false;
  if (node.is("Identity") || drops_nothing(node)) return true;
  if (!same_type(*operand, *result)) return false;
  if (node.is("Transpose")) return keeps_order(node);
  if (node.is("Slice")) return steps_forward(node);
  return node.is("Cast") || node.is("Expand") || node.is("Reshape") || node.is("Flatten") ||
         node.is("Squeeze") || node.is("Unsqueeze");
}

class Normaliser {
 public:
  Normaliser(Model& model, PassContext& ctx) : model_(model), graph_(*model.graph), ctx_(ctx) {}

  StatusOr<bool> run() {
    std::vector<Node*> splits;
    for (Node* node : graph_.node_list()) {
      if (node->is("CastLike")) replace_cast_like(*node);
    }
    // Replacing a split erases nodes behind it: a list of its own, of nodes that none of this
    // erases.
    for (Node* node : graph_.node_list()) {
      if (node->is("SplitToSequence")) splits.push_back(node);
    }
    for (Node* split : splits) {
      MEZZO_RETURN_IF_ERROR(replace_sequence(*split));
    }
    for (Node* node : graph_.node_list()) {
      if (changes_nothing(*node)) remove(*node);
    }
    return changed_;
  }

 private:
  void remove(Node& node) {
    Value* operand = node.operand(0);
    Value* result = node.result();
    // A graph output that is an input, an initializer or another output needs a node between.
    const bool public_operand =
        operand->is_graph_output() || operand->is_graph_input() || operand->is_initializer();
    if (result->is_graph_output() && (public_operand || operand->graph() != &graph_)) return;
    graph_.replace_uses(result, operand);
    graph_.erase(&node);
    ctx_.stats.add("no-ops-removed", 1);
    changed_ = true;
  }

  void replace_cast_like(Node& node) {
    const Value* like = node.operand(1);
    if (like == nullptr || like->dtype() == DType::kNone) return;
    const auto to = static_cast<std::int64_t>(like->dtype());
    graph_.change_op(&node, "Cast");
    node.set_operand(1, nullptr);
    node.trim_operands();
    node.set_attribute("to", to);
    changed_ = true;
  }

  // The parts' sizes along the axis; nullopt if they are not known.
  static std::optional<std::vector<std::int64_t>> part_sizes(const Node& split, std::int64_t axis) {
    const Value* input = split.operand(0);
    if (input == nullptr || !input->type.is_tensor() || !input->tensor_type().has_static_shape())
      return std::nullopt;
    const std::vector<std::int64_t> dims = input->tensor_type().dims();
    if (axis < 0) axis += static_cast<std::int64_t>(dims.size());
    if (axis < 0 || axis >= static_cast<std::int64_t>(dims.size())) return std::nullopt;
    const std::int64_t size = dims[static_cast<std::size_t>(axis)];
    if (split.operand(1) == nullptr)
      return std::vector<std::int64_t>(static_cast<std::size_t>(size), 1);
    auto given = constant_ints(split.operand(1));
    if (!given || given->empty()) return std::nullopt;
    if (!split.operand(1)->constant()->dims().empty()) return given;
    const std::int64_t part =
        given->front();  // a scalar: pieces of that size, the last one may be smaller
    if (part <= 0) return std::nullopt;
    std::vector<std::int64_t> sizes;
    for (std::int64_t left = size; left > 0; left -= part) sizes.push_back(std::min(part, left));
    return sizes;
  }

  // SplitToSequence whose sequence is only read by SequenceAt with constant positions.
  Status replace_sequence(Node& split) {
    const std::int64_t axis = split.int_attribute("axis", 0);
    const auto sizes = part_sizes(split, axis);
    // keepdims = 0 drops the axis of parts of size 1, if no sizes are given.
    if (!sizes || sizes->size() > 1024 ||
        (split.operand(1) == nullptr && split.int_attribute("keepdims", 1) == 0) ||
        split.result()->is_graph_output()) {
      return ok_status();
    }
    const std::vector<Use> uses = split.result()->uses();
    for (const Use& use : uses) {
      const auto position = constant_ints(use.node->operand(1));
      if (!use.node->is("SequenceAt") || use.operand != 0 || use.node->graph() != &graph_ ||
          !position || position->size() != 1 || !in_range(position->front(), sizes->size())) {
        return ok_status();
      }
    }
    Builder builder(graph_, type_inference(model_), &split);
    builder.set_scope(split.name.empty() ? "split" : split.name);
    Node* parts = builder.node("Split", {split.operand(0), builder.ints(*sizes)}, sizes->size(),
                               {{"axis", axis}});
    MEZZO_RETURN_IF_ERROR(builder.status());
    for (const Use& use : uses) {
      std::int64_t position = constant_ints(use.node->operand(1))->front();
      if (position < 0) position += static_cast<std::int64_t>(sizes->size());
      graph_.replace_uses(use.node->result(), parts->result(static_cast<std::size_t>(position)));
      graph_.erase(use.node);
    }
    graph_.erase(&split);
    changed_ = true;
    return ok_status();
  }

  static bool in_range(std::int64_t position, std::size_t count) {
    const auto n = static_cast<std::int64_t>(count);
    return position >= -n && position < n;
  }

  Model& model_;
  Graph& graph_;
  PassContext& ctx_;
  bool changed_ = false;
};

}  // namespace

StatusOr<bool> normalise(Model& model, PassContext& ctx) { return Normaliser(model, ctx).run(); }

}  // namespace mezzo::passes
