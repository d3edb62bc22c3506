// Col2Im and its gradient. Letters: C channels, B elements of a block, L blocks: columns[N, C B,
// L], image[N, C, image]. Element b of block l lies on a pixel as tap b of window l does; pixels of
// several blocks are the sums of theirs, in double, rounded once.
#include "kernels/cuda/element.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/layer_kernel.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/windows.h"

namespace mezzo::kernels::cuda {

struct ColumnPlan {
  Windows windows;  // over the image; out: blocks along each axis
  Divisor image[kSpatial], blocks[kSpatial], taps[kSpatial];
  Int elems = 0;  // of the result
  Int pixels = 1, all_blocks = 1, all_taps = 1;
  DType from = DType::kNone, to = DType::kNone;
};

// `number` as places along three axes; what is left counts channels.
__device__ inline Int split_number(Int number, const Divisor (&sizes)[kSpatial],
                                   Int (&at)[kSpatial]) {
  for (int i = kSpatial - 1; i >= 0; --i) number = sizes[i].divide(number, at[i]);
  return number;
}

__global__ void columns_to_image(ColumnPlan plan, const void* columns, void* image) {
  const WindowAxis* axis = plan.windows.axis;
  const Int step = Int{gridDim.x} * blockDim.x;
  for (Int number = blockIdx.x * Int{blockDim.x} + threadIdx.x; number < plan.elems;
       number += step) {
    Int pixel[kSpatial];
    const Int first = split_number(number, plan.image, pixel) * plan.all_taps * plan.all_blocks;
    WindowRange over[kSpatial];
    for (int i = 0; i < kSpatial; ++i) over[i] = axis[i].covering(pixel[i]);
    double sum = 0.0;
    for (Int d = over[0].first; d < over[0].last; ++d) {
      const Int kd = axis[0].tap(pixel[0], d);
      for (Int h = over[1].first; kd >= 0 && h < over[1].last; ++h) {
        const Int kh = axis[1].tap(pixel[1], h);
        for (Int w = over[2].first; kh >= 0 && w < over[2].last; ++w) {
          const Int kw = axis[2].tap(pixel[2], w);
          if (kw < 0) continue;
          const Int tap = (kd * axis[1].kernel + kh) * axis[2].kernel + kw;
          const Int block = (d * axis[1].out + h) * axis[2].out + w;
          sum += load_element<double>(columns, first + tap * plan.all_blocks + block, plan.from);
        }
      }
    }
    store_element<double>(image, number, plan.to, sum);
  }
}

__global__ void image_to_columns(ColumnPlan plan, const void* image, void* columns) {
  const WindowAxis* axis = plan.windows.axis;
  const Int step = Int{gridDim.x} * blockDim.x;
  for (Int number = blockIdx.x * Int{blockDim.x} + threadIdx.x; number < plan.elems;
       number += step) {
    Int block[kSpatial];
    Int tap[kSpatial];
    const Int channel = split_number(split_number(number, plan.blocks, block), plan.taps, tap);
    Int pixel = channel;
    bool inside = true;
    for (int i = 0; i < kSpatial; ++i) {
      const Int at = axis[i].position(block[i], tap[i]);
      inside = inside && at >= 0 && at < axis[i].in;
      pixel = pixel * axis[i].in + at;
    }
    const double value = inside ? load_element<double>(image, pixel, plan.from) : 0.0;
    store_element<double>(columns, number, plan.to, value);
  }
}

namespace {

constexpr std::string_view kName = "cuda:columns";

// A tensor of the spatial dims alone, for read_windows.
TensorDesc spatial(Dims dims) {
  dims.insert(dims.begin(), 2, 1);
  return {DType::kFloat32, std::move(dims), Layout::kRowMajor};
}

StatusOr<ColumnPlan> read_plan(const KernelRequest& request, const TensorDesc& image) {
  const std::size_t rank = image.dims.size() - 2;
  if (rank > kSpatial) return unimplemented("more than 3 spatial dims");
  const Dims sizes(image.dims.begin() + 2, image.dims.end());
  const Dims block = request.attributes.get_ints("block_shape", Dims(rank, 1));
  const auto list = [&](std::string_view name, std::size_t size, Int fallback) {
    const Dims values = request.attributes.get_ints(name);
    return values.empty() ? Dims(size, fallback) : values;
  };
  const Dims strides = list("strides", rank, 1);
  const Dims dilations = list("dilations", rank, 1);
  const Dims pads = list("pads", 2 * rank, 0);
  Dims counts;
  for (std::size_t d = 0; d < rank; ++d) {
    const Int reach = (block[d] - 1) * dilations[d] + 1;
    counts.push_back((sizes[d] + pads[d] + pads[rank + d] - reach) / strides[d] + 1);
  }
  ColumnPlan plan;
  plan.windows = read_windows(request, spatial(sizes), spatial(counts), block);
  for (int i = 0; i < kSpatial; ++i) {
    const WindowAxis& axis = plan.windows.axis[i];
    plan.image[i] = Divisor(axis.in);
    plan.blocks[i] = Divisor(axis.out);
    plan.taps[i] = Divisor(axis.kernel);
    plan.pixels *= axis.in;
    plan.all_blocks *= axis.out;
    plan.all_taps *= axis.kernel;
  }
  plan.from = request.inputs[0].dtype;
  plan.to = request.outputs[0].dtype;
  plan.elems = request.outputs[0].elems();
  if (!has_elements(plan.from) || !has_elements(plan.to)) return unimplemented("narrow dtypes");
  return plan;
}

Prepared col2im(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const ColumnPlan plan, read_plan(request, request.outputs[0]));
  return make_kernel(kName, 0, [plan](const KernelArguments& arguments) {
    if (plan.elems == 0) return ok_status();
    return launch<columns_to_image>(shape_for(plan.elems), arguments.stream, plan,
                                    arguments.inputs[0], arguments.outputs[0]);
  });
}

Prepared col2im_grad(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const ColumnPlan plan, read_plan(request, request.inputs[0]));
  return make_kernel(kName, 0, [plan](const KernelArguments& arguments) {
    if (plan.elems == 0) return ok_status();
    return launch<image_to_columns>(shape_for(plan.elems), arguments.stream, plan,
                                    arguments.inputs[0], arguments.outputs[0]);
  });
}

constexpr KernelEntry kRows[] = {{"Col2Im", kName, col2im}, {"Col2ImGrad", kName, col2im_grad}};

}  // namespace

std::span<const KernelEntry> column_rows() { return kRows; }

}  // namespace mezzo::kernels::cuda
