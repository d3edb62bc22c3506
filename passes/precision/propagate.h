// The classic painting, for comparison with the minimum cut.
#pragma once

#include <vector>

#include "compiler/ops/op_def.h"
#include "passes/precision/min_cut.h"

namespace mezzo::passes {

// 1. Fixed vertices keep their label.
// 2. An infer vertex that a deny (fixed FP32) vertex reaches through infer and clear vertices turns
//    FP32, unless a fixed low vertex lies between.
// 3. Clear and infer vertices next to a low vertex turn low; what is left stays FP32.
// Compare TensorFlow's auto_mixed_precision, whose four passes this follows in spirit.
std::vector<bool> propagate(const CutProblem& problem,
                            const std::vector<PrecisionCategory>& categories);

}  // namespace mezzo::passes
