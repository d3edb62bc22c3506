// CumSum and CumProd along one axis. Letters, in the order of memory: O outer, D along the axis, I
// inner. Floats are accumulated in double, integers in their own type, wrapping; every result is
// rounded once.
#include "kernels/cpu/convert.h"

namespace mezzo::kernels::cpu {
namespace {

struct Plan {
  const Isa* isa = nullptr;
  DType in = DType::kNone;
  DType out = DType::kNone;
  DType loop = DType::kNone;
  TypedLoop step = nullptr;
  bool product = false, exclusive = false, reverse = false;
  Int outer = 1, length = 1, inner = 1;
};

// In place over a block that continues at `so_far`. Unsigned integers stand for signed ones.
template <typename T>
void scan_block(const Plan& plan, T* block, Int n, T& so_far) {
  for (Int i = 0; i < n; ++i) {
    T& element = block[plan.reverse ? n - 1 - i : i];
    // 1U: two uint16 would be multiplied as int and could overflow.
    const T next = static_cast<T>(plan.product ? 1U * so_far * element : so_far + element);
    element = plan.exclusive ? so_far : next;
    so_far = next;
  }
}

template <typename T>
void scan_line(const Plan& plan, const KernelArguments& arguments, Int first) {
  T so_far = plan.product ? T{1} : T{0};
  const Int blocks = ceil_div(plan.length, kBlock);
  BlockRoom room;
  auto* block = reinterpret_cast<T*>(room.bytes);
  for (Int b = 0; b < blocks; ++b) {
    const Int done = (plan.reverse ? blocks - 1 - b : b) * kBlock;
    const Int count = std::min(kBlock, plan.length - done);
    const void* x = load_block(*plan.isa, plan.in, plan.loop, arguments.inputs[0], first + done,
                               count, room.bytes);
    if (x != room.bytes) std::copy_n(static_cast<const T*>(x), count, block);
    scan_block(plan, block, count, so_far);
    void* y = block_target(plan.out, plan.loop, arguments.outputs[0], first + done, room.bytes);
    if (y != room.bytes) std::copy_n(block, count, static_cast<T*>(y));
    store_block(*plan.isa, plan.out, plan.loop, room.bytes, arguments.outputs[0], first + done,
                count);
  }
}

// `n` columns, n <= kBlock, whose first elements stand at `first`.
void scan_columns(const Plan& plan, const KernelArguments& arguments, Int first, Int n) {
  BlockRoom so_far, room, next;
  const double start = plan.product ? 1.0 : 0.0;
  BlockRoom one;
  plan.isa->cast(DType::kFloat64, plan.loop)(&start, one.bytes, 1);
  fill_elements(plan.loop, one.bytes, so_far.bytes, n);
  const auto bytes = n * elem_bytes(plan.loop);
  for (Int i = 0; i < plan.length; ++i) {
    const Int row = first + (plan.reverse ? plan.length - 1 - i : i) * plan.inner;
    const void* operands[2] = {so_far.bytes, load_block(*plan.isa, plan.in, plan.loop,
                                                        arguments.inputs[0], row, n, room.bytes)};
    plan.step(operands, next.bytes, n, nullptr);
    const std::byte* result = plan.exclusive ? so_far.bytes : next.bytes;
    void* y = block_target(plan.out, plan.loop, arguments.outputs[0], row, room.bytes);
    if (plan.out == plan.loop) std::copy_n(result, bytes, static_cast<std::byte*>(y));
    store_block(*plan.isa, plan.out, plan.loop, result, arguments.outputs[0], row, n);
    std::copy_n(next.bytes, bytes, so_far.bytes);
  }
}

using LineFunction = void (*)(const Plan&, const KernelArguments&, Int);

LineFunction line_function(DType loop) {
  if (loop == DType::kFloat64) return scan_line<double>;
  switch (elem_bytes(loop)) {
    case 1: return scan_line<std::uint8_t>;
    case 2: return scan_line<std::uint16_t>;
    case 4: return scan_line<std::uint32_t>;
    default: return scan_line<std::uint64_t>;
  }
}

}  // namespace

Prepared prepare_scan(const KernelRequest& request, const Isa& isa) {
  const TensorDesc& x = request.inputs[0];
  if (x.layout != Layout::kRowMajor || request.outputs[0].layout != Layout::kRowMajor) {
    return unimplemented("a channels-last operand or result");
  }
  Plan plan;
  plan.isa = &isa;
  plan.in = x.dtype;
  plan.out = request.outputs[0].dtype;
  plan.loop = is_floating(x.dtype) ? DType::kFloat64 : x.dtype;
  plan.product = request.op == "CumProd";
  plan.exclusive = request.attributes.get_int("exclusive", 0) != 0;
  plan.reverse = request.attributes.get_int("reverse", 0) != 0;
  plan.step = isa.typed(plan.product ? ElementwiseOp::kMul : ElementwiseOp::kAdd, plan.loop);
  if (plan.step == nullptr || !is_convertible(plan.out)) return unimplemented("these types");
  Int axis = request.attributes.get_int("axis", 0);
  if (axis < 0) axis += static_cast<Int>(x.dims.size());
  for (std::size_t d = 0; d < x.dims.size(); ++d) {
    const auto place = static_cast<Int>(d);
    (place < axis ? plan.outer : place == axis ? plan.length : plan.inner) *= x.dims[d];
  }
  const int threads = threads_for(plan.outer * plan.length * plan.inner, request.threads);
  return make_kernel(isa, 0, [plan, threads](const KernelArguments& arguments) {
    if (plan.inner == 1) {
      const LineFunction line = line_function(plan.loop);
      parallel_units(plan.outer, threads,
                     [&](Int unit, int) { line(plan, arguments, unit * plan.length); });
      return;
    }
    const Int tiles = ceil_div(plan.inner, kBlock);
    parallel_units(plan.outer * tiles, threads, [&](Int unit, int) {
      const Int column = unit % tiles * kBlock;
      scan_columns(plan, arguments, unit / tiles * plan.length * plan.inner + column,
                   std::min(kBlock, plan.inner - column));
    });
  });
}

}  // namespace mezzo::kernels::cpu
