// Gradients of GridSample and AffineGrid; sums are kept in double and rounded once.
#include "kernels/reference/element.h"
#include "kernels/reference/families.h"
#include "kernels/reference/indices.h"
#include "kernels/sampling.h"

namespace mezzo::kernels::reference {
namespace {

using Int = std::int64_t;

struct GridGradPlan {
  GridSampling sampler;
  Elements dy, x, grid, dx, dgrid;
  Int batches = 0, channels = 0, in_pixels = 1, out_pixels = 1;

  // Adds what one output point contributes to `dx` (one image's doubles, or null), and writes its
  // part of dgrid.
  void visit(const KernelArguments& arguments, Int n, Int p, double* sums) const {
    const auto k = static_cast<std::size_t>(sampler.rank);
    const Int at = (n * out_pixels + p) * static_cast<Int>(k);
    double point[kMostSampledDims];
    for (std::size_t d = 0; d < k; ++d) {
      point[d] = grid.read<double>(arguments.inputs[2], at + static_cast<Int>(d));
    }
    const auto gradient = [&](Int c) {
      return dy.read<double>(arguments.inputs[0], (n * channels + c) * out_pixels + p);
    };
    SampleTaps taps;
    if (sums != nullptr) {
      sampler.taps_at(point, taps);
      for (Int c = 0; c < channels; ++c) {
        for (std::size_t t = 0; t < static_cast<std::size_t>(taps.count); ++t) {
          sums[c * in_pixels + taps.offsets[t]] += taps.weights[t] * gradient(c);
        }
      }
    }
    void* to = out_buffer(arguments, 1);
    for (std::size_t d = 0; to != nullptr && d < k; ++d) {
      sampler.slopes_at(point, static_cast<int>(k - 1 - d), taps);
      double sum = 0.0;
      for (Int c = 0; c < channels; ++c) {
        double along = 0.0;
        for (std::size_t t = 0; t < static_cast<std::size_t>(taps.count); ++t) {
          along +=
              taps.weights[t] *
              x.read<double>(arguments.inputs[1], (n * channels + c) * in_pixels + taps.offsets[t]);
        }
        sum += along * gradient(c);
      }
      dgrid.write<double>(to, at + static_cast<Int>(d), sum);
    }
  }

  void run(const KernelArguments& arguments) const {
    void* to = out_buffer(arguments, 0);
    double* sums = to == nullptr ? nullptr : static_cast<double*>(arguments.workspace);
    const Int image = channels * in_pixels;
    for (Int n = 0; n < batches; ++n) {
      if (sums != nullptr) std::fill_n(sums, image, 0.0);
      for (Int p = 0; p < out_pixels; ++p) visit(arguments, n, p, sums);
      for (Int i = 0; sums != nullptr && i < image; ++i) {
        dx.write<double>(to, n * image + i, sums[i]);
      }
    }
  }
};

}  // namespace

// Workspace: the sums of one image.
PreparedKernel prepare_grid_sample_grad(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands,
                         Operands::check(request, "dy:f x:f grid:f -> dx?:f dgrid?:f"));
  MEZZO_RETURN_IF_ERROR(expect_row_major(operands));
  KernelRequest forward;
  forward.op = "GridSample";
  forward.attributes = request.attributes;
  forward.inputs = {operands.in(1), operands.in(2)};
  forward.outputs = {operands.in(0)};
  MEZZO_ASSIGN_OR_RETURN(GridSampling sampler, read_grid_sampling(forward));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, operands.in(1).dims));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(1, operands.in(2).dims));
  GridGradPlan plan{std::move(sampler),       Elements(operands.in(0)),  Elements(operands.in(1)),
                    Elements(operands.in(2)), Elements(operands.out(0)), Elements(operands.out(1))};
  const Dims& x = operands.in(1).dims;
  plan.batches = x[0];
  plan.channels = x[1];
  for (std::size_t d = 2; d < x.size(); ++d) {
    plan.in_pixels *= x[d];
    plan.out_pixels *= operands.in(0).dims[d];
  }
  return make_kernel([plan](const KernelArguments& arguments) { plan.run(arguments); },
                     doubles_bytes(plan.channels * plan.in_pixels));
}

}  // namespace mezzo::kernels::reference
