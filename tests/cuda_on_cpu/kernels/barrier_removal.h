// Mutation of the kernels: every barrier that a test's kernel comes to is removed in turn, and the
// test must notice. Asked for by MEZZO_REMOVE_BARRIERS=1.
#pragma once

#include <functional>

namespace mezzo::kernels {

bool is_removing_barriers();

// `run_once(order)`: runs the kernel and says whether all is as it should be. Called once with all
// barriers and, in processes of their own since the kernel may crash, without each of them.
void check_barriers(const std::function<bool(unsigned order)>& run_once);

}  // namespace mezzo::kernels
