// The labels of a loss as its kernels read them. Letters as in cross_entropy.cu.
#pragma once

#include "kernels/cuda/fault.h"
#include "kernels/cuda/float_element.h"
#include "kernels/cuda/index.h"
#include "kernels/cuda/reduce.h"

namespace mezzo::kernels::cuda {

// What all kernels of a loss know of its labels.
struct LabelReader {
  const void* labels = nullptr;
  DType dtype = DType::kInt64;
  FloatsIn weights;  // absent: all 1
  Int classes = 0;
  Divisor pixels;            // S
  std::int32_t by_line = 0;  // classes of a position lie S apart; else they are neighbours
  std::int32_t ignores = 0;
  Int ignore_index = 0;
  DeviceFault* fault = nullptr;
  std::int32_t step = 0, operand = 0;

  // The class at position p, -1 if it does not count.
  __device__ Int label(Int p) const {
    const Int found = dtype == DType::kInt32 ? static_cast<const std::int32_t*>(labels)[p]
                                             : static_cast<const Int*>(labels)[p];
    if (ignores != 0 && found == ignore_index) return -1;
    if (found >= 0 && found < classes) return found;
    report_fault(fault, step, operand, p, found);
    return -1;
  }
  template <typename T>
  __device__ T weight(Int label) const {
    if (label < 0) return T(0);
    return weights.data != nullptr ? load_float<T>(weights, label) : T(1);
  }
  // Where the scores of position p begin, and how far apart they are.
  __device__ Int begin(Int p) const {
    if (by_line == 0) return p * classes;
    Int pixel = 0;
    const Int image = pixels.divide(p, pixel);
    return image * classes * pixels.value() + pixel;
  }
  __device__ Int stride() const { return by_line != 0 ? pixels.value() : 1; }
};

// The loss at a position of which the softmax is known; `score`: of the label, whatever if none.
template <typename T>
__device__ T position_loss(const LabelReader& labels, Int label, const Pair<T>& softmax, T score) {
  if (label < 0) return T(0);
  return labels.weight<T>(label) * (softmax.second - (score - softmax.first));
}

// What becomes of the sums of losses and weights.
enum class LossEnd : std::uint8_t { kSum, kMean, kWeights };

template <typename T>
__device__ void store_loss(const FloatsOut& to, LossEnd end, const Pair<T>& sums) {
  switch (end) {
    case LossEnd::kSum: store_float(to, 0, sums.first); break;
    case LossEnd::kMean: store_float(to, 0, sums.first / sums.second); break;
    case LossEnd::kWeights: store_float(to, 0, sums.second); break;
  }
}

// dloss of one position as its label's scores get it.
template <typename T>
__device__ T upstream(const LabelReader& labels, Int label, const FloatsIn& dloss, Int at,
                      const T* divisor) {
  const T factor = load_float<T>(dloss, at) * labels.weight<T>(label);
  return divisor != nullptr ? factor / *divisor : factor;
}

}  // namespace mezzo::kernels::cuda
