#include "kernels/onednn/matmul_shape.h"

#include <algorithm>
#include <utility>

#include "compiler/support/text.h"

namespace mezzo::kernels::onednn {
namespace {

// One batch dimension of the product.
struct Batch {
  std::int64_t size;
  std::int64_t a_stride;  // 0: broadcast
  std::int64_t b_stride;
  std::int64_t y_stride;
};

Strided matrix(const Dims& dims, Transposed transposed, bool vector_is_row) {
  Strided full{dims, dense_strides(dims, Layout::kRowMajor)};
  if (dims.size() == 1) {
    const auto at = vector_is_row ? full.dims.begin() : full.dims.end();
    const auto at_stride = vector_is_row ? full.strides.begin() : full.strides.end();
    full.dims.insert(at, 1);
    full.strides.insert(at_stride, 1);
  }
  if (transposed == Transposed::kYes) {
    std::swap(full.dims.end()[-1], full.dims.end()[-2]);
    std::swap(full.strides.end()[-1], full.strides.end()[-2]);
  }
  return full;
}

// Size of batch dimension `i` of `count` (counted from the left of the result), 1 if absent.
std::int64_t batch_size(const Strided& operand, std::size_t i, std::size_t count) {
  const std::size_t missing = count - (operand.dims.size() - 2);
  return i < missing ? 1 : operand.dims[i - missing];
}

std::int64_t batch_stride(const Strided& operand, std::size_t i, std::size_t count) {
  const std::size_t missing = count - (operand.dims.size() - 2);
  return batch_size(operand, i, count) == 1 ? 0 : operand.strides[i - missing];
}

Status mismatch(const Dims& a, const Dims& b, const Dims& y) {
  return invalid_argument("operands " + format_dims(a) + " and " + format_dims(b) +
                          " do not multiply to " + format_dims(y));
}

// Neighbours that every operand walks through in equal steps become one dimension.
std::vector<Batch> merge(const std::vector<Batch>& batches) {
  std::vector<Batch> merged;
  for (const Batch& inner : batches) {
    if (inner.size == 1) continue;
    if (!merged.empty()) {
      Batch& outer = merged.back();
      if (outer.a_stride == inner.a_stride * inner.size &&
          outer.b_stride == inner.b_stride * inner.size &&
          outer.y_stride == inner.y_stride * inner.size) {
        outer = {outer.size * inner.size, inner.a_stride, inner.b_stride, inner.y_stride};
        continue;
      }
    }
    merged.push_back(inner);
  }
  return merged;
}

// The innermost batch dimension that only a has continues the rows of a and y.
void fold_into_rows(std::vector<Batch>& batches, Strided& a, Strided& y) {
  while (!batches.empty()) {
    const Batch& last = batches.back();
    const std::int64_t rows = a.dims[0];
    if (last.b_stride != 0 || last.a_stride == 0 || last.a_stride != rows * a.strides[0] ||
        last.y_stride != rows * y.strides[0]) {
      return;
    }
    a.dims[0] *= last.size;
    y.dims[0] *= last.size;
    batches.pop_back();
  }
}

Strided with_batches(const std::vector<Batch>& batches, std::int64_t Batch::*stride,
                     const Strided& matrix) {
  Strided full;
  for (const Batch& batch : batches) {
    const bool broadcast = batch.*stride == 0;
    full.dims.push_back(broadcast ? 1 : batch.size);
    full.strides.push_back(broadcast ? 1 : batch.*stride);
  }
  full.dims.insert(full.dims.end(), matrix.dims.begin(), matrix.dims.end());
  full.strides.insert(full.strides.end(), matrix.strides.begin(), matrix.strides.end());
  // A broadcast dimension's stride is never used, but the library expects it not to overlap.
  for (std::size_t i = batches.size(); i-- > 0;) {
    if (full.dims[i] == 1) full.strides[i] = full.strides[i + 1] * full.dims[i + 1];
  }
  return full;
}

// The matrix of an operand. The stride of a dimension of size 1 means nothing, but the library
// tells transposed matrices by their strides and rejects some that could be either.
Strided last_two(const Strided& operand) {
  Strided matrix{{operand.dims.end() - 2, operand.dims.end()},
                 {operand.strides.end() - 2, operand.strides.end()}};
  if (matrix.dims[1] == 1) {
    matrix.strides[1] = 1;
  } else if (matrix.dims[0] == 1) {
    matrix.strides[0] = matrix.strides[1] == 1 ? matrix.dims[1] : 1;
  }
  return matrix;
}

}  // namespace

StatusOr<MatMulShape> matmul_shape(const Dims& a_dims, Transposed transposed_a, const Dims& b_dims,
                                   Transposed transposed_b, const Dims& y_dims) {
  if (a_dims.empty() || b_dims.empty()) return mismatch(a_dims, b_dims, y_dims);
  const bool transposes_vector = (a_dims.size() == 1 && transposed_a == Transposed::kYes) ||
                                 (b_dims.size() == 1 && transposed_b == Transposed::kYes);
  if (transposes_vector) return mismatch(a_dims, b_dims, y_dims);
  const Strided a = matrix(a_dims, transposed_a, /*vector_is_row=*/true);
  const Strided b = matrix(b_dims, transposed_b, /*vector_is_row=*/false);

  // The result with the vectors' dimensions put back.
  Dims full_y = y_dims;
  const std::size_t vectors = (a_dims.size() == 1 ? 1 : 0) + (b_dims.size() == 1 ? 1 : 0);
  const std::size_t count = std::max(a.dims.size(), b.dims.size()) - 2;
  if (full_y.size() + vectors != count + 2) return mismatch(a_dims, b_dims, y_dims);
  if (b_dims.size() == 1) full_y.push_back(1);
  if (a_dims.size() == 1) full_y.insert(full_y.end() - 1, 1);
  const Strided y{full_y, dense_strides(full_y, Layout::kRowMajor)};

  const std::int64_t depth = a.dims.back();
  bool fits = b.dims.end()[-2] == depth && y.dims.end()[-2] == a.dims.end()[-2] &&
              y.dims.back() == b.dims.back();
  std::vector<Batch> batches;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t a_size = batch_size(a, i, count);
    const std::int64_t b_size = batch_size(b, i, count);
    const std::int64_t size = a_size == 1 ? b_size : a_size;
    fits = fits && (b_size == 1 || b_size == size) && y.dims[i] == size;
    batches.push_back({size, batch_stride(a, i, count), batch_stride(b, i, count), y.strides[i]});
  }
  if (!fits) return mismatch(a_dims, b_dims, y_dims);

  batches = merge(batches);
  Strided a_matrix = last_two(a);
  Strided y_matrix = last_two(y);
  fold_into_rows(batches, a_matrix, y_matrix);
  return MatMulShape{with_batches(batches, &Batch::a_stride, a_matrix),
                     with_batches(batches, &Batch::b_stride, last_two(b)),
                     with_batches(batches, &Batch::y_stride, y_matrix), depth};
}

}  // namespace mezzo::kernels::onednn
