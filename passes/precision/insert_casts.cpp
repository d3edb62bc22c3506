// For every FP32 value: what type does its producer make, which uses want which type?
//
// 1. The value takes the producer's type.
// 2. Uses that want the other type go to one cast of it.
// 3. Type-carrying attributes (Cast's `to`) follow their results.

#include "passes/precision/insert_casts.h"

#include <algorithm>
#include <string>
#include <vector>

#include "passes/precision/assignment.h"
#include "passes/precision/range.h"

namespace mezzo::passes {
namespace {

std::string low_suffix(DType low) { return low == DType::kBFloat16 ? "_bf16" : "_fp16"; }

std::string user_name(const Node& node) { return node.name.empty() ? describe(node) : node.name; }

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
    if (constant_data(value) && !is_trained(value) && !value.is_graph_output())
      return settle_constant(value);
    bool made_low = value.producer() != nullptr &&
                    assignment_.gives_low(*value.producer(), value.result_index());
    if (value.is_graph_input() && !value.is_initializer()) made_low = io_low();
    if (made_low) {
      value.type.tensor.dtype = low_;
      if (value.producer() != nullptr && value.producer()->is("Cast")) {
        value.producer()->set_attribute("to", static_cast<std::int64_t>(low_));
      }
      changed_ = true;
    }
    const std::vector<Use> others = uses_wanting(value, !made_low);
    const bool output_differs = value.is_graph_output() && made_low != io_low();
    if (others.empty() && !output_differs) return;
    add_cast(value, others, output_differs, made_low ? DType::kFloat32 : low_);
  }

  // Constants are stored in the type their users want; no cast at run time.
  void settle_constant(Value& value) {
    const std::vector<Use> low_uses = uses_wanting(value, true);
    if (low_uses.empty()) return;
    const TensorRef data = constant_data(value);
    const bool saturate = assignment_.saturate.count(&value) > 0;
    const TensorRef low_data = Tensor::cast_of(data, low_, saturate);
    const bool all_low = low_uses.size() == value.uses().size();
    Node* producer = value.producer();
    Value* low_value = nullptr;
    if (producer != nullptr) {
      const std::string name[] = {value.name() + low_suffix(low_)};
      Node* constant = graph_.add_node("Constant", "", {}, name, producer);
      constant->name = producer->name.empty() ? "" : producer->name + low_suffix(low_);
      constant->set_attribute("value", NamedTensor{"", low_data});
      low_value = constant->result();
      low_value->type = value.type;
      low_value->type.tensor.dtype = low_;
    } else if (all_low) {
      graph_.replace_constant(&value, low_data);
    } else {
      low_value = graph_.add_initializer(value.name() + low_suffix(low_), low_data);
    }
    record(value, low_uses, DType::kFloat32, low_, true,
           saturate ? "mask constant, saturated to the range" : "weight stored low");
    if (low_value != nullptr) {
      for (const Use& use : low_uses) use.node->set_operand(use.operand, low_value);
    }
    if (producer != nullptr && !value.has_uses()) graph_.erase(producer);
    changed_ = true;
  }

  void add_cast(Value& value, const std::vector<Use>& uses, bool for_output, DType to) {
    const std::string base = value.name() + (to == DType::kFloat32 ? "_fp32" : low_suffix(low_));
    const std::string names[] = {base};
    Value* operands[] = {&value};
    Node* cast = graph_.add_node("Cast", "", operands, names, first_place_behind(value));
    cast->name = "cast/" + cast->result()->name();
    cast->set_attribute("to", static_cast<std::int64_t>(to));
    Value* result = cast->result();
    result->type = value.type;
    result->type.tensor.dtype = to;
    for (const Use& use : uses) use.node->set_operand(use.operand, result);
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
    const std::string inner_name = graph_.unique_name(
        public_name + (value.dtype() == DType::kFloat32 ? "_fp32" : low_suffix(low_)));
    const std::string cast_name = cast->name();
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
                                         : "'" + user_name(*uses.front().node) + "' (" +
                                               uses.front().node->op_type() + ")";
    return who + " takes " + std::string(dtype_name(to));
  }

  void record(const Value& value, const std::vector<Use>& uses, DType from, DType to, bool ahead,
              std::string why) {
    CastDecision cast;
    cast.value = value.name();
    cast.producer = value.producer() != nullptr
                        ? user_name(*value.producer())
                        : (value.is_initializer() ? "initializer" : "input");
    for (const Use& use : uses) cast.consumers.push_back(user_name(*use.node));
    cast.from = from;
    cast.to = to;
    cast.ahead_of_time = ahead;
    cast.cause = std::move(why);
    if (!ahead && value.tensor_type().has_static_shape()) {
      cast.bytes = static_cast<std::uint64_t>(value.tensor_type().elems()) * (4 + 2);
    }
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
