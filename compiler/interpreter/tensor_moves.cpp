#include "compiler/interpreter/tensor_moves.h"

#include <algorithm>
#include <cstring>

namespace mezzo::interpreter {
namespace {

// A tensor as rows of `inner` bytes per element along an axis.
struct AxisView {
  std::size_t outer = 1, inner = 1;
};

AxisView view(const HostTensor& tensor, std::size_t axis) {
  AxisView view;
  for (std::size_t d = 0; d < axis; ++d) view.outer *= static_cast<std::size_t>(tensor.dims[d]);
  view.inner = dtype_bytes(tensor.dtype, 1);
  for (std::size_t d = axis + 1; d < tensor.dims.size(); ++d)
    view.inner *= static_cast<std::size_t>(tensor.dims[d]);
  return view;
}

// Several elements of less than 8 bits share a byte.
Status expect_whole_bytes(DType dtype) {
  if (dtype_bits(dtype) % 8 == 0) return ok_status();
  return unimplemented("tensors of type " + std::string(dtype_name(dtype)) +
                       " cannot be cut or joined");
}

}  // namespace

std::optional<std::size_t> axis_of(std::int64_t axis, std::size_t rank) {
  const auto size = static_cast<std::int64_t>(rank);
  if (axis < -size || axis >= size) return std::nullopt;
  return static_cast<std::size_t>(axis < 0 ? axis + size : axis);
}

HostTensor without_axis(HostTensor tensor, std::size_t axis) {
  tensor.dims.erase(tensor.dims.begin() + static_cast<std::ptrdiff_t>(axis));
  return tensor;
}

HostTensor with_axis(HostTensor tensor, std::size_t axis) {
  tensor.dims.insert(tensor.dims.begin() + static_cast<std::ptrdiff_t>(axis), 1);
  return tensor;
}

StatusOr<HostTensor> part_of(Machine& machine, const HostTensor& tensor, std::size_t axis,
                             std::int64_t begin, std::int64_t count) {
  MEZZO_RETURN_IF_ERROR(expect_whole_bytes(tensor.dtype));
  const AxisView from = view(tensor, axis);
  const auto extent = static_cast<std::size_t>(tensor.dims[axis]);
  const std::size_t skip = static_cast<std::size_t>(begin) * from.inner;
  const std::size_t run = static_cast<std::size_t>(count) * from.inner;
  std::vector<std::int64_t> dims = tensor.dims;
  dims[axis] = count;
  if (from.outer == 1 && skip % 64 == 0) {
    return HostTensor{tensor.dtype, std::move(dims),
                      std::shared_ptr<const std::byte>(tensor.data, tensor.data.get() + skip)};
  }
  MEZZO_ASSIGN_OR_RETURN(NewTensor part, machine.allocate(tensor.dtype, std::move(dims)));
  for (std::size_t row = 0; row < from.outer && run > 0; ++row) {
    std::memcpy(part.data.get() + row * run, tensor.data.get() + row * extent * from.inner + skip,
                run);
  }
  return std::move(part).finish();
}

StatusOr<HostTensor> join(Machine& machine, const std::vector<const HostTensor*>& parts,
                          std::size_t axis) {
  if (parts.empty()) return invalid_argument("there is nothing to join");
  const HostTensor& first = *parts.front();
  MEZZO_RETURN_IF_ERROR(expect_whole_bytes(first.dtype));
  std::vector<std::int64_t> dims = first.dims;
  dims[axis] = 0;
  for (const HostTensor* part : parts) {
    bool fits = part->dtype == first.dtype && part->dims.size() == dims.size();
    for (std::size_t d = 0; fits && d < dims.size(); ++d)
      fits = d == axis || part->dims[d] == first.dims[d];
    if (!fits) {
      return invalid_argument("cannot join " + to_string(first.type()) + " and " +
                              to_string(part->type()) + " along axis " + std::to_string(axis));
    }
    dims[axis] += part->dims[axis];
  }
  MEZZO_ASSIGN_OR_RETURN(NewTensor whole, machine.allocate(first.dtype, std::move(dims)));
  const AxisView to = view(first, axis);
  const std::size_t row_bytes = to.inner * static_cast<std::size_t>(whole.dims[axis]);
  std::size_t at = 0;
  for (const HostTensor* part : parts) {
    const std::size_t run = to.inner * static_cast<std::size_t>(part->dims[axis]);
    for (std::size_t row = 0; row < to.outer && run > 0; ++row) {
      std::memcpy(whole.data.get() + row * row_bytes + at, part->data.get() + row * run, run);
    }
    at += run;
  }
  return std::move(whole).finish();
}

StatusOr<HostTensor> stack(Machine& machine, const std::vector<HostTensor>& parts, std::size_t axis,
                           bool backwards) {
  std::vector<HostTensor> widened;
  std::vector<const HostTensor*> pointers;
  for (const HostTensor& part : parts) {
    if (axis > part.dims.size()) {
      return invalid_argument("axis " + std::to_string(axis) + " is beyond the result of " +
                              to_string(part.type()));
    }
    widened.push_back(with_axis(part, axis));
  }
  for (const HostTensor& part : widened) pointers.push_back(&part);
  if (backwards) std::reverse(pointers.begin(), pointers.end());
  return join(machine, pointers, axis);
}

}  // namespace mezzo::interpreter
