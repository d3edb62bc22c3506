// ScatterElements, ScatterND and TensorScatter: a copy of the data in which elements named by
// indices are replaced by updates or joined with them, in the order of the updates, so that the
// last of several replacements of one element stays.
//
// Sums and products of floating dtypes below float64 are made in double and rounded once. Sums and
// products of bools are their union and intersection; integers wrap.
#include <algorithm>
#include <cstring>

#include "compiler/support/text.h"
#include "kernels/reference/families.h"
#include "kernels/reference/indices.h"
#include "kernels/reference/strided_copy.h"

namespace mezzo::kernels::reference {
namespace {

constexpr std::string_view kIndices = "operand 1 'indices'";

enum class Join { kReplace, kAdd, kMul, kMax, kMin };

StatusOr<Join> read_join(const Operands& operands) {
  const std::string name = operands.attributes().get_string("reduction", "none");
  if (name == "none") return Join::kReplace;
  if (name == "add") return Join::kAdd;
  if (name == "mul") return Join::kMul;
  if (name == "max") return Join::kMax;
  if (name == "min") return Join::kMin;
  return operands.error("attribute 'reduction' is '" + name +
                        "', expected none, add, mul, max or min");
}

// As numpy: NaN wins.
template <Join kJoin, typename N>
N joined(N a, N b) {
  if constexpr (std::is_same_v<N, bool>) {
    return kJoin == Join::kAdd || kJoin == Join::kMax ? a || b : a && b;
  } else if constexpr (kJoin == Join::kAdd || kJoin == Join::kMul) {
    if constexpr (std::is_floating_point_v<N>) {
      return kJoin == Join::kAdd ? a + b : a * b;
    } else {
      const auto left = static_cast<std::uint64_t>(a);
      const auto right = static_cast<std::uint64_t>(b);
      return static_cast<N>(kJoin == Join::kAdd ? left + right : left * right);
    }
  } else {
    if constexpr (std::is_floating_point_v<N>) {
      if (std::isnan(a) || std::isnan(b)) return std::isnan(a) ? a : b;
    }
    return kJoin == Join::kMax ? std::max(a, b) : std::min(a, b);
  }
}

// Update u, a slice of elements, belongs at element positions[u] of the data.
struct ScatterPlan {
  Join join = Join::kReplace;
  DType dtype = DType::kNone;
  std::int64_t data_elems = 0;
  std::int64_t updates = 0;  // slices
  std::int64_t slice = 1;

  bool in_doubles() const {
    return (join == Join::kAdd || join == Join::kMul) && is_floating(dtype) &&
           dtype != DType::kFloat64;
  }
  std::size_t positions_bytes() const { return doubles_bytes(updates); }
  std::size_t workspace_bytes() const {
    return positions_bytes() + (in_doubles() ? doubles_bytes(data_elems) : 0);
  }
};

template <Join kJoin, typename T>
void join_updates(const ScatterPlan& plan, const std::int64_t* positions, const T* updates, T* y,
                  double* sums) {
  if (sums != nullptr) {
    if constexpr (kIsFloat<T> && (kJoin == Join::kAdd || kJoin == Join::kMul)) {
      for (std::int64_t i = 0; i < plan.data_elems; ++i) sums[i] = decode(y[i]);
      for (std::int64_t u = 0; u < plan.updates; ++u) {
        double* to = sums + positions[u];
        const T* from = updates + u * plan.slice;
        for (std::int64_t i = 0; i < plan.slice; ++i) {
          to[i] = joined<kJoin>(to[i], decode(from[i]));
        }
      }
      for (std::int64_t i = 0; i < plan.data_elems; ++i) y[i] = encode<T>(sums[i]);
    }
    return;
  }
  for (std::int64_t u = 0; u < plan.updates; ++u) {
    T* to = y + positions[u];
    const T* from = updates + u * plan.slice;
    for (std::int64_t i = 0; i < plan.slice; ++i) {
      to[i] = element_of<T>(joined<kJoin>(number_of(to[i]), number_of(from[i])));
    }
  }
}

void replace(const ScatterPlan& plan, const std::int64_t* positions, const void* updates, void* y) {
  with_element_bytes(dtype_bytes(plan.dtype, 1), [&](auto element) {
    using T = typename decltype(element)::Type;
    const T* from = static_cast<const T*>(updates);
    T* to = static_cast<T*>(y);
    if (plan.slice == 1) {
      for (std::int64_t u = 0; u < plan.updates; ++u) to[positions[u]] = from[u];
      return;
    }
    const std::size_t bytes = static_cast<std::size_t>(plan.slice) * sizeof(T);
    for (std::int64_t u = 0; u < plan.updates; ++u) {
      std::memcpy(to + positions[u], from + u * plan.slice, bytes);
    }
  });
}

// `positions` stand at the start of the workspace.
void scatter(const ScatterPlan& plan, const KernelArguments& arguments) {
  const std::size_t bytes = dtype_bytes(plan.dtype, plan.data_elems);
  void* y = arguments.outputs[0];
  if (bytes > 0 && y != arguments.inputs[0]) std::memcpy(y, arguments.inputs[0], bytes);
  if (plan.updates == 0 || plan.slice == 0) return;
  const auto* positions = static_cast<const std::int64_t*>(arguments.workspace);
  if (plan.join == Join::kReplace) return replace(plan, positions, arguments.inputs[2], y);
  double* sums =
      plan.in_doubles() ? static_cast<double*>(arguments.workspace) + plan.updates : nullptr;
  with_element_type(plan.dtype, [&](auto element) {
    using T = typename decltype(element)::Type;
    const T* updates = static_cast<const T*>(arguments.inputs[2]);
    T* to = static_cast<T*>(y);
    switch (plan.join) {
      case Join::kAdd: return join_updates<Join::kAdd>(plan, positions, updates, to, sums);
      case Join::kMul: return join_updates<Join::kMul>(plan, positions, updates, to, sums);
      case Join::kMax: return join_updates<Join::kMax>(plan, positions, updates, to, sums);
      default: return join_updates<Join::kMin>(plan, positions, updates, to, sums);
    }
  });
}

StatusOr<Operands> check_scatter(const KernelRequest& request) {
  const std::string reduction = request.attributes.get_string("reduction", "none");
  MEZZO_ASSIGN_OR_RETURN(
      Operands operands,
      Operands::check(request, reduction == "none" ? "data:a indices:i updates:a -> y:a"
                                                   : "data:v indices:i updates:v -> y:v"));
  MEZZO_RETURN_IF_ERROR(expect_row_major(operands));
  const DType dtype = operands.in(0).dtype;
  if (operands.in(2).dtype != dtype) {
    return operands.in_error(2, "expected dtype " + std::string(dtype_name(dtype)) + ", got " +
                                    std::string(dtype_name(operands.in(2).dtype)));
  }
  if (operands.out(0).dtype != dtype) {
    return operands.out_error(0, "expected dtype " + std::string(dtype_name(dtype)) + ", got " +
                                     std::string(dtype_name(operands.out(0).dtype)));
  }
  MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(0, 1, kMaxRank));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, operands.in(0).dims));
  return operands;
}

struct ElementsPlan : ScatterPlan {
  Loop<1> rows;              // over all but the last dim of the indices; data without the axis
  std::int64_t columns = 1;  // the last dim of the indices
  std::int64_t step = 0;     // in the data from column to column: 0 if the axis is the last dim
  std::int64_t axis_size = 0;
  std::int64_t axis_stride = 1;
};

template <typename I>
Status find_elements(const ElementsPlan& plan, const I* indices, std::int64_t* positions) {
  std::int64_t at = 0;
  std::int64_t bad = -1;
  for_each(plan.rows, [&](const std::array<std::int64_t, 1>& row) {
    for (std::int64_t j = 0; j < plan.columns; ++j, ++at) {
      auto index = static_cast<std::int64_t>(indices[at]);
      if (index < 0) index += plan.axis_size;
      if (index < 0 || index >= plan.axis_size) {
        if (bad < 0) bad = at;
        continue;
      }
      positions[at] = row[0] + j * plan.step + index * plan.axis_stride;
    }
  });
  if (bad < 0) return ok_status();
  return index_error("ScatterElements", kIndices, bad, static_cast<std::int64_t>(indices[bad]),
                     plan.axis_size);
}

}  // namespace

PreparedKernel prepare_scatter_elements(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, check_scatter(request));
  const Dims& data = operands.in(0).dims;
  const Dims& indices = operands.in(1).dims;
  MEZZO_ASSIGN_OR_RETURN(const std::int64_t axis, operands.axis("axis", 0, data.size()));
  bool fits = indices.size() == data.size();
  for (std::size_t d = 0; fits && d < data.size(); ++d) {
    fits = static_cast<std::int64_t>(d) == axis || indices[d] <= data[d];
  }
  if (!fits) {
    return operands.in_error(1,
                             "dims " + format_dims(indices) + " reach beyond " + format_dims(data));
  }
  MEZZO_RETURN_IF_ERROR(operands.expect_in(2, indices));
  ElementsPlan plan;
  MEZZO_ASSIGN_OR_RETURN(plan.join, read_join(operands));
  plan.dtype = operands.in(0).dtype;
  plan.data_elems = operands.in(0).elems();
  plan.updates = operands.in(1).elems();
  Dims strides = element_strides(operands.in(0));
  plan.axis_size = data[static_cast<std::size_t>(axis)];
  plan.axis_stride = strides[static_cast<std::size_t>(axis)];
  strides[static_cast<std::size_t>(axis)] = 0;
  plan.columns = indices.back();
  plan.step = strides.back();
  plan.rows.dims.assign(indices.begin(), indices.end() - 1);
  plan.rows.strides[0].assign(strides.begin(), strides.end() - 1);
  return make_kernel(
      [plan, dtype = operands.in(1).dtype](const KernelArguments& arguments) {
        MEZZO_RETURN_IF_ERROR(with_index_type(dtype, [&](auto index) {
          using I = typename decltype(index)::Type;
          return find_elements(plan, static_cast<const I*>(arguments.inputs[1]),
                               static_cast<std::int64_t*>(arguments.workspace));
        }));
        scatter(plan, arguments);
        return ok_status();
      },
      plan.workspace_bytes());
}

namespace {

struct TuplePlan : ScatterPlan {
  Dims sizes, strides;  // of the indexed leading dims, in elements
};

template <typename I>
Status find_tuples(const TuplePlan& plan, const I* indices, std::int64_t* positions) {
  const auto k = static_cast<std::int64_t>(plan.sizes.size());
  for (std::int64_t u = 0; u < plan.updates; ++u) {
    std::int64_t position = 0;
    for (std::int64_t i = 0; i < k; ++i) {
      const auto given = static_cast<std::int64_t>(indices[u * k + i]);
      const auto d = static_cast<std::size_t>(i);
      const std::int64_t index = given < 0 ? given + plan.sizes[d] : given;
      if (index < 0 || index >= plan.sizes[d]) {
        return index_error("ScatterND", kIndices, u * k + i, given, plan.sizes[d]);
      }
      position += index * plan.strides[d];
    }
    positions[u] = position;
  }
  return ok_status();
}

}  // namespace

PreparedKernel prepare_scatter_nd(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, check_scatter(request));
  const Dims& data = operands.in(0).dims;
  const Dims& indices = operands.in(1).dims;
  MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(1, 1, kMaxRank));
  if (indices.back() > static_cast<std::int64_t>(data.size())) {
    return operands.in_error(1,
                             "dims " + format_dims(indices) + " do not index " + format_dims(data));
  }
  const std::ptrdiff_t k = indices.back();
  Dims expected(indices.begin(), indices.end() - 1);
  expected.insert(expected.end(), data.begin() + k, data.end());
  MEZZO_RETURN_IF_ERROR(operands.expect_in(2, expected));
  const Dims strides = element_strides(operands.in(0));
  TuplePlan plan;
  MEZZO_ASSIGN_OR_RETURN(plan.join, read_join(operands));
  plan.dtype = operands.in(0).dtype;
  plan.data_elems = operands.in(0).elems();
  plan.updates = 1;
  for (std::size_t d = 0; d + 1 < indices.size(); ++d) plan.updates *= indices[d];
  for (auto dim = data.begin() + k; dim != data.end(); ++dim) plan.slice *= *dim;
  plan.sizes.assign(data.begin(), data.begin() + k);
  plan.strides.assign(strides.begin(), strides.begin() + k);
  return make_kernel(
      [plan, dtype = operands.in(1).dtype](const KernelArguments& arguments) {
        MEZZO_RETURN_IF_ERROR(with_index_type(dtype, [&](auto index) {
          using I = typename decltype(index)::Type;
          return find_tuples(plan, static_cast<const I*>(arguments.inputs[1]),
                             static_cast<std::int64_t*>(arguments.workspace));
        }));
        scatter(plan, arguments);
        return ok_status();
      },
      plan.workspace_bytes());
}

// Letters: B the first dim, O the dims up to the axis, L the cache's length, S the update's length,
// I the dims behind: cache[B,O,L,I], update[B,O,S,I], write_indices[B]? -> y: rows s of update go
// to write_indices[b] + s, modulo L in mode circular.
PreparedKernel prepare_tensor_scatter(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands,
                         Operands::check(request, "past_cache:a update:a write_indices?:l -> y:a"));
  MEZZO_RETURN_IF_ERROR(expect_row_major(operands));
  const Dims& cache = operands.in(0).dims;
  MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(0, 2, kMaxRank));
  MEZZO_ASSIGN_OR_RETURN(const std::int64_t axis, operands.axis("axis", -2, cache.size()));
  const auto a = static_cast<std::size_t>(axis);
  if (axis == 0) return operands.error("attribute 'axis' names dim 0, the batch");
  Dims update = cache;
  if (operands.in(1).dims.size() == cache.size())
    update[a] = std::min(cache[a], operands.in(1).dims[a]);
  MEZZO_RETURN_IF_ERROR(operands.expect_in(1, update));
  MEZZO_RETURN_IF_ERROR(operands.expect_in(2, {cache[0]}));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, cache));
  if (operands.in(1).dtype != operands.in(0).dtype ||
      operands.out(0).dtype != operands.in(0).dtype) {
    return operands.error("past_cache, update and result differ in dtype");
  }
  const std::string mode = request.attributes.get_string("mode", "linear");
  if (mode != "linear" && mode != "circular") {
    return operands.error("attribute 'mode' is '" + mode + "', expected linear or circular");
  }
  const AxisView view = view_along(cache, a);
  return make_kernel([view, batch = cache[0], rows = update[a], circular = mode == "circular",
                      row_bytes = static_cast<std::size_t>(view.inner) *
                                  element_bytes(operands.in(0))](const KernelArguments& arguments) {
    const auto* starts = static_cast<const std::int64_t*>(in_buffer(arguments, 2));
    const auto* from = static_cast<const std::byte*>(arguments.inputs[1]);
    auto* y = static_cast<std::byte*>(arguments.outputs[0]);
    for (std::int64_t b = 0; starts != nullptr && b < batch; ++b) {
      if (starts[b] >= 0 && (circular || starts[b] <= view.size - rows)) continue;
      return invalid_argument("TensorScatter, operand 2 'write_indices': element " +
                              std::to_string(b) + " is " + std::to_string(starts[b]) +
                              ", expected 0 to " + std::to_string(view.size - rows));
    }
    const std::size_t all = static_cast<std::size_t>(view.outer * view.size) * row_bytes;
    if (all == 0) return ok_status();
    if (y != arguments.inputs[0]) std::memcpy(y, arguments.inputs[0], all);
    for (std::int64_t o = 0; o < view.outer; ++o) {
      const std::int64_t start = starts == nullptr ? 0 : starts[o / (view.outer / batch)];
      for (std::int64_t s = 0; s < rows; ++s) {
        const std::int64_t row = circular ? (start % view.size + s) % view.size : start + s;
        std::memcpy(y + static_cast<std::size_t>(o * view.size + row) * row_bytes,
                    from + static_cast<std::size_t>(o * rows + s) * row_bytes, row_bytes);
      }
    }
    return ok_status();
  });
}

}  // namespace mezzo::kernels::reference
