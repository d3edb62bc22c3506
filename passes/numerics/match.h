// Which value and node of one model stands for which of another: a model and its conversion.
#pragma once

#include <unordered_map>

#include "compiler/ir/graph.h"
#include "compiler/support/status.h"

namespace mezzo::numerics {

struct ModelMatch {
  // From values of `b` (results and inputs of all graphs) to those of `a`: the same name in the
  // same place; else a cast of, or what is cast to, a value that has its counterpart. So a result
  // that left its public name to a cast behind it is found, whichever tool put the cast there.
  std::unordered_map<const Value*, const Value*> a_of;
  // From nodes of `a` to those of `b` that do the same: same operator and name, or matching first
  // results.
  std::unordered_map<const Node*, const Node*> b_of;
};

// Both as prepare() left them. InvalidArgument: their inputs or outputs have other names, numbers
// or ranks, so that they cannot be given the same data.
StatusOr<ModelMatch> match_models(const Model& a, const Model& b);

}  // namespace mezzo::numerics
