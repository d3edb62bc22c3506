// Bounds that ReachAnalysis gives: every number of the value lies between them.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "compiler/onnx/import.h"
#include "passes/pass_runner.h"
#include "passes/pipeline.h"
#include "passes/precision/reach.h"
#include "tests/support/status_test.h"

namespace mezzo::test {
namespace {

constexpr double kInf = passes::Reach::kUnknown;

// s: in [0, 1]; t: in [-1, 1]; u: in [0.25, 0.75]; n: in [-0.75, -0.25]; o: at least 0.
class ReachOf : public testing::Test {
 protected:
  passes::Reach reach(const std::string& node, const std::string& constants = "",
                      DType low = DType::kFloat16) {
    const std::string text =
        "<ir_version: 10, opset_import: [\"\" : 22]>\n"
        "g (float[4,8] x, float[1,1,4,4] image, float[2,any] loose) => (y)\n<float quarter = "
        "{0.25}, float upper = {0.75}, float half = {0.5}, int64[1] last = {1}, int64 axis = {1}" +
        constants +
        ">\n{\ns = Sigmoid (x)\nt = Tanh (x)\nu = Clip (x, quarter, upper)\nn = Neg (u)\no = Relu "
        "(x)\nloose_s = Sigmoid (loose)\nloose_t = Tanh (loose)\npixels = Clip (image, quarter, "
        "upper)\n" +
        node + "\n}";
    model_ = value_or_die(import_text(text));
    passes::PassContext ctx;
    EXPECT_THAT(passes::run_passes(*model_, ctx, {passes::find_pass("infer-shapes")}), IsOk());
    const Value* y = model_->graph->find("y");
    EXPECT_NE(y, nullptr);
    return y == nullptr ? passes::Reach() : passes::ReachAnalysis(*model_, low, -1e4).of(*y);
  }
  void expect_bounds(const std::string& node, double lowest, double highest,
                     const std::string& constants = "") {
    const passes::Reach found = reach(node, constants);
    EXPECT_DOUBLE_EQ(found.lowest, lowest) << node;
    EXPECT_DOUBLE_EQ(found.highest, highest) << node;
  }

  std::unique_ptr<Model> model_;
};

TEST_F(ReachOf, PowersOfAnyExponent) {
  const std::string ten = ", float ten = {10}";
  expect_bounds("y = Pow (ten, x)", 0, kInf, ten);
  expect_bounds("y = Pow (x, t)", -kInf, kInf);
  EXPECT_EQ(reach("y = Pow (ten, x)", ten).growth, passes::Growth::kExponential);
  ASSERT_NE(reach("y = Pow (ten, x)", ten).cause, nullptr);
  EXPECT_EQ(reach("y = Pow (ten, x)", ten).cause->name(), "ten");
}

TEST_F(ReachOf, PowersBelowOne) {
  const std::string constants = ", float tenth = {0.1}, float least = {0.001}, float nought = {0}";
  expect_bounds("c = Clip (x, least, upper)\ny = Pow (c, tenth)",
                std::pow(double{0.001F}, double{0.1F}), std::pow(0.75, double{0.1F}), constants);
  expect_bounds("y = Pow (u, half)", 0.5, std::sqrt(0.75));
  expect_bounds("y = Pow (x, nought)", 1, 1, constants);
  const double small = reach("a = Mul (x, least)\ny = Pow (a, tenth)", constants).scale;
  EXPECT_NEAR(small, 0.501, 0.001);
}

TEST_F(ReachOf, Sums) {
  expect_bounds("y = ReduceSum (s, last)", 0, 8);
  expect_bounds("y = ReduceSum (t, last)", -8, 8);
  expect_bounds("y = ReduceSum (u, last)", 2, 6);
  expect_bounds("y = ReduceSum (loose_s, last)", 0, kInf);
  expect_bounds("y = ReduceSum (loose_t, last)", -kInf, kInf);
  expect_bounds("m = Neg (loose_s)\ny = ReduceSum (m, last)", -kInf, 0);
  EXPECT_EQ(reach("y = ReduceSum (loose_t, last)").scale, 2048);
}

TEST_F(ReachOf, CumulatedSums) {
  expect_bounds("y = CumSum (u, axis)", 0.25, 6);
  expect_bounds("y = CumSum (n, axis)", -6, -0.25);
  expect_bounds("y = CumSum <exclusive = 1> (u, axis)", 0, 6);
  expect_bounds("y = CumSum (loose_s, axis)", 0, kInf);
  // No axis at all, as a hostile file may have it.
  expect_bounds("y = CumSum (s, huge)", 0, kInf, ", double huge = {1e300}");
}

TEST_F(ReachOf, ProductsOfAllElements) {
  expect_bounds("y = ReduceProd (u, last)", 0, 0.75);
  expect_bounds("y = ReduceProd (n, last)", -0.75, 0.75);
  expect_bounds("y = ReduceProd (t, last)", -1, 1);
  expect_bounds("y = ReduceProd (o, last)", 0, kInf);
}

TEST_F(ReachOf, SumsByConstantFactors) {
  const std::string ones =
      ", float[8,1] ones = {1,1,1,1,1,1,1,1}, float[1] bias = {100}, float[1,1,2,2] window = "
      "{1,1,1,1}";
  expect_bounds("y = MatMul (u, ones)", 2, 6, ones);
  expect_bounds("y = Gemm (u, ones, bias)", 102, 106, ones);
  expect_bounds("y = Gemm <alpha = 3.0> (u, ones)", -kInf, kInf, ones);
  expect_bounds("y = Conv <pads = [1,1,1,1]> (pixels, window)", 0, 3, ones);
}

TEST_F(ReachOf, Limits) {
  const std::string constants = ", float nought = {0}, float three = {3}, float five = {5}";
  expect_bounds("y = Clip (n, nought, three)", 0, 0, constants);
  expect_bounds("a = Add (s, five)\ny = Clip (a, nought, three)", 3, 3, constants);
  expect_bounds("y = Clip (x, nought, three)", 0, 3, constants);
}

TEST_F(ReachOf, Slopes) {
  expect_bounds("y = LeakyRelu <alpha = 0.5> (n)", -0.375, -0.125);
  expect_bounds("y = LeakyRelu <alpha = 0.5> (t)", -0.5, 1);
  expect_bounds("y = PRelu (t, slope)", 0, 3, ", float slope = {-3}");
  expect_bounds("y = PRelu (u, slope)", 0.25, 0.75, ", float slope = {-3}");
}

TEST_F(ReachOf, WholeNumbers) {
  expect_bounds("y = Ceil (u)", 0, 1);
  expect_bounds("y = Floor (n)", -1, 0);
  expect_bounds("y = Cast <to = 6> (u)", 0, 1);
  expect_bounds("a = Mul (s, k)\ny = Cast <to = 2> (a)", 0, 255, ", float k = {1000}");
}

TEST_F(ReachOf, Remainders) {
  const std::string constants = ", float five = {5}";
  expect_bounds("y = Mod <fmod = 1> (t, five)", -1, 1, constants);
  const std::string whole = ", int8 least = {-1}, int8 five = {5}";
  expect_bounds("y = Mod (least, five)", -5, 5, whole);
}

TEST_F(ReachOf, WhatIsFilledIn) {
  expect_bounds("y = Pad (u, pads)", 0, 0.75, ", int64[4] pads = {0,1,0,1}");
  expect_bounds("y = AveragePool <kernel_shape = [2,2], pads = [1,1,1,1]> (pixels)", 0.25, 0.75);
  expect_bounds(
      "y = AveragePool <kernel_shape = [2,2], pads = [1,1,1,1], count_include_pad = 1> "
      "(pixels)",
      0, 0.75);
  const std::string scales = ", float[4] scales = {1,1,2,2}";
  expect_bounds("y = Resize <mode = \"linear\"> (pixels, , scales)", 0.25, 0.75, scales);
  expect_bounds("y = Resize <mode = \"cubic\"> (pixels, , scales)", -kInf, kInf, scales);
}

TEST_F(ReachOf, BoundsThatLeaveTheDoubles) {
  const std::string big = ", double big = {1e300}, double two = {2}";
  const passes::Reach found = reach("a = Exp (big)\ny = Sub (a, a)", big);
  EXPECT_FALSE(std::isnan(found.lowest) || std::isnan(found.highest));
}

}  // namespace
}  // namespace mezzo::test
