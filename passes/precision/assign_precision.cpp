// 1. Classify every node (classify.h): fixed FP32, fixed low, or free.
// 2. Make the labelling problem: a vertex per node that touches FP32 tensors, a tensor per FP32
//    value, priced by the cost model. Constants are cast ahead of time and cost nothing.
// 3. Solve it by minimum cut and by propagation; take the one the policy asks for, record both
// costs.
// 4. Write one record per node.

#include "passes/precision/assign_precision.h"

#include <algorithm>
#include <memory>
#include <unordered_map>

#include "compiler/ops/op_def.h"
#include "passes/cleanup/recognise.h"
#include "passes/precision/assignment.h"
#include "passes/precision/classify.h"
#include "passes/precision/cost_model.h"
#include "passes/precision/min_cut.h"
#include "passes/precision/propagate.h"

namespace mezzo::passes {
namespace {

class Assigner {
 public:
  Assigner(const Model& model, PassContext& ctx, Classifier classifier, const TargetFacts& target)
      : graph_(*model.graph), ctx_(ctx), classifier_(std::move(classifier)), cost_(target) {}

  void run() {
    collect_nodes();
    collect_tensors();
    const CutSolution cut = solve_min_cut(problem_);
    const std::vector<bool> painted = propagate(problem_, categories_);
    const double painted_cost = labelling_cost(problem_, painted);
    const bool use_cut = ctx_.policy.assign == AssignMethod::kCut;
    low_ = use_cut ? cut.low : painted;
    keep_io_if_nothing_is_low();
    AssignmentCost& cost = ctx_.records.cost;
    cost.method = use_cut ? "cut" : "propagate";
    cost.objective_us = use_cut ? cut.cost : painted_cost;
    cost.alternative_us = use_cut ? painted_cost : cut.cost;
    cost.all_fp32_us = all_fp32_us();
    publish();
  }

 private:
  void collect_nodes() {
    for (const auto& node : graph_.nodes()) {
      Classification c = classifier_.classify(*node);
      if (c.freedom != Freedom::kNotFloat) {
        CutProblem::Vertex vertex;
        vertex.fp32_cost = cost_.node_us(*node, DType::kFloat32);
        vertex.low_cost = cost_.node_us(*node, ctx_.policy.low);
        if (c.freedom == Freedom::kFp32) vertex.fixed = CutProblem::Fixed::kFp32;
        if (c.freedom == Freedom::kLow) vertex.fixed = CutProblem::Fixed::kLow;
        vertex_of_[node.get()] = static_cast<int>(problem_.vertices.size());
        problem_.vertices.push_back(vertex);
        categories_.push_back(c.category);
      }
      classes_.emplace(node.get(), std::move(c));
    }
    // One vertex stands for callers that take and give low tensors.
    if (ctx_.policy.io == IoTypes::kLow && !ctx_.policy.force_fp32) {
      caller_ = static_cast<int>(problem_.vertices.size());
      problem_.vertices.push_back({CutProblem::Fixed::kLow, 0, 0});
      categories_.push_back(PrecisionCategory::kAllow);
    }
  }

  // Low inputs and outputs around a graph that computes nothing low would only round.
  void keep_io_if_nothing_is_low() {
    if (caller_ < 0 || std::count(low_.begin(), low_.end(), true) > 1) return;
    ctx_.policy.io = IoTypes::kKeep;
    ctx_.records.warnings.push_back("nothing runs low, so inputs and outputs keep their types");
  }

  int vertex_at(const Node* node, const std::vector<bool>& slots, std::size_t index) const {
    const auto found = vertex_of_.find(node);
    const bool can = found != vertex_of_.end() && index < slots.size() && slots[index];
    return can ? found->second : CutProblem::kAlwaysFp32;
  }

  void collect_tensors() {
    std::vector<const Value*> values;
    for (const Value* value : graph_.inputs()) values.push_back(value);
    for (const Value* value : graph_.initializers()) {
      if (!value->is_graph_input()) values.push_back(value);
    }
    for (const auto& node : graph_.nodes()) {
      for (const Value* result : node->results()) {
        if (result != nullptr) values.push_back(result);
      }
    }
    for (const Value* value : values) {
      if (value->dtype() == DType::kFloat32 && !is_cast_ahead_of_time(*value)) add_tensor(*value);
    }
  }

  bool is_trained(const Value& value) const {
    return ctx_.training && ctx_.training->gradients.count(value.name()) > 0;
  }
  bool is_cast_ahead_of_time(const Value& value) const {
    return constant_data(value) && !is_trained(value);
  }

  void add_tensor(const Value& value) {
    CutProblem::Tensor tensor;
    if (const Node* producer = value.producer()) {
      tensor.producer =
          vertex_at(producer, classes_.at(producer).slots.results, value.result_index());
    } else if (value.is_graph_input() && !value.is_initializer() && caller_ >= 0) {
      tensor.producer = caller_;
    }
    for (const Use& use : value.uses()) {
      const auto found = classes_.find(use.node);
      tensor.consumers.push_back(
          found == classes_.end() ? CutProblem::kAlwaysFp32  // a subgraph's node
                                  : vertex_at(use.node, found->second.slots.operands, use.operand));
    }
    for (std::size_t i = 0; i < value.inner_outputs().size(); ++i)
      tensor.consumers.push_back(CutProblem::kAlwaysFp32);
    if (value.is_graph_output())
      tensor.consumers.push_back(caller_ >= 0 ? caller_ : CutProblem::kAlwaysFp32);
    tensor.cast_cost = cost_.cast_us(value);
    problem_.tensors.push_back(std::move(tensor));
  }

  double all_fp32_us() const {
    double sum = 0;
    for (const CutProblem::Vertex& vertex : problem_.vertices) sum += vertex.fp32_cost;
    return sum;
  }

  void publish() {
    auto assignment = std::make_shared<Assignment>();
    for (const auto& node : graph_.nodes()) {
      const Classification& c = classes_.at(node.get());
      const auto vertex = vertex_of_.find(node.get());
      const bool low = vertex != vertex_of_.end() && low_[static_cast<std::size_t>(vertex->second)];
      if (vertex != vertex_of_.end()) assignment->nodes[node.get()] = {low, c.slots};
      record(*node, c, low);
      if (low) note_saturation(*node, c, *assignment);
      ctx_.stats.add(low ? "nodes-low" : "nodes-fp32", 1);
    }
    ctx_.assignment = std::move(assignment);
  }

  void note_saturation(const Node& node, const Classification& c, Assignment& assignment) {
    for (std::size_t i = 0; i < node.operand_count(); ++i) {
      const Value* operand = node.operand(i);
      if (operand == nullptr || i >= c.slots.operands.size() || !c.slots.operands[i]) continue;
      if (classifier_.ranges().check(*operand).saturates) assignment.saturate[operand] = true;
    }
  }

  void record(const Node& node, const Classification& c, bool low) {
    NodeDecision decision;
    decision.node = display_name(node);
    decision.op_type = node.op_type();
    decision.domain = node.domain();
    decision.rule = c.rule;
    decision.cause = c.rule == Rule::kCut ? c.cause + neighbours(node, low) : c.cause;
    decision.dtype =
        low ? ctx_.policy.low : (c.freedom == Freedom::kNotFloat ? DType::kNone : DType::kFloat32);
    decision.flops = flops(node);
    decision.bytes =
        cost_.node_bytes(node, decision.dtype == DType::kNone ? DType::kFloat32 : decision.dtype);
    ctx_.records.nodes.push_back(std::move(decision));
  }

  // ", follows 'conv1' and 'conv2'": neighbours of the same label, producers first.
  std::string neighbours(const Node& node, bool low) const {
    std::vector<std::string> names;
    const auto consider = [&](const Node* other) {
      const auto vertex = other == nullptr ? vertex_of_.end() : vertex_of_.find(other);
      if (vertex == vertex_of_.end() || low_[static_cast<std::size_t>(vertex->second)] != low ||
          names.size() >= 2)
        return;
      const std::string name = "'" + (other->name.empty() ? other->op_type() : other->name) + "'";
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    };
    for (const Value* operand : node.operands())
      consider(operand == nullptr ? nullptr : operand->producer());
    for (const Value* result : node.results()) {
      if (result == nullptr) continue;
      for (const Use& use : result->uses()) consider(use.node);
    }
    if (names.empty()) return low ? ", cheaper low" : ", a cast would cost more than it saves";
    return ", follows " + join(names, " and ");
  }

  const Graph& graph_;
  PassContext& ctx_;
  Classifier classifier_;
  CostModel cost_;
  CutProblem problem_;
  std::vector<PrecisionCategory> categories_;
  std::unordered_map<const Node*, int> vertex_of_;
  std::unordered_map<const Node*, Classification> classes_;
  std::vector<bool> low_;
  int caller_ = -1;
};

}  // namespace

StatusOr<bool> assign_precision(Model& model, PassContext& ctx) {
  MEZZO_ASSIGN_OR_RETURN(const TargetFacts* const target, find_target(ctx.policy.target));
  MEZZO_ASSIGN_OR_RETURN(Classifier classifier,
                         Classifier::create(model, ctx, pattern_groups(*model.graph)));
  ctx.records.nodes.clear();
  ctx.records.target = ctx.policy.target;
  ctx.records.policy = ctx.policy.describe();
  Assigner(model, ctx, std::move(classifier), *target).run();
  return false;
}

}  // namespace mezzo::passes
