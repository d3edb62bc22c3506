// RoiAlign and MaxRoiPool. Letters: R regions, P Q the height and width of the result:
// x[N,C,H,W] -> y[R,C,P,Q]. Where to sample and the sums in double (kernels/roi_samples.h).
#include <cmath>
#include <string>
#include <utility>

#include "kernels/cuda/element.h"
#include "kernels/cuda/function_kernel.h"
#include "kernels/cuda/index.h"
#include "kernels/cuda/index_fault.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/rows.h"
#include "kernels/roi_samples.h"

namespace mezzo::kernels::cuda {

struct RoiPlan : RoiGeometry {
  Int elems = 0;  // of y
  Int images = 0;
  Divisor by_columns, by_rows, by_channels;
  std::int32_t takes_largest = 0;
  DType x = DType::kNone, rois = DType::kNone, indices = DType::kNone, y = DType::kNone;
};

// The value of a fault of a region that is not finite or too large.
constexpr Int kNoRegion = INT64_MIN;

struct RoiPlace {
  Int region, channel, p, q;
};
__device__ inline RoiPlace roi_place(const RoiPlan& plan, Int number) {
  RoiPlace place;
  place.region = plan.by_channels.divide(
      plan.by_rows.divide(plan.by_columns.divide(number, place.q), place.p), place.channel);
  return place;
}

// One bin; `plane`: where the channel's pixels begin.
__device__ inline double align_bin(const RoiPlan& plan, const RoiRegion& region,
                                   const RoiPlace& place, const void* x, Int plane) {
  double sum = 0.0;
  bool first = true;
  for (Int i = 0; i < region.samples_down; ++i) {
    const RoiNeighbours v = roi_neighbours(region.sample_row(place.p, i), plan.height);
    for (Int j = 0; j < region.samples_across; ++j) {
      const RoiNeighbours h = roi_neighbours(region.sample_column(place.q, j), plan.width);
      const bool outside = v.outside || h.outside;
      if (outside && plan.takes_largest == 0) continue;
      const Int at[4] = {v.low * plan.width + h.low, v.low * plan.width + h.high,
                         v.high * plan.width + h.low, v.high * plan.width + h.high};
      const double weights[4] = {(1 - v.fraction) * (1 - h.fraction), (1 - v.fraction) * h.fraction,
                                 v.fraction * (1 - h.fraction), v.fraction * h.fraction};
      double parts[4];
      for (int k = 0; k < 4; ++k) {
        const double weight = outside ? 0.0 : weights[k];
        parts[k] = weight * load_element<double>(x, plane + at[k], plan.x);
      }
      if (plan.takes_largest == 0) {
        sum += parts[0] + parts[1] + parts[2] + parts[3];
        continue;
      }
      double most = parts[0];
      for (int k = 1; k < 4; ++k) most = most < parts[k] ? parts[k] : most;
      sum = first || sum < most ? most : sum;
      first = false;
    }
  }
  if (plan.takes_largest != 0) return sum;
  const Int count = region.samples_down * region.samples_across;
  return sum / static_cast<double>(count > 1 ? count : 1);
}

__global__ void roi_align(RoiPlan plan, const void* x, const void* rois, const void* images,
                          void* y, FaultPlace fault) {
  const Int step = Int{gridDim.x} * blockDim.x;
  for (Int number = blockIdx.x * Int{blockDim.x} + threadIdx.x; number < plan.elems;
       number += step) {
    const RoiPlace place = roi_place(plan, number);
    const Int image = load_element<Int>(images, place.region, plan.indices);
    double corners[4];
    for (int i = 0; i < 4; ++i) {
      corners[i] = load_element<double>(rois, 4 * place.region + i, plan.rois);
    }
    const RoiRegion region = roi_region(plan, corners);
    if (image < 0 || image >= plan.images) {
      report_fault(fault.fault, fault.step, 2, place.region, image);
    } else if (!region.sensible) {
      report_fault(fault.fault, fault.step, 1, place.region, kNoRegion);
    } else {
      const Int plane =
          (image * plan.by_channels.value() + place.channel) * plan.height * plan.width;
      store_element<double>(y, number, plan.y, align_bin(plan, region, place, x, plane));
    }
  }
}

__global__ void max_roi_pool(RoiPlan plan, const void* x, const void* rois, void* y,
                             FaultPlace fault) {
  const Int step = Int{gridDim.x} * blockDim.x;
  for (Int number = blockIdx.x * Int{blockDim.x} + threadIdx.x; number < plan.elems;
       number += step) {
    const RoiPlace place = roi_place(plan, number);
    const double given = load_element<double>(rois, 5 * place.region, plan.rois);
    const Int image = given >= 0 && given < 9e15 ? static_cast<Int>(given) : -1;
    double at[4];
    bool finite = true;
    for (int i = 0; i < 4; ++i) {
      at[i] =
          std::round(load_element<double>(rois, 5 * place.region + i + 1, plan.rois) * plan.scale);
      finite = finite && std::isfinite(at[i]);
    }
    if (image < 0 || image >= plan.images || !finite) {
      report_fault(fault.fault, fault.step, 1, place.region, finite ? image : kNoRegion);
      continue;
    }
    const RoiSpan down = roi_bin_span(at[1], at[3], place.p, plan.rows, plan.height);
    const RoiSpan across = roi_bin_span(at[0], at[2], place.q, plan.columns, plan.width);
    const Int plane = (image * plan.by_channels.value() + place.channel) * plan.height * plan.width;
    const bool empty = down.first >= down.last || across.first >= across.last;
    double most = empty ? 0.0 : -static_cast<double>(INFINITY);
    for (Int h = down.first; h < down.last; ++h) {
      for (Int w = across.first; w < across.last; ++w) {
        const double value = load_element<double>(x, plane + h * plan.width + w, plan.x);
        if (value > most || value != value) most = value;
      }
    }
    store_element<double>(y, number, plan.y, most);
  }
}

namespace {

constexpr std::string_view kName = "cuda:roi";

StatusOr<RoiPlan> read_plan(const KernelRequest& request, Int rows, Int columns) {
  const TensorDesc& x = request.inputs[0];
  if (!is_row_major(request)) return unimplemented("a channels-last operand or result");
  RoiPlan plan;
  plan.rows = rows;
  plan.columns = columns;
  plan.images = x.dims[0];
  plan.height = x.dims[2];
  plan.width = x.dims[3];
  plan.scale = request.attributes.get_float("spatial_scale", 1.0);
  plan.elems = request.outputs[0].elems();
  plan.by_columns = Divisor(columns);
  plan.by_rows = Divisor(rows);
  plan.by_channels = Divisor(x.dims[1]);
  plan.x = x.dtype;
  plan.rois = request.inputs[1].dtype;
  plan.y = request.outputs[0].dtype;
  return plan;
}

Explain explain_region(std::string op, std::string operand, Int images) {
  return [op = std::move(op), operand = std::move(operand), images](const DeviceFault& fault) {
    if (fault.value == kNoRegion) {
      return invalid_argument(op + ", operand 1 'rois': region " + std::to_string(fault.position) +
                              " is not finite" + (op == "RoiAlign" ? " or too large" : ""));
    }
    return invalid_argument(op + ", " + operand + ": element " + std::to_string(fault.position) +
                            " is " + std::to_string(fault.value) + ", expected 0 to " +
                            std::to_string(images - 1));
  };
}

Prepared roi_align_row(const KernelRequest& request) {
  const Attributes& attributes = request.attributes;
  MEZZO_ASSIGN_OR_RETURN(RoiPlan plan, read_plan(request, attributes.get_int("output_height", 1),
                                                 attributes.get_int("output_width", 1)));
  plan.sampling = attributes.get_int("sampling_ratio", 0);
  plan.takes_largest = attributes.get_string("mode", "avg") == "max" ? 1 : 0;
  plan.half_pixel =
      attributes.get_string("coordinate_transformation_mode", "half_pixel") == "half_pixel";
  plan.indices = request.inputs[2].dtype;
  return make_kernel(
      kName, 0,
      [plan](const KernelArguments& arguments) {
        if (plan.elems == 0) return ok_status();
        return launch<roi_align>(shape_for(plan.elems), arguments.stream, plan, arguments.inputs[0],
                                 arguments.inputs[1], arguments.inputs[2], arguments.outputs[0],
                                 fault_place(arguments));
      },
      explain_region(request.op, "operand 2 'batch_indices'", plan.images));
}

Prepared max_roi_pool_row(const KernelRequest& request) {
  const Dims pooled = request.attributes.get_ints("pooled_shape");
  MEZZO_ASSIGN_OR_RETURN(const RoiPlan plan, read_plan(request, pooled[0], pooled[1]));
  return make_kernel(
      kName, 0,
      [plan](const KernelArguments& arguments) {
        if (plan.elems == 0) return ok_status();
        return launch<max_roi_pool>(shape_for(plan.elems), arguments.stream, plan,
                                    arguments.inputs[0], arguments.inputs[1], arguments.outputs[0],
                                    fault_place(arguments));
      },
      explain_region(request.op, "operand 1 'rois' (the image)", plan.images));
}

constexpr KernelEntry kRows[] = {{"RoiAlign", kName, roi_align_row},
                                 {"MaxRoiPool", kName, max_roi_pool_row}};

}  // namespace

std::span<const KernelEntry> roi_rows() { return kRows; }

}  // namespace mezzo::kernels::cuda
