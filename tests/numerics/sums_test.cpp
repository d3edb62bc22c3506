// Partial sums: what they are bounded by, against sums written out by hand.
#include "passes/numerics/sums.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/numerics/numeric_case.h"

namespace mezzo::test {
namespace {

// Per node, by name; `enough` 0 asks for the exact sum.
std::map<std::string, passes::SumRange> sums(const std::string& graph,
                                             std::vector<RuntimeValue> inputs, double enough = 0) {
  const auto model = prepared(graph);
  std::map<std::string, passes::SumRange> found;
  observe(*model, std::move(inputs), [&](const NodeRun& run) {
    const auto sum = numerics::largest_sum(run, enough, {model.get(), 1});
    if (sum) found[run.node.name] = *sum;
    return ok_status();
  });
  return found;
}

TEST(Sums, OfProducts) {
  const auto found = sums(
      "g (float[1,3] x) => (float[1,2] y) <float[3,2] w = {1, 2, -3, 4, 5, -6}>\n"
      "{ [mm] y = MatMul (x, w) }",
      {floats({1, 3}, {10, -20, 30})});
  // |10*1| + |-20*-3| + |30*5| = 220; |10*2| + |-20*4| + |30*-6| = 280
  EXPECT_EQ(found.at("mm").most, 280);
  EXPECT_EQ(found.at("mm").depth, 3);
}

TEST(Sums, CheapBoundsWhereTheyAreEnough) {
  const std::string graph =
      "g (float[1,3] x) => (float[1,2] y) <float[3,2] w = {1, 2, -3, 4, 5, -6}>\n"
      "{ [mm] y = MatMul (x, w) }";
  EXPECT_EQ(sums(graph, {floats({1, 3}, {10, -20, 30})}, 1000).at("mm").most, 3 * 30 * 6);
  EXPECT_EQ(sums(graph, {floats({1, 3}, {10, -20, 30})}, 500).at("mm").most, 280);
}

TEST(Sums, WithABias) {
  const auto found = sums(
      "g (float[1,2] x) => (float[1,1] y) <float[2,1] w = {1, 1}, float[1] b = {-5}>\n"
      "{ [gemm] y = Gemm (x, w, b) }",
      {floats({1, 2}, {3, -4})});
  EXPECT_EQ(found.at("gemm").most, 12);
}

TEST(Sums, OfConvolutionsAndPooling) {
  const auto found = sums(
      "g (float[1,1,2,2] x) => (float[1,1,1,1] y, float[1,1,1,1] z)\n"
      "<float[1,1,2,2] k = {1, -1, 1, -1}>\n"
      "{ [conv] y = Conv (x, k)\n[pool] z = AveragePool <kernel_shape = [2,2]> (x) }",
      {floats({1, 1, 2, 2}, {1, 2, 3, -4})});
  EXPECT_EQ(found.at("conv").most, 10);
  EXPECT_EQ(found.at("conv").depth, 4);
  EXPECT_EQ(found.at("pool").most, 10) << "the sum that the mean divides";
}

TEST(Sums, OfReductions) {
  const auto found = sums(
      "g (float[2,3] x) => (y, z, c, e) <int64[1] ax = {1}, int64 one = {1}>\n"
      "{ [sum] y = ReduceSum (x, ax)\n[mean] z = ReduceMean <axes = [1]> (x)\n"
      "[cum] c = CumSum (x, one)\n[ein] e = Einsum <equation = \"ij,ij->i\"> (x, x) }",
      {floats({2, 3}, {1, -2, 3, -4, 5, -6})});
  EXPECT_EQ(found.at("sum").most, 15);
  EXPECT_EQ(found.at("sum").depth, 3);
  EXPECT_EQ(found.at("mean").most, 15);
  EXPECT_EQ(found.at("cum").most, 15);
  EXPECT_EQ(found.at("ein").most, 77);
  EXPECT_EQ(found.at("ein").depth, 3);
}

TEST(Sums, OthersHaveNone) {
  const auto found =
      sums("g (float[2] x) => (float[2] y) { [relu] y = Relu (x) }", {floats({2}, {1, 2})});
  EXPECT_TRUE(found.empty());
}

}  // namespace
}  // namespace mezzo::test
