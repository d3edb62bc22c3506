// For every FP32 value: what type does its producer make, which uses want which type?
//
// 1. The value takes the producer's type.
// 2. Uses that want the other type go to one cast of it.
// 3. Type-carrying attributes (Cast's `to`, ConstantOfShape's `value`, ...) follow their results.

#include "passes/precision/insert_casts.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "passes/precision/assignment.h"
#include "passes/precision/cost_model.h"
#include "passes/precision/range.h"

namespace mezzo::passes {
namespace {

std::string low_suffix(DType low) { return low == DType::kBFloat16 ? "_bf16" : "_fp16"; }

// Attributes in which a node says what element type it gives.
constexpr std::string_view kTypeAttributes[] = {"to", "dtype", "output_dtype", "output_datatype"};

// The node gives `low` from now on, where it says so itself.
void set_type_attributes(Node& node, DType low) {
  for (const std::string_view name : kTypeAttributes) {
    if (node.int_attribute(name, 0) == static_cast<std::int64_t>(DType::kFloat32)) {
      node.set_attribute(name, static_cast<std::int64_t>(low));
    }
  }
  if (!node.is("ConstantOfShape")) return;
  const Attribute* fill = node.attribute("value");  // without it: FP32 zeros
  const auto* named = fill == nullptr ? nullptr : std::get_if<NamedTensor>(&fill->value);
  const std::vector<double> values =
      named == nullptr ? std::vector<double>{0} : named->tensor->to_doubles();
  const float element[] = {values.empty() ? 0.0F : static_cast<float>(values.front())};
  node.set_attribute("value",
                     NamedTensor{named == nullptr ? "" : named->name,
                                 Tensor::cast_of(Tensor::from_floats({1}, element), low, false)});
}

class CastInserter {
 public:
  CastInserter(Model& model, PassContext& ctx)
      : graph_(*model.graph), ctx_(ctx), assignment_(*ctx.assignment), low_(ctx.policy.low) {}

  bool run() {
    std::vector<Value*> values;
    for (Value* value : graph_.inputs()) values.push_back(value);
    for (Value* value : graph_.initializers()) {
      if (!value->is_graph_input()) values.push_back(value);
    }
    for (const auto& node : graph_.nodes()) {
      for (Value* result : node->results()) {
        if (result != nullptr) values.push_back(result);
      }
    }
    for (Value* value : values) {
      if (value->dtype() == DType::kFloat32) settle(*value);
    }
    return changed_;
  }

 private:
  bool io_low() const { return ctx_.policy.io == IoTypes::kLow && !ctx_.policy.force_fp32; }
  bool is_trained(const Value& value) const {
    return ctx_.training && ctx_.training->gradients.count(value.name()) > 0;
  }

  // Uses of `value` that want the low type, or those that want FP32. Uses in subgraphs want FP32.
  std::vector<Use> uses_wanting(const Value& value, bool low) const {
    std::vector<Use> uses;
    for (const Use& use : value.uses()) {
      if (assignment_.takes_low(*use.node, use.operand) == low) uses.push_back(use);
    }
    // use lists change order as operands move: sort so that output and records do not depend on it
    std::stable_sort(uses.begin(), uses.end(), [](const Use& a, const Use& b) {
      return std::tie(a.node->name, a.operand) < std::tie(b.node->name, b.operand);
    });
    return uses;
  }

  void settle(Value& value) {
    if (constant_data(value) && !is_trained(value)) return settle_constant(value);
    bool made_low = value.producer() != nullptr &&
                    assignment_.gives_low(*value.producer(), value.result_index());
    if (value.is_graph_input() && !value.is_initializer()) made_low = io_low();
    if (made_low) {
      value.type.tensor.dtype = low_;
      if (value.producer() != nullptr) set_type_attributes(*value.producer(), low_);
      changed_ = true;
    }
    const std::vector<Use> others = uses_wanting(value, !made_low);
    // An input that is an output by the same name has one type for both.
    const bool output_differs =
        value.is_graph_output() && !value.is_graph_input() && made_low != io_low();
    const bool branch_differs = made_low && !value.inner_outputs().empty();
    if (others.empty() && !output_differs && !branch_differs) return;
    add_cast(value, others, output_differs, made_low ? DType::kFloat32 : low_);
  }

  // Constants are stored in the type their users want, twice if these differ; no cast at run time.
  void settle_constant(Value& value) {
    const std::vector<Use> low_uses = uses_wanting(value, true),
                           fp32_uses = uses_wanting(value, false);
    const bool branch_returns_it = !value.inner_outputs().empty();
    const bool itself_low =
        value.is_graph_output() ? io_low() : fp32_uses.empty() && !branch_returns_it;
    if (low_uses.empty() && !(itself_low && value.is_graph_output())) return;
    const TensorRef data = constant_data(value);
    const bool saturate = assignment_.saturate.count(&value) > 0;
    const TensorRef low_data = Tensor::cast_of(data, low_, saturate);
    record(value, low_uses, DType::kFloat32, low_, true,
           saturate ? "mask constant, saturated to the range" : "weight stored low");
    const std::vector<Use>& others = itself_low ? fp32_uses : low_uses;
    if (!others.empty() || (itself_low && branch_returns_it)) {
      Value* other = add_constant_beside(value, itself_low ? data : low_data);
      for (const Use& use : others) use.node->set_operand(use.operand, other);
      if (itself_low) return_from_branches(value, other);
    }
    if (itself_low) store(value, low_data);
    changed_ = true;
  }

  // The same constant in the other type, as initializer or Constant node like the first.
  Value* add_constant_beside(const Value& value, const TensorRef& data) {
    const std::string name = graph_.unique_name(value.name() + suffix(data->dtype()));
    Node* producer = value.producer();
    if (producer == nullptr) return graph_.add_initializer(name, data);
    const std::string names[] = {name};
    Node* constant = graph_.add_node("Constant", "", {}, names, producer);
    constant->name = producer->name.empty() ? "" : producer->name + suffix(data->dtype());
    constant->set_attribute("value", NamedTensor{"", data});
    constant->result()->type = value.type;
    constant->result()->type.tensor.dtype = data->dtype();
    return constant->result();
  }

  void store(Value& value, const TensorRef& data) {
    if (Node* producer = value.producer()) {
      for (const std::string_view form : {"value_float", "value_floats"})
        producer->erase_attribute(form);
      producer->set_attribute("value", NamedTensor{"", data});
      value.type.tensor.dtype = data->dtype();
    } else {
      graph_.replace_constant(&value, data);
    }
  }

  // Branches of If and bodies of Loop that give `value` back give `other`.
  static void return_from_branches(const Value& value, Value* other) {
    const std::vector<Graph*> inner = value.inner_outputs();
    for (Graph* graph : inner) {
      for (std::size_t i = 0; i < graph->outputs().size(); ++i) {
        if (graph->outputs()[i] == &value) graph->set_output(i, other);
      }
    }
  }

  std::string suffix(DType dtype) const {
    return dtype == DType::kFloat32 ? "_fp32" : low_suffix(low_);
  }

  void add_cast(Value& value, const std::vector<Use>& uses, bool for_output, DType to) {
    const std::string names[] = {graph_.unique_name(value.name() + suffix(to))};
    Value* operands[] = {&value};
    Node* cast = graph_.add_node("Cast", "", operands, names, first_place_behind(value));
    cast->name = "cast/" + cast->result()->name();
    cast->set_attribute("to", static_cast<std::int64_t>(to));
    Value* result = cast->result();
    result->type = value.type;
    result->type.tensor.dtype = to;
    for (const Use& use : uses) use.node->set_operand(use.operand, result);
    if (to == DType::kFloat32) return_from_branches(value, result);
    if (for_output) {
      give_output_to(value, result);
      // Readers of the old value stay with it: only its name has changed.
    }
    record(for_output ? *result : value, uses, to == DType::kFloat32 ? low_ : DType::kFloat32, to,
           false, cause(value, uses, for_output, to));
    ctx_.stats.add("casts-inserted", 1);
    changed_ = true;
  }

  // The public name goes with the output; the inner value takes a name that tells its type.
  void give_output_to(Value& value, Value* cast) {
    const std::string public_name = value.name();
    const std::string inner_name = graph_.unique_name(public_name + suffix(value.dtype()));
    for (std::size_t i = 0; i < graph_.outputs().size(); ++i) {
      if (graph_.outputs()[i] == &value) graph_.set_output(i, cast);
    }
    cast->doc_string = std::exchange(value.doc_string, {});
    cast->metadata = std::exchange(value.metadata, {});
    graph_.rename(&value, inner_name);
    graph_.rename(cast, public_name);
    cast->producer()->name = "cast/" + public_name;
  }

  // Right behind the producer; for inputs and parameters before the first node.
  Node* first_place_behind(const Value& value) const {
    const auto& nodes = graph_.nodes();
    if (value.producer() == nullptr) return nodes.empty() ? nullptr : nodes.front().get();
    return graph_.next(value.producer());
  }

  static std::string cause(const Value& value, const std::vector<Use>& uses, bool for_output,
                           DType to) {
    if (for_output && uses.empty()) return "graph output keeps its type";
    if (value.is_initializer()) return "master weights stay FP32";
    const std::string who = uses.empty() ? "the graph"
                                         : "'" + display_name(*uses.front().node) + "' (" +
                                               uses.front().node->op_type() + ")";
    return who + " takes " + std::string(dtype_name(to));
  }

  void record(const Value& value, const std::vector<Use>& uses, DType from, DType to, bool ahead,
              std::string why) {
    CastDecision cast;
    cast.value = value.name();
    cast.producer = value.producer() != nullptr
                        ? display_name(*value.producer())
                        : (value.is_initializer() ? "initializer" : "input");
    for (const Use& use : uses) cast.consumers.push_back(display_name(*use.node));
    cast.from = from;
    cast.to = to;
    cast.ahead_of_time = ahead;
    cast.cause = std::move(why);
    if (!ahead) cast.bytes = static_cast<std::uint64_t>(estimated_elems(value)) * (4 + 2);
    ctx_.records.casts.push_back(std::move(cast));
  }

  Graph& graph_;
  PassContext& ctx_;
  const Assignment& assignment_;
  DType low_;
  bool changed_ = false;
};

}  // namespace

StatusOr<bool> insert_casts(Model& model, PassContext& ctx) {
  if (!ctx.assignment) return internal_error("insert-casts needs assign-precision before it");
  ctx.records.casts.clear();
  const bool changed = CastInserter(model, ctx).run();
  ctx.assignment.reset();  // node pointers may not outlive further passes
  return changed;
}

}  // namespace mezzo::passes
