#include "kernels/resample.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "compiler/support/text.h"

namespace mezzo::kernels {
namespace {

using Int = std::int64_t;

constexpr Int kMostTaps = Int{1} << 28;  // of one axis: its table must fit into memory

struct Options {
  std::string mode, coordinates, rounding;
  double cubic = -0.75;
  bool exclude_outside = false, antialias = false;
};

// One axis before its table is made.
struct Stretch {
  Int in = 0, out = 0;
  double scale = 1.0;
  double roi_start = 0.0, roi_end = 1.0;
};

Status wrong(const std::string& what) { return invalid_argument("Resize: " + what); }

bool is_one_of(const std::string& text, std::initializer_list<std::string_view> list) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

StatusOr<Options> read_options(const Attributes& attributes) {
  Options options;
  options.mode = attributes.get_string("mode", "nearest");
  options.coordinates = attributes.get_string("coordinate_transformation_mode", "half_pixel");
  options.rounding = attributes.get_string("nearest_mode", "round_prefer_floor");
  options.cubic = attributes.get_float("cubic_coeff_a", -0.75);
  options.exclude_outside = attributes.get_int("exclude_outside", 0) != 0;
  options.antialias = attributes.get_int("antialias", 0) != 0;
  if (!is_one_of(options.mode, {"nearest", "linear", "cubic"})) {
    return wrong("attribute 'mode' is '" + options.mode + "', expected nearest, linear or cubic");
  }
  if (!is_one_of(options.coordinates,
                 {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
                  "asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize"})) {
    return wrong("attribute 'coordinate_transformation_mode' is unknown: '" + options.coordinates +
                 "'");
  }
  if (!is_one_of(options.rounding, {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"})) {
    return wrong("attribute 'nearest_mode' is unknown: '" + options.rounding + "'");
  }
  return options;
}

// Where index j of the result lies in the operand.
double position(const Options& options, const Stretch& stretch, double j) {
  const std::string& mode = options.coordinates;
  const auto in = static_cast<double>(stretch.in);
  const double width = stretch.scale * in;  // of the result, before it is made whole
  if (mode == "align_corners") return width == 1.0 ? 0.0 : j * (in - 1) / (width - 1);
  if (mode == "asymmetric") return j / stretch.scale;
  if (mode == "tf_crop_and_resize") {
    const double span = (stretch.roi_end - stretch.roi_start) * (in - 1);
    return stretch.roi_start * (in - 1) + (width == 1.0 ? span / 2 : j * span / (width - 1));
  }
  if (mode == "tf_half_pixel_for_nn") return (j + 0.5) / stretch.scale;
  if (mode == "pytorch_half_pixel" && stretch.out == 1) return 0.0;
  const double half_pixel = (j + 0.5) / stretch.scale - 0.5;
  if (mode != "half_pixel_symmetric") return half_pixel;
  return in / 2 * (1 - static_cast<double>(stretch.out) / width) + half_pixel;
}

double rounded(const std::string& mode, double x) {
  if (mode == "round_prefer_floor") return std::ceil(x - 0.5);
  if (mode == "round_prefer_ceil") return std::floor(x + 0.5);
  return mode == "floor" ? std::floor(x) : std::ceil(x);
}

// The weight of an element at `distance`, in elements of the result where it shrinks.
double weight_at(const Options& options, double distance) {
  const double d = std::fabs(distance);
  if (options.mode == "linear") return std::max(0.0, 1.0 - d);
  const double a = options.cubic;
  if (d <= 1) return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0.0;
}

// Elements from `first` on, as many as there are taps; what lies outside is the edge's element, or
// excluded.
void write_taps(const Options& options, double x, double shrink, Int first, Int j,
                ResampledAxis& axis) {
  const auto begin = static_cast<std::size_t>(j * axis.taps);
  double sum = 0.0;
  for (Int t = 0; t < axis.taps; ++t) {
    const Int index = first + t;
    const bool inside = index >= 0 && index < axis.in;
    const double weight = options.exclude_outside && !inside
                              ? 0.0
                              : weight_at(options, (static_cast<double>(index) - x) * shrink);
    axis.indices[begin + static_cast<std::size_t>(t)] = std::clamp<Int>(index, 0, axis.in - 1);
    axis.weights[begin + static_cast<std::size_t>(t)] = weight;
    sum += weight;
  }
  if ((!options.exclude_outside && shrink == 1.0) || sum == 0.0) return;
  for (Int t = 0; t < axis.taps; ++t) axis.weights[begin + static_cast<std::size_t>(t)] /= sum;
}

Status make_table(const Options& options, const Stretch& stretch, ResampledAxis& axis) {
  axis.in = stretch.in;
  axis.out = stretch.out;
  const bool nearest = options.mode == "nearest";
  const double shrink = options.antialias && !nearest ? std::min(stretch.scale, 1.0) : 1.0;
  const double reach = (options.mode == "cubic" ? 2.0 : 1.0) / shrink;  // to either side
  const Int most_taps = kMostTaps / std::max<Int>(stretch.out, 1);
  if (!nearest && 2 * reach + 1 > static_cast<double>(most_taps)) {
    return wrong("scale " + std::to_string(stretch.scale) + " is too small for antialias");
  }
  axis.taps = nearest ? 1 : 2 * static_cast<Int>(std::ceil(reach));
  if (axis.taps > most_taps) return wrong("the result is too large");
  axis.indices.resize(static_cast<std::size_t>(axis.out * axis.taps));
  axis.weights.resize(axis.indices.size(), 1.0);
  const bool crops = options.coordinates == "tf_crop_and_resize";
  if (crops) axis.outside.resize(static_cast<std::size_t>(axis.out));
  for (Int j = 0; j < axis.out; ++j) {
    double x = position(options, stretch, static_cast<double>(j));
    if (!std::isfinite(x)) return wrong("a position in the operand is not finite");
    if (crops)
      axis.outside[static_cast<std::size_t>(j)] = x < 0 || x > static_cast<double>(axis.in - 1);
    const auto slack = static_cast<double>(axis.taps + 1);
    x = std::clamp(x, -slack, static_cast<double>(axis.in) + slack);
    if (nearest) {
      axis.indices[static_cast<std::size_t>(j)] =
          std::clamp<Int>(static_cast<Int>(rounded(options.rounding, x)), 0, axis.in - 1);
      continue;
    }
    const auto first = static_cast<Int>(std::floor(x)) + 1 - axis.taps / 2;
    write_taps(options, x, shrink, first, j, axis);
  }
  if (std::find(axis.outside.begin(), axis.outside.end(), true) == axis.outside.end()) {
    axis.outside.clear();
  }
  return ok_status();
}

// Every dim's stretch; the axes that scales, sizes and roi count are all of them unless named.
StatusOr<std::vector<Stretch>> read_stretches(const KernelRequest& request) {
  const std::vector<Int>& x = request.inputs[0].dims;
  const std::vector<Int>& y = request.outputs[0].dims;
  const auto rank = static_cast<Int>(x.size());
  std::vector<Int> axes(x.size());
  std::iota(axes.begin(), axes.end(), 0);
  axes = request.attributes.get_ints("axes", axes);
  const std::vector<double> scales = request.attributes.get_floats("scales");
  const std::vector<Int> sizes = request.attributes.get_ints("sizes");
  const std::vector<double> roi = request.attributes.get_floats("roi");
  std::vector<Stretch> stretches(x.size());
  std::vector<bool> named(x.size(), false);
  for (std::size_t d = 0; d < x.size(); ++d) {
    stretches[d].in = x[d];
    stretches[d].out = y[d];
    if (x[d] > 0) stretches[d].scale = static_cast<double>(y[d]) / static_cast<double>(x[d]);
  }
  if ((!scales.empty() && scales.size() != axes.size()) ||
      (!sizes.empty() && sizes.size() != axes.size()) ||
      (!roi.empty() && roi.size() != 2 * axes.size())) {
    return wrong("scales, sizes or roi do not have one entry per axis");
  }
  double common = 0.0;
  const std::string policy = request.attributes.get_string("keep_aspect_ratio_policy", "stretch");
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] < -rank || axes[i] >= rank) return wrong("attribute 'axes' names no dim");
    const auto d = static_cast<std::size_t>(axes[i] < 0 ? axes[i] + rank : axes[i]);
    if (named[d]) return wrong("attribute 'axes' names a dim twice");
    named[d] = true;
    if (!scales.empty()) stretches[d].scale = scales[i];
    if (!roi.empty()) {
      stretches[d].roi_start = roi[i];
      stretches[d].roi_end = roi[axes.size() + i];
    }
    if (sizes.empty() || policy == "stretch" || x[d] == 0) continue;
    const double scale = static_cast<double>(sizes[i]) / static_cast<double>(x[d]);
    const bool first = common == 0.0;
    common = first                    ? scale
             : policy == "not_larger" ? std::min(common, scale)
                                      : std::max(common, scale);
  }
  for (std::size_t d = 0; d < x.size(); ++d) {
    if (!named[d] && x[d] != y[d]) return wrong("a dim that is not resized changes its size");
    if (named[d] && common > 0.0) stretches[d].scale = common;
    if (y[d] > 0 &&
        (x[d] == 0 || !(stretches[d].scale > 0.0) || !std::isfinite(stretches[d].scale))) {
      return wrong("dim " + std::to_string(d) + " of size " + std::to_string(x[d]) +
                   " cannot be scaled by " + std::to_string(stretches[d].scale));
    }
  }
  return stretches;
}

bool keeps_all(const Options& options, const Stretch& stretch) {
  const bool whole = options.coordinates != "tf_crop_and_resize" ||
                     (stretch.roi_start == 0.0 && stretch.roi_end == 1.0);
  return stretch.in == stretch.out && std::fabs(stretch.scale - 1.0) < 1e-9 && whole;
}

}  // namespace

bool Resampling::extrapolates() const {
  return std::any_of(axes.begin(), axes.end(),
                     [](const ResampledAxis& axis) { return !axis.outside.empty(); });
}

StatusOr<Resampling> read_resampling(const KernelRequest& request) {
  const std::vector<Int>& x = request.inputs[0].dims;
  const std::vector<Int>& y = request.outputs[0].dims;
  if (x.size() != y.size()) {
    return wrong("x " + format_dims(x) + " and y " + format_dims(y) + " differ in rank");
  }
  MEZZO_ASSIGN_OR_RETURN(const Options options, read_options(request.attributes));
  MEZZO_ASSIGN_OR_RETURN(const std::vector<Stretch> stretches, read_stretches(request));
  Resampling resampling;
  resampling.nearest = options.mode == "nearest";
  resampling.extrapolation = request.attributes.get_float("extrapolation_value", 0.0);
  if (request.outputs[0].elems() == 0) return resampling;
  for (std::size_t d = 0; d < stretches.size(); ++d) {
    if (keeps_all(options, stretches[d])) continue;
    ResampledAxis axis;
    axis.dim = d;
    MEZZO_RETURN_IF_ERROR(make_table(options, stretches[d], axis));
    resampling.axes.push_back(std::move(axis));
  }
  return resampling;
}

namespace {

// From tables by index of y to tables by index of x. Taps are in the order of y; those that fill a
// row up repeat its last (or the row before's) element with weight 0, so that what ascends in one
// direction ascends in the other.
Status transpose_axis(ResampledAxis& axis) {
  const auto used = [&](Int j, Int t) {
    const auto tap = static_cast<std::size_t>(j * axis.taps + t);
    const bool outside = !axis.outside.empty() && axis.outside[static_cast<std::size_t>(j)];
    return !outside && axis.weights[tap] != 0.0;
  };
  if (axis.in > kMostTaps) return unimplemented("ResizeGrad: a dim beyond 2^28");
  std::vector<std::vector<std::pair<Int, double>>> rows(static_cast<std::size_t>(axis.in));
  std::size_t most = 1;
  for (Int j = 0; j < axis.out; ++j) {
    for (Int t = 0; t < axis.taps; ++t) {
      if (!used(j, t)) continue;
      const auto tap = static_cast<std::size_t>(j * axis.taps + t);
      auto& row = rows[static_cast<std::size_t>(axis.indices[tap])];
      if (!row.empty() && row.back().first == j) {
        row.back().second += axis.weights[tap];  // the edge's element, taken more than once
      } else {
        row.emplace_back(j, axis.weights[tap]);
      }
      most = std::max(most, row.size());
    }
  }
  if (static_cast<Int>(most) > kMostTaps / std::max<Int>(axis.in, 1)) {
    return unimplemented("ResizeGrad: a table of more than 2^28 elements");
  }
  std::swap(axis.in, axis.out);
  axis.taps = static_cast<Int>(most);
  axis.indices.clear();
  axis.weights.clear();
  axis.outside.clear();
  Int last = 0;
  for (const auto& row : rows) {
    for (const auto& [index, weight] : row) {
      axis.indices.push_back(index);
      axis.weights.push_back(weight);
    }
    if (!row.empty()) last = row.back().first;
    axis.indices.resize(axis.indices.size() + most - row.size(), last);
    axis.weights.resize(axis.weights.size() + most - row.size(), 0.0);
  }
  return ok_status();
}

}  // namespace

StatusOr<Resampling> read_resampling_grad(const KernelRequest& request) {
  KernelRequest forward;
  forward.op = "Resize";
  forward.attributes = request.attributes;
  forward.inputs = {request.outputs[0]};
  forward.outputs = {request.inputs[0]};
  MEZZO_ASSIGN_OR_RETURN(Resampling resampling, read_resampling(forward));
  for (ResampledAxis& axis : resampling.axes) MEZZO_RETURN_IF_ERROR(transpose_axis(axis));
  resampling.nearest = false;
  resampling.extrapolation = 0.0;
  return resampling;
}

void to_memory_order(Layout layout, Resampling& resampling, std::vector<Int>& x,
                     std::vector<Int>& y) {
  if (layout == Layout::kRowMajor) return;
  for (std::vector<Int>* dims : {&x, &y})
    std::rotate(dims->begin() + 1, dims->begin() + 2, dims->end());
  for (ResampledAxis& axis : resampling.axes) {
    if (axis.dim == 1) {
      axis.dim = x.size() - 1;
    } else if (axis.dim > 1) {
      --axis.dim;
    }
  }
  std::sort(resampling.axes.begin(), resampling.axes.end(),
            [](const ResampledAxis& a, const ResampledAxis& b) { return a.dim < b.dim; });
}

}  // namespace mezzo::kernels
