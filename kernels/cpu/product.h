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
// Bytes of b[depth][columns] in panels, a multiple of 64.
Int panel_bytes(const Isa& isa, ProductKind kind, Int columns, Int depth);
// b[k][j] at b + (k k_stride + j j_stride) elements, into panels.
void pack_panels(const Isa& isa, ProductKind kind, const void* b, Int k_stride, Int j_stride,
                 Int columns, Int depth, void* to, int threads);

// c[i][j] = sum over k of a[i][k] b[k][j]; strides in elements. kPairs reads one element behind
// rows of odd depth.
struct Product {
  ProductKind kind = ProductKind::kFloat32;
  Int rows = 0, columns = 0, depth = 0;
  Int a_stride = 0, c_stride = 0;
};
void run_product(const Isa& isa, const Product& product, const void* a, const void* panels, void* c,
                 int threads);

}  // namespace mezzo::kernels::cpu
