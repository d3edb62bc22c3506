// MaxUnpool: x, indices[N,C,..] -> y[N,C,..], elements back to where windows took them from, zero
// elsewhere. Any dtype of whole bytes, row-major.
//
// Indices count in a tensor of the pooled dims, which are the first corner of y. Of several
// elements for one place the last stays: a first kernel finds for every place the number of the
// last element, a second one moves the elements.
#include <array>

#include "kernels/cuda/fault.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/layer_kernel.h"
#include "kernels/cuda/rows.h"

namespace mezzo::kernels::cuda {

// last[place in y]: number of the last element for it, counted from 1; 0 before. `pooled` leads
// from an index to its place.
__global__ void __launch_bounds__(kBlockThreads)
    find_last(const Int* indices, Int count, StridedIndex<1> pooled, unsigned long long* last,
              DeviceFault* fault, std::int32_t step) {
  const Int threads = Int{gridDim.x} * blockDim.x;
  for (Int i = Int{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += threads) {
    const Int index = indices[i];
    if (index < 0 || index >= pooled.elems) {
      report_fault(fault, step, 1, i, index);
      continue;
    }
    Int place[1];
    pooled.offsets(index, place);
    atomicMax(&last[place[0]], static_cast<unsigned long long>(i + 1));
  }
}

// U: an unsigned integer of as many bytes as an element has.
template <typename U>
__global__ void __launch_bounds__(kBlockThreads)
    move_last(const U* x, const unsigned long long* last, U* y, Int elems) {
  const Int threads = Int{gridDim.x} * blockDim.x;
  for (Int i = Int{blockIdx.x} * blockDim.x + threadIdx.x; i < elems; i += threads) {
    const unsigned long long number = last[i];
    y[i] = number == 0 ? U{0} : x[number - 1];
  }
}

namespace {

struct UnpoolPlan {
  StridedIndex<1> pooled;
  Int count = 0, elems = 0;
  int bits = 0;

  template <typename U>
  Status move(const KernelArguments& arguments) const {
    return launch<move_last<U>>(shape_for(elems), arguments.stream,
                                static_cast<const U*>(arguments.inputs[0]),
                                static_cast<unsigned long long*>(arguments.workspace),
                                static_cast<U*>(arguments.outputs[0]), elems);
  }

  Status run(const KernelArguments& arguments) const {
    if (elems == 0 && count == 0) return ok_status();
    auto* last = static_cast<unsigned long long*>(arguments.workspace);
    if (elems > 0) {
      MEZZO_RETURN_IF_ERROR(
          check("cudaMemsetAsync",
                cudaMemsetAsync(last, 0, static_cast<std::size_t>(elems) * sizeof(*last),
                                static_cast<cudaStream_t>(arguments.stream))));
    }
    if (count > 0) {
      MEZZO_RETURN_IF_ERROR((launch<find_last>(shape_for(count), arguments.stream,
                                               static_cast<const Int*>(arguments.inputs[1]), count,
                                               pooled, last, arguments.fault, arguments.step)));
    }
    if (elems == 0) return ok_status();
    switch (bits) {
      case 8: return move<std::uint8_t>(arguments);
      case 16: return move<std::uint16_t>(arguments);
      case 32: return move<std::uint32_t>(arguments);
      default: return move<std::uint64_t>(arguments);
    }
  }
};

PreparedKernel prepare_max_unpool(const KernelRequest& request) {
  const TensorDesc& x = operand(request, 0);
  const TensorDesc& y = result(request, 0);
  UnpoolPlan plan;
  plan.bits = dtype_bits(x.dtype);
  if (plan.bits != 8 && plan.bits != 16 && plan.bits != 32 && plan.bits != 64) {
    return unimplemented("elements of " + std::to_string(plan.bits) + " bits");
  }
  const std::size_t spatial = x.dims.size() - 2;
  const Dims kernel = request.attributes.get_ints("kernel_shape", Dims(spatial, 1));
  const Dims strides = request.attributes.get_ints("strides", Dims(spatial, 1));
  const Dims pads = request.attributes.get_ints("pads", Dims(2 * spatial, 0));
  Dims pooled = {x.dims[0], x.dims[1]};
  for (std::size_t d = 0; d < spatial; ++d) {
    pooled.push_back((x.dims[d + 2] - 1) * strides[d] - pads[d] - pads[spatial + d] + kernel[d]);
  }
  plan.pooled = make_index<1>(pooled, {strides_within(y, y.dims)});
  plan.count = x.elems();
  plan.elems = y.elems();
  WorkspacePlan workspace;
  workspace.add(plan.elems);
  return make_layer(
      "cuda:max-unpool", [plan](const KernelArguments& arguments) { return plan.run(arguments); },
      workspace.bytes(),
      [elems = plan.pooled.elems](const DeviceFault& fault) {
        return invalid_argument(
            "MaxUnpool, operand 1 'indices': element " + std::to_string(fault.position) + " is " +
            std::to_string(fault.value) + ", expected 0 to " + std::to_string(elems - 1));
      });
}

constexpr KernelEntry kRows[] = {{"MaxUnpool", "cuda", prepare_max_unpool}};

}  // namespace

std::span<const KernelEntry> unpool_rows() { return kRows; }

}  // namespace mezzo::kernels::cuda
