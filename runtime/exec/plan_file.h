// Plans on disk: the message in one file, its weights beside it in safetensors.
//
//   plan file = magic "MEZZOPLN", uint64 bytes of the message, uint64 XXH3-64 of the message,
//               the message (plan.proto), end of file; numbers little-endian
// Protobuf alone would take a file cut at the end of a field for a smaller plan.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "compiler/plan/plan.pb.h"
#include "compiler/support/status.h"
#include "runtime/exec/executor.h"

namespace mezzo::runtime {

inline constexpr std::string_view kPlanMagic = "MEZZOPLN";

struct LoadedPlan {
  std::shared_ptr<const proto::Plan> plan;
  WeightSource weights;  // keeps the mapped weights file alive
};

// The contents of a plan file.
std::string plan_file_bytes(const proto::Plan& plan);

// Reads and checks a plan without its weights. InvalidArgument: not a plan, damaged, another
// version.
StatusOr<std::shared_ptr<const proto::Plan>> read_plan(const std::string& path);

// As read_plan, and opens the weights file, which must lie in the plan's folder. InvalidArgument:
// weights missing or damaged, or a name that leads elsewhere.
StatusOr<LoadedPlan> load_plan(const std::string& path);

}  // namespace mezzo::runtime
