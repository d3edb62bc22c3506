#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "interpreted.h"

namespace mezzo::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Sequence, IsMadeChangedAndJoined) {
  Interpreted model(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[2] a, float[2] b, int64 at) => (float[n] joined, float[m,2] stacked, int64 count, float[2] one) {
      s = SequenceConstruct(a, b)
      longer = SequenceInsert(s, b, at)
      shorter = SequenceErase(longer)
      joined = ConcatFromSequence<axis = 0>(longer)
      stacked = ConcatFromSequence<axis = 0, new_axis = 1>(shorter)
      count = SequenceLength(longer)
      one = SequenceAt(longer, at)
    })");
  const auto a = model.tensor<float>({2}, {1, 2}), b = model.tensor<float>({2}, {3, 4});
  const auto out = model.run({a, b, model.scalar<std::int64_t>(0)});
  EXPECT_THAT(values_of<float>(out[0]), ElementsAre(3, 4, 1, 2, 3, 4));
  EXPECT_THAT(out[1].tensor.dims, ElementsAre(2, 2));
  EXPECT_THAT(values_of<float>(out[1]), ElementsAre(3, 4, 1, 2));
  EXPECT_THAT(values_of<std::int64_t>(out[2]), ElementsAre(3));
  EXPECT_THAT(values_of<float>(out[3]), ElementsAre(3, 4));
  // Negative positions count from the end.
  EXPECT_THAT(values_of<float>(model.run({a, b, model.scalar<std::int64_t>(-2)})[0]),
              ElementsAre(3, 4, 1, 2, 3, 4));
  EXPECT_THAT(model.error({a, b, model.scalar<std::int64_t>(3)}),
              HasSubstr("(SequenceInsert): position 3 in a sequence of 2"));
}

// Elements that share bytes are computed with, but neither cut nor joined.
TEST(Sequence, KeepsElementsOfFourBitsWhole) {
  Interpreted there_and_back(R"(
    <ir_version: 10, opset_import: ["" : 21]>
    g (float[3] x) => (float[3] y) {
      q = Cast<to = 22>(x)
      y = Cast<to = 1>(q)
    })");
  const auto x = there_and_back.tensor<float>({3}, {-8, 3.5, 7});
  EXPECT_THAT(values_of<float>(there_and_back.run({x})[0]), ElementsAre(-8, 3, 7));
  Interpreted joins(R"(
    <ir_version: 10, opset_import: ["" : 21]>
    g (float[3] x) => (float[6] y) {
      q = Cast<to = 22>(x)
      s = SequenceConstruct(q, q)
      joined = ConcatFromSequence<axis = 0>(s)
      y = Cast<to = 1>(joined)
    })");
  EXPECT_THAT(joins.error({joins.tensor<float>({3}, {1, 2, 3})}),
              HasSubstr("type int4 cannot be cut or joined"));
}

TEST(Sequence, SplitsByCountAndBySizes) {
  Interpreted model(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[n,2] x, int64 size, int64[k] sizes) => (seq(float[2]) rows, seq(float[a,2]) even, seq(float[b,2]) given) {
      rows = SplitToSequence<keepdims = 0>(x)
      even = SplitToSequence(x, size)
      given = SplitToSequence(x, sizes)
    })");
  const auto x = model.tensor<float>({3, 2}, {1, 2, 3, 4, 5, 6});
  const auto out =
      model.run({x, model.scalar<std::int64_t>(2), model.tensor<std::int64_t>({3}, {0, 1, 2})});
  ASSERT_EQ(out[0].elements.size(), 3U);
  EXPECT_THAT(out[0].elements[2].tensor.dims, ElementsAre(2));
  EXPECT_THAT(values_of<float>(out[0].elements[2]), ElementsAre(5, 6));
  ASSERT_EQ(out[1].elements.size(), 2U);
  EXPECT_THAT(values_of<float>(out[1].elements[1]), ElementsAre(5, 6));
  ASSERT_EQ(out[2].elements.size(), 3U);
  EXPECT_THAT(out[2].elements[0].tensor.dims, ElementsAre(0, 2));
  EXPECT_THAT(
      model.error({x, model.scalar<std::int64_t>(2), model.tensor<std::int64_t>({2}, {1, 1})}),
      HasSubstr("expected sizes that add up to 3"));
}

TEST(Sequence, MapsABodyOverItsElements) {
  Interpreted model(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[2] a, float[1] b, float[1] c) => (seq(float[n]) y) {
      s = SequenceConstruct(a, b)
      y = SequenceMap<body = f (float[n] v, float[1] w) => (float[n] r) { r = Add(v, w) }>(s, c)
    })");
  const auto out = model.run({model.tensor<float>({2}, {1, 2}), model.tensor<float>({1}, {3}),
                              model.tensor<float>({1}, {10})});
  ASSERT_EQ(out[0].elements.size(), 2U);
  EXPECT_THAT(values_of<float>(out[0].elements[0]), ElementsAre(11, 12));
  EXPECT_THAT(values_of<float>(out[0].elements[1]), ElementsAre(13));
}

TEST(Optional, HoldsSomethingOrNothing) {
  Interpreted model(R"(
    <ir_version: 8, opset_import: ["" : 18]>
    g (optional(float[2]) o) => (bool has, float[2] value) {
      has = OptionalHasElement(o)
      value = OptionalGetElement(o)
    })");
  const auto out = model.run({model.tensor<float>({2}, {1, 2})});
  EXPECT_THAT(values_of<std::uint8_t>(out[0]), ElementsAre(1));
  EXPECT_THAT(values_of<float>(out[1]), ElementsAre(1, 2));
  EXPECT_THAT(model.error({RuntimeValue()}),
              HasSubstr("expected an optional that holds something, got nothing"));
}

TEST(Sequence, WhereATensorIsWantedIsAnError) {
  Interpreted model(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[2] x) => (float[2] y) { y = Neg(x) })");
  EXPECT_THAT(model.error({RuntimeValue::sequence({})}),
              HasSubstr("(Neg), operand 0 'x': expected a tensor, got sequence of 0"));
}

}  // namespace
}  // namespace mezzo::test
