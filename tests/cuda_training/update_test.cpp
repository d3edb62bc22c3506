// The update on a device against the optimizers and the loss scaler of the CPU.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "runtime/train/random.h"
#include "tests/cuda_training/host_device.h"
#include "tests/cuda_training/training_case.h"
#include "tests/support/status_test.h"

namespace mezzo::test {
namespace {

using kernels::OptimizerGroup;
using kernels::OptimizerKind;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

runtime::Device& device() {
  static const std::unique_ptr<runtime::Device> opened = value_or_die(open_host_device());
  return *opened;
}

// Numbers below and above a piece, and such that leave a tail.
const std::vector<std::int64_t> kSizes = {1, 3, 4, 130, 1027, 8191, 8192, 8193, 20001, 0};

std::vector<CaseParameter> parameters(int group, DType low) {
  std::vector<CaseParameter> result;
  for (const std::int64_t elems : kSizes) result.push_back({elems, group, low});
  return result;
}

std::vector<MicroBatch> batches(const TrainingCaseOptions& options, std::uint64_t seed) {
  std::vector<MicroBatch> result;
  for (std::int64_t b = 0; b < options.accumulate; ++b) {
    MicroBatch& batch = result.emplace_back();
    for (const CaseParameter& p : options.parameters)
      batch.gradients.push_back(case_floats(p.elems, ++seed * 1009));
    for (const std::int64_t elems : options.states)
      batch.statistics.push_back(case_floats(elems, ++seed * 1013));
    batch.loss = case_floats(1, seed * 1019)[0] + 2.0F;
  }
  return result;
}

struct Form {
  const char* name;
  OptimizerGroup group;
};

OptimizerGroup make(OptimizerKind kind) {
  OptimizerGroup group;
  group.kind = kind;
  group.lr = 0.01;
  group.weight_decay = 0.1;
  return group;
}

std::vector<Form> forms() {
  std::vector<Form> all;
  all.push_back({"sgd", make(OptimizerKind::kSgd)});
  all.push_back({"momentum", make(OptimizerKind::kSgd)});
  all.back().group.momentum = 0.9;
  all.back().group.dampening = 0.25;
  all.push_back({"nesterov", make(OptimizerKind::kSgd)});
  all.back().group.momentum = 0.9;
  all.back().group.nesterov = true;
  all.push_back({"onnx_momentum", make(OptimizerKind::kSgd)});
  all.back().group.momentum = 0.9;
  all.back().group.dampening = 0.25;
  all.back().group.onnx_form = true;
  all.back().group.first_count = 3;
  all.push_back({"adam", make(OptimizerKind::kAdam)});
  all.push_back({"adam_without_correction", make(OptimizerKind::kAdam)});
  all.back().group.bias_correction = false;
  all.back().group.eps = 0;
  all.push_back({"onnx_adam", make(OptimizerKind::kAdam)});
  all.back().group.onnx_form = true;
  all.back().group.shrink = 0.001;
  all.push_back({"adamw", make(OptimizerKind::kAdamW)});
  all.push_back({"hugging_face_adamw", make(OptimizerKind::kAdamW)});
  all.back().group.adamw_form = kernels::AdamWForm::kHuggingFace;
  all.push_back({"adagrad", make(OptimizerKind::kAdagrad)});
  all.back().group.lr_decay = 0.1;
  all.back().group.initial_accumulator = 0.5;
  all.push_back({"lamb", make(OptimizerKind::kLamb)});
  return all;
}

class Forms : public testing::TestWithParam<Form> {};

// Without clipping by the norm nothing depends on the order of sums but LAMB's ratio.
TEST_P(Forms, GiveTheBitsOfTheCpu) {
  for (const DType low : {DType::kNone, DType::kFloat16, DType::kBFloat16}) {
    TrainingCaseOptions options;
    options.groups = {{GetParam().group, 0}};
    options.parameters = parameters(0, low);
    options.average_decay = low == DType::kNone ? 0.0 : 0.9;
    options.clip_value = low == DType::kFloat16 ? 0.5 : 0.0;
    options.loss_scale.init_scale = 1024;
    const auto training = value_or_die(TrainingCase::create(device(), options));
    const double tolerance = GetParam().group.kind == OptimizerKind::kLamb ? 1e-6 : 0;
    for (std::uint64_t step = 0; step < 4; ++step) {
      SCOPED_TRACE("step " + std::to_string(step));
      training->step(batches(options, 100 * step), tolerance);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Forms, testing::ValuesIn(forms()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Update, ClipsByTheGlobalNorm) {
  TrainingCaseOptions options;
  options.groups = {{make(OptimizerKind::kAdamW), 0}, {make(OptimizerKind::kSgd), 0}};
  options.parameters = parameters(0, DType::kNone);
  for (const CaseParameter& p : parameters(1, DType::kBFloat16)) options.parameters.push_back(p);
  options.clip_norm = 1.5;
  const auto training = value_or_die(TrainingCase::create(device(), options));
  for (std::uint64_t step = 0; step < 3; ++step) {
    const auto record = training->step(batches(options, 100 * step), 1e-6);
    EXPECT_GT(record.grad_norm, 10.0);
  }
}

// Parameters of frozen groups have their copies written once and never change.
TEST(Update, LeavesFrozenParametersAlone) {
  TrainingCaseOptions options;
  OptimizerGroup frozen;
  frozen.frozen = true;
  options.groups = {{make(OptimizerKind::kAdam), 0}, {frozen, 0}};
  options.parameters = {{100, 0, DType::kNone}, {9000, 1, DType::kFloat16}};
  const auto training = value_or_die(TrainingCase::create(device(), options));
  const std::vector<float> before = training->device_weights(1);
  training->step(batches(options, 1), 0);
  EXPECT_EQ(training->device_weights(1), before);
}

TEST(Update, SumsMicroBatches) {
  TrainingCaseOptions options;
  options.groups = {{make(OptimizerKind::kAdam), 0}};
  options.parameters = parameters(0, DType::kNone);
  options.states = {5, 10000};
  options.accumulate = 3;
  const auto training = value_or_die(TrainingCase::create(device(), options));
  for (std::uint64_t step = 0; step < 4; ++step) {
    auto micro = batches(options, 100 * step);
    if (step == 2) micro[1].gradients[3][7] = kInf;
    const auto record = training->step(micro, 0);
    EXPECT_EQ(record.decision.skipped, step == 2);
    EXPECT_EQ(record.after.draws, 3 * (step + 1));
  }
}

// Hundreds of steps of several optimizers, in which chance decides who overflows and when the loss
// is not finite: every decision and every bit is that of the CPU.
TEST(Update, TakesTheCpusDecisions) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    runtime::SplitMix64 random(seed);
    TrainingCaseOptions options;
    options.optimizers = 1 + static_cast<int>(random.below(3));
    for (int i = 0; i < options.optimizers; ++i) {
      const auto all = forms();
      options.groups.push_back({all[random.below(all.size() - 1)].group, i});
      options.parameters.push_back({static_cast<std::int64_t>(random.below(40)), i, DType::kNone});
      options.parameters.push_back({8200, i, DType::kFloat16});
    }
    options.states = {7};
    options.accumulate = 1 + static_cast<std::int64_t>(random.below(2));
    kernels::LossScalerOptions& scale = options.loss_scale;
    const std::uint64_t mode = random.below(4);
    scale.mode = mode == 0   ? kernels::LossScaleMode::kOff
                 : mode == 1 ? kernels::LossScaleMode::kStatic
                             : kernels::LossScaleMode::kDynamic;
    scale.init_scale = 256;
    scale.growth_interval = 1 + static_cast<std::int64_t>(random.below(4));
    scale.hysteresis = 1 + static_cast<std::int64_t>(random.below(2));
    scale.min_scale = 16;
    scale.max_scale = 1024;
    scale.max_stuck_steps = static_cast<std::int64_t>(random.below(4)) * 2;
    scale.max_skips = static_cast<std::int64_t>(random.below(2)) * 7;
    options.abort_on_overflow = seed == 5;
    options.schedule.kind = static_cast<kernels::LrScheduleKind>(random.below(6));
    options.schedule.base_lr = 0.1;
    options.schedule.total_steps = 30;
    options.schedule.warmup_steps =
        options.schedule.kind == kernels::LrScheduleKind::kOneCycle ? 0 : 4;
    options.schedule.step_size = 5;
    const auto training = value_or_die(TrainingCase::create(device(), options));
    for (std::uint64_t step = 0; step < 40; ++step) {
      SCOPED_TRACE("step " + std::to_string(step));
      auto micro = batches(options, 1000 * seed + 100 * step);
      for (std::size_t i = 0; i < options.parameters.size(); ++i) {
        if (options.parameters[i].elems == 0 || random.below(6) != 0) continue;
        const auto at = random.below(static_cast<std::uint64_t>(options.parameters[i].elems));
        micro[random.below(micro.size())].gradients[i][at] = random.below(2) == 0 ? kInf : kNan;
      }
      if (random.below(10) == 0) micro[0].loss = kNan;
      training->step(micro, 0);
      if (testing::Test::HasFailure()) return;
    }
  }
}

// After a verdict nothing changes, whatever comes; put() lets the training go on.
TEST(Update, HaltsAndCountsWhatWasBad) {
  TrainingCaseOptions options;
  options.groups = {{make(OptimizerKind::kAdam), 0}, {make(OptimizerKind::kSgd), 1}};
  options.optimizers = 2;
  options.parameters = {{9000, 0, DType::kNone}, {50, 1, DType::kNone}};
  options.states = {3};
  options.abort_on_overflow = true;
  const auto training = value_or_die(TrainingCase::create(device(), options));
  training->step(batches(options, 1), 0);
  auto bad = batches(options, 2);
  bad[0].gradients[0][8500] = kInf;
  bad[0].gradients[0][3] = -kInf;
  bad[0].gradients[0][4] = kNan;
  EXPECT_EQ(training->step(bad, 0).decision.verdict, kernels::StepVerdict::kAbort);
  training->step(batches(options, 3), 0);
  training->step(batches(options, 4), 0);
  const auto counts = value_or_die(training->training().bad_gradients());
  EXPECT_EQ(counts[0].infs, 2);
  EXPECT_EQ(counts[0].nans, 1);
  EXPECT_EQ(counts[1].infs + counts[1].nans, 0);
}

}  // namespace
}  // namespace mezzo::test
