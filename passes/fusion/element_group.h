// Groups of elementwise nodes as one element program (kernels/element_program.h).
#pragma once

#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "compiler/ir/graph.h"
#include "kernels/element_program.h"
#include "passes/fusion/element_nodes.h"
#include "passes/pass.h"

namespace mezzo::passes {

using ElementNodes = std::unordered_map<const Node*, Element>;
using NodeGroup = std::unordered_set<const Node*>;

struct GroupProgram {
  kernels::ElementProgram program;
  std::vector<Value*> operands;  // of the program, in its order
};

// What the group computes for the result of `root`, which is in it, as are all nodes that it goes
// through. Nothing where that is beyond the limits of kernels, or no statement at all.
std::optional<GroupProgram> write_group(const Node& root, const NodeGroup& group,
                                        const ElementNodes& elements, const PassContext& ctx);

}  // namespace mezzo::passes
