// What a conversion lowered, read off the converted model; and the same carried out on the original
// for any part of it.
#pragma once

#include <memory>
#include <unordered_set>
#include <vector>

#include "compiler/ir/graph.h"
#include "passes/numerics/match.h"
#include "passes/precision/slots.h"

namespace mezzo::numerics {

// A node of the original that the other model runs low, or gives rounded data.
struct LoweredNode {
  const Node* node = nullptr;  // of the original
  passes::LowSlots slots;      // operands and results that are low there
  // Low constants that are not the original's, rounded: saturated masks, clamped weights. In FP32.
  struct Given {
    std::size_t operand = 0;
    TensorRef values;
  };
  std::vector<Given> constants;
  // FP32 operands that come there by way of the low type: rounded, though the node is not low.
  std::vector<std::size_t> rounded;
  // Inputs and outputs that are low there, for each graph in the node.
  struct Inner {
    const Graph* graph = nullptr;  // of the original
    std::vector<bool> inputs, outputs;
  };
  std::vector<Inner> inner;
};

struct Lowering {
  DType low = DType::kNone;        // kNone: nothing is low
  std::vector<LoweredNode> nodes;  // in order, a node before those in its graphs
};

// InvalidArgument: `a` itself is not FP32, or the models were given the wrong way round.
StatusOr<Lowering> read_lowering(const Model& a, const Model& b, const ModelMatch& match);

// `a` with the lowered nodes low, but for those in `kept` (indices into lowering.nodes), which run
// in FP32 with all that stands in them. Inputs and outputs keep their types.
StatusOr<std::unique_ptr<Model>> lower_all_but(const Model& a, const Lowering& lowering,
                                               const std::unordered_set<std::size_t>& kept);

}  // namespace mezzo::numerics
