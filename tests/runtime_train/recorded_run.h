// One parameter with an optimizer of its own, and the run that PyTorch's values were recorded from.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "runtime/train/optimizer.h"
#include "tests/support/status_test.h"

namespace mezzo::runtime::test_support {

using Floats = std::vector<float>;

inline OptimizerGroup sgd(double lr, double momentum = 0, double decay = 0, bool nesterov = false) {
  OptimizerGroup group;
  group.lr = lr;
  group.momentum = momentum;
  group.weight_decay = decay;
  group.nesterov = nesterov;
  return group;
}

inline OptimizerGroup adam(OptimizerKind kind, double lr, double beta1, double beta2, double eps,
                           double decay) {
  OptimizerGroup group;
  group.kind = kind;
  group.lr = lr;
  group.beta1 = beta1;
  group.beta2 = beta2;
  group.eps = eps;
  group.weight_decay = decay;
  return group;
}

// One parameter with its own optimizer.
struct Single {
  Floats w, g;
  std::vector<std::uint16_t> low;
  Optimizer optimizer;

  Single(const OptimizerGroup& group, Floats weights, DType low_dtype = DType::kNone,
         int threads = 0, double average_decay = 0)
      : w(std::move(weights)),
        g(w.size()),
        low(w.size()),
        optimizer(make(group, low_dtype, threads, average_decay)) {}

  Optimizer make(const OptimizerGroup& group, DType low_dtype, int threads, double average_decay) {
    OptimizerParameter parameter;
    parameter.name = "w";
    parameter.elems = static_cast<std::int64_t>(w.size());
    parameter.master = w.data();
    parameter.grad = g.data();
    parameter.low = low_dtype == DType::kNone ? nullptr : low.data();
    parameter.low_dtype = low_dtype;
    return test::value_or_die(Optimizer::create({group}, {parameter}, {threads, average_decay}));
  }

  void step(const OptimizerStep& settings = {}) { optimizer.step(optimizer.measure(), settings); }
  std::span<float> state(std::size_t i) { return optimizer.states()[i].values; }
};

// Recorded from PyTorch 2.15 (torch.optim, foreach=False), four steps from w0 with the gradients
// g(t) below.
inline const Floats kStart = {0.5F, -1.25F, 2.0F, 0.0F, -0.001F};
inline Floats recorded_gradient(int t) {
  return {static_cast<float>(0.1 * (t + 1)), -0.2F, static_cast<float>(0.03 * t), 1e-4F,
          static_cast<float>(2.5 - 0.5 * t)};
}

inline Single run_recorded(const OptimizerGroup& group) {
  Single run(group, kStart);
  for (int t = 0; t < 4; ++t) {
    std::ranges::copy(recorded_gradient(t), run.g.begin());
    run.step();
  }
  return run;
}

inline void expect_equal(std::span<const float> got, const Floats& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], expected[i]) << "element " << i;
}

// PyTorch's CPU code fuses some multiplications with additions, so last places may differ. Where
// terms of opposite signs cancel, that is more of the result: `absolute` is allowed on top.
inline void expect_recorded(std::span<const float> got, const Floats& expected,
                            double absolute = 0) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], expected[i], 4e-7 * std::fabs(expected[i]) + absolute) << i;
  }
}

}  // namespace mezzo::runtime::test_support
