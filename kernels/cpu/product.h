// Matrix products in own code, with threads: for the dtypes and forms that oneDNN does not take.
#pragma once

#include "kernels/cpu/common.h"

namespace mezzo::kernels::cpu {

constexpr Int operand_bytes(ProductKind kind) {
  switch (kind) {
    case ProductKind::kFloat32:
    case ProductKind::kInt32: return 4;
    case ProductKind::kPairs: return 2;
    default: return 8;
  }
}
constexpr Int sum_bytes(ProductKind kind) {
  return kind == ProductKind::kPairs ? 4 : operand_bytes(kind);
}

// c[i][j] = sum over k of a[i][k] b[j][k]; strides in elements.
struct Product {
  ProductKind kind = ProductKind::kFloat32;
  Int rows = 0, columns = 0, depth = 0;
  Int a_stride = 0, b_stride = 0, c_stride = 0;
};
void run_product(const Isa& isa, const Product& product, const void* a, const void* b, void* c,
                 int threads);

}  // namespace mezzo::kernels::cpu
