// 1. Find the loss: a scalar output that has an initializer LOSS_grad.
// 2. Inputs with a default become initializers.
// 3. Training forms of normalisation, dropout and recurrent layers (adopt_layers.h,
//    adopt_recurrent.h).
// 4. The seed, and sums of what depends on it.
// 5. Accumulators give way to outputs; inputs that nothing reads any more go.
//
// Leaves gradients' operators to `decompose`.

#include "passes/autodiff/adopt_backward.h"

#include <algorithm>
#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include "compiler/artifacts/accumulators.h"
#include "compiler/ir/builder.h"
#include "compiler/ops/constants.h"
#include "compiler/ops/op_def.h"
#include "compiler/support/quotes.h"
#include "compiler/support/text.h"
#include "passes/autodiff/activity.h"
#include "passes/autodiff/adopt_layers.h"
#include "passes/autodiff/adopt_recurrent.h"
#include "passes/autodiff/pattern_list.h"

namespace mezzo::passes {
namespace {

constexpr const char* kGradientSuffix = "_grad";
constexpr const char* kLossGradient = "loss_gradient";
constexpr const char* kGradientPrefix = "gradient/";

// The number that the backward pass starts from, for an output that is a loss.
Value* seed_of(const Graph& graph, const Value& output) {
  Value* seed = graph.find(output.name() + kGradientSuffix);
  return seed != nullptr && seed->is_fixed() && seed->constant() ? seed : nullptr;
}

StatusOr<Value*> find_seeded_loss(const Graph& graph, const std::string& name) {
  std::vector<std::string> all, seeded;
  Value* loss = nullptr;
  for (Value* output : graph.outputs()) {
    if (!is_floating(output->dtype())) continue;
    all.push_back(output->name());
    if (seed_of(graph, *output) == nullptr || (!name.empty() && output->name() != name)) continue;
    seeded.push_back(output->name());
    loss = output;
  }
  if (seeded.size() == 1) return loss;
  if (!seeded.empty()) {
    return invalid_argument("more than one output has a gradient to start from: " +
                            join(seeded, ", ") + ". Hint: choose the loss with --loss-output NAME");
  }
  if (!name.empty()) {
    return invalid_argument("--loss-output " + in_quotes(name) +
                            ": the graph's backward pass starts from no output of that name." +
                            did_you_mean(name, all));
  }
  return invalid_argument(
      "the graph accumulates gradients, but its backward pass starts from none of its outputs: "
      "expected an initializer LOSS_grad for an output LOSS");
}

class Adopter {
 public:
  Adopter(Model& model, PassContext& ctx)
      : graph_(*model.graph), ctx_(ctx), builder_(graph_, type_inference(model)) {}

  Status run() {
    MEZZO_ASSIGN_OR_RETURN(Value* const loss,
                           find_seeded_loss(graph_, ctx_.training_options.loss_output));
    MEZZO_RETURN_IF_ERROR(check_loss(*loss));
    ctx_.training->loss = loss->name();
    for (std::size_t i = graph_.inputs().size(); i-- > 0;) {
      if (graph_.inputs()[i]->is_initializer()) graph_.remove_input(i);
    }
    MEZZO_RETURN_IF_ERROR(adopt_layers(graph_, builder_, ctx_));
    MEZZO_RETURN_IF_ERROR(adopt_recurrent(graph_, builder_, ctx_));
    plant_seed(*loss);
    MEZZO_RETURN_IF_ERROR(adopt_accumulators());
    note_constants();
    return builder_.status();
  }

 private:
  static Status check_loss(const Value& loss) {
    const bool scalar = loss.type.is_tensor() && loss.tensor_type().has_static_shape() &&
                        loss.tensor_type().elems() == 1;
    if (scalar && loss.dtype() == DType::kFloat32) return ok_status();
    return invalid_argument("loss " + in_quotes(loss.name()) + ": expected a float scalar, got " +
                            to_string(loss.type));
  }

  // The runtime says where the backward pass starts: the loss scale goes in here.
  void plant_seed(const Value& loss) {
    Value* old = seed_of(graph_, loss);
    builder_.set_insertion_point(graph_.nodes().empty() ? nullptr : graph_.nodes().front().get());
    builder_.set_scope(kLossGradient);
    Value* seed =
        graph_.add_input(graph_.unique_name(kLossGradient), TensorType(DType::kFloat32, {}));
    ctx_.training->loss_gradient = seed->name();
    const std::vector<std::int64_t> dims = old->constant()->dims();
    Value* start = seed;
    if (!dims.empty()) start = builder_.op("Reshape", {start, builder_.ints(dims)});
    if (constant_scalar(old) != 1.0) start = builder_.op("Mul", {start, old});
    graph_.replace_operand_uses(old, start);  // but for the factor in the node that makes `start`
    for (const Value* gradient : depends_on(graph_, {seed})) add_exactly(*gradient);
  }

  // Sums of gradients that are rounded to 16 bits add up over depth: see AddN in the catalogue.
  void add_exactly(const Value& gradient) {
    Node* node = gradient.producer();
    if (node == nullptr || !node->is("Sum")) return;
    const auto same = [&](const Value* operand) {
      return operand != nullptr && operand->type == node->operand(0)->type;
    };
    const std::vector<Value*> operands = node->operands();
    if (operands.size() < 2 || !static_dims(operands[0]) ||
        !std::all_of(operands.begin(), operands.end(), same))
      return;
    graph_.change_op(node, "AddN", kMezzoDomain);
  }

  Status adopt_accumulators() {
    std::vector<Node*> accumulators;
    for (Node* node : graph_.node_list()) {
      if (is_accumulator(*node)) accumulators.push_back(node);
    }
    for (std::size_t i = graph_.outputs().size(); i-- > 0;) {
      const Node* producer = graph_.outputs()[i]->producer();
      if (producer != nullptr && is_accumulator(*producer)) graph_.remove_output(i);
    }
    MEZZO_ASSIGN_OR_RETURN(const auto freeze,
                           PatternList::compile(ctx_.training_options.freeze, "--freeze"));
    MEZZO_ASSIGN_OR_RETURN(const auto train,
                           PatternList::compile(ctx_.training_options.train, "--train"));
    MEZZO_RETURN_IF_ERROR(freeze.check_names(graph_));
    MEZZO_RETURN_IF_ERROR(train.check_names(graph_));
    std::unordered_set<const Value*> freed;
    for (Node* node : accumulators) {
      for (const Value* operand : {node->operand(0), node->operand(2)}) freed.insert(operand);
      MEZZO_RETURN_IF_ERROR(adopt(*node, freeze, train));
    }
    for (std::size_t i = graph_.inputs().size(); i-- > 0;) {
      const Value* input = graph_.inputs()[i];
      if (freed.count(input) > 0 && !input->has_uses()) graph_.remove_input(i);
    }
    if (ctx_.training->gradients.empty())
      return invalid_argument("nothing to train: --freeze names every parameter with a gradient");
    return check_patterns(train);
  }

  Status adopt(Node& node, const PatternList& freeze, const PatternList& train) {
    const Value *buffer = node.operand(0), *gradient = node.operand(1);
    if (buffer == nullptr || gradient == nullptr)
      return invalid_argument(describe(node) + ": operand missing");
    const std::string name = parameter_of_buffer(buffer->name());
    const Value* parameter = name.empty() ? nullptr : graph_.find(name);
    if (parameter == nullptr) {
      return invalid_argument(describe(node) + ": no parameter belongs to the buffer " +
                              in_quotes(buffer->name()) +
                              ": expected NAME_grad.accumulation.buffer and a parameter NAME");
    }
    if (!parameter->is_initializer()) {
      return invalid_argument("parameter " + in_quotes(name) +
                              " has no value. Hint: --checkpoint FILE gives the checkpoint that "
                              "belongs to the model");
    }
    if (parameter->dtype() != DType::kFloat32) {
      return unimplemented("parameter " + in_quotes(name) + ": expected float to train, got " +
                           std::string(dtype_name(parameter->dtype())));
    }
    const auto dims = static_dims(gradient);
    if (dims && *dims != parameter->tensor_type().dims()) {
      return invalid_argument(describe(node) + ", operand 1 " + in_quotes(gradient->name()) +
                              ": expected the shape of parameter " + in_quotes(name) + ", " +
                              to_string(parameter->type) + ", got " + to_string(gradient->type));
    }
    if (train.matches(name) || !freeze.matches(name)) publish(name, node.operand(1));
    if (node.result(1) != nullptr) graph_.replace_uses(node.result(1), node.operand(1));
    graph_.erase(&node);
    return ok_status();
  }

  void publish(const std::string& parameter, Value* gradient) {
    builder_.set_insertion_point(nullptr);
    builder_.set_scope(kGradientPrefix + parameter);
    if (gradient->dtype() != DType::kFloat32 && gradient->dtype() != DType::kNone) {
      gradient = builder_.op("Cast", {gradient}, {{"to", std::int64_t{1}}});
    } else if (gradient->is_graph_output() || gradient->producer() == nullptr) {
      gradient = builder_.op("Identity", {gradient});
    }
    gradient->type = graph_.find(parameter)->type;
    const std::string name = graph_.unique_name(kGradientPrefix + parameter);
    graph_.rename(gradient, name);
    graph_.add_output(gradient);
    ctx_.training->gradients[parameter] = name;
    ctx_.stats.add("gradients-adopted", 1);
  }

  // The graph trains what it has gradients for, and no more.
  Status check_patterns(const PatternList& train) const {
    for (const Pattern& pattern : train.patterns()) {
      const auto& gradients = ctx_.training->gradients;
      if (std::none_of(gradients.begin(), gradients.end(),
                       [&](const auto& entry) { return pattern.matches(entry.first); })) {
        return invalid_argument("--train " + in_quotes(pattern.text()) +
                                ": the graph has a gradient for no parameter of that name. Hint: "
                                "its own backward pass is trained as it stands");
      }
    }
    return ok_status();
  }

  // What is neither trained nor a statistic is the same on every run.
  void note_constants() {
    for (const Value* value : graph_.initializers()) {
      const bool moves = ctx_.training->gradients.count(value->name()) > 0 ||
                         ctx_.training->states.count(value->name()) > 0;
      if (!moves) ctx_.computed_constants.insert(value->name());
    }
  }

  Graph& graph_;
  PassContext& ctx_;
  Builder builder_;
};

}  // namespace

StatusOr<bool> adopt_backward(Model& model, PassContext& ctx) {
  if (!accumulates_gradients(*model.graph)) return false;
  if (!ctx.training) ctx.training.emplace();
  MEZZO_RETURN_IF_ERROR(Adopter(model, ctx).run());
  return true;
}

void drop_backward(Model& model, const TrainingRoles& roles) {
  Graph& graph = *model.graph;
  std::set<std::string> results;
  for (const auto& [parameter, gradient] : roles.gradients) results.insert(gradient);
  for (const auto& [statistic, next] : roles.states) results.insert(next);
  for (std::size_t i = graph.outputs().size(); i-- > 0;) {
    if (results.count(graph.outputs()[i]->name()) > 0) graph.remove_output(i);
  }
  graph.remove_dead_nodes(/*unused_initializers_too=*/true);
  for (std::size_t i = graph.inputs().size(); i-- > 0;) {
    const Value& input = *graph.inputs()[i];
    const bool ours = input.name() == roles.loss_gradient || input.name() == roles.random_counter;
    if (ours && !input.has_uses()) graph.remove_input(i);
  }
}

}  // namespace mezzo::passes
