// The choice of the loss; models that lost parameters; what normalises or shifts.
#include "passes/autodiff/prepare_training.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/onnx/import.h"
#include "passes/autodiff/parameter_roles.h"
#include "passes/autodiff/select_parameters.h"
#include "tests/passes/pass_case.h"
#include "tests/support/status_test.h"

namespace mezzo::passes {
namespace {

using test::IsOk;
using test::Rejects;
using testing::HasSubstr;

constexpr const char* kHead = "<ir_version: 10, opset_import: [\"\" : 21]>\n";

std::unique_ptr<Model> typed_model(const std::string& text) {
  auto model = test::value_or_die(import_text(kHead + text));
  PassContext ctx;
  EXPECT_THAT(test::run_named(*model, ctx, "infer-shapes"), IsOk());
  return model;
}

TEST(FindLoss, TheOnlyScalarOrTheOneNamed) {
  const auto model = typed_model(R"(
g (float[4,3] x, int64[4] labels) => (float loss, float[4,2] logits)
<float[3,2] w = {1,2,3,4,5,6}>
{
  logits = MatMul (x, w)
  loss = SoftmaxCrossEntropyLoss (logits, labels)
})");
  EXPECT_EQ(test::value_or_die(find_loss(*model->graph, ""))->name(), "loss");
  EXPECT_EQ(test::value_or_die(find_loss(*model->graph, "loss"))->name(), "loss");
  EXPECT_THAT(
      find_loss(*model->graph, "logits"),
      Rejects("output 'logits': expected a floating-point scalar to train on, got float[4,2]"));
  EXPECT_THAT(find_loss(*model->graph, "lost"),
              Rejects("--loss-output 'lost': no such output. The outputs are 'loss' float[], "
                      "'logits' float[4,2]"));
}

TEST(FindLoss, NoneOrSeveral) {
  const auto none =
      typed_model("g (float[2] x) => (float[2] y, int64 n) <int64 n = {1}> { y = Neg (x) }");
  EXPECT_THAT(find_loss(*none->graph, ""), Rejects("the graph has no loss"));
  const auto several = typed_model(
      "g (float[2] x) => (float a, float[1] b) { a = ReduceSum <keepdims = 0> (x) b = ReduceMean "
      "(x) }");
  EXPECT_THAT(find_loss(*several->graph, ""),
              Rejects("more than one output is a floating-point scalar"));
  EXPECT_EQ(test::value_or_die(find_loss(*several->graph, "b"))->name(),
            "b");  // [1] counts as a scalar
}

// The exporter's optimiser notes the module whose normalisation it folded away.
TEST(PrepareTraining, RefusesFoldedBatchNorm) {
  const auto model = typed_model(R"(
g (float[1,1,2,2] x) => (float loss)
<float[1,1,1,1] w = {2}, float[1] b = {0}>
{
  h = Conv (x, w, b)
  loss = ReduceMean <keepdims = 0> (h)
})");
  Node* conv = model->graph->nodes().front().get();
  conv->metadata = {{"pkg.onnxscript.rewriter.rule_name", "FuseBatchNormIntoConv"},
                    {"pkg.torch.onnx.name_scopes", "['', 'net', 'net.bn1', 'batch_norm']"}};
  PassContext ctx;
  EXPECT_THAT(test::run_named(*model, ctx, "infer-shapes,prepare-training"),
              Rejects("the exporter folded 1 BatchNormalization layers into convolutions"));
  EXPECT_THAT(test::run_named(*model, ctx, "infer-shapes,prepare-training"), Rejects("'net.bn1'"));
  EXPECT_THAT(test::run_named(*model, ctx, "infer-shapes,prepare-training"),
              Rejects("optimize=False"));
  // Inference does not mind.
  EXPECT_THAT(test::run_named(*model, ctx, "infer-shapes,inference-form"), IsOk());
}

// The names of its results tell that TorchScript's exporter computed them; it notes nothing.
TEST(PrepareTraining, TellsOfConvolutionsThatWereFolded) {
  const auto model = typed_model(R"(
g (float[1,1,2,2] x) => (float loss)
<float[1,1,1,1] "onnx::Conv_12" = {2}, float[1] "onnx::Conv_13" = {0}>
{
  [conv] h = Conv (x, "onnx::Conv_12", "onnx::Conv_13")
  loss = ReduceMean <keepdims = 0> (h)
})");
  PassContext ctx;
  EXPECT_THAT(test::run_named(*model, ctx, "infer-shapes,prepare-training"), IsOk());
  ASSERT_EQ(ctx.records.warnings.size(), 1U);
  EXPECT_THAT(ctx.records.warnings[0], HasSubstr("'conv'"));
}

TEST(PrepareTraining, RefusesADropoutThatDropsAll) {
  const auto model =
      typed_model("g (float[2] x) => (float[2] y) <float r = {1.0}> { y = Dropout (x, r) }");
  PassContext ctx;
  EXPECT_THAT(test::run_named(*model, ctx, "infer-shapes,prepare-training"),
              Rejects("expected a ratio in [0, 1), got 1"));
}

TEST(NormsAndBiases, AreFoundByTheOperandThatReadsThem) {
  const auto model = test::value_or_die(import_text(std::string(kHead) + R"(
g (float[2,2,2] x) => (float[2,2,2] y, float[2,1,2,1] r)
<float[1,2] gemm_bias = {1,2}, float[2,2] weight = {1,2,3,4}, float16[2,1] scale_half = {1,1},
 float[1,2] shift = {0,0}, float[2,2,1] kernel = {1,2,3,4}, float[2] kernel_bias = {0,0},
 float[1,4,2] rw = {1,2,3,4,5,6,7,8}, float[1,4,1] rr = {1,2,3,4}, float[1,8] rb = {1,2,3,4,5,6,7,8},
 float[2] vector = {1,2}, float scalar = {2}, float[2,2] table = {1,2,3,4}, int64[1] ids = {0}>
{
  flat = Flatten (x)
  m = Gemm (flat, weight, gemm_bias)
  scale = Cast <to = 1> (scale_half)
  scale1 = Squeeze (scale)
  shift1 = Squeeze (shift)
  n = InstanceNormalization (x, scale1, shift1)
  c = Conv (n, kernel, kernel_bias)
  r = LSTM <hidden_size = 1> (x, rw, rr, rb)
  a = Add (c, vector)
  b = Mul (a, scalar)
  y = Add (b, table)
})"));
  EXPECT_THAT(norms_and_biases(*model->graph),
              testing::UnorderedElementsAre("gemm_bias", "scale_half", "shift", "kernel_bias", "rb",
                                            "vector", "scalar"));
}

}  // namespace
}  // namespace mezzo::passes
