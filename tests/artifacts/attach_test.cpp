// Graph and checkpoint must agree.
#include "compiler/artifacts/attach_checkpoint.h"

#include <gtest/gtest.h>

#include "compiler/artifacts/accumulators.h"
#include "compiler/onnx/import.h"
#include "sample_checkpoint.h"
#include "tests/support/status_test.h"

namespace mezzo::test {
namespace {

std::unique_ptr<Model> training_graph() {
  return value_or_die(import_text(R"(
<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
g (float[N,3] x, float[2,3] w, float[2] m, float[2,3] "w_grad.accumulation.buffer") => (bool[1] done)
{
  w_grad = Identity (w)
  [acc] done = com.microsoft.InPlaceAccumulatorV2 ("w_grad.accumulation.buffer", w_grad)
})",
                                  "g.onnxtxt"));
}

OrtCheckpoint matching() {
  OrtCheckpoint checkpoint;
  checkpoint.trained = {floats("w", {2, 3}, {1, 2, 3, 4, 5, 6})};
  checkpoint.frozen = {floats("m", {2}, {7, 8}), floats("of_another_graph", {1}, {0})};
  return checkpoint;
}

TEST(AttachCheckpoint, GivesInputsTheirValues) {
  const auto model = training_graph();
  ASSERT_TRUE(accumulates_gradients(*model->graph));
  ASSERT_THAT(attach_checkpoint(*model->graph, matching(), "c"), IsOk());
  EXPECT_EQ(model->graph->find("w")->constant()->to_doubles(),
            (std::vector<double>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(model->graph->find("m")->constant()->to_doubles(), (std::vector<double>{7, 8}));
  EXPECT_FALSE(model->graph->find("x")->is_initializer());
  EXPECT_FALSE(model->graph->find("w_grad.accumulation.buffer")->is_initializer());
}

Status attached(const OrtCheckpoint& checkpoint) {
  const auto model = training_graph();
  return attach_checkpoint(*model->graph, checkpoint, "c");
}

TEST(AttachCheckpoint, NamesWhatContradicts) {
  OrtCheckpoint checkpoint = matching();
  checkpoint.trained[0] = floats("w", {3, 2}, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(attached(checkpoint),
              Rejects("graph input 'w': expected float[2,3], got float[3,2] in c"));

  const std::vector<std::byte> halves(12);
  checkpoint.trained[0] = {"w", Tensor::from_bytes(DType::kFloat16, {2, 3}, halves)};
  EXPECT_THAT(attached(checkpoint), Rejects("expected float[2,3], got float16[2,3]"));

  checkpoint.trained.clear();
  EXPECT_THAT(attached(checkpoint),
              Rejects("node 'acc' (com.microsoft.InPlaceAccumulatorV2): the graph has a gradient "
                      "for parameter 'w', which is missing in c"));

  checkpoint.frozen.push_back(floats("w", {2, 3}, {1, 2, 3, 4, 5, 6}));
  EXPECT_THAT(attached(checkpoint), Rejects("parameter 'w', which is frozen in c"));

  checkpoint = matching();
  checkpoint.trained.push_back(floats("other", {1}, {1}));
  EXPECT_THAT(attached(checkpoint), Rejects("parameter 'other' is to be trained by c, but the "
                                            "graph accumulates no gradient of it"));
}

TEST(Accumulators, NamesOfBuffers) {
  EXPECT_EQ(parameter_of_buffer("a.b_grad.accumulation.buffer"), "a.b");
  EXPECT_EQ(parameter_of_buffer("_grad.accumulation.buffer"), "");
  EXPECT_EQ(parameter_of_buffer("a.b"), "");
}

}  // namespace
}  // namespace mezzo::test
