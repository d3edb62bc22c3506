// The GPU's part of tests/cuda_on_cpu/kernels. Threads and blocks run in its own order, as many as
// there are, and barriers are removed where threads are fibers alone.
#include "tests/cuda_on_cpu/kernels/test_device.h"

#include "tests/cuda_on_cpu/kernels/barrier_removal.h"
#include "tests/cuda_on_cpu/kernels/device_run.h"

namespace mezzo::kernels {

std::size_t guard_bytes() { return 256; }

void set_launch_order(std::uint64_t /*order*/) {}
std::string take_device_fault() { return {}; }

FewBlocks::FewBlocks(std::uint64_t /*order*/) {}
FewBlocks::~FewBlocks() = default;

bool is_removing_barriers() { return false; }
void check_barriers(const std::function<bool(unsigned order)>& run_once) { run_once(0); }

}  // namespace mezzo::kernels
