// Folds cast chains and joins equal casts.
//
// Only where no value changes: compare XLA's SimplifyFPConversions, which may drop a rounding.

#include "passes/precision/fold_casts.h"

#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

namespace mezzo::passes {
namespace {

// Cast's further attributes (saturation, rounding mode) matter to types of 8 bits and fewer only.
bool is_plain_cast(const Node& node) {
  if (!node.is("Cast") || node.operand(0) == nullptr || node.result() == nullptr) return false;
  if (!node.operand(0)->type.is_tensor()) return false;
  return node.attributes().size() == 1 || is_floating(node.result()->dtype());
}

// The value to cast from instead of the node's operand: beyond casts that lose nothing.
Value* origin(const Node& cast) {
  Value* from = cast.operand(0);
  while (from->producer() != nullptr && is_plain_cast(*from->producer())) {
    const Node& inner = *from->producer();
    if (inner.graph() != cast.graph() || !keeps_values(inner.operand(0)->dtype(), from->dtype()))
      break;
    from = inner.operand(0);
  }
  return from;
}

class CastFolder {
 public:
  CastFolder(Graph& graph, PassContext& ctx) : graph_(graph), ctx_(ctx) {}

  bool run() {
    for (Node* node : graph_.node_list()) {
      if (is_plain_cast(*node) && node->result()->dtype() != DType::kNone) fold(*node);
    }
    return changed_;
  }

 private:
  void fold(Node& cast) {
    Value* from = origin(cast);
    Value* result = cast.result();
    if (from != cast.operand(0)) {
      Node* inner = cast.operand(0)->producer();
      cast.set_operand(0, from);
      changed_ = true;
      ctx_.stats.add("casts-folded", 1);
      erase_if_dead(*inner);
    }
    if (from->dtype() == result->dtype() && can_stand_for(*from, *result)) {
      remove(cast, from);
      return;
    }
    if (from->dtype() == result->dtype()) return make_identity(cast, from);
    const auto [entry, is_new] = first_cast_.try_emplace({from, result->dtype()}, &cast);
    if (is_new) {
      key_of_.emplace(&cast, entry->first);
      return;
    }
    Value* same = entry->second->result();
    if (can_stand_for(*same, *result)) {
      remove(cast, same);
    } else {
      make_identity(cast, same);
    }
  }

  // Uses of `result` may become uses of `value` without a node in between: not if both have public
  // names.
  static bool can_stand_for(const Value& value, const Value& result) {
    return !result.is_graph_output() ||
           (!value.is_graph_output() && !value.is_graph_input() && !value.is_initializer() &&
            value.graph() == result.graph());
  }

  // Two public names of one value need a node between them, but none that casts.
  void make_identity(Node& cast, Value* of) {
    graph_.change_op(&cast, "Identity");
    cast.set_operand(0, of);
    cast.mutable_attributes().clear();
    changed_ = true;
    ctx_.stats.add("casts-removed", 1);
  }

  void remove(Node& cast, Value* replacement) {
    graph_.replace_uses(cast.result(), replacement);
    graph_.erase(&cast);
    changed_ = true;
    ctx_.stats.add("casts-removed", 1);
  }

  void erase_if_dead(Node& node) {
    if (node.result()->has_uses()) return;
    if (const auto key = key_of_.find(&node); key != key_of_.end()) {
      first_cast_.erase(key->second);
      key_of_.erase(key);
    }
    graph_.erase(&node);
  }

  Graph& graph_;
  PassContext& ctx_;
  using Key = std::pair<const Value*, DType>;
  std::map<Key, Node*> first_cast_;
  std::unordered_map<const Node*, Key> key_of_;  // the key under which a cast is the first
  bool changed_ = false;
};

}  // namespace

StatusOr<bool> fold_casts(Model& model, PassContext& ctx) {
  bool changed = false;
  for_each_graph(*model.graph,
                 [&](Graph& graph) { changed = CastFolder(graph, ctx).run() || changed; });
  return changed;
}

}  // namespace mezzo::passes
