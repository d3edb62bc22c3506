// Slice and its gradient: strided copies of a part of a tensor.
#include <algorithm>
#include <cstring>

#include "compiler/support/text.h"
#include "kernels/reference/families.h"
#include "kernels/reference/operands.h"
#include "kernels/reference/strided_copy.h"

namespace mezzo::kernels::reference {
namespace {

// What Slice takes along one dim: start, start + step, ... (size elements).
struct Part {
  std::int64_t start;
  std::int64_t step;
  std::int64_t size;
};

// ONNX's rules: negative starts and ends count from the end, then both are clamped; a negative
// step walks down to, but not including, `end`. Steps beyond the dim are as good as dim + 1.
Part slice_part(std::int64_t dim, std::int64_t start, std::int64_t end, std::int64_t step) {
  step = std::clamp(step, -dim - 1, dim + 1);
  if (start < 0) start += dim;
  if (end < 0) end += dim;
  if (step > 0) {
    start = std::clamp<std::int64_t>(start, 0, dim);
    end = std::clamp<std::int64_t>(end, 0, dim);
    return {start, step, end > start ? (end - start + step - 1) / step : 0};
  }
  start = std::clamp<std::int64_t>(start, dim == 0 ? -1 : 0, dim - 1);
  end = std::clamp<std::int64_t>(end, -1, dim - 1);
  return {start, step, start > end ? (start - end - step - 1) / -step : 0};
}

// The part of every dim of a tensor with these dims.
StatusOr<std::vector<Part>> read_parts(const Operands& operands, const Dims& dims) {
  const Dims starts = operands.attributes().get_ints("starts");
  const Dims ends = operands.attributes().get_ints("ends");
  Dims all;
  for (std::size_t i = 0; i < starts.size(); ++i) all.push_back(static_cast<std::int64_t>(i));
  MEZZO_ASSIGN_OR_RETURN(const Dims axes, operands.axes("axes", all, dims.size()));
  const Dims steps = operands.attributes().get_ints("steps", Dims(starts.size(), 1));
  if (ends.size() != starts.size() || axes.size() != starts.size() ||
      steps.size() != starts.size()) {
    return operands.error("attributes 'starts', 'ends', 'axes' and 'steps' differ in length");
  }
  std::vector<Part> parts;
  for (const std::int64_t dim : dims) parts.push_back({0, 1, dim});
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (steps[i] == 0) return operands.error("attribute 'steps' holds 0");
    const auto axis = static_cast<std::size_t>(axes[i]);
    parts[axis] = slice_part(dims[axis], starts[i], ends[i], steps[i]);
  }
  return parts;
}

Dims part_dims(const std::vector<Part>& parts) {
  Dims dims;
  for (const Part& part : parts) dims.push_back(part.size);
  return dims;
}

// Copies the parts of `whole` to `small`, or with `into_whole` the other way.
StridedCopy part_copy(const std::vector<Part>& parts, const TensorDesc& whole,
                      const TensorDesc& small, bool into_whole) {
  StridedCopy copy{
      {small.dims, {element_strides(whole), element_strides(small)}}, {}, element_bytes(small)};
  for (std::size_t d = 0; d < parts.size(); ++d) {
    copy.start[0] += parts[d].size > 0 ? parts[d].start * copy.loop.strides[0][d] : 0;
    copy.loop.strides[0][d] *= parts[d].step;
  }
  if (into_whole) {
    std::swap(copy.loop.strides[0], copy.loop.strides[1]);
    std::swap(copy.start[0], copy.start[1]);
  }
  return copy;
}

}  // namespace

PreparedKernel prepare_slice(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "x:a -> y:a"));
  MEZZO_RETURN_IF_ERROR(operands.expect_one_dtype());
  MEZZO_ASSIGN_OR_RETURN(const std::vector<Part> parts, read_parts(operands, operands.in(0).dims));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, part_dims(parts)));
  return make_kernel([copy = part_copy(parts, operands.in(0), operands.out(0), false)](
                         const KernelArguments& arguments) {
    copy.run(arguments.inputs[0], arguments.outputs[0]);
  });
}

PreparedKernel prepare_slice_grad(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "dy:a -> dx:a"));
  MEZZO_RETURN_IF_ERROR(operands.expect_one_dtype());
  MEZZO_ASSIGN_OR_RETURN(const std::vector<Part> parts, read_parts(operands, operands.out(0).dims));
  MEZZO_RETURN_IF_ERROR(operands.expect_in(0, part_dims(parts)));
  return make_kernel([copy = part_copy(parts, operands.out(0), operands.in(0), true),
                      bytes = operands.out(0).bytes()](const KernelArguments& arguments) {
    if (bytes > 0) std::memset(arguments.outputs[0], 0, bytes);
    copy.run(arguments.inputs[0], arguments.outputs[0]);
  });
}

}  // namespace mezzo::kernels::reference
