// The one place where an error of the CUDA runtime becomes a Status.
#pragma once

#include <cuda_runtime_api.h>

#include "compiler/support/source_location.h"
#include "compiler/support/status.h"

namespace mezzo::kernels::cuda {

// Internal, naming the call, its error and the place it was made. Where a kernel launched before
// went wrong, which any later call may be the first to hear of, with what finds out which one.
// check("cudaMalloc", cudaMalloc(...))
Status check(const char* call, cudaError_t error, SourceLocation where = SourceLocation::current());
// The same for an error that others hand on, of no call that is known here.
Status check(cudaError_t error, SourceLocation where = SourceLocation::current());

}  // namespace mezzo::kernels::cuda
