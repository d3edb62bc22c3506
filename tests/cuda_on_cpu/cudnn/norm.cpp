// Normalisations of training and their gradients: of a batch's channels, and of rows.
//
//   y = scale (x - mean) inv_std + bias, inv_std = 1 / sqrt(variance + epsilon)
//   dx = scale inv_std (dy - mean(dy scale) / scale ..) in the terms of kernels/README.md
#include <cmath>

#include "tests/cuda_on_cpu/cudnn/graph.h"

namespace cudnn_on_cpu {
namespace {

// An element of x lies in one group, which is normalised together, and has one scale.
struct Places {
  std::vector<std::size_t> group, scale;
  std::size_t groups = 0, scales = 0;
};

// Dims of `statistic` and `scale` are those of x or 1.
Places places_of(const Tensor& x, const Tensor& statistic, const Tensor& scale) {
  Places places;
  places.groups = static_cast<std::size_t>(statistic.elems());
  places.scales = static_cast<std::size_t>(scale.elems());
  const auto place_in = [&](const Dims& dims, const Dims& at) {
    std::int64_t place = 0;
    for (std::size_t d = 0; d < dims.size(); ++d)
      place = place * dims[d] + (dims[d] == 1 ? 0 : at[d]);
    return static_cast<std::size_t>(place);
  };
  Dims at(x.dims.size(), 0);
  for (std::int64_t i = 0; i < x.elems(); ++i) {
    places.group.push_back(place_in(statistic.dims, at));
    places.scale.push_back(place_in(scale.dims, at));
    for (std::size_t d = at.size(); d-- > 0;) {
      if (++at[d] < x.dims[d]) break;
      at[d] = 0;
    }
  }
  return places;
}

}  // namespace

void normalize(const Operation& operation, const std::vector<Values>& in,
               std::vector<Values>& out) {
  const Places places = places_of(operation.in[0], operation.out[1], operation.in[1]);
  const Values &x = in[0], &scale = in[1], &bias = in[2];
  const double epsilon = in[3].front();
  const double count = static_cast<double>(x.size()) / static_cast<double>(places.groups);
  std::vector<double> mean(places.groups, 0.0), variance(places.groups, 0.0);
  for (std::size_t i = 0; i < x.size(); ++i) mean[places.group[i]] += x[i] / count;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double distance = x[i] - mean[places.group[i]];
    variance[places.group[i]] += distance * distance / count;
  }
  for (std::size_t g = 0; g < places.groups; ++g) {
    out[1][g] = static_cast<float>(mean[g]);
    out[2][g] = static_cast<float>(1.0 / std::sqrt(variance[g] + epsilon));
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t g = places.group[i];
    const std::size_t s = places.scale[i];
    out[0][i] = (x[i] - out[1][g]) * out[2][g] * scale[s] + bias[s];
  }
}

void normalize_grad(const Operation& operation, const std::vector<Values>& in,
                    std::vector<Values>& out) {
  const Places places = places_of(operation.in[1], operation.in[3], operation.in[2]);
  const Values &dy = in[0], &x = in[1], &scale = in[2], &mean = in[3], &inv_std = in[4];
  const double count = static_cast<double>(x.size()) / static_cast<double>(places.groups);
  std::vector<double> sum(places.groups, 0.0), sum_xhat(places.groups, 0.0);
  std::vector<double> dscale(places.scales, 0.0), dbias(places.scales, 0.0);
  const auto xhat = [&](std::size_t i) {
    return (static_cast<double>(x[i]) - mean[places.group[i]]) * inv_std[places.group[i]];
  };
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double scaled = static_cast<double>(dy[i]) * scale[places.scale[i]];
    sum[places.group[i]] += scaled;
    sum_xhat[places.group[i]] += scaled * xhat(i);
    dscale[places.scale[i]] += dy[i] * xhat(i);
    dbias[places.scale[i]] += dy[i];
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t g = places.group[i];
    const double scaled = static_cast<double>(dy[i]) * scale[places.scale[i]];
    out[0][i] =
        static_cast<float>(inv_std[g] * (scaled - (sum[g] + xhat(i) * sum_xhat[g]) / count));
  }
  for (std::size_t s = 0; s < places.scales; ++s) {
    out[1][s] = static_cast<float>(dscale[s]);
    out[2][s] = static_cast<float>(dbias[s]);
  }
}

}  // namespace cudnn_on_cpu
