// Where ONNX GridSample looks in its operand: for one output point, the elements it takes and their
// weights. Formulas: ONNX, operator GridSample; cubic interpolation with a = -0.75.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "compiler/support/status.h"
#include "kernels/kernel.h"

namespace mezzo::kernels {

inline constexpr std::size_t kMostSampledDims = 3;

// sum over t < count of weights[t] x[offsets[t]], offsets in elements of one channel.
struct SampleTaps {
  int count = 0;
  std::array<std::int64_t, 64> offsets;  // 4 elements along each of 3 dims
  std::array<double, 64> weights;
};

class GridSampler {
 public:
  // From a request of operator GridSample: x[N,C,D1..Dk], grid[N,O1..Ok,k] -> y[N,C,O1..Ok].
  // InvalidArgument: dims or attributes that make no sense. Unimplemented: k above 3.
  static StatusOr<GridSampler> read(const KernelRequest& request);

  std::size_t dims() const { return sizes_.size(); }
  int most_taps() const;  // of any point

  // `point` holds dims() numbers of the grid, the last dim's first. Points that are not finite are
  // outside.
  void taps_at(const double* point, SampleTaps& taps) const;
  // As above, but weights are derivatives by point[dims() - 1 - dim]. Where a point is moved to the
  // border they are 0; nearest sampling has no slope.
  void slopes_at(const double* point, std::size_t dim, SampleTaps& taps) const;

 private:
  enum class Mode : std::uint8_t { kNearest, kLinear, kCubic };
  enum class Padding : std::uint8_t { kZeros, kBorder, kReflection };

  // The elements along one dim; index -1: outside, zero.
  struct DimTaps {
    int count;
    std::array<std::int64_t, 4> indices;
    std::array<double, 4> weights, slopes;
  };
  DimTaps along(std::size_t dim, double normal) const;
  void combine(const double* point, std::size_t slope_dim, SampleTaps& taps) const;
  double reflected(std::size_t dim, double at) const;
  bool is_mirrored(std::size_t dim, double at) const;  // reflected() falls where `at` grows
  std::int64_t inside(std::size_t dim, std::int64_t index) const;

  std::vector<std::int64_t> sizes_;
  Mode mode_ = Mode::kLinear;
  Padding padding_ = Padding::kZeros;
  bool align_corners_ = false;
};

}  // namespace mezzo::kernels
