// Reductions as two loops: over the results, and over the elements of one result.
#pragma once

#include "kernels/reference/loop.h"

namespace mezzo::kernels::reference {

// The results as an outer loop (views: x, y), the elements of one result as an inner loop (x).
struct Nest {
  Loop<2> outer;
  Loop<1> inner;
  std::int64_t count = 1;  // elements per result
};

// `reduced[d]`: dim d of x is summed away. `y_strides` of the kept dims, in order.
Nest make_nest(const TensorDesc& x, const std::vector<bool>& reduced, const Dims& y_strides);

// Strides in y of the dims kept. With keepdims y has the rank of x.
Dims kept_strides(const TensorDesc& y, const std::vector<bool>& reduced);

}  // namespace mezzo::kernels::reference
