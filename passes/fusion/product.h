// The products that passes of this folder look for: MatMul, MatMulT and Gemm, in one form.
#pragma once

#include <optional>
#include <vector>

#include "compiler/ir/graph.h"

namespace mezzo::passes {

// y = alpha op(a) op(b) + bias, as MatMulT has it. All dims are known.
struct Product {
  Node* node = nullptr;
  Value* a = nullptr;
  Value* b = nullptr;
  Value* bias = nullptr;  // of a Gemm: one number per column; null: none
  bool trans_a = false, trans_b = false;
  float alpha = 1.0F;
  std::vector<std::int64_t> y;  // dims

  std::int64_t columns() const { return y.back(); }
  // b is one matrix, and the rows of a lie one after the other.
  bool is_flat = false;
};

// Nothing if `node` is none, has another addend than a row, integers or vectors as operands, or
// nothing to compute.
std::optional<Product> read_product(Node& node);

// True if cuBLASLt multiplies `operands` (both alike) into `result`.
bool library_multiplies(DType operands, DType result);

}  // namespace mezzo::passes
