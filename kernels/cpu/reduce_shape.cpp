#include "kernels/cpu/reduce_shape.h"

namespace mezzo::kernels::cpu {

Int offset_of(const std::vector<ReduceGroup>& groups, Int index) {
  Int offset = 0;
  for (std::size_t g = groups.size(); g > 0; --g) {
    offset += index % groups[g - 1].size * groups[g - 1].stride;
    index /= groups[g - 1].size;
  }
  return offset;
}

void make_groups(const TensorDesc& x, const std::vector<bool>& is_reduced, ReduceShape& shape) {
  const Dims strides = strides_within(x, x.dims);
  const auto order = memory_order(x.dims.size(), x.layout);
  struct Joined {
    ReduceGroup group;
    bool reduced;
  };
  std::vector<Joined> joined;
  for (const std::size_t dim : order) {
    if (x.dims[dim] == 1) continue;
    if (!joined.empty() && joined.back().reduced == is_reduced[dim]) {
      joined.back().group.size *= x.dims[dim];
      joined.back().group.stride = strides[dim];
    } else {
      joined.push_back({{x.dims[dim], strides[dim]}, is_reduced[dim]});
    }
  }
  if (!joined.empty()) {
    (joined.back().reduced ? shape.run : shape.columns) = joined.back().group.size;
    joined.pop_back();
  }
  for (const Joined& entry : joined) {
    (entry.reduced ? shape.reduced : shape.kept).push_back(entry.group);
    (entry.reduced ? shape.rows : shape.outer) *= entry.group.size;
  }
}

std::vector<bool> reduced_dims(const KernelRequest& request) {
  const TensorDesc& x = request.inputs[0];
  const std::size_t rank = x.dims.size();
  std::vector<bool> marks(rank, false);
  if (request.op == "SumTo") {
    const Dims& to = request.outputs[0].dims;
    for (std::size_t dim = 0; dim < rank; ++dim) {
      const std::size_t missing = rank - to.size();
      marks[dim] = dim < missing || (to[dim - missing] == 1 && x.dims[dim] != 1);
    }
  } else if (request.op == "GlobalAveragePool") {
    for (std::size_t dim = 2; dim < rank; ++dim) marks[dim] = true;
  } else if (request.op == "ConvGradBias") {
    for (std::size_t dim = 0; dim < rank; ++dim) marks[dim] = dim != 1;
  } else {
    const Dims axes = request.attributes.get_ints("axes");
    for (const Int axis : axes) {
      marks[static_cast<std::size_t>(axis < 0 ? axis + static_cast<Int>(rank) : axis)] = true;
    }
    if (axes.empty() && request.attributes.get_int("noop_with_empty_axes", 0) == 0) {
      marks.assign(rank, true);
    }
  }
  return marks;
}

Status check_order(const KernelRequest& request, const std::vector<bool>& marks) {
  const TensorDesc& x = request.inputs[0];
  const TensorDesc& y = request.outputs[0];
  Dims with_ones;
  for (std::size_t dim = 0; dim < x.dims.size(); ++dim) {
    with_ones.push_back(marks[dim] ? 1 : x.dims[dim]);
  }
  TensorDesc dense = y;
  dense.dims = with_ones;
  if (y.dims.size() != x.dims.size()) dense.layout = Layout::kRowMajor;
  if (y.layout != dense.layout) return unimplemented("a channels-last result of lower rank");
  TensorDesc in_order = dense;
  in_order.layout = x.layout;
  if (strides_within(dense, with_ones) != strides_within(in_order, with_ones)) {
    return unimplemented("operand and result in different layouts");
  }
  return ok_status();
}

}  // namespace mezzo::kernels::cpu
