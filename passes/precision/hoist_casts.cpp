#include "passes/precision/hoist_casts.h"

#include <algorithm>
#include <vector>

#include "compiler/ops/constants.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/schema.h"
#include "compiler/support/text.h"
#include "passes/cleanup/expand_functions.h"
#include "passes/cleanup/match.h"
#include "passes/precision/cost_model.h"

namespace mezzo::passes {
namespace {

// What the user or the default policy keeps in FP32 must not become low by the back door.
bool is_pinned(const Node& node, const OpDef& def, const PassContext& ctx,
               const std::vector<Pattern>& pins) {
  if (def.pin != PinKind::kNone) return true;
  const auto& denied = ctx.policy.deny_ops;
  if (std::find(denied.begin(), denied.end(), node.op_type()) != denied.end()) return true;
  const std::string& name = node.name.empty() ? node.result()->name() : node.name;
  return std::any_of(pins.begin(), pins.end(),
                     [&](const Pattern& pin) { return pin.matches(name); });
}

// The one node whose result only the cast reads, that moves one floating operand and grows it.
Node* movable(const Node& cast, DType to, const PassContext& ctx, const std::vector<Pattern>& pins,
              std::int64_t opset) {
  Value* moved = cast.operand(0);
  Node* node = moved->producer();
  if (node == nullptr || node->graph() != cast.graph() || !has_one_reader(*moved)) return nullptr;
  const OpDef* def = find_op(*node);
  if (def == nullptr || def->precision != PrecisionCategory::kClear || node->results().size() != 1)
    return nullptr;
  if (!node->subgraphs().empty() || node->is("Cast") || node->operand(0) == nullptr) return nullptr;
  if (constant_of(node->operand(0)) || is_pinned(*node, *def, ctx, pins)) return nullptr;
  for (std::size_t i = 1; i < node->operand_count(); ++i) {
    if (node->operand(i) != nullptr && is_floating(node->operand(i)->dtype())) return nullptr;
  }
  if (node->operand(0)->dtype() != moved->dtype()) return nullptr;
  if (!ctx.for_runtime && !operand_accepts(*node, 0, to, opset).value_or(false)) return nullptr;
  return estimated_elems(*node->operand(0)) < estimated_elems(*moved) ? node : nullptr;
}

bool hoist_in(Graph& graph, std::int64_t opset, PassContext& ctx,
              const std::vector<Pattern>& pins) {
  bool changed = false;
  for (Node* cast : graph.node_list()) {
    if (!cast->is("Cast") || cast->operand(0) == nullptr || !is_floating(cast->operand(0)->dtype()))
      continue;
    const DType to = cast->result()->dtype();
    if (!is_floating(to)) continue;
    while (Node* node = movable(*cast, to, ctx, pins, opset)) {
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
  std::vector<Pattern> pins;
  for (const std::string& text : ctx.policy.pins) {
    MEZZO_ASSIGN_OR_RETURN(Pattern pin, Pattern::compile(text, "--pin"));
    pins.push_back(std::move(pin));
  }
  bool changed = false;
  for_each_graph(*model.graph, [&](Graph& graph) {
    changed = hoist_in(graph, opset_at(model, graph, ""), ctx, pins) || changed;
  });
  return changed;
}

}  // namespace mezzo::passes
