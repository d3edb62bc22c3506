// Which way the cuBLASLt rows take for which request, and what they do where the library cannot.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "tests/cuda_on_cpu/blaslt_products.h"
#include "tests/support/status_test.h"

namespace mezzo::kernels::cuda {
namespace {

using test::IsOk;

std::string way_of(const KernelRequest& request) {
  Context context = device_context();
  auto kernel = prepared(request, context);
  return kernel.ok() ? std::string((*kernel)->implementation()) : kernel.status().message();
}

KernelRequest gemm(DType operands, TensorDesc c, DType y, double beta = 1.0) {
  KernelRequest request =
      product("Gemm", {operands, {48, 64}}, {operands, {64, 32}}, {y, {48, 32}});
  request.inputs.push_back(std::move(c));
  request.attributes.set("beta", beta);
  return request;
}

KernelRequest activation(const char* name, DType y, Dims bias, DType pre,
                         std::int64_t columns = 32) {
  KernelRequest request = product("MatMulActivation", {DType::kBFloat16, {48, 64}},
                                  {DType::kBFloat16, {64, columns}}, {y, {48, columns}});
  request.attributes.set("activation", std::string(name));
  request.inputs.push_back(bias.empty() ? TensorDesc() : TensorDesc{y, std::move(bias)});
  if (pre != DType::kNone) request.outputs.push_back({pre, {48, columns}});
  return request;
}

constexpr DType f32 = DType::kFloat32, bf16 = DType::kBFloat16, f16 = DType::kFloat16,
                f64 = DType::kFloat64, i32 = DType::kInt32;

TEST(BlasLtRows, TakeTheLibrarysTypesDirectly) {
  for (const auto& [a, y] : std::vector<std::pair<DType, DType>>{
           {f32, f32}, {bf16, bf16}, {f16, f16}, {bf16, f32}, {f16, f32}, {f64, f64}}) {
    EXPECT_EQ(way_of(product("MatMul", {a, {3, 5}}, {a, {5, 7}}, {y, {3, 7}})), "cublaslt");
  }
  EXPECT_EQ(way_of(product("MatMul", {bf16, {3, 5}}, {bf16, {5, 7}}, {f16, {3, 7}})),
            "cublaslt:finish");
  EXPECT_EQ(way_of(product("MatMul", {bf16, {3, 5}}, {f32, {5, 7}}, {f32, {3, 7}})), "cuda:matmul");
  EXPECT_EQ(way_of(product("MatMul", {f32, {3, 5}}, {f32, {5, 7}}, {f64, {3, 7}})), "cuda:matmul");
  EXPECT_EQ(way_of(product("MatMul", {i32, {3, 5}}, {i32, {5, 7}}, {i32, {3, 7}})), "cuda:matmul");
}

TEST(BlasLtRows, AddWhatTheLibraryAdds) {
  EXPECT_EQ(way_of(gemm(bf16, {bf16, {32}}, bf16)), "cublaslt");           // bias
  EXPECT_EQ(way_of(gemm(bf16, {bf16, {48, 32}}, bf16, 0.5)), "cublaslt");  // C
  EXPECT_EQ(way_of(gemm(bf16, {f32, {32}}, bf16)), "cublaslt:finish");     // would be rounded twice
  EXPECT_EQ(way_of(gemm(bf16, {bf16, {48, 1}}, f32)), "cublaslt:spread");  // a column
  EXPECT_EQ(way_of(gemm(f32, {f32, {32}}, f32, 0.5)), "cublaslt:spread");  // times beta
  EXPECT_EQ(way_of(gemm(f64, {f64, {}}, f64)), "cublaslt:spread");         // a number
  EXPECT_EQ(way_of(gemm(bf16, {f32, {32}}, bf16, 0.0)), "cublaslt");       // not read
}

TEST(BlasLtRows, ApplyWhatTheLibraryApplies) {
  EXPECT_EQ(way_of(activation("relu", bf16, {32}, DType::kNone)), "cublaslt");
  EXPECT_EQ(way_of(activation("gelu_tanh", bf16, {32}, bf16)), "cublaslt");
  EXPECT_EQ(way_of(activation("gelu_tanh", bf16, {}, bf16)), "cublaslt");
  EXPECT_EQ(way_of(activation("gelu_tanh", bf16, {32}, f32)), "cublaslt:finish");
  EXPECT_EQ(way_of(activation("gelu_tanh", bf16, {30}, bf16, 30)), "cublaslt:finish");
  EXPECT_EQ(way_of(activation("relu", bf16, {32}, bf16)), "cublaslt:finish");
}

TEST(BlasLtRows, BatchesAreOneCallOrFew) {
  const auto batched = [](Dims a, Dims b, Dims y) {
    return way_of(
        product("MatMul", {bf16, std::move(a)}, {bf16, std::move(b)}, {bf16, std::move(y)}));
  };
  EXPECT_EQ(batched({2, 3, 4, 8}, {2, 3, 8, 5}, {2, 3, 4, 5}), "cublaslt");
  EXPECT_EQ(batched({2, 1, 4, 8}, {1, 3, 8, 5}, {2, 3, 4, 5}), "cublaslt");
  EXPECT_EQ(batched({65, 1, 4, 8}, {1, 66, 8, 5}, {65, 66, 4, 5}), "cuda:matmul");
}

// Operands that do not lie as the algorithm wants them.
TEST(BlasLtRows, ViewsThatLieAskewAreMultiplied) {
  Context context = device_context();
  const KernelRequest request = product("MatMul", {bf16, {2, 32}}, {bf16, {32, 3}}, {f32, {2, 3}});
  auto kernel = prepared(request, context);
  ASSERT_THAT(kernel, IsOk());
  ASSERT_EQ((*kernel)->implementation(), "cublaslt");
  for (const std::size_t shift : {0U, 2U}) {
    DeviceBytes a(64 * 2 + shift), b(96 * 2), y(6 * 4), workspace((*kernel)->workspace_bytes());
    const std::uint16_t one = 0x3f80, two = 0x4000;
    for (std::size_t i = 0; i < 64; ++i) std::memcpy(a.data() + shift + 2 * i, &one, 2);
    for (std::size_t i = 0; i < 96; ++i) std::memcpy(b.data() + 2 * i, &two, 2);
    const void* inputs[] = {a.data() + shift, b.data()};
    void* outputs[] = {y.data()};
    ASSERT_THAT((*kernel)->run({inputs, outputs, workspace.data()}), IsOk());
    ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    for (std::size_t i = 0; i < 6; ++i) {
      float value;
      std::memcpy(&value, y.data() + 4 * i, 4);
      EXPECT_EQ(value, 64.0F) << "shift " << shift;
    }
  }
}

// 1 + 2^-12 has more digits than TF32.
float squared(bool allow_tf32, float x) {
  Context context = device_context();
  context.allow_tf32 = allow_tf32;
  auto kernel = prepared(product("MatMul", {f32, {1, 1}}, {f32, {1, 1}}, {f32, {1, 1}}), context);
  EXPECT_THAT(kernel, IsOk());
  DeviceBytes a(4), b(4), y(4);
  std::memcpy(a.data(), &x, 4);
  std::memcpy(b.data(), &x, 4);
  const void* inputs[] = {a.data(), b.data()};
  void* outputs[] = {y.data()};
  EXPECT_THAT((*kernel)->run({inputs, outputs}), IsOk());
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  float result;
  std::memcpy(&result, y.data(), 4);
  return result;
}

TEST(BlasLtRows, RoundOperandsOnlyWhereAskedTo) {
  const float x = 1.0F + std::ldexp(1.0F, -12);
  EXPECT_EQ(squared(false, x), x * x);
  EXPECT_EQ(squared(true, x), 1.0F);
}

}  // namespace
}  // namespace mezzo::kernels::cuda
