// Numbers and names as the report shows them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "compiler/support/dtype.h"

namespace mezzo {

// "1.82 GFLOP": powers of 1000, three digits.
std::string format_flops(double flops);
// "12.3 us", "4.56 ms", "1.20 s".
std::string format_us(double us);
// "93.1%".
std::string format_share(double part, double whole);
// "fp32", "bf16", "fp16", "fp64", or ONNX's name for other types; "-" for none.
std::string_view short_dtype(DType dtype);

}  // namespace mezzo
