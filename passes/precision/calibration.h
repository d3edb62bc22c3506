// Ranges measured while the FP32 graph ran on samples, and what they forbid.
//
// Measured numbers are evidence of danger, not of safety: they keep nodes in FP32 that constants
// and the graph alone would let run low, and never the other way round.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/support/dtype.h"
#include "passes/pass.h"
#include "passes/precision/policy.h"
#include "passes/precision/reach.h"
#include "passes/precision/slots.h"

namespace mezzo::passes {

// Of all elements that a tensor held, over all samples and iterations.
struct TensorRange {
  bool any_finite = false;             // without one the next four numbers say nothing
  double lowest = 0, highest = 0;      // of finite elements
  double lowest_unmasked = 0;          // of those above the policy's threshold for masks
  double smallest_nonzero = 0;         // of magnitudes; 0: all are zero
  bool whole = true, inexact = false;  // all are whole numbers; some not a value of the low type
  std::uint64_t elems = 0, infinities = 0, nans = 0;

  double largest() const;  // finite magnitude
  void merge(const TensorRange& other);
  bool operator==(const TensorRange&) const = default;
};

// What the sums inside a contraction or reduction can come to on the way, in whatever order they
// are taken: the largest sum of the magnitudes of what one result adds up.
struct SumRange {
  double most = 0;
  double depth = 0;  // how many elements or products one result sums up
};

struct Calibration {
  std::vector<std::string> sources;  // files
  std::uint64_t samples = 0;         // runs of the graph
  // Keys are measured_key(). FP32 tensors alone.
  std::map<std::string, TensorRange> tensors;
  std::map<std::string, SumRange> sums;  // by the node's first result

  const TensorRange* find(const Value& value) const;
};

// Scope and name: "loop1 > x". The same in every copy of the model whose nodes keep their names.
std::string measured_key(const Value& value);

// The rules. The calibration must outlive it.
class CalibrationCheck {
 public:
  CalibrationCheck(const Calibration& measured, DType low, const PrecisionPolicy& policy);

  // Why the samples keep `node`, whose low form would have `slots`, in FP32; "" if they do not:
  //
  // - an operand or result comes near the largest value: within the policy's `headroom`
  // - all of it is below the smallest normal value, so that digits or everything is lost; gradients
  //   aside, which the loss scale lifts
  // - a divisor, or what a logarithm or root reads, holds single elements as small as that
  // - whole numbers that the low type does not tell apart, unless a contraction reads them
  // - sums of a contraction or reduction pass the largest value on the way
  std::string why_fp32(const Node& node, const LowSlots& slots, const ReachAnalysis& reach) const;
  // The first of these for a value that only passes by (the border of a Loop, a graph output).
  std::string why_not(const Value& value, const ReachAnalysis& reach) const;

 private:
  std::string too_large(const Value& value, const TensorRange& range, const Reach& reach) const;
  std::string too_small(const Value& value, const TensorRange& range) const;
  std::string operand_cause(const Node& node, std::size_t index) const;
  std::string sum_cause(const Node& node) const;

  const Calibration& measured_;
  DType low_;
  FloatFacts facts_;
  CalibrationThresholds thresholds_;
};

// Writes ctx.records.calibration: what the samples showed, and which nodes run otherwise than
// `without` them (decisions of the same nodes in the same order).
void record_calibration(const Model& model, PassContext& ctx,
                        const std::vector<NodeDecision>& without);

}  // namespace mezzo::passes
