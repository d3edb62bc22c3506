#include "passes/precision/borders.h"

#include <algorithm>

#include "compiler/ops/constants.h"
#include "compiler/ops/op_def.h"
#include "passes/cleanup/expand_functions.h"

namespace mezzo::passes {
namespace {

std::uint32_t u32(std::size_t value) { return static_cast<std::uint32_t>(value); }

std::vector<Border> if_borders(const Node& node, const std::vector<Graph*>& branches) {
  std::vector<Border> out;
  for (std::uint32_t i = 0; i < node.results().size(); ++i) {
    Border border{{}, {i}, {}, {}, "result of both branches"};
    for (Graph* branch : branches) {
      if (i >= branch->outputs().size()) return {};
      border.outputs.push_back({branch, i});
    }
    out.push_back(std::move(border));
  }
  return out;
}

// Loop and Scan: states go in and come back, further outputs are stacked.
struct IterationShape {
  std::uint32_t first_operand = 0;  // operand of the first state
  std::uint32_t first_input = 0;    // body input of the first state
  std::uint32_t first_output = 0;   // body output of the first state
  std::uint32_t states = 0;
  std::uint32_t scan_inputs = 0;  // operands and body inputs behind the states
};

std::vector<Border> iteration_borders(const Node& node, Graph* body, const IterationShape& shape) {
  const std::size_t results = node.results().size();
  if (node.operand_count() != shape.first_operand + shape.states + shape.scan_inputs ||
      body->inputs().size() != shape.first_input + shape.states + shape.scan_inputs ||
      body->outputs().size() < shape.first_output + shape.states ||
      body->outputs().size() != shape.first_output + std::max<std::size_t>(results, shape.states))
    return {};
  std::vector<Border> out;
  for (std::uint32_t i = 0; i < shape.states; ++i) {
    Border border{{shape.first_operand + i},
                  {},
                  {{body, shape.first_input + i}},
                  {{body, shape.first_output + i}},
                  "carried state"};
    if (i < results) border.results.push_back(i);
    out.push_back(std::move(border));
  }
  for (std::uint32_t i = shape.states; i < shape.states + shape.scan_inputs; ++i)
    out.push_back(
        {{shape.first_operand + i}, {}, {{body, shape.first_input + i}}, {}, "slices of an input"});
  for (std::uint32_t i = shape.states; i < results; ++i)
    out.push_back({{}, {i}, {}, {{body, shape.first_output + i}}, "stacked output"});
  return out;
}

std::vector<Border> loop_borders(const Node& node, Graph* body) {
  if (node.operand_count() < 2) return {};
  return iteration_borders(node, body, {2, 2, 1, u32(node.operand_count() - 2), 0});
}

std::vector<Border> scan_borders(const Node& node, Graph* body, std::int64_t opset) {
  const std::int64_t scanned = node.int_attribute("num_scan_inputs", 0);
  const std::uint32_t first = opset < 9 ? 1 : 0;  // sequence_lens
  const auto given = static_cast<std::int64_t>(node.operand_count()) - first;
  if (scanned < 0 || scanned > given) return {};
  return iteration_borders(node, body,
                           {first, 0, 0, static_cast<std::uint32_t>(given - scanned),
                            static_cast<std::uint32_t>(scanned)});
}

std::vector<Border> call_borders(const Node& node, Graph* body) {
  std::vector<Border> out;
  if (node.operand_count() > body->inputs().size() ||
      node.results().size() > body->outputs().size())
    return out;
  for (std::uint32_t i = 0; i < node.operand_count(); ++i)
    out.push_back({{i}, {}, {{body, i}}, {}, "operand of the call"});
  for (std::uint32_t i = 0; i < node.results().size(); ++i)
    out.push_back({{}, {i}, {}, {{body, i}}, "result of the call"});
  return out;
}

constexpr int kDepth = 8;  // how many nodes that move data are looked through

bool is_clear(const Node& node) {
  const OpDef* def = find_op(node);
  return node.is("Cast") || (def != nullptr && def->precision == PrecisionCategory::kClear);
}

// Is `value` made from `origin` by moving data alone?
bool moves(const Value* value, const Value* origin, int depth = kDepth) {
  if (value == origin) return true;
  const Node* producer = value == nullptr ? nullptr : value->producer();
  return producer != nullptr && depth > 0 && is_clear(*producer) &&
         moves(producer->operand(0), origin, depth - 1);
}

}  // namespace

bool has_borders(const Node& node) {
  return node.is("If") || node.is("Loop") || node.is("Scan") || call_body(node) != nullptr;
}

std::vector<Border> borders(const Node& node, std::int64_t opset) {
  if (Graph* body = call_body(node)) return call_borders(node, body);
  const std::vector<Graph*> graphs = node.subgraphs();
  if (node.is("If")) return if_borders(node, graphs);
  if (graphs.size() != 1) return {};
  if (node.is("Loop")) return loop_borders(node, graphs.front());
  if (node.is("Scan")) return scan_borders(node, graphs.front(), opset);
  return {};
}

InnerSlots inner_slots(Graph& main) {
  InnerSlots slots;
  for_each_graph(main, [&](Graph& graph) {
    if (&graph == &main) return;
    for (std::uint32_t i = 0; i < graph.inputs().size(); ++i)
      slots.inputs[graph.inputs()[i]] = {&graph, i};
    for (std::uint32_t i = 0; i < graph.outputs().size(); ++i)
      slots.outputs[graph.outputs()[i]].push_back({&graph, i});
  });
  return slots;
}

double runs_per_node(const Node& node, std::int64_t opset) {
  if (node.is("Loop")) {
    const auto trips = constant_ints(node.operand(0));
    return trips && trips->size() == 1 && trips->front() >= 0 ? static_cast<double>(trips->front())
                                                              : static_cast<double>(kAssumedExtent);
  }
  if (!node.is("Scan")) return 1;
  const auto count = static_cast<std::size_t>(
      std::clamp<std::int64_t>(node.int_attribute("num_scan_inputs", 0), 0, 1 << 20));
  if (count == 0 || count > node.operand_count()) return kAssumedExtent;
  const std::size_t first = node.operand_count() - count;
  const Value* scanned = node.operand(first);
  const auto axes = node.ints_attribute("scan_input_axes");
  std::int64_t axis = opset < 9 ? 1 : (axes.empty() ? 0 : axes.front());
  if (scanned == nullptr || !scanned->type.is_tensor() || !scanned->tensor_type().shape)
    return kAssumedExtent;
  const std::vector<Dim>& dims = *scanned->tensor_type().shape;
  if (axis < 0) axis += static_cast<std::int64_t>(dims.size());
  if (axis < 0 || axis >= static_cast<std::int64_t>(dims.size())) return kAssumedExtent;
  const Dim& dim = dims[static_cast<std::size_t>(axis)];
  return static_cast<double>(dim.known() ? dim.value : kAssumedExtent);
}

std::string scope_of(const Graph& graph) {
  const Node* around = graph.parent();
  return around == nullptr ? "" : scope_of(*around->graph()) + display_name(*around) + " > ";
}

bool accumulates(const Border& border) {
  if (border.inputs.size() != 1 || border.outputs.size() != 1) return false;
  const Value* given = border.inputs[0].graph->inputs()[border.inputs[0].index];
  const Node* last = border.outputs[0].graph->outputs()[border.outputs[0].index]->producer();
  for (int depth = 0; last != nullptr && depth < kDepth; ++depth) {
    if (last->is("Add") || last->is("Sub") || last->is("Sum")) {
      const std::vector<Value*> operands = last->operands();
      return std::any_of(operands.begin(), operands.end(),
                         [&](const Value* operand) { return moves(operand, given); });
    }
    if (!is_clear(*last)) return false;
    last = last->operand(0) == nullptr ? nullptr : last->operand(0)->producer();
  }
  return false;
}

}  // namespace mezzo::passes
