// float16 arrays to float32 and back, with the processor's F16C instructions where it has them.
// The library's own float16 reorder takes several times as long.
#pragma once

#include <cstdint>

namespace mezzo::kernels::onednn {

// to[i] = from[i], exact. Uses up to `threads` threads.
void f16_to_float(const std::uint16_t* from, float* to, std::int64_t elems, int threads);

// Rounds to nearest, ties to even; what exceeds 65504 after rounding becomes infinity.
void float_to_f16(const float* from, std::uint16_t* to, std::int64_t elems, int threads);

}  // namespace mezzo::kernels::onednn
