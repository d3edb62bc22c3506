// Training steps on a GPU. See runtime/device/device_training.h.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "runtime/device/device.h"
#include "runtime/device/device_training.h"

namespace mezzo::runtime::cuda {

// `stream` is that of `device`, which outlives the training.
// InvalidArgument: not enough memory. Internal: buffers that are missing or not aligned.
StatusOr<std::unique_ptr<DeviceTraining>> create_training(Device& device, cudaStream_t stream,
                                                          const DeviceTrainingSpec& spec);

}  // namespace mezzo::runtime::cuda
