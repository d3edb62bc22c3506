// The CUDA module that the host's compiler made, run on the stand-ins of tests/cuda_on_cpu.
#pragma once

#include <memory>

#include "compiler/support/status.h"
#include "runtime/device/device.h"

namespace mezzo::test {

// Its first device. The module stays loaded. `build`: what the program says it is of; null: the
// module's own.
StatusOr<std::unique_ptr<runtime::Device>> open_host_device(const char* build = nullptr);

}  // namespace mezzo::test
