#include "kernels/sampling.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "compiler/support/text.h"

namespace mezzo::kernels {
namespace {

using Int = std::int64_t;

Status wrong(const std::string& what) { return invalid_argument("GridSample: " + what); }

// The weights of the elements at floor(x) - 1 .. floor(x) + 2 for a fraction f.
std::array<double, 4> cubic_weights(double f) {
  constexpr double a = -0.75;
  const auto near = [](double d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
  const auto far = [](double d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
  return {far(f + 1), near(f), near(1 - f), far(2 - f)};
}

// Their derivatives by f.
std::array<double, 4> cubic_slopes(double f) {
  constexpr double a = -0.75;
  const auto near = [](double d) { return (3 * (a + 2) * d - 2 * (a + 3)) * d; };
  const auto far = [](double d) { return (3 * a * d - 10 * a) * d + 8 * a; };
  return {far(f + 1), near(f), -near(1 - f), -far(2 - f)};
}

}  // namespace

StatusOr<GridSampler> GridSampler::read(const KernelRequest& request) {
  const std::vector<Int>& x = request.inputs[0].dims;
  const std::vector<Int>& grid = request.inputs[1].dims;
  const std::vector<Int>& y = request.outputs[0].dims;
  if (x.size() < 3 || grid.size() != x.size() || grid[0] != x[0] ||
      grid.back() != static_cast<Int>(x.size()) - 2) {
    return wrong("x " + format_dims(x) + " and grid " + format_dims(grid) + " do not go together");
  }
  if (x.size() - 2 > kMostSampledDims) return unimplemented("GridSample: more than 3 dims");
  std::vector<Int> expected = {x[0], x[1]};
  expected.insert(expected.end(), grid.begin() + 1, grid.end() - 1);
  if (y != expected) {
    return wrong("expected a result of dims " + format_dims(expected) + ", got " + format_dims(y));
  }
  GridSampler sampler;
  sampler.sizes_.assign(x.begin() + 2, x.end());
  if (request.outputs[0].elems() > 0 && std::count(x.begin(), x.end(), 0) > 0) {
    return wrong("x " + format_dims(x) + " has no elements to take");
  }
  const std::string mode = request.attributes.get_string("mode", "linear");
  if (mode == "nearest") {
    sampler.mode_ = Mode::kNearest;
  } else if (mode == "cubic" || mode == "bicubic") {
    sampler.mode_ = Mode::kCubic;
  } else if (mode != "linear" && mode != "bilinear") {
    return wrong("attribute 'mode' is '" + mode + "', expected nearest, linear or cubic");
  }
  const std::string padding = request.attributes.get_string("padding_mode", "zeros");
  if (padding == "border") {
    sampler.padding_ = Padding::kBorder;
  } else if (padding == "reflection") {
    sampler.padding_ = Padding::kReflection;
  } else if (padding != "zeros") {
    return wrong("attribute 'padding_mode' is '" + padding +
                 "', expected zeros, border or reflection");
  }
  sampler.align_corners_ = request.attributes.get_int("align_corners", 0) != 0;
  return sampler;
}

int GridSampler::most_taps() const {
  const int along = mode_ == Mode::kNearest ? 1 : mode_ == Mode::kLinear ? 2 : 4;
  int taps = 1;
  for (std::size_t d = 0; d < sizes_.size(); ++d) taps *= along;
  return taps;
}

// Mirrored at the borders until it lies between them: at the outermost elements' centres, or at
// their outer edges.
double GridSampler::reflected(std::size_t dim, double at) const {
  const auto size = static_cast<double>(sizes_[dim]);
  const double low = align_corners_ ? 0.0 : -0.5;
  const double span = align_corners_ ? size - 1 : size;
  if (span <= 0) return low;
  const double away = std::fmod(std::fabs(at - low), 2 * span);
  return low + std::min(away, 2 * span - away);
}

bool GridSampler::is_mirrored(std::size_t dim, double at) const {
  const auto size = static_cast<double>(sizes_[dim]);
  const double low = align_corners_ ? 0.0 : -0.5;
  const double span = align_corners_ ? size - 1 : size;
  if (span <= 0) return false;
  return (std::fmod(std::fabs(at - low), 2 * span) > span) != (at < low);
}

Int GridSampler::inside(std::size_t dim, Int index) const {
  const Int size = sizes_[dim];
  if (index >= 0 && index < size) return index;
  switch (padding_) {
    case Padding::kZeros: return -1;
    case Padding::kBorder: return std::clamp<Int>(index, 0, size - 1);
    case Padding::kReflection: break;
  }
  return std::clamp<Int>(static_cast<Int>(reflected(dim, static_cast<double>(index))), 0, size - 1);
}

GridSampler::DimTaps GridSampler::along(std::size_t dim, double normal) const {
  const auto size = static_cast<double>(sizes_[dim]);
  double at = align_corners_ ? (normal + 1) / 2 * (size - 1) : ((normal + 1) * size - 1) / 2;
  double slope = align_corners_ ? (size - 1) / 2 : size / 2;
  if (!std::isfinite(at)) {
    at = -8.0;
    slope = 0.0;
  }
  if (mode_ == Mode::kNearest) at = std::nearbyint(at);
  // Cubic weights are those of the point as given, as in PyTorch; elements are brought inside.
  if (padding_ == Padding::kBorder && mode_ != Mode::kCubic) {
    if (at <= 0.0 || at >= size - 1) slope = 0.0;
    at = std::clamp(at, 0.0, size - 1);
  }
  if (padding_ == Padding::kReflection) {
    if (is_mirrored(dim, at)) slope = -slope;
    at = reflected(dim, at);
  }
  at = std::clamp(at, -8.0, size + 8.0);  // farther out is all the same
  const double below = std::floor(at);
  const double fraction = at - below;
  const auto first = static_cast<Int>(below);
  DimTaps taps{};
  switch (mode_) {
    case Mode::kNearest: taps = {1, {static_cast<Int>(std::nearbyint(at))}, {1.0}, {}}; break;
    case Mode::kLinear:
      taps = {2, {first, first + 1}, {1 - fraction, fraction}, {-slope, slope}};
      break;
    case Mode::kCubic:
      taps = {4,
              {first - 1, first, first + 1, first + 2},
              cubic_weights(fraction),
              cubic_slopes(fraction)};
      for (double& value : taps.slopes) value *= slope;
      break;
  }
  for (int t = 0; t < taps.count; ++t) {
    taps.indices[static_cast<std::size_t>(t)] =
        inside(dim, taps.indices[static_cast<std::size_t>(t)]);
  }
  return taps;
}

void GridSampler::taps_at(const double* point, SampleTaps& taps) const {
  combine(point, sizes_.size(), taps);
}

void GridSampler::slopes_at(const double* point, std::size_t dim, SampleTaps& taps) const {
  combine(point, dim, taps);
}

void GridSampler::combine(const double* point, std::size_t slope_dim, SampleTaps& taps) const {
  taps.count = 1;
  taps.offsets[0] = 0;
  taps.weights[0] = 1.0;
  for (std::size_t dim = 0; dim < sizes_.size(); ++dim) {
    const DimTaps next = along(dim, point[sizes_.size() - 1 - dim]);
    std::array<Int, 16> offsets{};
    std::array<double, 16> weights{};
    const int before = taps.count;
    std::copy_n(taps.offsets.begin(), before, offsets.begin());
    std::copy_n(taps.weights.begin(), before, weights.begin());
    taps.count = 0;
    for (int b = 0; b < before; ++b) {
      for (int t = 0; t < next.count; ++t) {
        const Int index = next.indices[static_cast<std::size_t>(t)];
        const double weight =
            (dim == slope_dim ? next.slopes : next.weights)[static_cast<std::size_t>(t)];
        if (index < 0 || weight == 0.0) continue;
        const auto to = static_cast<std::size_t>(taps.count++);
        taps.offsets[to] = offsets[static_cast<std::size_t>(b)] * sizes_[dim] + index;
        taps.weights[to] = weights[static_cast<std::size_t>(b)] * weight;
      }
    }
  }
}

}  // namespace mezzo::kernels
