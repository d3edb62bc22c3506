// Finds operators that a model spells out in simpler ones.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "passes/pass.h"

namespace mezzo::passes {

struct PatternMatch {
  std::string name;  // "LayerNormalization", "Gelu", "Softmax", "RMSNormalization", ...
  std::vector<Node*>
      nodes;  // all nodes of it, in graph order; only the last one's result is used outside
  Value* input = nullptr;  // what it is applied to
  Value* scale = nullptr;  // LayerNormalization, RMSNormalization: null if absent
  Value* bias = nullptr;
  std::int64_t axis = -1;
  float epsilon = 0;
  bool tanh_approximation = false;  // Gelu
};

// Matches do not share nodes; larger patterns win. An inner value that something outside uses makes
// no match.
std::vector<PatternMatch> find_patterns(const Graph& graph);

// Node -> the operator that it is a part of, for those whose nodes stay FP32 together
// (normalisations, Softmax and its kind): what the precision passes need to know of a graph that
// keeps its spelled-out form. Finds more forms than find_patterns(); of this graph only, not of
// those inside it.
std::unordered_map<const Node*, std::string> pattern_groups(const Graph& graph);

// Replaces matches by one node each: LayerNormalization (opset 17), RMSNormalization (opset 23),
// Gelu (opset 20), Swish, Softmax, raising nothing: used on the way to our runtime, where opsets do
// not matter.
StatusOr<bool> recognise(Model& model, PassContext& ctx);

}  // namespace mezzo::passes
