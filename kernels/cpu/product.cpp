#include "kernels/cpu/product.h"

namespace mezzo::kernels::cpu {
namespace {

// Below this many products starting threads costs more than it saves.
constexpr double kSerialProducts = 1 << 17;
// Panels that stay in the second-level cache while all rows of a band pass.
constexpr Int kBlockBytes = Int{256} << 10;
constexpr Int kBandRows = 48;  // a multiple of the tiles of every instruction set

Int one_panel_bytes(const Isa& isa, ProductKind kind, Int depth) {
  const Int padded = kind == ProductKind::kPairs ? (depth + 1) / 2 * 2 : depth;
  return isa.panel_columns(kind) * padded * operand_bytes(kind);
}

}  // namespace

Int panel_bytes(const Isa& isa, ProductKind kind, Int columns, Int depth) {
  return ceil_div(columns, isa.panel_columns(kind)) * one_panel_bytes(isa, kind, depth);
}

void pack_panels(const Isa& isa, ProductKind kind, const void* b, Int k_stride, Int j_stride,
                 Int columns, Int depth, void* to, int threads) {
  const Int width = isa.panel_columns(kind);
  parallel_units(
      ceil_div(columns, width), threads_for(columns * depth, threads), [&](Int panel, int) {
        const Int first = panel * width;
        const auto* from = static_cast<const char*>(b) + first * j_stride * operand_bytes(kind);
        isa.pack_panels(kind, from, k_stride, j_stride, std::min(width, columns - first), depth,
                        static_cast<char*>(to) + panel * one_panel_bytes(isa, kind, depth));
      });
}

void run_product(const Isa& isa, const Product& product, const void* a, const void* panels, void* c,
                 int threads) {
  if (product.rows == 0 || product.columns == 0) return;
  const ProductKind kind = product.kind;
  const Int panel = std::max<Int>(1, one_panel_bytes(isa, kind, product.depth));
  const Int width = std::max<Int>(1, kBlockBytes / panel) * isa.panel_columns(kind);
  const Int blocks = ceil_div(product.columns, width);
  const Int bands = ceil_div(product.rows, kBandRows);
  const double products = static_cast<double>(product.rows) * static_cast<double>(product.columns) *
                          static_cast<double>(product.depth);
  parallel_units(blocks * bands, products < kSerialProducts ? 1 : threads, [&](Int unit, int) {
    const Int column = unit / bands * width;
    const Int row = unit % bands * kBandRows;
    const auto* left = static_cast<const char*>(a) + row * product.a_stride * operand_bytes(kind);
    const auto* right = static_cast<const char*>(panels) + column / isa.panel_columns(kind) * panel;
    auto* sums = static_cast<char*>(c) + (row * product.c_stride + column) * sum_bytes(kind);
    isa.multiply(kind, left, product.a_stride, right, sums, product.c_stride,
                 std::min(kBandRows, product.rows - row), std::min(width, product.columns - column),
                 product.depth);
  });
}

}  // namespace mezzo::kernels::cpu
