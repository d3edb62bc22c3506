// Keeps account of what the kernel tests did with the CUDA rows: no row goes untested, and nothing
// is left out silently. When the program has run all its tests, what is missing is a failure.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "kernels/kernel.h"

namespace mezzo::kernels {

// An operator that has no CUDA row, or a kind of request that none of its rows takes: the runtime
// computes such steps on the host.
struct LeftOut {
  std::string_view op;
  std::string_view why;
};
struct Refused {
  std::string_view op;
  std::string_view reason;  // part of what the row says
};

// left_out.cpp
std::span<const LeftOut> operators_left_out();
std::span<const Refused> requests_refused();

// A case of `op` was run on the row.
void note_tested(const KernelEntry& row);
bool was_tested(const KernelEntry& row);
// No row of the operator took the request. A failure unless `reasons` is foreseen.
void note_refused(std::string_view op, const std::string& reasons);

}  // namespace mezzo::kernels
