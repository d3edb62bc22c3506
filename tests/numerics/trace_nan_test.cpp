#include "passes/numerics/trace_nan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/numerics/numeric_case.h"

namespace mezzo::test {
namespace {

using numerics::NanTracer;
using testing::HasSubstr;

NanTracer trace(const std::string& graph, std::vector<RuntimeValue> inputs) {
  NanTracer tracer;
  observe(*prepared(graph), std::move(inputs),
          [&](const NodeRun& run) { return tracer.observe(run); });
  return tracer;
}

TEST(TraceNan, NamesTheFirstAndWhatItReads) {
  const NanTracer found = trace(
      "g (float[3] x) => (float[3] y) { [sub] d = Sub (x, x)\n[div] q = Div (x, d)\n"
      "[after] y = Exp (q) }",
      {floats({3}, {1, 0, -2})});
  ASSERT_TRUE(found.first());
  EXPECT_EQ(found.first()->text(),
            "node 'div' (Div) makes NaN and infinities in 3 of 3 elements of 'q'; it reads 'x' -2 "
            "to 1, 'd' all 0");
  EXPECT_FALSE(found.first_nan());
  EXPECT_EQ(found.others(), 0U) << "'after' only passes on what it read";
}

TEST(TraceNan, InfinitiesThatTheModelSpellsOutAreMeant) {
  const NanTracer masked = trace(
      "g (bool[2] m, float[2] x) => (float[2] y) <float never = {-inf}>\n"
      "{ [where] s = Where (m, x, never)\n[soft] y = Softmax (s) }",
      {truths({2}, {1, 0}), floats({2}, {1, 2})});
  EXPECT_FALSE(masked.first());
}

TEST(TraceNan, ANanOutOfInfinitiesIsNamedToo) {
  const NanTracer found = trace(
      "g (float[2] x) => (float[2] y)\n"
      "{ [exp] e = Exp (x)\n[other] f = Exp (x)\n[sub] y = Sub (e, f) }",
      {floats({2}, {1000, 1})});
  ASSERT_TRUE(found.first());
  EXPECT_EQ(found.first()->node, "exp");
  EXPECT_EQ(found.first()->infinities, 1U);
  ASSERT_TRUE(found.first_nan());
  EXPECT_EQ(found.first_nan()->node, "sub");
  EXPECT_EQ(found.others(), 1U);
}

TEST(TraceNan, InLoops) {
  const NanTracer found = trace(
      "g (int64 n, float[1] s) => (float[1] y)\n"
      "{ [loop] y = Loop <body = b (int64 i, bool c, float[1] t) => (bool d, float[1] u)\n"
      "{ d = Identity (c)\n[square] u = Mul (t, t) }> (n, \"\", s) }",
      {integers({}, {10}), floats({1}, {10})});
  ASSERT_TRUE(found.first());
  EXPECT_EQ(found.first()->node, "loop > square");
  EXPECT_EQ(found.first()->time, 5U) << "10^64";
  EXPECT_THAT(found.first()->text(), HasSubstr("in iteration 5"));
}

TEST(TraceNan, Inputs) {
  const auto model = prepared("g (float[2] x) => (float[2] y) { y = Relu (x) }");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(numerics::nonfinite_inputs(*model->graph, {floats({2}, {nan, 1})}),
              testing::ElementsAre("input 'x' is not finite: all 1, 1 NaN"));
  EXPECT_TRUE(numerics::nonfinite_inputs(*model->graph, {floats({2}, {0, 1})}).empty());
}

}  // namespace
}  // namespace mezzo::test
