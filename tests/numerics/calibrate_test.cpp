// What samples keep in FP32, rule by rule, with a near miss of each that runs low.
#include "passes/numerics/calibrate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/numerics/numeric_case.h"
#include "tests/support/status_test.h"

namespace mezzo::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Scores of an attention: both products may run low by anything that the graph tells.
constexpr const char* kScores =
    "g (float[1,2,2] q, float[1,2,2] k) => (float[1,2,2] y)\n<float s = {1000}>\n"
    "{ [scores] a = MatMul (q, k)\n[scale] b = Div (a, s)\n[last] y = MatMul (b, k) }";

std::vector<RuntimeValue> scores(float q, float k) {
  return {floats({1, 2, 2}, {q, q, q, q}), floats({1, 2, 2}, {k, k, k, k})};
}

bool low(const Records& records, const std::string& node) {
  return is_low(decision_of(records, node).dtype);
}

void expect_kept(const Records& records, const std::string& node, const std::string& cause) {
  const NodeDecision& decision = decision_of(records, node);
  EXPECT_EQ(decision.dtype, DType::kFloat32) << decision.cause;
  EXPECT_EQ(decision.rule, Rule::kCalibration) << decision.cause;
  EXPECT_THAT(decision.cause, HasSubstr(cause));
}

TEST(Calibrate, WhatPassesTheLargestValue) {
  const Records far = calibrated(kScores, {scores(1000, 50)});  // 100000
  expect_kept(far, "scores", "'a' reaches 1e+05 on the samples, beyond float16's 65504");
  expect_kept(far, "scale", "operand 'a' reaches 1e+05");
  EXPECT_TRUE(low(far, "last"));
  EXPECT_TRUE(low(calibrated(kScores, {scores(100, 100)}), "scores"));  // 20000
}

TEST(Calibrate, WhatComesNear) {
  const Records near = calibrated(kScores, {scores(400, 50)});  // 40000
  expect_kept(near, "scores", "'a' reaches 40000 on the samples, within a factor of 2 of");
  passes::PrecisionPolicy policy;
  policy.calibration.headroom = 1;
  EXPECT_TRUE(low(calibrated(kScores, {scores(400, 50)}, policy), "scores"));
}

TEST(Calibrate, AnySampleCounts) {
  const Records records = calibrated(kScores, {scores(1, 1), scores(1000, 50), scores(2, 2)});
  expect_kept(records, "scores", "reaches 1e+05");
  EXPECT_EQ(records.calibration->samples, 3U);
}

TEST(Calibrate, Bf16HasTheRange) {
  passes::PrecisionPolicy policy;
  policy.low = DType::kBFloat16;
  const Records records = calibrated(kScores, {scores(1000, 50)}, policy);
  EXPECT_TRUE(low(records, "scores"));
  EXPECT_TRUE(records.calibration->changes.empty());
}

TEST(Calibrate, TheReportTellsWhatItChanged) {
  const Records records = calibrated(kScores, {scores(1000, 50)});
  ASSERT_TRUE(records.calibration);
  const CalibrationRecord& found = *records.calibration;
  EXPECT_EQ(found.tensors, 5U);
  ASSERT_EQ(found.near_limit.size(), 1U);
  EXPECT_EQ(found.near_limit[0].tensor, "a");
  EXPECT_EQ(found.near_limit[0].highest, 100000);
  EXPECT_EQ(found.near_limit[0].note, "reaches 1e+05 on the samples, beyond float16's 65504");
  ASSERT_GE(found.changes.size(), 1U);
  EXPECT_EQ(found.changes[0].node, "scores");
  EXPECT_EQ(found.changes[0].before, DType::kFloat16);
  EXPECT_EQ(found.changes[0].after, DType::kFloat32);
  EXPECT_GE(found.avoided_by_bf16, 1U);
  const Records none = calibrated(kScores, {scores(1, 1)});
  EXPECT_TRUE(none.calibration->changes.empty());
  EXPECT_TRUE(none.calibration->near_limit.empty());
}

// Runs low between two products unless something forbids it.
std::string between(const std::string& body, const std::string& constants = "",
                    const std::string& inputs = "") {
  return "g (float[2,2] x" + inputs +
         ") => (float[2,2] y)\n<float[2,2] w = {1,0,0,1}, float[2,2] v = {1,0.5,0.25,1}" +
         constants + ">\n{ [first] h = MatMul (x, v)\n" + body + "\n[last] y = MatMul (r, v) }";
}

TEST(Calibrate, TensorsThatVanish) {
  const std::string graph = between("[relu] r = Relu (h)");
  const auto inputs = [](float x) {
    return std::vector<RuntimeValue>{floats({2, 2}, {x, x, x, x})};
  };
  expect_kept(calibrated(graph, {inputs(1e-7F)}), "first",
              "on the samples, below float16's smallest normal value");
  EXPECT_TRUE(low(calibrated(graph, {inputs(1e-2F)}), "first"));
  passes::PrecisionPolicy policy;
  policy.calibration.underflow = false;
  EXPECT_TRUE(low(calibrated(graph, {inputs(1e-7F)}, policy), "first"));
  EXPECT_TRUE(low(calibrated(graph, {inputs(0)}), "first")) << "zeros lose nothing";
}

TEST(Calibrate, TinyElementsCountWhereTheyDivide) {
  const std::string graph = between("[div] r = Div (h, s)", "", ", float[2,2] s");
  const auto inputs = [](float least) {
    return std::vector<RuntimeValue>{floats({2, 2}, {1, 2, 3, 4}),
                                     floats({2, 2}, {least, 1, 1, 1})};
  };
  expect_kept(calibrated(graph, {inputs(1e-8F)}), "div",
              "operand 's' holds 1e-08 on the samples, below float16's smallest normal value");
  const Records fine = calibrated(graph, {inputs(1e-3F)});
  EXPECT_NE(decision_of(fine, "div").rule, Rule::kCalibration);
  const std::string sum = between("[add] r = Add (h, s)", "", ", float[2,2] s");
  EXPECT_NE(decision_of(calibrated(sum, {inputs(1e-8F)}), "add").rule, Rule::kCalibration)
      << "in a sum they do not count";
}

TEST(Calibrate, PositionsGivenAsFloats) {
  const std::string graph = between("[mul] r = Mul (h, p)", "", ", float[2,2] p");
  const auto inputs = [](float first) {
    return std::vector<RuntimeValue>{floats({2, 2}, {1, 2, 3, 4}),
                                     floats({2, 2}, {first, first + 1, first + 2, first + 3})};
  };
  expect_kept(calibrated(graph, {inputs(4097)}), "mul",
              "operand 'p' holds whole numbers up to 4100 on the samples");
  EXPECT_NE(decision_of(calibrated(graph, {inputs(100)}), "mul").rule, Rule::kCalibration);
}

TEST(Calibrate, MasksThatAreSaturatedDoNotCount) {
  const std::string graph = between("[where] r = Where (m, h, never)",
                                    ", float never = {-3.4028234663852886e38}", ", bool[2,2] m");
  const auto inputs = [](float x) {
    return std::vector<RuntimeValue>{floats({2, 2}, {x, 2, 3, 4}), truths({2, 2}, {1, 0, 1, 0})};
  };
  EXPECT_NE(decision_of(calibrated(graph, {inputs(1)}), "where").rule, Rule::kCalibration);
  expect_kept(calibrated(graph, {inputs(70000)}), "where", "operand 'h' reaches");
}

TEST(Calibrate, SumsThatPassTheRangeOnTheWay) {
  // 4 products of 30000 cancel.
  const std::string graph =
      "g (float[1,4] x) => (float[1,2] y)\n<float[4,2] w = {1, 1, -1, -1, 1, 0, -1, 0}>\n"
      "{ [mm] y = MatMul (x, w) }";
  const std::vector<RuntimeValue> inputs = {floats({1, 4}, {30000, 30000, 30000, 30000})};
  expect_kept(calibrated(graph, {inputs}), "mm",
              "sums over 4 elements can pass 120000 on the way, beyond float16's 65504");
  passes::PrecisionPolicy policy;
  policy.calibration.sums = false;
  EXPECT_TRUE(low(calibrated(graph, {inputs}, policy), "mm"));
}

TEST(Calibrate, StatesOfLoopsAndWhatIsReadInThem) {
  const std::string graph =
      "g (int64 n, float[2,2] s) => (float[2,2] y)\n<float[2,2] w = {1,0,0,1}>\n"
      "{ [loop] y = Loop <body = b (int64 i, bool c, float[2,2] t) => (bool d, float[2,2] u)\n"
      "{ d = Identity (c)\n[mm] u = MatMul (t, w) }> (n, \"\", s) }";
  const auto inputs = [](float x) {
    return std::vector<RuntimeValue>{integers({}, {3}), floats({2, 2}, {x, 1, 1, 1})};
  };
  const Records far = calibrated(graph, {inputs(80000)});
  expect_kept(far, "mm", "operand 't' reaches 80000");
  EXPECT_EQ(decision_of(far, "loop").rule, Rule::kCalibration);
  EXPECT_THAT(decision_of(far, "loop").cause, HasSubstr("carried state 's' reaches 80000"));
  EXPECT_TRUE(low(calibrated(graph, {inputs(8)}), "mm"));
}

TEST(Calibrate, BodiesOfFunctionsCallByCall) {
  const std::string graph =
      "g (float[2,2] x) => (float[2,2] y)\n<float k = {1000}, float[2,2] w = {1,2,3,4}>\n"
      "{ [small] a = f.twice (x)\n[mm] m = MatMul (a, w)\n[up] b = f.scale (m) \n"
      "[down] y = Div (b, k) }\n"
      "<domain: \"f\", opset_import: [\"\" : 17]>\n"
      "twice (x) => (y) { [inner] y = MatMul (x, x) }\n"
      "<domain: \"f\", opset_import: [\"\" : 17]>\n"
      "scale (x) => (y) { [inner] y = MatMul (x, x) }";
  const Records records =
      calibrated(graph, {{floats({2, 2}, {9, 9, 9, 9})}});  // 162, then 972, then 1.3e6
  std::vector<DType> inner;
  for (const NodeDecision& decision : records.nodes) {
    if (decision.node == "inner") inner.push_back(decision.dtype);
  }
  EXPECT_EQ(inner, (std::vector<DType>{DType::kFloat16, DType::kFloat32}));
}

TEST(Calibrate, LowOutputsThatCannotHoldTheirValuesAreAWarning) {
  passes::PrecisionPolicy policy;
  policy.io = passes::IoTypes::kLow;
  const Records records = calibrated(
      "g (float[2,2] x) => (float[2,2] y, float[2,2] z) <float[2,2] w = {1,2,3,4}>\n"
      "{ [a] y = MatMul (x, w)\n[b] z = Relu (x) }",
      {{floats({2, 2}, {30000, 1, 1, 30000})}}, policy);
  EXPECT_THAT(records.warnings,
              testing::Contains(AllOf(HasSubstr("output 'y' reaches"), HasSubstr("--io keep"))));
}

TEST(Calibrate, NanInFp32IsAWarning) {
  const Records records = calibrated(
      "g (float[2,2] x) => (float[2,2] y) { [sub] d = Sub (x, x)\n[div] q = Div (x, d)\n"
      "[exp] y = Exp (q) }",
      {{floats({2, 2}, {0, 1, 2, 3})}});
  EXPECT_THAT(records.warnings,
              testing::Contains(HasSubstr("2 tensors hold NaN in FP32 already, the first is 'q'")));
}

TEST(Calibrate, RefusesSamplesThatTellNothing) {
  const auto model = prepared(kScores);
  const auto with = [&](std::vector<RuntimeValue> inputs, std::uint64_t count) {
    return numerics::calibrate(
               *model, count,
               [&](std::uint64_t) -> StatusOr<std::vector<RuntimeValue>> { return inputs; }, {})
        .status();
  };
  EXPECT_THAT(with(scores(1, 1), 0), Rejects("there is no sample"));
  EXPECT_THAT(with(scores(std::nanf(""), 1), 1), Rejects("sample 0: input 'q' holds 4 NaN"));
  EXPECT_THAT(with({floats({1, 2, 2}, {1, 1, 1, 1}), floats({1, 3, 2}, {1, 1, 1, 1, 1, 1})}, 1),
              Rejects("'scores' (MatMul)"));
}

}  // namespace
}  // namespace mezzo::test
