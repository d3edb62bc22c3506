// GELU by the hyperbolic tangent (Hendrycks, Gimpel: "Gaussian Error Linear Units", section 2):
//   y = x / 2 (1 + tanh(u)),  u = sqrt(2 / pi) (x + 0.044715 x^3)
#pragma once

#include <cmath>

#include "kernels/formulas/host_device.h"

namespace mezzo::kernels {

inline constexpr double kGeluScale = 0.79788456080286535588;  // sqrt(2 / pi)
inline constexpr double kGeluCubic = 0.044715;

// T: float or double.
template <typename T>
MEZZO_HD inline T gelu_tanh(T x) {
  const T u = static_cast<T>(kGeluScale) * (x + static_cast<T>(kGeluCubic) * x * x * x);
  return x / T{2} * (T{1} + std::tanh(u));
}

// The derivative. Beyond abs(x) = 50 the tangent is 1 for every T, and 1 - tanh^2 times the cube
// of x would be 0 times infinity.
template <typename T>
MEZZO_HD inline T gelu_tanh_derivative(T x) {
  if (x > T{50}) return T{1};
  if (x < T{-50}) return T{0};
  const T square = x * x;
  const T u = static_cast<T>(kGeluScale) * (x + static_cast<T>(kGeluCubic) * x * square);
  const T tangent = std::tanh(u);
  const T slope = static_cast<T>(kGeluScale) * (T{1} + static_cast<T>(3 * kGeluCubic) * square);
  return (T{1} + tangent) / T{2} + x / T{2} * (T{1} - tangent * tangent) * slope;
}

}  // namespace mezzo::kernels
