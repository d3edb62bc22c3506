// 1. Classify every node (classify.h): fixed FP32, fixed low, or free.
// 2. Make the labelling problem (label_problem.h) of the graph and all graphs inside it. Constants
//    are cast ahead of time and cost nothing.
// 3. Solve it by minimum cut and by propagation; take the one the policy asks for, record both
// costs.
// 4. Write one record per node.

#include "passes/precision/assign_precision.h"

#include <algorithm>
#include <memory>

#include "compiler/ops/op_def.h"
#include "passes/cleanup/recognise.h"
#include "passes/precision/calibration.h"
#include "passes/precision/label_problem.h"
#include "passes/precision/propagate.h"

namespace mezzo::passes {
namespace {

class Assigner {
 public:
  Assigner(const Model& model, PassContext& ctx, Classifier classifier, const TargetFacts& target)
      : ctx_(ctx),
        classifier_(std::move(classifier)),
        cost_(target),
        labels_(model, ctx, classifier_, cost_) {}

  void run() {
    const CutProblem& problem = labels_.problem();
    const CutSolution cut = solve_min_cut(problem);
    const std::vector<bool> painted = propagate(problem, labels_.categories());
    const double painted_cost = labelling_cost(problem, painted);
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
  bool is_low(int vertex) const { return vertex >= 0 && low_[static_cast<std::size_t>(vertex)]; }

  // Low inputs and outputs around a graph that computes nothing low would only round.
  void keep_io_if_nothing_is_low() {
    if (labels_.caller() < 0) return;
    const std::vector<const Node*>& nodes = labels_.nodes();
    if (std::any_of(nodes.begin(), nodes.end(),
                    [&](const Node* node) { return is_low(labels_.vertex_of(*node)); }))
      return;
    ctx_.policy.io = IoTypes::kKeep;
    ctx_.records.warnings.push_back("nothing runs low, so inputs and outputs keep their types");
    std::fill(low_.begin(), low_.end(), false);
  }

  double all_fp32_us() const {
    double sum = 0;
    for (const CutProblem::Vertex& vertex : labels_.problem().vertices) sum += vertex.fp32_cost;
    return sum;
  }

  void publish() {
    auto assignment = std::make_shared<Assignment>(labels_.assignment(low_));
    for (const Node* node : labels_.nodes()) {
      const NodeAssignment* own = nullptr;
      if (const auto found = assignment->nodes.find(node); found != assignment->nodes.end())
        own = &found->second;
      const bool low = own != nullptr && own->low;
      record(*node, low);
      if (low && !has_borders(*node)) note_saturation(*node, own->slots, *assignment);
      ctx_.stats.add(low ? "nodes-low" : "nodes-fp32", 1);
    }
    ctx_.assignment = std::move(assignment);
  }

  void note_saturation(const Node& node, const LowSlots& slots, Assignment& assignment) {
    for (std::size_t i = 0; i < node.operand_count(); ++i) {
      const Value* operand = node.operand(i);
      if (operand == nullptr || i >= slots.operands.size() || !slots.operands[i]) continue;
      if (classifier_.ranges().check(*operand).saturates) assignment.saturate[operand] = true;
    }
  }

  void record(const Node& node, bool low) {
    const Classification& c = labels_.classification(node);
    NodeDecision decision;
    decision.node = display_name(node);
    decision.scope = scope_of(*node.graph());
    decision.op_type = node.op_type();
    decision.domain = node.domain();
    decision.rule = c.rule;
    decision.cause = c.rule == Rule::kCut ? c.cause + neighbours(node, low) : c.cause;
    if (has_borders(node) && c.freedom == Freedom::kFp32 && c.rule == Rule::kSchema) {
      decision.rule = Rule::kCut;
      decision.cause = "what passes its border has the type that costs least";
      if (const std::string& measured = labels_.border_cause(node); !measured.empty()) {
        decision.rule = Rule::kCalibration;
        decision.cause = measured;
      }
    }
    decision.dtype = low ? ctx_.policy.low
                         : (c.freedom == Freedom::kNotFloat ? low_already(node) : DType::kFloat32);
    const double runs = labels_.runs(*node.graph());
    decision.flops = flops(node) * runs;
    decision.bytes = static_cast<std::uint64_t>(std::min(
        1e18,
        runs * static_cast<double>(cost_.node_bytes(
                   node, decision.dtype == DType::kNone ? DType::kFloat32 : decision.dtype))));
    ctx_.records.nodes.push_back(std::move(decision));
  }

  // ", follows 'conv1' and 'conv2'": neighbours of the same label, producers first.
  std::string neighbours(const Node& node, bool low) const {
    std::vector<std::string> names;
    const auto consider = [&](const Node* other) {
      const int vertex = other == nullptr ? -1 : labels_.vertex_of(*other);
      if (vertex < 0 || is_low(vertex) != low || names.size() >= 2) return;
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

  PassContext& ctx_;
  Classifier classifier_;
  CostModel cost_;
  LabelProblem labels_;
  std::vector<bool> low_;
};

}  // namespace

StatusOr<bool> assign_precision(Model& model, PassContext& ctx) {
  MEZZO_ASSIGN_OR_RETURN(const TargetFacts* const target, find_target(ctx.policy.target));
  const auto assign = [&](PassContext& with) -> Status {
    std::unordered_map<const Node*, std::string> groups;
    for_each_graph(*model.graph, [&](Graph& graph) { groups.merge(pattern_groups(graph)); });
    MEZZO_ASSIGN_OR_RETURN(Classifier classifier,
                           Classifier::create(model, with, std::move(groups)));
    with.records.nodes.clear();
    with.records.target = with.policy.target;
    with.records.policy = with.policy.describe();
    Assigner(model, with, std::move(classifier), *target).run();
    return ok_status();
  };
  PassContext uncalibrated;
  uncalibrated.policy = ctx.policy;  // as given: assigning may take back --io low
  MEZZO_RETURN_IF_ERROR(assign(ctx));
  if (!ctx.calibration) return false;
  uncalibrated.for_runtime = ctx.for_runtime;
  uncalibrated.training = ctx.training;
  uncalibrated.symbol_values = ctx.symbol_values;
  MEZZO_RETURN_IF_ERROR(assign(uncalibrated));
  record_calibration(model, ctx, uncalibrated.records.nodes);
  return false;
}

}  // namespace mezzo::passes
