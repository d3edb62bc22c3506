// Owners of the CUDA runtime's streams and events.
#pragma once

#include <cuda_runtime_api.h>

#include <utility>

#include "compiler/support/status.h"

namespace mezzo::runtime::cuda {

class Stream {
 public:
  Stream() = default;
  ~Stream();
  Stream(Stream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
  Stream& operator=(Stream&&) = delete;
  Status create();  // one that does not order itself with others
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  Event() = default;
  ~Event();
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&&) = delete;
  Status create();
  Status record(cudaStream_t stream);
  // Work put into the stream from now on starts after what record() stands behind.
  Status block(cudaStream_t stream);
  // Looks again and again whether that is done, with naps between once it takes long: the next step
  // is in the stream already, and a processor that spins would be missed by others.
  Status poll();

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace mezzo::runtime::cuda
