// Operators of com.microsoft taken apart, against ONNX Runtime (contrib_cases.py).
#include <gtest/gtest.h>

#include <cmath>

#include "compiler/support/dtype.h"
#include "passes/cleanup/decompose.h"
#include "passes/cleanup/fold_constants.h"
#include "tests/ops/contrib_cases.h"
#include "tests/ops/decomposed.h"
#include "tests/support/status_test.h"

namespace mezzo::test {
namespace {

// Quantised results may differ by one: there the sum is rounded to float first.
void expect_results(const Doubles& got, const OperandSample& expected) {
  ASSERT_EQ(got.size(), expected.values.size());
  double largest = 1.0;
  for (const double value : expected.values) largest = std::max(largest, std::fabs(value));
  const double bound = is_floating(expected.dtype)       ? 3e-4 * largest
                       : dtype_bits(expected.dtype) == 8 ? 1.0
                                                         : 0.0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], expected.values[i], bound) << "element " << i;
  }
}

// As decomposed(), but only results that a case has are asked for.
StatusOr<BuiltSample> decomposed_case(const ContribCase& c) {
  MEZZO_ASSIGN_OR_RETURN(BuiltSample built, build_sample(c.sample, 5));
  Graph& graph = *built.model.graph;
  for (std::size_t i = 0; i < c.results.size(); ++i) {
    if (!c.results[i].absent) graph.add_output(built.node->result(i));
  }
  passes::PassContext ctx;
  for (int round = 0; round < 2; ++round) {
    MEZZO_RETURN_IF_ERROR(passes::decompose(built.model, ctx).status());
    MEZZO_RETURN_IF_ERROR(passes::fold_constants(built.model, ctx).status());
  }
  MEZZO_RETURN_IF_ERROR(interpret(graph, built.inputs));
  return built;
}

TEST(DecomposeContrib, EqualsOnnxRuntime) {
  const std::vector<ContribCase> cases = read_contrib_cases();
  ASSERT_GT(cases.size(), 60U);
  for (const ContribCase& c : cases) {
    SCOPED_TRACE(c.title);
    const auto built = decomposed_case(c);
    ASSERT_THAT(built, IsOk());
    std::size_t output = 0;
    for (const OperandSample& result : c.results) {
      if (result.absent) continue;
      const Value* value = built->model.graph->outputs()[output++];
      expect_results(built->inputs.at(value).to_doubles(), result);
    }
  }
}

// What the rules do not cover stays as it is and says so.
TEST(DecomposeContrib, LeavesOtherFormsAlone) {
  const auto packed = decomposed({.op = "GroupNorm",
                                  .operands = {f({2, 3, 8}), f({8}), f({8})},
                                  .attributes = {{"groups", std::int64_t{4}}},
                                  .domain = "com.microsoft"});
  EXPECT_THAT(packed, FailsWith(StatusCode::kUnimplemented, testing::HasSubstr("GroupNorm")));
}

}  // namespace
}  // namespace mezzo::test
