// How a sum of products becomes an element of y, in device code: alpha, beta c, the epilogue.
#pragma once

#include "kernels/cuda/element.h"
#include "kernels/cuda/matmul_problem.h"
#include "kernels/formulas/elementwise.h"

namespace mezzo::kernels::cuda {

// What a request says of its results and of what is added. A kernel parameter.
struct MatMulWrite {
  Int columns = 1;
  double alpha = 1.0, beta = 0.0;
  Int c_row = 0, c_column = 0;
  const void* c = nullptr;  // null: none
  const void* x = nullptr;  // of a gradient
  void* y = nullptr;
  void* pre = nullptr;  // null: nobody wants it
  DType a_type = DType::kNone, c_type = DType::kNone, x_type = DType::kNone;
  DType y_type = DType::kNone, pre_type = DType::kNone;
  Epilogue epilogue = Epilogue::kNone;
};

inline MatMulWrite write_of(const MatMulProblem& problem, const KernelArguments& arguments) {
  MatMulWrite write;
  write.columns = problem.columns;
  write.alpha = problem.alpha;
  write.beta = problem.beta;
  write.c_row = problem.c_row;
  write.c_column = problem.c_column;
  write.c = problem.has_c() ? arguments.inputs[2] : nullptr;
  write.x = problem.x != DType::kNone ? arguments.inputs[2] : nullptr;
  write.y = arguments.outputs[0];
  write.pre = problem.pre != DType::kNone ? arguments.outputs[1] : nullptr;
  write.a_type = problem.a;
  write.c_type = problem.c;
  write.x_type = problem.x;
  write.y_type = problem.y;
  write.pre_type = problem.pre;
  write.epilogue = problem.epilogue;
  return write;
}

template <typename T>
__device__ __forceinline__ T activated(const MatMulWrite& write, T value, Int at) {
  switch (write.epilogue) {
    case Epilogue::kRelu: return formulas::relu(value);
    case Epilogue::kGeluTanh: return formulas::gelu_tanh(value);
    case Epilogue::kReluGrad:
      return load_element<T>(write.x, at, write.x_type) > T{0} ? value : T{0};
    case Epilogue::kGeluTanhGrad:
      return formulas::gelu_tanh_grad(value, load_element<T>(write.x, at, write.x_type));
    default: return value;
  }
}

// factor value, as integers are scaled: exactly by an integer, else truncated.
__device__ __forceinline__ std::uint64_t scaled(std::uint64_t value, double factor,
                                                bool is_signed) {
  if (trunc(factor) == factor && fabs(factor) < 9007199254740992.0)
    return value * static_cast<std::uint64_t>(static_cast<std::int64_t>(factor));
  const double number = is_signed ? static_cast<double>(static_cast<std::int64_t>(value))
                                  : static_cast<double>(value);
  const double product = trunc(number * factor);
  if (product >= 9223372036854775808.0) return static_cast<std::uint64_t>(product);
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(product));
}

// Writes element (row, column) of the matrix that starts at element `start` of y.
template <typename Sum>
__device__ __forceinline__ void write_sum(const MatMulWrite& write, Sum sum, Int start, Int row,
                                          Int column) {
  const Int at = start + row * write.columns + column;
  const Int c_at = row * write.c_row + column * write.c_column;
  if constexpr (std::is_same_v<Sum, std::uint64_t>) {
    const bool is_signed = write.a_type != DType::kUInt32 && write.a_type != DType::kUInt64 &&
                           write.a_type != DType::kUInt16 && write.a_type != DType::kUInt8;
    std::uint64_t value = scaled(sum, write.alpha, is_signed);
    if (write.c != nullptr) {
      const auto c =
          static_cast<std::uint64_t>(load_element<std::int64_t>(write.c, c_at, write.c_type));
      value += scaled(c, write.beta, is_signed);
    }
    store_element(write.y, at, write.y_type, static_cast<std::int64_t>(value));
  } else {
    Sum value = static_cast<Sum>(write.alpha) * sum;
    if (write.c != nullptr)
      value += static_cast<Sum>(write.beta) * load_element<Sum>(write.c, c_at, write.c_type);
    if (write.pre != nullptr) store_element(write.pre, at, write.pre_type, value);
    store_element(write.y, at, write.y_type, activated(write, value, at));
  }
}

}  // namespace mezzo::kernels::cuda
