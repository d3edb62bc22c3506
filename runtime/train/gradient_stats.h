// One pass over the gradients before the optimizer.
#pragma once

#include "kernels/formulas/gradient_stats.h"

namespace mezzo::runtime {

using kernels::clip_factor;
using kernels::GradientStats;

}  // namespace mezzo::runtime
