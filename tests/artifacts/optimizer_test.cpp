#include "compiler/artifacts/ort_optimizer.h"

#include <gtest/gtest.h>

#include "compiler/onnx/import.h"
#include "tests/support/status_test.h"

namespace mezzo::test {
namespace {

StatusOr<OrtOptimizer> read(const std::string& nodes) {
  const auto model = value_or_die(import_text(R"(
<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
g (float[1] lr, int64[1] step, seq(float[]) p, seq(float[]) g, seq(float[]) m, seq(float[]) v) => (bool[1] done)
{)" + nodes + "}",
                                              "g.onnxtxt"));
  return read_ort_optimizer(*model->graph);
}

TEST(OrtOptimizer, AdamWInBothForms) {
  auto optimizer = value_or_die(read(R"(
    done = com.microsoft.AdamWOptimizer <alpha = 0.8, beta = 0.95, epsilon = 0.001,
      weight_decay = 0.1, adam_mode = 1, correct_bias = 0> (lr, step, p, g, m, v))"));
  EXPECT_EQ(optimizer.kind, OrtOptimizer::Kind::kAdamW);
  EXPECT_EQ(optimizer.mode, OrtOptimizer::AdamMode::kHuggingFace);
  EXPECT_EQ(optimizer.beta1, 0.8F);
  EXPECT_EQ(optimizer.beta2, 0.95F);
  EXPECT_EQ(optimizer.epsilon, 0.001F);
  EXPECT_EQ(optimizer.weight_decay, 0.1F);
  EXPECT_FALSE(optimizer.correct_bias);
  EXPECT_FALSE(optimizer.clip_norm);

  optimizer = value_or_die(read("done = com.microsoft.AdamWOptimizer (lr, step, p, g, m, v)"));
  EXPECT_EQ(optimizer.mode, OrtOptimizer::AdamMode::kPyTorch);
  EXPECT_EQ(optimizer.weight_decay, 0.01F);
  EXPECT_TRUE(optimizer.correct_bias);
}

TEST(OrtOptimizer, SgdBehindClipping) {
  const auto optimizer = value_or_die(read(R"(
    c = com.microsoft.InplaceClipGradNorm <max_norm = 2.5> (g)
    done = com.microsoft.SGDOptimizerV2 (lr, p, c))"));
  EXPECT_EQ(optimizer.kind, OrtOptimizer::Kind::kSgd);
  EXPECT_EQ(optimizer.clip_norm, 2.5F);
}

TEST(OrtOptimizer, NamesWhatItDoesNotKnow) {
  EXPECT_THAT(read("[up] done = com.microsoft.LambOptimizer (lr, step, p, g, m, v)"),
              FailsWith(StatusCode::kUnimplemented,
                        testing::HasSubstr("node 'up' (com.microsoft.LambOptimizer)")));
  EXPECT_THAT(read("done = Identity (lr)"), Rejects("expected a node AdamWOptimizer"));
  EXPECT_THAT(
      read("[up] done = com.microsoft.AdamWOptimizer <adam_mode = 2> (lr, step, p, g, m, v)"),
      Rejects("attribute 'adam_mode': expected 0 or 1, got 2"));
  EXPECT_THAT(read("[up] done = com.microsoft.AdamWOptimizer <alpha = 1.5> (lr, step, p, g, m, v)"),
              Rejects("attribute 'alpha': expected a number from 0 to below 1, got 1.5"));
  EXPECT_THAT(read(R"([a] done = com.microsoft.SGDOptimizerV2 (lr, p, g)
    [b] again = com.microsoft.SGDOptimizerV2 (lr, p, g))"),
              FailsWith(StatusCode::kUnimplemented, testing::HasSubstr("a second optimizer")));
}

}  // namespace
}  // namespace mezzo::test
