// What `assign-precision` decided, for the passes that carry it out.
#pragma once

#include <string>
#include <unordered_map>

#include "compiler/ir/graph.h"
#include "compiler/report/records.h"
#include "passes/precision/slots.h"

namespace mezzo::passes {

struct NodeAssignment {
  bool low = false;
  LowSlots slots;
};

struct Assignment {
  // Every node of the main graph that has a choice or a reason; nodes not listed stay as they are.
  std::unordered_map<const Node*, NodeAssignment> nodes;
  // Constants whose values beyond the low type's range become its largest finite value (masks).
  std::unordered_map<const Value*, bool> saturate;

  // Does operand `index` of `node` take the low type? False for nodes not listed.
  bool takes_low(const Node& node, std::size_t index) const {
    const auto found = nodes.find(&node);
    if (found == nodes.end() || !found->second.low) return false;
    const auto& operands = found->second.slots.operands;
    return index < operands.size() && operands[index];
  }
  bool gives_low(const Node& node, std::size_t index) const {
    const auto found = nodes.find(&node);
    if (found == nodes.end() || !found->second.low) return false;
    const auto& results = found->second.slots.results;
    return index < results.size() && results[index];
  }
};

}  // namespace mezzo::passes
