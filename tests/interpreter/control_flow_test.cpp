#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "interpreted.h"

namespace mezzo::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::string_view kChoice = R"(
  <ir_version: 8, opset_import: ["" : 17]>
  g (bool c, float[2] x) => (float[2] y) {
    double_x = Add(x, x)
    y = If(c) <
      then_branch = yes () => (float[2] a) { a = Mul(double_x, x) },
      else_branch = no () => (float[2] b) { b = Identity(double_x) }
    >
  })";

TEST(If, RunsTheBranchThatTheConditionNamesWithValuesAround) {
  Interpreted model(kChoice);
  const auto x = model.tensor<float>({2}, {3, 4});
  EXPECT_THAT(values_of<float>(model.run({model.truth(true), x})[0]), ElementsAre(18, 32));
  EXPECT_THAT(values_of<float>(model.run({model.truth(false), x})[0]), ElementsAre(6, 8));
}

TEST(If, NamesTheNodeWhereTheConditionIsNoScalar) {
  Interpreted model(kChoice);
  const auto x = model.tensor<float>({2}, {3, 4});
  EXPECT_THAT(model.error({model.tensor<std::uint8_t>({2}, {1, 0}), x}),
              HasSubstr("(If), operand 0 'c': expected one integer or bool, got bool[2]"));
}

constexpr std::string_view kPowers = R"(
  <ir_version: 8, opset_import: ["" : 17]>
  g (int64 n, bool c, float[2] x) => (float[2] last, float[rows,2] all, int64[rows] steps) {
    last, all, steps = Loop(n, c, x) <
      body = b (int64 i, bool go, float[2] s) => (bool goes_on, float[2] next, float[2] row, int64 step) {
        ten = Constant<value = float {100.0}>()
        next = Add(s, x)
        row = Identity(s)
        step = Identity(i)
        first = Constant<value = int64[1] {0}>()
        head = Gather<axis = 0>(next, first)
        flat = ReduceSum<keepdims = 0>(head)
        goes_on = Less(flat, ten)
      }
    >
  })";

TEST(Loop, CarriesStateAndStacksScanOutputs) {
  Interpreted model(kPowers);
  const auto x = model.tensor<float>({2}, {1, 2});
  const auto out = model.run({model.scalar<std::int64_t>(3), model.truth(true), x});
  EXPECT_THAT(values_of<float>(out[0]), ElementsAre(4, 8));
  EXPECT_THAT(out[1].tensor.dims, ElementsAre(3, 2));
  EXPECT_THAT(values_of<float>(out[1]), ElementsAre(1, 2, 2, 4, 3, 6));
  EXPECT_THAT(values_of<std::int64_t>(out[2]), ElementsAre(0, 1, 2));
}

TEST(Loop, EndsWhereTheConditionTurnsFalse) {
  Interpreted model(kPowers);
  const auto x = model.tensor<float>({2}, {40, 0});
  const auto out = model.run({model.scalar<std::int64_t>(50), model.truth(true), x});
  EXPECT_THAT(values_of<float>(out[0]), ElementsAre(120, 0));
  EXPECT_THAT(values_of<std::int64_t>(out[2]), ElementsAre(0, 1));
}

TEST(Loop, WithoutAnIterationGivesItsOperandsAndEmptyStacks) {
  Interpreted model(kPowers);
  const auto x = model.tensor<float>({2}, {1, 2});
  for (const auto& out : {model.run({model.scalar<std::int64_t>(0), model.truth(true), x}),
                          model.run({model.scalar<std::int64_t>(9), model.truth(false), x})}) {
    EXPECT_THAT(values_of<float>(out[0]), ElementsAre(1, 2));
    EXPECT_THAT(out[1].tensor.dims, ElementsAre(0, 2));
    EXPECT_EQ(out[2].tensor.dtype, DType::kInt64);
    EXPECT_THAT(values_of<std::int64_t>(out[2]), IsEmpty());
  }
}

TEST(Loop, GrowsItsState) {
  Interpreted model(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (int64 n, float[k] x) => (float[m] y) {
      y = Loop(n, , x) <
        body = b (int64 i, bool go, float[len] s) => (bool on, float[longer] t) {
          on = Identity(go)
          t = Concat<axis = 0>(s, x)
        }
      >
    })");
  const auto out = model.run({model.scalar<std::int64_t>(3), model.tensor<float>({2}, {1, 2})});
  EXPECT_THAT(values_of<float>(out[0]), ElementsAre(1, 2, 1, 2, 1, 2, 1, 2));
}

TEST(Loop, SeesValuesOfTwoGraphsAround) {
  Interpreted model(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (int64 n, bool c, float[1] x) => (float[1] y) {
      y = Loop(n, , x) <
        body = b (int64 i, bool go, float[1] s) => (bool on, float[1] t) {
          on = Identity(go)
          both = Add(s, x)
          t = If(c) <
            then_branch = yes () => (float[1] a) { a = Mul(both, x) },
            else_branch = no () => (float[1] d) { d = Add(both, s) }
          >
        }
      >
    })");
  const auto n = model.scalar<std::int64_t>(2);
  const auto x = model.tensor<float>({1}, {2});
  // (2 + 2) 2 = 8, (8 + 2) 2 = 20; and 2 + 2 + 2 = 6, 6 + 2 + 6 = 14.
  EXPECT_THAT(values_of<float>(model.run({n, model.truth(true), x})[0]), ElementsAre(20));
  EXPECT_THAT(values_of<float>(model.run({n, model.truth(false), x})[0]), ElementsAre(14));
}

constexpr std::string_view kScan = R"(
  <ir_version: 8, opset_import: ["" : 17]>
  g (float[2] start, float[a,b] x) => (float[2] sum, float[c,d] sums) {
    sum, sums = Scan<num_scan_inputs = 1, scan_input_axes = [1], scan_input_directions = [1],
                     scan_output_axes = [1], scan_output_directions = [1],
      body = b (float[2] s, float[2] column) => (float[2] t, float[2] row) {
        t = Add(s, column)
        row = Identity(t)
      }>(start, x)
  })";

TEST(Scan, WalksAxesBackwards) {
  Interpreted model(kScan);
  const auto out = model.run(
      {model.tensor<float>({2}, {100, 200}), model.tensor<float>({2, 3}, {1, 2, 3, 4, 5, 6})});
  EXPECT_THAT(values_of<float>(out[0]), ElementsAre(106, 215));
  // Columns come as 3, 2, 1 and are stacked from the end: 106 105 103.
  EXPECT_THAT(out[1].tensor.dims, ElementsAre(2, 3));
  EXPECT_THAT(values_of<float>(out[1]), ElementsAre(106, 105, 103, 215, 211, 206));
}

TEST(Scan, OfNothingGivesItsState) {
  Interpreted model(kScan);
  const auto out = model.run({model.tensor<float>({2}, {7, 8}), model.tensor<float>({2, 0}, {})});
  EXPECT_THAT(values_of<float>(out[0]), ElementsAre(7, 8));
  EXPECT_THAT(out[1].tensor.dims, ElementsAre(2, 0));
}

TEST(Scan, InputsOfDifferentLengthAreAnError) {
  Interpreted model(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[n] x, float[m] y) => (float[k] z) {
      z = Scan<num_scan_inputs = 2, body = b (float a, float b) => (float c) { c = Add(a, b) }>(x, y)
    })");
  EXPECT_THAT(model.error({model.tensor<float>({2}, {1, 2}), model.tensor<float>({3}, {1, 2, 3})}),
              HasSubstr("(Scan), operand 1 'y': expected length 2 along axis 0"));
}

TEST(Call, RunsTheBodyOfALocalFunction) {
  Interpreted model(R"(
    <ir_version: 8, opset_import: ["" : 17, "own" : 1]>
    g (float[2] x) => (float[2] y) {
      a = own.twice<by = 3.0>(x)
      y = own.twice<by = 2.0>(a)
    }
    <domain: "own", opset_import: ["" : 17]>
    twice<by>(v) => (w) {
      factor = Constant<value_float: float = @by>()
      w = Mul(v, factor)
    })",
                    {}, /*functions=*/true);
  EXPECT_THAT(values_of<float>(model.run({model.tensor<float>({2}, {1, 5})})[0]),
              ElementsAre(6, 30));
}

}  // namespace
}  // namespace mezzo::test
