// How many threads a request is worth.
#pragma once

#include "kernels/kernel.h"

namespace mezzo::kernels::onednn {

// At most the request's threads, and only so many that each has enough to do: waking a thread and
// waiting for it costs several microseconds, and far more where other programs use the cores.
// Follows from the shapes alone.
int worthwhile_threads(const KernelRequest& request);

}  // namespace mezzo::kernels::onednn
