// Attention as one operator, compiled for a GPU and run on the CPU: the same training as of the
// nodes that spell it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>

#include "model_text.h"
#include "tests/support/status_test.h"
#include "training_session.h"

namespace mezzo {
namespace {

using test::ModelText;
using test::Session;
using test::SessionOptions;
using test::value_or_die;

// x[N, 6, 16] through one layer of two heads of 8; causal, and with a learned value before it.
std::string model_text(bool causal) {
  ModelText model;
  model.input("float[2,6,16] x").output("float loss");
  for (const char* name : {"wq", "wk", "wv", "wo"}) model.weight(name, {16, 16}, 0.4F);
  model.ints("split", {2, 6, 2, 8}).ints("join", {2, 6, 16});
  std::vector<float> mask(36, 0.0F);
  for (std::size_t i = 0; i < 36; ++i) mask[i] = i % 6 > i / 6 ? -10000.0F : 0.0F;
  model.values("mask", {1, 1, 6, 6}, mask);
  for (const std::string name : {"q", "k", "v"}) {
    model.nodes(name + "1 = MatMul(x, w" + name + ")\n" + name + "2 = Reshape(" + name +
                "1, split)\n" + name + " = Transpose<perm = [0, 2, 1, 3]>(" + name + "2)");
  }
  model.nodes("t = Transpose<perm = [0, 1, 3, 2]>(k)\ns = MatMul(q, t)");
  model.nodes("r8 = Constant<value_float = 2.828427>()\nc = Div(s, r8)");
  model.nodes(causal ? "m = Add(c, mask)" : "m = Identity(c)");
  model.nodes(R"(p = Softmax<axis = -1>(m)
    y = MatMul(p, v)
    r = Transpose<perm = [0, 2, 1, 3]>(y)
    f = Reshape(r, join)
    o = MatMul(f, wo)
    h = Tanh(o)
    loss = ReduceMean<keepdims = 0>(h))");
  return model.text();
}

std::unique_ptr<Session> open(const std::string& text, const std::string& precision,
                              DeviceKind device) {
  SessionOptions options;
  options.precision = precision;
  options.device = device;
  options.batch_size = 2;
  options.evaluate = true;
  options.trainer.loss_scale.mode = runtime::LossScaleMode::kOff;
  options.trainer.optimizer.lr = options.trainer.schedule.base_lr = 0.5;
  return value_or_die(Session::open(text, options));
}

std::ptrdiff_t count(const proto::Plan& plan, proto::PhaseKind kind, const std::string& op) {
  for (const proto::Phase& phase : plan.phases()) {
    if (phase.kind() != kind) continue;
    return std::ranges::count_if(phase.steps(),
                                 [&](const proto::Step& step) { return step.op() == op; });
  }
  return 0;
}

class Attention : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Masks, Attention, testing::Bool());

TEST_P(Attention, IsOneStepForwardAndOneBackward) {
  const auto session = open(model_text(GetParam()), "bf16", DeviceKind::kCuda);
  const proto::Plan& plan = session->plan();
  EXPECT_EQ(count(plan, proto::PHASE_FORWARD, "ScaledDotProductAttention"), 1);
  EXPECT_EQ(count(plan, proto::PHASE_BACKWARD, "ScaledDotProductAttentionGrad"), 1);
  EXPECT_EQ(count(plan, proto::PHASE_FORWARD, "Softmax"), 0);
  EXPECT_EQ(count(plan, proto::PHASE_BACKWARD, "SoftmaxGrad"), 0);
  // FP32 is left to the products of matrices.
  EXPECT_EQ(count(plan, proto::PHASE_EVALUATE, "Softmax"), 1);
  // All operands of one type, but for the bias and lse.
  for (const proto::Phase& phase : plan.phases()) {
    for (const proto::Step& step : phase.steps()) {
      if (!step.op().starts_with("ScaledDotProductAttention")) continue;
      const std::size_t results = step.op().ends_with("Grad") ? 3 : 1;
      for (std::size_t i = 0; i < results; ++i) {
        EXPECT_EQ(plan.tensors(step.outputs(static_cast<int>(i))).dtype(),
                  static_cast<std::uint32_t>(DType::kBFloat16));
      }
      for (const int input : step.inputs()) {
        if (input < 0 || plan.tensors(input).dims_size() == 3) continue;
        EXPECT_EQ(plan.tensors(input).dtype(), static_cast<std::uint32_t>(DType::kBFloat16));
      }
    }
  }
}

TEST_P(Attention, TrainsAsTheNodesThatSpellIt) {
  for (const std::string precision : {"bf16", "fp16"}) {
    SCOPED_TRACE(precision);
    const auto spelled = open(model_text(GetParam()), precision, DeviceKind::kCpu);
    const auto whole = open(model_text(GetParam()), precision, DeviceKind::kCuda);
    const std::vector<float> start = spelled->all_weights();
    const auto want = spelled->steps(8), got = whole->steps(8);
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR(got[i].loss, want[i].loss, 0.01) << "step " << i + 1;
    const std::vector<float> expected = spelled->all_weights(), weights = whole->all_weights();
    ASSERT_EQ(weights.size(), expected.size());
    double moved = 0.0, off = 0.0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      moved += std::pow(static_cast<double>(expected[i]) - static_cast<double>(start[i]), 2);
      off += std::pow(static_cast<double>(expected[i]) - static_cast<double>(weights[i]), 2);
    }
    EXPECT_GT(moved, 0.01);
    EXPECT_LT(std::sqrt(off / moved), 0.05);
  }
}

}  // namespace
}  // namespace mezzo
