// The matrices of a batched product. Letters: M K N matrix sizes.
#pragma once

#include <vector>

#include "kernels/cpu/common.h"
#include "kernels/cpu/strided.h"

namespace mezzo::kernels::cpu {

// An operand's matrices: rows x depth (b: columns x depth), found in the buffer by strides.
struct MatrixSide {
  Int rows = 1, depth = 1;
  Int row_stride = 0, depth_stride = 1;
  Int matrices = 1;
  std::vector<Int> batch;  // number of the matrix for every matrix of the result

  Int elems() const { return rows * depth; }
  bool along_depth() const { return depth_stride == 1 || depth <= 1; }
};

struct MatrixShape {
  MatrixSide a, b;
  Int batches = 1;
};

// numpy's rules: vectors are a row of a, a column of b. The reference has checked that all fits.
StatusOr<MatrixShape> read_matrices(const TensorDesc& a, const TensorDesc& b, bool trans_a,
                                    bool trans_b);

}  // namespace mezzo::kernels::cpu
