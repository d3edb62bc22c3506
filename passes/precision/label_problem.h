// The graph and all graphs inside it as one labelling problem (min_cut.h): which nodes run low,
// and which values cross the borders of control flow and calls low.
//
// A vertex per node that touches FP32 tensors; a vertex per border, whose label is the type of all
// values that cross there; a tensor per FP32 value, priced by the cost model. What stands in the
// body of a loop costs as often as the body runs, so that casts stay outside where they can.
#pragma once

#include <unordered_map>
#include <vector>

#include "compiler/ir/graph.h"
#include "passes/pass.h"
#include "passes/precision/assignment.h"
#include "passes/precision/borders.h"
#include "passes/precision/classify.h"
#include "passes/precision/cost_model.h"
#include "passes/precision/min_cut.h"

namespace mezzo::passes {

class LabelProblem {
 public:
  LabelProblem(const Model& model, const PassContext& ctx, Classifier& classifier,
               const CostModel& cost);

  const CutProblem& problem() const { return problem_; }
  const std::vector<PrecisionCategory>& categories() const { return categories_; }  // per vertex
  // Nodes in order, a node before those in its graphs.
  const std::vector<const Node*>& nodes() const { return nodes_; }
  const Classification& classification(const Node& node) const { return classes_.at(&node); }
  double runs(const Graph& graph) const { return runs_.at(&graph); }

  // The vertex of a node; -1 for nodes that touch nothing in FP32 and those with borders.
  int vertex_of(const Node& node) const;
  // Why samples keep some of what passes the borders of `node` in FP32; "" if they do not.
  const std::string& border_cause(const Node& node) const;
  // The vertex that stands for callers that take and give low tensors; -1 if types are kept.
  int caller() const { return caller_; }

  // What the labels mean for nodes and graphs.
  Assignment assignment(const std::vector<bool>& low) const;

 private:
  using Slots = std::vector<int>;  // vertex per operand, result, input or output
  struct NodeSlots {
    Slots operands, results;
  };
  struct GraphSlots {
    Slots inputs, outputs;
  };

  void collect_nodes(const Graph& graph, const Classification* around);
  void add_node(const Node& node, Classification c);
  void collect_borders();
  bool may_be_low(const Node& node, const Border& border) const;
  void add_border(const Node& node, const Border& border);
  std::string measured_cause(const Node& node, const Border& border) const;
  void collect_tensors();
  void add_tensor(const Value& value);
  int producer_of(const Value& value) const;
  int operand_vertex(const Use& use) const;
  int output_vertex(const GraphSlot& slot) const;
  bool is_cast_ahead_of_time(const Value& value) const;

  const Model& model_;
  const PassContext& ctx_;
  Classifier& classifier_;
  const CostModel& cost_;
  CutProblem problem_;
  std::vector<PrecisionCategory> categories_;
  std::vector<const Node*> nodes_;
  std::unordered_map<const Node*, Classification> classes_;
  std::unordered_map<const Node*, int> vertex_of_;
  std::unordered_map<const Node*, NodeSlots> node_slots_;     // nodes with borders
  std::unordered_map<const Graph*, GraphSlots> graph_slots_;  // graphs within
  std::unordered_map<const Node*, std::string> border_causes_;
  InnerSlots inner_;
  std::unordered_map<const Graph*, double> runs_;  // per run of the model
  int caller_ = -1;
};

}  // namespace mezzo::passes
