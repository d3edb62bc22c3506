// Every case of reference_cases.txt: known results in double, one rounding in the smaller dtypes,
// the same numbers in channels-last layout and in place.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "compiler/support/half.h"
#include "kernels/reference/rows.h"
#include "tests/kernels/reference_harness.h"
#include "tests/support/status_test.h"

namespace mezzo::kernels::test {
namespace {

using mezzo::test::IsOk;

// The cases were printed with 14 digits and computed in another order of summation.
bool agrees(double got, double expected) {
  if (std::isnan(expected)) return std::isnan(got);
  if (std::isinf(expected)) return got == expected;
  return std::fabs(got - expected) <= 1e-11 * std::max(1.0, std::fabs(expected));
}

void expect_equal(const Tensor& got, const Tensor& expected) {
  if (!expected.desc().present()) return;  // a result that nobody asked for
  ASSERT_EQ(got.desc().dims, expected.desc().dims);
  for (std::int64_t i = 0; i < expected.elems(); ++i) {
    if (is_floating(expected.desc().dtype)) {
      EXPECT_TRUE(agrees(got.at(i), expected.at(i)))
          << "element " << i << ": got " << got.at(i) << ", expected " << expected.at(i);
    } else {
      EXPECT_EQ(got.integer_at(i), expected.integer_at(i)) << "element " << i;
    }
  }
}

void check_known_results(const Case& c) {
  const auto got = run(c.op, c.attributes, c.inputs, c.result_descs());
  ASSERT_THAT(got, IsOk());
  for (std::size_t i = 0; i < c.results.size(); ++i) {
    SCOPED_TRACE("result " + std::to_string(i));
    expect_equal((*got)[i], c.results[i]);
  }
}

// True if no float16 or bfloat16 lies nearer to `exact` than `got`, the even one of two that lie
// equally near.
bool is_nearest_low(double got, double exact, DType dtype) {
  if (std::isnan(exact)) return std::isnan(got);
  const bool half = dtype == DType::kFloat16;
  const auto decode = [&](std::uint16_t bits) -> double {
    return half ? f16_to_float(bits) : bf16_to_float(bits);
  };
  const FloatFacts facts = float_facts(dtype);
  // Half an epsilon step beyond the largest value starts what rounds to infinity.
  const double limit = facts.max * (1.0 + facts.epsilon / 4.0 / (1.0 - facts.epsilon / 2.0));
  if (std::isinf(got)) return std::fabs(exact) >= limit && (got > 0) == (exact > 0);
  const std::uint16_t bits =
      half ? float_to_f16(static_cast<float>(got)) : float_to_bf16(static_cast<float>(got));
  const double error = std::fabs(got - exact);
  for (const int step : {-1, 1}) {
    const std::uint16_t magnitude = bits & 0x7fffU;
    if (magnitude == 0 && step < 0) continue;
    const auto other = static_cast<std::uint16_t>(bits + step);
    const double other_error = std::fabs(decode(other) - exact);
    if (other_error < error || (other_error == error && (bits & 1U) != 0)) return false;
  }
  return true;
}

Tensor narrowed(const Tensor& tensor, DType dtype) {
  return tensor.desc().dtype == DType::kFloat64 ? tensor.as(dtype) : tensor;
}

// Operands rounded to the dtype, computed in double: the kernel of the dtype must give that result
// rounded once.
void check_rounding(const Case& c) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat32}) {
    std::vector<Tensor> small, wide;
    for (const Tensor& input : c.inputs) {
      small.push_back(narrowed(input, dtype));
      wide.push_back(small.back().desc().dtype == dtype ? small.back().as(DType::kFloat64)
                                                        : small.back());
    }
    std::vector<TensorDesc> small_descs = c.result_descs();
    std::vector<TensorDesc> wide_descs = small_descs;
    for (TensorDesc& desc : small_descs) {
      if (desc.dtype == DType::kFloat64) desc.dtype = dtype;
    }
    for (std::size_t i = 0; i < wide_descs.size(); ++i) {
      if (small_descs[i].dtype == dtype) wide_descs[i].dtype = DType::kFloat64;
    }
    const auto got = run(c.op, c.attributes, small, small_descs);
    ASSERT_THAT(got, IsOk());
    const auto exact = run(c.op, c.attributes, wide, wide_descs);
    ASSERT_THAT(exact, IsOk());
    for (std::size_t r = 0; r < got->size(); ++r) {
      for (std::int64_t i = 0; i < (*got)[r].elems(); ++i) {
        const double low = (*got)[r].at(i);
        const double full = (*exact)[r].at(i);
        if (small_descs[r].dtype != dtype) {
          EXPECT_EQ(low, full);
        } else if (dtype == DType::kFloat32) {
          EXPECT_TRUE(low == static_cast<float>(full) || (std::isnan(low) && std::isnan(full)));
        } else {
          EXPECT_TRUE(is_nearest_low(low, full, dtype)) << low << " for " << full;
        }
      }
    }
  }
}

// Ops that the op list lets run on channels-last activations, with the number of operands that
// are activations.
bool takes_channels_last(const Case& c, std::size_t input) {
  static const std::vector<std::pair<std::string, std::size_t>> kLeading = {
      {"Conv", 1},
      {"ConvGradInput", 1},
      {"ConvGradWeight", 2},
      {"ConvGradBias", 1},
      {"ConvTranspose", 1},
      {"BatchNormalization", 1},
      {"MaxPool", 1},
      {"BatchNormalizationGrad", 2},
      {"MaxPoolGrad", 2},
      {"AveragePool", 1},
      {"GlobalAveragePool", 1},
      {"GlobalAveragePoolGrad", 1},
      {"AveragePoolGrad", 1},
      {"Resize", 1},
      {"Pad", 1}};
  for (const auto& [op, count] : kLeading) {
    if (op == c.op) return input < count;
  }
  return false;
}

void check_channels_last(const Case& c) {
  std::vector<Tensor> inputs = c.inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (takes_channels_last(c, i) && inputs[i].desc().dims.size() >= 3) {
      inputs[i] = inputs[i].as(Layout::kChannelsLast);
    }
  }
  std::vector<TensorDesc> descs = c.result_descs();
  for (TensorDesc& desc : descs) {
    if (desc.dims.size() >= 3 && c.op != "ConvGradWeight") desc.layout = Layout::kChannelsLast;
  }
  const auto got = run(c.op, c.attributes, inputs, descs);
  ASSERT_THAT(got, IsOk());
  for (std::size_t i = 0; i < c.results.size(); ++i) expect_equal((*got)[i], c.results[i]);
}

// Output 0 over every input the op list allows, where dims and dtype are the same.
// Returns how many operands that were.
int check_in_place(const Case& c) {
  int tried = 0;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    if (!may_run_in_place(c.op, static_cast<int>(i), 0) || !c.inputs[i].desc().present() ||
        c.inputs[i].desc().dims != c.results[0].desc().dims ||
        c.inputs[i].desc().dtype != c.results[0].desc().dtype) {
      continue;
    }
    ++tried;
    const auto kernel = prepare(make_request(c.op, c.attributes, c.inputs, c.result_descs()));
    EXPECT_THAT(kernel, IsOk());
    if (!kernel.ok()) continue;
    std::vector<Tensor> inputs = c.inputs;
    std::vector<const void*> in;
    for (const Tensor& input : inputs) in.push_back(input.data());
    const std::vector<void*> out = {inputs[i].data()};
    std::vector<std::byte> workspace((*kernel)->workspace_bytes());
    EXPECT_THAT((*kernel)->run({in, out, workspace.data()}), IsOk());
    expect_equal(inputs[i], c.results[0]);
  }
  return tried;
}

TEST(ReferenceValues, AreKnown) {
  for (const Case& c : all_cases()) {
    SCOPED_TRACE(c.title);
    check_known_results(c);
  }
}

TEST(ReferenceValues, AreRoundedOnce) {
  for (const Case& c : all_cases()) {
    if (c.title == "Range: reals") continue;  // its rounded limit asks for another count
    SCOPED_TRACE(c.title);
    check_rounding(c);
  }
}

TEST(ReferenceValues, AreTheSameInChannelsLast) {
  int tried = 0;
  for (const Case& c : all_cases()) {
    if (!takes_channels_last(c, 0)) continue;
    SCOPED_TRACE(c.title);
    check_channels_last(c);
    ++tried;
  }
  EXPECT_GT(tried, 30);
}

TEST(ReferenceValues, AreTheSameInPlace) {
  int tried = 0;
  for (const Case& c : all_cases()) {
    SCOPED_TRACE(c.title);
    tried += check_in_place(c);
  }
  EXPECT_GT(tried, 60);
}

// The vectorised rows give the same numbers where they take the case's dtypes.
TEST(CpuValues, AreKnown) {
  int tried = 0;
  for (const Case& c : all_cases()) {
    SCOPED_TRACE(c.title);
    const auto kernel =
        prepare_kernel(make_request(c.op, c.attributes, c.inputs, c.result_descs()), Backend::kCpu);
    ASSERT_THAT(kernel, IsOk());
    if (!(*kernel)->implementation().starts_with("cpu:")) continue;
    std::vector<Tensor> results;
    for (const TensorDesc& desc : c.result_descs()) results.emplace_back(desc);
    ASSERT_THAT(run_prepared(**kernel, c.inputs, results), IsOk());
    for (std::size_t i = 0; i < c.results.size(); ++i) expect_equal(results[i], c.results[i]);
    ++tried;
  }
  if (tried == 0) GTEST_SKIP() << "no vectorised kernels run on this processor";
  EXPECT_GT(tried, 200);
}

std::vector<std::string> sorted(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

TEST(ReferenceRows, CoverTheOpListAndNothingElse) {
  std::vector<std::string> rows;
  for (const KernelEntry& row : reference_rows()) rows.emplace_back(row.op);
  EXPECT_EQ(sorted(rows).size(), rows.size()) << "an op has two reference rows";
  EXPECT_EQ(sorted(rows), sorted(listed_ops()));
}

TEST(ReferenceRows, HaveACaseWithKnownResults) {
  std::vector<std::string> ops, rows;
  for (const Case& c : all_cases()) ops.push_back(c.op);
  for (const KernelEntry& row : reference_rows()) rows.emplace_back(row.op);
  EXPECT_EQ(sorted(ops), sorted(rows));
}

}  // namespace
}  // namespace mezzo::kernels::test
