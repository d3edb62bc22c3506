#include "passes/numerics/match.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "passes/numerics/lowered.h"
#include "tests/numerics/numeric_case.h"
#include "tests/support/status_test.h"

namespace mezzo::test {
namespace {

using numerics::match_models;
using numerics::ModelMatch;

constexpr const char* kPlain =
    "g (float[2,2] x) => (float[2,2] y) <float[2,2] w = {1,2,3,4}>\n"
    "{ [mm] h = MatMul (x, w)\n[relu] y = Relu (h) }";

TEST(Match, AConversionOfOurs) {
  const auto a = prepared(kPlain), b = converted(kPlain, naive_policy());
  const ModelMatch match = value_or_die(match_models(*a, *b));
  const Graph &of_a = *a->graph, &of_b = *b->graph;
  EXPECT_EQ(match.a_of.at(of_b.find("y")), of_a.find("y"));
  EXPECT_EQ(match.a_of.at(of_b.find("y_fp16")), of_a.find("y")) << "what the cast reads";
  EXPECT_EQ(match.a_of.at(of_b.find("x_fp16")), of_a.find("x")) << "what the cast makes";
  EXPECT_EQ(match.a_of.at(of_b.find("h")), of_a.find("h"));
  EXPECT_EQ(match.b_of.size(), 2U);
  EXPECT_EQ(match.b_of.at(of_a.find("y")->producer()), of_b.find("y_fp16")->producer());
}

TEST(Match, CastsThatAnotherToolNamed) {
  const auto a = prepared("g (float[2] x) => (float[2] y) { h = Sqrt (x)\ny = Relu (h) }");
  const auto b = prepared(
      "g (float[2] x) => (float[2] y) { graph_input_cast_0 = Cast <to = 10> (x)\n"
      "h = Sqrt (graph_input_cast_0)\ngraph_output_cast_0 = Relu (h)\n"
      "y = Cast <to = 1> (graph_output_cast_0) }");
  const ModelMatch match = value_or_die(match_models(*a, *b));
  EXPECT_EQ(match.a_of.at(b->graph->find("graph_output_cast_0")), a->graph->find("y"));
  EXPECT_EQ(match.b_of.size(), 2U) << "unnamed nodes go by what they make";
  const numerics::Lowering lowering = value_or_die(numerics::read_lowering(*a, *b, match));
  EXPECT_EQ(lowering.low, DType::kFloat16);
  EXPECT_EQ(lowering.nodes.size(), 2U);
}

TEST(Match, RoundTripsThroughTheLowType) {
  const auto a = prepared("g (float[2] x) => (float[2] y) { y = Relu (x) }");
  const auto b = prepared(
      "g (float[2] x) => (float[2] y) { c = Cast <to = 16> (x)\nd = Cast <to = 1> (c)\n"
      "y = Relu (d) }");
  const ModelMatch match = value_or_die(match_models(*a, *b));
  const numerics::Lowering lowering = value_or_die(numerics::read_lowering(*a, *b, match));
  ASSERT_EQ(lowering.nodes.size(), 1U);
  EXPECT_EQ(lowering.nodes[0].rounded, std::vector<std::size_t>{0});
  EXPECT_EQ(lowering.low, DType::kBFloat16);
}

TEST(Match, InsideLoopsAndFunctions) {
  const std::string text =
      "g (int64 n, float[2] s) => (float[2] y)\n"
      "{ [loop] y = Loop <body = b (int64 i, bool c, float[2] t) => (bool d, float[2] u)\n"
      "{ d = Identity (c)\n[call] v = f.double (t)\n[sig] u = Sigmoid (v) }> (n, \"\", s) }\n"
      "<domain: \"f\", opset_import: [\"\" : 17]>\ndouble (x) => (y) { [inner] y = Add (x, x) }";
  const auto a = prepared(text), b = converted(text, naive_policy());
  const ModelMatch match = value_or_die(match_models(*a, *b));
  std::size_t matched = 0;
  for_each_graph(*a->graph, [&](const Graph& graph) {
    for (const auto& node : graph.nodes()) matched += match.b_of.count(node.get());
  });
  EXPECT_EQ(matched, 5U) << "loop, identity, call, inner, sig";
}

TEST(Match, DifferentPortsAreAnError) {
  const auto a = prepared(kPlain);
  const auto other = [](const std::string& text) { return prepared(text); };
  EXPECT_THAT(match_models(*a, *other("g (float[2,2] z) => (float[2,2] y) { y = Relu (z) }")),
              Rejects("the models differ in their inputs: 'x' and 'z'"));
  EXPECT_THAT(match_models(*a, *other("g (float[2,2] x) => (float[2,2] q) { q = Relu (x) }")),
              Rejects("differ in their outputs: 'y' and 'q'"));
  EXPECT_THAT(match_models(*a, *other("g (float[2] x) => (float[2] y) { y = Relu (x) }")),
              Rejects("differ in their inputs 'x': float[2,2] and float[2]"));
  EXPECT_THAT(match_models(*a, *other("g (int64[2,2] x) => (float[2,2] y)\n"
                                      "{ y = Cast <to = 1> (x) }")),
              Rejects("differ in their inputs 'x'"));
}

TEST(Match, TheFirstModelMustBeFp32) {
  const auto a = prepared(kPlain), b = converted(kPlain, naive_policy());
  const ModelMatch match = value_or_die(match_models(*b, *a));
  EXPECT_THAT(numerics::read_lowering(*b, *a, match), Rejects("give the FP32 model first"));
}

}  // namespace
}  // namespace mezzo::test
