// What MatMul, MatMulT, Gemm and the operators with an epilogue ask for, brought to one form.
//
//   y[.., M, N] = f(alpha op(a)[.., M, K] op(b)[.., K, N] + beta c)
//
// Letters: M K N matrix sizes. All operands lie row-major.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/support/status.h"
#include "kernels/cuda/index.h"
#include "kernels/kernel.h"

namespace mezzo::kernels::cuda {

// What is done to a sum before it is rounded. Numbers are part of kept choices of algorithms
// (blaslt_cache.h): they must not change.
enum class Epilogue : std::uint8_t {
  kNone = 0,
  kRelu = 1,
  kGeluTanh = 2,
  kReluGrad = 3,  // times the derivative at operand 2, an x of y's dims
  kGeluTanhGrad = 4,
};
constexpr bool is_gradient(Epilogue epilogue) { return epilogue >= Epilogue::kReluGrad; }

// What result 1 sums, where the operator has one that does.
enum class SumsOf : std::uint8_t {
  kNothing = 0,
  kA = 1,  // [M]: op(a) along K
  kB = 2,  // [N]: op(b) along K
};

// One dimension of a batch: how many matrices, and how many elements lie from one to the next.
struct BatchStep {
  Int size = 1;
  Int a = 0, b = 0, y = 0;  // 0: the same matrix again
};

struct MatMulProblem {
  Int rows = 1, columns = 1, depth = 1;  // M N K
  bool trans_a = false;                  // a is stored [K, M]
  bool trans_b = false;                  // b is stored [N, K]
  std::vector<BatchStep> batches;        // outermost first, none of size 1
  DType a = DType::kNone, b = DType::kNone, y = DType::kNone;
  double alpha = 1.0;
  // c is operand 2, found by steps (0: broadcast). kNone, or beta 0: not read.
  DType c = DType::kNone;
  double beta = 0.0;
  Int c_row = 0, c_column = 0;
  Epilogue epilogue = Epilogue::kNone;
  DType x = DType::kNone;    // operand 2 of the gradients
  DType pre = DType::kNone;  // result 1: what the epilogue was given
  SumsOf sums_of = SumsOf::kNothing;
  DType sums = DType::kNone;  // result 1

  bool has_c() const { return c != DType::kNone && beta != 0.0; }
  // One number for every column: a bias.
  bool c_is_row() const { return has_c() && c_row == 0 && (c_column == 1 || columns == 1); }
  bool c_is_matrix() const {
    return has_c() && c_row == columns && (c_column == 1 || columns == 1);
  }
  Int matrices() const {
    Int count = 1;
    for (const BatchStep& batch : batches) count *= batch.size;
    return count;
  }
  Int result_elems() const { return matrices() * rows * columns; }
};

// REQUIRES: a reference kernel has accepted the request, whose operator is MatMul, MatMulT, Gemm,
// MatMulActivation, MatMulActivationGrad or MatMulSums. Vectors become matrices, batches that b
// does not have are counted as rows where they lie so, neighbouring batches are joined.
// Unimplemented: channels-last operands.
StatusOr<MatMulProblem> read_problem(const KernelRequest& request);

}  // namespace mezzo::kernels::cuda
