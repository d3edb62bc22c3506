// Operators that only move elements, by strided copies: Transpose, Reorder, copies, Concat, Split,
// Slice and its gradient, Expand. Any dtype of whole bytes, any layout.
#include <utility>
#include <vector>

#include "kernels/cuda/check.h"
#include "kernels/cuda/function_kernel.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/strided_copy.h"
#include "kernels/movement_shape.h"

namespace mezzo::kernels::cuda {
namespace {

constexpr std::string_view kName = "cuda:copy";

std::vector<std::size_t> order_of(const TensorDesc& desc) {
  return memory_order(desc.dims.size(), desc.layout);
}

// One copy of operand 0 into result 0.
Prepared copy_kernel(StridedCopy copy) {
  return make_kernel(kName, 0, [copy = std::move(copy)](const KernelArguments& arguments) {
    return copy.run(arguments.inputs[0], arguments.outputs[0], arguments.stream);
  });
}

// Transpose, and Reorder, which is a transposition of memory with dims that stay.
Prepared transpose(const KernelRequest& request) {
  const TensorDesc& x = request.inputs[0];
  const TensorDesc& y = request.outputs[0];
  MEZZO_ASSIGN_OR_RETURN(const Int bytes, movable_bytes(x.dtype));
  const Dims x_strides = strides_within(x, x.dims);
  Dims from;
  for (const std::size_t dim : transposed_dims(request)) from.push_back(x_strides[dim]);
  return copy_kernel(
      StridedCopy::make(bytes, y.dims, from, strides_within(y, y.dims), order_of(y), 0, 0));
}

// Reshape and its kin, which change dims and not the order of elements.
Prepared copy(const KernelRequest& request) {
  const TensorDesc& x = request.inputs[0];
  const TensorDesc& y = request.outputs[0];
  MEZZO_ASSIGN_OR_RETURN(const Int bytes, movable_bytes(x.dtype));
  if (x.dims == y.dims) {
    return copy_kernel(StridedCopy::make(bytes, y.dims, strides_within(x, x.dims),
                                         strides_within(y, y.dims), order_of(y), 0, 0));
  }
  if (!is_row_major(request)) return unimplemented("a channels-last operand or result");
  return copy_kernel(StridedCopy::make(bytes, {y.elems()}, {1}, {1}, {0}, 0, 0));
}

Prepared expand(const KernelRequest& request) {
  const TensorDesc& x = request.inputs[0];
  const TensorDesc& y = request.outputs[0];
  MEZZO_ASSIGN_OR_RETURN(const Int bytes, movable_bytes(x.dtype));
  return copy_kernel(StridedCopy::make(bytes, y.dims, strides_within(x, y.dims),
                                       strides_within(y, y.dims), order_of(y), 0, 0));
}

Prepared concat(const KernelRequest& request) {
  const TensorDesc& y = request.outputs[0];
  MEZZO_ASSIGN_OR_RETURN(const Int bytes, movable_bytes(y.dtype));
  const std::size_t axis = axis_of(request, "axis", 0, y.dims.size());
  const Dims to = strides_within(y, y.dims);
  std::vector<StridedCopy> copies;
  Int start = 0;
  for (const TensorDesc& x : request.inputs) {
    copies.push_back(StridedCopy::make(bytes, x.dims, strides_within(x, x.dims), to, order_of(y), 0,
                                       start * to[axis]));
    start += x.dims[axis];
  }
  return make_kernel(kName, 0, [copies = std::move(copies)](const KernelArguments& arguments) {
    for (std::size_t i = 0; i < copies.size(); ++i) {
      MEZZO_RETURN_IF_ERROR(
          copies[i].run(arguments.inputs[i], arguments.outputs[0], arguments.stream));
    }
    return ok_status();
  });
}

Prepared split(const KernelRequest& request) {
  const TensorDesc& x = request.inputs[0];
  MEZZO_ASSIGN_OR_RETURN(const Int bytes, movable_bytes(x.dtype));
  const std::size_t axis = axis_of(request, "axis", 0, x.dims.size());
  const Dims from = strides_within(x, x.dims);
  const Dims sizes = request.attributes.get_ints("split");
  std::vector<StridedCopy> copies;
  Int start = 0;
  for (std::size_t i = 0; i < request.outputs.size(); ++i) {
    const TensorDesc& y = request.outputs[i];
    if (!y.present()) {
      copies.emplace_back();
      start += sizes[i];
      continue;
    }
    copies.push_back(StridedCopy::make(bytes, y.dims, from, strides_within(y, y.dims), order_of(y),
                                       start * from[axis], 0));
    start += y.dims[axis];
  }
  return make_kernel(kName, 0, [copies = std::move(copies)](const KernelArguments& arguments) {
    for (std::size_t i = 0; i < copies.size(); ++i) {
      if (arguments.outputs[i] == nullptr) continue;
      MEZZO_RETURN_IF_ERROR(
          copies[i].run(arguments.inputs[0], arguments.outputs[i], arguments.stream));
    }
    return ok_status();
  });
}

Prepared slice(const KernelRequest& request) {
  const bool grad = request.op == "SliceGrad";
  const TensorDesc& whole = grad ? request.outputs[0] : request.inputs[0];
  const TensorDesc& small = grad ? request.inputs[0] : request.outputs[0];
  MEZZO_ASSIGN_OR_RETURN(const Int bytes, movable_bytes(whole.dtype));
  const TensorPart part =
      sliced_part(request, whole.dims, strides_within(whole, whole.dims), small.elems() == 0);
  const Dims dense = strides_within(small, small.dims);
  if (!grad) {
    return copy_kernel(
        StridedCopy::make(bytes, small.dims, part.strides, dense, order_of(small), part.start, 0));
  }
  auto copy =
      StridedCopy::make(bytes, small.dims, dense, part.strides, order_of(whole), 0, part.start);
  return make_kernel(
      kName, 0,
      [copy = std::move(copy), all = whole.bytes(),
       full = small.elems() == whole.elems()](const KernelArguments& arguments) {
        if (all > 0 && !full) {
          MEZZO_RETURN_IF_ERROR(check(
              "cudaMemsetAsync", cudaMemsetAsync(arguments.outputs[0], 0, all,
                                                 static_cast<cudaStream_t>(arguments.stream))));
        }
        return copy.run(arguments.inputs[0], arguments.outputs[0], arguments.stream);
      });
}

constexpr KernelEntry kRows[] = {
    {"Transpose", kName, transpose}, {"Reorder", kName, transpose}, {"Identity", kName, copy},
    {"Reshape", kName, copy},        {"Flatten", kName, copy},      {"Squeeze", kName, copy},
    {"Unsqueeze", kName, copy},      {"Expand", kName, expand},     {"Concat", kName, concat},
    {"Split", kName, split},         {"Slice", kName, slice},       {"SliceGrad", kName, slice},
};

}  // namespace

std::span<const KernelEntry> movement_rows() { return kRows; }

}  // namespace mezzo::kernels::cuda
