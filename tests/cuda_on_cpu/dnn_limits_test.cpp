// What the cuDNN rows leave to others because of the library's version.
#include <gtest/gtest.h>

#include <cstdlib>

#include "kernels/cuda/context.h"
#include "kernels/cuda/dnn_rows.h"

namespace mezzo::kernels::cuda {
namespace {

// The gradient of attention to `keys` keys, one head of 8 numbers.
KernelRequest attention_grad(std::int64_t keys) {
  const TensorDesc heads{DType::kBFloat16, {1, 1, keys, 8}}, absent;
  KernelRequest request;
  request.op = "ScaledDotProductAttentionGrad";
  request.inputs = {heads, heads, heads, heads, absent, heads, {DType::kFloat32, {1, 1, keys}}};
  request.outputs = {heads, heads, heads};
  return request;
}

StatusCode code_with(const char* version, std::int64_t keys) {
  setenv("CUDA_ON_CPU_CUDNN_VERSION", version, 1);
  Context context;
  context.major = 9;
  KernelRequest request = attention_grad(keys);
  request.device = &context;
  const auto kernel = dnn::prepare_attention_grad(request);
  unsetenv("CUDA_ON_CPU_CUDNN_VERSION");
  return kernel.ok() ? StatusCode::kOk : kernel.status().code();
}

// The frontend would copy lengths from the host in every call, see dnn_limits.cpp.
TEST(DnnLimits, GradientOfAttentionWithKeysThatAnOldLibraryMasks) {
  EXPECT_EQ(code_with("91500", 16), StatusCode::kUnimplemented);
  EXPECT_EQ(code_with("91500", 128), StatusCode::kOk);
  EXPECT_EQ(code_with("91501", 16), StatusCode::kOk);
}

}  // namespace
}  // namespace mezzo::kernels::cuda
