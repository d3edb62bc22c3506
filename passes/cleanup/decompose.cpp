// Operators without a kernel become nodes that have one, by the catalogue's decompositions or their
// ONNX function bodies (compiler/ops/decompose.h), until nothing is left to spell out. For graphs
// that our runtime executes; exported models keep their operators.
//
// For training the same is done with operators that have a kernel but no gradient rule.
//
// Leaves folding of what thereby becomes constant to `fold-constants`.

#include "passes/cleanup/decompose.h"

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "compiler/ops/decompose.h"
#include "compiler/ops/op_def.h"

namespace mezzo::passes {
namespace {

// Bodies nest a few levels deep (Attention holds Softmax-like parts); a body that leads back to its
// own operator must not run forever.
constexpr int kMostRounds = 8;

using Wanted = bool (*)(const Node& node);

// Constants that the operator takes no gradient of (tables of RotaryEmbedding, say) and nobody else
// reads: they are no weights of what it is spelled out in either.
void note_tables(const Node& node, PassContext& ctx) {
  const auto takes_none = [](const Use& use) {
    const OpDef* def = find_op(*use.node);
    return def != nullptr && use.operand < 32 &&
           (def->no_gradient_operands >> use.operand & 1U) != 0;
  };
  for (const Value* operand : node.operands()) {
    if (operand == nullptr || !operand->constant() || !is_floating(operand->dtype())) continue;
    const auto& uses = operand->uses();
    if (std::all_of(uses.begin(), uses.end(), takes_none)) {
      ctx.computed_constants.insert(operand->name());
    }
  }
}

bool has_no_kernel(const Node& node) { return !lower(node).ok(); }

StatusOr<bool> decompose_once(Model& model, PassContext& ctx, Wanted wanted) {
  bool changed = false;
  for (Node* node : model.graph->node_list()) {
    if (!wanted(*node)) continue;
    note_tables(*node, ctx);
    MEZZO_ASSIGN_OR_RETURN(const bool replaced, mezzo::decompose(*node, &model));
    if (!replaced) continue;
    ctx.stats.add("nodes-decomposed", 1);
    changed = true;
  }
  return changed;
}

StatusOr<bool> decompose_all(Model& model, PassContext& ctx, Wanted wanted) {
  const std::vector<Value*>& initializers = model.graph->initializers();
  const std::unordered_set<const Value*> before(initializers.begin(), initializers.end());
  std::vector<Type> output_types;
  for (const Value* output : model.graph->outputs()) output_types.push_back(output->type);
  bool changed = false;
  for (int round = 0; round < kMostRounds; ++round) {
    MEZZO_ASSIGN_OR_RETURN(const bool again, decompose_once(model, ctx, wanted));
    if (!again) break;
    changed = true;
  }
  // What inference cannot tell of the new nodes, the model has said of its outputs.
  for (std::size_t i = 0; i < output_types.size(); ++i) {
    Type& type = model.graph->outputs()[i]->type;
    const bool knew_more = output_types[i].is_tensor() &&
                           output_types[i].tensor.has_static_shape() && type.is_tensor() &&
                           type.tensor.dtype == output_types[i].tensor.dtype;
    if (knew_more && !type.tensor.has_static_shape()) type = output_types[i];
  }
  // The constants of the new nodes are nothing that a model could have learned.
  for (const Value* value : model.graph->initializers()) {
    if (before.count(value) == 0) ctx.computed_constants.insert(value->name());
  }
  return changed;
}

}  // namespace

StatusOr<bool> decompose(Model& model, PassContext& ctx) {
  return decompose_all(model, ctx, has_no_kernel);
}

StatusOr<bool> decompose_for_gradient(Model& model, PassContext& ctx) {
  return decompose_all(model, ctx, is_differentiated_decomposed);
}

}  // namespace mezzo::passes
