// What the library is documented to take.
#include <algorithm>
#include <array>

#include "tests/cuda_on_cpu/cublaslt/problem.h"

namespace cublaslt_on_cpu {
namespace {

struct Types {
  cudaDataType_t scale, operands, result;
  bool has_epilogues;
};

// The table in cublasLtMatmul() for regular matrix order, real types of 16 bits and more, by the
// compute types that are used here. C has D's type. The bias has it too.
constexpr std::array kFloat32Sums = {
    Types{CUDA_R_32F, CUDA_R_16BF, CUDA_R_16BF, true},
    Types{CUDA_R_32F, CUDA_R_16F, CUDA_R_16F, true},
    Types{CUDA_R_32F, CUDA_R_16BF, CUDA_R_32F, true},
    Types{CUDA_R_32F, CUDA_R_16F, CUDA_R_32F, true},
    Types{CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, true},
};
constexpr std::array kTf32Sums = {Types{CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, true}};
constexpr std::array kFloat64Sums = {Types{CUDA_R_64F, CUDA_R_64F, CUDA_R_64F, false}};

const Types* find_types(const Problem& problem) {
  const auto find = [&](const auto& table) -> const Types* {
    const auto found = std::find_if(table.begin(), table.end(), [&](const Types& types) {
      return types.scale == problem.operation.scale && types.operands == problem.a.type &&
             types.operands == problem.b.type && types.result == problem.c.type &&
             types.result == problem.d.type;
    });
    return found == table.end() ? nullptr : &*found;
  };
  switch (problem.operation.compute) {
    case CUBLAS_COMPUTE_32F: return find(kFloat32Sums);
    case CUBLAS_COMPUTE_32F_FAST_TF32: return find(kTf32Sums);
    case CUBLAS_COMPUTE_64F: return find(kFloat64Sums);
    default: return nullptr;
  }
}

// Batches of a layout must not overlap where they are written.
bool is_sound(const Layout& layout, bool written) {
  if (layout.rows == 0 || layout.columns == 0 || layout.batches < 1) return false;
  if (layout.leading < static_cast<std::int64_t>(layout.rows)) return false;
  const auto matrix = layout.leading * static_cast<std::int64_t>(layout.columns);
  return !written || layout.batches == 1 || layout.batch_step >= matrix;
}

cublasStatus_t check_sizes(const Problem& problem) {
  const bool ta = problem.operation.trans_a != CUBLAS_OP_N;
  const bool tb = problem.operation.trans_b != CUBLAS_OP_N;
  if (!is_sound(problem.a, false) || !is_sound(problem.b, false) || !is_sound(problem.c, false) ||
      !is_sound(problem.d, true)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const Layout &a = problem.a, &b = problem.b, &c = problem.c, &d = problem.d;
  if ((ta ? a.columns : a.rows) != d.rows || (tb ? b.rows : b.columns) != d.columns ||
      (ta ? a.rows : a.columns) != (tb ? b.columns : b.rows) || c.rows != d.rows ||
      c.columns != d.columns) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (a.batches != d.batches || b.batches != d.batches || c.batches != d.batches)
    return CUBLAS_STATUS_INVALID_VALUE;
  return CUBLAS_STATUS_SUCCESS;
}

// Of the auxiliary matrix: "Must be divisible by 8 and be no less than the number of rows in the
// output matrix" (CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD).
cublasStatus_t check_epilogue(const Problem& problem, bool has_epilogues) {
  const Operation& operation = problem.operation;
  switch (operation.epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT: return CUBLAS_STATUS_SUCCESS;
    case CUBLASLT_EPILOGUE_RELU:
    case CUBLASLT_EPILOGUE_GELU: break;
    case CUBLASLT_EPILOGUE_BIAS:
    case CUBLASLT_EPILOGUE_RELU_BIAS:
    case CUBLASLT_EPILOGUE_GELU_BIAS:
      if (operation.bias == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
      break;
    case CUBLASLT_EPILOGUE_BGRADA:
    case CUBLASLT_EPILOGUE_BGRADB:
      if (operation.bias == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
      if (problem.d.batches != 1) return CUBLAS_STATUS_NOT_SUPPORTED;
      break;
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
      if (operation.bias == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
      [[fallthrough]];
    case CUBLASLT_EPILOGUE_GELU_AUX:
    case CUBLASLT_EPILOGUE_DGELU:
      if (operation.aux == nullptr || operation.aux_leading % 8 != 0 ||
          operation.aux_leading < static_cast<std::int64_t>(problem.d.rows)) {
        return CUBLAS_STATUS_INVALID_VALUE;
      }
      if (problem.d.batches != 1) return CUBLAS_STATUS_NOT_SUPPORTED;
      break;
    default: return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return has_epilogues ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

}  // namespace

std::size_t Layout::element_bytes() const {
  switch (type) {
    case CUDA_R_16F:
    case CUDA_R_16BF: return 2;
    case CUDA_R_64F: return 8;
    default: return 4;
  }
}

std::size_t Layout::extent_bytes() const {
  const std::int64_t last = (static_cast<std::int64_t>(columns) - 1) * leading +
                            static_cast<std::int64_t>(rows) + (batches - 1) * batch_step;
  return static_cast<std::size_t>(last) * element_bytes();
}

cublasStatus_t check(const Problem& problem) {
  for (const std::int32_t op : {problem.operation.trans_a, problem.operation.trans_b}) {
    if (op != CUBLAS_OP_N && op != CUBLAS_OP_T) return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (const cublasStatus_t status = check_sizes(problem); status != CUBLAS_STATUS_SUCCESS)
    return status;
  const Types* types = find_types(problem);
  if (types == nullptr) return CUBLAS_STATUS_NOT_SUPPORTED;
  return check_epilogue(problem, types->has_epilogues);
}

}  // namespace cublaslt_on_cpu
