// Gradients of RoiAlign and MaxRoiPool by the image: dy[R,C,P,Q] goes back to the pixels that a bin
// has sampled, or to the one that was its maximum. Letters as in roi_pool.cpp.
//
// Workspace: dx as doubles.
#include <algorithm>
#include <cmath>

#include "kernels/reference/element.h"
#include "kernels/reference/families.h"
#include "kernels/reference/indices.h"
#include "kernels/roi_samples.h"

namespace mezzo::kernels::reference {
namespace {

using Int = std::int64_t;

struct RoiGradPlan : RoiGeometry {
  std::string op;
  Int images = 0, channels = 0, regions = 0;
  bool max = false;
  Elements dy, x, rois, batch, dx;

  explicit RoiGradPlan(const Operands& operands)
      : op(operands.op()),
        dy(operands.in(0)),
        x(operands.in(1)),
        rois(operands.in(2)),
        batch(operands.in(3)),
        dx(operands.out(0)) {}

  Int pixels() const { return height * width; }
  Int bins() const { return rows * columns; }
  Status check_image(Int region, Int image) const {
    if (image >= 0 && image < images) return ok_status();
    return invalid_argument(op + ": region " + std::to_string(region) + " is of image " +
                            std::to_string(image) + ", expected 0 to " +
                            std::to_string(images - 1));
  }
};

Status read_dims(const Operands& operands, Int roi_numbers, RoiGradPlan& plan) {
  MEZZO_RETURN_IF_ERROR(expect_row_major(operands));
  MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(0, 4, 4));
  MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(1, 4, 4));
  MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(2, 2, 2));
  const Dims& dy = operands.in(0).dims;
  const Dims& x = operands.in(1).dims;
  plan.images = x[0];
  plan.channels = x[1];
  plan.height = x[2];
  plan.width = x[3];
  plan.regions = operands.in(2).dims[0];
  plan.rows = dy[2];
  plan.columns = dy[3];
  plan.scale = operands.attributes().get_float("spatial_scale", 1.0);
  MEZZO_RETURN_IF_ERROR(operands.expect_in(2, {plan.regions, roi_numbers}));
  MEZZO_RETURN_IF_ERROR(
      operands.expect_in(0, {plan.regions, plan.channels, plan.rows, plan.columns}));
  if (plan.rows < 1 || plan.columns < 1) return operands.error("dy has no bins");
  if (plan.regions > 0 && plan.pixels() == 0) return operands.in_error(1, "has no pixels");
  return operands.expect_out(0, x);
}

// The pixels of one sample and their weights; a sample outside has none.
struct Corners {
  int count = 0;
  Int at[4] = {};
  double weights[4] = {};
};
Corners corners_of(const RoiGradPlan& plan, const RoiRegion& region, Int p, Int q, Int i, Int j) {
  const RoiNeighbours v = roi_neighbours(region.sample_row(p, i), plan.height);
  const RoiNeighbours h = roi_neighbours(region.sample_column(q, j), plan.width);
  if (v.outside || h.outside) return {};
  const Int w = plan.width;
  return {4,
          {v.low * w + h.low, v.low * w + h.high, v.high * w + h.low, v.high * w + h.high},
          {(1 - v.fraction) * (1 - h.fraction), (1 - v.fraction) * h.fraction,
           v.fraction * (1 - h.fraction), v.fraction * h.fraction}};
}

// visit(corners) for every sample of a bin.
template <typename Visit>
void for_each_sample(const RoiGradPlan& plan, const RoiRegion& region, Int p, Int q,
                     Visit&& visit) {
  for (Int i = 0; i < region.samples_down; ++i) {
    for (Int j = 0; j < region.samples_across; ++j) visit(corners_of(plan, region, p, q, i, j));
  }
}

// A sample outside counts as 0 among the maxima, as in the forward operator.
void max_bin(const RoiGradPlan& plan, const RoiRegion& region, Int p, Int q, const void* x,
             Int plane, double dy, double* dx) {
  double most = 0.0, weight = 0.0;
  Int place = -1;
  bool first = true;
  for_each_sample(plan, region, p, q, [&](const Corners& corners) {
    if (corners.count == 0 && (first || most < 0.0)) {
      most = weight = 0.0;
      place = -1;
    }
    for (int k = 0; k < corners.count; ++k) {
      const double value =
          corners.weights[k] * plan.x.read<double>(x, plane * plan.pixels() + corners.at[k]);
      if (!(first && k == 0) && value <= most) continue;
      most = value;
      weight = corners.weights[k];
      place = corners.at[k];
    }
    first = false;
  });
  if (place >= 0) dx[plane * plan.pixels() + place] += weight * dy;
}

void align_bin(const RoiGradPlan& plan, const RoiRegion& region, Int p, Int q, Int plane, double dy,
               double* dx) {
  const Int count = std::max<Int>(1, region.samples_down * region.samples_across);
  for_each_sample(plan, region, p, q, [&](const Corners& corners) {
    for (int k = 0; k < corners.count; ++k) {
      dx[plane * plan.pixels() + corners.at[k]] +=
          corners.weights[k] * dy / static_cast<double>(count);
    }
  });
}

Status run_align(const RoiGradPlan& plan, const KernelArguments& arguments) {
  auto* dx = static_cast<double*>(arguments.workspace);
  std::fill_n(dx, plan.dx.count(), 0.0);
  for (Int r = 0; r < plan.regions; ++r) {
    const auto image = static_cast<Int>(plan.batch.read<Integer>(arguments.inputs[3], r));
    MEZZO_RETURN_IF_ERROR(plan.check_image(r, image));
    double corners[4];
    for (Int i = 0; i < 4; ++i) corners[i] = plan.rois.read<double>(arguments.inputs[2], 4 * r + i);
    const RoiRegion region = roi_region(plan, corners);
    if (!region.sensible) {
      return invalid_argument(plan.op + ", operand 2 'rois': region " + std::to_string(r) +
                              " is not finite or too large");
    }
    for (Int c = 0; c < plan.channels; ++c) {
      const Int plane = image * plan.channels + c;
      for (Int bin = 0; bin < plan.bins(); ++bin) {
        const Int p = bin / plan.columns, q = bin % plan.columns;
        const double dy =
            plan.dy.read<double>(arguments.inputs[0], (r * plan.channels + c) * plan.bins() + bin);
        if (plan.max) {
          max_bin(plan, region, p, q, arguments.inputs[1], plane, dy, dx);
        } else {
          align_bin(plan, region, p, q, plane, dy, dx);
        }
      }
    }
  }
  plan.dx.pack(dx, arguments.outputs[0]);
  return ok_status();
}

Status run_max_pool(const RoiGradPlan& plan, const KernelArguments& arguments) {
  auto* dx = static_cast<double*>(arguments.workspace);
  std::fill_n(dx, plan.dx.count(), 0.0);
  Int place = 0;
  for (Int r = 0; r < plan.regions; ++r) {
    double at[5];
    for (Int i = 0; i < 5; ++i) at[i] = plan.rois.read<double>(arguments.inputs[2], 5 * r + i);
    const Int image = at[0] >= 0 && at[0] < 9e15 ? static_cast<Int>(at[0]) : -1;
    MEZZO_RETURN_IF_ERROR(plan.check_image(r, image));
    for (Int i = 1; i < 5; ++i) {
      at[i] = std::round(at[i] * plan.scale);
      if (!std::isfinite(at[i])) {
        return invalid_argument(plan.op + ", operand 2 'rois': region " + std::to_string(r) +
                                " is not finite");
      }
    }
    for (Int c = 0; c < plan.channels; ++c) {
      const Int start = (image * plan.channels + c) * plan.pixels();
      for (Int bin = 0; bin < plan.bins(); ++bin, ++place) {
        const RoiSpan down = roi_bin_span(at[2], at[4], bin / plan.columns, plan.rows, plan.height);
        const RoiSpan across =
            roi_bin_span(at[1], at[3], bin % plan.columns, plan.columns, plan.width);
        Int most = -1;
        for (Int h = down.first; h < down.last; ++h) {
          for (Int w = across.first; w < across.last; ++w) {
            const Int pixel = start + h * plan.width + w;
            if (most < 0 || plan.x.read<double>(arguments.inputs[1], pixel) >
                                plan.x.read<double>(arguments.inputs[1], most)) {
              most = pixel;
            }
          }
        }
        if (most >= 0) dx[most] += plan.dy.read<double>(arguments.inputs[0], place);
      }
    }
  }
  plan.dx.pack(dx, arguments.outputs[0]);
  return ok_status();
}

}  // namespace

PreparedKernel prepare_roi_align_grad(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands,
                         Operands::check(request, "dy:f x:f rois:f batch_indices:i -> dx:f"));
  RoiGradPlan plan(operands);
  MEZZO_RETURN_IF_ERROR(read_dims(operands, 4, plan));
  MEZZO_RETURN_IF_ERROR(operands.expect_in(3, {plan.regions}));
  plan.sampling = request.attributes.get_int("sampling_ratio", 0);
  plan.max = request.attributes.get_string("mode", "avg") == "max";
  plan.half_pixel =
      request.attributes.get_string("coordinate_transformation_mode", "half_pixel") == "half_pixel";
  if (plan.sampling < 0) return operands.error("attribute 'sampling_ratio' is negative");
  return make_kernel(
      [plan](const KernelArguments& arguments) { return run_align(plan, arguments); },
      doubles_bytes(operands.out(0).elems()));
}

PreparedKernel prepare_max_roi_pool_grad(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands,
                         Operands::check(request, "dy:f x:f rois:f -> dx:f"));
  RoiGradPlan plan(operands);
  MEZZO_RETURN_IF_ERROR(read_dims(operands, 5, plan));
  return make_kernel(
      [plan](const KernelArguments& arguments) { return run_max_pool(plan, arguments); },
      doubles_bytes(operands.out(0).elems()));
}

}  // namespace mezzo::kernels::reference
