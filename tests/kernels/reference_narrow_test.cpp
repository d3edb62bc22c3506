// Casts to and from 8-bit floats and types that share bytes, by the bits of ONNX's own cases, and
// every code there and back.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/kernel.h"
#include "tests/support/status_test.h"

namespace mezzo::kernels {
namespace {

using mezzo::test::IsOk;
using Bytes = std::vector<std::uint8_t>;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TensorDesc list(DType dtype, std::size_t elems) {
  return {dtype, {static_cast<std::int64_t>(elems)}, Layout::kRowMajor};
}

void run_cast(const KernelRequest& request, const void* from, void* to) {
  const auto kernel = prepare_kernel(request, Backend::kCpu);
  ASSERT_THAT(kernel, IsOk());
  const void* in[] = {from};
  void* out[] = {to};
  ASSERT_THAT((*kernel)->run({in, out, nullptr}), IsOk());
}

Bytes narrowed(const std::vector<float>& x, DType to, std::int64_t saturate = 1,
               const std::string& mode = "up") {
  KernelRequest request;
  request.op = "Cast";
  request.attributes.set("saturate", saturate);
  request.attributes.set("round_mode", mode);
  request.inputs = {list(DType::kFloat32, x.size())};
  request.outputs = {list(to, x.size())};
  Bytes bytes(request.outputs[0].bytes(), 0xcc);
  run_cast(request, x.data(), bytes.data());
  return bytes;
}

std::vector<float> widened(const Bytes& bytes, DType from, std::size_t elems) {
  KernelRequest request;
  request.op = "Cast";
  request.inputs = {list(from, elems)};
  request.outputs = {list(DType::kFloat32, elems)};
  std::vector<float> x(elems);
  run_cast(request, bytes.data(), x.data());
  return x;
}

// What ONNX's backend cases cast to 8-bit floats.
const std::vector<float> kSample = {0.47892547F, 0.48033667F, 0.49968487F, 0.81910545F, 0.47031248F,
                                    0.7229038F,  1e6F,        1e-7F,       kNan,        kInf,
                                    kInf,        -kInf,       -1e-7F,      1e-7F,       -1e6F};

TEST(NarrowCast, HasTheBitsOfOnnxsCases) {
  EXPECT_EQ(narrowed(kSample, DType::kFloat8E4M3FN),
            (Bytes{0x2f, 0x2f, 0x30, 0x35, 0x2f, 0x34, 0x7e, 0x00, 0x7f, 0x7e, 0x7e, 0xfe, 0x80,
                   0x00, 0xfe}));
  EXPECT_EQ(narrowed(kSample, DType::kFloat8E5M2, 0),
            (Bytes{0x38, 0x38, 0x38, 0x3b, 0x38, 0x3a, 0x7c, 0x00, 0x7e, 0x7c, 0x7c, 0xfc, 0x80,
                   0x00, 0xfc}));
  EXPECT_EQ(narrowed(kSample, DType::kFloat8E5M2FNUZ),
            (Bytes{0x3c, 0x3c, 0x3c, 0x3f, 0x3c, 0x3e, 0x7f, 0x00, 0x80, 0x7f, 0x7f, 0xff, 0x00,
                   0x00, 0xff}));
  EXPECT_EQ(narrowed({0.48F, 0.25F, 1.05F, -3.5F, -8.0F, 9.0F, 1e6F, 1e-7F, kNan, kInf, kInf, -kInf,
                      -4.0F, 0.01F, -0.0F},
                     DType::kFloat4E2M1),
            (Bytes{0x01, 0xe2, 0x7f, 0x07, 0x78, 0xf7, 0x0e, 0x08}));
  EXPECT_EQ(narrowed({0.0F, 0.124F, 0.25F, 0.5F, 1.1F, 2.0F, 4.0F, 8.0F}, DType::kFloat8E8M0),
            (Bytes{0x00, 0x7c, 0x7d, 0x7e, 0x80, 0x80, 0x81, 0x82}));
}

TEST(NarrowCast, OverflowsWithoutSaturation) {
  EXPECT_EQ(narrowed({1e6F, -kInf, 464.0F, 465.0F}, DType::kFloat8E4M3FN, 0),
            (Bytes{0x7f, 0xff, 0x7e, 0x7f}));
  EXPECT_EQ(narrowed({1e6F, -1e6F}, DType::kFloat8E4M3FNUZ, 0), (Bytes{0x80, 0x80}));
  EXPECT_EQ(narrowed({1.5F, 1.4F, 3.0F}, DType::kFloat8E8M0, 1, "nearest"),
            (Bytes{0x80, 0x7f, 0x81}));
  EXPECT_EQ(narrowed({1.9F, kInf}, DType::kFloat8E8M0, 0, "down"), (Bytes{0x7f, 0xff}));
}

TEST(NarrowCast, IntegersShareBytes) {
  const std::vector<float> x = {-9, -8, -7, -1, 0, 7, 8};
  EXPECT_EQ(narrowed(x, DType::kInt4), (Bytes{0x87, 0xf9, 0x70, 0x08}));
  EXPECT_EQ(narrowed({-3, -2, -1, 0, 1, 2, 3}, DType::kUInt2), (Bytes{0x39, 0x39}));
  EXPECT_EQ(widened({0x87, 0xf9, 0x70}, DType::kInt4, 5), (std::vector<float>{7, -8, -7, -1, 0}));
  EXPECT_EQ(widened({0x87, 0xf9}, DType::kUInt4, 4), (std::vector<float>{7, 8, 9, 15}));
  EXPECT_EQ(widened({0x1b}, DType::kInt2, 4), (std::vector<float>{-1, -2, 1, 0}));
}

TEST(NarrowCast, EveryCodeComesBack) {
  for (const DType dtype : {DType::kFloat8E4M3FN, DType::kFloat8E4M3FNUZ, DType::kFloat8E5M2,
                            DType::kFloat8E5M2FNUZ, DType::kFloat8E8M0}) {
    Bytes codes;
    for (int code = 0; code < 256; ++code) codes.push_back(static_cast<std::uint8_t>(code));
    const std::vector<float> x = widened(codes, dtype, 256);
    const Bytes again = narrowed(x, dtype, 0);
    for (std::size_t code = 0; code < 256; ++code) {
      if (std::isnan(x[code])) continue;
      EXPECT_EQ(again[code], code) << dtype_name(dtype);
    }
  }
}

TEST(NarrowDequantize, TakesBlocksOfFourBits) {
  KernelRequest request;
  request.op = "DequantizeLinear";
  request.attributes.set("axis", std::int64_t{1});
  request.attributes.set("block_size", std::int64_t{2});
  request.inputs = {{DType::kInt4, {2, 4}, Layout::kRowMajor},
                    {DType::kFloat32, {2, 2}, Layout::kRowMajor},
                    {DType::kInt4, {2, 2}, Layout::kRowMajor}};
  request.outputs = {{DType::kFloat32, {2, 4}, Layout::kRowMajor}};
  const auto kernel = prepare_kernel(request, Backend::kCpu);
  ASSERT_THAT(kernel, IsOk());
  const Bytes x = {0x21, 0x43, 0x98, 0xfe};  // 1 2 3 4, -8 -7 -2 -1
  const std::vector<float> scale = {1, 2, 0.5, 4};
  const Bytes zero = {0x10, 0xf0};  // 0 1, 0 -1
  std::vector<float> y(8);
  const void* in[] = {x.data(), scale.data(), zero.data()};
  void* out[] = {y.data()};
  ASSERT_THAT((*kernel)->run({in, out, nullptr}), IsOk());
  EXPECT_EQ(y, (std::vector<float>{1, 2, 4, 6, -4, -3.5, -4, 0}));
}

}  // namespace
}  // namespace mezzo::kernels
