// The stand-in for libcublasLt: what it refuses. What it computes is tested with the rows.
#include <gtest/gtest.h>

#include <cublasLt.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/cuda_on_cpu/blaslt_products.h"

namespace mezzo::kernels::cuda {
namespace {

// D[8, 4] = A[8, 64] B[64, 4] in bfloat16, and one thing changed about it.
struct Call {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cudaDataType_t scale = CUDA_R_32F, a = CUDA_R_16BF, b = CUDA_R_16BF, c = CUDA_R_16BF,
                 d = CUDA_R_16BF;
  cublasOperation_t op_a = CUBLAS_OP_N;
  std::int64_t leading_a = 8, aux_leading = 8;
  std::int32_t batches_a = 1, batches_d = 1;
  std::int64_t step_d = 0;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  std::uint32_t alignment = 16;
  bool with_bias = true;

  cublasStatus_t ask() const;
};

cublasStatus_t Call::ask() const {
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t layouts[4] = {};
  cublasLtMatmulPreference_t preference = nullptr;
  EXPECT_EQ(cublasLtCreate(&handle), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasLtMatmulDescCreate(&desc, compute, scale), CUBLAS_STATUS_SUCCESS);
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, const auto& value) {
    EXPECT_EQ(cublasLtMatmulDescSetAttribute(desc, attribute, &value, sizeof value),
              CUBLAS_STATUS_SUCCESS);
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, op_a);
  set(CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue);
  void* const somewhere = reinterpret_cast<void*>(std::uintptr_t{256});
  if (with_bias) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, somewhere);
  set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, somewhere);
  set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, aux_leading);
  EXPECT_EQ(cublasLtMatrixLayoutCreate(&layouts[0], a, 8, 64, leading_a), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasLtMatrixLayoutCreate(&layouts[1], b, 64, 4, 64), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasLtMatrixLayoutCreate(&layouts[2], c, 8, 4, 8), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(cublasLtMatrixLayoutCreate(&layouts[3], d, 8, 4, 8), CUBLAS_STATUS_SUCCESS);
  for (int i = 0; i < 4; ++i) {
    const std::int32_t batches = i == 0 ? batches_a : batches_d;
    cublasLtMatrixLayoutSetAttribute(layouts[i], CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batches,
                                     sizeof batches);
  }
  cublasLtMatrixLayoutSetAttribute(layouts[3], CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step_d,
                                   sizeof step_d);
  EXPECT_EQ(cublasLtMatmulPreferenceCreate(&preference), CUBLAS_STATUS_SUCCESS);
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    cublasLtMatmulPreferenceSetAttribute(preference, attribute, &alignment, sizeof alignment);
  }
  cublasLtMatmulHeuristicResult_t result;
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle, desc, layouts[0], layouts[1], layouts[2], layouts[3], preference, 1, &result, &count);
  cublasLtMatmulPreferenceDestroy(preference);
  for (const auto layout : layouts) cublasLtMatrixLayoutDestroy(layout);
  cublasLtMatmulDescDestroy(desc);
  cublasLtDestroy(handle);
  return status;
}

struct Change {
  const char* what;
  std::function<void(Call&)> apply;
  cublasStatus_t expected = CUBLAS_STATUS_NOT_SUPPORTED;
};

TEST(BlasLtStandIn, RefusesWhatTheLibraryIsDocumentedToRefuse) {
  ASSERT_EQ(Call().ask(), CUBLAS_STATUS_SUCCESS);
  const cublasStatus_t wrong = CUBLAS_STATUS_INVALID_VALUE;
  const std::vector<Change> changes = {
      {"operands of two types", [](Call& call) { call.b = CUDA_R_32F; }},
      {"C of another type than D", [](Call& call) { call.d = CUDA_R_32F; }},
      {"16-bit sums of bfloat16", [](Call& call) { call.compute = CUBLAS_COMPUTE_16F; }},
      {"another scale type", [](Call& call) { call.scale = CUDA_R_64F; }},
      {"TF32 of bfloat16", [](Call& call) { call.compute = CUBLAS_COMPUTE_32F_FAST_TF32; }},
      {"a leading dimension below the rows", [](Call& call) { call.leading_a = 7; }, wrong},
      {"sizes that do not multiply", [](Call& call) { call.op_a = CUBLAS_OP_T; }, wrong},
      {"fewer matrices of one operand", [](Call& call) { call.batches_d = 2; }, wrong},
      {"results one over the other",
       [](Call& call) {
         call.batches_a = call.batches_d = 2;
         call.step_d = 31;
       },
       wrong},
      {"an epilogue without its bias",
       [](Call& call) {
         call.epilogue = CUBLASLT_EPILOGUE_BIAS;
         call.with_bias = false;
       },
       wrong},
      {"an auxiliary matrix that lies askew",
       [](Call& call) {
         call.epilogue = CUBLASLT_EPILOGUE_GELU_AUX;
         call.aux_leading = 12;
       },
       wrong},
      {"an auxiliary matrix that is too narrow",
       [](Call& call) {
         call.epilogue = CUBLASLT_EPILOGUE_DGELU;
         call.aux_leading = 0;
       },
       wrong},
      {"buffers aligned to less than an element", [](Call& call) { call.alignment = 1; }},
      {"an epilogue of float64",
       [](Call& call) {
         call.compute = CUBLAS_COMPUTE_64F;
         call.scale = call.a = call.b = call.c = call.d = CUDA_R_64F;
         call.epilogue = CUBLASLT_EPILOGUE_RELU;
       }},
  };
  for (const Change& change : changes) {
    Call call;
    change.apply(call);
    EXPECT_EQ(call.ask(), change.expected) << change.what;
  }
}

TEST(BlasLtStandIn, IsNotStartedWhileAStreamIsRecorded) {
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cublasLtHandle_t handle = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_EQ(cublasLtCreate(&handle), CUBLAS_STATUS_NOT_INITIALIZED);
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  cudaGetLastError();
}

}  // namespace
}  // namespace mezzo::kernels::cuda
