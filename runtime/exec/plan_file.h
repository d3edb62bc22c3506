// Plans on disk: the message in one file, its weights beside it in safetensors.
#pragma once

#include <memory>
#include <string>

#include "compiler/plan/plan.pb.h"
#include "compiler/support/status.h"
#include "runtime/exec/executor.h"

namespace mezzo::runtime {

struct LoadedPlan {
  std::shared_ptr<const proto::Plan> plan;
  WeightSource weights;  // keeps the mapped weights file alive
};

// Reads and checks a plan; the weights file must lie in the plan's folder. InvalidArgument: not a
// plan, damaged, another version, weights missing.
StatusOr<LoadedPlan> load_plan(const std::string& path);

}  // namespace mezzo::runtime
