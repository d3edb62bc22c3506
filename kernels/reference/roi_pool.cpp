// RoiAlign and MaxRoiPool. Letters: R regions, P Q the height and width of the result:
// x[N,C,H,W] -> y[R,C,P,Q].
#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/support/text.h"
#include "kernels/reference/element_types.h"
#include "kernels/reference/families.h"
#include "kernels/reference/indices.h"
#include "kernels/roi_samples.h"

namespace mezzo::kernels::reference {
namespace {

using Int = std::int64_t;

constexpr int kChannels = 8;  // summed up side by side

struct RoiPlan : RoiGeometry {
  std::string op;
  Int images = 0, channels = 0, regions = 0;
  bool max = false;
  Elements rois, batch, y;

  explicit RoiPlan(const Operands& operands)
      : op(operands.op()), rois(operands.in(1)), batch(operands.in(2)), y(operands.out(0)) {}

  Status check_image(std::string_view operand, Int region, Int image) const {
    if (image >= 0 && image < images) return ok_status();
    return invalid_argument(op + ", " + std::string(operand) + ": element " +
                            std::to_string(region) + " is " + std::to_string(image) +
                            ", expected 0 to " + std::to_string(images - 1));
  }
};

// x and y of the operand's dims, the result's size; `extra`: operands behind the rois.
Status read_dims(const Operands& operands, std::size_t roi_numbers, RoiPlan& plan) {
  const Dims& x = operands.in(0).dims;
  MEZZO_RETURN_IF_ERROR(expect_row_major(operands));
  MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(0, 4, 4));
  MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(1, 2, 2));
  plan.images = x[0];
  plan.channels = x[1];
  plan.height = x[2];
  plan.width = x[3];
  plan.regions = operands.in(1).dims[0];
  plan.scale = operands.attributes().get_float("spatial_scale", 1.0);
  MEZZO_RETURN_IF_ERROR(operands.expect_in(1, {plan.regions, static_cast<Int>(roi_numbers)}));
  if (plan.rows < 1 || plan.columns < 1 || plan.rows > kMaxElems || plan.columns > kMaxElems) {
    return operands.error("the result's height and width must be positive");
  }
  if (plan.regions > 0 && (plan.height == 0 || plan.width == 0)) {
    return operands.in_error(0, "has no pixels: " + format_dims(x));
  }
  return operands.expect_out(0, {plan.regions, plan.channels, plan.rows, plan.columns});
}

StatusOr<RoiRegion> region_at(const RoiPlan& plan, const void* rois, Int r) {
  double corners[4];
  for (Int i = 0; i < 4; ++i) corners[i] = plan.rois.read<double>(rois, 4 * r + i);
  const RoiRegion region = roi_region(plan, corners);
  if (region.sensible) return region;
  return invalid_argument("RoiAlign, operand 1 'rois': region " + std::to_string(r) +
                          " is not finite or too large");
}

// One bin of up to kChannels channels, `from` being the first one's pixels.
template <typename T>
void align_bin(const RoiPlan& plan, const RoiRegion& region, Int p, Int q, const T* from,
               int channels, double* sums) {
  std::fill_n(sums, channels, 0.0);
  bool first = true;
  const Int pixels = plan.height * plan.width;
  for (Int i = 0; i < region.samples_down; ++i) {
    const RoiNeighbours v = roi_neighbours(region.sample_row(p, i), plan.height);
    for (Int j = 0; j < region.samples_across; ++j) {
      const RoiNeighbours h = roi_neighbours(region.sample_column(q, j), plan.width);
      const bool outside = v.outside || h.outside;
      if (outside && !plan.max) continue;
      const double w[4] = {outside ? 0.0 : (1 - v.fraction) * (1 - h.fraction),
                           outside ? 0.0 : (1 - v.fraction) * h.fraction,
                           outside ? 0.0 : v.fraction * (1 - h.fraction),
                           outside ? 0.0 : v.fraction * h.fraction};
      const Int at[4] = {v.low * plan.width + h.low, v.low * plan.width + h.high,
                         v.high * plan.width + h.low, v.high * plan.width + h.high};
      for (int c = 0; c < channels; ++c) {
        const T* x = from + c * pixels;
        const double parts[4] = {w[0] * decode(x[at[0]]), w[1] * decode(x[at[1]]),
                                 w[2] * decode(x[at[2]]), w[3] * decode(x[at[3]])};
        if (plan.max) {
          const double most = std::max({parts[0], parts[1], parts[2], parts[3]});
          sums[c] = first ? most : std::max(sums[c], most);
        } else {
          sums[c] += parts[0] + parts[1] + parts[2] + parts[3];
        }
      }
      first = false;
    }
  }
  if (plan.max) return;
  const Int count = std::max<Int>(1, region.samples_down * region.samples_across);
  for (int c = 0; c < channels; ++c) sums[c] /= static_cast<double>(count);
}

template <typename T>
Status align(const RoiPlan& plan, const KernelArguments& arguments) {
  const T* x = static_cast<const T*>(arguments.inputs[0]);
  const Int bins = plan.rows * plan.columns;
  double sums[kChannels];
  for (Int r = 0; r < plan.regions; ++r) {
    const auto image = static_cast<Int>(plan.batch.read<Integer>(arguments.inputs[2], r));
    MEZZO_RETURN_IF_ERROR(plan.check_image("operand 2 'batch_indices'", r, image));
    MEZZO_ASSIGN_OR_RETURN(const RoiRegion region, region_at(plan, arguments.inputs[1], r));
    for (Int c = 0; c < plan.channels; c += kChannels) {
      const int channels = static_cast<int>(std::min<Int>(kChannels, plan.channels - c));
      const T* from = x + (image * plan.channels + c) * plan.height * plan.width;
      const Int to = (r * plan.channels + c) * bins;
      for (Int bin = 0; bin < bins; ++bin) {
        align_bin(plan, region, bin / plan.columns, bin % plan.columns, from, channels, sums);
        for (int k = 0; k < channels; ++k) {
          plan.y.write<double>(arguments.outputs[0], to + k * bins + bin, sums[k]);
        }
      }
    }
  }
  return ok_status();
}

}  // namespace

// Bilinear samples in every bin, averaged or their weighted pixels' maximum, in double.
PreparedKernel prepare_roi_align(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands,
                         Operands::check(request, "x:f rois:f batch_indices:i -> y:f"));
  RoiPlan plan(operands);
  plan.rows = request.attributes.get_int("output_height", 1);
  plan.columns = request.attributes.get_int("output_width", 1);
  plan.sampling = request.attributes.get_int("sampling_ratio", 0);
  MEZZO_RETURN_IF_ERROR(read_dims(operands, 4, plan));
  MEZZO_RETURN_IF_ERROR(operands.expect_in(2, {plan.regions}));
  if (plan.sampling < 0) return operands.error("attribute 'sampling_ratio' is negative");
  const std::string mode = request.attributes.get_string("mode", "avg");
  const std::string coordinates =
      request.attributes.get_string("coordinate_transformation_mode", "half_pixel");
  plan.max = mode == "max";
  plan.half_pixel = coordinates == "half_pixel";
  if ((!plan.max && mode != "avg") || (!plan.half_pixel && coordinates != "output_half_pixel")) {
    return operands.error("attributes 'mode' and 'coordinate_transformation_mode' are '" + mode +
                          "' and '" + coordinates + "'");
  }
  return make_kernel([plan, dtype = operands.in(0).dtype](const KernelArguments& arguments) {
    return with_float_type(dtype, [&](auto element) {
      return align<typename decltype(element)::Type>(plan, arguments);
    });
  });
}

namespace {

template <typename T>
Status pool(const RoiPlan& plan, const KernelArguments& arguments) {
  const T* x = static_cast<const T*>(arguments.inputs[0]);
  Int place = 0;
  const auto number = [&](Int r, Int i) {
    return plan.rois.read<double>(arguments.inputs[1], 5 * r + i);
  };
  for (Int r = 0; r < plan.regions; ++r) {
    const double given = number(r, 0);
    const Int image = given >= 0 && given < 9e15 ? static_cast<Int>(given) : -1;
    MEZZO_RETURN_IF_ERROR(plan.check_image("operand 1 'rois' (the image)", r, image));
    double at[4];
    for (Int i = 0; i < 4; ++i) {
      at[i] = std::round(number(r, i + 1) * plan.scale);
      if (!std::isfinite(at[i])) {
        return invalid_argument("MaxRoiPool, operand 1 'rois': region " + std::to_string(r) +
                                " is not finite");
      }
    }
    for (Int c = 0; c < plan.channels; ++c) {
      const T* from = x + (image * plan.channels + c) * plan.height * plan.width;
      for (Int p = 0; p < plan.rows; ++p) {
        const RoiSpan down = roi_bin_span(at[1], at[3], p, plan.rows, plan.height);
        for (Int q = 0; q < plan.columns; ++q) {
          const RoiSpan across = roi_bin_span(at[0], at[2], q, plan.columns, plan.width);
          const bool empty = down.first >= down.last || across.first >= across.last;
          double most = empty ? 0.0 : -std::numeric_limits<double>::infinity();
          for (Int h = down.first; h < down.last; ++h) {
            for (Int w = across.first; w < across.last; ++w) {
              const double value = decode(from[h * plan.width + w]);
              if (value > most || std::isnan(value)) most = value;
            }
          }
          plan.y.write<double>(arguments.outputs[0], place++, most);
        }
      }
    }
  }
  return ok_status();
}

}  // namespace

// rois[R,5]: image, x1, y1, x2, y2, rounded to whole pixels; an empty bin gives 0.
PreparedKernel prepare_max_roi_pool(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "x:f rois:f -> y:f"));
  const Dims pooled = request.attributes.get_ints("pooled_shape");
  if (pooled.size() != 2) return operands.error("attribute 'pooled_shape' needs two numbers");
  RoiPlan plan(operands);
  plan.rows = pooled[0];
  plan.columns = pooled[1];
  MEZZO_RETURN_IF_ERROR(read_dims(operands, 5, plan));
  return make_kernel([plan, dtype = operands.in(0).dtype](const KernelArguments& arguments) {
    return with_float_type(dtype, [&](auto element) {
      return pool<typename decltype(element)::Type>(plan, arguments);
    });
  });
}

}  // namespace mezzo::kernels::reference
