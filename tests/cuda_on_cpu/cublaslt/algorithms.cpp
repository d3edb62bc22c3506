// The "algorithms" of the stand-in: one that sums K from front to back, and two that sum parts of
// it in the workspace. The first one named is one with parts where the preferences allow it, so
// that workspaces are used and sums differ from those of other kernels, as they do on a GPU.
#include <algorithm>
#include <vector>

#include "tests/cuda_on_cpu/cublaslt/problem.h"
#include "tests/cuda_on_cpu/stand_in.h"

namespace cublaslt_on_cpu {
namespace {

constexpr std::uint64_t kMagic = 0x6d657a7a6f6c7431;
constexpr std::uint64_t kMix = 0x9e3779b97f4a7c15;
constexpr std::uint64_t kPartDepth = 16;  // least depth of a part

std::uint64_t mixed(const Algorithm& algorithm) {
  std::uint64_t hash = kMagic;
  for (const std::uint64_t word :
       {std::uint64_t{algorithm.splits}, std::uint64_t{algorithm.alignment}, algorithm.types}) {
    hash = (hash ^ word) * kMix;
  }
  return hash;
}

std::vector<Algorithm> candidates(const Problem& problem, const Preference& preference) {
  const std::uint32_t alignment =
      std::min({preference.alignment_a, preference.alignment_b, preference.alignment_c,
                preference.alignment_d, std::uint32_t{16}});
  std::vector<Algorithm> found;
  for (const std::uint32_t splits : {2U, 1U, 3U}) {
    const Algorithm algorithm{splits, alignment, types_of(problem)};
    const bool reduces = (preference.reduction_mask & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) != 0;
    if (splits > 1 && (!reduces || problem.k() < splits * kPartDepth)) continue;
    if (algorithm.workspace_bytes(problem) <= preference.workspace_bytes)
      found.push_back(algorithm);
  }
  return found;
}

Problem gather(cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
               cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d) {
  return {*opened(desc), *opened(a), *opened(b), *opened(c), *opened(d)};
}

}  // namespace

std::uint64_t Algorithm::workspace_bytes(const Problem& problem) const {
  if (splits == 1) return 0;
  const std::uint64_t bytes = problem.operation.compute == CUBLAS_COMPUTE_64F ? 8 : 4;
  return problem.m() * problem.n() * splits * bytes;
}

std::uint64_t types_of(const Problem& problem) {
  return static_cast<std::uint64_t>(problem.operation.compute) << 32 |
         static_cast<std::uint64_t>(problem.a.type) << 16 |
         static_cast<std::uint64_t>(problem.d.type);
}

cublasLtMatmulAlgo_t pack(const Algorithm& algorithm) {
  return {
      {kMagic, algorithm.splits, algorithm.alignment, algorithm.types, mixed(algorithm), 0, 0, 0}};
}

bool unpack(const cublasLtMatmulAlgo_t& bits, Algorithm& algorithm) {
  algorithm = {static_cast<std::uint32_t>(bits.data[1]), static_cast<std::uint32_t>(bits.data[2]),
               bits.data[3]};
  return bits.data[0] == kMagic && bits.data[4] == mixed(algorithm);
}

}  // namespace cublaslt_on_cpu

extern "C" {

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int* count) {
  if (cuda_on_cpu::cuda_on_cpu_fails(__func__)) return CUBLAS_STATUS_INTERNAL_ERROR;
  using namespace cublaslt_on_cpu;
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (wanted <= 0 || results == nullptr || count == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *count = 0;
  const Problem problem = gather(desc, a, b, c, d);
  if (const cublasStatus_t status = check(problem); status != CUBLAS_STATUS_SUCCESS) return status;
  for (const Layout* layout : {&problem.a, &problem.b, &problem.d}) {
    const Preference& limits = *opened(preference);
    const std::uint32_t least =
        std::min({limits.alignment_a, limits.alignment_b, limits.alignment_c, limits.alignment_d});
    if (least < layout->element_bytes()) return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  for (const Algorithm& algorithm : candidates(problem, *opened(preference))) {
    if (*count == wanted) break;
    cublasLtMatmulHeuristicResult_t& result = results[(*count)++];
    result = {};
    result.algo = pack(algorithm);
    result.workspaceSize = algorithm.workspace_bytes(problem);
    result.state = CUBLAS_STATUS_SUCCESS;
    result.wavesCount = 1.0F;
  }
  return *count > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* bits,
                                       cublasLtMatmulHeuristicResult_t* result) {
  if (cuda_on_cpu::cuda_on_cpu_fails(__func__)) return CUBLAS_STATUS_INTERNAL_ERROR;
  using namespace cublaslt_on_cpu;
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (bits == nullptr || result == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  const Problem problem = gather(desc, a, b, c, d);
  if (const cublasStatus_t status = check(problem); status != CUBLAS_STATUS_SUCCESS) return status;
  Algorithm algorithm;
  if (!unpack(*bits, algorithm) || algorithm.types != types_of(problem))
    return CUBLAS_STATUS_INVALID_VALUE;
  result->workspaceSize = algorithm.workspace_bytes(problem);
  result->state = CUBLAS_STATUS_SUCCESS;
  result->wavesCount = 1.0F;
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
