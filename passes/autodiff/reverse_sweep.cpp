#include "passes/autodiff/reverse_sweep.h"

#include <string>

#include "compiler/ops/schema.h"

namespace mezzo::passes {
namespace {

Status check_shape(const Node& node, std::size_t i, const Value& gradient) {
  const TensorType& want = node.operand(i)->tensor_type();
  if (gradient.type.is_tensor() && want.has_static_shape() &&
      gradient.tensor_type().has_static_shape() && want.dims() != gradient.tensor_type().dims()) {
    return internal_error("gradient of " + describe(node) + ", operand " + std::to_string(i) +
                          ": expected " + to_string(want) + ", got " + to_string(gradient.type));
  }
  return ok_status();
}

// Rules of a policy that go by metadata hold for the gradient of a node as for the node.
void pass_on_metadata(const Node& node, const Graph& graph, std::size_t new_nodes) {
  auto last = graph.nodes().rbegin();
  for (std::size_t i = 0; i < new_nodes; ++i, ++last) (*last)->metadata = node.metadata;
}

}  // namespace

Value* ReverseSweep::total(const Value& value) {
  const auto found = gradients_.find(&value);
  if (found == gradients_.end()) return nullptr;
  std::vector<Value*>& parts = found->second;
  if (parts.size() > 1) {
    Value* sum = builder_.mezzo_op("AddN", parts);
    parts = {sum};
    stats_.add("gradients-summed", 1);
  }
  return parts.front();
}

Status ReverseSweep::visit(Node& node) {
  std::vector<Value*> result_grads;
  bool any = false;
  builder_.set_scope(node.name.empty() ? std::string("gradient") : node.name + "/gradient");
  for (const Value* result : node.results()) {
    const bool is_active = result != nullptr && active_.count(result) > 0;
    result_grads.push_back(is_active ? total(*result) : nullptr);
    any = any || result_grads.back() != nullptr;
  }
  if (!any) return ok_status();
  GradientContext request{builder_, node, std::move(result_grads), {}};
  const Value* wanted_operand = nullptr;
  for (const Value* operand : node.operands()) {
    const bool wanted = operand != nullptr && active_.count(operand) > 0;
    request.wanted.push_back(wanted);
    if (wanted) wanted_operand = operand;
  }
  if (const Value* captured = first_capture(node, active_)) {
    return unimplemented(describe(node) + ": the gradient of '" + captured->name() +
                         "' is needed, but " + "its branches or body read it" + std::string(hint_));
  }
  if (wanted_operand == nullptr) return ok_status();
  const std::size_t before = builder_.graph().nodes().size();
  MEZZO_ASSIGN_OR_RETURN(const std::vector<Value*> grads,
                         gradients_of(node, request, *wanted_operand));
  pass_on_metadata(node, builder_.graph(), builder_.graph().nodes().size() - before);
  MEZZO_RETURN_IF_ERROR(builder_.status().with_context("gradient of " + describe(node)));
  for (std::size_t i = 0; i < grads.size() && i < request.wanted.size(); ++i) {
    if (grads[i] == nullptr || !request.wanted[i]) continue;
    MEZZO_RETURN_IF_ERROR(check_shape(node, i, *grads[i]));
    gradients_[node.operand(i)].push_back(grads[i]);
  }
  stats_.add("nodes-differentiated", 1);
  return ok_status();
}

StatusOr<std::vector<Value*>> ReverseSweep::gradients_of(const Node& node, GradientContext& request,
                                                         const Value& operand) {
  if (const auto missing = missing_operand(node)) {
    return invalid_argument(describe(node) + ": operand " + std::to_string(*missing) +
                            " is missing");
  }
  const OpDef* def = find_op(node);
  if (def != nullptr && def->gradient != nullptr) return def->gradient(request);
  std::string why =
      def == nullptr ? "the operator is unknown" : std::string(def->not_differentiable);
  if (why.empty()) why = "it has no gradient rule";
  return unimplemented(describe(node) + ": the gradient of '" + operand.name() +
                       "' is needed, but " + why + std::string(hint_));
}

}  // namespace mezzo::passes
