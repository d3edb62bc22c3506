// What torch.export notes and leaves out, put back. The text form of models has no notes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/onnx/import.h"
#include "passes/autodiff/exporter_notes.h"
#include "passes/pass_runner.h"
#include "passes/pipeline.h"
#include "tests/support/status_test.h"

namespace mezzo::passes {
namespace {

using test::IsOk;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

void note(Model& model, const std::string& node, const std::string& call) {
  for (const auto& one : model.graph->nodes()) {
    if (one->name == node)
      one->metadata = {
          {"pkg.torch.onnx.fx_node",
           "%x : [num_users=1] = call_function[target=torch.ops.aten." + call + ", kwargs = {})"}};
  }
}

struct Heeded {
  std::unique_ptr<Model> model;
  PassContext ctx;

  std::vector<std::string> ops() const {
    std::vector<std::string> all;
    for (const auto& node : model->graph->nodes()) all.push_back(node->op_type());
    return all;
  }
  const Node& node(const std::string& name) const {
    const auto& nodes = model->graph->nodes();
    const auto found =
        std::find_if(nodes.begin(), nodes.end(), [&](const auto& n) { return n->name == name; });
    if (found == nodes.end()) ADD_FAILURE() << "no node " << name;
    return found == nodes.end() ? *nodes.front() : **found;
  }
};

constexpr const char* kNet = R"(<ir_version: 10, opset_import: ["" : 20]>
g (int64[4,2] i, int64[4] t) => (float loss)
<float[5,3] "e.weight" = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6}, int64[1] axes = {1}>
{
  [node_embedding] embedding = Gather ("e.weight", i)
  [node_mean] mean = ReduceMean <keepdims = 0> (embedding, axes)
  [node_detach] detach = Identity (mean)
  [node_add] add = Add (mean, detach)
  [node_loss] loss = SoftmaxCrossEntropyLoss (add, t)
})";

Heeded heed(const std::vector<std::pair<std::string, std::string>>& notes,
            const std::string& net = kNet) {
  Heeded out;
  out.model = test::value_or_die(import_text(net));
  for (const auto& [node, call] : notes) note(*out.model, node, call);
  EXPECT_THAT(run_passes(*out.model, out.ctx, {find_pass("infer-shapes"), find_pass("heed-notes")}),
              IsOk());
  return out;
}

TEST(HeedNotes, CallsAreRead) {
  const Heeded out = heed({{"node_mean", "mean.dim](args = (%embedding, [1, (2, 3)], True)"}});
  const NotedCall call = noted_call(out.node("node_mean"));
  EXPECT_EQ(call.target, "torch.ops.aten.mean.dim");
  EXPECT_THAT(call.arguments, ElementsAre("%embedding", "[1, (2, 3)]", "True"));
  EXPECT_THAT(noted_call(out.node("node_add")).arguments, IsEmpty());
  EXPECT_THAT(
      noted_call(heed({{"node_add", "add.Tensor](args = (%mean"}}).node("node_add")).arguments,
      testing::SizeIs(testing::Le(2U)));  // cut off
}

TEST(HeedNotes, DetachStopsTheGradient) {
  const Heeded out = heed({{"node_detach", "detach.default](args = (%mean,)"}});
  EXPECT_EQ(out.node("node_detach").op_type(), "StopGradient");
  EXPECT_EQ(out.node("node_add").operand(1), out.node("node_detach").result());
  EXPECT_THAT(out.ctx.records.warnings, IsEmpty());
}

TEST(HeedNotes, ADetachThatWasOptimisedAwayIsMissed) {
  const Heeded out = heed({{"node_add", "add.Tensor](args = (%mean, %detach_4)"}});
  EXPECT_THAT(out.ctx.records.warnings, ElementsAre(HasSubstr("removed 'detach_4'")));
  EXPECT_THAT(heed({{"node_add", "add.Tensor](args = (%mean, %detach)"}}).ctx.records.warnings,
              IsEmpty());
}

TEST(HeedNotes, PaddingRowsGetNoGradient) {
  const Heeded out = heed({{"node_embedding", "embedding.default](args = (%p_e_weight, %i, 3)"}});
  const Node* choice = out.node("node_mean").operand(0)->producer();
  ASSERT_NE(choice, nullptr);
  EXPECT_EQ(choice->op_type(), "Where");
  EXPECT_EQ(choice->operand(2), out.node("node_embedding").result());
  EXPECT_EQ(choice->operand(1)->producer()->op_type(), "StopGradient");
  EXPECT_EQ(choice->operand(1)->producer()->operand(0), out.node("node_embedding").result());
  for (const char* none : {"embedding.default](args = (%p_e_weight, %i)",
                           "embedding.default](args = (%p_e_weight, %i, -1)",
                           "embedding.default](args = (%p_e_weight, %i, %n)"})
    EXPECT_EQ(heed({{"node_embedding", none}}).node("node_mean").operand(0)->name(), "embedding");
}

TEST(HeedNotes, LabelsAreSmoothedAgain) {
  const std::string call = "cross_entropy_loss.default](args = (%add, %t, None, 1, -100, ";
  const Heeded out = heed({{"node_loss", call + "0.1)"}});
  EXPECT_THAT(out.ops(), Contains("LogSoftmax"));
  EXPECT_EQ(out.model->graph->outputs()[0]->name(), "loss");
  EXPECT_EQ(out.node("node_loss").result(), out.model->graph->outputs()[0]);
  EXPECT_THAT(out.ctx.records.warnings, ElementsAre(HasSubstr("label_smoothing 0.1")));
  EXPECT_FALSE(out.ctx.computed_constants.empty()) << "its numbers are no weights";
  for (const char* none : {"0.0)", "2.5)", "nan)", "%s)"})
    EXPECT_EQ(heed({{"node_loss", call + none}}).node("node_loss").op_type(),
              "SoftmaxCrossEntropyLoss");
  std::string sum = kNet;
  sum.replace(sum.find("Loss (add"), 6, "Loss <reduction = \"sum\"> (");
  const Heeded kept = heed({{"node_loss", call + "0.1)"}}, sum);
  EXPECT_EQ(kept.node("node_loss").op_type(), "SoftmaxCrossEntropyLoss");
  EXPECT_THAT(kept.ctx.records.warnings, ElementsAre(HasSubstr("left out label_smoothing 0.1")));
}

TEST(HeedNotes, WhatTheExporterComputedIsNotTrained) {
  const std::string key = "pkg.torch.export.graph_signature.InputSpec.kind";
  const char* const net = R"(<ir_version: 10, opset_import: ["" : 20]>
g (float[4,2] x) => (float loss)
<float[2,3] w = {1,2,3,4,5,6}, float[3] sum_1 = {5,7,9}, float[3] norm_weight = {1,1,1}, float c = {2}>
{
  [node_matmul] a = MatMul (x, w)
  [node_add] b = Add (a, sum_1)
  [node_mul] d = Mul (b, norm_weight)
  [node_mul_1] e = Mul (d, c)
  loss = ReduceMean <keepdims = 0> (e)
})";
  const auto heeded = [&](const std::string& matmul_note, const std::string& kind) {
    Heeded out;
    out.model = test::value_or_die(import_text(net));
    note(*out.model, "node_matmul", matmul_note);
    note(*out.model, "node_mul", "mul.Tensor](args = (%add, %p_norm_weight)");
    out.model->graph->value_info.push_back({"w", {}, {}, {{key, kind}}});
    EXPECT_THAT(
        run_passes(*out.model, out.ctx, {find_pass("infer-shapes"), find_pass("heed-notes")}),
        IsOk());
    return out;
  };
  const Heeded out = heeded("mm.default](args = (%x, %p_w)", "PARAMETER");
  EXPECT_THAT(out.ctx.computed_constants, testing::UnorderedElementsAre("sum_1", "c"));
  EXPECT_THAT(out.ctx.records.warnings, ElementsAre(HasSubstr("computed 'sum_1' ahead")));
  // A parameter is missing: it may be the one that is called so.
  EXPECT_THAT(heeded("mm.default](args = (%x, %p_v)", "PARAMETER").ctx.computed_constants,
              IsEmpty());
  EXPECT_THAT(heeded("mm.default](args = (%x, %p_w)", "BUFFER").ctx.computed_constants, IsEmpty());
}

}  // namespace
}  // namespace mezzo::passes
