// Every rewrite is anchored at its last node, a Log or a division. What that reads is followed
// down, through nodes that only move elements, to the probability; the moves are repeated on the
// logarithm. Nodes that nothing reads any more are left to `dce`.

#include "passes/cleanup/stable_logs.h"

#include <vector>

#include "compiler/ir/builder.h"
#include "compiler/ops/op_def.h"
#include "passes/cleanup/match.h"

namespace mezzo::passes {
namespace {

constexpr int kMostMoves = 8;  // exporters write two or three

// Gives elements of operand 0, computing nothing.
bool moves(const Node& node) {
  return is_one_of(node, {"Identity", "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose",
                          "Expand", "Slice", "Gather", "GatherElements", "GatherND"});
}

// A sum or difference with the number 1 that leaves the shape of `rest` as it is; null otherwise.
// Exactly 1: 1 + 1e-7 is written to keep the logarithm from infinity, and does so by itself.
Value* beside_one(const Node& node, std::size_t one) {
  const Value* constant = node.operand(one);
  Value* rest = node.operand(1 - one);
  if (constant == nullptr || rest == nullptr || !is_scalar(constant, 1, 0)) return nullptr;
  const auto dims = static_dims(constant);
  const auto rank = rest->type.is_tensor() ? rest->tensor_type().rank() : std::nullopt;
  return dims && (dims->empty() || (rank && dims->size() <= *rank)) ? rest : nullptr;
}

// x of 1 + Exp(x); null if it is something else.
Value* one_plus_exp(const Value* value) {
  const Node* sum = producer_if(value, "Add");
  if (sum == nullptr) return nullptr;
  for (const std::size_t one : {std::size_t{0}, std::size_t{1}}) {
    const Node* exp = producer_if(beside_one(*sum, one), "Exp");
    if (exp != nullptr) return exp->operand(0);
  }
  return nullptr;
}

// x of Sigmoid(x) where `value` is 1 - Sigmoid(x); null if it is something else.
Value* complement_of_sigmoid(const Value* value) {
  const Node* sigmoid = nullptr;
  if (const Node* sub = producer_if(value, "Sub")) {
    sigmoid = producer_if(beside_one(*sub, 0), "Sigmoid");
  } else if (const Node* add = producer_if(value, "Add")) {  // 1 + -Sigmoid(x)
    for (const std::size_t one : {std::size_t{0}, std::size_t{1}}) {
      const Node* neg = producer_if(beside_one(*add, one), "Neg");
      if (neg != nullptr) sigmoid = producer_if(neg->operand(0), "Sigmoid");
    }
  }
  return sigmoid == nullptr ? nullptr : sigmoid->operand(0);
}

bool is_wide_float(const Value* value) {
  return value != nullptr && is_floating(value->dtype()) && !is_low(value->dtype());
}

// log(value) computed from the scores; null where `value` is no probability.
Value* stable_log(Builder& builder, const Value* value) {
  if (const Node* sigmoid = producer_if(value, "Sigmoid")) {
    Value* opposite = builder.op("Neg", {sigmoid->operand(0)});
    return builder.op("Neg", {builder.op("Softplus", {opposite})});
  }
  if (const Node* softmax = producer_if(value, "Softmax"))
    return builder.op("LogSoftmax", {softmax->operand(0)},
                      {{"axis", softmax->int_attribute("axis", -1)}});
  if (Value* x = complement_of_sigmoid(value))
    return builder.op("Neg", {builder.op("Softplus", {x})});
  if (Value* x = one_plus_exp(value)) return builder.op("Softplus", {x});
  return nullptr;
}

// The same move of another value.
Value* repeat(Builder& builder, const Node& move, Value* value) {
  std::vector<Value*> operands = move.operands();
  operands[0] = value;
  std::vector<Builder::NamedValue> attributes;
  for (const Attribute& attribute : move.attributes())
    attributes.emplace_back(attribute.name, attribute.value);
  return builder.op(move.op_type(), std::move(operands), std::move(attributes));
}

Value* rewritten_log(Builder& builder, const Node& log) {
  std::vector<const Node*> path;
  const Value* value = log.operand(0);
  while (value != nullptr && value->producer() != nullptr && moves(*value->producer()) &&
         path.size() < kMostMoves) {
    path.push_back(value->producer());
    value = value->producer()->operand(0);
  }
  if (!is_wide_float(value)) return nullptr;
  Value* result = stable_log(builder, value);
  for (auto move = path.rbegin(); result != nullptr && move != path.rend(); ++move)
    result = repeat(builder, **move, result);
  return result;
}

// 1 / (1 + exp(x)): where exp(x) is infinite the quotient is 0 as it should be, but its gradient
// is not a number.
Value* rewritten_quotient(Builder& builder, const Node& node) {
  const Value* divisor = nullptr;
  if (node.is("Reciprocal")) divisor = node.operand(0);
  if (node.is("Div") && beside_one(node, 0) != nullptr) divisor = node.operand(1);
  Value* x = one_plus_exp(divisor);
  if (x == nullptr || !is_wide_float(x)) return nullptr;
  const Node* neg = producer_if(x, "Neg");
  return builder.op("Sigmoid", {neg != nullptr ? neg->operand(0) : builder.op("Neg", {x})});
}

StatusOr<bool> rewrite(Graph& graph, const Model& model, PassContext& ctx) {
  std::vector<Node*> anchors;
  for (const auto& node : graph.nodes()) {
    if (is_one_of(node.get(), {"Log", "Reciprocal", "Div"}) && node->result() != nullptr)
      anchors.push_back(node.get());
  }
  bool changed = false;
  for (Node* node : anchors) {
    Builder builder(graph, type_inference(model), node);
    builder.set_scope(node->name.empty() ? node->op_type() : node->name);
    Value* result =
        node->is("Log") ? rewritten_log(builder, *node) : rewritten_quotient(builder, *node);
    MEZZO_RETURN_IF_ERROR(builder.status());
    if (result == nullptr) continue;
    graph.replace_uses(node->result(), result);
    // The result may have taken a public name; unnamed nodes are called by it.
    result->producer()->name = node->name.empty() ? result->name() : node->name;
    graph.erase(node);
    ctx.stats.add("logs-made-stable", 1);
    changed = true;
  }
  return changed;
}

}  // namespace

StatusOr<bool> stable_logs(Model& model, PassContext& ctx) {
  bool changed = false;
  std::vector<Graph*> graphs;
  for_each_graph(*model.graph, [&](Graph& graph) { graphs.push_back(&graph); });
  for (Graph* graph : graphs) {
    MEZZO_ASSIGN_OR_RETURN(const bool one, rewrite(*graph, model, ctx));
    changed = changed || one;
  }
  return changed;
}

}  // namespace mezzo::passes
