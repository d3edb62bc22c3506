// A GPU through the CUDA runtime library. See runtime/device/device.h.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "kernels/cuda/context.h"
#include "runtime/device/device.h"

namespace mezzo::runtime::cuda {

// InvalidArgument, naming the number and what there is: no such device, compute capability below
// 7.5.
StatusOr<std::unique_ptr<Device>> open_device(const DeviceOptions& options);

StatusOr<std::vector<DeviceInfo>> list_devices();

}  // namespace mezzo::runtime::cuda
