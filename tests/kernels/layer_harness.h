// Runs a row of a layer beside the reference kernel and compares them element by element, with
// bounds that follow from the digits of the dtypes and the length of the sums. The tests are
// written once: onednn_harness.cpp makes them test the oneDNN rows, tests/cuda_on_cpu the CUDA
// rows.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "compiler/support/dtype.h"
#include "kernels/kernel.h"

namespace mezzo::kernels {

// Elements as doubles, in the order of memory.
using Values = std::vector<double>;

using Random = std::mt19937_64;

std::int64_t pick(Random& random, std::int64_t least, std::int64_t most);
DType pick_dtype(Random& random);  // float32, float16 or bfloat16
Layout pick_layout(Random& random);

// `elems` numbers from a normal distribution of mean 0, each a value of `dtype`.
Values random_values(Random& random, const TensorDesc& desc, double deviation = 1);

// What a kernel gave: the values of each result (empty where absent).
struct Outcome {
  std::string implementation;
  std::vector<Values> results;
};

// Prepares and runs. Operands are rounded to their dtypes; results and workspace are filled with
// NaN before, and the bytes behind each buffer are checked for being left alone. A failure is
// reported as a GoogleTest failure.
Outcome run_layer(const KernelRequest& request, const std::vector<Values>& operands);

// The same with all operands but the first given as constants when the kernel is prepared.
Outcome run_layer_on_constants(const KernelRequest& request, const std::vector<Values>& operands);

// The reference with float64 results, on the same (rounded) operands.
Outcome run_reference(const KernelRequest& request, const std::vector<Values>& operands);

// |got - expected| <= half a unit in the last place of the result's dtype, plus `slack` (absolute).
// Where `expected` exceeds the dtype's range, infinity is expected.
void expect_close(const Values& got, const Values& expected, DType dtype, const Values& slack,
                  const std::string& what);

// Bound for sums of `depth` float32 products, whose magnitudes sum to `magnitudes`.
Values sum_slack(const Values& magnitudes, std::int64_t depth);

// The same request and operands without signs: what the reference makes of them are the sums of
// magnitudes that sum_slack() wants. Attributes alpha and beta lose their sign too.
Values magnitudes(KernelRequest request, std::vector<Values> operands);

std::string describe(const KernelRequest& request);

// True if the rows multiply bfloat16: some processors do not.
bool has_bf16();

// check() on a Case made from each seed.
template <typename Case>
void for_seeds(int count, void (Case::*check)()) {
  for (int seed = 0; seed < count; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Case instance(seed);
    (instance.*check)();
  }
}

}  // namespace mezzo::kernels
