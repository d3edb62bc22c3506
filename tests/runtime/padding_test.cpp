// Channel padding: training with it equals training without, and the padded part stays exactly
// zero.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "model_text.h"
#include "runtime/io/npz.h"
#include "runtime/io/safetensors.h"
#include "tests/support/status_test.h"
#include "training_session.h"

namespace mezzo {
namespace {

using test::IsOk;
using test::Session;
using test::SessionOptions;
using test::value_or_die;

constexpr int kSteps = 60;

struct Case {
  std::string name, model;
  std::int64_t classes;
};

std::vector<Case> models() {
  return {{"cnn", test::cnn_text(), 10},
          {"transformer_mlp", test::transformer_mlp_text(), 3},
          {"transformer_mlp_dropout", test::transformer_mlp_text(/*dropout=*/true), 3},
          {"mlp_dropout", test::mlp_text(/*dropout=*/true), 3}};
}

SessionOptions options_for(const Case& model, runtime::OptimizerKind kind,
                           const std::string& precision) {
  SessionOptions options;
  options.precision = precision;
  options.classes = model.classes;
  options.evaluate = true;
  options.trainer.optimizer.kind = kind;
  options.trainer.optimizer.lr = kind == runtime::OptimizerKind::kSgd ? 0.02 : 0.002;
  options.trainer.schedule.base_lr = options.trainer.optimizer.lr;
  options.trainer.optimizer.weight_decay = 0.1;
  if (kind == runtime::OptimizerKind::kSgd) options.trainer.optimizer.momentum = 0.9;
  options.trainer.loss_scale.mode =
      precision == "fp16" ? runtime::LossScaleMode::kDynamic : runtime::LossScaleMode::kOff;
  return options;
}

void expect_zero(const std::vector<float>& values, const std::string& what) {
  const auto wrong = std::find_if(values.begin(), values.end(), [](float v) { return v != 0.0F; });
  EXPECT_TRUE(wrong == values.end()) << what << ": padding holds " << *wrong;
}

// Counts the padded elements, all of which must be zero.
std::size_t check_padding_is_zero(Session& session) {
  const proto::Plan& plan = session.plan();
  std::size_t padded = 0;
  for (const proto::Parameter& p : plan.parameters()) {
    const auto check = [&](const std::vector<float>& values, const char* what) {
      const test::SplitTensor parts =
          test::split(values, plan.tensors(p.master()), p.logical_dims());
      padded += parts.padding.size();
      expect_zero(parts.padding, std::string(what) + " of " + p.name());
    };
    check(session.tensor(p.master()), "master");
    check(session.tensor(p.gradient()), "gradient");
    for (const runtime::Optimizer::State& state : session.trainer().optimizer().states()) {
      if (session.trainer().optimizer().parameters()[state.parameter].name != p.name()) continue;
      check({state.values.begin(), state.values.end()}, std::string(state.name).c_str());
    }
    if (p.low_copy() < 0) continue;
    const auto* low = session.executor().data_as<std::uint16_t>(p.low_copy());
    std::vector<float> bits;
    for (std::size_t i = 0; i < session.executor().bytes(p.low_copy()) / 2; ++i)
      bits.push_back(static_cast<float>(low[i] & 0x7fff));
    check(bits, "low copy");
  }
  for (const proto::State& s : plan.states()) {
    const auto parts =
        test::split(session.tensor(s.tensor()), plan.tensors(s.tensor()), s.logical_dims());
    padded += parts.padding.size();
    expect_zero(parts.padding, "running statistic " + s.name());
  }
  return padded;
}

std::vector<float> logical_weights(const Session& session) {
  std::vector<float> all;
  for (const proto::Parameter& p : session.plan().parameters()) {
    const auto parts = test::split(session.tensor(p.master()), session.plan().tensors(p.master()),
                                   p.logical_dims());
    all.insert(all.end(), parts.logical.begin(), parts.logical.end());
  }
  return all;
}

class Padding : public testing::TestWithParam<runtime::OptimizerKind> {};

TEST_P(Padding, TrainsAsWithoutInFp32AndStaysZero) {
  for (const Case& model : models()) {
    SCOPED_TRACE(model.name);
    SessionOptions options = options_for(model, GetParam(), "fp32");
    const auto plain = value_or_die(Session::open(model.model, options));
    options.pad_multiple = 8;
    const auto padded = value_or_die(Session::open(model.model, options));
    const auto expected = plain->steps(kSteps), actual = padded->steps(kSteps);
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t i = 0; i < actual.size(); ++i) {
      // Sums of other lengths round otherwise, and training amplifies that a little with each step.
      const float tolerance = i < 10 ? 1e-5F : 2e-4F;
      EXPECT_NEAR(actual[i].loss, expected[i].loss, tolerance * std::max(1.0F, expected[i].loss))
          << "step " << i + 1;
      EXPECT_NEAR(*actual[i].grad_norm, *expected[i].grad_norm,
                  (i < 10 ? 1e-4 : 1e-2) * std::max(1.0, *expected[i].grad_norm));
    }
    EXPECT_LT(expected.back().loss, expected.front().loss) << "it should learn";
    EXPECT_GT(check_padding_is_zero(*padded), 0U);

    const auto expected_eval = value_or_die(plain->trainer().evaluate(plain->data_path()));
    const auto actual_eval = value_or_die(padded->trainer().evaluate(padded->data_path()));
    EXPECT_NEAR(actual_eval.loss, expected_eval.loss, 1e-3 * std::max(1.0, expected_eval.loss));
  }
}

TEST_P(Padding, FirstGradientsAreThoseOfTheUnpaddedModel) {
  for (const Case& model : models()) {
    SCOPED_TRACE(model.name);
    SessionOptions options = options_for(model, GetParam(), "fp32");
    const auto plain = value_or_die(Session::open(model.model, options));
    options.pad_multiple = 8;
    const auto padded = value_or_die(Session::open(model.model, options));
    plain->steps(1);
    padded->steps(1);
    for (const proto::Parameter& p : padded->plan().parameters()) {
      const auto actual = test::split(padded->tensor(p.gradient()),
                                      padded->plan().tensors(p.gradient()), p.logical_dims())
                              .logical;
      const auto expected = plain->tensor(plain->parameter(p.name())->gradient());
      ASSERT_EQ(actual.size(), expected.size()) << p.name();
      float largest = 0.02F;  // the gradient of a bias before a BatchNorm is rounding alone
      for (const float v : expected) largest = std::max(largest, std::abs(v));
      for (std::size_t i = 0; i < actual.size(); ++i)
        EXPECT_NEAR(actual[i], expected[i], 1e-5F * largest) << p.name() << " " << i;
    }
  }
}

TEST_P(Padding, TrainsAsWithoutInLowPrecision) {
  for (const std::string precision : {"bf16", "fp16"}) {
    for (const Case& model : models()) {
      SCOPED_TRACE(model.name + " " + precision);
      SessionOptions options = options_for(model, GetParam(), precision);
      const auto plain = value_or_die(Session::open(model.model, options));
      options.pad_multiple = 8;
      const auto padded = value_or_die(Session::open(model.model, options));
      const auto expected = plain->steps(kSteps), actual = padded->steps(kSteps);
      ASSERT_EQ(actual.size(), expected.size());
      const float digits = precision == "bf16" ? 0x1p-8F : 0x1p-11F;
      for (std::size_t i = 0; i < actual.size(); ++i) {
        EXPECT_EQ(actual[i].skipped, expected[i].skipped);
        // Each step amplifies a difference of rounding, most where there are Relus.
        const float tolerance = (i < 5 ? 2 : 24) * digits;
        EXPECT_NEAR(actual[i].loss, expected[i].loss, tolerance * std::max(1.0F, expected[i].loss))
            << "step " << i + 1;
      }
      EXPECT_GT(check_padding_is_zero(*padded), 0U);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, Padding, testing::Values(runtime::OptimizerKind::kSgd, runtime::OptimizerKind::kAdamW),
    [](const auto& info) { return std::string(runtime::optimizer_name(info.param)); });

TEST(PaddedCheckpoint, HoldsLogicalShapesAndResumesUnpadded) {
  const Case model = models()[0];
  SessionOptions options = options_for(model, runtime::OptimizerKind::kAdamW, "fp32");
  options.pad_multiple = 8;
  const auto padded = value_or_die(Session::open(model.model, options));
  padded->steps(3);
  ASSERT_THAT(padded->trainer().save(padded->file("saved")), IsOk());
  const auto file =
      value_or_die(runtime::SafetensorsFile::open(padded->file("saved/model.safetensors")));
  const runtime::SafetensorsEntry* conv = file.find("conv2_weight");
  ASSERT_NE(conv, nullptr);
  EXPECT_EQ(conv->shape, (std::vector<std::int64_t>{11, 5, 3, 3}));
  EXPECT_EQ(file.find("bn2_mean")->shape, (std::vector<std::int64_t>{11}));

  // The same checkpoint continues a run without padding.
  options.pad_multiple = 0;
  const auto plain = value_or_die(Session::open(model.model, options));
  ASSERT_THAT(plain->trainer().resume(padded->file("saved")), IsOk());
  EXPECT_EQ(logical_weights(*plain), logical_weights(*padded));
  EXPECT_NEAR(plain->steps(1)[0].loss, padded->steps(1)[0].loss, 1e-5F);
}

TEST(PaddedGradients, AreSavedInLogicalShapes) {
  const Case model = models()[1];
  SessionOptions options = options_for(model, runtime::OptimizerKind::kSgd, "fp32");
  options.pad_multiple = 8;
  options.trainer.save_gradients_step = 1;
  const auto padded = value_or_die(Session::open(model.model, options));
  padded->steps(1);
  const auto file = value_or_die(runtime::NpzFile::open(padded->file("gradients_1.npz")));
  EXPECT_EQ(file.find("fc1_weight")->shape, (std::vector<std::int64_t>{6, 13}));
  const auto data = value_or_die(file.read("fc1_weight"));
  const proto::Parameter& p = *padded->parameter("fc1_weight");
  const auto expected = test::split(padded->tensor(p.gradient()),
                                    padded->plan().tensors(p.gradient()), p.logical_dims())
                            .logical;
  const auto* actual = reinterpret_cast<const float*>(data.bytes.data());
  EXPECT_EQ(std::vector<float>(actual, actual + expected.size()), expected);
}

}  // namespace
}  // namespace mezzo
