// The extremes of a tensor at run time.
#pragma once

#include <string>

#include "compiler/interpreter/value.h"
#include "passes/precision/calibration.h"

namespace mezzo::numerics {

struct RangeOptions {
  DType low = DType::kFloat16;  // for TensorRange::inexact
  double mask = -1e4;           // elements at or below count as masked
};

// One pass over the elements, a second where some are not finite or masked. A tensor that is not
// numeric has no elements here.
passes::TensorRange range_of(const HostTensor& tensor, const RangeOptions& options = {});

// "-3.2 to 7.1e+04", with what is not finite: "all 0", "0 to 1, 3 NaN", "nothing finite, 8 inf".
std::string range_text(const passes::TensorRange& range);

// A number in six digits: "0.1", "170154", "-3.40282e+38", "inf", "NaN".
std::string number_text(double value);

}  // namespace mezzo::numerics
