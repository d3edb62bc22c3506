#include "kernels/cuda/dnn_mask.h"

#include "kernels/cuda/element.h"
#include "kernels/cuda/launch.h"

namespace mezzo::kernels::cuda::dnn {
namespace {

constexpr int kThreads = 128;  // a power of 2
constexpr std::int64_t kMostBlocks = 1 << 16;

}  // namespace

// A block takes one row after another.
__global__ void clean_rows(BiasRows how, const void* bias, float* clean, std::int64_t* first_seen) {
  __shared__ std::int64_t firsts[kThreads];
  for (std::int64_t row = blockIdx.x; row < how.rows; row += gridDim.x) {
    std::int64_t first = how.keys;
    for (std::int64_t s = threadIdx.x; s < how.keys; s += kThreads) {
      const float value = load_element<float>(bias, row * how.keys + s, how.dtype);
      if (first == how.keys && !(isinf(value) && value < 0.0F)) first = s;
      clean[row * how.keys + s] = value < kHidden ? kHidden : value;
    }
    if (first_seen == nullptr) continue;
    firsts[threadIdx.x] = first;
    __syncthreads();
    for (int half = kThreads / 2; half > 0; half /= 2) {
      if (static_cast<int>(threadIdx.x) < half &&
          firsts[threadIdx.x + half] < firsts[threadIdx.x]) {
        firsts[threadIdx.x] = firsts[threadIdx.x + half];
      }
      __syncthreads();
    }
    if (threadIdx.x == 0) first_seen[row] = firsts[0];  // which no other thread writes
  }
}

// A thread looks after a query; few have anything to write.
__global__ void blank_queries(BiasRows rows, Queries how, const std::int64_t* first_seen, void* y,
                              float* lse) {
  const std::int64_t count = how.batch * how.heads * how.queries;
  std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (; i < count; i += std::int64_t{gridDim.x} * blockDim.x) {
    const std::int64_t t = i % how.queries;
    const std::int64_t h = i / how.queries % how.heads;
    const std::int64_t b = i / how.queries / how.heads;
    const std::int64_t first =
        first_seen[b * rows.steps[0] + h * rows.steps[1] + t * rows.steps[2]];
    const std::int64_t last = how.causal ? t + how.keys - how.queries : how.keys - 1;
    if (first <= last && first < how.keys) continue;
    lse[i] = -INFINITY;
    const std::int64_t row = b * how.y.batch + h * how.y.head + t * how.y.row;
    for (std::int64_t e = 0; e < how.v_size; ++e) store_element(y, row + e, how.dtype, 0.0F);
  }
}

__global__ void raise_infinite(std::int64_t count, const float* lse, float* to) {
  std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (; i < count; i += std::int64_t{gridDim.x} * blockDim.x) {
    to[i] = isinf(lse[i]) && lse[i] < 0.0F ? -kHidden : lse[i];
  }
}

Status clean_bias(const BiasRows& how, const void* bias, float* clean, std::int64_t* first_seen,
                  void* stream) {
  if (how.rows == 0 || how.keys == 0) return ok_status();
  const auto blocks = static_cast<unsigned>(limit_blocks(how.rows, kMostBlocks));
  return launch<clean_rows>({dim3(blocks), dim3(kThreads), 0}, stream, how, bias, clean,
                            first_seen);
}

Status blank_blind_queries(const BiasRows& rows, const Queries& how, const std::int64_t* first_seen,
                           void* y, float* lse, void* stream) {
  const std::int64_t count = how.batch * how.heads * how.queries;
  if (count == 0) return ok_status();
  return launch<blank_queries>(shape_for(count), stream, rows, how, first_seen, y, lse);
}

Status raise_lse(std::int64_t count, const float* lse, float* to, void* stream) {
  if (count == 0) return ok_status();
  return launch<raise_infinite>(shape_for(count), stream, count, lse, to);
}

}  // namespace mezzo::kernels::cuda::dnn
