// MatMul, MatMulT and Gemm. Letters: M K N matrix sizes, B batches.
//
// Floating operands: workspace holds every operand as row-major doubles. Each element of y is one
// sum over K in rising order, in double, rounded once after alpha, beta and c. Integers (of one
// dtype): sums wrap as the dtype does, and with alpha and beta other than integers the result is
// truncated.
#include <array>
#include <cmath>

#include "compiler/support/text.h"
#include "kernels/reference/element.h"
#include "kernels/reference/families.h"
#include "kernels/reference/operands.h"
#include "kernels/truncated.h"

namespace mezzo::kernels::reference {
namespace {

// y[b] = alpha op(a[b]) op(b[b]), matrices found by strides in elements of the unpacked operands.
struct Product {
  std::int64_t m = 1;
  std::int64_t k = 1;
  std::int64_t n = 1;
  std::int64_t a_row = 0, a_column = 0;  // strides of op(a)[m, k]
  std::int64_t b_row = 0, b_column = 0;  // strides of op(b)[k, n]
  double alpha = 1.0;

  double at(const double* a, const double* b, std::int64_t row, std::int64_t column) const {
    const double* left = a + row * a_row;
    const double* right = b + column * b_column;
    double sum = 0.0;
    for (std::int64_t i = 0; i < k; ++i) sum += left[i * a_column] * right[i * b_row];
    return alpha * sum;
  }
};

// The matrices of integer operands that start at elements a and b of their buffers.
struct IntegerMatrices {
  const Elements& a;
  const void* a_data;
  std::int64_t a_start;
  const Elements& b;
  const void* b_data;
  std::int64_t b_start;

  Integer at(const Product& product, std::int64_t row, std::int64_t column) const {
    using Wrapping = std::uint64_t;  // every dtype keeps the low bits
    Wrapping sum = 0;
    for (std::int64_t i = 0; i < product.k; ++i) {
      const std::int64_t left = a_start + row * product.a_row + i * product.a_column;
      const std::int64_t right = b_start + i * product.b_row + column * product.b_column;
      sum += static_cast<Wrapping>(a.read<Integer>(a_data, left)) *
             static_cast<Wrapping>(b.read<Integer>(b_data, right));
    }
    // As a number of the operands' dtype, for what alpha multiplies.
    return is_unsigned(a.dtype()) ? Integer{sum} : Integer{static_cast<std::int64_t>(sum)};
  }

 private:
  static bool is_unsigned(DType dtype) {
    return dtype == DType::kUInt32 || dtype == DType::kUInt64;
  }
};

// factor value; exact where the factor is an integer.
Integer scaled(Integer value, double factor) {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (std::trunc(factor) == factor && std::fabs(factor) < kExact) {
    return value * truncated<Integer>(factor);
  }
  return truncated<Integer>(static_cast<double>(value) * factor);
}

bool takes_integers(const Operands& operands) { return is_integer(operands.in(0).dtype); }

// Floating dtypes in any mixture, or one integer dtype.
Status expect_kinds(const Operands& operands) {
  return takes_integers(operands) ? operands.expect_one_dtype() : operands.expect_one_kind(true);
}

// Batched product of row-major a and b: their last two dims are matrices, those before broadcast.
PreparedKernel batched_kernel(const Operands& operands, const TensorDesc& a, const TensorDesc& b,
                              const Product& product, const Dims& batch) {
  // Batch offsets in matrices: dims without the last two, as tensors of their own.
  TensorDesc a_batch = a;
  TensorDesc b_batch = b;
  a_batch.dims.resize(a.dims.size() - 2);
  b_batch.dims.resize(b.dims.size() - 2);
  if (takes_integers(operands)) {
    return make_kernel([loop = broadcast_loop<2>(batch, {&a_batch, &b_batch}),
                        a = Elements(operands.in(0)), b = Elements(operands.in(1)),
                        y = Elements(operands.out(0)), product](const KernelArguments& arguments) {
      std::int64_t place = 0;
      for_each(loop, [&](const std::array<std::int64_t, 2>& matrix) {
        const IntegerMatrices matrices = {
            a, arguments.inputs[0], matrix[0] * product.m * product.k,
            b, arguments.inputs[1], matrix[1] * product.k * product.n};
        for (std::int64_t row = 0; row < product.m; ++row) {
          for (std::int64_t column = 0; column < product.n; ++column) {
            y.write<Integer>(arguments.outputs[0], place++,
                             scaled(matrices.at(product, row, column), product.alpha));
          }
        }
      });
    });
  }
  return make_kernel(
      [loop = broadcast_loop<2>(batch, {&a_batch, &b_batch}), a = Elements(operands.in(0)),
       b = Elements(operands.in(1)), y = Elements(operands.out(0)),
       product](const KernelArguments& arguments) {
        auto* a_values = static_cast<double*>(arguments.workspace);
        double* b_values = a_values + a.count();
        a.unpack(arguments.inputs[0], a_values);
        b.unpack(arguments.inputs[1], b_values);
        std::int64_t place = 0;
        for_each(loop, [&](const std::array<std::int64_t, 2>& matrix) {
          for (std::int64_t row = 0; row < product.m; ++row) {
            for (std::int64_t column = 0; column < product.n; ++column) {
              y.write<double>(
                  arguments.outputs[0], place++,
                  product.at(a_values + matrix[0] * product.m * product.k,
                             b_values + matrix[1] * product.k * product.n, row, column));
            }
          }
        });
      },
      doubles_bytes(operands.in(0).elems() + operands.in(1).elems()));
}

// Reads m, k, n and the strides off two matrices; false if the inner sizes differ.
bool set_matrices(const Dims& a, const Dims& b, bool trans_a, bool trans_b, Product& product) {
  const std::int64_t a_rows = a[a.size() - 2], a_columns = a[a.size() - 1];
  const std::int64_t b_rows = b[b.size() - 2], b_columns = b[b.size() - 1];
  product.m = trans_a ? a_columns : a_rows;
  product.k = trans_a ? a_rows : a_columns;
  product.n = trans_b ? b_rows : b_columns;
  product.a_row = trans_a ? 1 : a_columns;
  product.a_column = trans_a ? a_columns : 1;
  product.b_row = trans_b ? 1 : b_columns;
  product.b_column = trans_b ? b_columns : 1;
  return product.k == (trans_b ? b_columns : b_rows);
}

Status inner_error(const Operands& operands) {
  return operands.in_error(1, "inner sizes of " + format_dims(operands.in(0).dims) + " and " +
                                  format_dims(operands.in(1).dims) + " differ");
}

// Batch dims of the product, or nothing if they do not broadcast.
std::optional<Dims> batch_dims(const Dims& a, const Dims& b) {
  return broadcast_dims(Dims(a.begin(), a.end() - 2), Dims(b.begin(), b.end() - 2));
}

Status batch_error(const Operands& operands) {
  return operands.in_error(1, "batch dims of " + format_dims(operands.in(0).dims) + " and " +
                                  format_dims(operands.in(1).dims) + " do not broadcast");
}

}  // namespace

// numpy.matmul: a vector counts as a row (a) or column (b), and its dim is gone from the result.
PreparedKernel prepare_matmul(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "a:n b:n -> y:n"));
  MEZZO_RETURN_IF_ERROR(expect_kinds(operands));
  MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(0, 1, kMaxRank));
  MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(1, 1, kMaxRank));
  TensorDesc a = operands.in(0);
  TensorDesc b = operands.in(1);
  a.layout = b.layout = Layout::kRowMajor;  // as unpacked
  const bool a_vector = a.dims.size() == 1;
  const bool b_vector = b.dims.size() == 1;
  if (a_vector) a.dims.insert(a.dims.begin(), 1);
  if (b_vector) b.dims.push_back(1);
  Product product;
  if (!set_matrices(a.dims, b.dims, false, false, product)) return inner_error(operands);
  const auto batch = batch_dims(a.dims, b.dims);
  if (!batch) return batch_error(operands);
  Dims dims = *batch;
  if (!a_vector) dims.push_back(product.m);
  if (!b_vector) dims.push_back(product.n);
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, dims));
  return batched_kernel(operands, a, b, product, *batch);
}

PreparedKernel prepare_matmul_t(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "a:n b:n -> y:n"));
  MEZZO_RETURN_IF_ERROR(expect_kinds(operands));
  MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(0, 2, kMaxRank));
  const std::size_t rank = operands.in(0).dims.size();
  if (operands.in(1).dims.size() != 2)
    MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(1, rank, rank));
  MEZZO_ASSIGN_OR_RETURN(const bool trans_a, operands.flag("trans_a", false));
  MEZZO_ASSIGN_OR_RETURN(const bool trans_b, operands.flag("trans_b", false));
  TensorDesc a = operands.in(0);
  TensorDesc b = operands.in(1);
  a.layout = b.layout = Layout::kRowMajor;
  Product product;
  product.alpha = request.attributes.get_float("alpha", 1.0);
  if (!set_matrices(a.dims, b.dims, trans_a, trans_b, product)) return inner_error(operands);
  const auto batch = batch_dims(a.dims, b.dims);
  if (!batch) return batch_error(operands);
  Dims dims = *batch;
  dims.push_back(product.m);
  dims.push_back(product.n);
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, dims));
  return batched_kernel(operands, a, b, product, *batch);
}

// y[M,N] = alpha op(a) op(b) + beta c; c broadcasts to [M,N] and is not read where beta is 0.
PreparedKernel prepare_gemm(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "a:n b:n c?:n -> y:n"));
  MEZZO_RETURN_IF_ERROR(expect_kinds(operands));
  MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(0, 2, 2));
  MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(1, 2, 2));
  MEZZO_ASSIGN_OR_RETURN(const bool trans_a, operands.flag("transA", false));
  MEZZO_ASSIGN_OR_RETURN(const bool trans_b, operands.flag("transB", false));
  Product product;
  product.alpha = request.attributes.get_float("alpha", 1.0);
  if (!set_matrices(operands.in(0).dims, operands.in(1).dims, trans_a, trans_b, product)) {
    return inner_error(operands);
  }
  const Dims dims = {product.m, product.n};
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, dims));
  const bool has_c = operands.in(2).present();
  if (has_c && !broadcasts_to(operands.in(2).dims, dims)) {
    return operands.in_error(2, "dims " + format_dims(operands.in(2).dims) +
                                    " do not broadcast to " + format_dims(dims));
  }
  const double beta = has_c ? request.attributes.get_float("beta", 1.0) : 0.0;
  const Dims c_strides = has_c ? broadcast_strides(operands.in(2), dims) : Dims{0, 0};
  if (takes_integers(operands)) {
    return make_kernel([a = Elements(operands.in(0)), b = Elements(operands.in(1)),
                        c = Elements(operands.in(2)), y = Elements(operands.out(0)), product, beta,
                        c_strides](const KernelArguments& arguments) {
      const IntegerMatrices matrices = {a, arguments.inputs[0], 0, b, arguments.inputs[1], 0};
      for (std::int64_t row = 0; row < product.m; ++row) {
        for (std::int64_t column = 0; column < product.n; ++column) {
          Integer value = scaled(matrices.at(product, row, column), product.alpha);
          if (beta != 0.0) {
            const std::int64_t place = row * c_strides[0] + column * c_strides[1];
            value += scaled(c.read_at<Integer>(arguments.inputs[2], place), beta);
          }
          y.write<Integer>(arguments.outputs[0], row * product.n + column, value);
        }
      }
    });
  }
  return make_kernel(
      [a = Elements(operands.in(0)), b = Elements(operands.in(1)), c = Elements(operands.in(2)),
       y = Elements(operands.out(0)), product, beta, c_strides](const KernelArguments& arguments) {
        auto* a_values = static_cast<double*>(arguments.workspace);
        double* b_values = a_values + a.count();
        a.unpack(arguments.inputs[0], a_values);
        b.unpack(arguments.inputs[1], b_values);
        for (std::int64_t row = 0; row < product.m; ++row) {
          for (std::int64_t column = 0; column < product.n; ++column) {
            double value = product.at(a_values, b_values, row, column);
            if (beta != 0.0) {
              value += beta * c.read_at<double>(arguments.inputs[2],
                                                row * c_strides[0] + column * c_strides[1]);
            }
            y.write<double>(arguments.outputs[0], row * product.n + column, value);
          }
        }
      },
      doubles_bytes(operands.in(0).elems() + operands.in(1).elems()));
}

}  // namespace mezzo::kernels::reference
