// Where ONNX RoiAlign samples an image: the regions' bins, and the pixels around a sample.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/formulas/host_device.h"

namespace mezzo::kernels {

struct RoiGeometry {
  std::int64_t height = 0, width = 0;  // of the image
  std::int64_t rows = 0, columns = 0;  // bins of a region
  std::int64_t sampling = 0;           // samples per bin and axis; 0: one per pixel
  double scale = 1.0;
  bool half_pixel = true;
};

// Samples per bin and axis beyond this are no region of an image.
inline constexpr double kMostRoiSamples = 1 << 16;

struct RoiRegion {
  double top = 0, left = 0, bin_height = 0, bin_width = 0;
  std::int64_t samples_down = 0, samples_across = 0;
  bool sensible = false;  // finite, and not too many samples

  MEZZO_HD double sample_row(std::int64_t bin, std::int64_t i) const {
    return top + (static_cast<double>(bin) +
                  (static_cast<double>(i) + 0.5) / static_cast<double>(samples_down)) *
                     bin_height;
  }
  MEZZO_HD double sample_column(std::int64_t bin, std::int64_t j) const {
    return left + (static_cast<double>(bin) +
                   (static_cast<double>(j) + 0.5) / static_cast<double>(samples_across)) *
                      bin_width;
  }
};

// `corners`: x1 y1 x2 y2.
MEZZO_HD inline RoiRegion roi_region(const RoiGeometry& geometry, const double (&corners)[4]) {
  double at[4];
  for (int i = 0; i < 4; ++i) {
    at[i] = corners[i] * geometry.scale - (geometry.half_pixel ? 0.5 : 0.0);
  }
  double width = at[2] - at[0];
  double height = at[3] - at[1];
  if (!geometry.half_pixel) {
    if (width < 1.0) width = 1.0;
    if (height < 1.0) height = 1.0;
  }
  RoiRegion region;
  region.left = at[0];
  region.top = at[1];
  region.bin_height = height / static_cast<double>(geometry.rows);
  region.bin_width = width / static_cast<double>(geometry.columns);
  const double given = static_cast<double>(geometry.sampling);
  const double down = geometry.sampling > 0 ? given : std::ceil(region.bin_height);
  const double across = geometry.sampling > 0 ? given : std::ceil(region.bin_width);
  region.sensible = std::isfinite(region.left) && std::isfinite(region.top) &&
                    std::isfinite(width) && std::isfinite(height) && down <= kMostRoiSamples &&
                    across <= kMostRoiSamples;
  if (!region.sensible) return region;
  region.samples_down = down > 0.0 ? static_cast<std::int64_t>(down) : 0;
  region.samples_across = across > 0.0 ? static_cast<std::int64_t>(across) : 0;
  return region;
}

// Along one axis: the two pixels around a sample, and the weight of the second.
struct RoiNeighbours {
  std::int64_t low = 0, high = 0;
  double fraction = 0.0;
  bool outside = false;
};

MEZZO_HD inline RoiNeighbours roi_neighbours(double at, std::int64_t size) {
  RoiNeighbours place;
  if (!(at >= -1.0 && at <= static_cast<double>(size))) {
    place.outside = true;
    return place;
  }
  if (at < 0.0) at = 0.0;
  const std::int64_t last = size - 1;
  place.low = static_cast<std::int64_t>(at) < last ? static_cast<std::int64_t>(at) : last;
  place.high = place.low < last ? place.low + 1 : last;
  if (place.low < last) place.fraction = at - static_cast<double>(place.low);
  return place;
}

// MaxRoiPool: first and last pixel of bin `i` of `bins` that divide [start, end], both within the
// image.
struct RoiSpan {
  std::int64_t first, last;
};
MEZZO_HD inline RoiSpan roi_bin_span(double start, double end, std::int64_t i, std::int64_t bins,
                                     std::int64_t size) {
  const double length = end - start + 1;
  const double bin = (length > 1.0 ? length : 1.0) / static_cast<double>(bins);
  const auto most = static_cast<double>(size);
  const auto clamped = [&](double at) {
    return static_cast<std::int64_t>(at < 0.0 ? 0.0 : at > most ? most : at);
  };
  return {clamped(std::floor(static_cast<double>(i) * bin) + start),
          clamped(std::ceil(static_cast<double>(i + 1) * bin) + start)};
}

}  // namespace mezzo::kernels
