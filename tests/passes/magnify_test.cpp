// Contractions whose rounding something later makes large, and near misses that run low.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/passes/decisions.h"

namespace mezzo::test {
namespace {

using testing::HasSubstr;

void expect_kept(const std::string& graph, const std::string& node, const std::string& cause) {
  for (const DType low : {DType::kFloat16, DType::kBFloat16}) {
    const Decisions out = decide(graph, low);
    EXPECT_FALSE(out.low(node)) << graph;
    EXPECT_EQ(out.of(node).rule, Rule::kRange) << out.cause(node);
    EXPECT_THAT(out.cause(node), HasSubstr(cause));
  }
}

void expect_low(const std::string& graph, const std::string& node) {
  const Decisions out = decide(graph, DType::kBFloat16);
  EXPECT_TRUE(out.low(node)) << out.cause(node);
}

std::string angles(const std::string& weights, const std::string& body) {
  return "g (float[4,2] x, float[2,2] u) => (float[4,2] y)\n<float[2,2] w = {" + weights +
         "}, float thirty = {30}, float half = {0.5}, float[2] b = {1, 2}>\n{\n"
         "[mm] h = MatMul (x, w)\n" +
         body + "\n[last] y = MatMul (s, u)\n}";
}

TEST(Magnified, AnglesOfFourierFeaturesAndSineNetworks) {
  expect_kept(angles("9, -20, 3, 5", "s = Sin (h)"), "mm", "large");
  expect_kept(
      angles("0.1, 0.2, -0.5, 0.3", "c = Add (h, b)\na = Mul (c, thirty)\n[cos] s = Cos (a)"), "mm",
      "'cos' (Cos) reads this as an angle that constants make large");
  expect_kept(angles("0.1, 0.2, -0.5, 0.3",
                     "c = Concat <axis = 1> (h, h)\na = Mul (thirty, c)\n"
                     "v = Sin (a)\ns, t = Split <axis = 1, num_outputs = 2> (v)"),
              "mm", "large");
  // Snake and plain sines of what a network gives: as large as any activation.
  expect_low(angles("0.1, 0.2, -0.5, 0.3", "s = Sin (h)"), "mm");
  expect_low(angles("0.1, 0.2, -0.5, 0.3", "a = Mul (h, half)\ns = Sin (a)"), "mm");
  expect_low(angles("9, -20, 3, 5", "a = Mul (h, half)\ns = Tanh (a)"), "mm");
}

std::string distances(const std::string& body) {
  return "g (float[4,8] a, float[6,8] b) => (float[4,6] d)\n<int64[1] last = {-1}, float two = "
         "{2}, "
         "float minus = {-2}>\n{\n"
         "aa = Mul (a, a)\nsa = ReduceSum (aa, last)\nbb = Mul (b, b)\nsb = ReduceSum (bb, last)\n"
         "st = Transpose <perm = [1, 0]> (sb)\nbt = Transpose <perm = [1, 0]> (b)\n"
         "sum = Add (sa, st)\n" +
         body + "\n}";
}

TEST(Magnified, ProductsTakenFromSquaresOfDistances) {
  const char* const kCause = "takes this from sums of squares, which cancel";
  expect_kept(distances("[mm] p = MatMul (a, bt)\nq = Mul (p, two)\n[sub] d = Sub (sum, q)"), "mm",
              std::string("'sub' (Sub) ") + kCause);
  expect_kept(distances("[mm] p = MatMul (a, bt)\nq = Mul (minus, p)\nr = Add (q, sa)\n"
                        "d = Add (r, st)"),
              "mm", kCause);
  expect_kept(distances("[mm] d = Gemm <alpha = -2.0, transB = 1> (a, b, sum)"), "mm", kCause);
  expect_kept(distances("[mm] p = MatMul (a, bt)\nq = Mul (p, two)\nn = Neg (q)\nd = Add (sum, n)"),
              "mm", kCause);
  // The square of a sum cancels nothing.
  expect_low(distances("[mm] p = MatMul (a, bt)\nq = Mul (p, two)\nd = Add (sum, q)"), "mm");
  expect_low(distances("[mm] d = Gemm <alpha = 2.0, transB = 1> (a, b, sum)"), "mm");
  expect_low(distances("[mm] p = MatMul (a, bt)\nq = Mul (p, two)\nd = Sub (q, sum)\n"
                       "[other] e = MatMul (a, bt)\nf = Add (e, sum)"),
             "other");
}

TEST(Magnified, VarianceAsADifferenceOfSquares) {
  const std::string graph =
      "g (float[4,8] x, float[8,8] w) => (float[1,8] y)\n<int64[1] first = {0}>\n{\n"
      "[mm] h = MatMul (x, w)\n[square] q = Mul (h, h)\n[second] s = ReduceMean (q, first)\n"
      "[mean] m = ReduceMean (h, first)\n[squared] p = Mul (m, m)\n[sub] v = Sub (s, p)\n"
      "[last] y = MatMul (v, w)\n}";
  for (const char* node : {"square", "second", "mean", "squared", "sub"}) {
    const Decisions out = decide(graph, DType::kBFloat16);
    EXPECT_FALSE(out.low(node)) << node;
    EXPECT_EQ(out.of(node).rule, Rule::kRange) << out.cause(node);
    EXPECT_THAT(out.cause(node), HasSubstr("takes a product of means from a mean of products"))
        << node;
  }
  expect_low(graph, "mm");
}

}  // namespace
}  // namespace mezzo::test
