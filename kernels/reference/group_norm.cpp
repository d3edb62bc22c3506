// Normalisations by groups of channels, by the root mean square of a row, and over neighbouring
// channels (LRN). Statistics take two passes in double; the result is rounded once.
//
//   GroupNormalization, InstanceNormalization (every channel a group of its own):
//     y = scale (x - mean) / sqrt(var + epsilon) + bias, mean and var over the group's elements
//   RMSNormalization: y = scale x / sqrt(mean of x^2 + epsilon), means over the dims from axis on
//   LRN: y = x / (bias + alpha / size * sum of x^2 over the channels of the window)^beta
#include <algorithm>
#include <cmath>

#include "compiler/support/text.h"
#include "kernels/reference/element.h"
#include "kernels/reference/families.h"
#include "kernels/reference/operands.h"

namespace mezzo::kernels::reference {
namespace {

// Letters: N images, G groups of C channels each, P pixels.
struct Groups {
  std::int64_t images = 0, groups = 0, channels = 0, pixels = 1;
  double epsilon = 1e-5;
  bool per_group = false;  // scale and bias have one number per group (opset 18), not per channel

  std::int64_t group_elems() const { return channels * pixels; }
};

StatusOr<Groups> read_groups(const Operands& operands) {
  MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(0, 2, kMaxRank));
  const Dims& dims = operands.in(0).dims;
  const std::int64_t all = dims[1];
  const bool instance = operands.op() == "InstanceNormalization";
  Groups shape;
  shape.images = dims[0];
  shape.groups = instance ? all : operands.attributes().get_int("num_groups", 0);
  if (!instance && (shape.groups < 1 || all % shape.groups != 0)) {
    return operands.error("attribute 'num_groups' is " + std::to_string(shape.groups) +
                          ", expected a divisor of the " + std::to_string(all) + " channels");
  }
  shape.channels = shape.groups == 0 ? 0 : all / shape.groups;
  for (std::size_t i = 2; i < dims.size(); ++i) shape.pixels *= dims[i];
  shape.epsilon = operands.attributes().get_float("epsilon", 1e-5);
  shape.per_group = operands.in(1).dims == Dims{shape.groups} && shape.groups != all;
  const std::int64_t factors = shape.per_group ? shape.groups : all;
  MEZZO_RETURN_IF_ERROR(operands.expect_in(1, {factors}));
  MEZZO_RETURN_IF_ERROR(operands.expect_in(2, {factors}));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, dims));
  return shape;
}

}  // namespace

PreparedKernel prepare_group_norm(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands,
                         Operands::check(request, "x:f scale:f bias:f -> y:f"));
  MEZZO_ASSIGN_OR_RETURN(const Groups shape, read_groups(operands));
  return make_kernel([shape, x = Elements(operands.in(0)), scale = Elements(operands.in(1)),
                      bias = Elements(operands.in(2)),
                      y = Elements(operands.out(0))](const KernelArguments& arguments) {
    const auto& in = arguments.inputs;
    const std::int64_t elems = shape.group_elems();
    for (std::int64_t unit = 0; unit < shape.images * shape.groups; ++unit) {
      const std::int64_t start = unit * elems;
      double mean = 0.0;
      for (std::int64_t i = 0; i < elems; ++i) mean += x.read<double>(in[0], start + i);
      mean /= static_cast<double>(elems);
      double variance = 0.0;
      for (std::int64_t i = 0; i < elems; ++i) {
        const double distance = x.read<double>(in[0], start + i) - mean;
        variance += distance * distance;
      }
      const double r = 1.0 / std::sqrt(variance / static_cast<double>(elems) + shape.epsilon);
      const std::int64_t group = unit % shape.groups;
      for (std::int64_t i = 0; i < elems; ++i) {
        const std::int64_t factor =
            shape.per_group ? group : group * shape.channels + i / shape.pixels;
        const double normal = (x.read<double>(in[0], start + i) - mean) * r;
        y.write<double>(
            arguments.outputs[0], start + i,
            normal * scale.read<double>(in[1], factor) + bias.read<double>(in[2], factor));
      }
    }
  });
}

PreparedKernel prepare_rms_norm(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "x:f scale:f -> y:f"));
  MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(0, 1, kMaxRank));
  const Dims& dims = operands.in(0).dims;
  MEZZO_ASSIGN_OR_RETURN(const std::int64_t axis, operands.axis("axis", -1, dims.size()));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, dims));
  const Dims normalised(dims.begin() + static_cast<std::ptrdiff_t>(axis), dims.end());
  if (!broadcasts_to(operands.in(1).dims, normalised)) {
    return operands.in_error(1, "dims " + format_dims(operands.in(1).dims) +
                                    " do not broadcast to " + format_dims(normalised));
  }
  TensorDesc dense = operands.in(0);
  dense.layout = Layout::kRowMajor;
  std::int64_t length = 1;
  for (auto i = static_cast<std::size_t>(axis); i < dims.size(); ++i) length *= dims[i];
  return make_kernel([length, loop = broadcast_loop<2>(dims, {&dense, &operands.in(1)}),
                      epsilon = request.attributes.get_float("epsilon", 1e-5),
                      x = Elements(operands.in(0)), scale = Elements(operands.in(1)),
                      y = Elements(operands.out(0))](const KernelArguments& arguments) {
    double r = 0.0;
    for_each(loop, [&](const std::array<std::int64_t, 2>& at) {
      if (at[0] % length == 0) {
        double sum = 0.0;
        for (std::int64_t i = 0; i < length; ++i) {
          const double value = x.read<double>(arguments.inputs[0], at[0] + i);
          sum += value * value;
        }
        r = 1.0 / std::sqrt(sum / static_cast<double>(length) + epsilon);
      }
      y.write<double>(arguments.outputs[0], at[0],
                      x.read<double>(arguments.inputs[0], at[0]) * r *
                          scale.read_at<double>(arguments.inputs[1], at[1]));
    });
  });
}

// With r = 1 / sqrt(mean(x^2) + epsilon) and g = dy scale:
//   dx = r (g - x r^2 mean(g x)), means over the row; dscale = sum over rows of dy x r.
// dy, x, scale (whole) -> dx?, dscale?. Workspace: dscale as doubles.
PreparedKernel prepare_rms_norm_grad(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands,
                         Operands::check(request, "dy:f x:f scale:f -> dx?:f dscale?:f"));
  MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(0, 1, kMaxRank));
  const Dims& dims = operands.in(0).dims;
  MEZZO_ASSIGN_OR_RETURN(const std::int64_t axis, operands.axis("axis", -1, dims.size()));
  const Dims normalised(dims.begin() + static_cast<std::ptrdiff_t>(axis), dims.end());
  MEZZO_RETURN_IF_ERROR(operands.expect_in(1, dims));
  MEZZO_RETURN_IF_ERROR(operands.expect_in(2, normalised));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, dims));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(1, normalised));
  std::int64_t length = 1, rows = 1;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    (static_cast<std::int64_t>(i) < axis ? rows : length) *= dims[i];
  }
  return make_kernel(
      [length, rows, epsilon = request.attributes.get_float("epsilon", 1e-5),
       dy = Elements(operands.in(0)), x = Elements(operands.in(1)),
       scale = Elements(operands.in(2)), dx = Elements(operands.out(0)),
       dscale = Elements(operands.out(1))](const KernelArguments& arguments) {
        const auto& in = arguments.inputs;
        auto* scale_sum = static_cast<double*>(arguments.workspace);
        for (std::int64_t i = 0; i < length; ++i) scale_sum[i] = 0.0;
        for (std::int64_t row = 0; row < rows; ++row) {
          const std::int64_t start = row * length;
          double square = 0.0, product = 0.0;
          for (std::int64_t i = 0; i < length; ++i) {
            const double value = x.read<double>(in[1], start + i);
            square += value * value;
            product += dy.read<double>(in[0], start + i) * scale.read<double>(in[2], i) * value;
          }
          const auto count = static_cast<double>(length);
          const double r = 1.0 / std::sqrt(square / count + epsilon);
          const double share = r * r * product / count;
          void* result = out_buffer(arguments, 0);
          for (std::int64_t i = 0; i < length; ++i) {
            const double d = dy.read<double>(in[0], start + i);
            const double value = x.read<double>(in[1], start + i);
            scale_sum[i] += d * value * r;
            if (result == nullptr) continue;
            dx.write<double>(result, start + i,
                             r * (d * scale.read<double>(in[2], i) - value * share));
          }
        }
        if (void* result = out_buffer(arguments, 1)) dscale.pack(scale_sum, result);
      },
      doubles_bytes(length));
}

// The window of channel c: c - floor((size - 1) / 2) to c + ceil((size - 1) / 2).
PreparedKernel prepare_lrn(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "x:f -> y:f"));
  MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(0, 2, kMaxRank));
  const Dims& dims = operands.in(0).dims;
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, dims));
  const std::int64_t size = request.attributes.get_int("size", 0);
  if (size < 1 || size > kMaxElems) {
    return operands.error("attribute 'size' is " + std::to_string(size) +
                          ", expected a positive number of channels");
  }
  std::int64_t pixels = 1;
  for (std::size_t i = 2; i < dims.size(); ++i) pixels *= dims[i];
  return make_kernel([images = dims[0], channels = dims[1], pixels, size,
                      alpha = request.attributes.get_float("alpha", 1e-4),
                      beta = request.attributes.get_float("beta", 0.75),
                      bias = request.attributes.get_float("bias", 1.0),
                      x = Elements(operands.in(0)),
                      y = Elements(operands.out(0))](const KernelArguments& arguments) {
    for (std::int64_t i = 0; i < images * channels * pixels; ++i) {
      const std::int64_t c = i / pixels % channels;
      const std::int64_t first = std::max<std::int64_t>(0, c - (size - 1) / 2);
      const std::int64_t last = std::min(channels - 1, c + size / 2);
      double sum = 0.0;
      for (std::int64_t other = first; other <= last; ++other) {
        const double value = x.read<double>(arguments.inputs[0], i + (other - c) * pixels);
        sum += value * value;
      }
      const double base = bias + alpha / static_cast<double>(size) * sum;
      y.write<double>(arguments.outputs[0], i,
                      x.read<double>(arguments.inputs[0], i) / std::pow(base, beta));
    }
  });
}

}  // namespace mezzo::kernels::reference
