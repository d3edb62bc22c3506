#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "interpreted.h"

namespace mezzo::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(DynamicShapes, ComeFromOperandValues) {
  Interpreted model(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[a,b] x, int64[r] shape, int64[r] reps) => (y) {
      flat = Reshape(x, shape)
      y = Tile(flat, reps)
    })");
  const auto x = model.tensor<float>({2, 2}, {1, 2, 3, 4});
  const auto run = [&](std::vector<std::int64_t> shape, std::vector<std::int64_t> reps) {
    const auto rank = static_cast<std::int64_t>(shape.size());
    return model.run({x, model.tensor<std::int64_t>({rank}, shape),
                      model.tensor<std::int64_t>({rank}, reps)})[0];
  };
  // The same node, with other values each time.
  EXPECT_THAT(run({4}, {1}).tensor.dims, ElementsAre(4));
  EXPECT_THAT(run({4}, {2}).tensor.dims, ElementsAre(8));
  EXPECT_THAT(run({-1, 1}, {1, 3}).tensor.dims, ElementsAre(4, 3));
  EXPECT_THAT(values_of<float>(run({-1, 1}, {1, 2})), ElementsAre(1, 1, 2, 2, 3, 3, 4, 4));
  EXPECT_THAT(run({4}, {0}).tensor.dims, ElementsAre(0));
  EXPECT_THAT(run({2, 2}, {0, 0}).tensor.dims, ElementsAre(0, 0));
  EXPECT_THAT(run({2, 2}, {1, 0}).tensor.dims, ElementsAre(2, 0));
}

TEST(DynamicShapes, AreComputedFromShapes) {
  Interpreted model(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[a,b] x) => (y) {
      dims = Shape(x)
      one = Constant<value = int64[1] {1}>()
      columns = Gather(dims, one)
      minus = Constant<value = int64[1] {-1}>()
      columns_first = Concat<axis = 0>(columns, minus)
      y = Reshape(x, columns_first)
    })");
  EXPECT_THAT(model.run({model.tensor<float>({2, 3}, {1, 2, 3, 4, 5, 6})})[0].tensor.dims,
              ElementsAre(3, 2));
  EXPECT_THAT(model.run({model.tensor<float>({1, 4}, {1, 2, 3, 4})})[0].tensor.dims,
              ElementsAre(4, 1));
}

TEST(DynamicShapes, RangesOfFloats) {
  Interpreted model(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float start, float end, float step) => (float[n] y) { y = Range(start, end, step) })");
  EXPECT_THAT(values_of<float>(model.run({model.scalar<float>(1), model.scalar<float>(2.4F),
                                          model.scalar<float>(0.5F)})[0]),
              ElementsAre(1, 1.5F, 2));
  EXPECT_THAT(values_of<float>(model.run(
                  {model.scalar<float>(1), model.scalar<float>(-1), model.scalar<float>(-1)})[0]),
              ElementsAre(1, 0));
}

TEST(DynamicShapes, OfZeroSizeFlowThrough) {
  Interpreted model(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[n,2] x, float[2,3] w) => (float[n,3] y, float s) {
      p = MatMul(x, w)
      y = Relu(p)
      s = ReduceSum<keepdims = 0>(y)
    })");
  const auto out =
      model.run({model.tensor<float>({0, 2}, {}), model.tensor<float>({2, 3}, {1, 2, 3, 4, 5, 6})});
  EXPECT_THAT(out[0].tensor.dims, ElementsAre(0, 3));
  EXPECT_THAT(values_of<float>(out[1]), ElementsAre(0));
}

TEST(DynamicShapes, ThatContradictNameNodeAndOperands) {
  Interpreted model(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[n,m] x, float[k,l] w) => (float[n,l] y) { y = MatMul(x, w) })");
  const std::string error =
      model.error({model.tensor<float>({1, 2}, {1, 2}), model.tensor<float>({3, 1}, {1, 2, 3})});
  EXPECT_THAT(error, HasSubstr("(MatMul)"));
  EXPECT_THAT(error, HasSubstr("float[1,2] 'x'"));
  EXPECT_THAT(error, HasSubstr("float[3,1] 'w'"));
}

TEST(DynamicShapes, ADefaultStandsInForAnInput) {
  Interpreted model(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[2] x, float[2] b = {10, 20}) => (float[2] y) { y = Add(x, b) })");
  const auto x = model.tensor<float>({2}, {1, 2});
  EXPECT_THAT(values_of<float>(model.run({x, RuntimeValue()})[0]), ElementsAre(11, 22));
  EXPECT_THAT(values_of<float>(model.run({x, x})[0]), ElementsAre(2, 4));
}

TEST(DynamicShapes, ResultsOfADecompositionKeepTheirPlaces) {
  Interpreted model(R"(
    <ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
    g (float[1,1,2] x, float[1,1,2] s, float[2] scale) => (float[1,1,2] y, float[1,1,2] w) {
      y, , , sum = com.microsoft.SkipLayerNormalization(x, s, scale)
      w = Neg(sum)
    })");
  const auto out =
      model.run({model.tensor<float>({1, 1, 2}, {1, 2}), model.tensor<float>({1, 1, 2}, {10, 20}),
                 model.tensor<float>({2}, {1, 1})});
  EXPECT_THAT(values_of<float>(out[1]), ElementsAre(-11, -22));
}

TEST(DynamicShapes, ARangeWithoutEndIsRefused) {
  Interpreted model(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (int64 start, int64 end) => (int64[n] y) {
      one = Constant<value = int64 {1}>()
      y = Range(start, end, one)
    })");
  EXPECT_THAT(
      model.error({model.scalar<std::int64_t>(INT64_MIN), model.scalar<std::int64_t>(INT64_MAX)}),
      HasSubstr("it has no end"));
}

// A kernel writes over an operand only where nobody else holds it.
TEST(Buffers, AreReusedOnlyWhenNobodyReadsThemAgain) {
  Interpreted model(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[2] x) => (float[2] y, float[2] z, float[1,2] w) {
      a = Neg(x)
      shape = Constant<value = int64[2] {1, 2}>()
      w = Reshape(a, shape)
      b = Abs(a)
      y = Add(b, b)
      z = Sub(y, x)
    })");
  auto x = model.tensor<float>({2}, {1, -2});
  const auto out = model.run({x});
  EXPECT_THAT(values_of<float>(x), ElementsAre(1, -2));
  EXPECT_THAT(values_of<float>(out[0]), ElementsAre(2, 4));
  EXPECT_THAT(values_of<float>(out[1]), ElementsAre(1, 6));
  EXPECT_THAT(values_of<float>(out[2]), ElementsAre(-1, 2));
}

}  // namespace
}  // namespace mezzo::test
