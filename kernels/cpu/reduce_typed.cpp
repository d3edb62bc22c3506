// Reductions of doubles, integers and truth values over any set of dims.
//
// The results are shared out among threads, in tiles of columns where the innermost dims are kept;
// one result's sum is never split, so bits do not depend on the threads. Long sums of doubles are
// made of partial sums of kRun elements.
#include <cmath>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/reduce_shape.h"

namespace mezzo::kernels::cpu {
namespace {

constexpr Int kRun = 4096;
constexpr Int kTile = kBlock;  // results per unit of work

struct Plan : ReduceShape {
  const Isa* isa = nullptr;
  TypedReduction functions{};
  TypedReduction join{};  // of partial results, in the accumulator's type
  DType in = DType::kNone;
  DType out = DType::kNone;
  bool mean = false;
  bool root = false;
  bool logarithm = false;
  int threads = 1;
};

// The result at `base`.
void reduce_one(const Plan& plan, const void* x, Int base, void* acc) {
  for (Int row = 0; row < plan.rows; ++row) {
    const Int first = base + offset_of(plan.reduced, row);
    for (Int done = 0; done < plan.run; done += kRun) {
      const void* from = at(x, first + done, plan.in);
      plan.functions.run(from, std::min(kRun, plan.run - done), acc);
    }
  }
}

// `width` columns from `base` on.
void reduce_columns(const Plan& plan, const void* x, Int base, Int width, void* acc) {
  const Int last = plan.reduced.empty() ? 1 : plan.reduced.back().size;
  const Int stride = plan.reduced.empty() ? plan.columns : plan.reduced.back().stride;
  for (Int row = 0; row < plan.rows;) {
    const Int count = std::min({last - row % last, plan.rows - row, kRun});
    const void* from = at(x, base + offset_of(plan.reduced, row), plan.in);
    BlockRoom part;
    plan.functions.clear(part.bytes, width);
    plan.functions.rows(from, count, width, stride, part.bytes);
    plan.join.rows(part.bytes, 1, width, width, acc);
    row += count;
  }
}

void finish(const Plan& plan, void* acc, Int n, void* y, Int first) {
  const Int count = plan.rows * plan.run;
  if (plan.functions.accumulator == DType::kFloat64) {
    auto* values = static_cast<double*>(acc);
    for (Int i = 0; i < n; ++i) {
      if (plan.mean) values[i] /= static_cast<double>(count);
      if (plan.root) values[i] = std::sqrt(values[i]);
      if (plan.logarithm) values[i] = std::log(values[i]);
    }
  } else if (plan.mean) {
    auto* values = static_cast<std::int64_t*>(acc);
    for (Int i = 0; i < n; ++i) values[i] /= count;
  } else if (plan.in == DType::kBool) {
    auto* values = static_cast<std::uint8_t*>(acc);
    for (Int i = 0; i < n; ++i) values[i] = static_cast<std::uint8_t>(values[i] != 0);
  }
  const DType loop = plan.functions.accumulator;
  if (plan.out == loop) {
    std::copy_n(static_cast<const char*>(acc), n * elem_bytes(loop), at(y, first, loop));
  } else {
    store_block(*plan.isa, plan.out, loop, acc, y, first, n);
  }
}

void run_plan(const Plan& plan, const KernelArguments& arguments) {
  const void* x = arguments.inputs[0];
  void* y = arguments.outputs[0];
  const Int results = plan.outer * plan.columns;
  if (results == 0) return;
  const int threads = threads_for(results * plan.rows * plan.run, plan.threads);
  const Int tiles = plan.by_column() ? ceil_div(plan.columns, kTile) : 1;
  const Int group = plan.by_column() ? 1 : std::clamp<Int>(plan.outer / 64, 1, kTile);
  const Int size = elem_bytes(plan.functions.accumulator);
  parallel_units(ceil_div(plan.outer, group) * tiles, threads, [&](Int unit, int) {
    const Int tile = unit % tiles * kTile;
    const Int first = unit / tiles * group;
    BlockRoom room;
    Int count = std::min(group, plan.outer - first);
    if (plan.by_column()) count = std::min(kTile, plan.columns - tile);
    plan.functions.clear(room.bytes, count);
    if (plan.by_column()) {
      reduce_columns(plan, x, offset_of(plan.kept, first) + tile, count, room.bytes);
    } else {
      for (Int i = 0; i < count; ++i) {
        reduce_one(plan, x, offset_of(plan.kept, first + i), room.bytes + i * size);
      }
    }
    finish(plan, room.bytes, count, y, first * plan.columns + tile);
  });
}

Status choose_op(const KernelRequest& request, Plan& plan) {
  const std::string& name = request.op;
  ReduceOp op = ReduceOp::kSum;
  if (name == "ReduceMax") op = ReduceOp::kMax;
  if (name == "ReduceMin") op = ReduceOp::kMin;
  if (name == "ReduceProd") op = ReduceOp::kProd;
  if (name == "ReduceSumSquare" || name == "ReduceL2") op = ReduceOp::kSumSquare;
  if (name == "ReduceL1") op = ReduceOp::kSumAbs;
  plan.mean = name == "ReduceMean" || name == "GlobalAveragePool";
  plan.root = name == "ReduceL2";
  plan.logarithm = name == "ReduceLogSum";
  const bool integers = !is_floating(plan.in);
  if (integers && (plan.root || plan.logarithm)) {
    return unimplemented("roots and logarithms of integers");
  }
  if (plan.mean && (plan.in == DType::kInt64 || plan.in == DType::kUInt64)) {
    return unimplemented("means of 64 bits, whose sum may need more");
  }
  plan.functions = plan.isa->typed_reduction(op, plan.in);
  if (plan.functions.run == nullptr) {
    return unimplemented("operands of " + std::string(dtype_name(plan.in)));
  }
  const bool sums = op == ReduceOp::kSumSquare || op == ReduceOp::kSumAbs;
  plan.join = plan.isa->typed_reduction(sums ? ReduceOp::kSum : op, plan.functions.accumulator);
  return ok_status();
}

}  // namespace

Prepared prepare_typed_reduce(const KernelRequest& request, const Isa& isa) {
  Plan plan;
  plan.isa = &isa;
  plan.threads = request.threads;
  plan.in = request.inputs[0].dtype;
  plan.out = request.outputs[0].dtype;
  MEZZO_RETURN_IF_ERROR(choose_op(request, plan));
  const std::vector<bool> marks = reduced_dims(request);
  MEZZO_RETURN_IF_ERROR(check_order(request, marks));
  if (request.inputs[0].elems() == 0) return unimplemented("an empty operand");
  make_groups(request.inputs[0], marks, plan);
  return make_kernel(isa, 0,
                     [plan](const KernelArguments& arguments) { run_plan(plan, arguments); });
}

}  // namespace mezzo::kernels::cpu
