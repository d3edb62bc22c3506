// What the range keeps in FP32, rule by rule, with a near miss of each that runs low.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/passes/decisions.h"

namespace mezzo::test {
namespace {

using testing::HasSubstr;

// A body between two products, so that casts cost nothing extra: it runs low unless a rule forbids.
std::string between(const std::string& body, const std::string& constants = "",
                    const std::string& inputs = "") {
  return "g (float[4,4] x" + inputs +
         ") => (float[4,4] y)\n<float[4,4] w = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7}" + constants +
         ">\n{\n[first] h = MatMul (x, w)\n" + body + "\n[last] y = MatMul (r, w)\n}";
}

class KeptByRange : public testing::Test {
 protected:
  static void expect_kept(const std::string& graph, const std::string& node,
                          const std::string& cause, DType low = DType::kFloat16) {
    const Decisions out = decide(graph, low);
    EXPECT_FALSE(out.low(node));
    EXPECT_EQ(out.of(node).rule, Rule::kRange) << out.cause(node);
    EXPECT_THAT(out.cause(node), HasSubstr(cause));
    EXPECT_TRUE(out.low("first")) << out.cause("first");
  }
  // No rule of this file holds it: it is low, or the cut found FP32 cheaper.
  static void expect_free(const std::string& graph, const std::string& node,
                          DType low = DType::kFloat16) {
    const Decisions out = decide(graph, low);
    EXPECT_TRUE(out.low(node) || out.of(node).rule == Rule::kCut) << out.cause(node);
  }
  static passes::PrecisionPolicy allow(const std::string& op) {
    passes::PrecisionPolicy policy;
    passes::PolicyRule rule;
    rule.ops = {op};
    rule.effect = passes::RuleEffect::kAllow;
    policy.rules.push_back(rule);
    return policy;
  }
};

TEST_F(KeptByRange, ScalingUpAndWhatReadsIt) {
  const std::string graph = between(
      "[up] a = Mul (h, k)\n[relu] b = Relu (a)\n[down] r = Div (b, k)", ", float k = {30000}");
  expect_kept(graph, "up", "'a' can reach");
  expect_kept(graph, "relu", "'a' can reach");
  expect_kept(graph, "down", "'b' can reach");
  expect_free(graph, "up", DType::kBFloat16);
  expect_free(between("[up] r = Mul (h, k)", ", float k = {255}"), "up");
  expect_free(between("[s] a = Sigmoid (h)\n[up] r = Mul (a, k)", ", float k = {30000}"), "up");
}

TEST_F(KeptByRange, ScalingDownToNothing) {
  const std::string graph =
      between("[a1] a = Mul (h, k)\n[a2] b = Mul (a, k)\n[relu] c = Relu (b)\n[up] r = Div (c, q)",
              ", float k = {0.0001}, float q = {0.0002}");
  expect_free(graph, "a1");
  expect_kept(graph, "a2", "vanishes in float16");
  expect_kept(graph, "relu", "vanishes in float16");
}

TEST_F(KeptByRange, EpsilonsOfAnyShape) {
  expect_kept(between("[add] r = Add (h, e)", ", float[1,1] e = {1e-12}"), "add", "'e' is 1e-12");
  expect_kept(between("[add] r = Add (h, e)", ", float[4] e = {1e-12, 1e-10, 0, 1e-9}"), "add",
              "holds at most 1e-09");
  expect_free(between("[add] r = Add (h, e)", ", float[4] e = {1e-12, 1, 0, 0.5}"), "add");
  expect_free(between("[add] r = Add (h, e)", ", float e = {1e-12}"), "add", DType::kBFloat16);
}

TEST_F(KeptByRange, TinyDivisorsAmongOthers) {
  expect_kept(between("[div] r = Div (h, e)", ", float[4] e = {1e-6, 1, 1, 1}"), "div",
              "'e' holds 1e-06");
  expect_free(between("[mul] r = Mul (h, e)", ", float[4] e = {1e-6, 1, 1, 1}"), "mul");
}

TEST_F(KeptByRange, MasksThatAreComputedWith) {
  const std::string made = between(
      "[not] n = Sub (one, m)\n[neg] b = Mul (n, never)\n[add] s = Add (h, b)\n[soft] r = Softmax "
      "(s)",
      ", float one = {1}, float never = {-1000000000}", ", float[4,4] m");
  EXPECT_FALSE(decide(made).low("neg"));
  expect_kept(made, "add", "'b' can reach 1e+09 times an activation, from 'never'");
  const std::string weak = between("[add] s = Add (h, b)\n[soft] r = Softmax (s)",
                                   ", float[4] b = {0, 0, -10000, -10000}");
  expect_kept(weak, "add", "adds the mask 'b'");
  expect_kept(weak, "add", "adds the mask 'b'", DType::kBFloat16);
  expect_free(
      between("[add] s = Add (h, b)\n[soft] r = Softmax (s)", ", float[4] b = {0, 0, -10, -10}"),
      "add");
}

TEST_F(KeptByRange, MasksThatAreChosenMayRunLow) {
  const std::string chosen = between("[where] r = Where (m, h, never)",
                                     ", float never = {-3.4028234663852886e38}", ", bool[4,4] m");
  expect_free(chosen, "where");
  const std::string added = between("[where] a = Where (m, h, never)\n[add] r = Add (a, a)",
                                    ", float never = {-1000000000}", ", bool[4,4] m");
  expect_kept(added, "add", "may hold the mask 'never'");
  // Looked for by its size afterwards, it must keep it.
  const auto compared = [](const std::string& limit) {
    return between(
        "[where] a = Where (m, h, never)\nl = Less (a, limit)\n[after] r = Where (l, h, a)",
        ", float never = {-1000000000}, float limit = {" + limit + "}", ", bool[4,4] m");
  };
  expect_kept(compared("-100000000"), "where", "constant 'never' holds");
  expect_free(compared("-1000"), "where");
}

TEST_F(KeptByRange, MasksFromOutside) {
  const std::string graph =
      between("[add] s = Add (h, m)\n[soft] r = Softmax (s)", "", ", float[4,4] m");
  expect_kept(graph, "add", "adds the mask 'm' to the scores");
  EXPECT_TRUE(decide(between("[add] s = Add (h, m)\n[relu] r = Relu (s)", "", ", float[4,4] m"))
                  .low("relu"));
}

TEST_F(KeptByRange, SquaresUntilARoot) {
  const std::string graph = between(
      "[sq] a = Mul (h, h)\n[sum] b = Add (a, a)\n[root] c = Sqrt (b)\n[after] r = Mul (h, c)");
  expect_kept(graph, "sq", "'a' grows as a square");
  expect_kept(graph, "sum", "grows as a square");
  EXPECT_NE(decide(graph).of("after").rule, Rule::kRange);
  expect_free(graph, "sq", DType::kBFloat16);
  expect_free(between("[sig] a = Sigmoid (h)\n[sq] r = Mul (a, a)"), "sq");
}

TEST_F(KeptByRange, ExponentialsUntilTheyAreDivided) {
  const std::string graph = between(
      "[exp] e = Exp (h)\n[mul] a = Mul (e, k)\n[sum] s = ReduceSum (a, ax)\n[div] p = Div (a, s)\n"
      "[after] r = Mul (p, h)",
      ", float[4] k = {1,2,3,4}, int64[1] ax = {1}");
  expect_kept(graph, "mul", "grows as an exponential");
  EXPECT_EQ(decide(graph).of("div").rule, Rule::kPattern);  // divided by its own sum
  EXPECT_NE(decide(graph).of("after").rule, Rule::kRange);
  // exp(x - max x) is at most 1.
  const std::string shifted =
      between("m = ReduceMax (h, ax)\nd = Sub (h, m)\n[exp] e = Exp (d)\n[mul] r = Mul (e, h)",
              ", int64[1] ax = {1}");
  EXPECT_NE(decide(shifted).of("mul").rule, Rule::kRange);
  const std::string above = between(
      "m = ReduceMax (h, ax)\nn = Max (m, c)\nd = Sub (h, n)\n[exp] e = Exp (d)\n"
      "[mul] r = Mul (e, h)",
      ", int64[1] ax = {1}, float c = {0}");
  EXPECT_NE(decide(above).of("mul").rule, Rule::kRange);
  // A decay: exp(-softplus(h) exp(k)) is at most 1.
  const std::string decay = between(
      "s = Softplus (h)\nk2 = Exp (k)\nn = Neg (k2)\nd = Mul (s, n)\n[exp] e = Exp (d)\n"
      "[mul] r = Mul (e, h)",
      ", float[4] k = {1,2,3,4}");
  EXPECT_NE(decide(decay).of("mul").rule, Rule::kRange);
}

TEST_F(KeptByRange, LongSums) {
  const auto pooled = [](const std::string& side) {
    return "g (float[1,4," + side + "," + side +
           "] x) => (float[1,4,1,1] y)\n<float[4,4,1,1] k = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7}>\n"
           "{\n[first] h = Conv (x, k)\n[pool] r = GlobalAveragePool (h)\n[last] y = Conv (r, "
           "k)\n}";
  };
  expect_kept(pooled("64"), "pool", "sums over 4096 elements");
  expect_kept(pooled("64"), "pool", "digits", DType::kBFloat16);
  expect_kept(pooled("side"), "pool", "over an unknown length");
  expect_free(pooled("7"), "pool");
  expect_free(pooled("7"), "pool", DType::kBFloat16);
}

TEST_F(KeptByRange, ProductsWithOnesAreSums) {
  std::string ones = "1";
  for (int i = 1; i < 2048; ++i) ones += ",1";
  const Decisions out = decide("g (float[2,2048] x) => (float[2,1] y)\n<float[2048,1] w = {" +
                               ones + "}>\n{\n[sum] y = MatMul (x, w)\n}");
  EXPECT_FALSE(out.low("sum"));
  EXPECT_THAT(out.cause("sum"), HasSubstr("sums over 2048 elements"));
}

TEST_F(KeptByRange, ProductsOfActivationsWithLongSums) {
  const auto graph = [](const std::string& rows, const std::string& operands) {
    return "g (float[" + rows + ",4] x) => (float[" + rows +
           ",4] y)\n<float[4,4] w = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7}, int64[1] ax = {0}>\n"
           "{\n[first] h = MatMul (x, w)\ns = ReduceSum (h, ax)\n"
           "t = Transpose <perm = [1,0]> (s)\n[norm] z = MatMul (" +
           operands + ")\n[div] q = Div (h, z)\n[last] y = MatMul (q, w)\n}";
  };
  expect_kept(graph("3000", "h, t"), "norm", "'t' can reach 3000 times an activation");
  expect_kept(graph("3000", "h, t"), "div", "'z' can reach 3000 times an activation");
  EXPECT_TRUE(decide(graph("3000", "s, w")).low("norm")) << "weights make up for it";
  EXPECT_TRUE(decide(graph("100", "h, t")).low("norm"));
  EXPECT_TRUE(decide(graph("3000", "h, t"), DType::kBFloat16).low("norm"));
}

TEST_F(KeptByRange, PositionsThroughScalingAndOuterProducts) {
  for (const std::string dtype : {"int64", "int32"}) {
    const std::string graph = between(
        "[cast] p = Cast <to = 1> (pos)\n[angle] a = Mul (p, freq)\n[twice] b = Concat <axis = 1> "
        "(a, a)\n"
        "[cos] c = Cos (b)\n[after] r = Mul (h, c)",
        ", float[2] freq = {1, 0.01}", ", " + dtype + "[4,1] pos");
    expect_kept(graph, "cast", "positions or counts");
    expect_kept(graph, "angle", "from 'pos'");
    expect_kept(graph, "twice", "positions or counts");
    EXPECT_NE(decide(graph).of("after").rule, Rule::kRange);
  }
  const std::string outer = between(
      "p = Cast <to = 1> (pos)\n[angle] a = MatMul (p, freq)\n[cos] c = Cos (a)\n[after] r = Mul "
      "(h, c)",
      ", float[1,4] freq = {1, 0.1, 0.01, 0.001}", ", int64[4,1] pos");
  expect_kept(outer, "angle", "positions or counts");
}

TEST_F(KeptByRange, SmallIntegersAreNoPositions) {
  for (const std::string dtype : {"bool", "uint8", "int8"}) {
    expect_free(
        between("[cast] p = Cast <to = 1> (m)\n[mul] r = Mul (h, p)", "", ", " + dtype + "[4,4] m"),
        "mul");
  }
  expect_kept(between("[cast] p = Cast <to = 1> (m)\n[mul] r = Mul (h, p)", "", ", uint16[4,4] m"),
              "mul", "positions or counts");
}

TEST_F(KeptByRange, ArangeAsAConstant) {
  expect_kept(between("[mul] a = Mul (p, f)\n[cos] c = Cos (a)\n[after] r = Mul (h, c)",
                      ", float[4,1] p = {4097, 4098, 4099, 4100}, float f = {0.5}"),
              "mul", "'p' holds integers up to 4100");
  expect_free(between("[mul] r = Mul (h, p)", ", float[4,1] p = {4096, 2048, 1024, 512}"), "mul",
              DType::kBFloat16);
}

TEST_F(KeptByRange, AProductWithWeightsMayReadIntegers) {
  EXPECT_TRUE(decide("g (int32[2,4] i) => (float[2,4] y)\n"
                     "<float[4,4] w = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7}>\n"
                     "{\nt = Cast <to = 1> (i)\n[mm] y = MatMul (t, w)\n}")
                  .low("mm"));
}

TEST_F(KeptByRange, WhatALogarithmOrAStepMagnifies) {
  const std::string log = between(
      "[sig] p = Sigmoid (h)\n[not] q = Sub (one, p)\n[log] l = Log (q)\n[after] r = Mul (h, l)",
      ", float one = {1}");
  expect_kept(log, "sig", "'log' (Log) magnifies");
  expect_kept(log, "not", "'log' (Log) magnifies");
  const std::string logit = between(
      "[sig] p = Sigmoid (h)\n[not] q = Sub (one, p)\n[odds] o = Div (p, q)\n[log] l = Log (o)\n"
      "[after] r = Mul (h, l)",
      ", float one = {1}");
  expect_kept(logit, "sig", "'log' (Log) magnifies", DType::kBFloat16);
  expect_kept(logit, "odds", "'log' (Log) magnifies", DType::kBFloat16);
  expect_kept(between("[tanh] t = Tanh (h)\n[atanh] a = Atanh (t)\n[after] r = Mul (a, h)"), "tanh",
              "'atanh' (Atanh) magnifies");
  const std::string rounded = between(
      "[scale] a = Div (h, s)\n[round] b = Round (a)\n[back] r = Mul (b, s)", ", float s = {0.01}");
  expect_kept(rounded, "scale", "'round' (Round) magnifies");
  expect_kept(rounded, "round", "whole steps");
  expect_free(between("[scale] a = Div (h, s)\n[relu] r = Relu (a)", ", float s = {0.01}"),
              "scale");
}

TEST_F(KeptByRange, AnglesFromOutside) {
  const std::string graph = between(
      "[angle] a = Mul (t, f)\n[twice] b = Concat <axis = 1> (a, a)\n[sin] c = Sin (b)\n[after] r "
      "= Mul (h, c)",
      ", float[2] f = {1, 0.01}", ", float[4,1] t");
  expect_kept(graph, "angle", "'sin' (Sin) magnifies");
  expect_kept(graph, "twice", "'sin' (Sin) magnifies");
}

TEST_F(KeptByRange, ARuleMayAllowAnExponentialThatIsNotLarge) {
  const std::string small = between("[sig] s = Sigmoid (h)\n[exp] r = Exp (s)");
  const std::string any = between("[exp] r = Exp (h)");
  EXPECT_TRUE(decide(small, DType::kFloat16, allow("Exp")).low("exp"))
      << decide(small, DType::kFloat16, allow("Exp")).cause("exp");
  const Decisions kept = decide(any, DType::kBFloat16, allow("Exp"));
  EXPECT_FALSE(kept.low("exp"));
  EXPECT_THAT(kept.cause("exp"), HasSubstr("Exp magnifies rounding of its operand"));
  EXPECT_TRUE(decide(between("[t] t = Tanh (h)\n[sin] r = Sin (t)"), DType::kFloat16, allow("Sin"))
                  .low("sin"));
  EXPECT_THAT(decide(between("[log] r = Log (h)"), DType::kFloat16, allow("Log")).cause("log"),
              HasSubstr("Log magnifies rounding of its operand"));
}

TEST_F(KeptByRange, SpelledOutExponentialsGoByThePinOfSoftmax) {
  passes::PrecisionPolicy policy;
  policy.softmax = passes::Pin::kFree;
  const std::string sums =
      "[exp] e = Exp (h)\n[sum] s = ReduceSum (e, ax)\n[log] l = Log (s)\nr = Add (h, l)";
  for (const std::string& body :
       {sums, std::string("[exp] e = Exp (h)\n[add] s = Add (one, e)\n[log] r = Log (s)"),
        std::string("n = Neg (h)\n[exp] e = Exp (n)\n[add] s = Add (one, e)\n"
                    "[log] r = Div (one, s)")}) {
    const std::string graph = between(body, ", int64[1] ax = {1}, float one = {1}");
    EXPECT_EQ(decide(graph).of("exp").rule, Rule::kPattern) << body;
    EXPECT_NE(decide(graph, DType::kFloat16, policy).of("exp").rule, Rule::kPattern) << body;
    passes::PrecisionPolicy other;
    other.normalization = passes::Pin::kFree;
    EXPECT_EQ(decide(graph, DType::kFloat16, other).of("exp").rule, Rule::kPattern) << body;
  }
}

TEST_F(KeptByRange, AMaskThatIsReadInTooManyPlacesIsTakenForANumber) {
  std::string body = "[c0] v0 = Concat <axis = 0> (n, n, n, n, n, n, n, n)\n";
  for (int i = 1; i < 4; ++i) {
    const std::string v = "v" + std::to_string(i - 1);
    body += "v" + std::to_string(i) + " = Concat <axis = 0> (" + v;
    for (int j = 0; j < 7; ++j) body += ", " + v;
    body += ")\n";
  }
  const std::string constants =
      ", float[1,4] n = {-1e9, -1e9, -1e9, -1e9}, int64[1] from = {0}, int64[1] to = {4}";
  const Decisions out = decide(
      between(body + "v = Slice (v3, from, to)\nt = Where (c, v, x)\n[where] r = Where (c, h, n)",
              constants, ", bool[1,4] c"));
  EXPECT_FALSE(out.low("where"));
  EXPECT_THAT(out.cause("where"), HasSubstr("'n' holds 1e+09"));
  EXPECT_TRUE(
      decide(between("[where] r = Where (c, h, n)", constants, ", bool[1,4] c")).low("where"));
}

TEST_F(KeptByRange, WeightsWithoutElementsClaimChannelsInVain) {
  const Decisions out = decide(
      "g (float[1,0,4,4] x, float[c] s) => (y)\n<float[1099511627776,0,1,1] k = {}>\n"
      "{\n[conv] h = Conv (x, k)\n[norm] y = BatchNormalization (h, s, s, s, s)\n}");
  EXPECT_FALSE(out.cause("conv").empty());
}

TEST_F(KeptByRange, CoordinatesOfTheTypeOfTheData) {
  const Decisions out = decide(
      "g (float[1,4,8,8] x, float[2,4] rois, int64[2] i) => (float[2,4,2,2] y)\n"
      "<float[4,4,1,1] k = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7}>\n"
      "{\nh = Conv (x, k)\n[roi] r = RoiAlign <output_height = 2, output_width = 2> (h, rois, i)\n"
      "y = Conv (r, k)\n}");
  EXPECT_FALSE(out.low("roi"));
  EXPECT_THAT(out.cause("roi"), HasSubstr("reads coordinates"));
  EXPECT_TRUE(decide("g (float[1,4,8,8] x, float[1,2,2,2] grid) => (float[1,4,2,2] y)\n"
                     "<float[4,4,1,1] k = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7}>\n"
                     "{\nh = Conv (x, k)\n[grid] r = GridSample (h, grid)\ny = Conv (r, k)\n}")
                  .low("grid"))
      << "from opset 20 on the grid has a type of its own";
}

TEST_F(KeptByRange, WhatCoordinatesAreMadeOf) {
  const Decisions out = decide(
      "g (float[1,4,8,8] x, float[1,2,2,2] grid) => (float[1,4,2,2] y)\n"
      "<float[4,4,1,1] k = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7}, float s = {0.25}, float one = {1}>\n"
      "{\nh = Conv (x, k)\n[scale] a = Mul (grid, s)\n[shift] b = Sub (a, one)\n"
      "[sample] r = GridSample (h, b)\ny = Conv (r, k)\n}");
  for (const std::string node : {"scale", "shift"}) {
    EXPECT_FALSE(out.low(node));
    EXPECT_THAT(out.cause(node), HasSubstr("'sample' (GridSample) magnifies"));
  }
}

TEST_F(KeptByRange, OrderOfNearTies) {
  const Decisions out = decide(
      "g (float[4,4] x) => (int64[4,1] i, float[4,4] y)\n"
      "<float[4,4] w = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7}>\n"
      "{\nh = MatMul (x, w)\n[arg] i = ArgMax <axis = 1> (h)\ny = MatMul (h, w)\n}");
  EXPECT_FALSE(out.low("arg"));
  EXPECT_THAT(out.cause("arg"), HasSubstr("ties"));
}

TEST_F(KeptByRange, ChannelsThatALaterScaleBringsBack) {
  const auto graph = [](const std::string& variance, const std::string& weight) {
    return "g (float[1,2,4,4] x) => (float[1,2,4,4] y)\n<float[2,2,1,1] k = {1, 2, " + weight +
           ", " + weight + "}, float[2] one = {1, 1}, float[2] zero = {0, 0}, float[2] v = {1, " +
           variance +
           "}>\n{\n[conv] h = Conv (x, k)\n[norm] y = BatchNormalization <epsilon = 1e-14> "
           "(h, one, zero, zero, v)\n}";
  };
  const Decisions kept = decide(graph("1e-12", "1e-6"));
  EXPECT_FALSE(kept.low("conv"));
  EXPECT_THAT(kept.cause("conv"), HasSubstr("a channel of 'k' holds at most 1e-06"));
  EXPECT_TRUE(decide(graph("1", "1e-6")).low("conv")) << "the channel is dead, and stays so";
  EXPECT_TRUE(decide(graph("1e-12", "1e-3")).low("conv"));
  EXPECT_TRUE(decide(graph("1e-12", "0")).low("conv"));
}

TEST_F(KeptByRange, ConstantsInEveryForm) {
  expect_kept(between("e = Constant <value_float = 1e-12> ()\n[add] r = Add (h, e)"), "add",
              "is 1e-12");
  expect_kept(
      between(
          "e = Constant <value_floats = [1e-12, 1e-12, 1e-12, 1e-12]> ()\n[add] r = Add (h, e)"),
      "add", "holds at most 1e-12");
}

}  // namespace
}  // namespace mezzo::test
