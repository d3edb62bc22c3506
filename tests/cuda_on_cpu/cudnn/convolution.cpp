// Convolutions and their two gradients. Letters: N batch, C and M channels of x and y, g groups, T
// taps of the kernel, P places.
//
// Channels are innermost here, whatever the tensors' order, so that the innermost loops run over
// neighbours. Sums are float32, as the library's; those of weights over the images of a batch
// double.
#include <algorithm>

#include "tests/cuda_on_cpu/cudnn/graph.h"

namespace cudnn_on_cpu {
namespace {

struct Shape {
  std::int64_t n = 1, c = 1, m = 1, groups = 1;
  std::int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1}, kernel[3] = {1, 1, 1};
  std::int64_t stride[3] = {1, 1, 1}, dilation[3] = {1, 1, 1}, pad[3] = {0, 0, 0};

  std::int64_t c_group() const { return c / groups; }
  std::int64_t m_group() const { return m / groups; }
  std::int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  std::int64_t in_places() const { return in[0] * in[1] * in[2]; }
  std::int64_t out_places() const { return out[0] * out[1] * out[2]; }
};

Shape shape_of(const Operation& operation, const Tensor& x, const Tensor& w, const Tensor& y) {
  Shape shape;
  shape.n = x.dims[0];
  shape.c = x.dims[1];
  shape.m = y.dims[1];
  shape.groups = x.dims[1] / w.dims[1];
  const std::size_t spatial = x.dims.size() - 2;
  for (std::size_t i = 0; i < spatial; ++i) {
    const std::size_t to = 3 - spatial + i;
    shape.in[to] = x.dims[i + 2];
    shape.out[to] = y.dims[i + 2];
    shape.kernel[to] = w.dims[i + 2];
    shape.stride[to] = operation.strides[i];
    shape.dilation[to] = operation.dilations[i];
    shape.pad[to] = operation.pads_begin[i];
  }
  return shape;
}

// to[p, c, r] = from[p, r, c]
Values exchanged(const Values& from, std::int64_t planes, std::int64_t rows, std::int64_t columns) {
  Values to(from.size());
  const float* at = from.data();
  for (std::int64_t p = 0; p < planes; ++p) {
    float* plane = to.data() + p * rows * columns;
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < columns; ++c) plane[c * rows + r] = *at++;
    }
  }
  return to;
}

// Calls visit(tap, place in x, place in y) for all that meet in an image.
template <typename Visit>
void for_each_meeting(const Shape& s, Visit&& visit) {
  std::int64_t tap = 0;
  for (std::int64_t kd = 0; kd < s.kernel[0]; ++kd) {
    for (std::int64_t kh = 0; kh < s.kernel[1]; ++kh) {
      for (std::int64_t kw = 0; kw < s.kernel[2]; ++kw, ++tap) {
        std::int64_t place = 0;
        for (std::int64_t od = 0; od < s.out[0]; ++od) {
          const std::int64_t d = od * s.stride[0] - s.pad[0] + kd * s.dilation[0];
          for (std::int64_t oh = 0; oh < s.out[1]; ++oh) {
            const std::int64_t h = oh * s.stride[1] - s.pad[1] + kh * s.dilation[1];
            for (std::int64_t ow = 0; ow < s.out[2]; ++ow, ++place) {
              const std::int64_t w = ow * s.stride[2] - s.pad[2] + kw * s.dilation[2];
              if (d < 0 || h < 0 || w < 0 || d >= s.in[0] || h >= s.in[1] || w >= s.in[2]) continue;
              visit(tap, (d * s.in[1] + h) * s.in[2] + w, place);
            }
          }
        }
      }
    }
  }
}

// rows[j] += factors[i] matrix[i, j]
void add_products(const float* factors, std::int64_t count, const float* matrix,
                  std::int64_t columns, float* sums) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float factor = factors[i];
    const float* row = matrix + i * columns;
    for (std::int64_t j = 0; j < columns; ++j) sums[j] += factor * row[j];
  }
}

// sums[i, j] += a[i] b[j]
void add_outer(const float* a, std::int64_t rows, const float* b, std::int64_t columns,
               float* sums) {
  for (std::int64_t i = 0; i < rows; ++i) {
    const float factor = a[i];
    float* row = sums + i * columns;
    for (std::int64_t j = 0; j < columns; ++j) row[j] += factor * b[j];
  }
}

// w[M, C/g, T] as [T, g, C/g, M/g], or with the last two exchanged.
Values by_tap(const Shape& s, const Values& w, bool channels_of_y_last) {
  Values to(w.size());
  const std::int64_t cg = s.c_group();
  const std::int64_t mg = s.m_group();
  const float* at = w.data();
  for (std::int64_t m = 0; m < s.m; ++m) {
    for (std::int64_t c = 0; c < cg; ++c) {
      for (std::int64_t t = 0; t < s.taps(); ++t) {
        float* group = to.data() + (t * s.groups + m / mg) * cg * mg;
        group[channels_of_y_last ? c * mg + m % mg : m % mg * cg + c] = *at++;
      }
    }
  }
  return to;
}

void forward(const Shape& s, const Values& x, const Values& w, Values& y) {
  const Values weights = by_tap(s, w, true);
  const std::int64_t cg = s.c_group();
  const std::int64_t mg = s.m_group();
  for (std::int64_t n = 0; n < s.n; ++n) {
    const float* from = x.data() + n * s.in_places() * s.c;
    float* to = y.data() + n * s.out_places() * s.m;
    for_each_meeting(s, [&](std::int64_t tap, std::int64_t in, std::int64_t out) {
      for (std::int64_t g = 0; g < s.groups; ++g) {
        add_products(from + in * s.c + g * cg, cg, weights.data() + (tap * s.groups + g) * cg * mg,
                     mg, to + out * s.m + g * mg);
      }
    });
  }
}

void grad_input(const Shape& s, const Values& dy, const Values& w, Values& dx) {
  const Values weights = by_tap(s, w, false);
  const std::int64_t cg = s.c_group();
  const std::int64_t mg = s.m_group();
  for (std::int64_t n = 0; n < s.n; ++n) {
    const float* from = dy.data() + n * s.out_places() * s.m;
    float* to = dx.data() + n * s.in_places() * s.c;
    for_each_meeting(s, [&](std::int64_t tap, std::int64_t in, std::int64_t out) {
      for (std::int64_t g = 0; g < s.groups; ++g) {
        add_products(from + out * s.m + g * mg, mg, weights.data() + (tap * s.groups + g) * cg * mg,
                     cg, to + in * s.c + g * cg);
      }
    });
  }
}

void grad_weight(const Shape& s, const Values& dy, const Values& x, Values& dw) {
  const std::int64_t cg = s.c_group();
  const std::int64_t mg = s.m_group();
  std::vector<double> sums(dw.size(), 0.0);
  Values image(dw.size());
  for (std::int64_t n = 0; n < s.n; ++n) {
    std::fill(image.begin(), image.end(), 0.0F);
    const float* a = x.data() + n * s.in_places() * s.c;
    const float* b = dy.data() + n * s.out_places() * s.m;
    for_each_meeting(s, [&](std::int64_t tap, std::int64_t in, std::int64_t out) {
      for (std::int64_t g = 0; g < s.groups; ++g) {
        add_outer(a + in * s.c + g * cg, cg, b + out * s.m + g * mg, mg,
                  image.data() + (tap * s.groups + g) * cg * mg);
      }
    });
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += image[i];
  }
  float* to = dw.data();
  for (std::int64_t m = 0; m < s.m; ++m) {
    for (std::int64_t c = 0; c < cg; ++c) {
      for (std::int64_t t = 0; t < s.taps(); ++t) {
        const std::int64_t group = (t * s.groups + m / mg) * cg * mg;
        *to++ = static_cast<float>(sums[static_cast<std::size_t>(group + c * mg + m % mg)]);
      }
    }
  }
}

}  // namespace

void convolve(const Operation& operation, const std::vector<Values>& in, std::vector<Values>& out) {
  const auto to_last = [](const Values& values, const Tensor& tensor) {
    const std::int64_t places = tensor.elems() / (tensor.dims[0] * tensor.dims[1]);
    return exchanged(values, tensor.dims[0], tensor.dims[1], places);
  };
  const auto to_first = [](const Values& values, const Tensor& tensor) {
    const std::int64_t places = tensor.elems() / (tensor.dims[0] * tensor.dims[1]);
    return exchanged(values, tensor.dims[0], places, tensor.dims[1]);
  };
  const Tensor &a = operation.in[0], &b = operation.in[1], &result = operation.out[0];
  std::fill(out[0].begin(), out[0].end(), 0.0F);
  switch (operation.kind) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      forward(shape_of(operation, a, b, result), to_last(in[0], a), in[1], out[0]);
      out[0] = to_first(out[0], result);
      break;
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      grad_input(shape_of(operation, result, b, a), to_last(in[0], a), in[1], out[0]);
      out[0] = to_first(out[0], result);
      break;
    default:
      grad_weight(shape_of(operation, b, result, a), to_last(in[0], a), to_last(in[1], b), out[0]);
      break;
  }
}

}  // namespace cudnn_on_cpu
