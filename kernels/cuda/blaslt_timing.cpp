#include "kernels/cuda/blaslt_timing.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <type_traits>

#include "kernels/cuda/check.h"

namespace mezzo::kernels::cuda::blaslt {
namespace {

constexpr int kRuns = 5;

struct DestroyStream {
  void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
};
struct DestroyEvent {
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
};
using Stream = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, DestroyStream>;
using Event = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, DestroyEvent>;

StatusOr<Event> create_event() {
  cudaEvent_t event = nullptr;
  MEZZO_RETURN_IF_ERROR(check("cudaEventCreate", cudaEventCreate(&event)));
  return Event(event);
}

StatusOr<float> time_once(const std::function<Status(std::size_t, void*)>& run, std::size_t number,
                          cudaStream_t stream, cudaEvent_t begin, cudaEvent_t end) {
  MEZZO_RETURN_IF_ERROR(check("cudaEventRecord", cudaEventRecord(begin, stream)));
  MEZZO_RETURN_IF_ERROR(run(number, stream));
  MEZZO_RETURN_IF_ERROR(check("cudaEventRecord", cudaEventRecord(end, stream)));
  MEZZO_RETURN_IF_ERROR(check("cudaEventSynchronize", cudaEventSynchronize(end)));
  float milliseconds = 0;
  MEZZO_RETURN_IF_ERROR(
      check("cudaEventElapsedTime", cudaEventElapsedTime(&milliseconds, begin, end)));
  return milliseconds;
}

}  // namespace

void TimingBuffers::Free::operator()(void* block) const { cudaFree(block); }

StatusOr<TimingBuffers> TimingBuffers::make(const std::vector<std::size_t>& bytes) {
  TimingBuffers buffers;
  for (const std::size_t size : bytes) {
    void* block = nullptr;
    const cudaError_t error = cudaMalloc(&block, std::max<std::size_t>(size, 1));
    if (error != cudaSuccess) {
      cudaGetLastError();  // which would be told again otherwise
      return check("cudaMalloc", error);
    }
    buffers.blocks_.emplace_back(block);
    MEZZO_RETURN_IF_ERROR(check("cudaMemset", cudaMemset(block, 0, size)));
  }
  return buffers;
}

StatusOr<std::size_t> fastest_of(std::size_t candidates,
                                 const std::function<Status(std::size_t, void*)>& run) {
  cudaStream_t created = nullptr;
  MEZZO_RETURN_IF_ERROR(check("cudaStreamCreateWithFlags",
                              cudaStreamCreateWithFlags(&created, cudaStreamNonBlocking)));
  const Stream stream(created);
  MEZZO_ASSIGN_OR_RETURN(const Event begin, create_event());
  MEZZO_ASSIGN_OR_RETURN(const Event end, create_event());
  // The buffers were zeroed in another stream.
  MEZZO_RETURN_IF_ERROR(check("cudaDeviceSynchronize", cudaDeviceSynchronize()));
  std::optional<std::size_t> best;
  float least = std::numeric_limits<float>::max();
  Status failure = internal_error("no candidate");
  for (std::size_t i = 0; i < candidates; ++i) {
    float mine = std::numeric_limits<float>::max();
    for (int repeat = 0; repeat <= kRuns; ++repeat) {
      const auto time = time_once(run, i, stream.get(), begin.get(), end.get());
      if (!time.ok()) failure = time.status();
      if (!time.ok()) break;
      if (repeat > 0) mine = std::min(mine, *time);  // the first one warms up
    }
    if (mine < least) best = i;
    least = std::min(least, mine);
  }
  if (!best) return failure;
  return *best;
}

}  // namespace mezzo::kernels::cuda::blaslt
