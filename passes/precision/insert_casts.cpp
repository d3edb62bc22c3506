// For every FP32 value: what type does its producer make, which uses want which type?
//
// 1. The value takes the producer's type.
// 2. Uses that want the other type go to one cast of it.
// 3. Type-carrying attributes (Cast's `to`, ConstantOfShape's `value`) follow their results.

#include "passes/precision/insert_casts.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "passes/precision/assignment.h"
#include "passes/precision/borders.h"
#include "passes/precision/cost_model.h"
#include "passes/precision/policy_words.h"
#include "passes/precision/range.h"

namespace mezzo::passes {
namespace {

// The node gives `low` from now on, where it says so itself; see slots.cpp for those that do.
void set_type_attributes(Node& node, DType low) {
  if (node.is("Cast")) node.set_attribute("to", static_cast<std::int64_t>(low));
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

// Who wants a value in one type.
struct Readers {
  std::vector<Use> uses;
  std::vector<GraphSlot> outputs;  // of graphs inside nodes
  bool output_of_main = false;     // the main graph's
  bool empty() const { return uses.empty() && outputs.empty() && !output_of_main; }
};

class CastInserter {
 public:
  CastInserter(Model& model, PassContext& ctx)
      : main_(*model.graph),
        ctx_(ctx),
        assignment_(*ctx.assignment),
        inner_(inner_slots(*model.graph)),
        low_(ctx.policy.low) {}

  bool run() {
    for_each_graph(main_, [&](Graph& graph) { settle_sources(graph); });
    for_each_graph(main_, [&](Graph& graph) {
      for (Node* node : graph.node_list()) {
        const std::vector<Value*> results = node->results();
        for (Value* result : results) settle_fp32(result);
      }
    });
    return changed_;
  }

 private:
  bool io_low() const { return ctx_.policy.io == IoTypes::kLow && !ctx_.policy.force_fp32; }
  bool is_trained(const Value& value) const {
    return ctx_.training && ctx_.training->gradients.count(value.name()) > 0;
  }

  // Inputs and initializers.
  void settle_sources(Graph& graph) {
    for (Value* value : graph.inputs()) settle_fp32(value);
    std::vector<Value*> initializers = graph.initializers();  // a copy: constants beside may join
    for (Value* value : initializers) {
      if (!value->is_graph_input()) settle_fp32(value);
    }
  }

  void settle_fp32(Value* value) {
    if (value != nullptr && value->dtype() == DType::kFloat32) settle(*value);
  }

  Readers readers_wanting(const Value& value, bool low) const {
    Readers readers;
    for (const Use& use : value.uses()) {
      if (assignment_.takes_low(*use.node, use.operand) == low) readers.uses.push_back(use);
    }
    // use lists change order as operands move: sort so that output and records do not depend on it
    std::stable_sort(readers.uses.begin(), readers.uses.end(), [](const Use& a, const Use& b) {
      return std::tie(a.node->name, a.operand) < std::tie(b.node->name, b.operand);
    });
    readers.output_of_main = value.graph() == &main_ && value.is_graph_output() && io_low() == low;
    if (const auto listed = inner_.outputs.find(&value); listed != inner_.outputs.end()) {
      for (const GraphSlot& slot : listed->second) {
        if (assignment_.output_is_low(*slot.graph, slot.index) == low)
          readers.outputs.push_back(slot);
      }
    }
    return readers;
  }

  static void redirect(const Readers& readers, Value* to) {
    for (const Use& use : readers.uses) use.node->set_operand(use.operand, to);
    for (const GraphSlot& slot : readers.outputs) slot.graph->set_output(slot.index, to);
  }

  bool is_made_low(const Value& value) const {
    if (value.producer() != nullptr)
      return assignment_.gives_low(*value.producer(), value.result_index());
    if (!value.is_graph_input() || value.is_initializer()) return false;
    if (value.graph() == &main_) return io_low();
    const auto input = inner_.inputs.find(&value);
    return input != inner_.inputs.end() &&
           assignment_.input_is_low(*input->second.graph, input->second.index);
  }

  void settle(Value& value) {
    if (constant_data(value) && !is_trained(value)) return settle_constant(value);
    const bool made_low = is_made_low(value);
    if (made_low) {
      value.type.tensor.dtype = low_;
      if (value.producer() != nullptr) set_type_attributes(*value.producer(), low_);
      changed_ = true;
    }
    Readers others = readers_wanting(value, !made_low);
    // An input that is an output by the same name has one type for both.
    if (value.is_graph_input()) others.output_of_main = false;
    if (!others.empty()) add_cast(value, others, made_low ? DType::kFloat32 : low_);
  }

  // Constants are stored in the type their users want, twice if these differ; no cast at run time.
  void settle_constant(Value& value) {
    const Readers low = readers_wanting(value, true), fp32 = readers_wanting(value, false);
    if (low.empty()) return;
    const TensorRef data = constant_data(value);
    const TensorRef low_data = low_copy(data, assignment_.saturate.count(&value) > 0);
    record_constant(value, low);
    // The value itself keeps the public name, else turns low where nobody wants FP32.
    const bool itself_low = low.output_of_main || fp32.empty();
    const Readers& others = itself_low ? fp32 : low;
    if (!others.empty()) redirect(others, add_constant_beside(value, itself_low ? data : low_data));
    if (itself_low) store(value, low_data);
    changed_ = true;
  }

  // One copy however many constants share the data: tied weights, copies of a function's body.
  TensorRef low_copy(const TensorRef& data, bool saturate) {
    TensorRef& copy = low_copies_[{data->id(), saturate}];
    if (!copy) copy = Tensor::cast_of(data, low_, saturate);
    return copy;
  }

  // The same constant in the other type, as initializer or Constant node like the first.
  Value* add_constant_beside(const Value& value, const TensorRef& data) {
    Graph& graph = *value.graph();
    const std::string name = graph.unique_name(value.name() + suffix(data->dtype()));
    Node* producer = value.producer();
    if (producer == nullptr) return graph.add_initializer(name, data);
    const std::string names[] = {name};
    Node* constant = graph.add_node("Constant", "", {}, names, producer);
    constant->name = producer->name.empty() ? "" : producer->name + suffix(data->dtype());
    constant->set_attribute("value", NamedTensor{"", data});
    constant->result()->type = value.type;
    constant->result()->type.tensor.dtype = data->dtype();
    return constant->result();
  }

  static void store(Value& value, const TensorRef& data) {
    if (Node* producer = value.producer()) {
      for (const std::string_view form : {"value_float", "value_floats"})
        producer->erase_attribute(form);
      producer->set_attribute("value", NamedTensor{"", data});
      value.type.tensor.dtype = data->dtype();
    } else {
      value.graph()->replace_constant(&value, data);
    }
  }

  std::string suffix(DType dtype) const {
    return dtype == DType::kFloat32 ? "_fp32" : low_suffix(low_);
  }

  void add_cast(Value& value, const Readers& readers, DType to) {
    Graph& graph = *value.graph();
    const std::string names[] = {graph.unique_name(value.name() + suffix(to))};
    Value* operands[] = {&value};
    Node* cast = graph.add_node("Cast", "", operands, names, first_place_behind(value));
    cast->name = "cast/" + cast->result()->name();
    cast->set_attribute("to", static_cast<std::int64_t>(to));
    Value* result = cast->result();
    result->type = value.type;
    result->type.tensor.dtype = to;
    redirect(readers, result);
    // Readers of the old value stay with it: only its name changes.
    if (readers.output_of_main) give_output_to(value, result);
    record_cast(value, readers, to, cause(value, readers, to));
    if (readers.output_of_main) ctx_.records.casts.back().value = result->name();
    ctx_.stats.add("casts-inserted", 1);
    changed_ = true;
  }

  // The public name goes with the output; the inner value takes a name that tells its type.
  void give_output_to(Value& value, Value* cast) {
    const std::string public_name = value.name();
    const std::string inner_name = main_.unique_name(public_name + suffix(value.dtype()));
    for (std::size_t i = 0; i < main_.outputs().size(); ++i) {
      if (main_.outputs()[i] == &value) main_.set_output(i, cast);
    }
    cast->doc_string = std::exchange(value.doc_string, {});
    cast->metadata = std::exchange(value.metadata, {});
    main_.rename(&value, inner_name);
    main_.rename(cast, public_name);
    cast->producer()->name = "cast/" + public_name;
  }

  // Right behind the producer; for inputs and parameters before the first node.
  static Node* first_place_behind(const Value& value) {
    const auto& nodes = value.graph()->nodes();
    if (value.producer() == nullptr) return nodes.empty() ? nullptr : nodes.front().get();
    return value.graph()->next(value.producer());
  }

  static std::string cause(const Value& value, const Readers& readers, DType to) {
    if (readers.output_of_main && readers.uses.empty()) return "graph output keeps its type";
    if (value.is_initializer()) return "master weights stay FP32";
    const std::string takes = " takes " + std::string(dtype_name(to));
    if (!readers.uses.empty()) {
      const Node& node = *readers.uses.front().node;
      return "'" + display_name(node) + "' (" + node.op_type() + ")" + takes;
    }
    const Node* around =
        readers.outputs.empty() ? nullptr : readers.outputs.front().graph->parent();
    if (around == nullptr) return "the graph" + takes;
    return "an output of the graph inside '" + display_name(*around) + "' (" + around->op_type() +
           ") is " + std::string(dtype_name(to));
  }

  void record_cast(const Value& value, const Readers& readers, DType to, std::string why) {
    CastDecision cast =
        decision(value, readers, to == DType::kFloat32 ? low_ : DType::kFloat32, to);
    cast.cause = std::move(why);
    cast.bytes = static_cast<std::uint64_t>(estimated_elems(value)) * (4 + 2);
    ctx_.records.casts.push_back(std::move(cast));
  }

  void record_constant(const Value& value, const Readers& readers) {
    CastDecision cast = decision(value, readers, DType::kFloat32, low_);
    cast.ahead_of_time = true;
    cast.cause = assignment_.saturate.count(&value) > 0 ? "mask constant, saturated to the range"
                                                        : "weight stored low";
    ctx_.records.casts.push_back(std::move(cast));
  }

  static CastDecision decision(const Value& value, const Readers& readers, DType from, DType to) {
    CastDecision cast;
    cast.value = value.name();
    cast.scope = scope_of(*value.graph());
    cast.producer = value.producer() != nullptr
                        ? display_name(*value.producer())
                        : (value.is_initializer() ? "initializer" : "input");
    for (const Use& use : readers.uses) cast.consumers.push_back(display_name(*use.node));
    cast.from = from;
    cast.to = to;
    return cast;
  }

  Graph& main_;
  PassContext& ctx_;
  const Assignment& assignment_;
  const InnerSlots inner_;  // as before any cast: each value is settled once
  DType low_;
  std::map<std::pair<std::uint64_t, bool>, TensorRef> low_copies_;  // by Tensor::id, saturation
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
