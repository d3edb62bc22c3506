// Every variant for an instruction set gives the bits of the plain one.
#include "runtime/train/optimizer_loops.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "compiler/support/half.h"
#include "runtime/train/random.h"

namespace mezzo::runtime {
namespace {

using Floats = std::vector<float>;

// Numbers of every size, signed, with subnormals; about one in ten is 0.
Floats random_floats(std::size_t n, std::uint64_t seed) {
  SplitMix64 random(seed);
  Floats result(n);
  for (float& value : result) {
    value = random.below(10) == 0
                ? 0.0F
                : std::ldexp(static_cast<float>(random.below(1 << 24)) / (1 << 23),
                             static_cast<int>(random.below(60)) - 40) *
                      (random.below(2) == 0 ? -1.0F : 1.0F);
  }
  return result;
}

std::vector<OptimizerLoopsVariant> variants() {
  OptimizerLoopsVariant all[3];
  const int count = optimizer_loops_variants(all);
  return {all, all + count};
}

struct Buffers {
  Floats w, g, first, second;
  std::vector<std::uint16_t> low;
  explicit Buffers(std::size_t n)
      : w(random_floats(n, 1)),
        g(random_floats(n, 2)),
        first(random_floats(n, 3)),
        second(random_floats(n, 4)),
        low(n) {
    for (float& value : second) value = std::fabs(value);
  }
  friend bool operator==(const Buffers& a, const Buffers& b) {
    const auto same = [](const Floats& x, const Floats& y) {
      for (std::size_t i = 0; i < x.size(); ++i) {
        if (std::bit_cast<std::uint32_t>(x[i]) != std::bit_cast<std::uint32_t>(y[i])) return false;
      }
      return true;
    };
    return same(a.w, b.w) && same(a.first, b.first) && same(a.second, b.second) && a.low == b.low;
  }
};

TEST(OptimizerLoops, SumsOfSquares) {
  for (const std::size_t n : {0U, 1U, 15U, 16U, 17U, 31U, 1000U, 16384U}) {
    const Floats g = random_floats(n, n);
    const double plain =
        variants()[0].loops->sum_of_squares(g.data(), static_cast<std::int64_t>(n));
    long double exact = 0;
    for (const float value : g) exact += static_cast<long double>(value) * value;
    EXPECT_NEAR(plain, static_cast<double>(exact), 1e-12 * static_cast<double>(exact));
    for (const auto& variant : variants()) {
      const double sum = variant.loops->sum_of_squares(g.data(), static_cast<std::int64_t>(n));
      EXPECT_EQ(std::bit_cast<std::uint64_t>(sum), std::bit_cast<std::uint64_t>(plain))
          << variant.name << " " << n;
    }
  }
}

template <typename Arguments>
Arguments common(Buffers& b, DType low) {
  Arguments a = {};
  a.w = b.w.data();
  a.g = b.g.data();
  a.low = low == DType::kNone ? nullptr : b.low.data();
  a.low_dtype = low;
  a.n = static_cast<std::int64_t>(b.w.size());
  a.inverse_scale = 0.125F;
  a.clip_factor = 0.37F;
  a.clip_value = 100.0F;
  a.weight_decay = 0.01F;
  return a;
}

TEST(OptimizerLoops, Sgd) {
  for (const DType low : {DType::kNone, DType::kFloat16, DType::kBFloat16}) {
    for (int kind = 0; kind < 3; ++kind) {
      const auto run = [&](const OptimizerLoops& loops) {
        Buffers b(1003);
        auto a = common<SgdArguments>(b, low);
        a.lr = 0.1F;
        a.momentum = 0.9F;
        a.fresh = 0.75F;
        a.velocity = kind == 0 ? nullptr : b.first.data();
        a.nesterov = kind == 2;
        loops.sgd(a);
        return b;
      };
      const Buffers plain = run(*variants()[0].loops);
      for (const auto& variant : variants())
        EXPECT_TRUE(run(*variant.loops) == plain) << variant.name;
    }
  }
}

TEST(OptimizerLoops, Adam) {
  for (const DType low : {DType::kNone, DType::kFloat16, DType::kBFloat16}) {
    for (const float eps : {1e-8F, 0.0F}) {
      const auto run = [&](const OptimizerLoops& loops) {
        Buffers b(1003);
        auto a = common<AdamArguments>(b, low);
        a.mean = b.first.data();
        a.mean_square = b.second.data();
        a.keep = 0.999F;
        a.keep_after = 0.99F;
        a.one_minus_beta1 = 0.1F;
        a.beta2 = 0.999F;
        a.one_minus_beta2 = 0.001F;
        a.step_size = 0.01F;
        a.root_correction = 0.3F;
        a.eps = eps;
        loops.adam(a);
        return b;
      };
      const Buffers plain = run(*variants()[0].loops);
      for (const auto& variant : variants())
        EXPECT_TRUE(run(*variant.loops) == plain) << variant.name;
    }
  }
}

TEST(OptimizerLoops, Adagrad) {
  for (const DType low : {DType::kNone, DType::kFloat16, DType::kBFloat16}) {
    for (const float eps : {1e-10F, 0.0F}) {
      const auto run = [&](const OptimizerLoops& loops) {
        Buffers b(1003);
        auto a = common<AdagradArguments>(b, low);
        a.sum = b.second.data();
        a.lr = 0.1F;
        a.eps = eps;
        loops.adagrad(a);
        return b;
      };
      const Buffers plain = run(*variants()[0].loops);
      for (const auto& variant : variants())
        EXPECT_TRUE(run(*variant.loops) == plain) << variant.name;
    }
  }
}

TEST(OptimizerLoops, LambAndItsNorms) {
  for (const DType low : {DType::kNone, DType::kFloat16, DType::kBFloat16}) {
    const auto run = [&](const OptimizerLoops& loops, LambNorms& norms) {
      Buffers b(1003);
      auto a = common<LambArguments>(b, low);
      a.mean = b.first.data();
      a.mean_square = b.second.data();
      a.one_minus_beta1 = 0.1F;
      a.beta2 = 0.999F;
      a.one_minus_beta2 = 0.001F;
      a.mean_correction = 1.7F;
      a.root_correction = 0.3F;
      a.eps = 1e-6F;
      const Floats before = b.w;
      norms = loops.lamb_moments(a);
      EXPECT_EQ(b.w, before);
      a.rate = 0.01F;
      loops.lamb_apply(a);
      return b;
    };
    LambNorms expected = {}, got = {};
    const Buffers plain = run(*variants()[0].loops, expected);
    for (const auto& variant : variants()) {
      EXPECT_TRUE(run(*variant.loops, got) == plain) << variant.name;
      EXPECT_EQ(got.weight, expected.weight);
      EXPECT_EQ(got.update, expected.update);
    }
  }
}

TEST(OptimizerLoops, Average) {
  const auto run = [&](const OptimizerLoops& loops) {
    Buffers b(1003);
    loops.average(b.first.data(), b.w.data(), 0.1F, 1003);
    return b;
  };
  const Buffers plain = run(*variants()[0].loops);
  for (const auto& variant : variants()) EXPECT_TRUE(run(*variant.loops) == plain) << variant.name;
}

// All 2^16 upper halves with lower halves around every rounding border of both formats.
TEST(OptimizerLoops, LowCopiesRoundAsHalfHDoes) {
  Floats values;
  for (std::uint32_t upper = 0; upper < 0x10000; ++upper) {
    for (const std::uint32_t lower : {0x0000U, 0x0001U, 0x0fffU, 0x1000U, 0x1001U, 0x7fffU, 0x8000U,
                                      0x8001U, 0xefffU, 0xf000U, 0xffffU}) {
      values.push_back(std::bit_cast<float>(upper << 16 | lower));
    }
  }
  std::vector<std::uint16_t> low(values.size());
  for (const auto& variant : variants()) {
    const auto n = static_cast<std::int64_t>(values.size());
    variant.loops->write_low(values.data(), low.data(), DType::kFloat16, n);
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(low[i], float_to_f16(values[i]))
          << variant.name << " " << std::hexfloat << values[i];
    }
    variant.loops->write_low(values.data(), low.data(), DType::kBFloat16, n);
    for (std::size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(low[i], float_to_bf16(values[i]))
          << variant.name << " " << std::hexfloat << values[i];
    }
  }
}

}  // namespace
}  // namespace mezzo::runtime
