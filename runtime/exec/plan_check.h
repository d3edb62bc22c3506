// Checks a plan from a file before anything is allocated or run. Nothing in a plan is trusted.
#pragma once

#include <cstdint>

#include "compiler/plan/plan.pb.h"
#include "compiler/support/status.h"

namespace mezzo::runtime {

inline constexpr std::uint32_t kPlanFormatVersion = 1;

// InvalidArgument naming the first fault: version, dtypes, sizes that overflow, tensors beyond
// their arena or badly aligned, operand numbers that do not exist, a step that reads bytes nothing
// has written or that another step has overwritten meanwhile, a step that writes into constants or
// parameters, an in-place step whose kernel does not allow it, roles that contradict.
Status check_plan(const proto::Plan& plan);

// Bytes of a tensor. REQUIRES: check_plan() found no fault.
std::uint64_t tensor_bytes(const proto::Tensor& tensor);

}  // namespace mezzo::runtime
