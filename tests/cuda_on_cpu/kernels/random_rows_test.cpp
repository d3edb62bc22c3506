// Rows that draw random numbers: those of kernels/philox.h, others in every run of a kernel.
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "kernels/cuda/rows.h"
#include "kernels/philox.h"
#include "tests/cuda_on_cpu/kernels/device_run.h"
#include "tests/kernels/kernel_harness.h"

namespace mezzo::kernels {
namespace {

constexpr std::int64_t kSeed = -987654321;

double uniform_at(std::uint64_t run, std::int64_t element) {
  const UniformPair pair =
      philox_pair(static_cast<std::uint64_t>(kSeed), run, static_cast<std::uint64_t>(element / 2));
  return element % 2 == 0 ? pair.first : pair.second;
}

KernelRequest request_of(const char* op, std::vector<TensorDesc> inputs, const TensorDesc& y) {
  KernelRequest request;
  request.op = op;
  request.attributes.set("seed", kSeed);
  request.inputs = std::move(inputs);
  request.outputs = {y};
  return request;
}

// Result 0 of `runs` runs of one kernel.
std::vector<Numbers> runs_of(const KernelRequest& request, const std::vector<Numbers>& operands,
                             int runs) {
  const KernelRequest told = for_device(request);
  auto kernel = cuda::prepare_kernel(told);
  EXPECT_TRUE(kernel.ok()) << kernel.status().message();
  std::vector<Numbers> all;
  for (int run = 0; kernel.ok() && run < runs; ++run) {
    const auto results =
        run_on_device(**kernel, told, encode_operands(told, operands), static_cast<unsigned>(run));
    EXPECT_TRUE(results.ok()) << results.status().message();
    if (!results.ok()) break;
    Numbers numbers;
    for (std::int64_t i = 0; i < told.outputs[0].elems(); ++i) {
      numbers.push_back(decode(told.outputs[0].dtype, (*results)[0].data(), i));
    }
    all.push_back(std::move(numbers));
  }
  return all;
}

TEST(RandomRows, Uniform) {
  KernelRequest request = request_of("RandomUniform", {}, tensor(DType::kFloat64, {3, 257}));
  request.attributes.set("low", -2.0);
  request.attributes.set("high", 5.0);
  const auto runs = runs_of(request, {}, 3);
  ASSERT_EQ(runs.size(), 3U);
  for (std::uint64_t run = 0; run < 3; ++run) {
    for (std::int64_t i = 0; i < 3 * 257; ++i) {
      ASSERT_EQ(runs[run][static_cast<std::size_t>(i)], -2.0 + 7.0 * uniform_at(run, i));
    }
  }
}

TEST(RandomRows, Normal) {
  KernelRequest request = request_of("RandomNormal", {}, tensor(DType::kFloat32, {1001}));
  request.attributes.set("mean", 10.0);
  request.attributes.set("scale", 3.0);
  const auto runs = runs_of(request, {}, 2);
  ASSERT_EQ(runs.size(), 2U);
  for (std::uint64_t run = 0; run < 2; ++run) {
    for (std::int64_t i = 0; i < 1001; ++i) {
      const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform_at(run, i / 2 * 2)));
      const double angle = 2.0 * std::numbers::pi * uniform_at(run, i / 2 * 2 + 1);
      const double expected =
          10.0 + 3.0 * radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle));
      ASSERT_NEAR(runs[run][static_cast<std::size_t>(i)], expected, 4e-6);
    }
  }
}

TEST(RandomRows, Bernoulli) {
  Engine engine(1);
  const TensorDesc x = tensor(DType::kFloat32, {600});
  Numbers probabilities = draw_numbers(engine, x, 0.3);
  for (double& p : probabilities) p = static_cast<double>(static_cast<float>(std::fabs(p)));
  const auto runs =
      runs_of(request_of("Bernoulli", {x}, tensor(DType::kBool, {600})), {probabilities}, 2);
  ASSERT_EQ(runs.size(), 2U);
  for (std::uint64_t run = 0; run < 2; ++run) {
    for (std::int64_t i = 0; i < 600; ++i) {
      const auto place = static_cast<std::size_t>(i);
      ASSERT_EQ(runs[run][place], uniform_at(run, i) < probabilities[place] ? 1.0 : 0.0);
    }
  }
}

// Rows longer than a block, with a class that cannot be drawn.
TEST(RandomRows, Multinomial) {
  Engine engine(2);
  constexpr std::int64_t kRows = 3;
  constexpr std::int64_t kSamples = 400;
  for (const std::int64_t classes : {1, 5, 700}) {
    const TensorDesc x = tensor(DType::kFloat32, {kRows, classes});
    Numbers logs = draw_numbers(engine, x, 1.0);
    if (classes > 1) logs[1] = -INFINITY;
    KernelRequest request =
        request_of("Multinomial", {x}, tensor(DType::kInt64, {kRows, kSamples}));
    request.attributes.set("sample_size", kSamples);
    const auto runs = runs_of(request, {logs}, 2);
    ASSERT_EQ(runs.size(), 2U);
    for (std::int64_t i = 0; i < kRows * kSamples; ++i) {
      const std::int64_t row = i / kSamples;
      double sum = 0.0;
      for (std::int64_t c = 0; c < classes; ++c) {
        sum += std::exp(logs[static_cast<std::size_t>(row * classes + c)]);
      }
      // The class whose share of the sum holds the number drawn.
      double left = sum * uniform_at(1, i);
      std::int64_t c = 0;
      for (; c + 1 < classes; ++c) {
        left -= std::exp(logs[static_cast<std::size_t>(row * classes + c)]);
        if (left < 0) break;
      }
      ASSERT_EQ(runs[1][static_cast<std::size_t>(i)], static_cast<double>(c)) << i;
    }
  }
}

// Without a counter the kernel counts its runs: masks as if the counter were 0, 1, 2. And they
// follow from the place in row-major order, whatever the layout.
TEST(RandomRows, DropoutCountsItsRuns) {
  for (const Layout layout : {Layout::kRowMajor, Layout::kChannelsLast}) {
    const TensorDesc x = tensor(DType::kFloat32, {2, 5, 3, 7}, layout);
    KernelRequest request = request_of("Dropout", {x}, x);
    request.attributes.set("ratio", 0.25);
    const Numbers ones(static_cast<std::size_t>(x.elems()), 1.0);
    const auto runs = runs_of(request, {ones}, 3);
    ASSERT_EQ(runs.size(), 3U);
    for (std::uint64_t run = 0; run < 3; ++run) {
      for (std::int64_t place = 0; place < x.elems(); ++place) {
        const std::int64_t n = place / 105, c = place / 21 % 5, pixel = place % 21;
        const std::int64_t at = layout == Layout::kRowMajor ? place : (n * 21 + pixel) * 5 + c;
        const PhiloxBlock words = dropout_block(static_cast<std::uint64_t>(kSeed), run,
                                                static_cast<std::uint64_t>(place / 4));
        const bool keep = words[static_cast<std::size_t>(place % 4)] >= dropout_threshold(0.25);
        ASSERT_EQ(runs[run][static_cast<std::size_t>(at)],
                  keep ? static_cast<double>(1.0F / 0.75F) : 0.0);
      }
    }
  }
}

}  // namespace
}  // namespace mezzo::kernels
