// What has no CUDA row, and why. Such steps are computed on the host, and a plan that has one runs
// without a CUDA graph.
#include "tests/cuda_on_cpu/kernels/row_book.h"

namespace mezzo::kernels {

namespace {

constexpr std::string_view kDoubles = "operands of float64";
constexpr Refused kRefused[] = {{"RNN", kDoubles}, {"GRU", kDoubles}, {"LSTM", kDoubles}};

}  // namespace

std::span<const LeftOut> operators_left_out() { return {}; }
std::span<const Refused> requests_refused() { return kRefused; }

}  // namespace mezzo::kernels
