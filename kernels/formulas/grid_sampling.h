// Where ONNX GridSample looks in its operand: for one output point, the elements it takes and their
// weights. Formulas: ONNX, operator GridSample; cubic interpolation with a = -0.75.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/formulas/host_device.h"

namespace mezzo::kernels {

inline constexpr int kMostSampledDims = 3;
inline constexpr int kMostTaps = 64;  // 4 elements along each of 3 dims

enum class GridMode : std::uint8_t { kNearest, kLinear, kCubic };
enum class GridPadding : std::uint8_t { kZeros, kBorder, kReflection };

// sum over t < count of weights[t] x[offsets[t]], offsets in elements of one channel.
struct SampleTaps {
  int count = 0;
  std::int64_t offsets[kMostTaps];
  double weights[kMostTaps];
};

// The elements along one dim; index -1: outside, zero.
struct DimTaps {
  int count = 0;
  std::int64_t indices[4] = {};
  double weights[4] = {}, slopes[4] = {};
};

// Weights of the elements at floor(x) - 1 .. floor(x) + 2 for a fraction f, and their derivatives.
MEZZO_HD inline void set_cubic(double f, DimTaps& taps) {
  constexpr double a = -0.75;
  const double at[4] = {f + 1, f, 1 - f, 2 - f};  // distances
  for (int t = 0; t < 4; ++t) {
    const double d = at[t];
    const bool near = t == 1 || t == 2;
    taps.weights[t] =
        near ? ((a + 2) * d - (a + 3)) * d * d + 1 : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
    const double slope =
        near ? (3 * (a + 2) * d - 2 * (a + 3)) * d : (3 * a * d - 10 * a) * d + 8 * a;
    taps.slopes[t] = t < 2 ? slope : -slope;
  }
}

struct GridSampling {
  std::int64_t sizes[kMostSampledDims] = {1, 1, 1};  // outermost first
  int rank = 0;
  GridMode mode = GridMode::kLinear;
  GridPadding padding = GridPadding::kZeros;
  bool align_corners = false;

  // Most taps of any point.
  MEZZO_HD int most_taps() const {
    const int along = mode == GridMode::kNearest ? 1 : mode == GridMode::kLinear ? 2 : 4;
    int taps = 1;
    for (int d = 0; d < rank; ++d) taps *= along;
    return taps;
  }

  // `point` holds `rank` numbers of the grid, the last dim's first. Points that are not finite are
  // outside.
  MEZZO_HD void taps_at(const double* point, SampleTaps& taps) const { combine(point, rank, taps); }
  // As above, but weights are derivatives by point[rank - 1 - dim]. Where a point is moved to the
  // border they are 0; nearest sampling has no slope.
  MEZZO_HD void slopes_at(const double* point, int dim, SampleTaps& taps) const {
    combine(point, dim, taps);
  }

 private:
  MEZZO_HD static double within(double at, double low, double high) {
    return at < low ? low : at > high ? high : at;
  }
  MEZZO_HD double span_of(int dim) const {
    const auto size = static_cast<double>(sizes[dim]);
    return align_corners ? size - 1 : size;
  }
  // Mirrored at the borders until it lies between them: at the outermost elements' centres, or at
  // their outer edges.
  MEZZO_HD double reflected(int dim, double at) const {
    const double low = align_corners ? 0.0 : -0.5;
    const double span = span_of(dim);
    if (span <= 0) return low;
    const double away = std::fmod(std::fabs(at - low), 2 * span);
    return low + (away < 2 * span - away ? away : 2 * span - away);
  }
  MEZZO_HD bool is_mirrored(int dim, double at) const {  // reflected() falls where `at` grows
    const double low = align_corners ? 0.0 : -0.5;
    const double span = span_of(dim);
    if (span <= 0) return false;
    return (std::fmod(std::fabs(at - low), 2 * span) > span) != (at < low);
  }
  MEZZO_HD std::int64_t inside(int dim, std::int64_t index) const {
    const std::int64_t size = sizes[dim];
    if (index >= 0 && index < size) return index;
    if (padding == GridPadding::kZeros) return -1;
    if (padding == GridPadding::kReflection) {
      index = static_cast<std::int64_t>(reflected(dim, static_cast<double>(index)));
    }
    return index < 0 ? 0 : index > size - 1 ? size - 1 : index;
  }

  MEZZO_HD DimTaps along(int dim, double normal) const {
    const auto size = static_cast<double>(sizes[dim]);
    double at = align_corners ? (normal + 1) / 2 * (size - 1) : ((normal + 1) * size - 1) / 2;
    double slope = align_corners ? (size - 1) / 2 : size / 2;
    if (!std::isfinite(at)) {
      at = -8.0;
      slope = 0.0;
    }
    if (mode == GridMode::kNearest) at = std::nearbyint(at);
    // Cubic weights are those of the point as given, as in PyTorch; elements are brought inside.
    if (padding == GridPadding::kBorder && mode != GridMode::kCubic) {
      if (at <= 0.0 || at >= size - 1) slope = 0.0;
      at = within(at, 0.0, size - 1);
    }
    if (padding == GridPadding::kReflection) {
      if (is_mirrored(dim, at)) slope = -slope;
      at = reflected(dim, at);
    }
    at = within(at, -8.0, size + 8.0);  // farther out is all the same
    return taps_around(dim, at, slope);
  }

  MEZZO_HD DimTaps taps_around(int dim, double at, double slope) const {
    const double below = std::floor(at);
    const double fraction = at - below;
    auto first = static_cast<std::int64_t>(below);
    DimTaps taps;
    switch (mode) {
      case GridMode::kNearest:
        taps.count = 1;
        taps.weights[0] = 1.0;
        first = static_cast<std::int64_t>(std::nearbyint(at));
        break;
      case GridMode::kLinear:
        taps.count = 2;
        taps.weights[0] = 1 - fraction;
        taps.weights[1] = fraction;
        taps.slopes[0] = -slope;
        taps.slopes[1] = slope;
        break;
      case GridMode::kCubic:
        taps.count = 4;
        set_cubic(fraction, taps);
        for (double& value : taps.slopes) value *= slope;
        --first;
        break;
    }
    for (int t = 0; t < taps.count; ++t) taps.indices[t] = inside(dim, first + t);
    return taps;
  }

  // Products of the dims' taps; slopes instead of weights along `slope_dim`.
  MEZZO_HD void combine(const double* point, int slope_dim, SampleTaps& taps) const {
    taps.count = 1;
    taps.offsets[0] = 0;
    taps.weights[0] = 1.0;
    for (int dim = 0; dim < rank; ++dim) {
      const DimTaps next = along(dim, point[rank - 1 - dim]);
      std::int64_t offsets[16];
      double weights[16];
      const int before = taps.count;
      for (int b = 0; b < before; ++b) {
        offsets[b] = taps.offsets[b];
        weights[b] = taps.weights[b];
      }
      taps.count = 0;
      for (int b = 0; b < before; ++b) {
        for (int t = 0; t < next.count; ++t) {
          const double weight = dim == slope_dim ? next.slopes[t] : next.weights[t];
          if (next.indices[t] < 0 || weight == 0.0) continue;
          const int to = taps.count++;
          taps.offsets[to] = offsets[b] * sizes[dim] + next.indices[t];
          taps.weights[to] = weights[b] * weight;
        }
      }
    }
  }
};

}  // namespace mezzo::kernels
