// Det: determinants of a batch of square matrices, x[.., M, M] -> y[..].
//
// Gaussian elimination in double with the largest pivot of each column; the matrix lies in the
// workspace meanwhile. A matrix of no rows has determinant 1.
#include <cmath>
#include <utility>

#include "compiler/support/text.h"
#include "kernels/reference/element.h"
#include "kernels/reference/families.h"
#include "kernels/reference/operands.h"

namespace mezzo::kernels::reference {
namespace {

// Of the matrix a[m][m], which it destroys.
double determinant(double* a, std::int64_t m) {
  double product = 1.0;
  for (std::int64_t column = 0; column < m; ++column) {
    std::int64_t pivot = column;
    for (std::int64_t row = column + 1; row < m; ++row) {
      if (std::fabs(a[row * m + column]) > std::fabs(a[pivot * m + column])) pivot = row;
    }
    const double head = a[pivot * m + column];
    if (head == 0.0) return 0.0;
    if (pivot != column) {
      for (std::int64_t k = column; k < m; ++k) std::swap(a[pivot * m + k], a[column * m + k]);
      product = -product;
    }
    product *= head;
    for (std::int64_t row = column + 1; row < m; ++row) {
      const double factor = a[row * m + column] / head;
      for (std::int64_t k = column + 1; k < m; ++k) a[row * m + k] -= factor * a[column * m + k];
    }
  }
  return product;
}

}  // namespace

PreparedKernel prepare_det(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "x:f -> y:f"));
  MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(0, 2, kMaxRank));
  const Dims& dims = operands.in(0).dims;
  const std::int64_t m = dims.back();
  if (dims[dims.size() - 2] != m) {
    return operands.in_error(0, "expected square matrices, got dims " + format_dims(dims));
  }
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, Dims(dims.begin(), dims.end() - 2)));
  return make_kernel(
      [m, x = Elements(operands.in(0)),
       y = Elements(operands.out(0))](const KernelArguments& arguments) {
        auto* matrix = static_cast<double*>(arguments.workspace);
        for (std::int64_t i = 0; i < y.count(); ++i) {
          for (std::int64_t k = 0; k < m * m; ++k) {
            matrix[k] = x.read<double>(arguments.inputs[0], i * m * m + k);
          }
          y.write<double>(arguments.outputs[0], i, determinant(matrix, m));
        }
      },
      doubles_bytes(m * m));
}

}  // namespace mezzo::kernels::reference
