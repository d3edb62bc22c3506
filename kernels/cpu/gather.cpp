// Gather along one axis and its gradient. Letters: O outer, D the axis, I inner, J indices:
// x[O][D][I], indices[J] -> y[O][J][I].
//
// The gradient sorts the indices by counting, keeping their order, so that every row of dx is
// written once: zeros, or the sum of its rows of dy in float32, whatever the threads.
#include <cstring>

#include "kernels/cpu/common.h"

namespace mezzo::kernels::cpu {
namespace {

constexpr Int kUnitElems = 16384;

struct Plan {
  const Isa* isa = nullptr;
  std::string op;
  int threads = 1;
  Int outer = 1, axis_size = 0, inner = 1, indices = 0;
  bool wide_indices = false;  // int64
  Int row_bytes = 0;          // Gather
  DType dy = DType::kNone, dx = DType::kNone;

  Int index(const void* data, Int j) const {
    return wide_indices ? static_cast<const std::int64_t*>(data)[j]
                        : static_cast<const std::int32_t*>(data)[j];
  }
  // The row that index j names; negative ones count from the end.
  Int row(const void* data, Int j) const {
    const Int value = index(data, j);
    return value < 0 ? value + axis_size : value;
  }
};

Status check_indices(const Plan& plan, const void* data) {
  for (Int j = 0; j < plan.indices; ++j) {
    const Int index = plan.index(data, j);
    if (index >= -plan.axis_size && index < plan.axis_size) continue;
    return invalid_argument(plan.op + ", operand 1 'indices': element " + std::to_string(j) +
                            " is " + std::to_string(index) + ", expected -" +
                            std::to_string(plan.axis_size) + " to " +
                            std::to_string(plan.axis_size - 1));
  }
  return ok_status();
}

// Rows [job, end) of the result, all of kBytes bytes; 0: of plan.row_bytes.
template <std::size_t kBytes>
void copy_rows(const Plan& plan, const void* indices, const char* x, char* y, Int job, Int end) {
  const std::size_t bytes = kBytes > 0 ? kBytes : static_cast<std::size_t>(plan.row_bytes);
  Int j = job % plan.indices;
  const char* from = x + static_cast<std::size_t>(job / plan.indices * plan.axis_size) * bytes;
  for (char* to = y + static_cast<std::size_t>(job) * bytes; job < end; ++job, to += bytes) {
    std::memcpy(to, from + static_cast<std::size_t>(plan.row(indices, j)) * bytes, bytes);
    if (++j < plan.indices) continue;
    j = 0;
    from += static_cast<std::size_t>(plan.axis_size) * bytes;
  }
}

void copy_rows(const Plan& plan, const void* indices, const char* x, char* y, Int job, Int end) {
  switch (plan.row_bytes) {
    case 1: return copy_rows<1>(plan, indices, x, y, job, end);
    case 2: return copy_rows<2>(plan, indices, x, y, job, end);
    case 4: return copy_rows<4>(plan, indices, x, y, job, end);
    case 8: return copy_rows<8>(plan, indices, x, y, job, end);
    default: return copy_rows<0>(plan, indices, x, y, job, end);
  }
}

Status run_gather(const Plan& plan, const KernelArguments& arguments) {
  const void* indices = arguments.inputs[1];
  MEZZO_RETURN_IF_ERROR(check_indices(plan, indices));
  if (plan.row_bytes == 0) return ok_status();
  const char* x = static_cast<const char*>(arguments.inputs[0]);
  char* y = static_cast<char*>(arguments.outputs[0]);
  const Int jobs = plan.outer * plan.indices;
  const Int group = std::max<Int>(1, kUnitElems * 4 / plan.row_bytes);
  const int threads = threads_for(jobs * plan.row_bytes / 4, plan.threads);
  parallel_units(ceil_div(jobs, group), threads, [&](Int unit, int) {
    copy_rows(plan, indices, x, y, unit * group, std::min(jobs, (unit + 1) * group));
  });
  return ok_status();
}

// Workspace: where the indices of every row begin in `order`, then `order` itself.
struct Sorted {
  std::int32_t* begin;  // axis_size + 1 numbers
  std::int32_t* order;  // places in the indices, row by row
};

Sorted sort_indices(const Plan& plan, const void* indices, void* workspace) {
  auto* begin = static_cast<std::int32_t*>(workspace);
  Sorted sorted{begin, begin + plan.axis_size + 1};
  std::fill_n(begin, plan.axis_size + 1, 0);
  for (Int j = 0; j < plan.indices; ++j) ++begin[plan.row(indices, j) + 1];
  for (Int row = 0; row < plan.axis_size; ++row) begin[row + 1] += begin[row];
  // Filling moves every begin to the next row's; the shift back follows.
  for (Int j = 0; j < plan.indices; ++j) {
    sorted.order[begin[plan.row(indices, j)]++] = static_cast<std::int32_t>(j);
  }
  for (Int row = plan.axis_size; row > 0; --row) begin[row] = begin[row - 1];
  begin[0] = 0;
  return sorted;
}

// Row `row` of dx for one outer index, `dy` being that index's rows.
void sum_row(const Plan& plan, const Sorted& sorted, const void* dy, Int dy_first, void* dx,
             Int dx_first, Int row) {
  alignas(64) float sum[kBlock];
  alignas(64) float room[kBlock];
  for (Int first = 0; first < plan.inner; first += kBlock) {
    const Int n = std::min(kBlock, plan.inner - first);
    float* target = float_target(plan.dx, dx, dx_first + first, sum);
    std::fill_n(target, n, 0.0F);
    for (Int k = sorted.begin[row]; k < sorted.begin[row + 1]; ++k) {
      const Int from = dy_first + sorted.order[k] * plan.inner + first;
      plan.isa->reduce_rows(ReduceOp::kSum, floats(*plan.isa, plan.dy, dy, from, n, room), 1, n, n,
                            target);
    }
    flush(*plan.isa, plan.dx, sum, dx, dx_first + first, n);
  }
}

Status run_gather_grad(const Plan& plan, const KernelArguments& arguments) {
  const void* indices = arguments.inputs[1];
  MEZZO_RETURN_IF_ERROR(check_indices(plan, indices));
  if (plan.inner == 0) return ok_status();
  const Sorted sorted = sort_indices(plan, indices, arguments.workspace);
  const Int jobs = plan.outer * plan.axis_size;
  const Int group = std::max<Int>(1, kUnitElems / plan.inner);
  const int threads = threads_for(jobs * plan.inner, plan.threads);
  parallel_units(ceil_div(jobs, group), threads, [&](Int unit, int) {
    for (Int job = unit * group; job < std::min(jobs, (unit + 1) * group); ++job) {
      const Int dy_first = job / plan.axis_size * plan.indices * plan.inner;
      sum_row(plan, sorted, arguments.inputs[0], dy_first, arguments.outputs[0], job * plan.inner,
              job % plan.axis_size);
    }
  });
  return ok_status();
}

// `whole`: x or dx.
Plan make_plan(const KernelRequest& request, const Isa& isa, const TensorDesc& whole) {
  Plan plan;
  plan.isa = &isa;
  plan.op = request.op;
  plan.threads = request.threads;
  Int axis = request.attributes.get_int("axis", 0);
  if (axis < 0) axis += static_cast<Int>(whole.dims.size());
  for (std::size_t dim = 0; dim < whole.dims.size(); ++dim) {
    if (static_cast<Int>(dim) < axis) plan.outer *= whole.dims[dim];
    if (static_cast<Int>(dim) > axis) plan.inner *= whole.dims[dim];
  }
  plan.axis_size = whole.dims[static_cast<std::size_t>(axis)];
  plan.indices = request.inputs[1].elems();
  plan.wide_indices = request.inputs[1].dtype == DType::kInt64;
  return plan;
}

}  // namespace

Prepared prepare_gather(const KernelRequest& request, const Isa& isa) {
  const int bits = dtype_bits(request.inputs[0].dtype);
  if (bits % 8 != 0) return unimplemented("packed elements");
  Plan plan = make_plan(request, isa, request.inputs[0]);
  plan.row_bytes = plan.inner * (bits / 8);
  return make_kernel(
      isa, 0, [plan](const KernelArguments& arguments) { return run_gather(plan, arguments); });
}

Prepared prepare_gather_grad(const KernelRequest& request, const Isa& isa) {
  MEZZO_RETURN_IF_ERROR(expect_packed_floats(request, 0b10));
  Plan plan = make_plan(request, isa, request.outputs[0]);
  constexpr Int kMost = std::int64_t{1} << 31;
  if (plan.axis_size >= kMost || plan.indices >= kMost) return unimplemented("2^31 rows or more");
  plan.dy = request.inputs[0].dtype;
  plan.dx = request.outputs[0].dtype;
  const Int numbers = plan.axis_size + 1 + plan.indices;
  return make_kernel(
      isa, static_cast<std::size_t>(numbers) * sizeof(std::int32_t),
      [plan](const KernelArguments& arguments) { return run_gather_grad(plan, arguments); });
}

}  // namespace mezzo::kernels::cpu
