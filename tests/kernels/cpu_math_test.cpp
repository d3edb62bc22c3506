// The vectorised number formats and elementary functions, against half.h and double.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "compiler/support/half.h"
#include "kernels/cpu/isa.h"

namespace mezzo::kernels::cpu {
namespace {

class CpuMath : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!select_isa(GetParam())) GTEST_SKIP() << "this processor has no " << GetParam();
  }
  void TearDown() override { select_isa(""); }
};

float from_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }

// Every kind of float32: all exponents, both signs, with steps that reach all mantissa bits.
std::vector<float> sample_floats() {
  std::vector<float> x;
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 2999) {
    const float number = from_bits(static_cast<std::uint32_t>(bits));
    x.push_back(std::isnan(number) ? NAN : number);  // pow of a signalling NaN is another matter
  }
  // The middle of the range, where functions bend, more densely.
  for (int i = -200000; i <= 200000; ++i) x.push_back(static_cast<float>(i) * 6.1e-4F);
  for (const std::uint32_t bits : {0U, 0x80000000U, 0x7f800000U, 0xff800000U, 0x7fc00000U, 1U,
                                   0x80000001U, 0x007fffffU, 0x00800000U, 0x7f7fffffU}) {
    x.push_back(from_bits(bits));
  }
  return x;
}

TEST_P(CpuMath, UnpacksLowTypesExactly) {
  std::vector<std::uint16_t> all(65536);
  for (std::uint32_t i = 0; i < 65536; ++i) all[i] = static_cast<std::uint16_t>(i);
  std::vector<float> to(65536);
  selected_isa()->unpack(DType::kFloat16, all.data(), to.data(), 65536);
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const float expected = f16_to_float(all[i]);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(to[i])) << i;
    } else {
      ASSERT_EQ(std::bit_cast<std::uint32_t>(to[i]), std::bit_cast<std::uint32_t>(expected)) << i;
    }
  }
  selected_isa()->unpack(DType::kBFloat16, all.data(), to.data(), 65536);
  for (std::uint32_t i = 0; i < 65536; ++i) {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(to[i]), i << 16);
  }
}

TEST_P(CpuMath, PacksLikeHalfHeader) {
  std::vector<float> x = sample_floats();
  // Ties and their neighbours, for every float16 and bfloat16.
  for (std::uint32_t i = 0; i < 65535; ++i) {
    const float half = f16_to_float(static_cast<std::uint16_t>(i));
    const float next = f16_to_float(static_cast<std::uint16_t>(i + 1));
    const float tie = half + (next - half) / 2.0F;
    const float tie_bf16 = from_bits((i << 16) | 0x8000U);
    for (const float middle : {tie, tie_bf16}) {
      x.push_back(middle);
      x.push_back(std::nextafter(middle, INFINITY));
      x.push_back(std::nextafter(middle, -INFINITY));
    }
  }
  const auto n = static_cast<std::int64_t>(x.size());
  std::vector<std::uint16_t> to(x.size());
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    selected_isa()->pack(dtype, x.data(), to.data(), n);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::uint16_t expected =
          dtype == DType::kFloat16 ? float_to_f16(x[i]) : float_to_bf16(x[i]);
      if (std::isnan(x[i]) && dtype == DType::kFloat16) {
        ASSERT_TRUE(std::isnan(f16_to_float(to[i])));
      } else {
        ASSERT_EQ(to[i], expected) << x[i] << " as " << dtype_name(dtype);
      }
    }
  }
}

TEST_P(CpuMath, LeavesNeighboursAloneWhateverTheLength) {
  for (std::int64_t n = 0; n <= 40; ++n) {
    std::vector<float> x(64, 1.5F);
    for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16, DType::kBool}) {
      const int width = dtype_bits(dtype) / 8;
      std::vector<unsigned char> packed(64 * 4, 0xee);
      selected_isa()->pack(dtype, x.data(), packed.data(), n);
      for (std::int64_t i = n * width; i < 64; ++i)
        ASSERT_EQ(packed[static_cast<std::size_t>(i)], 0xee);
      std::vector<float> back(64, -7.0F);
      selected_isa()->unpack(dtype, packed.data(), back.data(), n);
      for (std::int64_t i = 0; i < 64; ++i) {
        const float expected = dtype == DType::kBool ? 1.0F : 1.5F;
        ASSERT_EQ(back[static_cast<std::size_t>(i)], i < n ? expected : -7.0F);
      }
    }
  }
}

// Distance in units of the last place of float32 at `expected`.
double ulps(float got, double expected) {
  const auto rounded = static_cast<float>(expected);
  if (std::isnan(expected)) return std::isnan(got) ? 0.0 : INFINITY;
  if (std::isinf(rounded) || std::isinf(got)) {
    // Next to the end of the range either side of it is within the bound.
    if (got == rounded) return 0.0;
    const double end = 3.4028234663852886e38;
    return std::fabs(expected) > end * (1.0 - 2e-7) && std::fabs(got) >= end * 0.9999998 ? 1.0
                                                                                         : INFINITY;
  }
  int exponent = 0;
  std::frexp(expected, &exponent);
  const double unit = std::ldexp(1.0, std::max(exponent - 24, -149));
  return std::fabs(static_cast<double>(got) - expected) / unit;
}

struct MathCase {
  const char* name;
  ElementwiseOp op;
  double (*exact)(double);
};

constexpr MathCase kCases[] = {
    {"exp", ElementwiseOp::kExp, [](double x) { return std::exp(x); }},
    {"log", ElementwiseOp::kLog, [](double x) { return std::log(x); }},
    {"tanh", ElementwiseOp::kTanh, [](double x) { return std::tanh(x); }},
    {"erf", ElementwiseOp::kErf, [](double x) { return std::erf(x); }},
    {"sigmoid", ElementwiseOp::kSigmoid, [](double x) { return 1.0 / (1.0 + std::exp(-x)); }},
    {"softplus", ElementwiseOp::kSoftplus,
     [](double x) {
       return std::isnan(x) ? x : std::fmax(x, 0.0) + std::log1p(std::exp(-std::fabs(x)));
     }},
    {"elu", ElementwiseOp::kElu, [](double x) { return x < 0.0 ? std::expm1(x) : x; }},
    {"sin", ElementwiseOp::kSin, [](double x) { return std::sin(x); }},
    {"cos", ElementwiseOp::kCos, [](double x) { return std::cos(x); }},
    {"sqrt", ElementwiseOp::kSqrt, [](double x) { return std::sqrt(x); }},
    {"reciprocal", ElementwiseOp::kReciprocal, [](double x) { return 1.0 / x; }},
};

TEST_P(CpuMath, FunctionsStayBelowTwoUnitsInTheLastPlace) {
  const std::vector<float> x = sample_floats();
  const auto n = static_cast<std::int64_t>(x.size());
  std::vector<float> y(x.size());
  const float parameters[2] = {1.0F, 0.0F};
  for (const MathCase& function : kCases) {
    const float* operand = x.data();
    selected_isa()->elementwise(function.op)(&operand, y.data(), n, parameters);
    double worst = 0.0;
    float where = 0.0F;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double error = ulps(y[i], function.exact(static_cast<double>(x[i])));
      if (error > worst) {
        worst = error;
        where = x[i];
      }
    }
    EXPECT_LT(worst, 2.0) << function.name << " at " << where;
    RecordProperty(function.name, std::to_string(worst));
  }
}

TEST_P(CpuMath, PowersStayBelowTwoUnitsInTheLastPlace) {
  const std::vector<float> x = sample_floats();
  const auto n = static_cast<std::int64_t>(x.size());
  std::vector<float> y(x.size());
  for (const float exponent : {2.0F, 3.0F, 1.0F, 0.5F, -1.0F, -2.0F, 0.0F, 1.7F, -0.5F, INFINITY}) {
    const std::vector<float> e(x.size(), exponent);
    const float* operands[2] = {x.data(), e.data()};
    selected_isa()->elementwise(ElementwiseOp::kPow)(operands, y.data(), n, nullptr);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double exact = std::pow(static_cast<double>(x[i]), static_cast<double>(exponent));
      ASSERT_LT(ulps(y[i], exact), 2.0) << x[i] << " to the power " << exponent;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, CpuMath, testing::Values("avx2", "avx512"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace mezzo::kernels::cpu
