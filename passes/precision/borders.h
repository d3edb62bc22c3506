// What a node and the graphs inside it pass to each other, and which of these values must have one
// type: the state that a Loop carries, the results that both branches of an If give, the operands
// of a call.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "compiler/ir/graph.h"

namespace mezzo::passes {

// Input or output number `index` of `graph`.
struct GraphSlot {
  Graph* graph = nullptr;
  std::uint32_t index = 0;
};

// Values of one type. Data flows from the operands and the outputs to the results and the inputs.
struct Border {
  std::vector<std::uint32_t> operands, results;  // of the node
  std::vector<GraphSlot> inputs, outputs;        // of graphs in the node
  std::string_view what;                         // "carried state", "result of both branches", ...
};

// True where borders() says all that passes: If, Loop, Scan, and calls whose body stands in the
// node (expand_functions.h). Graphs inside other nodes are left as they are.
bool has_borders(const Node& node);

// Empty as well where the numbers of operands, inputs and outputs do not fit together. `opset` is
// that of ONNX's own operators (Scan has a further operand before 9).
std::vector<Border> borders(const Node& node, std::int64_t opset);

// Where values are inputs and outputs of graphs inside nodes.
struct InnerSlots {
  std::unordered_map<const Value*, GraphSlot> inputs;
  std::unordered_map<const Value*, std::vector<GraphSlot>> outputs;  // outermost graphs first
};
InnerSlots inner_slots(Graph& main);

// How often a graph inside the node runs per run of the node: the trip count of a Loop, the length
// of a Scan, kAssumedExtent where they are not known; 1 for branches and calls.
double runs_per_node(const Node& node, std::int64_t opset);

// The nodes whose graphs `graph` stands in, outermost first, as records have it: "loop1 > if3 > ".
std::string scope_of(const Graph& graph);

// True if iteration adds to the state: what the body gives back is a sum or difference
// of what it was given and something else. Rounding would add up over the trips.
bool accumulates(const Border& border);

}  // namespace mezzo::passes
