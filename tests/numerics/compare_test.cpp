#include "passes/numerics/compare.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/numerics/numeric_case.h"
#include "tests/support/status_test.h"

namespace mezzo::test {
namespace {

using numerics::CompareOptions;
using numerics::Comparison;
using numerics::TensorComparison;

constexpr const char* kOverflow =
    "g (float[1,2] x) => (float[1,2] y)\n<float k = {300}, float back = {0.0001}>\n"
    "{ [sq] a = Mul (x, x)\n[up] b = Mul (a, k)\n[relu] c = Relu (b)\n[down] y = Mul (c, back) }";

Comparison compare(const std::string& text, const std::vector<RuntimeValue>& inputs,
                   const CompareOptions& options = {}) {
  const auto a = prepared(text), b = converted(text, naive_policy());
  const numerics::ModelMatch match = value_or_die(numerics::match_models(*a, *b));
  Comparison found = value_or_die(numerics::compare_models(*a, *b, match, inputs, options));
  // The models go: names are what tests ask for.
  for (TensorComparison& row : found.tensors) row.a = nullptr;
  return found;
}

TEST(Compare, TheFirstTensorThatDeparts) {
  const auto a = prepared(kOverflow), b = converted(kOverflow, naive_policy());
  const numerics::ModelMatch match = value_or_die(numerics::match_models(*a, *b));
  const Comparison found = value_or_die(
      numerics::compare_models(*a, *b, match, {floats({1, 2}, {20, 1})}, CompareOptions{}));
  EXPECT_TRUE(std::isinf(found.output_error()));
  const TensorComparison* first = found.first_departure(0.02);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->b->name(), "b");
  EXPECT_EQ(first->range_a.highest, 120000);
  EXPECT_EQ(found.runs, 2U);
  EXPECT_EQ(found.left_over, 0U);
  EXPECT_EQ(found.nonfinite_a, 0U);
  EXPECT_EQ(found.nonfinite_b, 4U) << "b, c, y in FP16 and y: one element each";
}

TEST(Compare, TensorsThatDoNotFitTheBudgetTakeFurtherRuns) {
  const std::vector<RuntimeValue> inputs = {floats({1, 2}, {20, 1})};
  const Comparison whole = compare(kOverflow, inputs);
  CompareOptions tight;
  tight.budget_bytes = 1;  // one tensor a round
  const Comparison pieces = compare(kOverflow, inputs, tight);
  EXPECT_EQ(pieces.runs, 8U) << "four tensors of the first model";
  ASSERT_EQ(pieces.tensors.size(), whole.tensors.size());
  for (std::size_t i = 0; i < whole.tensors.size(); ++i) {
    EXPECT_EQ(pieces.tensors[i].difference.error, whole.tensors[i].difference.error);
    EXPECT_EQ(pieces.tensors[i].times, whole.tensors[i].times);
  }
  tight.most_runs = 4;
  const Comparison stopped = compare(kOverflow, inputs, tight);
  EXPECT_EQ(stopped.runs, 4U);
  EXPECT_EQ(stopped.left_over, 2U);
}

TEST(Compare, IterationsOneByOne) {
  const std::string loop =
      "g (int64 n, float[1] s) => (float[1] y)\n"
      "{ [loop] y = Loop <body = b (int64 i, bool c, float[1] t) => (bool d, float[1] u)\n"
      "{ d = Identity (c)\n[twice] u = Add (t, t) }> (n, \"\", s) }";
  const auto a = prepared(loop), b = converted(loop, naive_policy());
  const numerics::ModelMatch match = value_or_die(numerics::match_models(*a, *b));
  const Comparison found = value_or_die(numerics::compare_models(
      *a, *b, match, {integers({}, {20}), floats({1}, {1})}, CompareOptions{}));
  const TensorComparison* first = found.first_departure(0.02);
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->b->name(), "u");
  EXPECT_EQ(first->times, 20U);
  EXPECT_EQ(first->iteration, 15U) << "2^16 is the first beyond 65504";
}

}  // namespace
}  // namespace mezzo::test
