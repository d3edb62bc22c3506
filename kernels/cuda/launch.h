// The one way a kernel is launched: launch<my_kernel<float>>({blocks, threads}, stream, x, y, n).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "compiler/support/status.h"
#include "kernels/cuda/check.h"
#include "kernels/cuda/device_code.h"

namespace mezzo::kernels::cuda {

struct LaunchShape {
  dim3 grid, block;
  std::size_t shared_bytes = 0;
};

inline constexpr std::int64_t kBlockThreads = 256;

// At most `most` of the blocks that a grid would have: its kernel strides over what is left. Tests
// allow fewer, so that small cases have several strides too.
inline std::int64_t limit_blocks(std::int64_t blocks, std::int64_t most) {
#ifdef MEZZO_DEVICE_SHIM
  most = std::min(most, MEZZO_MOST_BLOCKS);
#endif
  return std::min(blocks, most);
}

// Blocks of kBlockThreads for `items` items, at most `most`: kernels stride over what is left.
// REQUIRES: items > 0.
inline LaunchShape shape_for(std::int64_t items, std::int64_t most = 1 << 16) {
  const std::int64_t blocks = limit_blocks((items + kBlockThreads - 1) / kBlockThreads, most);
  return {dim3(static_cast<unsigned>(blocks)), dim3(static_cast<unsigned>(kBlockThreads)), 0};
}

namespace internal {

template <auto kKernel>
struct Launcher;

template <typename... Parameters, void (*kKernel)(Parameters...)>
struct Launcher<kKernel> {
  static Status run(const LaunchShape& shape, void* stream, Parameters... values) {
#ifdef MEZZO_DEVICE_SHIM
    MEZZO_REGISTER_KERNEL(kKernel);
#endif
    void* arguments[] = {const_cast<void*>(static_cast<const void*>(&values))..., nullptr};
    return check(
        "cudaLaunchKernel",
        cudaLaunchKernel(reinterpret_cast<const void*>(kKernel), shape.grid, shape.block, arguments,
                         shape.shared_bytes, static_cast<cudaStream_t>(stream)));
  }
};

}  // namespace internal

// Puts the kernel into the stream. `values` convert to the kernel's parameters. Internal: what the
// runtime library says of the launch.
template <auto kKernel, typename... Values>
Status launch(const LaunchShape& shape, void* stream, Values... values) {
  return internal::Launcher<kKernel>::run(shape, stream, values...);
}

}  // namespace mezzo::kernels::cuda
