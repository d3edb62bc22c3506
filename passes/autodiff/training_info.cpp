// 1. Copy the algorithm's nodes, initializers and inputs into the main graph: ONNX runs the two
//    joined.
// 2. Every update binding leads to an optimizer node; read its constants, and check that the
//    gradients are those of Gradient and that the states are kept from step to step.
// 3. The value Gradient differentiates becomes an output; what no output needs goes.
//
// Formulas: the operators' documentation in ONNX's schemas.
#include "passes/autodiff/training_info.h"

#include <algorithm>
#include <map>
#include <set>

#include "compiler/ir/clone.h"
#include "compiler/support/text.h"
#include "passes/autodiff/training_nodes.h"

namespace mezzo::passes {
namespace {

class Adoption {
 public:
  Adoption(Graph& graph, const TrainingInfo& info) : graph_(graph), info_(info) {}

  StatusOr<TrainingRecipe> run() {
    MEZZO_RETURN_IF_ERROR(join_algorithm());
    MEZZO_RETURN_IF_ERROR(read_gradients());
    MEZZO_RETURN_IF_ERROR(read_bindings());
    for (const auto& [initializer, update] : updates_)
      MEZZO_RETURN_IF_ERROR(read_update(initializer, update));
    if (recipe_.optimizers.empty()) {
      return unimplemented(
          "training_info: no update_binding leads to an optimizer. Hint: "
          "Adam, Momentum, Adagrad and W - R * gradient are understood");
    }
    MEZZO_RETURN_IF_ERROR(check_states());
    publish_loss();
    remove_algorithm();
    return std::move(recipe_);
  }

 private:
  Status join_algorithm() {
    const Graph& algorithm = *info_.algorithm;
    for (const Value* input : algorithm.inputs()) {
      Value* copy = graph_.add_input(input->name(), input->type);
      copies_[input] = copy;
      inputs_.push_back(copy);
    }
    const std::vector<Node*> before = graph_.node_list();
    std::set<const Value*> had;
    for (const Value* value : graph_.initializers()) had.insert(value);
    clone_nodes(graph_, algorithm, "", copies_);
    for (const Value* value : graph_.initializers()) {
      if (had.count(value) == 0) initializers_.push_back(value->name());
    }
    for (const auto& [from, to] : copies_) by_name_[from->name()] = to;
    const std::set<const Node*> old(before.begin(), before.end());
    for (Node* node : graph_.node_list()) {
      if (old.count(node) == 0) nodes_.push_back(node);
    }
    if (!graph_.sort_topologically())
      return invalid_argument("training_info: the algorithm has a cycle");
    return ok_status();
  }

  // A value of the algorithm or of the main graph.
  Value* find(const std::string& name) const {
    const auto found = by_name_.find(name);
    return found != by_name_.end() ? found->second : graph_.find(name);
  }

  Status read_gradients() {
    for (const Node* node : nodes_) {
      if (!is_gradient(*node)) continue;
      const std::vector<std::string> xs = strings_of(*node, "xs"), zs = strings_of(*node, "zs");
      const std::string y_name = node->string_attribute("y", "");
      Value* y = find(y_name);
      if (y == nullptr) {
        return invalid_argument(describe(*node) + ", attribute y: there is no value '" +
                                printable(y_name) + "'");
      }
      if (loss_ != nullptr && loss_ != y) {
        return unimplemented(describe(*node) + ": differentiates '" + y->name() +
                             "', another Gradient '" + loss_->name() + "'");
      }
      loss_ = y;
      for (std::size_t i = 0; i < node->operand_count(); ++i) {
        const std::string name = i < xs.size()               ? xs[i]
                                 : i - xs.size() < zs.size() ? zs[i - xs.size()]
                                                             : std::string();
        Value* named = find(name);
        if (named == nullptr) {
          return invalid_argument(describe(*node) + ", attribute xs: there is no value '" +
                                  printable(name) + "'");
        }
        if (node->operand(i) != named) {
          return unimplemented(describe(*node) + ", operand " + std::to_string(i) +
                               ": the gradient at another value than '" + printable(name) + "'");
        }
        if (i >= xs.size() || node->result(i) == nullptr) continue;
        if (!is_floating(named->dtype()) && named->is_initializer()) {
          return invalid_argument(describe(*node) + ": expected floating-point parameters in xs, " +
                                  "got '" + printable(name) + "' " + to_string(named->type));
        }
        gradients_[node->result(i)] = named;
      }
    }
    if (loss_ == nullptr) return unimplemented("training_info: the algorithm has no Gradient");
    return ok_status();
  }

  Status read_bindings() {
    for (const auto& [initializer, update] : info_.update_binding) {
      Value* target = find(initializer);
      Value* value = find(update);
      if (target == nullptr || !target->is_initializer()) {
        return invalid_argument("training_info, update_binding: there is no initializer '" +
                                printable(initializer) + "'");
      }
      if (value == nullptr) {
        return invalid_argument("training_info, update_binding of '" + printable(initializer) +
                                "': there is no value '" + printable(update) + "'");
      }
      updates_.emplace_back(target, behind_identities(value));
    }
    return ok_status();
  }

  Value* update_of(const Value* initializer) const {
    for (const auto& [target, update] : updates_) {
      if (target == initializer) return update;
    }
    return nullptr;
  }

  Status read_update(Value* initializer, Value* update) {
    Node* node = update->producer();
    const std::string what = "training_info: the update of '" + initializer->name() + "'";
    if (node == nullptr) return unimplemented(what + " is '" + update->name() + "' unchanged");
    if (is_optimizer(*node)) return read_optimizer(*node);
    if (node->is("BatchNormalization")) return ok_status();  // prepare-training moves statistics
    if (counts_up(*initializer, *node)) return ok_status();
    if (node->is("Sub") && node->operand(0) == initializer) {
      if (read_plain_step(*initializer, *node)) return ok_status();
    }
    return unimplemented(what + " by " + describe(*node) +
                         ": expected Adam, Momentum, Adagrad, W - R * gradient, or T + 1");
  }

  // W - R * G, in either order.
  bool read_plain_step(const Value& parameter, const Node& node) {
    const Value* product = behind_identities(node.operand(1));
    const Node* mul = product == nullptr ? nullptr : product->producer();
    if (mul == nullptr || !mul->is("Mul")) return false;
    for (const std::size_t i : {0U, 1U}) {
      const auto gradient = gradients_.find(behind_identities(mul->operand(i)));
      if (gradient == gradients_.end() || gradient->second != &parameter) continue;
      OptimizerRecipe step;
      step.node = describe(node);
      step.parameters = {parameter.name()};
      read_rate(mul->operand(1 - i), step);
      recipe_.optimizers.push_back(std::move(step));
      return true;
    }
    return false;
  }

  // R, T, X..., G..., V..., (H...) -> X..., V..., (H...)
  Status read_optimizer(Node& node) {
    if (!read_.insert(&node).second) return ok_status();
    OptimizerRecipe recipe;
    recipe.node = describe(node);
    read_constants(node, recipe);
    const std::size_t lists = recipe.op == OptimizerRecipe::Op::kAdam ? 4 : 3;
    if (node.operand_count() < 2 + lists || (node.operand_count() - 2) % lists != 0) {
      return invalid_argument(recipe.node + ": expected R, T and " + std::to_string(lists) +
                              " lists of tensors of one length, got " +
                              std::to_string(node.operand_count()) + " operands");
    }
    const std::size_t count = (node.operand_count() - 2) / lists;
    read_rate(node.operand(0), recipe);
    MEZZO_RETURN_IF_ERROR(read_count(node, recipe));
    for (std::size_t i = 0; i < count; ++i)
      MEZZO_RETURN_IF_ERROR(read_tensor(node, i, count, recipe));
    recipe_.optimizers.push_back(std::move(recipe));
    return ok_status();
  }

  // T must grow by one each step, where anything depends on it.
  Status read_count(const Node& node, OptimizerRecipe& recipe) const {
    const Value* count = node.operand(1);
    const bool matters = recipe.op == OptimizerRecipe::Op::kAdam ||
                         (recipe.op == OptimizerRecipe::Op::kMomentum && recipe.beta != 1) ||
                         recipe.decay_factor != 0;
    const auto first = constant_of(count);
    const Value* next = count == nullptr ? nullptr : update_of(count);
    if (first && next != nullptr && next->producer() != nullptr &&
        counts_up(*count, *next->producer())) {
      if (*first >= 0 && *first < 1e15) {
        recipe.first_count = static_cast<std::int64_t>(*first);
        return ok_status();
      }
    }
    if (!matters) return ok_status();
    return unimplemented(recipe.node + ", operand 1 (T): expected an initializer that the " +
                         "algorithm adds 1 to in each step");
  }

  Status read_tensor(const Node& node, std::size_t i, std::size_t count, OptimizerRecipe& recipe) {
    Value* parameter = node.operand(2 + i);
    Value* gradient = behind_identities(node.operand(2 + count + i));
    if (parameter == nullptr || !parameter->is_initializer()) {
      return invalid_argument(recipe.node + ", operand " + std::to_string(2 + i) +
                              " (X): expected an initializer");
    }
    if (!is_floating(parameter->dtype())) {
      return invalid_argument(recipe.node + ": expected floating-point parameters, got '" +
                              parameter->name() + "' " + to_string(parameter->type));
    }
    const auto of = gradients_.find(gradient);
    if (of == gradients_.end() || of->second != parameter) {
      const Node* producer = gradient == nullptr ? nullptr : gradient->producer();
      return unimplemented(
          recipe.node + ", operand " + std::to_string(2 + count + i) +
          " (G): expected the gradient of '" + parameter->name() + "' as Gradient gives it, got " +
          (producer != nullptr ? "the result of " + describe(*producer) : "another value"));
    }
    if (behind_identities(update_of(parameter)) != node.result(i)) {
      return invalid_argument(recipe.node + ": updates '" + parameter->name() +
                              "', but no update_binding says so");
    }
    recipe.parameters.push_back(parameter->name());
    const std::size_t states = recipe.op == OptimizerRecipe::Op::kAdam ? 2 : 1;
    for (std::size_t s = 0; s < states; ++s) {
      states_.push_back({recipe_.optimizers.size(), node.operand(2 + (2 + s) * count + i),
                         node.result((1 + s) * count + i), recipe.node});
    }
    return ok_status();
  }

  // The optimizers of the runtime begin with states of zeros, Adagrad's with any one number.
  Status check_states() {
    std::set<std::size_t> seen;
    for (const State& state : states_) {
      OptimizerRecipe& recipe = recipe_.optimizers[state.optimizer];
      const bool kept = state.value != nullptr && state.value->is_initializer() &&
                        state.next != nullptr && update_of(state.value) == state.next;
      if (!kept) {
        return unimplemented(state.node + ": its state" +
                             (state.value != nullptr ? " '" + state.value->name() + "'" : "") +
                             " is not kept: expected an initializer with an update_binding");
      }
      const std::optional<double> start = constant_of(state.value);
      const bool is_first = seen.insert(state.optimizer).second;
      const bool is_sum = recipe.op == OptimizerRecipe::Op::kAdagrad;
      if (is_sum && is_first && start && *start >= 0) recipe.first_sum = *start;
      if (start && *start == (is_sum ? recipe.first_sum : 0)) continue;
      return unimplemented(state.node + ": its state '" + state.value->name() +
                           "' does not start from " + (is_sum ? "one number" : "zeros") +
                           ". Hint: --initialize starts afresh where the model says how");
    }
    return ok_status();
  }

  void publish_loss() {
    if (!loss_->is_graph_output()) graph_.add_output(loss_);
    recipe_.loss = loss_->name();
  }

  // What only the optimizers needed.
  void remove_algorithm() {
    std::reverse(nodes_.begin(), nodes_.end());
    bool removed = true;
    while (removed) {
      removed = false;
      for (Node*& node : nodes_) {
        if (node == nullptr) continue;
        const auto& results = node->results();
        if (std::any_of(results.begin(), results.end(),
                        [](const Value* r) { return r != nullptr && r->has_uses(); }))
          continue;
        graph_.erase(node);
        node = nullptr;
        removed = true;
      }
    }
    for (const std::string& name : initializers_) {
      Value* value = graph_.find(name);
      if (value != nullptr && !value->is_graph_input() && !value->has_uses())
        graph_.erase_initializer(value);
    }
    for (std::size_t i = graph_.inputs().size(); i-- > 0;) {
      const Value* input = graph_.inputs()[i];
      if (std::find(inputs_.begin(), inputs_.end(), input) != inputs_.end() && !input->has_uses())
        graph_.remove_input(i);
    }
  }

  struct State {
    std::size_t optimizer;
    const Value* value;
    const Value* next;
    std::string node;
  };

  Graph& graph_;
  const TrainingInfo& info_;
  ValueMapping copies_;
  std::map<std::string, Value*> by_name_;  // the algorithm's names
  std::vector<Node*> nodes_;               // copies, in order
  std::vector<std::string> initializers_;
  std::vector<const Value*> inputs_;
  Value* loss_ = nullptr;
  std::map<const Value*, const Value*> gradients_;  // result of Gradient -> by what
  std::vector<std::pair<Value*, Value*>> updates_;  // initializer -> its new value
  std::set<const Node*> read_;
  std::vector<State> states_;
  TrainingRecipe recipe_;
};

}  // namespace

const TrainingInfo* find_training_algorithm(const Model& model) {
  const TrainingInfo* found = nullptr;
  for (const TrainingInfo& info : model.training_info) {
    if (!info.algorithm) continue;
    const auto& nodes = info.algorithm->nodes();
    if (std::none_of(nodes.begin(), nodes.end(), [](const auto& n) { return is_gradient(*n); }))
      continue;
    if (found != nullptr) return nullptr;
    found = &info;
  }
  return found;
}

StatusOr<TrainingRecipe> adopt_training_info(Model& model) {
  const TrainingInfo* info = find_training_algorithm(model);
  if (info == nullptr) {
    return unimplemented("training_info: expected one algorithm with a Gradient, got " +
                         std::to_string(model.training_info.size()) + " entries of another form");
  }
  MEZZO_ASSIGN_OR_RETURN(TrainingRecipe recipe, Adoption(*model.graph, *info).run());
  model.training_info.clear();
  return recipe;
}

}  // namespace mezzo::passes
