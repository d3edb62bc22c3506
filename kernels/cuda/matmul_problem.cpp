#include "kernels/cuda/matmul_problem.h"

#include <algorithm>
#include <string>

namespace mezzo::kernels::cuda {
namespace {

// Dims of an operand with vectors as matrices, split into the batch and the last two.
struct Matrices {
  Dims batch;
  Int outer = 1, inner = 1;

  Int elems() const { return outer * inner; }
};

Matrices matrices_of(const Dims& dims, bool vector_is_row) {
  Matrices result;
  if (dims.size() == 1) {
    (vector_is_row ? result.inner : result.outer) = dims[0];
    return result;
  }
  result.batch.assign(dims.begin(), dims.end() - 2);
  result.outer = dims.end()[-2];
  result.inner = dims.end()[-1];
  return result;
}

// Elements from one matrix to the next along dimension `d` of `count`, aligned right; 0: broadcast.
Int step_along(const Matrices& operand, std::size_t d, std::size_t count) {
  const std::size_t missing = count - operand.batch.size();
  if (d < missing || operand.batch[d - missing] == 1) return 0;
  Int step = operand.elems();
  for (std::size_t i = d - missing + 1; i < operand.batch.size(); ++i) step *= operand.batch[i];
  return step;
}

Int size_along(const Matrices& operand, std::size_t d, std::size_t count) {
  const std::size_t missing = count - operand.batch.size();
  return d < missing ? 1 : operand.batch[d - missing];
}

// The batches of the product, joined where all three walk through neighbours in equal steps.
std::vector<BatchStep> batch_steps(const Matrices& a, const Matrices& b, Int y_matrix) {
  const std::size_t count = std::max(a.batch.size(), b.batch.size());
  std::vector<BatchStep> steps(count);
  Int y_step = y_matrix;
  for (std::size_t d = count; d-- > 0;) {
    const Int a_size = size_along(a, d, count), b_size = size_along(b, d, count);
    const Int size = a_size == 1 ? b_size : a_size;
    steps[d] = {size, step_along(a, d, count), step_along(b, d, count), y_step};
    y_step *= size;
  }
  std::vector<BatchStep> joined;
  for (const BatchStep& inner : steps) {
    if (inner.size == 1) continue;
    if (!joined.empty()) {
      BatchStep& outer = joined.back();
      if (outer.a == inner.a * inner.size && outer.b == inner.b * inner.size &&
          outer.y == inner.y * inner.size) {
        outer = {outer.size * inner.size, inner.a, inner.b, inner.y};
        continue;
      }
    }
    joined.push_back(inner);
  }
  return joined;
}

// Matrices of a that lie one after the other and meet the same b are one matrix of more rows.
void count_batches_as_rows(MatMulProblem& problem) {
  while (!problem.batches.empty() && !problem.trans_a) {
    const BatchStep& last = problem.batches.back();
    if (last.b != 0 || last.a != problem.rows * problem.depth ||
        last.y != problem.rows * problem.columns) {
      return;
    }
    problem.rows *= last.size;
    problem.batches.pop_back();
  }
}

bool flag(const KernelRequest& request, std::string_view name) {
  return request.attributes.get_int(name, 0) != 0;
}

void read_addend(const KernelRequest& request, double beta, MatMulProblem& problem) {
  if (request.inputs.size() < 3 || !request.inputs[2].present()) return;
  const TensorDesc& c = request.inputs[2];
  problem.c = c.dtype;
  problem.beta = beta;
  const Dims steps = strides_within(c, {problem.rows, problem.columns});
  problem.c_row = steps[0];
  problem.c_column = steps[1];
}

StatusOr<Epilogue> epilogue_of(const KernelRequest& request, bool gradient) {
  const std::string name = request.attributes.get_string("activation", "none");
  if (name == "relu") return gradient ? Epilogue::kReluGrad : Epilogue::kRelu;
  if (name == "gelu_tanh") return gradient ? Epilogue::kGeluTanhGrad : Epilogue::kGeluTanh;
  if (name == "none" && !gradient) return Epilogue::kNone;
  return unimplemented("activation '" + name + "'");
}

DType second_result(const KernelRequest& request) {
  return request.outputs.size() > 1 ? request.outputs[1].dtype : DType::kNone;
}

// What the operator has beside the product.
Status read_rest(const KernelRequest& request, MatMulProblem& problem) {
  if (request.op == "Gemm") {
    read_addend(request, request.attributes.get_float("beta", 1.0), problem);
  } else if (request.op == "MatMulActivation") {
    MEZZO_ASSIGN_OR_RETURN(problem.epilogue, epilogue_of(request, false));
    read_addend(request, 1.0, problem);
    problem.pre = second_result(request);
  } else if (request.op == "MatMulActivationGrad") {
    MEZZO_ASSIGN_OR_RETURN(problem.epilogue, epilogue_of(request, true));
    problem.x = request.inputs[2].dtype;
  } else if (request.op == "MatMulSums") {
    problem.sums = second_result(request);
    problem.sums_of = request.attributes.get_string("of", "b") == "a" ? SumsOf::kA : SumsOf::kB;
  }
  return ok_status();
}

}  // namespace

StatusOr<MatMulProblem> read_problem(const KernelRequest& request) {
  for (const auto* descs : {&request.inputs, &request.outputs}) {
    for (const TensorDesc& desc : *descs) {
      if (desc.layout != Layout::kRowMajor && desc.layout_matters())
        return unimplemented("channels-last operands");
    }
  }
  const bool is_gemm = request.op == "Gemm";
  MatMulProblem problem;
  problem.trans_a = flag(request, is_gemm ? "transA" : "trans_a");
  problem.trans_b = flag(request, is_gemm ? "transB" : "trans_b");
  problem.alpha = request.attributes.get_float("alpha", 1.0);
  problem.a = request.inputs[0].dtype;
  problem.b = request.inputs[1].dtype;
  problem.y = request.outputs[0].dtype;
  const Matrices a = matrices_of(request.inputs[0].dims, /*vector_is_row=*/true);
  const Matrices b = matrices_of(request.inputs[1].dims, /*vector_is_row=*/false);
  problem.rows = problem.trans_a ? a.inner : a.outer;
  problem.depth = problem.trans_a ? a.outer : a.inner;
  problem.columns = problem.trans_b ? b.outer : b.inner;
  problem.batches = batch_steps(a, b, problem.rows * problem.columns);
  count_batches_as_rows(problem);
  MEZZO_RETURN_IF_ERROR(read_rest(request, problem));
  return problem;
}

}  // namespace mezzo::kernels::cuda
