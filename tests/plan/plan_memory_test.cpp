#include "passes/memory/plan_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/kernel.h"
#include "runtime/exec/plan_check.h"
#include "runtime/train/random.h"
#include "tests/support/status_test.h"

namespace mezzo {
namespace {

using passes::MemoryOptions;
using passes::plan_memory;
using test::IsOk;

// A plan put together by hand. Sizes are in floats.
struct Draft {
  PlanDraft draft;
  proto::Plan& plan = draft.plan;

  Draft() { plan.set_format_version(1); }

  int tensor(std::int64_t elems, proto::Role role = proto::ROLE_ACTIVATION, int alias_of = -1) {
    proto::Tensor* t = plan.add_tensors();
    t->set_name("t" + std::to_string(plan.tensors_size() - 1));
    t->set_dtype(1);
    t->add_dims(elems);
    t->set_role(role);
    draft.alias_of.push_back(alias_of);
    return plan.tensors_size() - 1;
  }
  int phase(proto::PhaseKind kind) {
    plan.add_phases()->set_kind(kind);
    return plan.phases_size() - 1;
  }
  void step(const std::string& op, const std::vector<int>& inputs,
            const std::vector<int>& outputs) {
    proto::Step* s = plan.mutable_phases(plan.phases_size() - 1)->add_steps();
    s->set_op(op);
    s->set_node(op);
    for (const int i : inputs) s->add_inputs(i);
    for (const int o : outputs) s->add_outputs(o);
  }
  void output(int tensor, int evaluate = -1) {
    proto::Port* port = plan.add_outputs();
    port->set_tensor(tensor);
    port->set_evaluate_tensor(evaluate);
    port->add_logical_dims(plan.tensors(tensor).dims(0));
  }
  std::uint64_t offset(int tensor) const { return draft.plan.tensors(tensor).offset(); }
  const proto::Arena& arena(int index) const { return draft.plan.arenas(index); }
  bool share(int a, int b) const {
    const proto::Tensor &x = draft.plan.tensors(a), &y = draft.plan.tensors(b);
    return x.arena() == y.arena() && x.offset() < y.offset() + runtime::tensor_bytes(y) &&
           y.offset() < x.offset() + runtime::tensor_bytes(x);
  }
};

TEST(PlanMemory, BytesAreReusedOnceNobodyReadsThem) {
  Draft d;
  const int x = d.tensor(16, proto::ROLE_INPUT), a = d.tensor(16), b = d.tensor(16),
            c = d.tensor(16);
  d.phase(proto::PHASE_FORWARD);
  d.step("Softmax", {x}, {a});
  d.step("Softmax", {a}, {b});
  d.step("Softmax", {b}, {c});
  d.output(c);
  ASSERT_THAT(plan_memory(d.draft), IsOk());
  EXPECT_FALSE(d.share(a, b));
  EXPECT_FALSE(d.share(b, c));
  EXPECT_TRUE(d.share(a, c));
  EXPECT_EQ(d.arena(0).name(), "activations");
  EXPECT_EQ(d.arena(0).bytes(), 128U);
  EXPECT_EQ(d.arena(0).live_bytes(), 128U);
  EXPECT_THAT(runtime::check_plan(d.plan), IsOk());
}

TEST(PlanMemory, AResultTakesOverADyingOperandWhereTheKernelAllowsIt) {
  Draft d;
  const int x = d.tensor(16, proto::ROLE_INPUT), a = d.tensor(16), b = d.tensor(16),
            c = d.tensor(16), e = d.tensor(16);
  d.phase(proto::PHASE_FORWARD);
  d.step("Softmax", {x}, {a});
  d.step("Relu", {a}, {b});    // a dies: in place
  d.step("Tanh", {b}, {c});    // b is read again: not
  d.step("Add", {b, c}, {e});  // either
  d.output(e);
  ASSERT_TRUE(kernels::may_run_in_place("Relu", 0, 0));
  ASSERT_THAT(plan_memory(d.draft), IsOk());
  EXPECT_TRUE(d.share(a, b));
  EXPECT_FALSE(d.share(b, c));
  EXPECT_TRUE(d.share(e, b) || d.share(e, c));
  EXPECT_EQ(d.arena(0).bytes(), 128U);
  EXPECT_THAT(runtime::check_plan(d.plan), IsOk());

  ASSERT_THAT(plan_memory(d.draft, {.reuse = true, .in_place = false}), IsOk());
  EXPECT_FALSE(d.share(a, b));
  EXPECT_THAT(runtime::check_plan(d.plan), IsOk());
}

TEST(PlanMemory, NothingIsTakenOverFromInputsParametersOrConstants) {
  Draft d;
  const int x = d.tensor(16, proto::ROLE_INPUT), w = d.tensor(16, proto::ROLE_CONSTANT),
            a = d.tensor(16), b = d.tensor(16);
  d.phase(proto::PHASE_FORWARD);
  d.step("Relu", {x}, {a});
  d.step("Relu", {w}, {b});
  d.output(a);
  d.output(b);
  ASSERT_THAT(plan_memory(d.draft), IsOk());
  EXPECT_EQ(d.plan.tensors(a).arena(), 0U);
  EXPECT_EQ(d.plan.tensors(b).arena(), 0U);
  EXPECT_FALSE(d.share(a, b));
  EXPECT_THAT(runtime::check_plan(d.plan), IsOk());
}

TEST(PlanMemory, TwiceTheSameOperandIsNotTakenOver) {
  Draft d;
  const int x = d.tensor(16, proto::ROLE_INPUT), a = d.tensor(16), b = d.tensor(16);
  d.phase(proto::PHASE_FORWARD);
  d.step("Softmax", {x}, {a});
  d.step("Mul", {a, a}, {b});
  d.output(b);
  ASSERT_THAT(plan_memory(d.draft), IsOk());
  EXPECT_FALSE(d.share(a, b));
}

TEST(PlanMemory, AnAliasKeepsItsOriginalAlive) {
  Draft d;
  const int x = d.tensor(16, proto::ROLE_INPUT), a = d.tensor(16);
  const int view = d.tensor(16, proto::ROLE_ACTIVATION, a),
            view_of_view = d.tensor(16, proto::ROLE_ACTIVATION, view);
  const int b = d.tensor(16), c = d.tensor(16);
  d.phase(proto::PHASE_FORWARD);
  d.step("Softmax", {x}, {a});
  d.step("Softmax", {x}, {b});
  d.step("Concat", {b, view_of_view}, {c});
  d.output(c);
  ASSERT_THAT(plan_memory(d.draft), IsOk());
  EXPECT_EQ(d.offset(a), d.offset(view));
  EXPECT_EQ(d.offset(a), d.offset(view_of_view));
  EXPECT_FALSE(d.share(a, b));
  EXPECT_FALSE(d.share(a, c));
  EXPECT_THAT(runtime::check_plan(d.plan), IsOk());
}

TEST(PlanMemory, WhatIsReadAfterAPhaseLivesToItsEnd) {
  Draft d;
  const int x = d.tensor(16, proto::ROLE_INPUT), early = d.tensor(16), late = d.tensor(16),
            evaluated = d.tensor(16);
  d.phase(proto::PHASE_FORWARD);
  d.step("Softmax", {x}, {early});
  d.phase(proto::PHASE_BACKWARD);
  d.step("Softmax", {x}, {late});
  d.phase(proto::PHASE_EVALUATE);
  d.step("Softmax", {x}, {evaluated});
  d.output(early, evaluated);
  d.output(late);
  ASSERT_THAT(plan_memory(d.draft), IsOk());
  EXPECT_FALSE(d.share(early, late)) << "the output must survive the backward phase";
  EXPECT_EQ(d.arena(0).live_bytes(), 128U);
}

TEST(PlanMemory, GradientsAndParametersNeverShare) {
  Draft d;
  const int x = d.tensor(16, proto::ROLE_INPUT), w = d.tensor(16, proto::ROLE_MASTER),
            low = d.tensor(16, proto::ROLE_LOW_COPY);
  const int s = d.tensor(16, proto::ROLE_STATE), g1 = d.tensor(16, proto::ROLE_GRADIENT),
            g2 = d.tensor(16, proto::ROLE_GRADIENT);
  d.phase(proto::PHASE_BACKWARD);
  d.step("Softmax", {x}, {g1});
  d.step("Softmax", {x}, {g2});
  ASSERT_THAT(plan_memory(d.draft), IsOk());
  const std::vector<int> all = {x, w, low, s, g1, g2};
  for (const int a : all) {
    for (const int b : all) {
      if (a < b) {
        EXPECT_FALSE(d.share(a, b)) << a << " and " << b;
      }
    }
  }
}

TEST(PlanMemory, AGradientMayComeInPlaceButIsNotGivenAway) {
  Draft d;
  const int x = d.tensor(16, proto::ROLE_INPUT), a = d.tensor(16),
            g = d.tensor(16, proto::ROLE_GRADIENT), b = d.tensor(16);
  d.phase(proto::PHASE_BACKWARD);
  d.step("Softmax", {x}, {a});
  d.step("Relu", {a}, {g});
  d.step("Relu", {g}, {b});
  d.output(b);
  ASSERT_THAT(plan_memory(d.draft), IsOk());
  EXPECT_TRUE(d.share(a, g));
  EXPECT_FALSE(d.share(g, b));
  EXPECT_THAT(runtime::check_plan(d.plan), IsOk());
}

TEST(PlanMemory, ConstantsInTheWeightsFileTakeNoPlace) {
  Draft d;
  const int x = d.tensor(16, proto::ROLE_INPUT), w = d.tensor(1 << 20, proto::ROLE_CONSTANT),
            y = d.tensor(16);
  d.plan.mutable_tensors(w)->set_in_weights_file(true);
  d.draft.weights.emplace(w, Tensor::scalar(DType::kFloat32, 0));
  d.phase(proto::PHASE_FORWARD);
  d.step("Gather", {w, x}, {y});
  d.output(y);
  ASSERT_THAT(plan_memory(d.draft), IsOk());
  for (const proto::Arena& arena : d.plan.arenas()) EXPECT_LE(arena.bytes(), 64U) << arena.name();
}

TEST(PlanMemory, WithoutReuseEveryTensorHasItsOwnBytes) {
  Draft d;
  const int x = d.tensor(16, proto::ROLE_INPUT);
  int last = x;
  d.phase(proto::PHASE_FORWARD);
  for (int i = 0; i < 5; ++i) {
    const int next = d.tensor(16);
    d.step("Relu", {last}, {next});
    last = next;
  }
  d.output(last);
  ASSERT_THAT(plan_memory(d.draft, {.reuse = false, .in_place = false}), IsOk());
  EXPECT_EQ(d.arena(0).bytes(), 5 * 64U);
}

TEST(PlanMemory, EmptyTensorsTakeNothing) {
  Draft d;
  const int x = d.tensor(0, proto::ROLE_INPUT), y = d.tensor(0);
  d.phase(proto::PHASE_FORWARD);
  d.step("Relu", {x}, {y});
  d.output(y);
  ASSERT_THAT(plan_memory(d.draft), IsOk());
  EXPECT_EQ(d.arena(0).bytes(), 0U);
  EXPECT_THAT(runtime::check_plan(d.plan), IsOk());
}

// Random plans, looked at by an independent measure of who is alive when.
class RandomPlan : public testing::TestWithParam<int> {};

struct Life {
  int first = 1 << 30, last = -1;
};

Draft random_draft(runtime::SplitMix64& random) {
  static const std::vector<std::string> kOps = {"Relu",    "Add",  "Mul",   "MatMul",
                                                "Softmax", "AddN", "Concat"};
  Draft d;
  const std::vector<std::int64_t> sizes = {1, 16, 17, 100, 1000};
  std::vector<int> values = {d.tensor(16, proto::ROLE_INPUT), d.tensor(100, proto::ROLE_CONSTANT),
                             d.tensor(17, proto::ROLE_MASTER)};
  for (const auto kind : {proto::PHASE_FORWARD, proto::PHASE_BACKWARD}) {
    d.phase(kind);
    for (std::uint64_t n = 5 + random.below(25); n > 0; --n) {
      std::vector<int> inputs = {values[random.below(values.size())]};
      if (random.below(2) == 0) inputs.push_back(values[random.below(values.size())]);
      // Often of the operand's size, so that in-place has a chance.
      const std::int64_t elems = random.below(2) == 0 ? d.plan.tensors(inputs[0]).dims(0)
                                                      : sizes[random.below(sizes.size())];
      const bool gradient = kind == proto::PHASE_BACKWARD && random.below(6) == 0;
      const int y = d.tensor(elems, gradient ? proto::ROLE_GRADIENT : proto::ROLE_ACTIVATION);
      d.step(kOps[random.below(kOps.size())], inputs, {y});
      values.push_back(y);
      if (!gradient && random.below(5) == 0)
        values.push_back(d.tensor(elems, proto::ROLE_ACTIVATION, y));
    }
  }
  d.output(values.back());
  return d;
}

TEST_P(RandomPlan, NoTwoTensorsAliveTogetherShareABuffer) {
  runtime::SplitMix64 random(static_cast<std::uint64_t>(GetParam()));
  Draft d = random_draft(random);
  ASSERT_THAT(plan_memory(d.draft), IsOk());
  ASSERT_THAT(runtime::check_plan(d.plan), IsOk());
  const int count = d.plan.tensors_size();
  const auto original = [&](int t) {
    while (d.draft.alias_of[static_cast<std::size_t>(t)] >= 0)
      t = d.draft.alias_of[static_cast<std::size_t>(t)];
    return t;
  };
  std::vector<Life> lives(static_cast<std::size_t>(count));
  int now = 0;
  const auto touch = [&](int t) {
    Life& life = lives[static_cast<std::size_t>(original(t))];
    life.first = std::min(life.first, now);
    life.last = std::max(life.last, now);
  };
  for (const proto::Phase& phase : d.plan.phases()) {
    for (const proto::Step& step : phase.steps()) {
      for (const int t : step.inputs()) touch(t);
      for (const int t : step.outputs()) touch(t);
      ++now;
    }
  }
  for (const proto::Port& port : d.plan.outputs()) touch(port.tensor());
  for (int i = 0; i < count; ++i) {
    const proto::Tensor& t = d.plan.tensors(i);
    EXPECT_EQ(t.offset() % 64, 0U);
    EXPECT_EQ(t.offset(), d.offset(original(i)));
    // Persistent ones live always.
    if (t.role() != proto::ROLE_ACTIVATION && original(i) == i)
      lives[static_cast<std::size_t>(i)] = {0, now};
  }
  std::uint64_t live_bound = 0;
  for (int step = 0; step <= now; ++step) {
    std::uint64_t alive = 0;
    for (int a = 0; a < count; ++a) {
      const Life& life = lives[static_cast<std::size_t>(a)];
      if (original(a) != a || d.plan.tensors(a).arena() != 0 || step < life.first ||
          step > life.last)
        continue;
      bool counted = false;  // an operand and the result that takes it over are one buffer
      for (int b = 0; b < a; ++b) {
        const Life& other = lives[static_cast<std::size_t>(b)];
        if (original(b) != b || step < other.first || step > other.last || !d.share(a, b)) continue;
        counted = true;
        EXPECT_EQ(d.offset(a), d.offset(b));
        EXPECT_TRUE(other.last == step && life.first == step)
            << "step " << step << ": " << a << " and " << b << " are both alive";
      }
      if (!counted) alive += (runtime::tensor_bytes(d.plan.tensors(a)) + 63) / 64 * 64;
    }
    live_bound = std::max(live_bound, alive);
  }
  EXPECT_EQ(d.arena(0).live_bytes(), live_bound);
  EXPECT_GE(d.arena(0).bytes(), live_bound);
  EXPECT_LE(d.arena(0).bytes(), live_bound * 3 / 2);

  const std::uint64_t planned = d.arena(0).bytes();
  ASSERT_THAT(plan_memory(d.draft, {.reuse = false, .in_place = false}), IsOk());
  EXPECT_THAT(runtime::check_plan(d.plan), IsOk());
  EXPECT_LE(planned, d.arena(0).bytes());
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomPlan, testing::Range(1, 60));

}  // namespace
}  // namespace mezzo
