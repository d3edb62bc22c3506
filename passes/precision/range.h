// What the range and the precision of the low type forbid, as far as constants and the graph tell:
// see RangeCheck::why_fp32 for the rules.
#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>

#include "compiler/ir/graph.h"
#include "compiler/ops/constants.h"
#include "compiler/ops/op_def.h"
#include "compiler/support/dtype.h"
#include "passes/precision/magnify.h"
#include "passes/precision/reach.h"
#include "passes/precision/slots.h"

namespace mezzo::passes {

struct ConstantRange {
  bool fits = true;        // in the low type, see below
  bool saturates = false;  // a mask: beyond the range, and the largest finite value will do
  std::string why;         // where it does not fit: "holds -3.4e+38, beyond float16's 65504"
};

struct RangeLimits {
  // Constants at or below this that are only chosen, never computed with, mean "never": the low
  // type's lowest finite value stands for them. Exporters write -1e4, -1e9, -3.4e38.
  double mask = -1e4;
  // An activation of which nothing is known counts as this large: what it is multiplied with by
  // constants, or summed to, must stay below the low type's largest value. Activations of trained
  // networks are of order 1 to 10; with 64, sums over 1024 elements and factors of 1024 fit
  // float16.
  double activation = 64;
  // Constants all of whose elements are below this do not fit; 0: the smallest normal value.
  double smallest = 0;
};

// Looks at constants once and remembers.
class RangeCheck {
 public:
  RangeCheck(const Model& model, DType low, RangeLimits limits = {});

  // How a constant (an initializer or a Constant's result, else: fits) stands to the low type:
  //
  // - Finite elements beyond the largest value do not fit, unless they are negative, below
  //   limits.mask, and all users only choose (Where, Max, Clip, Pad, ...): then it saturates. What
  //   adds or multiplies would leave the range the next moment, and stays FP32.
  // - Infinities fit: the low type has them.
  // - A constant all of whose elements are below the smallest normal value (an epsilon, in
  //   whatever shape) does not fit. Single tiny elements among larger ones may vanish: in a sum
  //   they do not matter.
  // - Whole numbers, none of them a mask, of which several are no values of the low type
  //   (positions) do not fit.
  const ConstantRange& check(const Value& value);

  const ReachAnalysis& reach() const { return reach_; }

  // Why the range keeps `node`, whose low form would have `slots`, in FP32; "" if it does not:
  //
  // - a constant operand does not fit; of divisors and statistics every element must
  // - a whole channel of its weights vanishes (vanishing.h)
  // - an operand or result is beyond the range, or vanishes, by what constants, squares,
  //   exponentials or sums make of it (reach.h); contractions are held back by constants and
  //   exponentials alone, as squares that feed weights are ordinary activations
  // - a product of two activations reads a sum too long for the range (a normaliser of attention)
  // - positions and counts that the low type does not tell apart
  // - a mean or a sum (also a product with ones) over more elements than the range has room for
  // - TopK, ArgMax, ArgMin: rounding makes ties
  // - coordinates that must have the type of the data (GridSample before opset 20, RoiAlign)
  // - what magnifies rounding, now or later (magnify.h): a logarithm, large angles, whole steps,
  //   coordinates, differences of moments and of squares
  // - scores that a mask from outside is added to, before their Softmax
  std::string why_fp32(const Node& node, const LowSlots& slots, PrecisionCategory category);

 private:
  ConstantRange measure(const Value& value) const;
  std::string constant_cause(const Node& node, const LowSlots& slots);
  std::string value_cause(const Node& node, const LowSlots& slots, bool contraction) const;
  std::string why_not(const Value& value, bool contraction, bool may_grow) const;
  std::string sum_cause(const Node& node) const;
  std::string describe_limit() const;
  double least() const;
  std::string describe_least() const;

  DType low_;
  FloatFacts facts_;
  RangeLimits limits_;
  ReachAnalysis reach_;
  MomentDifferences moments_;
  std::unordered_set<const Node*> bounded_patterns_;  // whose inner squares may overflow
  std::unordered_map<const Value*, ConstantRange> seen_;
};

}  // namespace mezzo::passes
