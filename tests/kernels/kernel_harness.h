// Runs a row of an operator beside the reference kernel. The tests are written once; which rows
// they test is a matter of the program they are part of:
//   cpu_harness.cpp   the "cpu" row, with every instruction set this processor has and with one and
//                     two threads
//   tests/cuda_on_cpu the CUDA rows, twice, with the threads of a block in different orders
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "kernels/kernel.h"

namespace mezzo::kernels {

// Elements as numbers, in the order of memory. Integers beyond 2^53 are not used.
using Numbers = std::vector<double>;
using Engine = std::mt19937_64;

std::int64_t draw(Engine& engine, std::int64_t least, std::int64_t most);
DType draw_float(Engine& engine);  // float, float16 or bfloat16
DType draw_integer_type(Engine& engine);
bool is_signed_type(DType dtype);
std::vector<std::int64_t> draw_dims(Engine& engine, std::size_t rank, std::int64_t most);
TensorDesc tensor(DType dtype, std::vector<std::int64_t> dims, Layout layout = Layout::kRowMajor);

// Normal numbers of mean 0. `specials`: now and then infinities, NaN, zeros of both signs,
// subnormals and numbers at the end of the type's range.
Numbers draw_numbers(Engine& engine, const TensorDesc& desc, double deviation,
                     bool specials = false);
Numbers draw_integers(Engine& engine, const TensorDesc& desc, std::int64_t least,
                      std::int64_t most);

struct KernelCase {
  KernelRequest request;
  std::vector<Numbers> operands;
  // Rounded operations one after another that lead to a result.
  std::int64_t depth = 4;
  // The type those operations are rounded to.
  DType accum = DType::kFloat32;
  // Where results cancel: their error is relative to the largest result of the tensor, times this.
  double cancels = 0.0;
  // Bits must be those of the reference with the same dtypes (moved data, casts, comparisons).
  bool exact = false;
};

// Reports differences as GoogleTest failures. Also checked: results do not depend on the threads;
// where may_run_in_place() says so, the result is the same in an operand's buffer; nothing is
// written behind a buffer or the workspace.
void check_kernel(const KernelCase& test);

// Results of the row as numbers; on the CPU by the best instruction set.
// `constants`: operands that the kernel is told of beforehand.
std::vector<Numbers> run_row(const KernelRequest& request, const std::vector<Numbers>& operands,
                             const std::vector<std::size_t>& constants = {});

// Fails unless the kernel gives the same whether or not it is told of the operands `constants`
// beforehand, which it may then bring into another form.
void expect_same_with_constants(const KernelRequest& request, const std::vector<Numbers>& operands,
                                const std::vector<std::size_t>& constants);

// The status of prepare, or of run where that succeeds.
Status row_status(const KernelRequest& request, const std::vector<Numbers>& operands);

std::string describe_request(const KernelRequest& request);

}  // namespace mezzo::kernels
