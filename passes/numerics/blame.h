// Which nodes of a converted model are to blame for its error: the smallest set found whose return
// to FP32 brings the outputs within a tolerance.
//
// 1. Every lowered node is run by itself on the operands that the FP32 model gives it, in its low
//    precision: its own error, free of what others did before it. Infinite if it leaves the range.
// 2. Nodes go back to FP32 in the order of these errors, twice as many each time, until the outputs
//    are right (the original with the rest lowered is run, see lower_all_but).
// 3. From this set parts are taken out again, halves first, single nodes last, as long as the
//    outputs stay right. What is left is minimal: no node of it can be left out.
//
// Every try is one run of the graph; most_runs bounds them all.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "compiler/interpreter/interpreter.h"
#include "passes/numerics/difference.h"
#include "passes/numerics/lowered.h"

namespace mezzo::numerics {

struct BlameOptions {
  double tolerance = 2e-2;
  int threads = 1;
  std::uint64_t most_iterations = 1'000'000;
  std::uint64_t most_runs = 100;
  std::function<void()> ran;  // told after each run; may be null
};

struct BlamedNode {
  const LoweredNode* lowered = nullptr;
  double own_error = 0;  // of step 1; NaN: not measured (a node with graphs inside)
  std::string operands;  // their ranges, of the worst time: "'x' -3 to 4, 'w' 0 to 1"
  std::string result;    // what it makes in FP32 and low: "1.7e+05 becomes inf"
};

struct Blame {
  enum class Outcome : std::uint8_t {
    kFound,
    kNothingLow,     // the other model lowers no node of this one
    kNotReproduced,  // lowering the same nodes here brings no such error: the cause lies elsewhere
    kNotEnough,      // even with all of them in FP32 the outputs are off
    kOutOfRuns,      // before any set was found that is enough
  };
  Outcome outcome = Outcome::kFound;
  DType low = DType::kNone;       // of the lowered nodes
  std::vector<BlamedNode> nodes;  // in the order of the graph
  bool minimal = false;           // else the runs were used up while parts were taken out
  std::uint64_t runs = 0;
  std::size_t candidates = 0;
  double error_before = 0, error_after = 0;  // of the outputs, lowered here
};

// `inputs` and `outputs` are those of `a`, which prepare() has seen; `lowering` says what to try.
StatusOr<Blame> find_blame(const Model& a, const Lowering& lowering,
                           const std::vector<RuntimeValue>& inputs,
                           const std::vector<RuntimeValue>& outputs, const BlameOptions& options);

}  // namespace mezzo::numerics
