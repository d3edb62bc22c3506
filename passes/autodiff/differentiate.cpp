// Reverse-mode differentiation on the graph.
//
// 1. Choose the loss and the trained initializers (select_parameters.h).
// 2. A node is active if it lies between one of these and the loss.
// 3. From the last active node to the first: add up the gradients that arrived at each result, ask
//    the op's gradient rule (op catalogue) for those of its operands, and pass them on.
// 4. The gradients of the trained initializers become graph outputs.
//
// Leaves simplification of the new nodes to the cleanup passes. Griewank and Walther, "Evaluating
// Derivatives", 2nd edition, chapter 3.

#include "passes/autodiff/differentiate.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/ir/builder.h"
#include "compiler/ops/op_def.h"
#include "passes/autodiff/activity.h"
#include "passes/autodiff/select_parameters.h"

namespace mezzo::passes {
namespace {

constexpr const char* kLossGradient = "loss_gradient";
constexpr const char* kGradientPrefix = "gradient/";
constexpr const char* kHint =
    ". Hint: --freeze the parameters before it, or export the model without it";

class Differentiator {
 public:
  Differentiator(Model& model, PassContext& ctx, Value& loss)
      : graph_(*model.graph), ctx_(ctx), loss_(loss), builder_(graph_, type_inference(model)) {}

  Status run(const std::vector<ParameterChoice>& choices) {
    ValueSet trained;
    for (const ParameterChoice& choice : choices) {
      if (choice.trained) trained.insert(choice.value);
    }
    const ValueSet forward = depends_on(graph_, trained);
    const ValueSet backward = influences(loss_);
    for (const Value* value : forward) {
      if (backward.count(value) > 0) active_.insert(value);
    }
    const std::vector<Node*> nodes = graph_.node_list();
    seed();
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node)
      MEZZO_RETURN_IF_ERROR(visit(**node));
    for (const ParameterChoice& choice : choices) {
      if (choice.trained) MEZZO_RETURN_IF_ERROR(publish(*choice.value));
    }
    return builder_.status();
  }

 private:
  void seed() {
    builder_.set_scope(kLossGradient);
    Value* start =
        graph_.add_input(graph_.unique_name(kLossGradient), TensorType(DType::kFloat32, {}));
    ctx_.training->loss_gradient = start->name();
    if (!loss_.tensor_type().shape->empty()) {  // a loss of shape [1] counts as a scalar
      start = builder_.op("Reshape", {start, builder_.ints(loss_.tensor_type().dims())});
    }
    gradients_[&loss_].push_back(start);
  }

  // The sum of what arrived at `value`; null if nothing did.
  Value* total(const Value& value) {
    const auto found = gradients_.find(&value);
    if (found == gradients_.end()) return nullptr;
    std::vector<Value*>& parts = found->second;
    if (parts.size() > 1) {
      Value* sum = builder_.mezzo_op("AddN", parts);
      parts = {sum};
      ctx_.stats.add("gradients-summed", 1);
    }
    return parts.front();
  }

  Status visit(Node& node) {
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
                           "' is needed, but " + "its branches or body read it" + kHint);
    }
    if (wanted_operand == nullptr) return ok_status();
    MEZZO_ASSIGN_OR_RETURN(const std::vector<Value*> grads,
                           gradients_of(node, request, *wanted_operand));
    MEZZO_RETURN_IF_ERROR(builder_.status().with_context("gradient of " + describe(node)));
    for (std::size_t i = 0; i < grads.size() && i < request.wanted.size(); ++i) {
      if (grads[i] == nullptr || !request.wanted[i]) continue;
      MEZZO_RETURN_IF_ERROR(check_shape(node, i, *grads[i]));
      gradients_[node.operand(i)].push_back(grads[i]);
    }
    ctx_.stats.add("nodes-differentiated", 1);
    return ok_status();
  }

  StatusOr<std::vector<Value*>> gradients_of(const Node& node, GradientContext& request,
                                             const Value& operand) {
    const OpDef* def = find_op(node);
    if (def != nullptr && def->gradient != nullptr) return def->gradient(request);
    std::string why =
        def == nullptr ? "the operator is unknown" : std::string(def->not_differentiable);
    if (why.empty()) why = "it has no gradient rule";
    return unimplemented(describe(node) + ": the gradient of '" + operand.name() +
                         "' is needed, but " + why + kHint);
  }

  static Status check_shape(const Node& node, std::size_t i, const Value& gradient) {
    const TensorType& want = node.operand(i)->tensor_type();
    if (gradient.type.is_tensor() && want.has_static_shape() &&
        gradient.tensor_type().has_static_shape() && want.dims() != gradient.tensor_type().dims()) {
      return internal_error("gradient of " + describe(node) + ", operand " + std::to_string(i) +
                            ": expected " + to_string(want) + ", got " + to_string(gradient.type));
    }
    return ok_status();
  }

  Status publish(const Value& parameter) {
    builder_.set_scope(kGradientPrefix + parameter.name());
    Value* gradient = total(parameter);
    if (gradient == nullptr) {
      return internal_error("parameter '" + parameter.name() +
                            "' is active, but no gradient reached it");
    }
    if (gradient->is_graph_output() || gradient->is_graph_input() || gradient->is_initializer()) {
      gradient = builder_.op("Identity", {gradient});
    }
    const std::string name = graph_.unique_name(kGradientPrefix + parameter.name());
    graph_.rename(gradient, name);
    graph_.add_output(gradient);
    ctx_.training->gradients[parameter.name()] = name;
    return ok_status();
  }

  Graph& graph_;
  PassContext& ctx_;
  Value& loss_;
  Builder builder_;
  ValueSet active_;
  std::unordered_map<const Value*, std::vector<Value*>> gradients_;
};

}  // namespace

StatusOr<bool> differentiate(Model& model, PassContext& ctx) {
  MEZZO_ASSIGN_OR_RETURN(Value* const loss,
                         find_loss(*model.graph, ctx.training_options.loss_output));
  MEZZO_ASSIGN_OR_RETURN(
      const auto choices,
      select_parameters(*model.graph, *loss, ctx.training_options, ctx.computed_constants));
  if (!ctx.training) ctx.training.emplace();
  ctx.training->loss = loss->name();
  MEZZO_RETURN_IF_ERROR(Differentiator(model, ctx, *loss).run(choices));
  return true;
}

}  // namespace mezzo::passes
