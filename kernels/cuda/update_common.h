// What the update kernels share: four elements at a time. Private to update*.cu.
#pragma once

#include "kernels/cuda/launch.h"
#include "kernels/cuda/training.h"

namespace mezzo::kernels::cuda {

inline constexpr int kQuad = 4;

// Up to four elements in registers; those beyond `count` are 0 and never stored.
struct Quad {
  float at[kQuad];
};

__device__ inline Quad load_quad(const float* from, int count) {
  Quad quad = {};
  if (count == kQuad) {
    const float4 four = *reinterpret_cast<const float4*>(from);
    return {{four.x, four.y, four.z, four.w}};
  }
#pragma unroll
  for (int i = 0; i < kQuad; ++i) {
    if (i < count) quad.at[i] = from[i];
  }
  return quad;
}

__device__ inline void store_quad(float* to, const Quad& quad, int count) {
  if (count == kQuad) {
    *reinterpret_cast<float4*>(to) = make_float4(quad.at[0], quad.at[1], quad.at[2], quad.at[3]);
    return;
  }
#pragma unroll
  for (int i = 0; i < kQuad; ++i) {
    if (i < count) to[i] = quad.at[i];
  }
}

__device__ inline std::uint16_t low_bits(float value, bool bfloat16) {
  return bfloat16 ? __bfloat16_as_ushort(__float2bfloat16_rn(value))
                  : __half_as_ushort(__float2half_rn(value));
}

__device__ inline void store_low(std::uint16_t* to, bool bfloat16, const Quad& quad, int count) {
  if (count == kQuad) {
    *reinterpret_cast<ushort4*>(to) =
        make_ushort4(low_bits(quad.at[0], bfloat16), low_bits(quad.at[1], bfloat16),
                     low_bits(quad.at[2], bfloat16), low_bits(quad.at[3], bfloat16));
    return;
  }
#pragma unroll
  for (int i = 0; i < kQuad; ++i) {
    if (i < count) to[i] = low_bits(quad.at[i], bfloat16);
  }
}

// Calls each(offset, count) for the quads of a piece that are this thread's.
template <typename Each>
__device__ void for_quads(const TrainingPiece& piece, Each each) {
  const int step = kQuad * static_cast<int>(blockDim.x);
  for (int i = kQuad * static_cast<int>(threadIdx.x); i < piece.elems; i += step) {
    const int left = piece.elems - i;
    each(piece.begin + i, left < kQuad ? left : kQuad);
  }
}

// The gradients an optimizer sees.
__device__ inline const float* gradient_of(const TrainingParameter& parameter) {
  return parameter.sum != nullptr ? parameter.sum : parameter.gradient;
}

inline LaunchShape one_block_each(std::int32_t pieces) {
  return {dim3(static_cast<unsigned>(pieces)), dim3(static_cast<unsigned>(kBlockThreads)), 0};
}

// Puts kernels of update.cu into the stream: unscales, clips and applies, by `tables.control`.
Status apply_update(const TrainingTables& tables, void* stream);

}  // namespace mezzo::kernels::cuda
