#include "runtime/cuda/stream_objects.h"

#include <chrono>
#include <thread>

#include "kernels/cuda/check.h"

namespace mezzo::runtime::cuda {

using kernels::cuda::check;

Stream::~Stream() {
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

Status Stream::create() {
  return check("cudaStreamCreateWithFlags",
               cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
}

Event::~Event() {
  if (event_ != nullptr) cudaEventDestroy(event_);
}

Status Event::create() {
  return check("cudaEventCreateWithFlags",
               cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
}

Status Event::record(cudaStream_t stream) {
  return check("cudaEventRecord", cudaEventRecord(event_, stream));
}

Status Event::block(cudaStream_t stream) {
  return check("cudaStreamWaitEvent", cudaStreamWaitEvent(stream, event_, 0));
}

Status Event::poll() {
  using Clock = std::chrono::steady_clock;
  constexpr auto kPatience = std::chrono::microseconds(500), kNap = std::chrono::microseconds(50);
  const Clock::time_point start = Clock::now();
  while (true) {
    const cudaError_t state = cudaEventQuery(event_);
    if (state != cudaErrorNotReady) return check("cudaEventQuery", state);
    cudaGetLastError();  // not an error, but told again otherwise
    if (Clock::now() - start < kPatience) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kNap);
    }
  }
}

}  // namespace mezzo::runtime::cuda
