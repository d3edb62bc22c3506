// What `assign-precision` decided, for the passes that carry it out.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/report/records.h"
#include "passes/precision/slots.h"

namespace mezzo::passes {

struct NodeAssignment {
  bool low = false;
  LowSlots slots;
};

// Which inputs and outputs of a graph inside a node are low. Shorter lists: the rest is not.
struct GraphAssignment {
  std::vector<bool> inputs, outputs;
};

struct Assignment {
  // Every node, in whatever graph, that has a choice or a reason; nodes not listed stay as they
  // are. Of a node with graphs inside, the slots say which operands and results are low.
  std::unordered_map<const Node*, NodeAssignment> nodes;
  std::unordered_map<const Graph*, GraphAssignment> graphs;  // those inside nodes
  // Constants whose values beyond the low type's range become its largest finite value (masks).
  std::unordered_map<const Value*, bool> saturate;

  // Does operand `index` of `node` take the low type? False for nodes not listed.
  bool takes_low(const Node& node, std::size_t index) const {
    const auto found = nodes.find(&node);
    if (found == nodes.end() || !found->second.low) return false;
    return at(found->second.slots.operands, index);
  }
  bool gives_low(const Node& node, std::size_t index) const {
    const auto found = nodes.find(&node);
    if (found == nodes.end() || !found->second.low) return false;
    return at(found->second.slots.results, index);
  }
  bool input_is_low(const Graph& graph, std::size_t index) const {
    const auto found = graphs.find(&graph);
    return found != graphs.end() && at(found->second.inputs, index);
  }
  bool output_is_low(const Graph& graph, std::size_t index) const {
    const auto found = graphs.find(&graph);
    return found != graphs.end() && at(found->second.outputs, index);
  }

 private:
  static bool at(const std::vector<bool>& flags, std::size_t index) {
    return index < flags.size() && flags[index];
  }
};

}  // namespace mezzo::passes
