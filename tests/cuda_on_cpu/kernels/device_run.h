// Runs kernels of the CUDA rows on a device, be it the stand-in for one or a GPU (tests/gpu).
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cuda/context.h"
#include "kernels/kernel.h"
#include "tests/kernels/kernel_case.h"

namespace mezzo::kernels {

// The context of the one device there is; requests point to it.
cuda::Context& test_context();

// The request with `device` set.
KernelRequest for_device(const KernelRequest& request);

using Bytes = std::vector<unsigned char>;

// Runs the kernel on fresh blocks of device memory that end where the operand does. Reported as
// failures: writing behind one or into an operand, a fault of the kernel that is not one of the
// data. `in_place` >= 0: result 0 lies in that operand's block. `order`: of threads and blocks.
// Gives what the kernel makes of a wrong value in the data as an error.
StatusOr<Results> run_on_device(Kernel& kernel, const KernelRequest& request,
                                const std::vector<Bytes>& operands, std::uint64_t order,
                                int in_place = -1);

// While it lives, kernels that are prepared and run have grids of one, two or three blocks where
// they stride over what is left; with order 0 as many as on a device.
class FewBlocks {
 public:
  explicit FewBlocks(std::uint64_t order);
  ~FewBlocks();
  FewBlocks(const FewBlocks&) = delete;
  FewBlocks& operator=(const FewBlocks&) = delete;
};

std::vector<Bytes> encode_operands(const KernelRequest& request,
                                   const std::vector<Numbers>& operands);

}  // namespace mezzo::kernels
