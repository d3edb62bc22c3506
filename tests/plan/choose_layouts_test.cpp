#include "passes/layout/choose_layouts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "compiler/onnx/import.h"
#include "model_text.h"
#include "passes/layout/step_layouts.h"
#include "passes/memory/plan_memory.h"
#include "passes/pipeline.h"
#include "random_net.h"
#include "tests/support/status_test.h"
#include "tools/mezzo/compile_model.h"
#include "training_session.h"

namespace mezzo {
namespace {

using passes::LayoutStats;
using test::IsOk;
using test::ModelText;
using test::value_or_die;

std::shared_ptr<PlanDraft> build(const std::string& text, bool low = false) {
  const auto model = value_or_die(import_text(text));
  passes::PassContext ctx;
  ctx.for_runtime = true;
  ctx.policy.force_fp32 = !low;
  ctx.policy.low = DType::kBFloat16;
  ctx.policy.assign = passes::AssignMethod::kPropagate;
  EXPECT_THAT(passes::run_passes(*model, ctx, passes::run_pipeline(ctx)), IsOk());
  PlanInputs inputs;
  inputs.model = model.get();
  inputs.result_may_be_absent = kernels::result_may_be_absent;
  return std::make_shared<PlanDraft>(value_or_die(build_plan(inputs)));
}

std::vector<std::string> ops(const PlanDraft& draft) {
  std::vector<std::string> names;
  for (const proto::Step& step : draft.plan.phases(0).steps()) names.push_back(step.op());
  return names;
}

bool is_channels_last(const PlanDraft& draft, const std::string& name) {
  for (const proto::Tensor& tensor : draft.plan.tensors()) {
    if (tensor.name() == name) return tensor.layout() == 1;
  }
  ADD_FAILURE() << "no tensor " << name;
  return false;
}

std::vector<std::vector<float>> run(const std::shared_ptr<PlanDraft>& draft, int threads) {
  EXPECT_THAT(passes::plan_memory(*draft), IsOk());
  const std::shared_ptr<const proto::Plan> plan(draft, &draft->plan);
  runtime::ExecutorOptions options;
  options.threads = threads;
  const auto executor =
      value_or_die(runtime::Executor::create(plan, cli::weights_of(draft), options));
  for (const proto::Port& port : plan->inputs()) {
    const auto elems = static_cast<std::int64_t>(executor->bytes(port.tensor()) / sizeof(float));
    const std::vector<float> values = test::random_floats(elems, 7);
    std::copy(values.begin(), values.end(), executor->data_as<float>(port.tensor()));
  }
  EXPECT_THAT(executor->run(proto::PHASE_FORWARD), IsOk());
  std::vector<std::vector<float>> outputs;
  for (const proto::Port& port : plan->outputs()) {
    const auto* data = executor->data_as<float>(port.tensor());
    outputs.emplace_back(data, data + executor->bytes(port.tensor()) / sizeof(float));
  }
  return outputs;
}

// The same numbers, but for the order of sums, as without the pass.
LayoutStats expect_same(const std::string& text, DeviceKind device = DeviceKind::kCpu) {
  const auto plain = build(text);
  const auto chosen = build(text);
  const LayoutStats stats = passes::choose_layouts(*chosen, device);
  const auto expected = run(plain, 1), got = run(chosen, 2);
  EXPECT_EQ(expected.size(), got.size());
  for (std::size_t o = 0; o < std::min(expected.size(), got.size()); ++o) {
    EXPECT_EQ(expected[o].size(), got[o].size());
    float scale = 1;
    for (const float value : expected[o]) scale = std::max(scale, std::abs(value));
    for (std::size_t i = 0; i < std::min(expected[o].size(), got[o].size()); ++i) {
      if (std::abs(expected[o][i] - got[o][i]) <= 2e-5F * scale) continue;
      ADD_FAILURE() << "output " << o << ", element " << i << ": expected " << expected[o][i]
                    << ", got " << got[o][i] << "\n"
                    << text;
      return stats;
    }
  }
  return stats;
}

constexpr const char* kConv = "Conv<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>";

TEST(ChooseLayouts, BetweenConvolutionsNothingIsMoved) {
  ModelText model;
  model.input("float[2,3,6,5] x").output("float[2,4,6,5] y");
  model.weight("v", {4, 3, 3, 3}).weight("w", {4, 4, 3, 3});
  model.nodes("c = " + std::string(kConv) + "(x, v)\nr = Relu(c)\ny = " + kConv + "(r, w)");
  const auto draft = build(model.text());
  const LayoutStats stats = passes::choose_layouts(*draft, DeviceKind::kCpu);
  EXPECT_EQ(stats.channels_last, 2);
  EXPECT_EQ(stats.reorders, 0);
  EXPECT_TRUE(is_channels_last(*draft, "c"));
  EXPECT_TRUE(is_channels_last(*draft, "r"));
  EXPECT_FALSE(is_channels_last(*draft, "x"));
  EXPECT_FALSE(is_channels_last(*draft, "y"));
  expect_same(model.text());
}

TEST(ChooseLayouts, WhatIsReshapedOrGivenBackStaysRowMajor) {
  ModelText model;
  model.input("float[2,3,6,5] x").output("float[2,4,6,5] c").output("float[2,120] y");
  model.weight("v", {4, 3, 3, 3}).ints("shape", {2, 120});
  model.nodes("c = " + std::string(kConv) + "(x, v)\nr = Relu(c)\ny = Reshape(r, shape)");
  const auto draft = build(model.text());
  EXPECT_EQ(passes::choose_layouts(*draft, DeviceKind::kCpu).channels_last, 0);
}

// As in ConvNeXt: both Transposes are but another look at the bytes.
TEST(ChooseLayouts, TransposesBecomeViews) {
  ModelText model;
  model.input("float[2,3,6,5] x").output("float[2,4,6,5] y");
  model.weight("v", {4, 3, 3, 3}).weight("w", {4, 4, 3, 3}).weight("scale", {4});
  model.nodes("c = " + std::string(kConv) + R"((x, v)
    t = Transpose<perm = [0, 2, 3, 1]>(c)
    n = LayerNormalization<axis = -1>(t, scale)
    u = Transpose<perm = [0, 3, 1, 2]>(n)
    y = )" + kConv +
              "(u, w)");
  const auto draft = build(model.text());
  const LayoutStats stats = passes::choose_layouts(*draft, DeviceKind::kCpu);
  EXPECT_EQ(stats.views, 2);
  EXPECT_EQ(ops(*draft), (std::vector<std::string>{"Conv", "LayerNormalization", "Conv"}));
  expect_same(model.text());
}

// A reader that takes row-major alone gets a copy; so do two of them, one.
TEST(ChooseLayouts, OneReorderServesAllReaders) {
  ModelText model;
  model.input("float[2,3,6,5] x").output("float[2,4,6,5] y").output("float[2,4,6,5] a");
  model.output("float[2,4,6,5] b").weight("v", {4, 3, 3, 3}).weight("w", {4, 4, 3, 3});
  model.weight("m", {5, 5});
  model.nodes("c = " + std::string(kConv) + "(x, v)\nr = Relu(c)\nd = " + kConv +
              "(r, w)\ne = Add(d, r)\ny = " + kConv + "(e, w)\na = MatMul(r, m)\nb = MatMul(r, m)");
  const auto draft = build(model.text());
  const LayoutStats stats = passes::choose_layouts(*draft, DeviceKind::kCpu);
  EXPECT_EQ(stats.reorders, 1);
  EXPECT_EQ(std::ranges::count(ops(*draft), "Reorder"), 1);
  expect_same(model.text());
}

// A row-major operand of lower rank cannot be broadcast to a result in another order.
TEST(ChooseLayouts, WhatNoKernelTakesStaysRowMajor) {
  ModelText model;
  model.input("float[2,3,6,5] x").output("float[2,4,6,5] y");
  model.weight("v", {4, 3, 3, 3}).weight("w", {4, 4, 3, 3}).weight("b", {4, 6, 5});
  model.nodes("c = " + std::string(kConv) + "(x, v)\ns = Add(c, b)\ny = " + kConv + "(s, w)");
  const auto draft = build(model.text());
  const LayoutStats stats = passes::choose_layouts(*draft, DeviceKind::kCpu);
  EXPECT_EQ(stats.channels_last, 0);
  EXPECT_EQ(stats.reorders, 0);
  expect_same(model.text());
}

TEST(ChooseLayouts, PlansOfTrainingStayAsTheyAre) {
  ModelText model;
  model.input("float[2,3,6,5] x").output("float[2,4,6,5] y");
  model.weight("v", {4, 3, 3, 3}).weight("w", {4, 4, 3, 3});
  model.nodes("c = " + std::string(kConv) + "(x, v)\nr = Relu(c)\ny = " + kConv + "(r, w)");
  const auto draft = build(model.text());
  draft->plan.mutable_training();
  EXPECT_EQ(passes::choose_layouts(*draft, DeviceKind::kCpu).channels_last, 0);
}

// ---- plans for a GPU

test::SessionOptions session_options(DeviceKind device) {
  test::SessionOptions options;
  options.precision = "bf16";
  options.device = device;
  options.evaluate = true;
  options.batch_size = 2;
  options.trainer.threads = 2;
  return options;
}

const proto::Phase& phase_of(const proto::Plan& plan, proto::PhaseKind kind) {
  for (const proto::Phase& phase : plan.phases()) {
    if (phase.kind() == kind) return phase;
  }
  return plan.phases(0);
}

std::ptrdiff_t count(const proto::Phase& phase, const std::string& op) {
  return std::ranges::count_if(phase.steps(),
                               [&](const proto::Step& step) { return step.op() == op; });
}

// Do all convolutions of the phase have all of their tensors in this layout, where it matters?
bool all_convolutions(const proto::Plan& plan, proto::PhaseKind kind, kernels::Layout layout) {
  for (const proto::Step& step : phase_of(plan, kind).steps()) {
    if (step.op() != "Conv" && step.op() != "ConvGradInput" && step.op() != "ConvGradWeight")
      continue;
    std::vector<int> tensors(step.inputs().begin(), step.inputs().end());
    tensors.insert(tensors.end(), step.outputs().begin(), step.outputs().end());
    for (const int tensor : tensors) {
      const kernels::TensorDesc desc = passes::describe(plan.tensors(tensor));
      if (desc.layout_matters() && desc.layout != layout) return false;
    }
  }
  return true;
}

ModelText small_training_net() {
  ModelText model;
  model.input("float[2,3,6,5] x").output("float loss");
  model.weight("v", {8, 3, 3, 3}).weight("w", {8, 8, 3, 3}).weight("u", {8, 8, 1, 1});
  for (const char* name : {"s", "b"}) model.weight(name, {8});
  model.filled("mean", {8}, 0.0F).filled("var", {8}, 1.0F).ints("hw", {2, 3});
  model.nodes("c = " + std::string(kConv) + R"((x, v)
    n = BatchNormalization(c, s, b, mean, var)
    r = Relu(n)
    p, places = MaxPool<kernel_shape = [2, 2]>(r)
    d = )" + kConv +
              R"((p, w)
    e = Conv<kernel_shape = [1, 1]>(d, u)
    a = Add(e, p)
    g = ReduceMean<axes = [2, 3], keepdims = 0>(a)
    q = Mul(g, g)
    loss = ReduceSum<keepdims = 0>(q))");
  return model;
}

TEST(ChooseLayouts, TrainingOnTensorCoresIsChannelsLast) {
  const std::string text = small_training_net().text();
  const auto session = value_or_die(test::Session::open(text, session_options(DeviceKind::kCuda)));
  const proto::Plan& plan = session->plan();
  EXPECT_EQ(plan.target(), "cuda");
  for (const auto kind : {proto::PHASE_FORWARD, proto::PHASE_BACKWARD})
    EXPECT_TRUE(all_convolutions(plan, kind, kernels::Layout::kChannelsLast));
  // FP32 convolutions are made for row-major tensors.
  EXPECT_TRUE(all_convolutions(plan, proto::PHASE_EVALUATE, kernels::Layout::kRowMajor));
  EXPECT_EQ(count(phase_of(plan, proto::PHASE_EVALUATE), "Reorder"), 0);
  // The image, v and w; a weight of one place lies alike in both layouts.
  EXPECT_EQ(count(phase_of(plan, proto::PHASE_FORWARD), "Reorder"), 3);
  // The gradients of v and w: nothing between the layers is moved.
  EXPECT_EQ(count(phase_of(plan, proto::PHASE_BACKWARD), "Reorder"), 2);
}

// Losses of a few steps are those of the plan for the CPU, but for the order of sums, and so are
// those of the evaluate phase.
void expect_same_training(const std::string& text) {
  std::vector<std::vector<double>> losses;
  for (const DeviceKind device : {DeviceKind::kCpu, DeviceKind::kCuda}) {
    auto session = test::Session::open(text, session_options(device));
    ASSERT_THAT(session, IsOk()) << text;
    std::vector<double>& of = losses.emplace_back();
    for (const runtime::StepMetrics& step : (*session)->steps(4)) of.push_back(step.loss);
    const auto evaluation = (*session)->trainer().evaluate((*session)->data_path(), false);
    ASSERT_THAT(evaluation, IsOk());
    of.push_back(evaluation->loss);
  }
  ASSERT_EQ(losses[0].size(), losses[1].size());
  for (std::size_t i = 0; i < losses[0].size(); ++i)
    ASSERT_NEAR(losses[0][i], losses[1][i], 0.02 * (1 + std::abs(losses[0][i]))) << text;
}

TEST(ChooseLayouts, TrainingGivesTheSameLosses) {
  expect_same_training(small_training_net().text());
}

TEST(ChooseLayouts, ConstantWeightsAreStoredAsTheyAreRead) {
  ModelText model;
  model.input("float[2,3,6,5] x").output("float[2,4,6,5] y");
  model.weight("v", {4, 3, 3, 3}).weight("w", {4, 4, 3, 3});
  model.nodes("c = " + std::string(kConv) + "(x, v)\nr = Relu(c)\ny = " + kConv + "(r, w)");
  const auto plain = build(model.text(), /*low=*/true), chosen = build(model.text(), /*low=*/true);
  passes::choose_layouts(*chosen, DeviceKind::kCuda);
  EXPECT_EQ(ops(*chosen),
            (std::vector<std::string>{"Cast", "Reorder", "Conv", "Relu", "Conv", "Reorder"}));
  for (const proto::Tensor& tensor : chosen->plan.tensors()) {
    const bool constant = tensor.role() == proto::ROLE_CONSTANT;
    EXPECT_TRUE(!constant || tensor.layout() == 1U) << tensor.name();
  }
  const auto expected = run(plain, 1), got = run(chosen, 1);
  for (std::size_t i = 0; i < expected[0].size(); ++i)
    EXPECT_NEAR(got[0][i], expected[0][i], 0.02F);
}

TEST(ChooseLayouts, FullPrecisionOnAGpuStaysRowMajor) {
  ModelText model;
  model.input("float[2,3,6,5] x").output("float[2,4,6,5] y");
  model.weight("v", {4, 3, 3, 3}).weight("w", {4, 4, 3, 3});
  model.nodes("c = " + std::string(kConv) + "(x, v)\nr = Relu(c)\ny = " + kConv + "(r, w)");
  const auto draft = build(model.text());
  const LayoutStats stats = passes::choose_layouts(*draft, DeviceKind::kCuda);
  EXPECT_EQ(stats.channels_last, 0);
  EXPECT_EQ(stats.reorders, 0);
}

TEST(ChooseLayouts, RandomNetworksGiveTheSameNumbers) {
  LayoutStats all;
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    const LayoutStats stats = expect_same(test::random_image_net(seed));
    if (HasFailure()) return;
    all.channels_last += stats.channels_last;
    all.reorders += stats.reorders;
    all.views += stats.views;
  }
  EXPECT_GT(all.channels_last, 100);
  EXPECT_GT(all.reorders, 30);
  EXPECT_GT(all.views, 10);
}

TEST(ChooseLayouts, RandomTrainingsGiveTheSameLosses) {
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    expect_same_training(test::random_image_net(seed, /*training=*/true));
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace mezzo
