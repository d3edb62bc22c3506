// Det: determinants of a batch of square matrices, x[.., M, M] -> y[..], and its gradient.
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

namespace {

// Elimination with the largest pivot of all that is left, rows and columns exchanged: P A Q = L U.
struct FullElimination {
  double* a;        // [m][m]: A, then L below the diagonal and U from it on
  double* rows;     // [m]: row i of P A Q is row rows[i] of A
  double* columns;  // [m]
  std::int64_t m;
  double sign = 1.0;  // det P det Q
  double head = 1.0;  // the product of all pivots but the last

  double& at(std::int64_t i, std::int64_t j) const { return a[i * m + j]; }

  // False: the rank is below m - 1.
  bool run() {
    for (std::int64_t i = 0; i < m; ++i) rows[i] = columns[i] = static_cast<double>(i);
    for (std::int64_t step = 0; step < m - 1; ++step) {
      bring_pivot(step);
      const double pivot = at(step, step);
      if (pivot == 0.0) return false;
      head *= pivot;
      for (std::int64_t i = step + 1; i < m; ++i) {
        const double factor = at(i, step) /= pivot;
        for (std::int64_t j = step + 1; j < m; ++j) at(i, j) -= factor * at(step, j);
      }
    }
    return true;
  }

 private:
  void bring_pivot(std::int64_t step) {
    std::int64_t row = step, column = step;
    for (std::int64_t i = step; i < m; ++i) {
      for (std::int64_t j = step; j < m; ++j) {
        if (std::fabs(at(i, j)) > std::fabs(at(row, column))) row = i, column = j;
      }
    }
    if (row != step) {
      for (std::int64_t j = 0; j < m; ++j) std::swap(at(row, j), at(step, j));
      std::swap(rows[row], rows[step]);
      sign = -sign;
    }
    if (column != step) {
      for (std::int64_t i = 0; i < m; ++i) std::swap(at(i, column), at(i, step));
      std::swap(columns[column], columns[step]);
      sign = -sign;
    }
  }
};

// Column `c` of adj(U) L^-1 into w[m]. With U = [V u; 0 d], adj(U) = det V [d V^-1, -V^-1 u; 0, 1]:
// nothing is divided by d, which is 0 where the matrix is singular.
void adjugate_column(const FullElimination& e, std::int64_t c, double* w) {
  const std::int64_t last = e.m - 1;
  for (std::int64_t i = 0; i < e.m; ++i) {  // L z = unit vector c
    w[i] = i == c ? 1.0 : 0.0;
    for (std::int64_t j = 0; j < i; ++j) w[i] -= e.at(i, j) * w[j];
  }
  const double bottom = w[last];
  for (std::int64_t i = 0; i < last; ++i) {
    w[i] = e.head * (e.at(last, last) * w[i] - e.at(i, last) * bottom);
  }
  for (std::int64_t i = last - 1; i >= 0; --i) {
    for (std::int64_t j = i + 1; j < last; ++j) w[i] -= e.at(i, j) * w[j];
    w[i] /= e.at(i, i);
  }
  w[last] = e.head * bottom;
}

}  // namespace

// dx = dy times the cofactors of x, which exist for singular matrices too; those of a matrix whose
// rank is below M - 1 are 0. dy[..], x[.., M, M] -> dx.
PreparedKernel prepare_det_grad(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "dy:f x:f -> dx:f"));
  MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(1, 2, kMaxRank));
  const Dims& dims = operands.in(1).dims;
  const std::int64_t m = dims.back();
  if (dims[dims.size() - 2] != m) {
    return operands.in_error(1, "expected square matrices, got dims " + format_dims(dims));
  }
  MEZZO_RETURN_IF_ERROR(operands.expect_in(0, Dims(dims.begin(), dims.end() - 2)));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, dims));
  return make_kernel(
      [m, dy = Elements(operands.in(0)), x = Elements(operands.in(1)),
       dx = Elements(operands.out(0))](const KernelArguments& arguments) {
        auto* matrix = static_cast<double*>(arguments.workspace);
        double* rows = matrix + m * m;
        double* column = rows + 2 * m;
        for (std::int64_t n = 0; m > 0 && n < dy.count(); ++n) {
          const std::int64_t start = n * m * m;
          for (std::int64_t k = 0; k < m * m; ++k) {
            matrix[k] = x.read<double>(arguments.inputs[1], start + k);
            dx.write<double>(arguments.outputs[0], start + k, 0.0);
          }
          FullElimination elimination{matrix, rows, rows + m, m};
          if (!elimination.run()) continue;
          const double factor = dy.read<double>(arguments.inputs[0], n) * elimination.sign;
          for (std::int64_t c = 0; c < m; ++c) {
            adjugate_column(elimination, c, column);
            const auto row = static_cast<std::int64_t>(rows[c]);
            for (std::int64_t i = 0; i < m; ++i) {
              const auto place = static_cast<std::int64_t>(rows[m + i]);
              dx.write<double>(arguments.outputs[0], start + row * m + place, factor * column[i]);
            }
          }
        }
      },
      doubles_bytes(m * m + 3 * m));
}

}  // namespace mezzo::kernels::reference
