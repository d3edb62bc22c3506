// The executor: nothing allocated in a step, the same bits every time, constants used in place.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "allocation_counter.h"
#include "model_text.h"
#include "runtime/exec/plan_file.h"
#include "tests/support/status_test.h"
#include "training_session.h"

namespace mezzo {
namespace {

using test::IsOk;
using test::ModelText;
using test::Session;
using test::SessionOptions;
using test::value_or_die;

SessionOptions session_options(const std::string& precision, int threads) {
  SessionOptions options;
  options.precision = precision;
  options.shuffle = true;
  options.trainer.threads = threads;
  options.trainer.seed = 3;
  options.trainer.optimizer.kind = runtime::OptimizerKind::kAdamW;
  options.trainer.accumulate = 2;
  options.trainer.clip_norm = 1;
  options.trainer.loss_scale.mode =
      precision == "fp16" ? runtime::LossScaleMode::kDynamic : runtime::LossScaleMode::kOff;
  return options;
}

// Elementwise work, reductions, dropout, loss and optimizer, none of it oneDNN's.
std::string model_without_contractions() {
  ModelText model;
  model.input("float[N,6] x")
      .input("int64[N] labels")
      .output("float[N,6] logits")
      .output("float loss");
  model.weight("scale", {6})
      .weight("bias", {6})
      .weight("factor", {6})
      .weight("shift", {6})
      .filled("ratio", {}, 0.25F);
  model.nodes(R"(
    mode = Constant<value = bool {1}>()
    m = Mul(x, scale)
    n = Add(m, bias)
    s = Sigmoid(n)
    d = Dropout(s, ratio, mode)
    p = Mul(d, factor)
    logits = Add(p, shift)
    loss = SoftmaxCrossEntropyLoss(logits, labels))");
  return model.text();
}

TEST(Allocation, NoneInAStepOfOurOwnKernels) {
  if (!test::can_count_allocations()) GTEST_SKIP() << "the sanitizer has its own malloc";
  SessionOptions options = session_options("fp32", 1);
  options.classes = 6;
  const auto session = value_or_die(Session::open(model_without_contractions(), options));
  for (const runtime::StepProfile& row : session->executor().profile()) {
    ASSERT_EQ(row.implementation.find("onednn"), std::string::npos)
        << row.op << " runs on " << row.implementation;
  }
  session->steps(2);
  test::AllocationCounter counter;
  for (int i = 0; i < 10; ++i) {
    if (!session->trainer().step().ok()) break;
  }
  const test::Allocations found = counter.stop();
  EXPECT_EQ(found.own + found.library, 0) << testing::PrintToString(found.own_callers);
  EXPECT_EQ(session->trainer().steps_done(), 12);
}

// Two optimizers, a frozen group, LAMB's second pass, moving average, both kinds of clipping,
// static scale and every schedule: nothing of it allocates.
TEST(Allocation, NoneWithGroupsAveragesAndClipping) {
  if (!test::can_count_allocations()) GTEST_SKIP() << "the sanitizer has its own malloc";
  for (const runtime::OptimizerKind kind :
       {runtime::OptimizerKind::kSgd, runtime::OptimizerKind::kLamb,
        runtime::OptimizerKind::kAdagrad}) {
    SessionOptions options = session_options("fp32", 1);
    options.classes = 6;
    options.trainer.clip_value = 0.5;
    options.trainer.average_decay = 0.9;
    options.trainer.loss_scale.mode = runtime::LossScaleMode::kDynamic;
    options.trainer.schedule.kind = runtime::LrScheduleKind::kPolynomial;
    options.trainer.schedule.total_steps = 100;
    options.trainer.schedule.warmup_steps = 3;
    const auto probe = value_or_die(Session::open(model_without_contractions(), options));
    ASSERT_GE(probe->plan().parameters_size(), 2);
    runtime::ParameterGroup group{"other", options.trainer.optimizer, "other", {}};
    group.settings.kind = kind;
    group.parameters = {probe->plan().parameters(0).name()};
    options.trainer.groups = {group};
    const auto session = value_or_die(Session::open(model_without_contractions(), options));
    session->steps(2);
    EXPECT_EQ(session->trainer().optimizers().size(), 2U);
    test::AllocationCounter counter;
    for (int i = 0; i < 10; ++i) {
      if (!session->trainer().step().ok()) break;
    }
    const test::Allocations found = counter.stop();
    EXPECT_EQ(found.own + found.library, 0) << testing::PrintToString(found.own_callers);
    EXPECT_EQ(session->trainer().steps_done(), 12);
  }
}

TEST(Allocation, OnlyInsideOneDnnOtherwise) {
  if (!test::can_count_allocations()) GTEST_SKIP() << "the sanitizer has its own malloc";
  for (const auto& [model, classes] :
       {std::pair(test::cnn_text(), 10), std::pair(test::transformer_mlp_text(true), 3)}) {
    for (const std::string precision : {"fp32", "bf16", "fp16"}) {
      SessionOptions options = session_options(precision, 1);
      options.classes = classes;
      const auto session = value_or_die(Session::open(model, options));
      session->steps(2);
      test::AllocationCounter counter;
      for (int i = 0; i < 3; ++i) {
        if (!session->trainer().step().ok()) break;
      }
      const test::Allocations found = counter.stop();
      EXPECT_EQ(found.own, 0) << precision << testing::PrintToString(found.own_callers);
      std::int64_t primitives = 0;
      for (const runtime::StepProfile& row : session->executor().profile()) {
        primitives += row.implementation.find("onednn") != std::string::npos ? 1 : 0;
      }
      ASSERT_GT(primitives, 0);
      // Each execution of a primitive builds small tables of its arguments inside oneDNN, and some
      // rows run reorders as well: 9 and 21 allocations a row on these models (oneDNN 3.2), in six
      // micro-batches. What grows with the model or the batch would go far beyond.
      EXPECT_LE(found.library, 6 * 32 * primitives) << precision;
      RecordProperty("per_primitive_" + std::to_string(classes) + "_" + precision,
                     std::to_string(static_cast<double>(found.library) /
                                    (6.0 * static_cast<double>(primitives))));
    }
  }
}

TEST(Determinism, SamePlanSeedAndThreadsGiveTheSameBits) {
  for (const std::string precision : {"fp32", "bf16", "fp16"}) {
    for (const int threads : {1, 2}) {
      for (const auto& [model, classes] :
           {std::pair(test::cnn_text(), 10), std::pair(test::transformer_mlp_text(true), 3)}) {
        SessionOptions options = session_options(precision, threads);
        options.classes = classes;
        const auto a = value_or_die(Session::open(model, options));
        const auto b = value_or_die(Session::open(model, options));
        const auto first = a->steps(10), second = b->steps(10);
        for (std::size_t i = 0; i < 10; ++i)
          EXPECT_EQ(first[i].loss, second[i].loss) << precision << " threads " << threads;
        EXPECT_EQ(a->all_weights(), b->all_weights()) << precision << " threads " << threads;
      }
    }
  }
}

TEST(Determinism, SeedsDrawOtherNumbers) {
  SessionOptions options = session_options("fp32", 1);
  options.shuffle = false;
  const auto a = value_or_die(Session::open(test::mlp_text(/*dropout=*/true), options));
  options.trainer.seed = 4;
  const auto b = value_or_die(Session::open(test::mlp_text(/*dropout=*/true), options));
  EXPECT_NE(a->steps(1)[0].loss, b->steps(1)[0].loss);
}

// y = x w1 w2, both weights large enough for the weights file.
std::string two_weights(std::int64_t hidden) {
  ModelText model;
  model.input("float[2,32] x")
      .output("float[2,40] y")
      .weight("w1", {32, hidden})
      .weight("w2", {hidden, 40});
  model.nodes("h = MatMul(x, w1)\ny = MatMul(h, w2)");
  return model.text();
}

struct Loaded {
  std::unique_ptr<runtime::Executor> executor;
  const proto::Plan& plan() const { return executor->plan(); }
};

Loaded compile_to_file(const test::TempDir& dir, const std::string& text) {
  test::write_text(dir.file("m.onnxtxt"), text);
  cli::CompileOptions compile;
  compile.policy.force_fp32 = true;
  const auto compiled = value_or_die(cli::compile_model(dir.file("m.onnxtxt"), compile));
  EXPECT_THAT(cli::write_plan(*compiled.draft, dir.file("m.plan")), IsOk());
  auto loaded = value_or_die(runtime::load_plan(dir.file("m.plan")));
  return {value_or_die(
      runtime::Executor::create(loaded.plan, loaded.weights, {1, kernels::Backend::kCpu, false}))};
}

std::vector<float> run_on(runtime::Executor& executor, const std::vector<float>& x) {
  std::copy(x.begin(), x.end(), executor.data_as<float>(executor.plan().inputs(0).tensor()));
  EXPECT_THAT(executor.run(proto::PHASE_FORWARD), IsOk());
  const int y = executor.plan().outputs(0).tensor();
  const float* values = executor.data_as<float>(y);
  return {values, values + executor.bytes(y) / sizeof(float)};
}

TEST(Constants, AreUsedWhereTheyAreMapped) {
  const test::TempDir dir;
  const Loaded aligned = compile_to_file(dir, two_weights(64));
  EXPECT_EQ(aligned.executor->memory().copied_bytes, 0U);
  for (const proto::Arena& arena : aligned.plan().arenas()) {
    if (arena.name() == "constants") {
      EXPECT_EQ(arena.bytes(), 0U);
    }
  }
  const test::TempDir other;
  // 32 x 37 floats are a multiple of 64 bytes, 37 x 40 are not: the second one ends the file, so
  // both lie aligned whatever their order in the graph.
  const Loaded odd = compile_to_file(other, two_weights(37));
  EXPECT_EQ(odd.executor->memory().copied_bytes, 0U);
}

TEST(Constants, ThatLieBadlyAreCopied) {
  const test::TempDir dir;
  test::write_text(dir.file("m.onnxtxt"), two_weights(64));
  cli::CompileOptions compile;
  compile.policy.force_fp32 = true;
  const auto compiled = value_or_die(cli::compile_model(dir.file("m.onnxtxt"), compile));
  // The same bytes, four off.
  std::vector<std::vector<float>> shifted;
  shifted.reserve(2);
  const runtime::WeightSource straight = cli::weights_of(compiled.draft);
  const runtime::WeightSource off =
      [&](const std::string& name) -> StatusOr<std::span<const std::byte>> {
    MEZZO_ASSIGN_OR_RETURN(const auto bytes, straight(name));
    std::vector<float>& copy = shifted.emplace_back(bytes.size() / 4 + 32);
    auto address = reinterpret_cast<std::uintptr_t>(copy.data());
    const std::size_t skip = (64 - address % 64) / 4 % 16 + 1;
    std::memcpy(copy.data() + skip, bytes.data(), bytes.size());
    return std::as_bytes(std::span(copy).subspan(skip, bytes.size() / 4));
  };
  const runtime::ExecutorOptions options{1, kernels::Backend::kCpu, false};
  const auto a = value_or_die(runtime::Executor::create(compiled.plan(), straight, options));
  const auto b = value_or_die(runtime::Executor::create(compiled.plan(), off, options));
  EXPECT_GE(b->memory().copied_bytes, (32 * 64 + 64 * 40) * sizeof(float));
  const std::vector<float> x = test::random_floats(64, 5);
  EXPECT_EQ(run_on(*a, x), run_on(*b, x));
}

TEST(Constants, FromMemoryAndFromTheFileComputeTheSame) {
  const test::TempDir dir;
  const std::vector<float> x = test::random_floats(64, 5);
  const Loaded from_file = compile_to_file(dir, two_weights(37));
  cli::CompileOptions compile;
  compile.policy.force_fp32 = true;
  const auto compiled = value_or_die(cli::compile_model(dir.file("m.onnxtxt"), compile));
  const auto in_memory = value_or_die(runtime::Executor::create(
      compiled.plan(), cli::weights_of(compiled.draft), {1, kernels::Backend::kCpu, false}));
  EXPECT_EQ(run_on(*from_file.executor, x), run_on(*in_memory, x));
}

TEST(Executor, WeightsOfAnotherSizeAreRefused) {
  const auto session = value_or_die(Session::open(test::mlp_text(), session_options("fp32", 1)));
  const std::vector<std::byte> short_one(8);
  const auto wrong =
      runtime::Executor::create(session->compiled().plan(),
                                [&](const std::string&) -> StatusOr<std::span<const std::byte>> {
                                  return std::span<const std::byte>(short_one);
                                },
                                {});
  EXPECT_THAT(wrong, test::Rejects("expected"));
}

TEST(Executor, ProfileTellsStepsAndKernels) {
  const auto session = value_or_die(Session::open(test::mlp_text(), session_options("fp32", 1)));
  session->steps(1);
  std::size_t steps = 0;
  for (const proto::Phase& phase : session->plan().phases())
    steps += static_cast<std::size_t>(phase.steps_size());
  const auto profile = session->executor().profile();
  EXPECT_EQ(profile.size(), steps);
  for (const runtime::StepProfile& row : profile)
    EXPECT_FALSE(row.implementation.empty()) << row.op;
}

}  // namespace
}  // namespace mezzo
