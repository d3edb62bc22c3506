// What compiled kernels see of the executor that runs them: the built-in variables, barriers, warp
// operations, and the list in which every kernel that is launched anywhere enters itself when its
// library is loaded.
//
// The threads of a block are fibers of one thread of the operating system, so that one that waits
// lets the next one run; blocks run on several. A call here comes from inside a kernel.
#pragma once

#include <vector_types.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "compiler/support/source_location.h"

namespace cuda_on_cpu {

struct BlockView {
  dim3 grid, dims;
  uint3 index;
  void* dynamic_shared;
};

// The running thread of a block: what threadIdx and its like read.
struct ThreadView {
  uint3 index;
  const BlockView* block;
  int lane;  // within the warp
  int warp;  // within the block
};

using Place = mezzo::SourceLocation;

enum class Vote : std::uint8_t { kCount, kAll, kAny };

inline constexpr int kWarpSize = 32;

// One value of every lane that took part in a warp operation.
struct WarpValues {
  const std::uint64_t* values;  // of all lanes
  unsigned lanes;               // that gave one
};

// How the executor calls a kernel whose parameters lie at arguments[0], arguments[1], ...
using Invoke = void (*)(const void* kernel, void** arguments);

extern "C" {

// Null outside of kernels.
extern constinit thread_local const ThreadView* cuda_on_cpu_thread
    __attribute__((tls_model("initial-exec")));

// Returns when all threads of the block that have not ended have called it, from the same place.
void cuda_on_cpu_sync_block(Place place);
// The same, and the vote of all threads.
int cuda_on_cpu_vote_block(int predicate, Vote vote, Place place);

// Returns when all lanes of `mask` that have not ended have called it from the same place with the
// same mask. The values stay until the warp's next operation but one with this mask.
WarpValues cuda_on_cpu_gather_warp(unsigned mask, std::uint64_t value, Place place);
// The same for nothing but the waiting.
void cuda_on_cpu_sync_warp(unsigned mask, Place place);

// The most blocks of grids whose kernels stride over what is left.
std::int64_t cuda_on_cpu_most_blocks();

// `name` may have text before the last '='.
void cuda_on_cpu_register_kernel(const void* kernel, const char* name, Invoke invoke,
                                 const std::size_t* parameter_sizes, std::size_t parameters);
}

// Enters a kernel in the list when the library that uses `registered` is loaded.
template <auto kKernel>
struct Registration;

template <typename... Parameters, void (*kKernel)(Parameters...)>
struct Registration<kKernel> {
  static const bool registered;

 private:
  static void invoke(const void* kernel, void** arguments) {
    call(kernel, arguments, std::index_sequence_for<Parameters...>{});
  }
  template <std::size_t... kIndex>
  static void call(const void* kernel, [[maybe_unused]] void** arguments,
                   std::index_sequence<kIndex...>) {
    reinterpret_cast<void (*)(Parameters...)>(const_cast<void*>(kernel))(
        *static_cast<std::remove_reference_t<Parameters>*>(arguments[kIndex])...);
  }
  static bool enter() {
    static constexpr std::size_t kSizes[] = {sizeof(Parameters)..., 0};
    cuda_on_cpu_register_kernel(reinterpret_cast<const void*>(kKernel), __PRETTY_FUNCTION__,
                                &invoke, kSizes, sizeof...(Parameters));
    return true;
  }
};

template <typename... Parameters, void (*kKernel)(Parameters...)>
const bool Registration<kKernel>::registered = Registration<kKernel>::enter();

}  // namespace cuda_on_cpu
