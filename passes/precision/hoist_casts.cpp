#include "passes/precision/hoist_casts.h"

#include <string>
#include <utility>

#include "compiler/ops/constants.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/schema.h"
#include "compiler/report/format.h"
#include "passes/cleanup/function_table.h"
#include "passes/cleanup/match.h"
#include "passes/precision/borders.h"
#include "passes/precision/cost_model.h"
#include "passes/precision/rules.h"

namespace mezzo::passes {
namespace {

// What the user or the policy keeps in FP32 must not become low by the back door.
bool is_held(const Node& node, const OpDef& def, const PrecisionPolicy& policy,
             const RuleMatcher& rules) {
  if (def.pin != PinKind::kNone) return true;
  const PolicyRule* rule = rules.find(node, node.op_type());
  if (rule == nullptr) return policy.run(def.precision) == CategoryRun::kFp32;
  return rule->effect == RuleEffect::kFp32 || rule->effect == RuleEffect::kDeny ||
         rule->effect == RuleEffect::kFp32Statistics;
}

// The one node whose result only the cast reads, that moves one floating operand and grows it.
Node* movable(const Node& cast, DType to, const PassContext& ctx, const RuleMatcher& rules,
              std::int64_t opset) {
  Value* moved = cast.operand(0);
  Node* node = moved->producer();
  if (node == nullptr || node->graph() != cast.graph() || !has_one_reader(*moved)) return nullptr;
  const OpDef* def = find_op(*node);
  if (def == nullptr || def->precision != PrecisionCategory::kClear || node->results().size() != 1)
    return nullptr;
  if (!node->subgraphs().empty() || node->is("Cast") || node->operand(0) == nullptr) return nullptr;
  if (constant_of(node->operand(0)) || is_held(*node, *def, ctx.policy, rules)) return nullptr;
  for (std::size_t i = 1; i < node->operand_count(); ++i) {
    if (node->operand(i) != nullptr && is_floating(node->operand(i)->dtype())) return nullptr;
  }
  if (node->operand(0)->dtype() != moved->dtype()) return nullptr;
  if (!ctx.for_runtime && !operand_accepts(*node, 0, to, opset).value_or(false)) return nullptr;
  return estimated_elems(*node->operand(0)) < estimated_elems(*moved) ? node : nullptr;
}

class Hoister {
 public:
  Hoister(PassContext& ctx, RuleMatcher rules) : ctx_(ctx), rules_(std::move(rules)) {}

  bool run(Graph& graph, std::int64_t opset) {
    bool changed = false;
    for (Node* cast : graph.node_list()) {
      if (!cast->is("Cast") || cast->operand(0) == nullptr ||
          !is_floating(cast->operand(0)->dtype()) || !is_floating(cast->result()->dtype()))
        continue;
      while (Node* node = movable(*cast, cast->result()->dtype(), ctx_, rules_, opset)) {
        move_above(*cast, *node);
        changed = true;
      }
    }
    return changed;
  }

 private:
  // x -> node -> moved -> cast -> result  becomes  x -> cast -> result -> node -> moved
  void move_above(Node& cast, Node& node) {
    Graph& graph = *cast.graph();
    Value *x = node.operand(0), *moved = node.result(), *result = cast.result();
    const DType to = result->dtype();
    const std::string names[] = {moved->name(), result->name()};  // the record has one of them
    graph.replace_uses(result, moved);
    moved->type.tensor.dtype = to;
    result->type = x->type;
    result->type.tensor.dtype = to;
    cast.set_operand(0, x);
    node.set_operand(0, result);
    graph.move_before(&cast, &node);
    graph.rename(result, graph.unique_name(x->name() + "_" + std::string(short_dtype(to))));
    cast.name = "cast/" + result->name();
    for (const std::string& name : names) retarget_cast(graph, name, *x, node, to);
    note_node(node, to);
    ctx_.stats.add("casts-hoisted", 1);
  }

  void retarget_cast(const Graph& graph, const std::string& name, const Value& x, const Node& node,
                     DType to) {
    const std::string scope = scope_of(graph);
    for (CastDecision& cast : ctx_.records.casts) {
      if (cast.value != name || cast.scope != scope || cast.to != to || cast.ahead_of_time)
        continue;
      cast.value = x.name();
      cast.producer = x.producer() != nullptr ? display_name(*x.producer()) : "input";
      cast.consumers = {display_name(node)};
      cast.bytes = static_cast<std::uint64_t>(estimated_elems(x)) * (4 + 2);
      cast.cause += ", moved above '" + display_name(node) + "'";
    }
  }

  void note_node(const Node& node, DType to) {
    const std::string scope = scope_of(*node.graph()), name = display_name(node);
    for (NodeDecision& decision : ctx_.records.nodes) {
      if (decision.node != name || decision.scope != scope) continue;
      decision.dtype = to;
      decision.cause += ", the cast behind it moved above it";
    }
  }

  PassContext& ctx_;
  RuleMatcher rules_;
};

}  // namespace

StatusOr<bool> hoist_casts(Model& model, PassContext& ctx) {
  MEZZO_ASSIGN_OR_RETURN(RuleMatcher rules, RuleMatcher::create(ctx.policy));
  const FunctionTable functions(model);
  Hoister hoister(ctx, std::move(rules));
  bool changed = false;
  for_each_graph(*model.graph, [&](Graph& graph) {
    changed = hoister.run(graph, functions.opset(graph, "")) || changed;
  });
  return changed;
}

}  // namespace mezzo::passes
