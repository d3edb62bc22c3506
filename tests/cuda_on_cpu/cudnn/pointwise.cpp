// Elementwise operations, reductions and products of matrices, over tensors whose dims of 1 are
// broadcast.
#include <cmath>
#include <limits>

#include "tests/cuda_on_cpu/cudnn/graph.h"

namespace cudnn_on_cpu {
namespace {

// Steps through a tensor of `dims` alongside one of the dims of `by`.
Dims broadcast_steps(const Dims& dims, const Dims& by) {
  Dims steps(by.size(), 0);
  std::int64_t stride = 1;
  for (std::size_t i = by.size(); i-- > 0;) {
    const std::size_t back = by.size() - i;
    if (back > dims.size()) break;
    const std::int64_t dim = dims[dims.size() - back];
    if (dim != 1) steps[i] = stride;
    stride *= dim;
  }
  return steps;
}

// Walks over `dims`, keeping the places in several tensors that are broadcast to them.
class Walk {
 public:
  Walk(const Dims& dims, const std::vector<Dims>& broadcast) : dims_(dims), at_(dims.size(), 0) {
    for (const Dims& each : broadcast) steps_.push_back(broadcast_steps(each, dims));
    places_.assign(broadcast.size(), 0);
  }
  std::size_t place(std::size_t tensor) const { return static_cast<std::size_t>(places_[tensor]); }
  std::int64_t index(std::size_t dim) const { return at_[dim]; }
  void next() {
    for (std::size_t d = dims_.size(); d-- > 0;) {
      for (std::size_t i = 0; i < steps_.size(); ++i) places_[i] += steps_[i][d];
      if (++at_[d] < dims_[d]) return;
      for (std::size_t i = 0; i < steps_.size(); ++i) places_[i] -= at_[d] * steps_[i][d];
      at_[d] = 0;
    }
  }

 private:
  Dims dims_, at_;
  std::vector<Dims> steps_;
  Dims places_;
};

float apply(const Operation& operation, float x, float b, float t, std::int64_t index) {
  switch (operation.mode) {
    case CUDNN_POINTWISE_ADD: return x + b;
    case CUDNN_POINTWISE_SUB: return x - b;
    case CUDNN_POINTWISE_MUL: return x * b;
    case CUDNN_POINTWISE_DIV: return x / b;
    case CUDNN_POINTWISE_EXP: return std::exp(x);
    case CUDNN_POINTWISE_LOG: return std::log(x);
    case CUDNN_POINTWISE_IDENTITY: return x;
    case CUDNN_POINTWISE_GEN_INDEX: return static_cast<float>(index);
    case CUDNN_POINTWISE_CMP_GE: return x >= b ? 1.0F : 0.0F;
    case CUDNN_POINTWISE_CMP_GT: return x > b ? 1.0F : 0.0F;
    case CUDNN_POINTWISE_CMP_LT: return x < b ? 1.0F : 0.0F;
    case CUDNN_POINTWISE_LOGICAL_AND: return x != 0 && b != 0 ? 1.0F : 0.0F;
    case CUDNN_POINTWISE_BINARY_SELECT: return t != 0 ? x : b;
    default: return std::numeric_limits<float>::quiet_NaN();
  }
}

}  // namespace

void compute_pointwise(const Operation& operation, const std::vector<Values>& in,
                       std::vector<Values>& out) {
  const Dims& dims = operation.out[0].dims;
  Walk walk(dims, {operation.in[0].dims, operation.in[1].dims, operation.in[2].dims});
  const auto axis = static_cast<std::size_t>(operation.axis < 0 ? 0 : operation.axis);
  for (float& result : out[0]) {
    const float x = in[0][walk.place(0)];
    const float b = in[1].empty() ? 0.0F : in[1][walk.place(1)];
    const float t = in[2].empty() ? 0.0F : in[2][walk.place(2)];
    result = apply(operation, x, b, t, walk.index(axis));
    walk.next();
  }
}

void reduce(const Operation& operation, const std::vector<Values>& in, std::vector<Values>& out) {
  const bool maximum = operation.reduction == CUDNN_REDUCE_TENSOR_MAX;
  const bool sum = operation.reduction == CUDNN_REDUCE_TENSOR_ADD;
  const Dims& from = operation.in[0].dims;
  Dims to = operation.out[0].dims;
  // Heads that share keys: H in groups of H / G neighbours are reduced to G.
  Dims split = from;
  if (to.size() == 4 && to[1] != 1 && to[1] != from[1]) {
    split = {from[0], to[1], from[1] / to[1], from[2], from[3]};
    to.insert(to.begin() + 2, 1);
  }
  std::vector<double> sums(out[0].size(), maximum ? -std::numeric_limits<double>::infinity() : 0.0);
  Walk walk(split, {to});
  for (const float value : in[0]) {
    double& at = sums[walk.place(0)];
    if (maximum) at = value > at || std::isnan(value) ? value : at;
    if (sum) at += value;
    walk.next();
  }
  const bool known = maximum || sum;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    out[0][i] = known ? static_cast<float>(sums[i]) : std::numeric_limits<float>::quiet_NaN();
  }
}

// C[b, h, M, N] = A[b, h, M, K] B[b, g, K, N], h a multiple of g; in float32.
void multiply(const Operation& operation, const std::vector<Values>& in, std::vector<Values>& out) {
  const Dims &a = operation.in[0].dims, &b = operation.in[1].dims, &c = operation.out[0].dims;
  const std::int64_t rows = c[2];
  const std::int64_t columns = c[3];
  const std::int64_t depth = a[3];
  const auto plane = [&](const Dims& dims, std::int64_t batch, std::int64_t head) {
    return (batch * dims[1] + head / (c[1] / dims[1])) * dims[2] * dims[3];
  };
  for (std::int64_t batch = 0; batch < c[0]; ++batch) {
    for (std::int64_t head = 0; head < c[1]; ++head) {
      const float* left = in[0].data() + plane(a, batch, head);
      const float* right = in[1].data() + plane(b, batch, head);
      float* to = out[0].data() + plane(c, batch, head);
      for (std::int64_t i = 0; i < rows; ++i) {
        float* row = to + i * columns;
        for (std::int64_t j = 0; j < columns; ++j) row[j] = 0.0F;
        for (std::int64_t k = 0; k < depth; ++k) {
          const float factor = left[i * depth + k];
          const float* other = right + k * columns;
          for (std::int64_t j = 0; j < columns; ++j) row[j] += factor * other[j];
        }
      }
    }
  }
}

}  // namespace cudnn_on_cpu
