// GatherElements and GatherND. Elements are only moved: any dtype of whole bytes.
#include <algorithm>
#include <cstring>

#include "compiler/support/text.h"
#include "kernels/reference/families.h"
#include "kernels/reference/indices.h"
#include "kernels/reference/strided_copy.h"

namespace mezzo::kernels::reference {
namespace {

constexpr std::string_view kIndices = "operand 1 'indices'";

struct ElementsPlan {
  Loop<1> rows;              // over all but the last dim of the indices; x without the axis
  std::int64_t columns = 1;  // the last dim of the indices
  std::int64_t step = 0;     // in x from column to column: 0 if the axis is the last dim
  std::int64_t axis_size = 0;
  std::int64_t axis_stride = 1;
};

// y[.., j, ..] = x[.., indices[.., j, ..], ..].
template <typename T, typename I>
Status gather_elements(const ElementsPlan& plan, const T* x, const I* indices, T* y) {
  std::int64_t at = 0;
  std::int64_t bad = -1;
  for_each(plan.rows, [&](const std::array<std::int64_t, 1>& row) {
    const T* from = x + row[0];
    for (std::int64_t j = 0; j < plan.columns; ++j, ++at) {
      auto index = static_cast<std::int64_t>(indices[at]);
      if (index < 0) index += plan.axis_size;
      if (index < 0 || index >= plan.axis_size) {
        if (bad < 0) bad = at;
        continue;
      }
      y[at] = from[j * plan.step + index * plan.axis_stride];
    }
  });
  if (bad < 0) return ok_status();
  return index_error("GatherElements", kIndices, bad, static_cast<std::int64_t>(indices[bad]),
                     plan.axis_size);
}

}  // namespace

PreparedKernel prepare_gather_elements(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "x:a indices:i -> y:a"));
  MEZZO_RETURN_IF_ERROR(expect_row_major(operands));
  const Dims& x = operands.in(0).dims;
  const Dims& indices = operands.in(1).dims;
  if (operands.out(0).dtype != operands.in(0).dtype) {
    return operands.out_error(0, "expected dtype " + std::string(dtype_name(operands.in(0).dtype)));
  }
  MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(0, 1, kMaxRank));
  MEZZO_ASSIGN_OR_RETURN(const std::int64_t axis, operands.axis("axis", 0, x.size()));
  bool fits = indices.size() == x.size();
  for (std::size_t d = 0; fits && d < x.size(); ++d) {
    fits = static_cast<std::int64_t>(d) == axis || indices[d] <= x[d];
  }
  if (!fits) {
    return operands.in_error(1, "dims " + format_dims(indices) + " reach beyond " + format_dims(x));
  }
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, indices));
  ElementsPlan plan;
  Dims strides = element_strides(operands.in(0));
  plan.axis_size = x[static_cast<std::size_t>(axis)];
  plan.axis_stride = strides[static_cast<std::size_t>(axis)];
  strides[static_cast<std::size_t>(axis)] = 0;
  plan.columns = indices.back();
  plan.step = strides.back();
  plan.rows.dims.assign(indices.begin(), indices.end() - 1);
  plan.rows.strides[0].assign(strides.begin(), strides.end() - 1);
  return make_kernel([plan, bytes = element_bytes(operands.in(0)),
                      dtype = operands.in(1).dtype](const KernelArguments& arguments) {
    return with_element_bytes(bytes, [&](auto element) {
      return with_index_type(dtype, [&](auto index) {
        using T = typename decltype(element)::Type;
        using I = typename decltype(index)::Type;
        return gather_elements(plan, static_cast<const T*>(arguments.inputs[0]),
                               static_cast<const I*>(arguments.inputs[1]),
                               static_cast<T*>(arguments.outputs[0]));
      });
    });
  });
}

namespace {

// Letters: B batches, M index tuples per batch, K numbers in a tuple, S elements of a slice:
// x[B, d1..dK, S], indices[B, M, K] -> y[B, M, S].
struct TuplePlan {
  std::int64_t batches = 1, tuples = 1, slice = 1, batch_elems = 1;
  Dims sizes, strides;  // of d1..dK, in elements

  std::int64_t numbers() const { return static_cast<std::int64_t>(sizes.size()); }
};

template <typename I, typename Copy>
Status gather_tuples(const TuplePlan& plan, const I* indices, const Copy& copy) {
  const std::int64_t k = plan.numbers();
  for (std::int64_t t = 0; t < plan.batches * plan.tuples; ++t) {
    std::int64_t from = t / plan.tuples * plan.batch_elems;
    for (std::int64_t i = 0; i < k; ++i) {
      const auto given = static_cast<std::int64_t>(indices[t * k + i]);
      const auto d = static_cast<std::size_t>(i);
      const std::int64_t index = given < 0 ? given + plan.sizes[d] : given;
      if (index < 0 || index >= plan.sizes[d]) {
        return index_error("GatherND", kIndices, t * k + i, given, plan.sizes[d]);
      }
      from += index * plan.strides[d];
    }
    copy(t * plan.slice, from);
  }
  return ok_status();
}

Status run_gather_nd(const TuplePlan& plan, std::size_t bytes, DType index_dtype,
                     const KernelArguments& arguments) {
  return with_index_type(index_dtype, [&](auto index) {
    const auto* indices = static_cast<const typename decltype(index)::Type*>(arguments.inputs[1]);
    if (plan.slice == 1) {
      return with_element_bytes(bytes, [&](auto element) {
        using T = typename decltype(element)::Type;
        const T* x = static_cast<const T*>(arguments.inputs[0]);
        T* y = static_cast<T*>(arguments.outputs[0]);
        return gather_tuples(plan, indices,
                             [=](std::int64_t to, std::int64_t from) { y[to] = x[from]; });
      });
    }
    const auto* x = static_cast<const std::byte*>(arguments.inputs[0]);
    auto* y = static_cast<std::byte*>(arguments.outputs[0]);
    const std::size_t slice_bytes = static_cast<std::size_t>(plan.slice) * bytes;
    return gather_tuples(plan, indices, [=](std::int64_t to, std::int64_t from) {
      if (slice_bytes == 0) return;
      std::memcpy(y + static_cast<std::size_t>(to) * bytes,
                  x + static_cast<std::size_t>(from) * bytes, slice_bytes);
    });
  });
}

}  // namespace

PreparedKernel prepare_gather_nd(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "x:a indices:i -> y:a"));
  MEZZO_RETURN_IF_ERROR(expect_row_major(operands));
  const Dims& x = operands.in(0).dims;
  const Dims& indices = operands.in(1).dims;
  if (operands.out(0).dtype != operands.in(0).dtype) {
    return operands.out_error(0, "expected dtype " + std::string(dtype_name(operands.in(0).dtype)));
  }
  MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(0, 1, kMaxRank));
  MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(1, 1, kMaxRank));
  const std::int64_t batch_dims = request.attributes.get_int("batch_dims", 0);
  if (batch_dims < 0 ||
      batch_dims >= static_cast<std::int64_t>(std::min(x.size(), indices.size()))) {
    return operands.error("attribute 'batch_dims' is " + std::to_string(batch_dims) +
                          ", expected 0 to " +
                          std::to_string(std::min(x.size(), indices.size()) - 1));
  }
  const auto b = static_cast<std::size_t>(batch_dims);
  if (indices.back() < 0 || indices.back() > static_cast<std::int64_t>(x.size() - b) ||
      !std::equal(x.begin(), x.begin() + batch_dims, indices.begin())) {
    return operands.in_error(1, "dims " + format_dims(indices) + " with " +
                                    std::to_string(batch_dims) + " batch dims do not index " +
                                    format_dims(x));
  }
  const std::size_t k = static_cast<std::size_t>(indices.back());
  const Dims strides = element_strides(operands.in(0));
  TuplePlan plan;
  Dims y(indices.begin(), indices.end() - 1);
  y.insert(y.end(), x.begin() + static_cast<std::ptrdiff_t>(b + k), x.end());
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, y));
  for (std::size_t d = 0; d < b; ++d) plan.batches *= x[d];
  for (std::size_t d = b; d + 1 < indices.size(); ++d) plan.tuples *= indices[d];
  for (std::size_t d = b; d < x.size(); ++d) plan.batch_elems *= x[d];
  for (std::size_t d = b + k; d < x.size(); ++d) plan.slice *= x[d];
  plan.sizes.assign(x.begin() + batch_dims, x.begin() + static_cast<std::ptrdiff_t>(b + k));
  plan.strides.assign(strides.begin() + batch_dims,
                      strides.begin() + static_cast<std::ptrdiff_t>(b + k));
  return make_kernel([plan, bytes = element_bytes(operands.in(0)),
                      dtype = operands.in(1).dtype](const KernelArguments& arguments) {
    return run_gather_nd(plan, bytes, dtype, arguments);
  });
}

}  // namespace mezzo::kernels::reference
