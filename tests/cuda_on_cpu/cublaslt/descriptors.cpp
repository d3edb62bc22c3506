// Descriptors: created, changed, destroyed. An attribute that the products of this project do not
// use, and a size that is not the attribute's, are refused.
#include <cstring>

#include "tests/cuda_on_cpu/cublaslt/problem.h"

namespace cublaslt_on_cpu {
namespace {

template <typename T>
cublasStatus_t copy_in(T& to, const void* from, std::size_t bytes) {
  if (from == nullptr || bytes != sizeof(T)) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&to, from, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t set(Operation& operation, cublasLtMatmulDescAttributes_t attribute, const void* from,
                   std::size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return copy_in(operation.trans_a, from, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB: return copy_in(operation.trans_b, from, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return copy_in(operation.epilogue, from, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return copy_in(operation.bias, from, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER: return copy_in(operation.aux, from, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD: return copy_in(operation.aux_leading, from, bytes);
    default: return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t set(Layout& layout, cublasLtMatrixLayoutAttribute_t attribute, const void* from,
                   std::size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT: return copy_in(layout.batches, from, bytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return copy_in(layout.batch_step, from, bytes);
    default: return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t set(Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute,
                   const void* from, std::size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return copy_in(preference.workspace_bytes, from, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return copy_in(preference.reduction_mask, from, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return copy_in(preference.alignment_a, from, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return copy_in(preference.alignment_b, from, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      return copy_in(preference.alignment_c, from, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return copy_in(preference.alignment_d, from, bytes);
    default: return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

// The library's pointer to `made`.
template <typename Pointer, typename T>
cublasStatus_t create(Pointer* to, const T& made) {
  if (to == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *to = reinterpret_cast<Pointer>(new T(made));
  return CUBLAS_STATUS_SUCCESS;
}

template <typename Pointer>
cublasStatus_t destroy(Pointer pointer) {
  delete opened(pointer);
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace
}  // namespace cublaslt_on_cpu

using namespace cublaslt_on_cpu;

extern "C" {

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  Operation operation;
  operation.compute = compute;
  operation.scale = scale;
  return create(desc, operation);
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t leading) {
  return create(layout, Layout{type, rows, columns, leading});
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return create(preference, Preference());
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) { return destroy(desc); }
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return destroy(layout);
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return destroy(preference);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void* from, size_t bytes) {
  return set(*opened(desc), attribute, from, bytes);
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void* from, size_t bytes) {
  return set(*opened(layout), attribute, from, bytes);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void* from, size_t bytes) {
  return set(*opened(preference), attribute, from, bytes);
}

}  // extern "C"
