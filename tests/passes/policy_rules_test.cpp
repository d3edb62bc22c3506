// Rules at work: regions, operators, custom operators, thresholds; and what the report says of
// them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "compiler/ir/verifier.h"
#include "passes/precision/output_layers.h"
#include "passes/precision/policy_file.h"
#include "tests/passes/decisions.h"

namespace mezzo::passes {
namespace {

using test::IsOk;
using testing::HasSubstr;

struct Outcome : test::Decisions {
  std::unique_ptr<Model> model;
  DType type(const std::string& value) const { return model->graph->find(value)->dtype(); }
};

Outcome convert(const std::string& text, const std::string& policy) {
  Outcome out;
  out.model = test::value_or_die(import_text(text));
  PassContext ctx;
  ctx.policy = test::value_or_die(parse_policy(policy, "policy.json")).resolve();
  ctx.policy.low = DType::kFloat16;
  ctx.policy.target = "h100";
  EXPECT_THAT(run_passes(*out.model, ctx, convert_pipeline(ctx)), IsOk());
  EXPECT_THAT(verify(*out.model), IsOk());
  out.records = std::move(ctx.records);
  return out;
}

constexpr const char* kBlocks = R"(
<ir_version: 10, opset_import: ["" : 21]>
g (float[2,4,8,8] x) => (float[2,4,8,8] y)
<float[4,4,1,1] k = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7}>
{
  ["/stem/conv"] a = Conv (x, k)
  ["/aspp/conv"] b = Conv (a, k)
  ["/aspp/sqrt"] c = Sqrt (b)
  ["/aspp/relu"] d = Relu (c)
  ["/head/conv"] y = Conv (d, k)
})";

TEST(Rules, KeepARegion) {
  const Outcome out =
      convert(kBlocks, R"({"rules": [{"name": "ASPP", "node": "^/aspp/", "set": "fp32"}]})");
  EXPECT_TRUE(out.low("/stem/conv"));
  EXPECT_FALSE(out.low("/aspp/conv"));
  EXPECT_FALSE(out.low("/aspp/relu"));
  EXPECT_TRUE(out.low("/head/conv"));
  EXPECT_EQ(out.cause("/aspp/conv"), "policy.json: rules[0] (ASPP)");
  EXPECT_EQ(out.of("/aspp/conv").rule, Rule::kPin);
}

// Names of torch.export's nodes do not tell their module, its notes do; and the gradient goes as
// the node does.
TEST(Rules, GoByTheModuleThatIsNoted) {
  const auto model = test::value_or_die(import_text(R"(
<ir_version: 10, opset_import: ["" : 21]>
g (float[4,4] x) => (float loss)
<float[4,4] u = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7}, float[4,4] w = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7}>
{
  [node_matmul_1] a = MatMul (x, u)
  [node_matmul_2] b = MatMul (a, w)
  loss = ReduceMean <keepdims = 0> (b)
})"));
  for (const auto& node : model->graph->nodes()) {
    const std::string layer = node->name == "node_matmul_2" ? "aspp" : "stem";
    if (!node->name.empty())
      node->metadata = {{"pkg.torch.onnx.name_scopes", "['', '" + layer + ".0', 'matmul']"}};
  }
  PassContext ctx;
  ctx.for_runtime = true;
  ctx.policy.pins = {"^aspp\\."};
  EXPECT_THAT(run_passes(*model, ctx,
                         {find_pass("infer-shapes"), find_pass("differentiate"),
                          find_pass("assign-precision")}),
              IsOk());
  int pinned = 0, low = 0;
  for (const NodeDecision& decision : ctx.records.nodes) {
    if (decision.op_type.rfind("MatMul", 0) != 0) continue;
    const bool of_aspp = decision.node.rfind("node_matmul_2", 0) == 0;
    EXPECT_EQ(is_low(decision.dtype), !of_aspp) << decision.node << ": " << decision.cause;
    ++(of_aspp ? pinned : low);
  }
  EXPECT_EQ(pinned, 3) << "forward, and both gradients";
  EXPECT_GE(low, 2);
}

TEST(Rules, TheLastThatMatchesDecides) {
  const Outcome out = convert(kBlocks, R"({"rules": [
      {"op": "Conv", "set": "fp32"},
      {"op": ["Conv", "Sqrt"], "node": "^/(aspp|head)/", "set": "allow"},
      {"node": "^/head/", "set": "deny"}]})");
  EXPECT_FALSE(out.low("/stem/conv"));
  EXPECT_TRUE(out.low("/aspp/conv"));
  EXPECT_TRUE(out.low("/aspp/sqrt"));
  EXPECT_FALSE(out.low("/head/conv"));
  EXPECT_EQ(out.cause("/stem/conv"), "policy.json: rules[0]");
  EXPECT_EQ(out.cause("/aspp/sqrt"), "allow by policy.json: rules[1]");
  EXPECT_EQ(out.of("/aspp/sqrt").rule, Rule::kPolicy);
  EXPECT_EQ(out.cause("/head/conv"), "deny by policy.json: rules[2]");
}

TEST(Rules, OptionsGoBeforeThem) {
  PassContext ctx;
  ctx.policy = test::value_or_die(
                   parse_policy(R"({"rules": [{"op": ["Conv", "Sqrt"], "set": "low"}]})", "p"))
                   .resolve();
  ctx.policy.pins = {"^/stem/"};
  ctx.policy.deny_ops = {"Sqrt"};
  const auto model = test::value_or_die(import_text(kBlocks));
  ASSERT_THAT(run_passes(*model, ctx, convert_pipeline(ctx)), IsOk());
  std::map<std::string, std::string> causes;
  for (const NodeDecision& node : ctx.records.nodes) causes[node.node] = node.cause;
  EXPECT_EQ(causes["/stem/conv"], "--pin ^/stem/");
  EXPECT_EQ(causes["/aspp/sqrt"], "--deny-op Sqrt");
  EXPECT_EQ(causes["/head/conv"], "p: rules[0]");
}

TEST(Rules, MatchMetadataAndDomain) {
  constexpr const char* kText = R"(
<ir_version: 10, opset_import: ["" : 21]>
g (float[2,2] x) => (float[2,2] y)
<float[2,2] w = {1, 2, 3, 4}>
{
  [first] a = MatMul (x, w)
  [second] y = MatMul (a, w)
})";
  const auto model = test::value_or_die(import_text(kText));
  model->graph->nodes().front()->metadata = {{"scope", "encoder.layer1"}};
  PassContext ctx;
  ctx.policy = test::value_or_die(parse_policy(R"({"rules": [
      {"metadata": {"scope": "^encoder"}, "set": "fp32"},
      {"domain": "other", "set": "fp32"}]})",
                                               "p"))
                   .resolve();
  ASSERT_THAT(run_passes(*model, ctx, convert_pipeline(ctx)), IsOk());
  EXPECT_FALSE(is_low(ctx.records.nodes[0].dtype));
  EXPECT_TRUE(is_low(ctx.records.nodes[1].dtype));
}

// Constants beyond the range hold against a category, not against `low`.
TEST(Rules, CategoriesRespectTheRange) {
  constexpr const char* kText = R"(
<ir_version: 10, opset_import: ["" : 21]>
g (float[2,2] x) => (float[2,2] y)
<float[2,2] w = {1, 2, 3, 4}, float big = {1e6}>
{
  [first] a = MatMul (x, w)
  [scaled] b = Mul (a, big)
  [last] y = MatMul (b, w)
})";
  EXPECT_FALSE(convert(kText, R"({"rules": [{"op": "Mul", "set": "allow"}]})").low("scaled"));
  EXPECT_TRUE(convert(kText, R"({"rules": [{"op": "Mul", "set": "low"}]})").low("scaled"));
}

// --- custom operators ----------------------------------------------------------------------------

constexpr const char* kCustom = R"(
<ir_version: 10, opset_import: ["" : 21, "my.ops" : 1]>
g (float[2,2] x) => (float[2,2] y, float[2,2] z)
<float[2,2] w = {1, 2, 3, 4}, float[2] bias = {1, 2}>
{
  [before] a = MatMul (x, w)
  [mine] b, statistics = my.ops.Fused (a, w, bias)
  [after] y = MatMul (b, w)
  [reader] z = MatMul (statistics, w)
})";

TEST(CustomOps, StayFp32WithoutARule) {
  const Outcome out = convert(kCustom, "{}");
  EXPECT_FALSE(out.low("mine"));
  EXPECT_EQ(out.cause("mine"), "operator unknown to mezzo: stays as it is");
  EXPECT_EQ(out.type("w"), DType::kFloat32);
  EXPECT_EQ(out.type("w_fp16"), DType::kFloat16);  // for the MatMuls
}

TEST(CustomOps, TakeTheLowTypeWhereARuleSaysSo) {
  const Outcome out = convert(kCustom, R"({"rules": [{"name": "fused kernel", "op": "Fused",
      "domain": "my.ops", "set": "allow", "operands": [0, 1], "results": [0]}]})");
  EXPECT_TRUE(out.low("mine"));
  EXPECT_EQ(out.cause("mine"), "allow by policy.json: rules[0] (fused kernel)");
  const Graph& graph = *out.model->graph;
  const Node* mine = nullptr;
  for (const auto& node : graph.nodes()) {
    if (node->op_type() == "Fused") mine = node.get();
  }
  ASSERT_NE(mine, nullptr);
  EXPECT_EQ(mine->operand(0)->dtype(), DType::kFloat16);
  EXPECT_EQ(mine->operand(1)->dtype(), DType::kFloat16);
  EXPECT_EQ(mine->operand(2)->dtype(), DType::kFloat32);  // not listed
  EXPECT_EQ(mine->result(0)->dtype(), DType::kFloat16);
  // No cast between the custom operator and its neighbours.
  EXPECT_TRUE(mine->operand(0)->producer()->is("MatMul"));
  EXPECT_TRUE(mine->result(0)->uses().at(0).node->is("MatMul"));
  // The other result, not listed, is FP32, as its reader needs it beside w.
  EXPECT_EQ(mine->result(1)->dtype(), DType::kFloat32);
  EXPECT_TRUE(out.low("reader"));
}

TEST(CustomOps, WithoutAListAllFp32ValuesAreLow) {
  const std::string typed = R"(
<ir_version: 10, opset_import: ["" : 21, "my.ops" : 1]>
g (float[2,2] x, int64[1] n) => (float[2,2] y)
<float[2,2] w = {1, 2, 3, 4}, float[2,2] b>
{
  [before] a = MatMul (x, w)
  [mine] b = my.ops.Fused (a, n, w)
  [after] y = MatMul (b, w)
})";
  const Outcome out = convert(typed, R"({"rules": [{"op": "Fused", "set": "low"}]})");
  EXPECT_TRUE(out.low("mine"));
  EXPECT_EQ(out.type("b"), DType::kFloat16);
  EXPECT_EQ(out.records.casts.size(), 3u);  // x, y, and w that is stored low
}

TEST(CustomOps, FreeOnesFollowTheirNeighbours) {
  const Outcome out = convert(kCustom, R"({"rules": [{"op": "Fused", "set": "infer",
      "operands": [0], "results": [0]}]})");
  EXPECT_TRUE(out.low("mine"));
  EXPECT_EQ(out.of("mine").rule, Rule::kCut);
  EXPECT_THAT(out.cause("mine"), HasSubstr("infer by policy.json: rules[0], follows"));
}

// --- pins and thresholds -------------------------------------------------------------------------

TEST(Pins, OutputLayerIsTheLastContraction) {
  const Outcome out = convert(kBlocks, R"({"pins": {"output_layer": "fp32"}})");
  EXPECT_TRUE(out.low("/aspp/conv"));
  EXPECT_FALSE(out.low("/head/conv"));
  EXPECT_EQ(out.cause("/head/conv"), "output layer is pinned to FP32");
}

TEST(Pins, ReturnedKeysAreNoOutputLayer) {
  const auto model = test::value_or_die(import_text(R"(
<ir_version: 10, opset_import: ["" : 21]>
g (float[2,2] x) => (float[2,2] key, float[2,2] y, float[2,2] side)
<float[2,2] w = {1, 2, 3, 4}>
{
  [k] key = MatMul (x, w)
  [scores] s = MatMul (x, key)
  [head] h = MatMul (s, w)
  y = Relu (h)
  [aside] side = MatMul (x, w)
})"));
  std::vector<std::string> names;
  for (const Node* node : output_layers(*model->graph)) names.push_back(node->name);
  EXPECT_THAT(names, testing::UnorderedElementsAre("head", "aside"));
  names.clear();
  for (const Node* node : output_layers(*model->graph, {"side"})) names.push_back(node->name);
  EXPECT_THAT(names, testing::ElementsAre("head"));
}

TEST(Pins, NormalisationsWithoutFp32StatisticsStay) {
  const std::string body = R"(
g (float[2,4,2] x) => (float[2,4,2] y)
<float[4,4,1] k = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7}, float[4] one = {1,1,1,1},
 float[4] zero = {0,0,0,0}>
{
  [conv] a = Conv (x, k)
  [bn] b = BatchNormalization (a, one, zero, zero, one)
  [conv2] y = Conv (b, k)
})";
  const char* policy = R"({"pins": {"normalization": "fp32-statistics"}})";
  const Outcome now = convert("<ir_version: 10, opset_import: [\"\" : 15]>" + body, policy);
  EXPECT_TRUE(now.low("bn"));
  EXPECT_EQ(now.type("b"), DType::kFloat16);
  EXPECT_EQ(now.type("one"), DType::kFloat32);
  const Outcome old = convert("<ir_version: 7, opset_import: [\"\" : 9]>" + body, policy);
  EXPECT_FALSE(old.low("bn"));  // one type for data and statistics
  EXPECT_THAT(old.cause("bn"), HasSubstr("does not keep its statistics"));
}

TEST(Pins, LiftedNormalizationPinFreesTheParts) {
  constexpr const char* kText = R"(
<ir_version: 10, opset_import: ["" : 21]>
g (float[2,4] x) => (float[2,4] y)
<float[4,4] w = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7}, int64[1] last = {-1}, float eps = {1e-3},
 float two = {2}>
{
  [in] a = MatMul (x, w)
  [mean] m = ReduceMean (a, last)
  [centre] c = Sub (a, m)
  [square] s = Pow (c, two)
  [variance] v = ReduceMean (s, last)
  [shift] e = Add (v, eps)
  [root] r = Sqrt (e)
  [norm] n = Div (c, r)
  [out] y = MatMul (n, w)
})";
  const Outcome pinned = convert(kText, R"({"rules": [{"op": "Pow", "set": "allow"}]})");
  EXPECT_FALSE(pinned.low("square"));  // counts as LayerNormalization
  EXPECT_FALSE(pinned.low("centre"));
  const Outcome lifted =
      convert(kText, R"({"pins": {"normalization": "free"}, "categories": {"infer": "low"},
                 "rules": [{"op": "Pow", "set": "allow"}]})");
  EXPECT_TRUE(lifted.low("square"));
  EXPECT_TRUE(lifted.low("centre"));
  EXPECT_FALSE(lifted.low("root"));  // deny
  const Outcome named =
      convert(kText, R"({"rules": [{"op": "LayerNormalization", "set": "low"}]})");
  EXPECT_TRUE(named.low("square"));
  EXPECT_TRUE(named.low("root"));
}

TEST(Categories, CanBeKeptOrForced) {
  const Outcome kept = convert(kBlocks, R"({"categories": {"infer": "fp32", "deny": "low"}})");
  EXPECT_FALSE(kept.low("/aspp/relu"));
  EXPECT_EQ(kept.cause("/aspp/relu"), "infer: FP32 by the policy's categories");
  EXPECT_TRUE(kept.low("/aspp/sqrt"));
  EXPECT_EQ(kept.cause("/aspp/sqrt"), "deny: low by the policy's categories");
  const Outcome none = convert(kBlocks, R"({"categories": {"allow": "fp32"}})");
  EXPECT_FALSE(none.low("/stem/conv"));
}

TEST(Thresholds, SmallContractionsAreFree) {
  const Outcome out = convert(kBlocks, R"({"thresholds": {"min_flops": 1e9}})");
  EXPECT_EQ(out.of("/stem/conv").rule, Rule::kCut);
  EXPECT_THAT(out.cause("/stem/conv"), HasSubstr("under the least FLOPs of the policy"));
}

TEST(Thresholds, MasksAndSmallConstants) {
  const std::string text = R"(
<ir_version: 10, opset_import: ["" : 21]>
g (float[2,2] x, bool[2,2] hidden) => (float[2,2] y)
<float[2,2] w = {1, 2, 3, 4}, float never = {-70000}, float tiny = {1e-3}>
{
  [first] a = MatMul (x, w)
  [mask] b = Where (hidden, never, a)
  [bound] c = Max (b, tiny)
  [last] y = MatMul (c, w)
})";
  const Outcome usual = convert(text, "{}");
  EXPECT_TRUE(usual.low("mask")) << usual.cause("mask");
  EXPECT_TRUE(usual.low("bound")) << usual.cause("bound");
  const Outcome strict =
      convert(text, R"({"thresholds": {"mask": -1e9, "smallest_constant": 0.01}})");
  EXPECT_FALSE(strict.low("mask"));
  EXPECT_FALSE(strict.low("bound"));
  EXPECT_THAT(strict.cause("bound"), HasSubstr("below the policy's 0.01"));
}

// A mean over 2048 elements, each counted as 64, passes 65504 on the way.
TEST(Thresholds, AnActivationMayCountForLess) {
  const std::string text = R"(
<ir_version: 10, opset_import: ["" : 21]>
g (float[2,2048,2] x) => (float[2,2] y)
<float[2,2] w = {1, 2, 3, 4}, int64[1] axis = {1}>
{
  [first] a = MatMul (x, w)
  [mean] m = ReduceMean <keepdims = 0> (a, axis)
  [last] y = MatMul (m, w)
})";
  EXPECT_FALSE(convert(text, "{}").low("mean"));
  EXPECT_TRUE(convert(text, R"({"thresholds": {"activation": 8}})").low("mean"));
}

TEST(RangeChecks, CanBeLimitedToConstants) {
  const std::string text = R"(
<ir_version: 10, opset_import: ["" : 21]>
g (float[2,2] x) => (float[2,2] y)
<float[2,2] w = {1, 2, 3, 4}, float big = {1e6}>
{
  [first] a = MatMul (x, w)
  [exp] b = Exp (a)
  [scaled] c = Mul (b, big)
  [last] y = MatMul (c, w)
})";
  const std::string rules = R"(, "rules": [{"op": ["Exp", "Mul"], "set": "allow"}]})";
  const Outcome graph = convert(text, R"({"range_check": "graph")" + rules);
  EXPECT_FALSE(graph.low("exp"));
  EXPECT_FALSE(graph.low("scaled"));
  const Outcome constants = convert(text, R"({"range_check": "constants")" + rules);
  EXPECT_TRUE(constants.low("exp"));
  EXPECT_FALSE(constants.low("scaled"));
  EXPECT_THAT(constants.cause("scaled"), HasSubstr("constant 'big' holds 1e+06"));
  const Outcome off = convert(text, R"({"range_check": "off")" + rules);
  EXPECT_TRUE(off.low("exp"));
  EXPECT_TRUE(off.low("scaled"));
}

}  // namespace
}  // namespace mezzo::passes
