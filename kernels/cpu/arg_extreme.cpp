// ArgMax and ArgMin along one axis. Letters, in the order of memory: O outer, D along the axis, I
// inner. 16-bit floats are compared as float32.
//
// With I = 1 the extreme of a block is found first, which vectors do well, and its place only where
// the block beats those before it. Otherwise rows of columns are compared side by side.
#include <cmath>

#include "kernels/cpu/convert.h"

namespace mezzo::kernels::cpu {
namespace {

struct Plan {
  const Isa* isa = nullptr;
  DType dtype = DType::kNone;
  DType loop = DType::kNone;
  bool least = false;
  bool last = false;
  Int outer = 1, length = 1, inner = 1;
  TypedReduction extreme{};  // of the loop's type; float32 has its own
  ArgRows rows = nullptr;
};

template <typename T>
bool is_nan(T value) {
  return value != value;
}

template <typename T>
T extreme_of(const Plan& plan, const T* block, Int n) {
  if constexpr (std::is_same_v<T, float>) {
    return plan.isa->reduce_run(plan.least ? ReduceOp::kMin : ReduceOp::kMax, block, n);
  } else {
    T extreme;
    plan.extreme.clear(&extreme, 1);
    plan.extreme.run(block, n, &extreme);
    return extreme;
  }
}

template <typename T>
Int place_in(const Plan& plan, const T* block, Int n, T value) {
  const auto is_it = [&](Int i) {
    return block[i] == value || (is_nan(value) && is_nan(block[i]));
  };
  if (plan.last) {
    for (Int i = n - 1; i > 0; --i) {
      if (is_it(i)) return i;
    }
    return 0;
  }
  for (Int i = 0; i < n; ++i) {
    if (is_it(i)) return i;
  }
  return 0;
}

// The place of the extreme among `length` elements from `first` on.
template <typename T>
Int arg_of_line(const Plan& plan, const void* x, Int first) {
  BlockRoom room;
  T best{};
  Int place = -1;
  for (Int done = 0; done < plan.length; done += kBlock) {
    const Int count = std::min(kBlock, plan.length - done);
    const auto* block = static_cast<const T*>(
        load_block(*plan.isa, plan.dtype, plan.loop, x, first + done, count, room.bytes));
    const T value = extreme_of(plan, block, count);
    const bool beyond = plan.least ? value < best : value > best;
    const bool equal = plan.last && (value == best || (is_nan(value) && is_nan(best)));
    if (place < 0 || beyond || equal || (is_nan(value) && !is_nan(best))) {
      best = value;
      place = done + place_in(plan, block, count, value);
    }
  }
  return place;
}

// `n` columns, n <= kBlock, whose first elements stand at `first`.
void arg_of_columns(const Plan& plan, const void* x, Int first, Int n, Int* place) {
  BlockRoom best, room;
  const auto row = [&](Int i) {
    return load_block(*plan.isa, plan.dtype, plan.loop, x, first + i * plan.inner, n, room.bytes);
  };
  std::copy_n(static_cast<const std::byte*>(row(0)), n * elem_bytes(plan.loop), best.bytes);
  std::fill_n(place, n, Int{0});
  for (Int i = 1; i < plan.length; ++i) plan.rows(row(i), i, best.bytes, place, n);
}

using LineFunction = Int (*)(const Plan& plan, const void* x, Int first);

LineFunction line_function(DType loop) {
  switch (loop) {
    case DType::kFloat32: return arg_of_line<float>;
    case DType::kFloat64: return arg_of_line<double>;
    case DType::kInt8: return arg_of_line<std::int8_t>;
    case DType::kInt16: return arg_of_line<std::int16_t>;
    case DType::kInt32: return arg_of_line<std::int32_t>;
    case DType::kInt64: return arg_of_line<std::int64_t>;
    case DType::kUInt8: return arg_of_line<std::uint8_t>;
    case DType::kUInt16: return arg_of_line<std::uint16_t>;
    case DType::kUInt32: return arg_of_line<std::uint32_t>;
    default: return arg_of_line<std::uint64_t>;
  }
}

}  // namespace

Prepared prepare_arg_extreme(const KernelRequest& request, const Isa& isa) {
  const TensorDesc& x = request.inputs[0];
  if (x.layout != Layout::kRowMajor || request.outputs[0].layout != Layout::kRowMajor) {
    return unimplemented("a channels-last operand or result");
  }
  Plan plan;
  plan.isa = &isa;
  plan.dtype = x.dtype;
  plan.loop = is_low(x.dtype) ? DType::kFloat32 : x.dtype;
  plan.least = request.op == "ArgMin";
  plan.last = request.attributes.get_int("select_last_index", 0) != 0;
  plan.extreme = isa.typed_reduction(plan.least ? ReduceOp::kMin : ReduceOp::kMax, plan.loop);
  plan.rows = isa.arg_rows(plan.loop, plan.least, plan.last);
  if (plan.rows == nullptr) return unimplemented("operands of " + std::string(dtype_name(x.dtype)));
  Int axis = request.attributes.get_int("axis", 0);
  if (axis < 0) axis += static_cast<Int>(x.dims.size());
  for (std::size_t d = 0; d < x.dims.size(); ++d) {
    const auto place = static_cast<Int>(d);
    (place < axis ? plan.outer : place == axis ? plan.length : plan.inner) *= x.dims[d];
  }
  const int threads = threads_for(plan.outer * plan.length * plan.inner, request.threads);
  return make_kernel(isa, 0, [plan, threads](const KernelArguments& arguments) {
    const void* from = arguments.inputs[0];
    auto* to = static_cast<Int*>(arguments.outputs[0]);
    if (plan.inner == 1) {
      const LineFunction line = line_function(plan.loop);
      parallel_units(plan.outer, threads,
                     [&](Int unit, int) { to[unit] = line(plan, from, unit * plan.length); });
      return;
    }
    const Int tiles = ceil_div(plan.inner, kBlock);
    parallel_units(plan.outer * tiles, threads, [&](Int unit, int) {
      const Int column = unit % tiles * kBlock;
      const Int outer = unit / tiles;
      arg_of_columns(plan, from, outer * plan.length * plan.inner + column,
                     std::min(kBlock, plan.inner - column), to + outer * plan.inner + column);
    });
  });
}

}  // namespace mezzo::kernels::cpu
