// The rows of oneDNN for kernel_table.cpp, by family. Every row takes float32, float16 and
// bfloat16 operands in any mixture; implementation() names the library's algorithm.
#pragma once

#include <span>

#include "kernels/kernel.h"

namespace mezzo::kernels {

std::span<const KernelEntry> onednn_rows();

}  // namespace mezzo::kernels
