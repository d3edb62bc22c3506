#include "compiler/plan/plan_builder.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "compiler/ir/name_scope.h"
#include "compiler/ir/training_phases.h"
#include "compiler/ops/op_def.h"
#include "compiler/plan/plan_attribute.h"

namespace mezzo {
namespace {

constexpr std::size_t kInlineBytes = 4096;  // larger constants go to the weights file

// Builds one plan from up to two graphs that share their initializers by name.
class PlanBuilder {
 public:
  explicit PlanBuilder(const PlanInputs& inputs) : inputs_(inputs) {}

  StatusOr<PlanDraft> build() {
    plan().set_format_version(1);
    plan().set_target(inputs_.target);
    MEZZO_RETURN_IF_ERROR(add_graph(*inputs_.model, /*evaluate=*/false));
    if (inputs_.training != nullptr) MEZZO_RETURN_IF_ERROR(add_training());
    MEZZO_RETURN_IF_ERROR(add_ports());
    if (inputs_.evaluate != nullptr) MEZZO_RETURN_IF_ERROR(add_evaluation());
    name_weights();
    return std::move(draft_);
  }

 private:
  proto::Plan& plan() { return draft_.plan; }

  // ", as --dim seq=32", by the name of the first that has one.
  static std::string example_size(const Value& value) {
    if (!value.type.is_tensor() || !value.tensor_type().shape) return "";
    for (const Dim& dim : *value.tensor_type().shape) {
      if (!dim.known() && !dim.symbol.empty()) return ", as --dim " + dim.symbol + "=32";
    }
    return "";
  }

  StatusOr<int> add_tensor(const Value& value, proto::Role role, int alias_of = -1) {
    if (!value.type.is_tensor() || value.dtype() == DType::kNone ||
        !value.tensor_type().has_static_shape()) {
      return unimplemented("value '" + value.name() + "': expected a static shape, got " +
                           to_string(value.type) + ". Hint: give open dimensions a size" +
                           example_size(value));
    }
    const int index = plan().tensors_size();
    proto::Tensor* tensor = plan().add_tensors();
    tensor->set_name(value.name());
    tensor->set_dtype(static_cast<std::uint32_t>(value.dtype()));
    for (std::int64_t dim : value.tensor_type().dims()) tensor->add_dims(dim);
    tensor->set_role(role);
    draft_.alias_of.push_back(alias_of);
    return index;
  }

  bool is_trained(const std::string& name) const {
    return inputs_.training != nullptr && inputs_.training->gradients.count(name) > 0;
  }
  bool is_state(const std::string& name) const {
    return inputs_.training != nullptr && inputs_.training->states.count(name) > 0;
  }

  // The tensor of an initializer. The two graphs share parameters and states by name, constants
  // where name and data agree: passes name the constants they make, and in two graphs may give one
  // name to different ones.
  StatusOr<int> initializer_tensor(const Value& value) {
    const TensorRef& data = value.constant();
    if (!data) return unimplemented("initializer '" + value.name() + "' is sparse");
    std::vector<Initializer>& namesakes = by_initializer_[value.name()];
    proto::Role role = proto::ROLE_CONSTANT;
    if (is_trained(value.name())) role = proto::ROLE_MASTER;
    if (is_state(value.name())) role = proto::ROLE_STATE;
    for (const Initializer& known : namesakes) {
      if (role == proto::ROLE_CONSTANT && !same_data(known.data, data)) continue;
      if (known.data->dims() != data->dims()) {
        return internal_error("initializer '" + value.name() +
                              "' has another shape in the evaluate phase");
      }
      return known.tensor;
    }
    MEZZO_ASSIGN_OR_RETURN(const int index, add_tensor(value, role));
    proto::Tensor* tensor = plan().mutable_tensors(index);
    namesakes.push_back({index, data});
    if (role == proto::ROLE_CONSTANT && data->byte_size() <= kInlineBytes) {
      const std::vector<std::byte> bytes = data->copy_bytes();
      tensor->set_inline_data(bytes.data(), bytes.size());
    } else {
      tensor->set_in_weights_file(true);
      draft_.weights.emplace(index, data);
    }
    return index;
  }

  // The weights file finds tensors by name: each gets one of its own, aliases their original's.
  void name_weights() {
    NameScope names;
    for (const auto& [index, data] : draft_.weights) {
      const std::string name = names.unique(plan().tensors(index).name());
      names.add(name);
      plan().mutable_tensors(index)->set_name(name);
    }
    for (int i = 0; i < plan().tensors_size(); ++i) {
      const int source = draft_.alias_of[static_cast<std::size_t>(i)];  // made before its alias
      if (source < 0 || !plan().tensors(i).in_weights_file()) continue;
      plan().mutable_tensors(i)->set_name(plan().tensors(source).name());
    }
  }

  static bool same_data(const TensorRef& a, const TensorRef& b) {
    if (a->id() == b->id()) return true;
    return a->dtype() == b->dtype() && a->dims() == b->dims() && a->copy_bytes() == b->copy_bytes();
  }

  // The tensor that holds `value`, made when first asked for.
  StatusOr<int> tensor_of(const Value& value) {
    const auto found = by_value_.find(&value);
    if (found != by_value_.end()) return found->second;
    int index = -1;
    if (value.is_initializer()) {
      MEZZO_ASSIGN_OR_RETURN(index, initializer_tensor(value));
    } else {
      const auto role = value.is_graph_input() ? proto::ROLE_INPUT : proto::ROLE_ACTIVATION;
      MEZZO_ASSIGN_OR_RETURN(index, add_tensor(value, role));
    }
    by_value_.emplace(&value, index);
    return index;
  }

  // A Cast of a trained initializer is its low copy: the optimizer writes it with each update.
  bool is_low_copy(const Node& node) const {
    const Value* operand = node.operand(0);
    return node.is("Cast") && operand->is_initializer() && is_trained(operand->name()) &&
           is_low(node.result()->dtype());
  }

  Status add_low_copy(const Node& node) {
    MEZZO_ASSIGN_OR_RETURN(const int master, tensor_of(*node.operand(0)));
    auto found = low_copy_of_.find(master);
    if (found == low_copy_of_.end()) {
      MEZZO_ASSIGN_OR_RETURN(const int index, add_tensor(*node.result(), proto::ROLE_LOW_COPY));
      found = low_copy_of_.emplace(master, index).first;
    }
    by_value_.emplace(node.result(), found->second);
    return ok_status();
  }

  // The node's result becomes another tensor on the bytes of `of`.
  Status add_alias(const Node& node, const Value& of) {
    MEZZO_ASSIGN_OR_RETURN(const int source, tensor_of(of));
    const proto::Role role = plan().tensors(source).role();
    if (plan().tensors(source).dtype() != static_cast<std::uint32_t>(node.result()->dtype())) {
      return internal_error(describe(node) + ": an alias cannot change the element type");
    }
    MEZZO_ASSIGN_OR_RETURN(const int index, add_tensor(*node.result(), role, source));
    // A constant in the weights file lies in no arena: its alias reads the same bytes there.
    const proto::Tensor& original = plan().tensors(source);
    if (role == proto::ROLE_CONSTANT && original.in_weights_file()) {
      plan().mutable_tensors(index)->set_in_weights_file(true);
    }
    by_value_.emplace(node.result(), index);
    return ok_status();
  }

  Status add_step(const Node& node, proto::Phase& phase) {
    if (is_low_copy(node)) return add_low_copy(node);
    MEZZO_ASSIGN_OR_RETURN(LoweredOp lowered, lower(node));
    if (lowered.alias) return add_alias(node, *lowered.operands.at(0));
    std::vector<int> operands;
    for (const Value* operand : lowered.operands) {
      int index = -1;
      if (operand != nullptr) {
        MEZZO_ASSIGN_OR_RETURN(index, tensor_of(*operand));
      }
      operands.push_back(index);
    }
    if (phase.kind() != proto::PHASE_EVALUATE) add_to_summary(node);
    proto::Step* step = phase.add_steps();
    step->set_op(lowered.kernel);
    step->set_node(display_name(node));
    for (const int operand : operands) step->add_inputs(operand);
    for (const Value* result : node.results()) {
      // A result that nobody reads still needs a buffer where the kernel writes it in any case.
      const int position = step->outputs_size();
      const bool optional = inputs_.result_may_be_absent != nullptr &&
                            inputs_.result_may_be_absent(step->op(), position);
      int index = -1;
      if (result != nullptr && (result->has_uses() || !optional)) {
        MEZZO_ASSIGN_OR_RETURN(index, tensor_of(*result));
      }
      step->add_outputs(index);
    }
    for (const Attribute& attribute : lowered.attributes) {
      if (!to_plan_attribute(attribute, step->add_attributes())) {
        return internal_error(describe(node) + ", attribute '" + attribute.name +
                              "': expected a number, string or list of numbers");
      }
    }
    return ok_status();
  }

  // What the node does each time the forward or the backward phase runs.
  void add_to_summary(const Node& node) {
    proto::Summary& summary = *plan().mutable_summary();
    const auto is_float = [](const Value* value) {
      return value != nullptr && value->type.is_tensor() && is_floating(value->dtype());
    };
    const auto operands = node.operands();
    const auto first = std::find_if(operands.begin(), operands.end(), is_float);
    const bool reads_low = first != operands.end() && is_low((*first)->dtype());
    const double operations = flops(node);
    summary.set_flops(summary.flops() + operations);
    if (reads_low) summary.set_low_flops(summary.low_flops() + operations);
    const bool is_cast = node.is("Cast") && first != operands.end() && is_float(node.result());
    if (is_cast) summary.set_casts(summary.casts() + 1);
  }

  Status add_graph(const Model& model, bool evaluate) {
    const Graph& graph = *model.graph;
    proto::Phase forward, backward;
    forward.set_kind(evaluate ? proto::PHASE_EVALUATE : proto::PHASE_FORWARD);
    backward.set_kind(proto::PHASE_BACKWARD);
    const bool split = !evaluate && inputs_.training != nullptr;
    std::unordered_set<const Node*> needed;
    if (split) needed = forward_nodes(graph, *inputs_.training);
    for (const auto& node : graph.nodes()) {
      const bool in_forward = !split || needed.count(node.get()) > 0;
      MEZZO_RETURN_IF_ERROR(add_step(*node, in_forward ? forward : backward));
    }
    *plan().add_phases() = std::move(forward);
    if (split) *plan().add_phases() = std::move(backward);
    return ok_status();
  }

  StatusOr<int> output_tensor(const Graph& graph, const std::string& name, const char* what) {
    const Value* value = graph.find(name);
    if (value == nullptr)
      return internal_error(std::string(what) + " '" + name + "' is not in the graph");
    return tensor_of(*value);
  }

  std::vector<std::int64_t> logical_dims(const Value& value) const {
    if (inputs_.training != nullptr) {
      const auto found = inputs_.training->logical_dims.find(value.name());
      if (found != inputs_.training->logical_dims.end()) return found->second;
    }
    return value.tensor_type().dims();
  }

  Status add_training() {
    const TrainingRoles& roles = *inputs_.training;
    const Graph& graph = *inputs_.model->graph;
    proto::Training* training = plan().mutable_training();
    MEZZO_ASSIGN_OR_RETURN(const int loss, output_tensor(graph, roles.loss, "the loss"));
    MEZZO_ASSIGN_OR_RETURN(const int seed,
                           output_tensor(graph, roles.loss_gradient, "the loss gradient"));
    training->set_loss(loss);
    training->set_loss_gradient(seed);
    training->set_random_counter(-1);
    training->set_evaluate_loss(-1);
    training->set_precision(inputs_.precision);
    if (!roles.random_counter.empty()) {
      MEZZO_ASSIGN_OR_RETURN(const int counter,
                             output_tensor(graph, roles.random_counter, "the random counter"));
      training->set_random_counter(counter);
    }
    for (const Value* value : graph.initializers()) {  // file order, not that of the map
      const auto gradient = roles.gradients.find(value->name());
      if (gradient != roles.gradients.end()) {
        MEZZO_RETURN_IF_ERROR(add_parameter(graph, *value, gradient->second));
      }
      const auto state = roles.states.find(value->name());
      if (state != roles.states.end()) {
        MEZZO_RETURN_IF_ERROR(add_state(graph, *value, state->second));
      }
    }
    return ok_status();
  }

  Status add_parameter(const Graph& graph, const Value& value, const std::string& gradient_name) {
    MEZZO_ASSIGN_OR_RETURN(const int master, tensor_of(value));
    MEZZO_ASSIGN_OR_RETURN(const int gradient, output_tensor(graph, gradient_name, "gradient"));
    plan().mutable_tensors(gradient)->set_role(proto::ROLE_GRADIENT);
    proto::Parameter* parameter = plan().add_parameters();
    parameter->set_name(value.name());
    parameter->set_master(master);
    const auto low = low_copy_of_.find(master);
    parameter->set_low_copy(low == low_copy_of_.end() ? -1 : low->second);
    parameter->set_gradient(gradient);
    for (std::int64_t dim : logical_dims(value)) parameter->add_logical_dims(dim);
    return ok_status();
  }

  Status add_state(const Graph& graph, const Value& value, const std::string& next_name) {
    MEZZO_ASSIGN_OR_RETURN(const int tensor, tensor_of(value));
    MEZZO_ASSIGN_OR_RETURN(const int next, output_tensor(graph, next_name, "running statistic"));
    proto::State* state = plan().add_states();
    state->set_name(value.name());
    state->set_tensor(tensor);
    state->set_next(next);
    for (std::int64_t dim : logical_dims(value)) state->add_logical_dims(dim);
    return ok_status();
  }

  bool is_internal(const std::string& name) const {
    if (inputs_.training == nullptr) return false;
    const TrainingRoles& roles = *inputs_.training;
    if (name == roles.loss_gradient || name == roles.random_counter) return true;
    const auto is_value = [&](const auto& entry) { return entry.second == name; };
    return std::any_of(roles.gradients.begin(), roles.gradients.end(), is_value) ||
           std::any_of(roles.states.begin(), roles.states.end(), is_value);
  }

  Status add_ports() {
    const Graph& graph = *inputs_.model->graph;
    const auto add = [&](const Value* value, proto::Port* port) -> Status {
      MEZZO_ASSIGN_OR_RETURN(const int tensor, tensor_of(*value));
      port->set_name(value->name());
      port->set_tensor(tensor);
      port->set_evaluate_tensor(-1);
      for (std::int64_t dim : logical_dims(*value)) port->add_logical_dims(dim);
      return ok_status();
    };
    for (const Value* input : graph.inputs()) {
      if (input->is_initializer() || is_internal(input->name())) continue;
      MEZZO_RETURN_IF_ERROR(add(input, plan().add_inputs()));
    }
    for (const Value* output : graph.outputs()) {
      if (!is_internal(output->name())) MEZZO_RETURN_IF_ERROR(add(output, plan().add_outputs()));
    }
    return ok_status();
  }

  // The evaluate phase reads the same input and parameter tensors and has outputs of its own.
  Status add_evaluation() {
    const Graph& graph = *inputs_.evaluate->graph;
    for (const Value* input : graph.inputs()) {
      if (input->is_initializer()) continue;
      const Value* twin = inputs_.model->graph->find(input->name());
      if (twin != nullptr && twin->is_graph_input() && twin->dtype() == input->dtype()) {
        MEZZO_ASSIGN_OR_RETURN(const int tensor, tensor_of(*twin));
        by_value_.emplace(input, tensor);
      }
    }
    MEZZO_RETURN_IF_ERROR(add_graph(*inputs_.evaluate, /*evaluate=*/true));
    const auto connect = [&](google::protobuf::RepeatedPtrField<proto::Port>& ports) -> Status {
      for (proto::Port& port : ports) {
        if (const Value* value = graph.find(port.name())) {
          MEZZO_ASSIGN_OR_RETURN(const int tensor, tensor_of(*value));
          port.set_evaluate_tensor(tensor);
        }
      }
      return ok_status();
    };
    MEZZO_RETURN_IF_ERROR(connect(*plan().mutable_inputs()));
    MEZZO_RETURN_IF_ERROR(connect(*plan().mutable_outputs()));
    if (inputs_.training != nullptr && graph.find(inputs_.training->loss) != nullptr) {
      MEZZO_ASSIGN_OR_RETURN(const int loss,
                             output_tensor(graph, inputs_.training->loss, "the loss"));
      plan().mutable_training()->set_evaluate_loss(loss);
    }
    return ok_status();
  }

  const PlanInputs& inputs_;
  PlanDraft draft_;
  std::unordered_map<const Value*, int> by_value_;
  struct Initializer {
    int tensor;
    TensorRef data;
  };
  std::unordered_map<std::string, std::vector<Initializer>> by_initializer_;
  std::unordered_map<int, int> low_copy_of_;
};

}  // namespace

StatusOr<PlanDraft> build_plan(const PlanInputs& inputs) { return PlanBuilder(inputs).build(); }

}  // namespace mezzo
