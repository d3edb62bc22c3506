#include "passes/precision/hoist_casts.h"

#include "compiler/ops/constants.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/schema.h"
#include "passes/cleanup/function_table.h"
#include "passes/cleanup/match.h"
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

bool hoist_in(Graph& graph, std::int64_t opset, PassContext& ctx, const RuleMatcher& rules) {
  bool changed = false;
  for (Node* cast : graph.node_list()) {
    if (!cast->is("Cast") || cast->operand(0) == nullptr || !is_floating(cast->operand(0)->dtype()))
      continue;
    const DType to = cast->result()->dtype();
    if (!is_floating(to)) continue;
    while (Node* node = movable(*cast, to, ctx, rules, opset)) {
      // x -> node -> moved -> cast -> result  becomes  x -> cast -> moved' -> node -> result
      Value* x = node->operand(0);
      Value* moved = node->result();
      Value* result = cast->result();
      graph.replace_uses(result, moved);
      moved->type.tensor.dtype = to;
      result->type = x->type;
      result->type.tensor.dtype = to;
      cast->set_operand(0, x);
      node->set_operand(0, result);
      graph.move_before(cast, node);
      ctx.stats.add("casts-hoisted", 1);
      changed = true;
    }
  }
  return changed;
}

}  // namespace

StatusOr<bool> hoist_casts(Model& model, PassContext& ctx) {
  MEZZO_ASSIGN_OR_RETURN(const RuleMatcher rules, RuleMatcher::create(ctx.policy));
  const FunctionTable functions(model);
  bool changed = false;
  for_each_graph(*model.graph, [&](Graph& graph) {
    changed = hoist_in(graph, functions.opset(graph, ""), ctx, rules) || changed;
  });
  return changed;
}

}  // namespace mezzo::passes
