#include "kernels/cuda/blaslt.h"

#include <string>
#include <string_view>

namespace mezzo::kernels::cuda::blaslt {
namespace {

template <typename T>
Status set_layout(const MatrixLayout& layout, cublasLtMatrixLayoutAttribute_t attribute,
                  const T& value) {
  return check("cublasLtMatrixLayoutSetAttribute",
               cublasLtMatrixLayoutSetAttribute(layout.get(), attribute, &value, sizeof value));
}

template <typename T>
Status set_preference(const Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute,
                      const T& value) {
  return check(
      "cublasLtMatmulPreferenceSetAttribute",
      cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof value));
}

}  // namespace

Status check(const char* call, cublasStatus_t status, SourceLocation where) {
  if (status == CUBLAS_STATUS_SUCCESS) return ok_status();
  const std::string_view path = where.file_name();
  return internal_error("cuBLASLt: " + std::string(call) + ": " + cublasLtGetStatusName(status) +
                        " at " + std::string(path.substr(path.rfind('/') + 1)) + ":" +
                        std::to_string(where.line()));
}

cudaDataType_t library_type(DType dtype) {
  switch (dtype) {
    case DType::kFloat16: return CUDA_R_16F;
    case DType::kBFloat16: return CUDA_R_16BF;
    case DType::kFloat64: return CUDA_R_64F;
    default: return CUDA_R_32F;
  }
}

StatusOr<Handle> create_handle() {
  cublasLtHandle_t handle = nullptr;
  MEZZO_RETURN_IF_ERROR(check("cublasLtCreate", cublasLtCreate(&handle)));
  return Handle(handle);
}

StatusOr<Operation> create_operation(DType operands, bool allow_tf32) {
  const bool is_double = operands == DType::kFloat64;
  const bool tf32 = allow_tf32 && operands == DType::kFloat32;
  const cublasComputeType_t compute = is_double ? CUBLAS_COMPUTE_64F
                                      : tf32    ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                : CUBLAS_COMPUTE_32F;
  cublasLtMatmulDesc_t operation = nullptr;
  MEZZO_RETURN_IF_ERROR(
      check("cublasLtMatmulDescCreate",
            cublasLtMatmulDescCreate(&operation, compute, is_double ? CUDA_R_64F : CUDA_R_32F)));
  return Operation(operation);
}

StatusOr<MatrixLayout> create_layout(DType dtype, std::int64_t rows, std::int64_t columns,
                                     std::int64_t leading, std::int64_t matrices,
                                     std::int64_t batch_step) {
  cublasLtMatrixLayout_t created = nullptr;
  MEZZO_RETURN_IF_ERROR(check(
      "cublasLtMatrixLayoutCreate",
      cublasLtMatrixLayoutCreate(&created, library_type(dtype), static_cast<std::uint64_t>(rows),
                                 static_cast<std::uint64_t>(columns), leading)));
  MatrixLayout layout(created);
  if (matrices > 1) {
    MEZZO_RETURN_IF_ERROR(set_layout(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                     static_cast<std::int32_t>(matrices)));
    MEZZO_RETURN_IF_ERROR(
        set_layout(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, batch_step));
  }
  return layout;
}

StatusOr<Preference> create_preference(std::uint64_t workspace_bytes, std::uint32_t alignment) {
  cublasLtMatmulPreference_t created = nullptr;
  MEZZO_RETURN_IF_ERROR(
      check("cublasLtMatmulPreferenceCreate", cublasLtMatmulPreferenceCreate(&created)));
  Preference preference(created);
  MEZZO_RETURN_IF_ERROR(
      set_preference(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes));
  MEZZO_RETURN_IF_ERROR(
      set_preference(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                     static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)));
  for (const auto attribute :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    MEZZO_RETURN_IF_ERROR(set_preference(preference, attribute, alignment));
  }
  return preference;
}

}  // namespace mezzo::kernels::cuda::blaslt
