// What training plans for a device store in 16 bits: how many bytes that saves, and what its
// roundings cost the gradients. The plans run on the CPU here.
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "model_text.h"
#include "tests/support/status_test.h"
#include "training_session.h"

namespace mezzo {
namespace {

using test::Session;
using test::SessionOptions;
using test::value_or_die;

constexpr char kConv[] = "Conv<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>";

// An image, a stem, a residual block whose activation is `activation` (of "n", to "a"), a head.
std::string residual_net(const std::string& activation) {
  test::ModelText model;
  model.input("float[N,3,32,32] x").input("int64[N] labels").output("float loss");
  model.weight("w0", {16, 3, 3, 3}).weight("w1", {16, 16, 3, 3}, 0.2F);
  model.weight("w2", {16, 16, 3, 3}, 0.2F).weight("head", {16, 3}).weight("bias", {3});
  model.filled("one", {16}, 1.0F).filled("zero", {16}, 0.0F);
  for (const char* k : {"0", "1", "2"}) {
    for (const char* kind : {"scale", "var"}) model.filled(std::string(kind) + k, {16}, 1.0F);
    for (const char* kind : {"shift", "mean"}) model.filled(std::string(kind) + k, {16}, 0.0F);
  }
  const auto layer = [&](const std::string& k, const std::string& from) {
    model.nodes("c" + k + " = " + kConv + "(" + from + ", w" + k + ")\nn" + k +
                " = BatchNormalization(c" + k + ", scale" + k + ", shift" + k + ", mean" + k +
                ", var" + k + ")");
  };
  const auto activate = [&](const std::string& from, const std::string& to) {
    std::string lines = activation;
    for (const auto& [word, name] : {std::pair{"FROM", from}, {"TO", to}}) {
      for (std::size_t at = lines.find(word); at != std::string::npos; at = lines.find(word))
        lines.replace(at, std::string(word).size(), name);
    }
    model.nodes(lines);
  };
  layer("0", "x");
  activate("n0", "a0");
  layer("1", "a0");
  activate("n1", "a1");
  layer("2", "a1");
  model.nodes("s = Add(n2, a0)");
  activate("s", "a2");
  model.nodes(R"(p = GlobalAveragePool(a2)
    f = Flatten(p)
    y = Gemm(f, head, bias)
    loss = SoftmaxCrossEntropyLoss(y, labels))");
  return model.text();
}

const std::string kSilu = "TO_gate = Sigmoid(FROM)\nTO = Mul(FROM, TO_gate)";
const std::string kRelu = "TO = Relu(FROM)";

struct Outcome {
  std::vector<double> gradients;  // of all parameters, unscaled
  std::uint64_t bytes = 0;        // of activations alive together
  double loss = 0;
};

SessionOptions session_options(const std::string& precision, DeviceKind device) {
  SessionOptions options;
  options.precision = precision;
  options.device = device;
  options.assign = passes::AssignMethod::kCut;
  options.trainer.threads = 2;
  options.trainer.loss_scale.mode =
      precision == "fp16" ? runtime::LossScaleMode::kDynamic : runtime::LossScaleMode::kOff;
  return options;
}

Outcome first_step(const std::string& model, const std::string& precision, DeviceKind device) {
  const auto session = value_or_die(Session::open(model, session_options(precision, device)));
  const runtime::StepMetrics step = session->steps(1).at(0);
  EXPECT_FALSE(step.skipped);
  Outcome out;
  out.loss = step.loss;
  out.bytes = session->compiled().records.live_bytes;
  for (const proto::Parameter& parameter : session->plan().parameters()) {
    for (const float value : session->tensor(parameter.gradient()))
      out.gradients.push_back(value / step.loss_scale);
  }
  return out;
}

double distance(const Outcome& a, const Outcome& reference) {
  EXPECT_EQ(a.gradients.size(), reference.gradients.size());
  double off = 0, size = 0;
  for (std::size_t i = 0; i < reference.gradients.size(); ++i) {
    off += std::pow(a.gradients[i] - reference.gradients[i], 2);
    size += std::pow(reference.gradients[i], 2);
  }
  return std::sqrt(off / size);
}

class NarrowStorage : public testing::TestWithParam<std::string> {};

// Half the bytes of FP32 where BF16 has them as well, for a rounding more per convolution.
TEST_P(NarrowStorage, KeepsGradientsNear) {
  const std::string model = residual_net(GetParam());
  const Outcome exact = first_step(model, "fp32", DeviceKind::kCuda);
  const Outcome wide = first_step(model, "fp16", DeviceKind::kCpu);
  const Outcome narrow = first_step(model, "fp16", DeviceKind::kCuda);
  const Outcome coarse = first_step(model, "bf16", DeviceKind::kCuda);
  EXPECT_LT(static_cast<double>(narrow.bytes), 0.7 * static_cast<double>(exact.bytes));
  EXPECT_LT(distance(wide, exact), 3e-3);
  EXPECT_LT(distance(narrow, exact), 1.5 * distance(wide, exact));
  // Where a ReLU's operand changes sign the distance is no multiple of the rounding error.
  EXPECT_LT(distance(narrow, exact), distance(coarse, exact) / 2);
  EXPECT_NEAR(narrow.loss, exact.loss, 1e-3 * exact.loss);
}
INSTANTIATE_TEST_SUITE_P(Activations, NarrowStorage, testing::Values(kSilu, kRelu),
                         [](const auto& info) { return info.param == kSilu ? "Silu" : "Relu"; });

// Forward steps read in FP32 what the backward pass reads in FP16; the cast between them is no step
// of the backward phase, which would keep both until then.
TEST(NarrowStorage, CopiesForTheBackwardPassAreMadeInTheForwardPhase) {
  const auto session =
      value_or_die(Session::open(residual_net(kSilu), session_options("fp16", DeviceKind::kCuda)));
  const proto::Plan& plan = session->plan();
  std::set<int> made, large_fp32;
  int copies = 0, casts_in_backward = 0;
  for (const proto::Phase& phase : plan.phases()) {
    const bool forward = phase.kind() == proto::PHASE_FORWARD;
    for (const proto::Step& step : phase.steps()) {
      if (step.op() == "Cast" && !forward) ++casts_in_backward;
      for (const int input : step.inputs()) {
        // Next to the loss a program rounds as it reads, as the FP32 values are there still.
        if (input < 0 || forward || step.op() == "FusedElementwise") continue;
        EXPECT_EQ(large_fp32.count(input), 0U)
            << step.node() << " reads " << plan.tensors(input).name();
        copies += made.count(input) > 0 ? 1 : 0;
      }
      for (const int output : step.outputs()) {
        if (output < 0 || !forward) continue;
        const proto::Tensor& tensor = plan.tensors(output);
        if (step.op() == "Cast") made.insert(output);
        const bool fp32 = tensor.dtype() == static_cast<std::uint32_t>(DType::kFloat32);
        if (fp32 && tensor.dims_size() == 4 && tensor.dims(3) == 32) large_fp32.insert(output);
      }
    }
  }
  EXPECT_FALSE(large_fp32.empty());  // normalisations and sums
  EXPECT_GE(copies, 3);
  EXPECT_EQ(casts_in_backward, 1);  // of the scores' gradient
}

}  // namespace
}  // namespace mezzo
