// Batch normalisation over dim 1 and its gradient. Letters: N batch, C channels, S the product of
// the other dims; a channel has N S elements.
//
//   y = scale (x - mean) inv_std + bias,  inv_std = 1 / sqrt(var + epsilon)
//
// Statistics take two passes in double: the mean, then the mean of the squared distances from it.
#include <cmath>

#include "compiler/support/text.h"
#include "kernels/reference/element.h"
#include "kernels/reference/families.h"
#include "kernels/reference/operands.h"

namespace mezzo::kernels::reference {
namespace {

struct Planes {
  std::int64_t n = 0;
  std::int64_t channels = 0;
  std::int64_t pixels = 0;

  std::int64_t per_channel() const { return n * pixels; }

  // Calls visit(row-major index) for every element of channel c.
  template <typename Visit>
  void for_channel(std::int64_t c, Visit&& visit) const {
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t start = (i * channels + c) * pixels;
      for (std::int64_t p = 0; p < pixels; ++p) visit(start + p);
    }
  }
};

Planes planes_of(const Dims& dims) {
  Planes planes{dims[0], dims[1], 1};
  for (std::size_t i = 2; i < dims.size(); ++i) planes.pixels *= dims[i];
  return planes;
}

struct Statistics {
  double mean = 0.0;
  double variance = 0.0;  // of the population: divided by N S
};

Statistics channel_statistics(const Planes& planes, const Elements& x, const void* data,
                              std::int64_t c) {
  const auto count = static_cast<double>(planes.per_channel());
  Statistics statistics;
  planes.for_channel(c, [&](std::int64_t i) { statistics.mean += x.read<double>(data, i); });
  statistics.mean /= count;
  planes.for_channel(c, [&](std::int64_t i) {
    const double distance = x.read<double>(data, i) - statistics.mean;
    statistics.variance += distance * distance;
  });
  statistics.variance /= count;
  return statistics;
}

struct BatchNorm {
  Planes planes;
  double epsilon;
  double momentum;
  bool training;
  double correction;  // of the batch's variance in the running one
  Elements x, scale, bias, mean, variance;
  Elements y;
  std::vector<Elements> saved;  // running_mean, running_var, saved_mean, saved_inv_std
  std::array<bool, 4> wanted;

  void run_channel(const KernelArguments& arguments, std::int64_t c) const {
    const auto& in = arguments.inputs;
    const Statistics old{mean.read<double>(in[3], c), variance.read<double>(in[4], c)};
    const Statistics used = training ? channel_statistics(planes, x, in[0], c) : old;
    const double inv_std = 1.0 / std::sqrt(used.variance + epsilon);
    const double factor = scale.read<double>(in[1], c) * inv_std;
    const double offset = bias.read<double>(in[2], c);
    planes.for_channel(c, [&](std::int64_t i) {
      y.write<double>(arguments.outputs[0], i,
                      (x.read<double>(in[0], i) - used.mean) * factor + offset);
    });
    const double values[4] = {
        old.mean * momentum + used.mean * (1.0 - momentum),
        old.variance * momentum + used.variance * correction * (1.0 - momentum), used.mean,
        inv_std};
    for (std::size_t k = 0; k < 4; ++k) {
      if (wanted[k]) saved[k].write<double>(arguments.outputs[k + 1], c, values[k]);
    }
  }
};

// Operands from..to and results from..to are vectors over the channels.
Status expect_vectors(const Operands& operands, std::size_t in_from, std::size_t in_to,
                      std::size_t out_from, std::size_t out_to, std::int64_t channels) {
  for (std::size_t i = in_from; i <= in_to; ++i) {
    MEZZO_RETURN_IF_ERROR(operands.expect_in(i, {channels}));
  }
  for (std::size_t i = out_from; i <= out_to; ++i) {
    MEZZO_RETURN_IF_ERROR(operands.expect_out(i, {channels}));
  }
  return ok_status();
}

}  // namespace

// Results 1 to 4 exist with training_mode = 1 only, each may be left out:
//   running_mean = mean momentum + batch mean (1 - momentum), running_var likewise (with the
//   batch's variance times n / (n - 1) if unbiased_running_var = 1 and n > 1), saved_mean and
//   saved_inv_std of the batch, for the gradient.
PreparedKernel prepare_batch_norm(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(
      const Operands operands,
      Operands::check(request,
                      "x:f scale:f bias:f mean:f var:f -> y:f running_mean?:f running_var?:f "
                      "saved_mean?:f saved_inv_std?:f"));
  MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(0, 2, kMaxRank));
  const Dims& dims = operands.in(0).dims;
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, dims));
  MEZZO_RETURN_IF_ERROR(expect_vectors(operands, 1, 4, 1, 4, dims[1]));
  MEZZO_ASSIGN_OR_RETURN(const bool training, operands.flag("training_mode", false));
  MEZZO_ASSIGN_OR_RETURN(const bool unbiased, operands.flag("unbiased_running_var", false));
  std::array<bool, 4> wanted{};
  std::vector<Elements> saved;
  for (std::size_t k = 0; k < 4; ++k) {
    wanted[k] = operands.out(k + 1).present();
    saved.emplace_back(operands.out(k + 1));
    if (wanted[k] && !training) {
      return operands.out_error(k + 1, "exists with training_mode = 1 only");
    }
  }
  const Planes planes = planes_of(dims);
  if (training && planes.channels > 0 && planes.per_channel() == 0) {
    return operands.in_error(0, "no elements to take statistics over in " + format_dims(dims));
  }
  const auto count = static_cast<double>(planes.per_channel());
  const double correction = unbiased && count > 1 ? count / (count - 1) : 1.0;
  return make_kernel(
      [norm =
           BatchNorm{planes, request.attributes.get_float("epsilon", 1e-5),
                     request.attributes.get_float("momentum", 0.9), training, correction,
                     Elements(operands.in(0)), Elements(operands.in(1)), Elements(operands.in(2)),
                     Elements(operands.in(3)), Elements(operands.in(4)), Elements(operands.out(0)),
                     std::move(saved), wanted}](const KernelArguments& arguments) {
        for (std::int64_t c = 0; c < norm.planes.channels; ++c) norm.run_channel(arguments, c);
      });
}

// Gradient of the training form, in which the batch's own statistics depend on x:
//   xhat = (x - saved_mean) saved_inv_std, dbias = sum dy, dscale = sum dy xhat,
//   dx = scale saved_inv_std (dy - dbias / (N S) - xhat dscale / (N S))
PreparedKernel prepare_batch_norm_grad(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(
      const Operands operands,
      Operands::check(request,
                      "dy:f x:f scale:f saved_mean:f saved_inv_std:f -> dx?:f dscale?:f dbias?:f"));
  MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(0, 2, kMaxRank));
  const Dims& dims = operands.in(0).dims;
  MEZZO_RETURN_IF_ERROR(operands.expect_in(1, dims));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, dims));
  MEZZO_RETURN_IF_ERROR(expect_vectors(operands, 2, 4, 1, 2, dims[1]));
  return make_kernel([planes = planes_of(dims), dy = Elements(operands.in(0)),
                      x = Elements(operands.in(1)), scale = Elements(operands.in(2)),
                      mean = Elements(operands.in(3)), inv_std = Elements(operands.in(4)),
                      dx = Elements(operands.out(0)), dscale = Elements(operands.out(1)),
                      dbias = Elements(operands.out(2))](const KernelArguments& arguments) {
    const auto& in = arguments.inputs;
    const auto count = static_cast<double>(planes.per_channel());
    for (std::int64_t c = 0; c < planes.channels; ++c) {
      const double m = mean.read<double>(in[3], c);
      const double r = inv_std.read<double>(in[4], c);
      double sum_dy = 0.0;
      double sum_dy_xhat = 0.0;
      planes.for_channel(c, [&](std::int64_t i) {
        const double g = dy.read<double>(in[0], i);
        sum_dy += g;
        sum_dy_xhat += g * (x.read<double>(in[1], i) - m) * r;
      });
      const double factor = scale.read<double>(in[2], c) * r;
      if (void* result = out_buffer(arguments, 0)) {
        planes.for_channel(c, [&](std::int64_t i) {
          const double xhat = (x.read<double>(in[1], i) - m) * r;
          const double centred = dy.read<double>(in[0], i) - (sum_dy + xhat * sum_dy_xhat) / count;
          dx.write<double>(result, i, factor * centred);
        });
      }
      if (void* result = out_buffer(arguments, 1)) dscale.write<double>(result, c, sum_dy_xhat);
      if (void* result = out_buffer(arguments, 2)) dbias.write<double>(result, c, sum_dy);
    }
  });
}

}  // namespace mezzo::kernels::reference
