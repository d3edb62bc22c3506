// Reductions over a set of dims: what is joined, in which order, and how the result follows.
//
// The dims of x, in the order of its memory, form groups that are kept or reduced as a whole. If
// the innermost group is reduced, a result is made of lines of memory, which a few threads or a
// block share; if it is kept, rows of memory are added up column by column. Where results are few,
// the reduction is cut into chunks by rules that see only the shape; their partial results are
// joined in order. Nothing depends on the device.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/support/status.h"
#include "kernels/cuda/index.h"

namespace mezzo::kernels::cuda {

inline constexpr int kReduceThreads = 256;  // of a block
inline constexpr int kReduceVector = 8;     // neighbours that a thread reads at once

enum class ReduceOp : std::int32_t {
  kSum,
  kSumSquare,
  kSumAbs,
  kSumPower,  // abs(x)^power
  kSumExp,    // exp(x - shift of the result)
  kProd,
  kMax,
  kMin,        // NaN wins
  kMaxNumber,  // NaN is passed over
  kMinNumber,
};

// What follows for every result.
enum class ReduceEnd : std::int32_t {
  kNone,
  kMean,  // divided by the number of elements
  kRoot,
  kLog,
  kPowerRoot,  // to the power 1 / power
  kLogShift,   // log, plus the shift
};

enum class Accumulator : std::uint8_t { kFloat, kDouble, kInteger };

struct ReducePlan {
  StridedIndex<2> kept;     // all kept groups but `columns`; views x and y
  StridedIndex<1> reduced;  // all reduced groups but `run`
  Int columns = 1;          // innermost group of x, kept; by line: 1
  Int run = 1;              // innermost group of x, reduced; by column: 1
  std::int32_t by_column = 0;
  Int y_step = 1;   // in y, from column to column
  Int results = 1;  // kept.elems columns
  Int count = 1;    // elements of a result

  Divisor units;    // by line: vectors of a run; by column: tiles of columns
  Int parts = 1;    // by line: vectors of a result; by column: rows
  Int threads = 1;  // by line: that share a result; by column: side by side
  Divisor chunks;
  std::int32_t is_wide = 0;  // whole vectors, each at a multiple of its size

  ReduceOp op = ReduceOp::kSum;
  ReduceEnd end = ReduceEnd::kNone;
  double power = 2.0;
  Int extreme = 0;         // integers: what a maximum or minimum starts from
  std::int32_t flips = 0;  // uint64: compared with the sign bit turned over
  DType x = DType::kNone, y = DType::kNone;
  Accumulator accumulator = Accumulator::kFloat;

  std::size_t accumulator_bytes() const { return accumulator == Accumulator::kFloat ? 4 : 8; }
  // Room for the chunks' partial results.
  std::size_t partial_bytes() const {
    return chunks.value() == 1
               ? 0
               : static_cast<std::size_t>(chunks.value() * results) * accumulator_bytes();
  }
};

// The groups and chunks, for a mark per dim of x and the strides of y along those not marked.
void shape_reduction(const TensorDesc& x, const std::vector<bool>& reduced, const Dims& y_strides,
                     ReducePlan& plan);

// x -> y. `partial` has room for partial_bytes(). `shifts`: of every result, in accumulators, for
// the ops that use them. `y`: of dtype plan.y, or with `raw` accumulators in the order of results.
Status run_reduction(const ReducePlan& plan, const void* x, void* y, void* partial,
                     const void* shifts, bool raw, void* stream);

}  // namespace mezzo::kernels::cuda
