// Batches on their way to the device: written by the host into one of two pinned slots, copied by a
// stream of their own into one of two staging buffers while the step before still computes, then,
// in the order of the steps, to the plan's inputs.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/cuda/stream_objects.h"
#include "runtime/device/device.h"
#include "runtime/device/device_training.h"

namespace mezzo::runtime::cuda {

class BatchFeed {
 public:
  explicit BatchFeed(cudaStream_t stream) : stream_(stream) {}
  Status create(Device& device, std::span<const DeviceTrainingSpec::Input> inputs);

  // Of the slot that is next. Looks until the device has copied what lay there.
  StatusOr<std::span<void* const>> buffers();
  Status enqueue();

 private:
  static constexpr std::size_t kSlots = 2;
  struct Slot {
    std::unique_ptr<DeviceMemory> pinned, staging;
    std::vector<void*> buffers;  // in `pinned`, by input
    Event copied;                // to the staging buffer
    Event consumed;              // the staging buffer, by the inputs
  };
  Slot slots_[kSlots];
  std::size_t next_ = 0;
  std::vector<DeviceTrainingSpec::Input> inputs_;
  std::vector<std::uint64_t> offsets_;  // of the inputs in a slot
  std::uint64_t bytes_ = 0;             // of a slot
  Stream copies_;
  cudaStream_t stream_;
};

}  // namespace mezzo::runtime::cuda
