// Reductions of float32, float16 and bfloat16 over any set of dims: SumTo, Reduce*,
// GlobalAveragePool, ConvGradBias.
//
// If the innermost group of dims is reduced, a unit of work sums runs of memory into one number; if
// it is kept, it adds rows of memory into a row of `tile` numbers. Long sums are cut into chunks
// by rules that see only the shape, so the bits do not depend on the threads; the chunks' partial
// results meet in the workspace and are joined in order.
#include <cmath>

#include "kernels/cpu/reduce_shape.h"

namespace mezzo::kernels::cpu {
namespace {

constexpr Int kRun = 4096;       // numbers per call of the inner loop: keeps chains short
constexpr Int kChunk = 32768;    // numbers per chunk, at least
constexpr Int kMostChunks = 64;  // per result
constexpr Int kTile = 4096;      // columns per unit where the innermost group is kept
constexpr Int kNarrow = 32;      // below so many columns, several rows are taken as one

struct Plan : ReduceShape {
  const Isa* isa = nullptr;
  ReduceOp op = ReduceOp::kSum;
  float factor = 1.0F;  // of the result
  bool root = false;
  bool logarithm = false;
  int threads = 1;
  DType in = DType::kNone;
  DType out = DType::kNone;
  Int chunks = 1;  // of the reduction
  Int tiles = 1;   // of the columns

  ReduceOp join() const {
    return op == ReduceOp::kSumSquare || op == ReduceOp::kSumAbs ? ReduceOp::kSum : op;
  }
  float identity() const {
    if (op == ReduceOp::kMax) return -INFINITY;
    if (op == ReduceOp::kMin) return INFINITY;
    return op == ReduceOp::kProd ? 1.0F : 0.0F;
  }
};

float join_two(const Plan& plan, float a, float b) {
  switch (plan.op) {
    case ReduceOp::kSum:
    case ReduceOp::kSumAbs:
    case ReduceOp::kSumSquare: return a + b;
    case ReduceOp::kProd: return a * b;
    case ReduceOp::kMax: return a > b || std::isnan(a) ? a : b;
    case ReduceOp::kMin: return a < b || std::isnan(a) ? a : b;
  }
  return a;
}

// x[first..first + n), which lie together.
float reduce_together(const Plan& plan, const void* x, Int first, Int n) {
  if (plan.in == DType::kFloat32 && n <= kRun) {
    return plan.isa->reduce_run(plan.op, static_cast<const float*>(x) + first, n);
  }
  const Int step = plan.in == DType::kFloat32 ? kRun : kBlock;
  alignas(64) float room[kBlock];
  float total = plan.identity();
  for (Int done = 0; done < n; done += step) {
    const Int count = std::min(step, n - done);
    const float* part = floats(*plan.isa, plan.in, x, first + done, count, room);
    total = join_two(plan, total, plan.isa->reduce_run(plan.op, part, count));
  }
  return total;
}

// Chunk `chunk` of the result at `base`: elements [begin, end) of rows x run, counted together.
float reduce_runs(const Plan& plan, const void* x, Int base, Int chunk) {
  const Int all = plan.rows * plan.run;
  const Int end = all * (chunk + 1) / plan.chunks;
  float total = plan.identity();
  for (Int begin = all * chunk / plan.chunks; begin < end;) {
    const Int place = begin % plan.run;
    const Int count = std::min(plan.run - place, end - begin);
    const Int first = base + offset_of(plan.reduced, begin / plan.run) + place;
    total = join_two(plan, total, reduce_together(plan, x, first, count));
    begin += count;
  }
  return total;
}

// acc[0..width) takes `rows` rows, `stride` apart. Low types are unpacked four rows at a time, so
// that memory is still read in long runs.
void add_rows(const Plan& plan, const void* x, Int first, Int rows, Int width, Int stride,
              float* acc) {
  if (plan.in == DType::kFloat32) {
    const float* p = static_cast<const float*>(x) + first;
    return plan.isa->reduce_rows(plan.op, p, rows, width, stride, acc);
  }
  alignas(64) float room[4 * kBlock];
  const Int piece = std::min(width, kBlock);
  const Int at_once = 4 * kBlock / piece;
  for (Int r = 0; r < rows; r += at_once) {
    const Int count = std::min(at_once, rows - r);
    for (Int c = 0; c < width; c += piece) {
      const Int n = std::min(piece, width - c);
      const Int start = first + r * stride + c;
      if (stride == n) {
        plan.isa->unpack(plan.in, at(x, start, plan.in), room, count * n);
      } else {
        for (Int k = 0; k < count; ++k) {
          plan.isa->unpack(plan.in, at(x, start + k * stride, plan.in), room + k * n, n);
        }
      }
      plan.isa->reduce_rows(plan.op, room, count, n, n, acc + c);
    }
  }
}

// The same for rows that lie together and are narrower than vectors: several count as one.
void add_narrow_rows(const Plan& plan, const void* x, Int first, Int rows, Int width, float* acc) {
  const Int fold = kBlock / 4 / width;
  alignas(64) float wide[kBlock / 4];
  std::fill_n(wide, fold * width, plan.identity());
  add_rows(plan, x, first, rows / fold, fold * width, fold * width, wide);
  plan.isa->reduce_rows(plan.join(), wide, fold, width, width, acc);
  const Int done = rows / fold * fold;
  add_rows(plan, x, first + done * width, rows - done, width, width, acc);
}

// Chunk `chunk` of `width` columns from `base` on into total.
void reduce_columns(const Plan& plan, const void* x, Int base, Int chunk, Int width, float* total) {
  const Int last = plan.reduced.empty() ? 1 : plan.reduced.back().size;
  const Int stride = plan.reduced.empty() ? plan.columns : plan.reduced.back().stride;
  const Int most = std::max<Int>(kRun * 4 / width, 64);
  const Int end = plan.rows * (chunk + 1) / plan.chunks;
  std::fill_n(total, width, plan.identity());
  for (Int row = plan.rows * chunk / plan.chunks; row < end;) {
    const Int count = std::min({last - row % last, end - row, most});
    const Int first = base + offset_of(plan.reduced, row);
    alignas(64) float part[kTile];
    std::fill_n(part, width, plan.identity());
    if (width < kNarrow && stride == width) {
      add_narrow_rows(plan, x, first, count, width, part);
    } else {
      add_rows(plan, x, first, count, width, stride, part);
    }
    plan.isa->reduce_rows(plan.join(), part, 1, width, width, total);
    row += count;
  }
}

void finish(const Plan& plan, float* values, Int n, void* y, Int first) {
  for (Int i = 0; i < n; ++i) {
    values[i] *= plan.factor;
    if (plan.root) values[i] = std::sqrt(values[i]);
    if (plan.logarithm) values[i] = std::log(values[i]);
  }
  plan.isa->pack(plan.out, values, at(y, first, plan.out), n);
}

// Joins the chunks of results [first, first + n), n <= kTile; partial[chunk][result].
void join_chunks(const Plan& plan, const float* partial, Int results, Int first, Int n, void* y) {
  alignas(64) float total[kTile];
  std::fill_n(total, n, plan.identity());
  plan.isa->reduce_rows(plan.join(), partial + first, plan.chunks, n, results, total);
  finish(plan, total, n, y, first);
}

void run_plan(const Plan& plan, const KernelArguments& arguments) {
  const void* x = arguments.inputs[0];
  void* y = arguments.outputs[0];
  auto* partial = static_cast<float*>(arguments.workspace);
  const Int results = plan.outer * plan.columns;
  if (results == 0) return;
  const int threads = threads_for(results * plan.rows * plan.run, plan.threads);
  // Units of single results would be too small to share out: `group` of them go together.
  const Int group = plan.by_column() ? 1 : std::max<Int>(1, 512 / plan.chunks);
  const Int groups = ceil_div(plan.outer, group);
  parallel_units(groups * plan.tiles * plan.chunks, threads, [&](Int unit, int) {
    const Int chunk = unit % plan.chunks;
    const Int tile = unit / plan.chunks % plan.tiles;
    const Int first = unit / plan.chunks / plan.tiles * group;
    alignas(64) float values[kTile];
    Int count = std::min(group, plan.outer - first);
    if (plan.by_column()) {
      count = std::min(kTile, plan.columns - tile * kTile);
      reduce_columns(plan, x, offset_of(plan.kept, first) + tile * kTile, chunk, count, values);
    } else {
      for (Int i = 0; i < count; ++i) {
        values[i] = reduce_runs(plan, x, offset_of(plan.kept, first + i), chunk);
      }
    }
    const Int place = first * plan.columns + tile * kTile;
    if (plan.chunks == 1) {
      finish(plan, values, count, y, place);
    } else {
      std::copy_n(values, count, partial + chunk * results + place);
    }
  });
  if (plan.chunks == 1) return;
  for (Int first = 0; first < results; first += kTile) {
    join_chunks(plan, partial, results, first, std::min(kTile, results - first), y);
  }
}

// How many chunks: as many as leave every unit some work, none if the results alone give units
// enough.
void choose_chunks(Plan& plan) {
  const Int units = plan.by_column() ? plan.outer * plan.tiles : plan.outer;
  const Int width = plan.by_column() ? std::min(plan.columns, kTile) : 1;
  const Int work = plan.rows * plan.run * width;
  if (units >= kMostChunks || units == 0) return;
  plan.chunks = std::clamp<Int>(work / kChunk, 1, kMostChunks);
}

void choose_op(const KernelRequest& request, Plan& plan) {
  const std::string& name = request.op;
  if (name == "ReduceMax") plan.op = ReduceOp::kMax;
  if (name == "ReduceMin") plan.op = ReduceOp::kMin;
  if (name == "ReduceProd") plan.op = ReduceOp::kProd;
  if (name == "ReduceSumSquare" || name == "ReduceL2") plan.op = ReduceOp::kSumSquare;
  if (name == "ReduceL1") plan.op = ReduceOp::kSumAbs;
  plan.root = name == "ReduceL2";
  plan.logarithm = name == "ReduceLogSum";
  if (name == "ReduceMean" || name == "GlobalAveragePool") {
    plan.factor = static_cast<float>(1.0 / static_cast<double>(plan.rows * plan.run));
  }
}

}  // namespace

Prepared prepare_reduce(const KernelRequest& request, const Isa& isa) {
  if (!is_packed_float(request.inputs[0].dtype)) return prepare_typed_reduce(request, isa);
  MEZZO_RETURN_IF_ERROR(expect_packed_floats(request));
  Plan plan;
  plan.isa = &isa;
  plan.threads = request.threads;
  plan.in = request.inputs[0].dtype;
  plan.out = request.outputs[0].dtype;
  const std::vector<bool> marks = reduced_dims(request);
  MEZZO_RETURN_IF_ERROR(check_order(request, marks));
  if (request.inputs[0].elems() == 0) return unimplemented("an empty operand");
  make_groups(request.inputs[0], marks, plan);
  plan.tiles = plan.by_column() ? ceil_div(plan.columns, kTile) : 1;
  choose_op(request, plan);
  choose_chunks(plan);
  const Int partials = plan.chunks == 1 ? 0 : plan.chunks * plan.outer * plan.columns;
  return make_kernel(isa, static_cast<std::size_t>(partials) * sizeof(float),
                     [plan](const KernelArguments& arguments) { run_plan(plan, arguments); });
}

}  // namespace mezzo::kernels::cpu
