// Constants against the range of the low type.
#pragma once

#include <string>
#include <unordered_map>

#include "compiler/ir/graph.h"
#include "compiler/support/dtype.h"

namespace mezzo::passes {

struct ConstantRange {
  double largest = 0;           // of finite magnitudes
  double smallest_nonzero = 0;  // 0: all are zero
  bool has_infinity = false;
  bool fits = true;        // in the low type, see below
  bool saturates = false;  // a mask: beyond the range, and the largest finite value will do
  std::string why;         // where it does not fit: "holds -3.4e+38, beyond float16's 65504"
};

// Looks at the elements of FP32 constants once and remembers.
class RangeCheck {
 public:
  explicit RangeCheck(DType low) : low_(low) {}

  // How `value` (an initializer or a Constant's result, else: fits) stands to the low type, as an
  // operand of `user`. A value of large negative magnitude that is added, or chosen by Where, only
  // masks and saturates. A tiny scalar (an epsilon) that would vanish does not fit; tiny elements
  // of a weight tensor may.
  const ConstantRange& check(const Value& value);

 private:
  ConstantRange measure(const Value& value) const;

  DType low_;
  std::unordered_map<const Value*, ConstantRange> seen_;
};

// The data of an initializer that no caller can override, or of a Constant node's result; else
// null.
TensorRef constant_data(const Value& value);

}  // namespace mezzo::passes
