// The operators that layout_use() lists, in both layouts: the tests are written once, for the CPU's
// rows and for a device's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/kernel.h"

namespace mezzo::kernels {

struct LayoutCase {
  std::string op;
  std::vector<std::vector<std::int64_t>> inputs;  // dims
  std::vector<std::vector<std::int64_t>> outputs;
  Attributes attributes;
};

// Place in memory of each element in row-major order.
std::vector<std::size_t> places_in_memory(const TensorDesc& desc);

// Runs a row on operands whose elements are in row-major order, wherever the request has them lie;
// gives results in that order. Reports what goes wrong, and gives nothing then.
using LayoutRun = std::function<std::vector<std::vector<double>>(
    const KernelRequest& request, const std::vector<std::vector<double>>& operands)>;

// Every operator gives the same channels last as row-major, but for `tolerance`, relative to 1 or
// to the result. `dtype`: of floating operands and results.
void check_layouts(DType dtype, double tolerance, const LayoutRun& run);

}  // namespace mezzo::kernels
