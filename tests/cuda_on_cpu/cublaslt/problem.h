// The stand-in for libcublasLt: what its descriptors hold, what it takes, and how it multiplies, on
// the host. Column-major, as the library; letters: M N K sizes of D[M, N] = A[M, K] B[K, N].
//
// It takes what the library is documented to take (cuBLAS documentation of CUDA 13, "Using the
// cuBLASLt API", and cublasLt.h) and refuses everything else, even where the library might take it:
// its answers are no evidence of what a GPU supports.
#pragma once

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>

namespace cublaslt_on_cpu {

struct Operation {
  cublasComputeType_t compute = CUBLAS_COMPUTE_32F;
  cudaDataType_t scale = CUDA_R_32F;
  std::int32_t trans_a = CUBLAS_OP_N, trans_b = CUBLAS_OP_N;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  void* bias = nullptr;
  void* aux = nullptr;
  std::int64_t aux_leading = 0;

  bool has(std::uint32_t bits) const { return (epilogue & bits) == bits; }
};

struct Layout {
  cudaDataType_t type = CUDA_R_32F;
  std::uint64_t rows = 0, columns = 0;
  std::int64_t leading = 0;
  std::int32_t batches = 1;
  std::int64_t batch_step = 0;

  std::size_t element_bytes() const;
  // Bytes from the first to behind the last element.
  std::size_t extent_bytes() const;
};

struct Preference {
  std::uint64_t workspace_bytes = 0;
  std::uint32_t reduction_mask = CUBLASLT_REDUCTION_SCHEME_MASK;
  std::uint32_t alignment_a = 256, alignment_b = 256, alignment_c = 256, alignment_d = 256;
};

struct Problem {
  Operation operation;
  Layout a, b, c, d;

  std::uint64_t m() const { return d.rows; }
  std::uint64_t n() const { return d.columns; }
  std::uint64_t k() const { return operation.trans_a == CUBLAS_OP_N ? a.columns : a.rows; }
};

// SUCCESS, INVALID_VALUE (contradicts itself) or NOT_SUPPORTED.
cublasStatus_t check(const Problem& problem);

// What hides in cublasLtMatmulAlgo_t.
struct Algorithm {
  std::uint32_t splits = 1;     // of K, summed in float32 in the workspace
  std::uint32_t alignment = 1;  // that it needs of all buffers, in bytes
  std::uint64_t types = 0;      // that it is for

  std::uint64_t workspace_bytes(const Problem& problem) const;
};
std::uint64_t types_of(const Problem& problem);
cublasLtMatmulAlgo_t pack(const Algorithm& algorithm);
// False: these are no bits of this library.
bool unpack(const cublasLtMatmulAlgo_t& bits, Algorithm& algorithm);

struct Buffers {
  const void* a = nullptr;
  const void* b = nullptr;
  const void* c = nullptr;
  void* d = nullptr;
  void* workspace = nullptr;
  double alpha = 1.0, beta = 0.0;
};

void multiply(const Problem& problem, const Algorithm& algorithm, const Buffers& buffers);

// Element `at` as a number, and back, rounded to nearest even.
double load(const void* data, cudaDataType_t type, std::int64_t at);
void store(void* data, cudaDataType_t type, std::int64_t at, double value);

}  // namespace cublaslt_on_cpu

// What hides behind the library's pointers.
namespace cublaslt_on_cpu {
inline Operation* opened(cublasLtMatmulDesc_t desc) { return reinterpret_cast<Operation*>(desc); }
inline Layout* opened(cublasLtMatrixLayout_t layout) { return reinterpret_cast<Layout*>(layout); }
inline Preference* opened(cublasLtMatmulPreference_t preference) {
  return reinterpret_cast<Preference*>(preference);
}
}  // namespace cublaslt_on_cpu
