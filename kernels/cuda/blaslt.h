// cuBLASLt with owners and Status: every object of the library that a product needs.
//
// Facts relied upon (cuBLAS documentation of CUDA 13, "Using the cuBLASLt API"; the header
// cublasLt.h says the same of layouts, epilogues and reduction schemes):
// - Matrices are column-major here: a row-major matrix [R, C] is a column-major one of C rows, R
//   columns and leading dimension C. "ReLU, dReLu, GELU, dGELU and Bias epilogue modes are not
//   supported when D has row order" (cublasLtMatmul), so operands are exchanged instead:
//   y^T = b^T a^T.
// - Types (table in cublasLtMatmul, regular order): compute type 32F with scale type 32F takes A
// and
//   B both 16F or both 16BF with C and D of that type or 32F, and all 32F; 64F takes all 64F. A and
//   B of two types, and C of another type than D, are not there. The bias has D's type.
// - CUBLAS_COMPUTE_32F keeps 24 bits; TF32 takes CUBLAS_COMPUTE_32F_FAST_TF32
//   (cublasComputeType_t).
// - Partial sums of a split depth are kept in D's type by the schemes INPLACE and OUTPUT_TYPE
//   (cublasLtReductionScheme_t): only COMPUTE_TYPE is allowed here.
// - Results are the same bits for the same library, architecture and number of multiprocessors, as
//   long as one workspace is not used by two streams ("Results Reproducibility").
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "compiler/support/dtype.h"
#include "compiler/support/source_location.h"
#include "compiler/support/status.h"

namespace mezzo::kernels::cuda::blaslt {

// Internal, naming the call, its error and the place it was made.
Status check(const char* call, cublasStatus_t status,
             SourceLocation where = SourceLocation::current());

template <typename Handle, cublasStatus_t (*kDestroy)(Handle)>
struct Destroy {
  using pointer = Handle;
  void operator()(Handle handle) const { static_cast<void>(kDestroy(handle)); }
};

using Handle = std::unique_ptr<cublasLtHandle_t, Destroy<cublasLtHandle_t, cublasLtDestroy>>;
using Operation =
    std::unique_ptr<cublasLtMatmulDesc_t, Destroy<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>>;
using MatrixLayout = std::unique_ptr<cublasLtMatrixLayout_t,
                                     Destroy<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>>;
using Preference =
    std::unique_ptr<cublasLtMatmulPreference_t,
                    Destroy<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>>;

StatusOr<Handle> create_handle();
// Products of `operands`, summed in float32 (float64 for float64).
StatusOr<Operation> create_operation(DType operands, bool allow_tf32);
// Column-major. `batch_step` elements from one matrix to the next, 0: the same again.
StatusOr<MatrixLayout> create_layout(DType dtype, std::int64_t rows, std::int64_t columns,
                                     std::int64_t leading, std::int64_t matrices,
                                     std::int64_t batch_step);
// Workspace up to `workspace_bytes`; buffers aligned to `alignment` bytes; partial sums in the
// compute type.
StatusOr<Preference> create_preference(std::uint64_t workspace_bytes, std::uint32_t alignment);

template <typename T>
Status set(const Operation& operation, cublasLtMatmulDescAttributes_t attribute, const T& value,
           SourceLocation where = SourceLocation::current()) {
  return check("cublasLtMatmulDescSetAttribute",
               cublasLtMatmulDescSetAttribute(operation.get(), attribute, &value, sizeof value),
               where);
}

// float, float16, bfloat16 and double.
cudaDataType_t library_type(DType dtype);

}  // namespace mezzo::kernels::cuda::blaslt
