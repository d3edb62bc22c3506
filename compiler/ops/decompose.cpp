#include "compiler/ops/decompose.h"

#include <string>
#include <string_view>

#include "compiler/ops/decompose_contrib.h"
#include "compiler/ops/decompose_contrib_training.h"
#include "compiler/ops/decompose_rules.h"
#include "compiler/ops/families.h"
#include "compiler/ops/lowering_helpers.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/schema.h"

namespace mezzo {
namespace {

using Rule = StatusOr<Results> (*)(Builder&, const Node&);

struct Entry {
  std::string_view op;
  Rule rule;
};

constexpr Entry kRules[] = {
    {"Max", decompose_many},
    {"Min", decompose_many},
    {"Tile", decompose_tile},
    {"ConstantOfShape", decompose_constant_of_shape},
    {"DepthToSpace", decompose_depth_to_space},
    {"SpaceToDepth", decompose_depth_to_space},
    {"Einsum", decompose_einsum},
    {"InstanceNormalization", decompose_instance_norm},
    {"GroupNormalization", decompose_group_norm_onnx},
    {"Compress", decompose_compress},
    {"NegativeLogLikelihoodLoss", decompose_nll_loss},
    {"Resize", decompose_resize},
};

// Of ONNX Runtime's training artifacts: any of their results may be absent.
bool is_of_training(const Node& node) {
  const bool known = node.domain() == "com.microsoft" ||
                     (node.domain().empty() && is_training_op_of_onnx_domain(node.op_type()));
  return known && contrib_training_rule(node.op_type()) != nullptr;
}

Rule rule_for(const Node& node) {
  if (is_of_training(node)) return contrib_training_rule(node.op_type());
  if (node.domain() == "com.microsoft") return contrib_rule(node.op_type());
  if (!node.domain().empty()) return nullptr;
  for (const Entry& entry : kRules) {
    if (entry.op == node.op_type()) return entry.rule;
  }
  return nullptr;
}

}  // namespace

bool is_differentiated_decomposed(const Node& node) {
  const OpDef* op = find_op(node);
  return op != nullptr && op->gradient == nullptr &&
         (op->not_differentiable == kFunctionBodyRule || op->not_differentiable == kDecomposedRule);
}

StatusOr<bool> decompose(Node& node, const Model* model) {
  if (const auto missing = missing_operand(node)) {
    MEZZO_RETURN_IF_ERROR(require_operand(node, *missing));
  }
  const Rule rule = rule_for(node);
  if (rule == nullptr) return expand_function_body(node, model);
  if (needs_first_operand(node)) MEZZO_RETURN_IF_ERROR(require_operand(node, 0));
  if (needs_first_result(node) && !is_of_training(node))
    MEZZO_RETURN_IF_ERROR(require_result(node, 0));
  Graph& graph = *node.graph();
  Builder builder(
      graph, [model](Node& inner) { return infer_types(inner, model); }, &node);
  builder.set_scope(node.name.empty() ? node.op_type() : node.name);
  MEZZO_ASSIGN_OR_RETURN(const Results results, rule(builder, node));
  if (results.empty()) return expand_function_body(node, model);
  MEZZO_RETURN_IF_ERROR(builder.status());
  for (std::size_t i = 0; i < node.results().size() && i < results.size(); ++i) {
    if (node.result(i) != nullptr) graph.replace_uses(node.result(i), results[i]);
  }
  graph.erase(&node);
  return true;
}

}  // namespace mezzo
