// The arithmetic: operands brought into float, sums in float32 (float64 for float64 operands), the
// epilogue on the unrounded sum, one rounding.
#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "tests/cuda_on_cpu/cublaslt/problem.h"

namespace cublaslt_on_cpu {
namespace {

// To 10 bits behind the leading one, halves away from zero, as Tensor Cores read float32.
float to_tf32(float value) {
  if (!std::isfinite(value)) return value;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return std::bit_cast<float>((bits + 0x1000U) & ~0x1fffU);
}

// Column j of op(X) is a line: lines x depth, depth fastest or lines fastest.
template <typename T>
std::vector<T> gather(const void* data, const Layout& layout, std::int64_t start, bool transposed,
                      bool tf32) {
  const auto rows = static_cast<std::int64_t>(transposed ? layout.columns : layout.rows);
  const auto columns = static_cast<std::int64_t>(transposed ? layout.rows : layout.columns);
  std::vector<T> values(static_cast<std::size_t>(rows * columns));
  for (std::int64_t j = 0; j < columns; ++j) {
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::int64_t at = transposed ? i * layout.leading + j : j * layout.leading + i;
      const auto value = static_cast<T>(load(data, layout.type, start + at));
      values[static_cast<std::size_t>(j * rows + i)] =
          tf32 ? static_cast<T>(to_tf32(static_cast<float>(value))) : value;
    }
  }
  return values;
}

double gelu(double x) {
  const double u = 0.79788456080286535588 * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1.0 + std::tanh(u));
}

double gelu_derivative(double x) {
  const double scale = 0.79788456080286535588;
  const double tangent = std::tanh(scale * (x + 0.044715 * x * x * x));
  return 0.5 * (1.0 + tangent) +
         0.5 * x * (1.0 - tangent * tangent) * scale * (1.0 + 3.0 * 0.044715 * x * x);
}

double finish(const Problem& problem, double value, std::int64_t row, std::int64_t column) {
  const Operation& operation = problem.operation;
  const cudaDataType_t type = problem.d.type;
  const std::int64_t aux_at = column * operation.aux_leading + row;
  switch (operation.epilogue) {
    case CUBLASLT_EPILOGUE_BIAS:
    case CUBLASLT_EPILOGUE_RELU_BIAS:
    case CUBLASLT_EPILOGUE_GELU_BIAS:
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS: value += load(operation.bias, type, row); break;
    default: break;
  }
  switch (operation.epilogue) {
    case CUBLASLT_EPILOGUE_RELU:
    case CUBLASLT_EPILOGUE_RELU_BIAS: return value < 0.0 ? 0.0 : value;
    case CUBLASLT_EPILOGUE_GELU_AUX:
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
      store(operation.aux, type, aux_at, value);
      return gelu(value);
    case CUBLASLT_EPILOGUE_GELU:
    case CUBLASLT_EPILOGUE_GELU_BIAS: return gelu(value);
    case CUBLASLT_EPILOGUE_DGELU: return value * gelu_derivative(load(operation.aux, type, aux_at));
    default: return value;
  }
}

// sums[0..m) += the products at depths [begin, end) for one column of D.
template <typename T>
void add_products(const std::vector<T>& a, const T* b, std::size_t m, std::size_t begin,
                  std::size_t end, T* sums) {
  for (std::size_t k = begin; k < end; ++k) {
    const T factor = b[k];
    const T* line = a.data() + k * m;
    for (std::size_t i = 0; i < m; ++i) sums[i] += line[i] * factor;
  }
}

// BGRADA: sums of op(A)'s rows along K; BGRADB: of op(B)'s columns.
template <typename T>
void write_bias_gradient(const Problem& problem, const std::vector<T>& a, const std::vector<T>& b) {
  const bool of_a = problem.operation.epilogue == CUBLASLT_EPILOGUE_BGRADA;
  const std::size_t m = problem.m(), n = problem.n(), depth = problem.k();
  for (std::size_t i = 0; i < (of_a ? m : n); ++i) {
    T sum{};
    for (std::size_t k = 0; k < depth; ++k) sum += of_a ? a[k * m + i] : b[i * depth + k];
    store(problem.operation.bias, problem.d.type, static_cast<std::int64_t>(i), sum);
  }
}

template <typename T>
void multiply_as(const Problem& problem, const Algorithm& algorithm, const Buffers& buffers) {
  const bool tf32 = problem.operation.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  const std::size_t m = problem.m(), n = problem.n(), depth = problem.k();
  const std::size_t splits = algorithm.splits;
  std::vector<T> own(splits == 1 ? m : 0);
  for (std::int32_t batch = 0; batch < problem.d.batches; ++batch) {
    const auto a = gather<T>(buffers.a, problem.a, batch * problem.a.batch_step,
                             problem.operation.trans_a != CUBLAS_OP_N, tf32);
    const auto b = gather<T>(buffers.b, problem.b, batch * problem.b.batch_step,
                             problem.operation.trans_b != CUBLAS_OP_N, tf32);
    for (std::size_t j = 0; j < n; ++j) {
      T* sums = splits == 1 ? own.data() : static_cast<T*>(buffers.workspace) + j * m * splits;
      std::fill(sums, sums + m * splits, T{});
      for (std::size_t part = 0; part < splits; ++part) {
        add_products(a, b.data() + j * depth, m, depth * part / splits, depth * (part + 1) / splits,
                     sums + part * m);
      }
      for (std::size_t part = 1; part < splits; ++part) {
        for (std::size_t i = 0; i < m; ++i) sums[i] += sums[part * m + i];
      }
      for (std::size_t i = 0; i < m; ++i) {
        const auto row = static_cast<std::int64_t>(i), column = static_cast<std::int64_t>(j);
        double value = static_cast<T>(buffers.alpha) * sums[i];
        if (buffers.beta != 0.0) {
          value +=
              buffers.beta * load(buffers.c, problem.c.type,
                                  batch * problem.c.batch_step + column * problem.c.leading + row);
        }
        store(buffers.d, problem.d.type,
              batch * problem.d.batch_step + column * problem.d.leading + row,
              finish(problem, value, row, column));
      }
    }
    if (problem.operation.epilogue == CUBLASLT_EPILOGUE_BGRADA ||
        problem.operation.epilogue == CUBLASLT_EPILOGUE_BGRADB) {
      write_bias_gradient(problem, a, b);
    }
  }
}

}  // namespace

double load(const void* data, cudaDataType_t type, std::int64_t at) {
  switch (type) {
    case CUDA_R_16F: return __half2float(static_cast<const __half*>(data)[at]);
    case CUDA_R_16BF: return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[at]);
    case CUDA_R_64F: return static_cast<const double*>(data)[at];
    default: return static_cast<const float*>(data)[at];
  }
}

void store(void* data, cudaDataType_t type, std::int64_t at, double value) {
  switch (type) {
    case CUDA_R_16F: static_cast<__half*>(data)[at] = __double2half(value); break;
    case CUDA_R_16BF: static_cast<__nv_bfloat16*>(data)[at] = __double2bfloat16(value); break;
    case CUDA_R_64F: static_cast<double*>(data)[at] = value; break;
    default: static_cast<float*>(data)[at] = static_cast<float>(value); break;
  }
}

void multiply(const Problem& problem, const Algorithm& algorithm, const Buffers& buffers) {
  if (problem.operation.compute == CUBLAS_COMPUTE_64F) {
    multiply_as<double>(problem, algorithm, buffers);
  } else {
    multiply_as<float>(problem, algorithm, buffers);
  }
}

}  // namespace cublaslt_on_cpu
