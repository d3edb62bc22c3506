// Brings operands into the order and dtype that a graph wants, and results back.
#pragma once

#include <cstdint>

#include "compiler/support/dtype.h"
#include "compiler/support/status.h"
#include "kernels/kernel.h"

namespace mezzo::kernels::cuda::dnn {

// y[p, c, r] = x[p, r, c], rounded to y's dtype. Both of float32, float16 or bfloat16.
struct Rearrangement {
  std::int64_t planes = 1, rows = 1, columns = 1;
  DType from = DType::kNone, to = DType::kNone;
};

// Between x as `from` describes it and the same elements in another layout and dtype.
Rearrangement between(const TensorDesc& from, Layout layout, DType dtype);

// Puts it into the stream (a cudaStream_t). x and y do not overlap.
Status rearrange(const Rearrangement& how, const void* x, void* y, void* stream);

// y[n, c, p] += bias[c] in float32; y lies as `layout` says, bias is of any dtype above.
struct ChannelBias {
  std::int64_t n = 1, channels = 1, places = 1;
  Layout layout = Layout::kRowMajor;
  DType dtype = DType::kNone;
};

Status add_channel_bias(const ChannelBias& how, const void* bias, float* y, void* stream);

}  // namespace mezzo::kernels::cuda::dnn
