// What each preset keeps in FP32, on one graph that has something of every kind.
#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "compiler/onnx/import.h"
#include "passes/pipeline.h"
#include "passes/precision/policy_file.h"
#include "tests/support/status_test.h"

namespace mezzo::passes {
namespace {

constexpr const char* kModel = R"(
<ir_version: 10, opset_import: ["" : 21]>
g (int64[2,3] ids, float[2,4,8,8] image, int64[2] target)
  => (float[2,3,4] words, float[2,4] scores, float loss)
<float[9,4] table = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9},
 float[4] one = {1,1,1,1}, float[4] zero = {0,0,0,0},
 float[4,4] w = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7},
 float[4,4,1,1] k = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7},
 float[1] slope = {0.25}, float[4] scales = {1,1,2,2}, int64[2] space = {2,3}>
{
  [embedding] e = Gather (table, ids)
  [layer_norm] n = LayerNormalization (e, one, zero)
  [projection] p = MatMul (n, w)
  [softmax] s = Softmax (p)
  [exp] x = Exp (s)
  [words] words = MatMul (x, w)
  [stem] c0 = Conv (image, k)
  [batch_norm] b = BatchNormalization (c0, one, zero, zero, one)
  [relu] r = Relu (b)
  [conv1] c1 = Conv (r, k)
  [instance_norm] i = InstanceNormalization (c1, one, zero)
  [conv2] c2 = Conv (i, k)
  [resize] z = Resize <mode = "nearest"> (c2, , scales)
  [conv3] c3 = Conv (z, k)
  [sqrt] q = Sqrt (c3)
  [prelu] a = PRelu (q, slope)
  [conv4] c4 = Conv (a, k)
  [sum] m = ReduceSum <keepdims = 0> (c4, space)
  [head] scores = Gemm (m, w)
  [loss] loss = SoftmaxCrossEntropyLoss (scores, target)
})";

// "fp32" or "low" by node name.
std::map<std::string, std::string> labels(const std::string& preset) {
  const auto model = test::value_or_die(import_text(kModel));
  PassContext ctx;
  ctx.policy = test::value_or_die(find_preset(preset)).resolve();
  ctx.policy.low = DType::kFloat16;
  ctx.policy.target = "h100";
  for (const char* pass : {"infer-shapes", "assign-precision"}) {
    const StatusOr<bool> changed = find_pass(pass)->function(*model, ctx);
    EXPECT_TRUE(changed.ok()) << changed.status().message();
  }
  std::map<std::string, std::string> found;
  for (const NodeDecision& node : ctx.records.nodes)
    found[node.node] = is_low(node.dtype) ? "low" : "fp32";
  return found;
}

TEST(Presets, KeepInFp32WhatTheyShould) {
  constexpr const char* kPresets[] = {"default", "inference", "torch-amp",
                                      "apex-o1", "apex-o2",   "keras-mixed_float16"};
  // A row per node, a column per preset: f FP32, l low.
  const std::map<std::string, std::string> expected = {
      {"embedding", "flffll"}, {"layer_norm", "flffll"},    {"projection", "llllll"},
      {"softmax", "fffflf"},   {"exp", "ffffll"},           {"words", "llllll"},
      {"stem", "llllll"},      {"batch_norm", "flllll"},    {"relu", "llllll"},
      {"conv1", "llllll"},     {"instance_norm", "fllllf"}, {"conv2", "llllll"},
      {"resize", "llffll"},    {"conv3", "llllll"},         {"sqrt", "ffllll"},
      {"prelu", "llllll"},     {"conv4", "llllll"},         {"sum", "ffffll"},
      {"head", "llllll"},      {"loss", "ffffff"},
  };
  for (std::size_t p = 0; p < std::size(kPresets); ++p) {
    const std::map<std::string, std::string> found = labels(kPresets[p]);
    for (const auto& [node, row] : expected) {
      EXPECT_EQ(found.at(node), row[p] == 'l' ? "low" : "fp32") << kPresets[p] << ": " << node;
    }
  }
  EXPECT_EQ(labels("keras-mixed_bfloat16"), labels("keras-mixed_float16"));
}

TEST(Presets, SayWhichTypeTheyAreFor) {
  const auto low = [](const char* preset) {
    return test::value_or_die(find_preset(preset)).resolve().low;
  };
  EXPECT_EQ(low("apex-o1"), DType::kFloat16);
  EXPECT_EQ(low("apex-o2"), DType::kFloat16);
  EXPECT_EQ(low("keras-mixed_float16"), DType::kFloat16);
  EXPECT_EQ(low("keras-mixed_bfloat16"), DType::kBFloat16);
  EXPECT_EQ(low("torch-amp"), DType::kBFloat16);  // as the target has it
}

TEST(Presets, AreListedWhereOneIsMisspelt) {
  EXPECT_THAT(find_preset("apex-02"), test::Rejects("Did you mean 'apex-o2'? There are apex-o1, "));
}

}  // namespace
}  // namespace mezzo::passes
