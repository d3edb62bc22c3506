// Gather, GatherElements, GatherND. Elements are only moved: any dtype of whole bytes. An index out
// of range is reported, and zero is taken.
#include <string>
#include <utility>

#include "kernels/cuda/index.h"
#include "kernels/cuda/index_fault.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/unit.h"

namespace mezzo::kernels::cuda {

// Letters: O outer, D the axis, J indices, I units of a row: x[O,D,I], indices[J] -> y[O,J,I].
struct GatherPlan {
  Int elems = 0;  // of y, in units
  Int axis_size = 0;
  Divisor indices, row;
  std::int32_t wide = 0;  // int64 indices
};

template <typename U>
__global__ void gather_rows(GatherPlan plan, const U* x, const void* indices, U* y,
                            FaultPlace place) {
  const Int step = Int{gridDim.x} * blockDim.x;
  for (Int number = blockIdx.x * Int{blockDim.x} + threadIdx.x; number < plan.elems;
       number += step) {
    Int unit = 0;
    Int j = 0;
    const Int outer = plan.indices.divide(plan.row.divide(number, unit), j);
    const Int from = checked_index(load_index(indices, j, plan.wide), plan.axis_size, place, j);
    y[number] = from < 0 ? U{} : x[(outer * plan.axis_size + from) * plan.row.value() + unit];
  }
}

// y[.., j, ..] = x[.., indices[.., j, ..], ..]: `from` walks through the dims of the indices, x
// without the axis.
template <typename U>
__global__ void gather_elements(StridedIndex<1> from, Int axis_size, Int axis_stride,
                                std::int32_t wide, const U* x, const void* indices, U* y,
                                FaultPlace place) {
  const Int step = Int{gridDim.x} * blockDim.x;
  for (Int number = blockIdx.x * Int{blockDim.x} + threadIdx.x; number < from.elems;
       number += step) {
    const Int index = checked_index(load_index(indices, number, wide), axis_size, place, number);
    Int offset[1];
    from.offsets(number, offset);
    y[number] = index < 0 ? U{} : x[offset[0] + index * axis_stride];
  }
}

// Letters: B batches, M index tuples per batch, K numbers in a tuple, S units of a slice:
// x[B, d1..dK, S], indices[B, M, K] -> y[B, M, S].
struct TuplePlan {
  Int elems = 0;  // of y, in units
  Divisor tuples, slice;
  Int batch_elems = 0;  // of x, in units
  std::int32_t numbers = 0, wide = 0;
  Int sizes[kMaxDims] = {}, strides[kMaxDims] = {};  // of d1..dK, in units
};

template <typename U>
__global__ void gather_tuples(TuplePlan plan, const U* x, const void* indices, U* y,
                              FaultPlace place) {
  const Int step = Int{gridDim.x} * blockDim.x;
  for (Int number = blockIdx.x * Int{blockDim.x} + threadIdx.x; number < plan.elems;
       number += step) {
    Int from = 0;
    const Int tuple = plan.slice.divide(number, from);
    from += plan.tuples.quotient(tuple) * plan.batch_elems;
    bool inside = true;
    for (int k = 0; k < plan.numbers; ++k) {
      const Int at = tuple * plan.numbers + k;
      const Int index = checked_index(load_index(indices, at, plan.wide), plan.sizes[k], place, at);
      inside = inside && index >= 0;
      from += index * plan.strides[k];
    }
    y[number] = inside ? x[from] : U{};
  }
}

namespace {

constexpr std::string_view kName = "cuda:gather";

std::int32_t is_wide(const TensorDesc& indices) { return indices.dtype == DType::kInt64 ? 1 : 0; }

Prepared gather(const KernelRequest& request) {
  const TensorDesc& x = request.inputs[0];
  MEZZO_ASSIGN_OR_RETURN(Int bytes, movable_bytes(x.dtype));
  if (!is_row_major(request)) return unimplemented("a channels-last operand or result");
  const std::size_t axis = axis_of(request, "axis", 0, x.dims.size());
  Int row = 1;
  for (std::size_t d = axis + 1; d < x.dims.size(); ++d) row *= x.dims[d];
  const Int unit = row == 0 ? 1 : common_unit(kWidestUnit / bytes, row);
  GatherPlan plan;
  plan.elems = request.outputs[0].elems() / unit;
  plan.axis_size = x.dims[axis];
  plan.indices = Divisor(request.inputs[1].elems());
  plan.row = Divisor(row / unit);
  plan.wide = is_wide(request.inputs[1]);
  bytes *= unit;
  return make_kernel(
      kName, 0,
      [plan, bytes](const KernelArguments& arguments) {
        if (plan.elems == 0) return ok_status();
        return with_unit(bytes, [&](auto tag) {
          using U = typename decltype(tag)::Type;
          return launch<gather_rows<U>>(shape_for(plan.elems), arguments.stream, plan,
                                        static_cast<const U*>(arguments.inputs[0]),
                                        arguments.inputs[1], static_cast<U*>(arguments.outputs[0]),
                                        fault_place(arguments));
        });
      },
      explain_index(request.op, plan.axis_size));
}

Prepared gather_elements_row(const KernelRequest& request) {
  const TensorDesc& x = request.inputs[0];
  MEZZO_ASSIGN_OR_RETURN(const Int bytes, movable_bytes(x.dtype));
  const std::size_t axis = axis_of(request, "axis", 0, x.dims.size());
  Dims strides = strides_within(x, x.dims);
  const Int axis_stride = strides[axis];
  strides[axis] = 0;
  const auto from = make_index<1>(request.inputs[1].dims, {strides});
  return make_kernel(
      kName, 0,
      [from, bytes, axis_stride, axis_size = x.dims[axis],
       wide = is_wide(request.inputs[1])](const KernelArguments& arguments) {
        if (from.elems == 0) return ok_status();
        return with_unit(bytes, [&](auto tag) {
          using U = typename decltype(tag)::Type;
          return launch<gather_elements<U>>(
              shape_for(from.elems), arguments.stream, from, axis_size, axis_stride, wide,
              static_cast<const U*>(arguments.inputs[0]), arguments.inputs[1],
              static_cast<U*>(arguments.outputs[0]), fault_place(arguments));
        });
      },
      explain_index(request.op, x.dims[axis]));
}

Prepared gather_nd(const KernelRequest& request) {
  const TensorDesc& x = request.inputs[0];
  const Dims& indices = request.inputs[1].dims;
  MEZZO_ASSIGN_OR_RETURN(Int bytes, movable_bytes(x.dtype));
  const auto batch_dims = static_cast<std::size_t>(request.attributes.get_int("batch_dims", 0));
  const auto k = static_cast<std::size_t>(indices.back());
  Int slice = 1;
  for (std::size_t d = batch_dims + k; d < x.dims.size(); ++d) slice *= x.dims[d];
  const Int unit = slice == 0 ? 1 : common_unit(kWidestUnit / bytes, slice);
  const Dims strides = strides_within(x, x.dims);
  TuplePlan plan;
  plan.elems = request.outputs[0].elems() / unit;
  plan.slice = Divisor(slice / unit);
  Int tuples = 1;
  for (std::size_t d = batch_dims; d + 1 < indices.size(); ++d) tuples *= indices[d];
  plan.tuples = Divisor(tuples);
  plan.batch_elems = 1;
  for (std::size_t d = batch_dims; d < x.dims.size(); ++d) plan.batch_elems *= x.dims[d];
  plan.batch_elems /= unit;
  plan.wide = is_wide(request.inputs[1]);
  plan.numbers = static_cast<std::int32_t>(k);
  Dims sizes;
  for (std::size_t d = 0; d < k; ++d) {
    sizes.push_back(plan.sizes[d] = x.dims[batch_dims + d]);
    plan.strides[d] = strides[batch_dims + d] / unit;
  }
  bytes *= unit;
  return make_kernel(
      kName, 0,
      [plan, bytes](const KernelArguments& arguments) {
        if (plan.elems == 0) return ok_status();
        return with_unit(bytes, [&](auto tag) {
          using U = typename decltype(tag)::Type;
          return launch<gather_tuples<U>>(
              shape_for(plan.elems), arguments.stream, plan,
              static_cast<const U*>(arguments.inputs[0]), arguments.inputs[1],
              static_cast<U*>(arguments.outputs[0]), fault_place(arguments));
        });
      },
      [sizes, op = request.op](const DeviceFault& fault) {
        return index_error(op, fault,
                           sizes[static_cast<std::size_t>(fault.position) % sizes.size()]);
      });
}

constexpr KernelEntry kRows[] = {{"Gather", kName, gather},
                                 {"GatherElements", kName, gather_elements_row},
                                 {"GatherND", kName, gather_nd}};

}  // namespace

std::span<const KernelEntry> gathering_rows() { return kRows; }

}  // namespace mezzo::kernels::cuda
