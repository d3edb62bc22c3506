#include "passes/cleanup/unroll.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/builder.h"
#include "compiler/ir/clone.h"
#include "compiler/ops/constants.h"
#include "compiler/ops/op_def.h"
#include "passes/cleanup/fold_constants.h"
#include "passes/cleanup/normalise.h"
#include "passes/cleanup/scan_form.h"

namespace mezzo::passes {
namespace {

constexpr std::size_t kMostNodes = 100'000;
constexpr std::int64_t kMostTrips = 100'000;  // of all loops together

// The graph in attribute `name`, with `inputs` inputs and at least `outputs` outputs.
StatusOr<Graph*> body_of(const Node& node, std::string_view name, std::size_t inputs,
                         std::size_t outputs) {
  const Attribute* attribute = node.attribute(name);
  const auto* graph =
      attribute == nullptr ? nullptr : std::get_if<Attribute::GraphRef>(&attribute->value);
  if (graph == nullptr || *graph == nullptr) {
    return invalid_argument(describe(node) + ": expected a graph in attribute " +
                            std::string(name));
  }
  if ((*graph)->inputs().size() != inputs || (*graph)->outputs().size() < outputs) {
    return invalid_argument(describe(node) + ": expected a graph with " + std::to_string(inputs) +
                            " inputs and at least " + std::to_string(outputs) +
                            " outputs in attribute " + std::string(name) + ", got " +
                            std::to_string((*graph)->inputs().size()) + " and " +
                            std::to_string((*graph)->outputs().size()));
  }
  return graph->get();
}

// The number that a constant of one element holds.
std::optional<std::int64_t> number_of(const Value* value) {
  const auto numbers = constant_ints(value);
  return numbers && numbers->size() == 1 ? std::optional(numbers->front()) : std::nullopt;
}

class Unroller {
 public:
  Unroller(Model& model, PassContext& ctx)
      : model_(model),
        ctx_(ctx),
        graph_(*model.graph),
        builder_(graph_, type_inference(model)),
        folder_(model, ctx) {}

  StatusOr<bool> run() {
    const std::vector<Node*> nodes = graph_.node_list();
    if (std::none_of(nodes.begin(), nodes.end(),
                     [](const Node* node) { return is_control_flow(*node); })) {
      return false;
    }
    // All of them: what a branch amounts to may be the trip count of a loop behind it.
    for (Node* node : nodes) MEZZO_RETURN_IF_ERROR(visit(*node));
    MEZZO_RETURN_IF_ERROR(builder_.status());
    return true;
  }

 private:
  static bool is_control_flow(const Node& node) {
    return node.is("If") || node.is("Loop") || node.is("Scan");
  }

  Status visit(Node& node) {
    if (is_control_flow(node)) return replace(node);
    replace_cast_like(node);
    return folder_.visit(node);
  }

  Status replace(Node& node) {
    Node* const outer_place = builder_.insertion_point();
    const std::string outer_scope = builder_.scope();
    builder_.set_insertion_point(&node);
    builder_.set_scope(node.name.empty() ? node.op_type() : node.name);
    for (Graph* body : node.subgraphs()) move_initializers_out(*body);
    StatusOr<std::vector<Value*>> results = node.is("If")     ? replace_if(node)
                                            : node.is("Loop") ? replace_loop(node)
                                                              : replace_scan(node);
    if (!results.ok()) return results.status();
    if (results->size() < node.results().size()) {
      return invalid_argument(describe(node) + ": has " + std::to_string(node.results().size()) +
                              " results, but its body gives " + std::to_string(results->size()));
    }
    for (std::size_t i = 0; i < node.results().size(); ++i) {
      if (node.result(i) != nullptr) graph_.replace_uses(node.result(i), (*results)[i]);
    }
    graph_.erase(&node);
    builder_.set_insertion_point(outer_place);
    builder_.set_scope(outer_scope);
    ctx_.stats.add("control-flow-unrolled", 1);
    return ok_status();
  }

  // One weight for all copies.
  void move_initializers_out(Graph& body) {
    const std::vector<Value*> initializers = body.initializers();
    for (Value* inner : initializers) {
      if (inner->is_graph_input() || !inner->constant()) continue;
      const std::string name = inner->name();
      const TensorRef data = inner->constant();
      Value* outer = graph_.add_initializer(graph_.unique_name(name), data);
      outer->type = inner->type;
      if (is_floating(outer->dtype())) folder_.add_weight(outer);
      body.replace_uses(inner, outer);
      if (!inner->has_uses()) body.erase_initializer(inner);
      if (graph_.unique_name(name) == name) graph_.rename(outer, name);
    }
  }

  // Copies the body's nodes to before the node, computes what is constant of them, and gives the
  // copies of its outputs.
  StatusOr<std::vector<Value*>> copy_body(const Node& node, const Graph& body,
                                          const std::string& prefix, ValueMapping& mapping) {
    if (graph_.node_count() + body.node_count() > kMostNodes) {
      return unimplemented(describe(node) + ": spelled out, the graph has more than " +
                           std::to_string(kMostNodes) + " nodes");
    }
    Node* place = builder_.insertion_point();
    Node* mark = graph_.add_node("Identity", "", {}, {}, place);
    clone_nodes(graph_, body, prefix, mapping, place);
    // Folding replaces values: an operand of the mark follows them.
    for (std::size_t i = 0; i < body.outputs().size(); ++i) {
      const auto copy = mapping.find(body.outputs()[i]);
      mark->set_operand(i, copy == mapping.end() ? body.outputs()[i] : copy->second);
    }
    std::vector<Node*> copies;
    for (Node* copy = graph_.next(mark); copy != place; copy = graph_.next(copy)) {
      forget_open_shapes(*copy);
      copies.push_back(copy);
    }
    for (Node* copy : copies) {
      if (!is_control_flow(*copy)) {
        MEZZO_RETURN_IF_ERROR(infer_types(*copy, &model_).with_context(describe(node)));
      }
      MEZZO_RETURN_IF_ERROR(visit(*copy));
    }
    std::vector<Value*> outputs = mark->operands();
    outputs.resize(body.outputs().size());
    graph_.erase(mark);
    return outputs;
  }

  // A body's values may have another size in every trip.
  static void forget_open_shapes(Node& node) {
    for (Value* result : node.results()) {
      if (result == nullptr || !result->type.is_tensor()) continue;
      if (!result->type.tensor.has_static_shape()) result->type.tensor.shape.reset();
    }
  }

  StatusOr<std::vector<Value*>> replace_if(const Node& node) {
    MEZZO_ASSIGN_OR_RETURN(const Graph* const then_branch,
                           body_of(node, "then_branch", 0, node.results().size()));
    MEZZO_ASSIGN_OR_RETURN(const Graph* const else_branch,
                           body_of(node, "else_branch", 0, node.results().size()));
    if (const auto condition = number_of(node.operand(0))) {
      ValueMapping mapping;
      return copy_body(node, *condition != 0 ? *then_branch : *else_branch, builder_.scope() + "/",
                       mapping);
    }
    if (node.operand(0) == nullptr) return invalid_argument(describe(node) + ": has no condition");
    Value* condition = builder_.op(
        "Reshape", {node.operand(0), builder_.ints(std::initializer_list<std::int64_t>{})});
    ValueMapping then_values = gate(*then_branch, condition, true);
    ValueMapping else_values = gate(*else_branch, condition, false);
    MEZZO_ASSIGN_OR_RETURN(std::vector<Value*> yes,
                           copy_body(node, *then_branch, builder_.scope() + "/then/", then_values));
    MEZZO_ASSIGN_OR_RETURN(std::vector<Value*> no,
                           copy_body(node, *else_branch, builder_.scope() + "/else/", else_values));
    std::vector<Value*> results;
    for (std::size_t i = 0; i < node.results().size(); ++i) {
      if (!(yes[i]->type == no[i]->type) || !yes[i]->type.is_tensor() ||
          !yes[i]->type.tensor.has_static_shape()) {
        return unimplemented(describe(node) + ": its condition depends on the data, and result " +
                             std::to_string(i) + " is " + to_string(yes[i]->type) +
                             " in one branch, " + to_string(no[i]->type) + " in the other");
      }
      results.push_back(builder_.op("Where", {condition, yes[i], no[i]}));
    }
    return results;
  }

  // What a branch reads of the graph around it, as values that take the branch's gradient only
  // where it is the one that is taken: 0 times an infinite derivative in the other is no number.
  ValueMapping gate(const Graph& branch, Value* condition, bool taken) {
    std::map<Value*, bool> captured;  // does every use take a gradient?
    for (const auto& node : branch.nodes()) {
      const OpDef* op = find_op(*node);
      for (std::size_t i = 0; i < node->operand_count(); ++i) {
        Value* value = node->operand(i);
        if (value == nullptr || value->graph() != &graph_ || !is_floating(value->dtype())) continue;
        const bool wants = op != nullptr && i < 32 && (op->no_gradient_operands >> i & 1U) == 0;
        auto [at, fresh] = captured.emplace(value, true);
        at->second = at->second && wants && (!is_number(*value) || is_arithmetic(*node));
      }
    }
    ValueMapping mapping;
    for (const auto& [value, takes_gradients] : captured) {
      if (!takes_gradients || !value->type.is_tensor()) continue;
      Value* stopped = builder_.mezzo_op("StopGradient", {value});
      mapping[value] = builder_.op("Where", taken ? std::vector{condition, value, stopped}
                                                  : std::vector{condition, stopped, value});
    }
    return mapping;
  }

  // Rules look for exponents, limits and the like among constants.
  static bool is_number(const Value& value) {
    return value.is_fixed() && value.constant() && value.constant()->elems() <= 1;
  }
  static bool is_arithmetic(const Node& node) {
    return node.is("Add") || node.is("Sub") || node.is("Mul") || node.is("Div");
  }

  Value* stack(const std::vector<Value*>& rows, std::int64_t axis) {
    std::vector<Value*> parts;
    for (Value* row : rows) parts.push_back(builder_.op("Unsqueeze", {row, builder_.ints({axis})}));
    return parts.size() == 1 ? parts[0] : builder_.op("Concat", parts, {{"axis", axis}});
  }

  // What a body without any trip gives for a scan output.
  StatusOr<Value*> no_rows(const Node& node, const Value& declared, std::int64_t axis) {
    if (!declared.type.is_tensor() || !declared.type.tensor.has_static_shape()) {
      return unimplemented(describe(node) + ": makes no trip, and the shape of '" +
                           declared.name() + "' is not known");
    }
    std::vector<std::int64_t> dims = declared.tensor_type().dims();
    dims.insert(dims.begin() + axis, 0);
    return builder_.constant(Tensor::from_bytes(declared.dtype(), dims, {}), "no_rows");
  }

  StatusOr<Value*> finish_scan(const Node& node, std::vector<Value*> rows, const Value& declared,
                               std::int64_t axis, bool backwards) {
    const Value& like = rows.empty() ? declared : *rows.front();
    const auto rank = like.type.is_tensor() ? like.tensor_type().rank() : std::nullopt;
    if (!rank) {
      return unimplemented(describe(node) + ": the rank of '" + declared.name() +
                           "' is not known. Hint: run ONNX's shape inference on the model");
    }
    if (axis < 0) axis += static_cast<std::int64_t>(*rank) + 1;
    if (axis < 0 || axis > static_cast<std::int64_t>(*rank)) {
      return invalid_argument(describe(node) + ": scan output '" + declared.name() + "': no axis " +
                              std::to_string(axis));
    }
    if (rows.empty()) return no_rows(node, declared, axis);
    if (backwards) std::reverse(rows.begin(), rows.end());
    return stack(rows, axis);
  }

  StatusOr<std::vector<Value*>> replace_loop(const Node& node) {
    const std::size_t carried = node.operand_count() > 2 ? node.operand_count() - 2 : 0;
    MEZZO_ASSIGN_OR_RETURN(const Graph* const body,
                           body_of(node, "body", carried + 2, carried + 1));
    const std::optional<std::int64_t> trips = number_of(node.operand(0));
    if (node.operand(0) != nullptr && !trips) {
      return unimplemented(describe(node) + ": its trip count '" + node.operand(0)->name() +
                           "' depends on the data, and a training plan is a straight line");
    }
    Value* going = node.operand(1);
    if (going == nullptr) going = builder_.scalar(DType::kBool, 1);
    std::vector<Value*> state;
    for (std::size_t i = 0; i < carried; ++i) state.push_back(node.operand(i + 2));
    std::vector<std::vector<Value*>> rows(body->outputs().size() - carried - 1);
    for (std::int64_t trip = 0; !trips || trip < *trips; ++trip) {
      const auto condition = number_of(going);
      if (!condition) {
        return unimplemented(describe(node) + ": whether it makes trip " + std::to_string(trip) +
                             " depends on the data ('" + going->name() +
                             "'), and a training plan is a straight line");
      }
      if (*condition == 0) break;
      if (++trips_ > kMostTrips) return too_many_trips(node);
      ValueMapping mapping;
      mapping[body->inputs()[0]] = builder_.scalar(DType::kInt64, static_cast<double>(trip));
      mapping[body->inputs()[1]] = going;
      for (std::size_t i = 0; i < carried; ++i) mapping[body->inputs()[i + 2]] = state[i];
      MEZZO_ASSIGN_OR_RETURN(
          const std::vector<Value*> outputs,
          copy_body(node, *body, builder_.scope() + "/" + std::to_string(trip) + "/", mapping));
      going = outputs[0];
      std::copy_n(outputs.begin() + 1, carried, state.begin());
      for (std::size_t i = 0; i < rows.size(); ++i) rows[i].push_back(outputs[carried + 1 + i]);
    }
    for (std::size_t i = 0; i < rows.size(); ++i) {
      MEZZO_ASSIGN_OR_RETURN(
          Value* const stacked,
          finish_scan(node, rows[i], *body->outputs()[carried + 1 + i], 0, false));
      state.push_back(stacked);
    }
    return state;
  }

  static Status too_many_trips(const Node& node) {
    return unimplemented(describe(node) + ": with it, loops make more than " +
                         std::to_string(kMostTrips) + " trips");
  }

  // The slices of a scan input, in the order of the trips. One Split, so that its gradient is one
  // Concat.
  std::vector<Value*> slices(Value* input, std::int64_t axis, std::int64_t trips, bool backwards) {
    std::vector<Value*> parts;
    if (trips == 0) return parts;
    if (trips == 1) {
      parts.push_back(input);
    } else {
      const std::vector<std::int64_t> ones(static_cast<std::size_t>(trips), 1);
      const Node* split =
          builder_.node("Split", {input, builder_.ints(ones)}, ones.size(), {{"axis", axis}});
      parts = split->results();
    }
    for (Value*& part : parts) part = builder_.op("Squeeze", {part, builder_.ints({axis})});
    if (backwards) std::reverse(parts.begin(), parts.end());
    return parts;
  }

  StatusOr<std::vector<Value*>> replace_scan(const Node& node) {
    MEZZO_ASSIGN_OR_RETURN(const ScanForm form, read_scan(node));
    if (form.trips > kMostTrips) return too_many_trips(node);
    MEZZO_ASSIGN_OR_RETURN(const Graph* const body,
                           body_of(node, "body", node.operand_count(), form.states));
    std::vector<std::vector<Value*>> inputs;
    for (std::size_t i = 0; i < form.inputs; ++i) {
      inputs.push_back(slices(node.operand(form.states + i), form.input_axes[i], form.trips,
                              ScanForm::at(form.input_directions, i) != 0));
    }
    std::vector<Value*> state;
    for (std::size_t i = 0; i < form.states; ++i) state.push_back(node.operand(i));
    std::vector<std::vector<Value*>> rows(body->outputs().size() - form.states);
    for (std::int64_t trip = 0; trip < form.trips; ++trip) {
      if (++trips_ > kMostTrips) return too_many_trips(node);
      ValueMapping mapping;
      for (std::size_t i = 0; i < form.states; ++i) mapping[body->inputs()[i]] = state[i];
      for (std::size_t i = 0; i < form.inputs; ++i) {
        mapping[body->inputs()[form.states + i]] = inputs[i][static_cast<std::size_t>(trip)];
      }
      MEZZO_ASSIGN_OR_RETURN(
          const std::vector<Value*> outputs,
          copy_body(node, *body, builder_.scope() + "/" + std::to_string(trip) + "/", mapping));
      std::copy_n(outputs.begin(), form.states, state.begin());
      for (std::size_t i = 0; i < rows.size(); ++i) rows[i].push_back(outputs[form.states + i]);
    }
    for (std::size_t i = 0; i < rows.size(); ++i) {
      MEZZO_ASSIGN_OR_RETURN(Value* const stacked,
                             finish_scan(node, rows[i], *body->outputs()[form.states + i],
                                         ScanForm::at(form.output_axes, i),
                                         ScanForm::at(form.output_directions, i) != 0));
      state.push_back(stacked);
    }
    return state;
  }

  Model& model_;
  PassContext& ctx_;
  Graph& graph_;
  Builder builder_;
  ConstantFolder folder_;
  std::int64_t trips_ = 0;  // so far, of all loops
};

}  // namespace

StatusOr<bool> unroll_control_flow(Model& model, PassContext& ctx) {
  return Unroller(model, ctx).run();
}

}  // namespace mezzo::passes
