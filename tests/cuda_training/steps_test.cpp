// Training steps in a device's stream: what waits, what a graph holds, what the order of streams
// may change, and checkpoints that move between devices.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "model_text.h"
#include "tests/cuda_on_cpu/control.h"
#include "tests/cuda_training/host_device.h"
#include "tests/cuda_training/session_device.h"
#include "tests/support/status_test.h"
#include "training_session.h"

namespace mezzo::test {
namespace {

using runtime::StepMetrics;

SessionOptions options_of(std::int64_t accumulate = 1) {
  SessionOptions options;
  options.shuffle = true;
  options.samples = 13;
  options.trainer.optimizer.kind = runtime::OptimizerKind::kAdamW;
  options.trainer.optimizer.lr = 0.01;
  options.trainer.optimizer.weight_decay = 0.1;
  options.trainer.schedule.kind = runtime::LrScheduleKind::kCosine;
  options.trainer.schedule.base_lr = 0.01;
  options.trainer.schedule.warmup_steps = 3;
  options.trainer.schedule.total_steps = 30;
  options.trainer.accumulate = accumulate;
  options.trainer.clip_norm = 1;
  options.trainer.seed = 7;
  options.trainer.options_digest = "d";
  options.trainer.loss_scale.growth_interval = 3;
  options.trainer.loss_scale.max_scale = 1e30;
  return options;
}

std::unique_ptr<Session> open(const SessionOptions& options,
                              const std::string& model = mlp_text()) {
  return value_or_die(Session::open(model, options));
}

// On the CPU, whatever this program's sessions do otherwise.
std::unique_ptr<Session> open_on_cpu(const SessionOptions& options) {
  const auto device = std::exchange(session_device(), nullptr);
  auto session = open(options);
  session_device() = device;
  return session;
}

void expect_same(const std::vector<StepMetrics>& a, const std::vector<StepMetrics>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].step, b[i].step);
    EXPECT_EQ(a[i].loss, b[i].loss) << "step " << a[i].step;
    EXPECT_EQ(a[i].grad_norm, b[i].grad_norm);
    EXPECT_EQ(a[i].lr, b[i].lr);
    EXPECT_EQ(a[i].loss_scale, b[i].loss_scale);
    EXPECT_EQ(a[i].skipped, b[i].skipped);
  }
}

void expect_near(const std::vector<float>& a, const std::vector<float>& b, float tolerance) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance) << i;
}

// Skips the test where steps of this model are not graphs.
#define REQUIRE_GRAPHS(session)                                                 \
  if (const std::string why = (session).trainer().why_no_graph(); !why.empty()) \
  GTEST_SKIP() << "no graph: " << why

// What both sides of the border take for granted may differ there.
TEST(DeviceModule, OfAnotherBuildOpensNothing) {
  EXPECT_THAT(open_host_device(), IsOk());
  EXPECT_FALSE(open_host_device("1.0 another compiler").ok());
}

// Neither our own calls nor anything else in the program waits for the device inside a step.
TEST(DeviceSteps, NothingWaits) {
  for (const std::int64_t accumulate : {1, 3}) {
    const auto session = open(options_of(accumulate));
    REQUIRE_GRAPHS(*session);
    session->steps(2);
    const auto device_before = session_device()->counts();
    const auto before = cuda_on_cpu::counts();
    for (int i = 0; i < 8; ++i) value_or_die(session->trainer().step(10));
    const auto after = cuda_on_cpu::counts();
    EXPECT_EQ(session_device()->counts().waits, device_before.waits);
    EXPECT_EQ(after.waits, before.waits);
    EXPECT_EQ(after.allocations, before.allocations);
    EXPECT_EQ(after.graphs - before.graphs, 8U * static_cast<unsigned>(accumulate));
    EXPECT_EQ(session->trainer().why_no_graph(), "");
  }
}

// Per step, by the stand-in's count of what arrived there and by the device's own.
TEST(DeviceSteps, EveryCallOfAStepIsCounted) {
  constexpr unsigned kSteps = 6;
  for (const std::int64_t accumulate : {1, 3}) {
    SessionOptions options = options_of(accumulate);
    options.precision = "bf16";
    options.trainer.graphs = false;
    const auto session = open(options);
    session->steps(3);
    const auto device_before = session_device()->counts();
    const auto before = cuda_on_cpu::counts();
    session->steps(kSteps);
    const auto after = cuda_on_cpu::counts();
    const auto device_after = session_device()->counts();
    EXPECT_EQ(device_after.launches - device_before.launches, after.kernels - before.kernels);
    EXPECT_EQ(device_after.copies - device_before.copies, after.copies - before.copies);
    EXPECT_EQ(device_after.waits - device_before.waits, after.waits - before.waits);
    const auto cost = session->trainer().device_steps()->cost();
    ASSERT_TRUE(cost.has_value());
    EXPECT_EQ(cost->calls.launches * kSteps, after.kernels - before.kernels);
    EXPECT_EQ(cost->calls.copies * kSteps, after.copies - before.copies);
    EXPECT_EQ(cost->calls.waits, 0U);
    unsigned plan_steps = 0;
    for (const auto& phase : session->executor().plan().phases()) {
      if (phase.kind() == proto::PHASE_FORWARD || phase.kind() == proto::PHASE_BACKWARD)
        plan_steps += static_cast<unsigned>(phase.steps_size());
    }
    EXPECT_GT(cost->calls.launches, plan_steps * static_cast<unsigned>(accumulate));
    EXPECT_GT(cost->host_us, 0);
  }
}

// One for each micro-batch, and nothing of what was captured.
TEST(DeviceSteps, AGraphIsOneLaunch) {
  for (const std::int64_t accumulate : {1, 3}) {
    const auto session = open(options_of(accumulate));
    REQUIRE_GRAPHS(*session);
    const auto* const steps = session->trainer().device_steps();
    session->steps(2);
    EXPECT_TRUE(steps->has_graph());
    EXPECT_FALSE(steps->cost().has_value()) << "no step yet is as later ones will be";
    session->steps(4);
    ASSERT_TRUE(steps->cost().has_value());
    EXPECT_EQ(steps->cost()->calls.launches, static_cast<unsigned>(accumulate));
    // The batch to the device and to each of its inputs, and the record back.
    const auto inputs = static_cast<unsigned>(session->executor().plan().inputs_size());
    EXPECT_EQ(steps->cost()->calls.copies, (1 + inputs) * static_cast<unsigned>(accumulate) + 1);
    EXPECT_EQ(steps->cost()->calls.waits, 0U);
  }
}

TEST(DeviceSteps, GraphsAndSingleLaunchesGiveTheSameBits) {
  for (const std::int64_t accumulate : {1, 2}) {
    SessionOptions options = options_of(accumulate);
    options.precision = "fp16";
    options.trainer.loss_scale.init_scale = 1e9;  // overflows now and then
    const auto graph = open(options, mlp_text(/*dropout=*/true));
    options.trainer.graphs = false;
    const auto eager = open(options, mlp_text(/*dropout=*/true));
    EXPECT_NE(eager->trainer().why_no_graph(), "");
    expect_same(graph->steps(12), eager->steps(12));
    EXPECT_EQ(graph->all_weights(), eager->all_weights());
  }
}

// Each call in turn, of what the third and fourth step make: the error names one, and what can be
// saved afterwards is no mixture of steps.
TEST(DeviceSteps, ACallThatFailsLeavesNothingWrongBehind) {
  const SessionOptions options = options_of(2);
  const auto whole = open(options);
  whole->steps(6);
  int failures = 0;
  bool comes_to_it = true;
  for (std::uint64_t n = 1; comes_to_it; ++n) {
    const auto session = open(options);
    session->steps(2);
    const std::uint64_t before = cuda_on_cpu::counts().calls;
    cuda_on_cpu::fail_call(n);
    Status status = ok_status();
    for (int i = 0; i < 2 && status.ok(); ++i) status = session->trainer().step(4).status();
    comes_to_it = cuda_on_cpu::counts().calls - before >= n;
    cuda_on_cpu::fail_call(0);
    cuda_on_cpu::take_fault();
    const std::string folder = session->file("checkpoint");
    const Status saved = session->trainer().save(folder);
    if (status.ok()) {
      EXPECT_THAT(saved, IsOk()) << "call " << n;
    } else {
      ++failures;
      EXPECT_EQ(status.code(), StatusCode::kInternal);
      EXPECT_NE(status.message().find("cu"), std::string::npos) << status.message();
      EXPECT_EQ(session->trainer().step().status().message(), status.message());
    }
    if (!saved.ok()) continue;
    const auto resumed = open(options);
    ASSERT_THAT(resumed->trainer().resume(folder), IsOk());
    while (resumed->trainer().steps_done() < 6) resumed->steps(1);
    EXPECT_EQ(resumed->all_weights(), whole->all_weights()) << "call " << n;
  }
  EXPECT_GT(failures, 0);
}

// Streams may go on in any order that events allow.
TEST(DeviceSteps, TheOrderOfStreamsChangesNothing) {
  const SessionOptions options = options_of(2);
  cuda_on_cpu::set_stream_order(0);
  const auto first = open(options);
  const auto expected = first->steps(6);
  const std::vector<float> weights = first->all_weights();
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    cuda_on_cpu::set_stream_order(seed);
    const auto session = open(options);
    expect_same(session->steps(6), expected);
    EXPECT_EQ(session->all_weights(), weights);
  }
  cuda_on_cpu::set_stream_order(0);
}

// The facility can tell: without an event between the streams some order goes wrong.
TEST(DeviceSteps, EveryWaitBetweenStreamsIsNeeded) {
  // By turns, a batch waits for its staging buffer and the step for its batch. A staging buffer is
  // waited for in vain unless a step has more micro-batches than there are buffers; with one, the
  // host is slow enough for a step to overtake its batch.
  struct Case {
    std::int64_t accumulate;
    std::uint64_t wait;
  };
  for (const Case& c : {Case{1, 4}, Case{4, 17}, Case{4, 19}}) {
    const SessionOptions options = options_of(c.accumulate);
    cuda_on_cpu::set_stream_order(0);
    const auto whole = open(options);
    REQUIRE_GRAPHS(*whole);
    const auto expected = whole->steps(4);
    bool differs = false;
    for (std::uint64_t seed = 1; seed <= 40 && !differs; ++seed) {
      cuda_on_cpu::set_stream_order(seed);
      const auto session = open(options);
      cuda_on_cpu::ignore_stream_wait(c.wait);
      const auto actual = session->steps(4);
      for (std::size_t i = 0; i < actual.size(); ++i)
        differs = differs || actual[i].loss != expected[i].loss;
      cuda_on_cpu::ignore_stream_wait(0);
    }
    EXPECT_TRUE(differs) << "wait " << c.wait << " of steps of " << c.accumulate;
  }
  cuda_on_cpu::set_stream_order(0);
}

TEST(DeviceSteps, LookingAheadChangesNothing) {
  const auto ahead = open(options_of());
  const auto behind = open(options_of());
  std::vector<StepMetrics> one_by_one;
  for (int i = 0; i < 10; ++i) one_by_one.push_back(value_or_die(behind->trainer().step()));
  expect_same(ahead->steps(10), one_by_one);
  EXPECT_EQ(ahead->all_weights(), behind->all_weights());
}

// A step that was under way when training stopped has changed nothing, and its batch comes again.
TEST(DeviceSteps, AnAbortUndoesWhatWasAhead) {
  SessionOptions options = options_of();
  options.trainer.abort_on_overflow = true;
  options.shuffle = false;
  options.samples = 40;
  options.edit_floats = [](const std::string&, std::vector<float>& values) {
    values[16 * 5 + 2] = 3e38F;  // in the fifth batch; its gradient is scaled by 65536
  };
  const auto device = open(options);
  const auto cpu = open_on_cpu(options);
  Status stopped[2];
  int which = 0;
  for (Session* session : {device.get(), cpu.get()}) {
    for (int i = 0; i < 10 && stopped[which].ok(); ++i)
      stopped[which] = session->trainer().step(10).status();
    EXPECT_EQ(session->trainer().steps_done(), 5);
    EXPECT_EQ(session->trainer().last_step().step, 5);
    ASSERT_THAT(session->trainer().save(session->file("stopped")), IsOk());
    ++which;
  }
  EXPECT_FALSE(stopped[0].ok());
  EXPECT_EQ(stopped[0].message().substr(0, 24), stopped[1].message().substr(0, 24));
  // Both go on, with the step after it.
  const auto next_device = device->trainer().step(10), next_cpu = cpu->trainer().step();
  ASSERT_THAT(next_device, IsOk());
  ASSERT_THAT(next_cpu, IsOk());
  EXPECT_NEAR(next_device->loss, next_cpu->loss, 1e-5);
  EXPECT_EQ(next_device->step, next_cpu->step);
}

TEST(DeviceSteps, ResumesBitForBit) {
  SessionOptions options = options_of();
  options.trainer.average_decay = 0.9;
  const auto whole = open(options);
  const auto expected = whole->steps(10);
  const auto first = open(options);
  first->steps(5);
  ASSERT_THAT(first->trainer().save(first->file("saved")), IsOk());
  first->steps(2);  // saving leaves a run as it is
  const auto second = open(options);
  ASSERT_THAT(second->trainer().resume(first->file("saved")), IsOk());
  expect_same(second->steps(5), {expected.begin() + 5, expected.end()});
  EXPECT_EQ(second->all_weights(), whole->all_weights());
  const auto expected_more = whole->steps(2);
  ASSERT_THAT(second->trainer().save(second->file("again")), IsOk());
  expect_same(second->steps(2), expected_more);
}

TEST(DeviceSteps, CheckpointsMoveBetweenDevices) {
  SessionOptions options = options_of(2);
  options.trainer.average_decay = 0.9;
  const auto reference = open_on_cpu(options);
  const auto expected = reference->steps(9);
  std::string saved;
  std::vector<std::unique_ptr<Session>> sessions;
  std::vector<StepMetrics> metrics;
  for (int part = 0; part < 3; ++part) {
    sessions.push_back(part == 1 ? open(options) : open_on_cpu(options));
    Session& session = *sessions.back();
    if (part > 0) {
      ASSERT_THAT(session.trainer().resume(saved), IsOk());
    }
    for (const StepMetrics& step : session.steps(3)) metrics.push_back(step);
    saved = session.file("saved");
    ASSERT_THAT(session.trainer().save(saved), IsOk());
  }
  ASSERT_EQ(metrics.size(), expected.size());
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    EXPECT_EQ(metrics[i].step, expected[i].step);
    EXPECT_NEAR(metrics[i].loss, expected[i].loss, 1e-5);
    EXPECT_EQ(metrics[i].lr, expected[i].lr);
    EXPECT_EQ(metrics[i].loss_scale, expected[i].loss_scale);
  }
  expect_near(sessions.back()->all_weights(), reference->all_weights(), 1e-5F);
}

}  // namespace
}  // namespace mezzo::test
