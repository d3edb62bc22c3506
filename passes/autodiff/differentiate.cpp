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
#include <set>
#include <string>
#include <vector>

#include "compiler/ir/builder.h"
#include "compiler/ops/op_def.h"
#include "passes/autodiff/activity.h"
#include "passes/autodiff/reverse_sweep.h"
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
    ValueSet active;
    for (const Value* value : forward) {
      if (backward.count(value) > 0) active.insert(value);
    }
    ReverseSweep sweep(builder_, std::move(active), ctx_.stats, kHint);
    const std::vector<Node*> nodes = graph_.node_list();
    sweep.add(loss_, seed());
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node)
      MEZZO_RETURN_IF_ERROR(sweep.visit(**node));
    for (const ParameterChoice& choice : choices) {
      if (choice.trained) MEZZO_RETURN_IF_ERROR(publish(*choice.value, sweep));
    }
    return builder_.status();
  }

 private:
  // The gradient of the loss by itself.
  Value* seed() {
    builder_.set_scope(kLossGradient);
    Value* start =
        graph_.add_input(graph_.unique_name(kLossGradient), TensorType(DType::kFloat32, {}));
    ctx_.training->loss_gradient = start->name();
    if (!loss_.tensor_type().shape->empty()) {  // a loss of shape [1] counts as a scalar
      start = builder_.op("Reshape", {start, builder_.ints(loss_.tensor_type().dims())});
    }
    return start;
  }

  Status publish(const Value& parameter, ReverseSweep& sweep) {
    builder_.set_scope(kGradientPrefix + parameter.name());
    Value* gradient = sweep.total(parameter);
    if (gradient == nullptr) {  // all ways to it are piecewise constant: Floor, nearest samples
      gradient = builder_.mezzo_op("FillZero", {});
      gradient->type = parameter.type;
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
};

}  // namespace

StatusOr<bool> differentiate(Model& model, PassContext& ctx) {
  std::set<std::string> states;
  if (ctx.training) {
    for (const auto& [statistic, output] : ctx.training->states) states.insert(output);
  }
  MEZZO_ASSIGN_OR_RETURN(Value* const loss,
                         find_loss(*model.graph, ctx.training_options.loss_output, states));
  MEZZO_ASSIGN_OR_RETURN(
      const auto choices,
      select_parameters(*model.graph, *loss, ctx.training_options, ctx.computed_constants));
  ctx.untrained = untrained(*model.graph, choices, ctx.computed_constants);
  if (!ctx.training) ctx.training.emplace();
  ctx.training->loss = loss->name();
  MEZZO_RETURN_IF_ERROR(Differentiator(model, ctx, *loss).run(choices));
  return true;
}

}  // namespace mezzo::passes
