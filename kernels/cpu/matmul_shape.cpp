#include "kernels/cpu/matmul_shape.h"

namespace mezzo::kernels::cpu {
namespace {

// For every index of `dims`, the number of the matrix in an operand with batch dims `own`.
std::vector<Int> matrix_numbers(const Dims& dims, const Dims& own) {
  const TensorDesc desc = {DType::kFloat32, own};
  const Dims strides = strides_within(desc, dims);
  std::vector<Int> numbers;
  Dims index(dims.size(), 0);
  Int count = 1;
  for (const Int dim : dims) count *= dim;
  for (Int i = 0; i < count; ++i) {
    Int at = 0;
    for (std::size_t d = 0; d < dims.size(); ++d) at += index[d] * strides[d];
    numbers.push_back(at);
    for (std::size_t d = dims.size(); d > 0 && ++index[d - 1] == dims[d - 1]; --d) index[d - 1] = 0;
  }
  return numbers;
}

constexpr Int kMostBatches = Int{1} << 24;  // the plan keeps their numbers

}  // namespace

StatusOr<MatrixShape> read_matrices(const TensorDesc& a, const TensorDesc& b, bool trans_a,
                                    bool trans_b) {
  if (a.layout != Layout::kRowMajor || b.layout != Layout::kRowMajor) {
    return unimplemented("channels-last matrices");
  }
  Dims a_dims = a.dims;
  Dims b_dims = b.dims;
  if (a_dims.size() == 1) a_dims.insert(a_dims.begin(), 1);
  if (b_dims.size() == 1) b_dims.push_back(1);
  MatrixShape shape;
  const auto read_side = [](const Dims& dims, bool along_depth, MatrixSide& side) {
    const Int outer = dims.end()[-2];
    const Int inner = dims.end()[-1];
    side.rows = along_depth ? outer : inner;
    side.depth = along_depth ? inner : outer;
    side.row_stride = along_depth ? inner : 1;
    side.depth_stride = along_depth ? 1 : inner;
  };
  read_side(a_dims, !trans_a, shape.a);
  read_side(b_dims, trans_b, shape.b);
  const Dims a_batch(a_dims.begin(), a_dims.end() - 2);
  const Dims b_batch(b_dims.begin(), b_dims.end() - 2);
  Dims batch(std::max(a_batch.size(), b_batch.size()), 1);
  for (const Dims* own : {&a_batch, &b_batch}) {
    for (std::size_t i = 0; i < own->size(); ++i) {
      Int& dim = batch[batch.size() - own->size() + i];
      if ((*own)[i] != 1) dim = (*own)[i];
    }
  }
  for (const Int dim : batch) shape.batches *= dim;
  if (shape.batches > kMostBatches) return unimplemented("2^24 matrices or more");
  for (const Int dim : a_batch) shape.a.matrices *= dim;
  for (const Int dim : b_batch) shape.b.matrices *= dim;
  shape.a.batch = matrix_numbers(batch, a_batch);
  shape.b.batch = matrix_numbers(batch, b_batch);
  return shape;
}

}  // namespace mezzo::kernels::cpu
