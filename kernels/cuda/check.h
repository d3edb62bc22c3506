// The one place where an error of the CUDA runtime becomes a Status.
#pragma once

#include <cuda_runtime_api.h>

#include <source_location>

#include "compiler/support/status.h"

namespace mezzo::kernels::cuda {

// Internal, naming the error and the place that made the call.
Status check(cudaError_t error, std::source_location where = std::source_location::current());

}  // namespace mezzo::kernels::cuda
