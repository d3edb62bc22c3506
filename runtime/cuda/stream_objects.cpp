#include "runtime/cuda/stream_objects.h"

#include <thread>

#include "kernels/cuda/check.h"

namespace mezzo::runtime::cuda {

using kernels::cuda::check;

Stream::~Stream() {
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

Status Stream::create() {
  return check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
}

Event::~Event() {
  if (event_ != nullptr) cudaEventDestroy(event_);
}

Status Event::create() { return check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming)); }

Status Event::record(cudaStream_t stream) { return check(cudaEventRecord(event_, stream)); }

Status Event::block(cudaStream_t stream) { return check(cudaStreamWaitEvent(stream, event_, 0)); }

Status Event::poll() {
  while (true) {
    const cudaError_t state = cudaEventQuery(event_);
    if (state != cudaErrorNotReady) return check(state);
    cudaGetLastError();  // not an error, but told again otherwise
    std::this_thread::yield();
  }
}

}  // namespace mezzo::runtime::cuda
