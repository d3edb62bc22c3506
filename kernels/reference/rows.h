// The rows of the reference kernels: every operator of the op list, float64 included.
#pragma once

#include <span>

#include "kernels/kernel.h"

namespace mezzo::kernels {

std::span<const KernelEntry> reference_rows();

}  // namespace mezzo::kernels
