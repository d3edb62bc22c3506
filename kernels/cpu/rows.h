// The rows of the vectorised CPU kernels. See kernel_table.h.
#pragma once

#include <span>

#include "kernels/kernel.h"

namespace mezzo::kernels {

std::span<const KernelEntry> cpu_rows();

}  // namespace mezzo::kernels
