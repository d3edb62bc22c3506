#include "passes/precision/label_problem.h"

#include <algorithm>

#include "compiler/ops/schema.h"
#include "passes/cleanup/expand_functions.h"

namespace mezzo::passes {
namespace {

constexpr double kMostCost = 1e9;  // see solve_min_cut()
constexpr double kMostRuns = 1e6;  // of a loop body; beyond it nothing changes

// Graphs in nodes that the passes know inside out; others (a custom operator's) stay untouched.
bool may_enter(const Node& node) { return has_borders(node) || node.is("SequenceMap"); }

// The user pinned the node around: what stands in it stays FP32 too.
bool holds_within(const Classification& c) {
  return c.freedom == Freedom::kFp32 && (c.rule == Rule::kPin || c.rule == Rule::kPolicy);
}

void put(std::vector<int>& slots, std::size_t index, int vertex) {
  if (slots.size() <= index) slots.resize(index + 1, CutProblem::kAlwaysFp32);
  slots[index] = vertex;
}

int at(const std::vector<int>& slots, std::size_t index) {
  return index < slots.size() ? slots[index] : CutProblem::kAlwaysFp32;
}

std::vector<bool> labels(const std::vector<int>& slots, const std::vector<bool>& low) {
  std::vector<bool> flags;
  for (const int vertex : slots)
    flags.push_back(vertex >= 0 && low[static_cast<std::size_t>(vertex)]);
  return flags;
}

}  // namespace

LabelProblem::LabelProblem(const Model& model, const PassContext& ctx, Classifier& classifier,
                           const CostModel& cost)
    : model_(model),
      ctx_(ctx),
      classifier_(classifier),
      cost_(cost),
      inner_(inner_slots(*model.graph)) {
  runs_[model.graph.get()] = 1;
  collect_nodes(*model.graph, nullptr);
  // One vertex stands for callers that take and give low tensors.
  if (ctx.policy.io == IoTypes::kLow && !ctx.policy.force_fp32) {
    caller_ = static_cast<int>(problem_.vertices.size());
    problem_.vertices.push_back({CutProblem::Fixed::kLow, 0, 0});
    categories_.push_back(PrecisionCategory::kAllow);
  }
  collect_borders();
  collect_tensors();
}

void LabelProblem::collect_nodes(const Graph& graph, const Classification* around) {
  const double runs = runs_.at(&graph);
  const std::int64_t opset = classifier_.functions().opset(graph, "");
  for (const auto& node : graph.nodes()) {
    Classification c = classifier_.classify(*node);
    if (around != nullptr && c.freedom != Freedom::kNotFloat) {
      c.freedom = Freedom::kFp32;
      c.rule = around->rule;
      c.cause = around->cause;
    }
    nodes_.push_back(node.get());
    add_node(*node, std::move(c));
    if (!may_enter(*node)) continue;
    const Classification& own = classes_.at(node.get());
    const double inside = std::min(runs * runs_per_node(*node, opset), kMostRuns);
    for (const Graph* inner : node->subgraphs()) {
      runs_[inner] = inside;
      collect_nodes(*inner, holds_within(own) ? &own : around);
    }
  }
}

void LabelProblem::add_node(const Node& node, Classification c) {
  if (c.freedom != Freedom::kNotFloat && !has_borders(node)) {
    const double runs = runs_.at(node.graph());
    CutProblem::Vertex vertex;
    vertex.fp32_cost = std::min(cost_.node_us(node, DType::kFloat32) * runs, kMostCost);
    vertex.low_cost = std::min(cost_.node_us(node, ctx_.policy.low) * runs, kMostCost);
    if (c.freedom == Freedom::kFp32) vertex.fixed = CutProblem::Fixed::kFp32;
    if (c.freedom == Freedom::kLow) vertex.fixed = CutProblem::Fixed::kLow;
    vertex_of_[&node] = static_cast<int>(problem_.vertices.size());
    problem_.vertices.push_back(vertex);
    categories_.push_back(c.category);
  }
  classes_.emplace(&node, std::move(c));
}

void LabelProblem::collect_borders() {
  for (const Node* node : nodes_) {
    if (!has_borders(*node)) continue;
    for (const Border& border : borders(*node, classifier_.functions().opset(*node->graph(), "")))
      add_border(*node, border);
  }
}

// All values of the border are FP32, and may be low by the schema at this opset.
bool LabelProblem::may_be_low(const Node& node, const Border& border) const {
  const std::int64_t opset = classifier_.functions().opset(*node.graph(), node.domain());
  const bool is_call = call_body(node) != nullptr;
  const auto accepts = [&](std::optional<bool> by_schema) {
    return is_call || ctx_.for_runtime || by_schema.value_or(false);
  };
  for (const std::uint32_t i : border.operands) {
    if (!is_fp32(node.operand(i)) || !accepts(operand_accepts(node, i, ctx_.policy.low, opset)))
      return false;
  }
  for (const std::uint32_t i : border.results) {
    if (node.result(i) != nullptr && !is_fp32(node.result(i))) return false;
    if (!accepts(result_accepts(node, i, ctx_.policy.low, opset))) return false;
  }
  const auto is_fp32_slot = [](const std::vector<Value*>& values, std::size_t index) {
    return is_fp32(values[index]);
  };
  return std::all_of(border.inputs.begin(), border.inputs.end(),
                     [&](const GraphSlot& slot) {
                       return is_fp32_slot(slot.graph->inputs(), slot.index);
                     }) &&
         std::all_of(border.outputs.begin(), border.outputs.end(), [&](const GraphSlot& slot) {
           return is_fp32_slot(slot.graph->outputs(), slot.index);
         });
}

void LabelProblem::add_border(const Node& node, const Border& border) {
  if (!may_be_low(node, border)) return;
  CutProblem::Vertex vertex;
  const bool held = classes_.at(&node).freedom == Freedom::kFp32 &&
                    classes_.at(&node).rule != Rule::kSchema;  // pinned, denied or --fp32
  if (held || accumulates(border)) vertex.fixed = CutProblem::Fixed::kFp32;
  if (std::string cause = measured_cause(node, border); !cause.empty()) {
    vertex.fixed = CutProblem::Fixed::kFp32;
    border_causes_.emplace(&node, std::move(cause));
  }
  const int index = static_cast<int>(problem_.vertices.size());
  problem_.vertices.push_back(vertex);
  categories_.push_back(PrecisionCategory::kClear);
  for (const std::uint32_t i : border.operands) put(node_slots_[&node].operands, i, index);
  for (const std::uint32_t i : border.results) put(node_slots_[&node].results, i, index);
  for (const GraphSlot& slot : border.inputs)
    put(graph_slots_[slot.graph].inputs, slot.index, index);
  for (const GraphSlot& slot : border.outputs)
    put(graph_slots_[slot.graph].outputs, slot.index, index);
}

std::string LabelProblem::measured_cause(const Node& node, const Border& border) const {
  std::vector<const Value*> values;
  for (const std::uint32_t i : border.operands) values.push_back(node.operand(i));
  for (const std::uint32_t i : border.results) values.push_back(node.result(i));
  for (const GraphSlot& slot : border.inputs) values.push_back(slot.graph->inputs()[slot.index]);
  for (const GraphSlot& slot : border.outputs) values.push_back(slot.graph->outputs()[slot.index]);
  for (const Value* value : values) {
    if (value == nullptr) continue;
    if (std::string cause = classifier_.measured_cause(*value); !cause.empty())
      return std::string(border.what) + " " + cause;
  }
  return {};
}

const std::string& LabelProblem::border_cause(const Node& node) const {
  static const std::string kNone;
  const auto found = border_causes_.find(&node);
  return found == border_causes_.end() ? kNone : found->second;
}

void LabelProblem::collect_tensors() {
  const auto add = [&](const Value* value) {
    if (is_fp32(value) && !is_cast_ahead_of_time(*value)) add_tensor(*value);
  };
  const auto add_sources = [&](const Graph& graph) {
    for (const Value* value : graph.inputs()) add(value);
    for (const Value* value : graph.initializers()) {
      if (!value->is_graph_input()) add(value);
    }
  };
  add_sources(*model_.graph);
  for (const Node* node : nodes_) {
    for (const Value* result : node->results()) add(result);
    if (!may_enter(*node)) continue;
    for (const Graph* inner : node->subgraphs()) add_sources(*inner);
  }
}

bool LabelProblem::is_cast_ahead_of_time(const Value& value) const {
  const bool is_trained = ctx_.training && ctx_.training->gradients.count(value.name()) > 0;
  return constant_data(value) && !is_trained;
}

void LabelProblem::add_tensor(const Value& value) {
  CutProblem::Tensor tensor;
  tensor.producer = producer_of(value);
  for (const Use& use : value.uses()) tensor.consumers.push_back(operand_vertex(use));
  if (value.graph() == model_.graph.get() && value.is_graph_output())
    tensor.consumers.push_back(caller_ >= 0 ? caller_ : CutProblem::kAlwaysFp32);
  if (const auto listed = inner_.outputs.find(&value); listed != inner_.outputs.end()) {
    for (const GraphSlot& slot : listed->second) tensor.consumers.push_back(output_vertex(slot));
  }
  tensor.cast_cost = std::min(cost_.cast_us(value) * runs_.at(value.graph()), kMostCost);
  problem_.tensors.push_back(std::move(tensor));
}

int LabelProblem::producer_of(const Value& value) const {
  const Node* producer = value.producer();
  if (producer == nullptr) {
    if (value.graph() == model_.graph.get())
      return value.is_graph_input() && !value.is_initializer() && caller_ >= 0
                 ? caller_
                 : CutProblem::kAlwaysFp32;
    const auto input = inner_.inputs.find(&value);
    const auto slots = graph_slots_.find(value.graph());
    return input == inner_.inputs.end() || slots == graph_slots_.end()
               ? CutProblem::kAlwaysFp32
               : at(slots->second.inputs, input->second.index);
  }
  if (const auto slots = node_slots_.find(producer); slots != node_slots_.end())
    return at(slots->second.results, value.result_index());
  const auto vertex = vertex_of_.find(producer);
  const std::vector<bool>& low = classes_.at(producer).slots.results;
  const bool can =
      vertex != vertex_of_.end() && value.result_index() < low.size() && low[value.result_index()];
  return can ? vertex->second : CutProblem::kAlwaysFp32;
}

int LabelProblem::operand_vertex(const Use& use) const {
  if (const auto slots = node_slots_.find(use.node); slots != node_slots_.end())
    return at(slots->second.operands, use.operand);
  const auto vertex = vertex_of_.find(use.node);
  if (vertex == vertex_of_.end()) return CutProblem::kAlwaysFp32;  // of a graph not looked into
  const std::vector<bool>& low = classes_.at(use.node).slots.operands;
  return use.operand < low.size() && low[use.operand] ? vertex->second : CutProblem::kAlwaysFp32;
}

int LabelProblem::output_vertex(const GraphSlot& slot) const {
  const auto slots = graph_slots_.find(slot.graph);
  return slots == graph_slots_.end() ? CutProblem::kAlwaysFp32
                                     : at(slots->second.outputs, slot.index);
}

int LabelProblem::vertex_of(const Node& node) const {
  const auto found = vertex_of_.find(&node);
  return found == vertex_of_.end() ? -1 : found->second;
}

Assignment LabelProblem::assignment(const std::vector<bool>& low) const {
  Assignment out;
  for (const Node* node : nodes_) {
    const int vertex = vertex_of(*node);
    if (vertex >= 0)
      out.nodes[node] = {low[static_cast<std::size_t>(vertex)], classification(*node).slots};
    const auto slots = node_slots_.find(node);
    if (slots == node_slots_.end()) continue;
    LowSlots flags{
        true, {}, labels(slots->second.operands, low), labels(slots->second.results, low)};
    const bool any = std::count(flags.operands.begin(), flags.operands.end(), true) +
                         std::count(flags.results.begin(), flags.results.end(), true) >
                     0;
    out.nodes[node] = {any, std::move(flags)};
  }
  for (const auto& [graph, slots] : graph_slots_)
    out.graphs[graph] = {labels(slots.inputs, low), labels(slots.outputs, low)};
  return out;
}

}  // namespace mezzo::passes
