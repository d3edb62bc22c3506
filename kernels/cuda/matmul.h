// Products by own kernels: what cuBLASLt does not take (mixtures of dtypes, integers, views that
// lie askew), and the sums that some operators want beside the product.
#pragma once

#include "kernels/cuda/matmul_problem.h"

namespace mezzo::kernels::cuda {

// The whole operator: all buffers as in the request. Sums over the depth are taken in rising order
// by one thread each, in float32 (float64 where an operand or the result has it, integers wrap).
// REQUIRES: own_matmul_takes(problem).
Status run_own_matmul(const MatMulProblem& problem, const KernelArguments& arguments);
bool own_matmul_takes(const MatMulProblem& problem);

// Result 1 alone, which problem.sums_of says.
Status run_sums(const MatMulProblem& problem, const KernelArguments& arguments);

// y = c broadcast, rounded to y's dtype: what a library then adds beta times of.
// REQUIRES: problem.has_c().
Status spread_addend(const MatMulProblem& problem, const void* c, void* y, void* stream);

// y = what the request asks for, where the sums, times alpha, are there in `sums` as float32.
Status finish_sums(const MatMulProblem& problem, const float* sums,
                   const KernelArguments& arguments);

}  // namespace mezzo::kernels::cuda
