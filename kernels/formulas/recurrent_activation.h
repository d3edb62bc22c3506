// The activations of recurrent layers (ONNX, operators RNN, LSTM and GRU) and their slopes.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/formulas/host_device.h"

namespace mezzo::kernels {

enum class RecurrentActivation : std::uint8_t {
  kAffine,       // alpha x + beta
  kElu,          // x < 0 ? alpha (exp(x) - 1) : x
  kHardSigmoid,  // alpha x + beta within [0, 1]
  kLeakyRelu,    // x < 0 ? alpha x : x
  kRelu,
  kScaledTanh,  // alpha tanh(beta x)
  kSigmoid,
  kSoftplus,
  kSoftsign,  // x / (1 + |x|)
  kTanh,
  kThresholdedRelu,  // x > alpha ? x : 0
};

struct ActivationChoice {
  RecurrentActivation kind = RecurrentActivation::kTanh;
  double alpha = 0.0, beta = 0.0;
};

// T: float or double.
template <typename T>
MEZZO_HD inline T activated(const ActivationChoice& choice, T x) {
  const T alpha = static_cast<T>(choice.alpha);
  const T beta = static_cast<T>(choice.beta);
  const T one = 1;
  switch (choice.kind) {
    case RecurrentActivation::kAffine: return alpha * x + beta;
    case RecurrentActivation::kElu: return x < T{0} ? alpha * std::expm1(x) : x;
    case RecurrentActivation::kHardSigmoid: {
      const T line = alpha * x + beta;
      return line < T{0} ? T{0} : line > one ? one : line;
    }
    case RecurrentActivation::kLeakyRelu: return x < T{0} ? alpha * x : x;
    case RecurrentActivation::kRelu: return x < T{0} ? T{0} : x;
    case RecurrentActivation::kScaledTanh: return alpha * std::tanh(beta * x);
    case RecurrentActivation::kSigmoid:
      return x < T{0} ? std::exp(x) / (one + std::exp(x)) : one / (one + std::exp(-x));
    case RecurrentActivation::kSoftplus:
      return std::fmax(x, T{0}) + std::log1p(std::exp(-std::fabs(x)));
    case RecurrentActivation::kSoftsign: return x / (one + std::fabs(x));
    case RecurrentActivation::kTanh: return std::tanh(x);
    case RecurrentActivation::kThresholdedRelu: return x > alpha || x != x ? x : T{0};
  }
  return x;
}

// The slope at x, told from y = activated(choice, x) alone. REQUIRES: alpha >= 0 for Elu and
// LeakyRelu.
template <typename T>
MEZZO_HD inline T slope_at_result(const ActivationChoice& choice, T y) {
  const T alpha = static_cast<T>(choice.alpha);
  const T one = 1;
  switch (choice.kind) {
    case RecurrentActivation::kAffine: return alpha;
    case RecurrentActivation::kElu: return y > T{0} ? one : y + alpha;
    case RecurrentActivation::kHardSigmoid: return y > T{0} && y < one ? alpha : T{0};
    case RecurrentActivation::kLeakyRelu: return y > T{0} ? one : alpha;
    case RecurrentActivation::kRelu: return y > T{0} ? one : T{0};
    case RecurrentActivation::kScaledTanh:
      return alpha == T{0} ? T{0} : static_cast<T>(choice.beta) * (alpha - y * y / alpha);
    case RecurrentActivation::kSigmoid: return y * (one - y);
    case RecurrentActivation::kSoftplus: return -std::expm1(-y);
    case RecurrentActivation::kSoftsign: return (one - std::fabs(y)) * (one - std::fabs(y));
    case RecurrentActivation::kTanh: return one - y * y;
    case RecurrentActivation::kThresholdedRelu: return y != T{0} ? one : T{0};
  }
  return T{0};
}

}  // namespace mezzo::kernels
