// One walk in graph order; every rule looks at one node and its operands:
//
// 1. no-ops: the result is the operand;
// 2. CastLike: Cast to the type that its second operand has.

#include "passes/cleanup/normalise.h"

#include <algorithm>
#include <numeric>

#include "compiler/ops/constants.h"

namespace mezzo::passes {
namespace {

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
  Normaliser(Model& model, PassContext& ctx) : graph_(*model.graph), ctx_(ctx) {}

  StatusOr<bool> run() {
    for (Node* node : graph_.node_list()) {
      if (replace_cast_like(*node)) changed_ = true;
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

  Graph& graph_;
  PassContext& ctx_;
  bool changed_ = false;
};

}  // namespace

bool replace_cast_like(Node& node) {
  if (!node.is("CastLike") || node.operand(1) == nullptr) return false;
  const DType to = node.operand(1)->dtype();
  if (to == DType::kNone) return false;
  node.graph()->change_op(&node, "Cast");
  node.set_operand(1, nullptr);
  node.trim_operands();
  node.set_attribute("to", static_cast<std::int64_t>(to));
  return true;
}

StatusOr<bool> normalise(Model& model, PassContext& ctx) { return Normaliser(model, ctx).run(); }

}  // namespace mezzo::passes
