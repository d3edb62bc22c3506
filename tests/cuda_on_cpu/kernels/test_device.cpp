#include "tests/cuda_on_cpu/kernels/test_device.h"

#include "tests/cuda_on_cpu/control.h"
#include "tests/cuda_on_cpu/kernels/device_run.h"

namespace mezzo::kernels {

// Blocks end where AddressSanitizer, or what the stand-in puts there, finds whoever goes beyond.
std::size_t guard_bytes() { return 0; }

void set_launch_order(std::uint64_t order) { cuda_on_cpu::set_thread_order(order); }
std::string take_device_fault() { return cuda_on_cpu::take_fault(); }

FewBlocks::FewBlocks(std::uint64_t order) {
  cuda_on_cpu::set_most_blocks(order == 0 ? 0 : static_cast<std::int64_t>(order % 3 + 1));
}
FewBlocks::~FewBlocks() { cuda_on_cpu::set_most_blocks(0); }

}  // namespace mezzo::kernels
