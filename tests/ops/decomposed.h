// Shared by the tests of decompositions.
#pragma once

#include <string>
#include <vector>

#include "compiler/ops/decompose.h"
#include "tests/ops/samples.h"

namespace mezzo::test {

using Ints = std::vector<std::int64_t>;
using Doubles = std::vector<double>;

// A sample with graph outputs, decomposed as for training until every node has a kernel.
struct Decomposed {
  BuiltSample built;

  Doubles run(std::size_t output = 0);
  Doubles input(std::size_t index);
};
StatusOr<Decomposed> decomposed(const OpSample& sample);

void expect_near(const Doubles& got, const Doubles& expected, double tolerance = 1e-6);

// A recurrent layer of these sizes.
constexpr std::int64_t kT = 3, kB = 2, kI = 2, kH = 3;
OpSample recurrent(const std::string& op, bool bidirectional, std::int64_t linear_before_reset = 0);

}  // namespace mezzo::test
