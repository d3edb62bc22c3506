// Hostile plans: an error, or a run that stays inside its own memory (the sanitizer preset runs
// these tests, too).
#include <google/protobuf/stubs/logging.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "model_text.h"
#include "plan_mutator.h"
#include "runtime/exec/plan_check.h"
#include "runtime/train/random.h"
#include "tests/support/status_test.h"
#include "training_session.h"

namespace mezzo {
namespace {

using runtime::check_plan;
using test::IsOk;
using test::Rejects;
using test::Session;
using test::SessionOptions;
using test::value_or_die;

constexpr std::uint64_t kMostRunBytes = std::uint64_t{64} << 20;

struct HostilePlans {
  cli::Compiled compiled;
  runtime::WeightSource weights;
  std::int64_t accepted = 0, refused = 0;

  explicit HostilePlans(const std::string& model, const std::string& precision = "bf16") {
    const test::TempDir dir;
    test::write_text(dir.file("m.onnxtxt"), model);
    SessionOptions options;
    options.precision = precision;
    options.evaluate = true;
    compiled =
        value_or_die(cli::compile_model(dir.file("m.onnxtxt"), test::compile_options(options)));
    weights = cli::weights_of(compiled.draft);
  }

  // Checks, prepares and runs what is accepted. A crash or a sanitizer's report is the failure.
  void meet(const proto::Plan& plan) {
    if (!check_plan(plan).ok()) {
      ++refused;
      return;
    }
    ++accepted;
    std::uint64_t bytes = 0;
    for (const proto::Arena& arena : plan.arenas()) bytes += std::min(arena.bytes(), kMostRunBytes);
    if (bytes >= kMostRunBytes) return;  // valid, but not for a test
    const auto executor =
        runtime::Executor::create(std::make_shared<const proto::Plan>(plan), weights,
                                  {1, kernels::Backend::kCpu, false, test::session_device()});
    if (!executor.ok()) return;
    for (const auto phase : {proto::PHASE_EVALUATE, proto::PHASE_FORWARD, proto::PHASE_BACKWARD})
      run(**executor, phase);
    // What the trainer touches beyond the steps.
    for (const proto::Port& port : plan.inputs())
      std::memset((*executor)->data(port.tensor()), 1, (*executor)->bytes(port.tensor()));
    for (const proto::Parameter& p : plan.parameters()) {
      std::memset((*executor)->data(p.master()), 1, (*executor)->bytes(p.master()));
      if (p.low_copy() >= 0)
        std::memset((*executor)->data(p.low_copy()), 1, (*executor)->bytes(p.low_copy()));
    }
    for (const proto::State& s : plan.states())
      std::memcpy((*executor)->data(s.tensor()), (*executor)->data(s.next()),
                  (*executor)->bytes(s.tensor()));
    for (const proto::Port& port : plan.inputs())
      ASSERT_THAT((*executor)->upload(port.tensor()), IsOk());
    run(**executor, proto::PHASE_FORWARD);
    for (const proto::Port& port : plan.outputs())
      ASSERT_THAT((*executor)->download(port.tensor()), IsOk());
    // A device that a kernel has ruined would refuse all plans from now on.
    if (test::session_device() == nullptr) return;
    ASSERT_THAT(test::session_device()->wait(), IsOk());
  }

 private:
  static void run(runtime::Executor& executor, proto::PhaseKind phase) {
    (void)executor.run(phase);
    (void)executor.wait();
  }
};

TEST(HostilePlan, EveryFieldSetToExtremeValues) {
  HostilePlans plans(test::mlp_text(/*dropout=*/true));
  ASSERT_THAT(check_plan(*plans.compiled.plan()), IsOk());
  const std::int64_t mutants = test::for_each_mutant(
      *plans.compiled.plan(), [&](const proto::Plan& plan, const std::string& what) {
        SCOPED_TRACE(what);
        plans.meet(plan);
      });
  EXPECT_GT(mutants, 4000);
  EXPECT_GT(plans.refused, mutants / 3);
  EXPECT_GT(plans.accepted, mutants / 20) << "harmless changes (names, figures) are accepted";
}

TEST(HostilePlan, RandomBytesOfTheMessage) {
  google::protobuf::SetLogHandler(nullptr);  // it tells of every text that is not UTF-8
  for (const std::string& model :
       {test::mlp_text(true), test::cnn_text(), test::transformer_mlp_text()}) {
    HostilePlans plans(model);
    const std::string bytes = plans.compiled.plan()->SerializeAsString();
    runtime::SplitMix64 random(11);
    int parsed = 0;
    for (int i = 0; i < 700; ++i) {
      std::string damaged = bytes;
      for (std::uint64_t flips = 1 + random.below(3); flips > 0; --flips) {
        damaged[random.below(damaged.size())] ^= static_cast<char>(1 << random.below(8));
      }
      proto::Plan plan;
      if (!plan.ParseFromString(damaged)) continue;
      ++parsed;
      plans.meet(plan);
    }
    EXPECT_GT(parsed, 100);
  }
}

TEST(HostilePlan, StepsInAnyOrder) {
  HostilePlans plans(test::cnn_text());
  runtime::SplitMix64 random(3);
  for (int i = 0; i < 300; ++i) {
    proto::Plan plan = *plans.compiled.plan();
    auto& steps = *plan.mutable_phases(static_cast<int>(random.below(3)))->mutable_steps();
    steps.SwapElements(static_cast<int>(random.below(static_cast<std::uint64_t>(steps.size()))),
                       static_cast<int>(random.below(static_cast<std::uint64_t>(steps.size()))));
    plans.meet(plan);
  }
  EXPECT_GT(plans.refused, 100) << "most swaps read what is not written yet";
}

// Weights of tensors that the plan's records do not name: on a device the host has no room for
// them.
TEST(HostilePlan, WeightsThatNothingRefersTo) {
  HostilePlans plans(test::mlp_text());
  proto::Plan plan = *plans.compiled.plan();
  plan.clear_parameters();
  plan.clear_states();
  plan.clear_training();
  plans.meet(plan);
  EXPECT_EQ(plans.accepted, 1);
  const auto executor = value_or_die(
      runtime::Executor::create(std::make_shared<const proto::Plan>(plan), plans.weights,
                                {1, kernels::Backend::kCpu, false, test::session_device()}));
  for (const auto* ports : {&plan.inputs(), &plan.outputs()}) {
    for (const proto::Port& port : *ports) {
      const std::byte* data = executor->data(port.tensor());
      EXPECT_TRUE(std::all_of(data, data + executor->bytes(port.tensor()), [](std::byte byte) {
        return byte == std::byte{0};
      })) << port.name();
    }
  }
}

// One named fault each, and what is said about it.
struct Fault {
  const char* name;
  std::function<void(proto::Plan&)> make;
  const char* message;
};

int tensor_with(const proto::Plan& plan, proto::Role role, int skip = 0) {
  for (int i = 0; i < plan.tensors_size(); ++i) {
    if (plan.tensors(i).role() == role && !plan.tensors(i).inline_data().size() && skip-- == 0)
      return i;
  }
  return -1;
}

proto::Step& step(proto::Plan& plan, int index) {
  return *plan.mutable_phases(0)->mutable_steps(index);
}

void move_onto(proto::Plan& plan, int tensor, int other) {
  plan.mutable_tensors(tensor)->set_arena(plan.tensors(other).arena());
  plan.mutable_tensors(tensor)->set_offset(plan.tensors(other).offset());
}

const Fault kFaults[] = {
    {"version", [](proto::Plan& p) { p.set_format_version(2); },
     "plan format version: expected 1, got 2"},
    {"overflow",
     [](proto::Plan& p) {
       auto* t = p.mutable_tensors(0);
       t->clear_dims();
       for (int i = 0; i < 5; ++i) t->add_dims(std::int64_t{1} << 40);
     },
     "makes no sense"},
    {"negative", [](proto::Plan& p) { p.mutable_tensors(0)->set_dims(0, -4); }, "makes no sense"},
    {"dtype", [](proto::Plan& p) { p.mutable_tensors(0)->set_dtype(200); }, "makes no sense"},
    {"text", [](proto::Plan& p) { p.mutable_tensors(0)->set_dtype(8); }, "makes no sense"},
    {"role", [](proto::Plan& p) { p.mutable_tensors(0)->set_role(static_cast<proto::Role>(77)); },
     "unknown role"},
    {"layout", [](proto::Plan& p) { p.mutable_tensors(0)->set_layout(3); }, "unknown layout"},
    {"beyond", [](proto::Plan& p) { p.mutable_tensors(0)->set_offset(std::uint64_t{1} << 40); },
     "beyond the end of its arena"},
    {"wraps", [](proto::Plan& p) { p.mutable_tensors(0)->set_offset(UINT64_MAX - 63); },
     "beyond the end of its arena"},
    {"unaligned", [](proto::Plan& p) { p.mutable_tensors(0)->set_offset(4); },
     "not a multiple of 64"},
    {"no_arena", [](proto::Plan& p) { p.mutable_tensors(0)->set_arena(99); }, "names no arena"},
    {"huge_arena", [](proto::Plan& p) { p.mutable_arenas(0)->set_bytes(UINT64_MAX); }, "too many"},
    {"inline_and_file",
     [](proto::Plan& p) {
       auto* t = p.mutable_tensors(tensor_with(p, proto::ROLE_MASTER));
       t->set_role(proto::ROLE_CONSTANT);
       t->set_inline_data(std::string(runtime::tensor_bytes(*t), 'x'));
     },
     "both inline and in the weights file"},
    {"operand", [](proto::Plan& p) { step(p, 0).set_inputs(0, p.tensors_size()); },
     "an operand names no tensor"},
    {"result", [](proto::Plan& p) { step(p, 0).set_outputs(0, -2); }, "a result names no tensor"},
    {"cycle",
     [](proto::Plan& p) {
       const int result = step(p, 0).outputs(0);
       step(p, 0).set_inputs(0, result);
     },
     "which nothing has written"},
    {"writes_parameter",
     [](proto::Plan& p) { step(p, 0).set_outputs(0, tensor_with(p, proto::ROLE_MASTER)); },
     "steps may only read"},
    {"on_parameter",
     [](proto::Plan& p) {
       move_onto(p, step(p, 0).outputs(0), tensor_with(p, proto::ROLE_MASTER));
     },
     "lies on bytes that steps may only read"},
    {"on_input", [](proto::Plan& p) { move_onto(p, step(p, 0).outputs(0), p.inputs(0).tensor()); },
     "lies on bytes that steps may only read"},
    {"same_master", [](proto::Plan& p) { *p.add_parameters() = p.parameters(0); },
     "the runtime writes both"},
    {"masters_overlap",
     [](proto::Plan& p) { move_onto(p, p.parameters(1).master(), p.parameters(0).master()); },
     "the runtime writes both"},
    {"input_is_constant",
     [](proto::Plan& p) {
       auto* t = p.mutable_tensors(p.inputs(0).tensor());
       t->set_role(proto::ROLE_CONSTANT);
       t->set_in_weights_file(true);
     },
     "another role"},
    {"port", [](proto::Plan& p) { p.mutable_inputs(0)->set_tensor(-1); }, "names no tensor"},
    {"logical", [](proto::Plan& p) { p.mutable_parameters(0)->set_logical_dims(0, 8); },
     "logical shape"},
    {"logical_rank", [](proto::Plan& p) { p.mutable_parameters(0)->clear_logical_dims(); },
     "logical shape"},
    {"gradient_shape",
     [](proto::Plan& p) { p.mutable_parameters(0)->set_gradient(p.parameters(1).gradient()); },
     "does not fit its tensors"},
    {"gradient_role",
     [](proto::Plan& p) { p.mutable_parameters(0)->set_gradient(p.parameters(0).master()); },
     "does not fit its tensors"},
    {"low_copy",
     [](proto::Plan& p) { p.mutable_parameters(0)->set_low_copy(p.parameters(0).master()); },
     "does not fit its tensors"},
    {"loss", [](proto::Plan& p) { p.mutable_training()->set_loss(p.inputs(0).tensor()); },
     "loss is not a float scalar"},
    {"loss_gradient",
     [](proto::Plan& p) { p.mutable_training()->set_loss_gradient(p.training().loss()); },
     "loss gradient is not"},
    {"counter",
     [](proto::Plan& p) { p.mutable_training()->set_random_counter(p.training().loss()); },
     "random counter is not"},
    {"phase_twice", [](proto::Plan& p) { *p.add_phases() = p.phases(0); },
     "each at most once, in this order"},
    {"phase_kind",
     [](proto::Plan& p) { p.mutable_phases(0)->set_kind(static_cast<proto::PhaseKind>(9)); },
     "each at most once, in this order"},
    {"evaluate_reads_training",
     [](proto::Plan& p) {
       auto* evaluate = p.mutable_phases(2);
       evaluate->mutable_steps(0)->set_inputs(0, p.training().loss());
     },
     "which nothing has written"},
};

class NamedFault : public testing::TestWithParam<Fault> {};

TEST_P(NamedFault, IsRefused) {
  static const HostilePlans plans(test::mlp_text(/*dropout=*/true));
  proto::Plan plan = *plans.compiled.plan();
  ASSERT_THAT(check_plan(plan), IsOk());
  GetParam().make(plan);
  EXPECT_THAT(check_plan(plan), Rejects(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(All, NamedFault, testing::ValuesIn(kFaults),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(CheckPlan, AcceptsWhatTheCompilerMakes) {
  for (const std::string precision : {"fp32", "bf16", "fp16"}) {
    for (const int multiple : {0, 8, 16}) {
      for (const std::string& model : {test::mlp_text(), test::mlp_text(true), test::cnn_text(),
                                       test::transformer_mlp_text(true)}) {
        SessionOptions options;
        options.precision = precision;
        options.pad_multiple = multiple;
        options.evaluate = true;
        options.classes = model == test::cnn_text() ? 10 : 3;
        const auto session = value_or_die(Session::open(model, options));
        EXPECT_THAT(check_plan(session->plan()), IsOk());
      }
    }
  }
}

// Two tensors of one step on the same bytes.
TEST(CheckPlan, InPlaceOnlyWhereTheKernelAllowsIt) {
  HostilePlans plans(test::mlp_text(), "fp32");
  proto::Plan plan = *plans.compiled.plan();
  for (proto::Step& s : *plan.mutable_phases(0)->mutable_steps()) {
    if (s.op() != "Gemm" && s.op() != "MatMul") continue;
    const int x = s.inputs(0), y = s.outputs(0);
    if (plan.tensors(x).role() != proto::ROLE_ACTIVATION) continue;
    move_onto(plan, y, x);
    EXPECT_THAT(check_plan(plan), Rejects("overlaps operand"));
    return;
  }
  FAIL() << "the second layer reads an activation";
}

}  // namespace
}  // namespace mezzo
