// What Transpose, Reorder, Slice and SliceGrad ask for, as the rows of every room read it.
//
// REQUIRES, for all: a reference kernel has accepted the request.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/kernel.h"

namespace mezzo::kernels {

// Which dim of the operand each dim of the result is. Reorder: dims stay, memory is transposed.
inline std::vector<std::size_t> transposed_dims(const KernelRequest& request) {
  const auto rank = static_cast<std::int64_t>(request.inputs[0].dims.size());
  std::vector<std::int64_t> perm;
  for (std::int64_t d = 0; d < rank; ++d)
    perm.push_back(request.op == "Reorder" ? d : rank - 1 - d);
  if (request.op == "Transpose") perm = request.attributes.get_ints("perm", perm);
  std::vector<std::size_t> dims;
  for (const std::int64_t d : perm) dims.push_back(static_cast<std::size_t>(d < 0 ? d + rank : d));
  return dims;
}

// A part of a tensor: where its first element lies, and how far neighbours are apart along each
// dim, in elements.
struct TensorPart {
  std::int64_t start = 0;
  std::vector<std::int64_t> strides;
};

// What Slice takes of a tensor of these dims and strides. ONNX: negative starts count from the end,
// then they are clamped to the dim. `is_empty`: no element is taken, and the part starts at 0.
inline TensorPart sliced_part(const KernelRequest& request, const std::vector<std::int64_t>& dims,
                              const std::vector<std::int64_t>& strides, bool is_empty) {
  const auto starts = request.attributes.get_ints("starts");
  const auto steps =
      request.attributes.get_ints("steps", std::vector<std::int64_t>(starts.size(), 1));
  auto axes = request.attributes.get_ints("axes");
  if (axes.empty()) {
    for (std::size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  }
  TensorPart part{0, strides};
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const auto axis = static_cast<std::size_t>(
        axes[i] < 0 ? axes[i] + static_cast<std::int64_t>(dims.size()) : axes[i]);
    const std::int64_t dim = dims[axis];
    const std::int64_t step = std::clamp(steps[i], -dim - 1, dim + 1);
    const std::int64_t start = starts[i] >= 0 ? starts[i] : std::max(starts[i], -dim) + dim;
    if (!is_empty) part.start += std::min(start, step > 0 ? dim : dim - 1) * strides[axis];
    part.strides[axis] *= step;
  }
  return part;
}

}  // namespace mezzo::kernels
