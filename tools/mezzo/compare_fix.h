// A policy that keeps blamed nodes in FP32, tried before it is written.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/support/status.h"
#include "passes/numerics/blame.h"
#include "passes/precision/policy.h"

namespace mezzo::cli {

struct Fix {
  std::string json;  // the policy
  std::vector<std::string> nodes;
  double error = 0;  // of the outputs of the model converted with it
  std::uint64_t runs = 0;
  bool enough = false;
};

// Adds a rule for each blamed node to `base`, converts the model at `path` anew and runs it. As
// casts and free nodes around the kept ones may come out differently, what then still departs is
// blamed and added too, a few times over. `a` is the model that prepare() has seen, with its
// inputs and outputs.
StatusOr<Fix> make_fix(const std::string& path, const Model& a, const passes::PrecisionPolicy& base,
                       const numerics::Blame& blame, const std::vector<RuntimeValue>& inputs,
                       const std::vector<RuntimeValue>& outputs,
                       const numerics::BlameOptions& options);

}  // namespace mezzo::cli
