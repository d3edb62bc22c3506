// What a request for GridSample asks for, read and checked once for all implementations.
#pragma once

#include "compiler/support/status.h"
#include "kernels/formulas/grid_sampling.h"
#include "kernels/kernel.h"

namespace mezzo::kernels {

// From a request of operator GridSample: x[N,C,D1..Dk], grid[N,O1..Ok,k] -> y[N,C,O1..Ok].
// InvalidArgument: dims or attributes that make no sense. Unimplemented: k above 3.
StatusOr<GridSampling> read_grid_sampling(const KernelRequest& request);

}  // namespace mezzo::kernels
