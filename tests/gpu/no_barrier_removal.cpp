// Barriers are removed where threads are fibers (tests/cuda_on_cpu), not on a GPU.
#include "tests/cuda_on_cpu/kernels/barrier_removal.h"

namespace mezzo::kernels {

bool is_removing_barriers() { return false; }
void check_barriers(const std::function<bool(unsigned order)>& run_once) { run_once(0); }

}  // namespace mezzo::kernels
