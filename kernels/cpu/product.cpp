#include "kernels/cpu/product.h"

namespace mezzo::kernels::cpu {
namespace {

// Below this many products starting threads costs more than it saves.
constexpr double kSerialProducts = 1 << 17;
// A block of b that stays in the second-level cache while all rows of a pass.
constexpr Int kBlockBytes = Int{256} << 10;
constexpr Int kBlockRows = 32;

}  // namespace

void run_product(const Isa& isa, const Product& product, const void* a, const void* b, void* c,
                 int threads) {
  if (product.rows == 0 || product.columns == 0) return;
  const Int row_bytes = std::max<Int>(1, product.depth * operand_bytes(product.kind));
  const Int width = std::clamp<Int>(kBlockBytes / row_bytes / 4 * 4, 4, product.columns + 3);
  const Int blocks = ceil_div(product.columns, width);
  const Int bands = ceil_div(product.rows, kBlockRows);
  const double products = static_cast<double>(product.rows) * static_cast<double>(product.columns) *
                          static_cast<double>(product.depth);
  parallel_units(blocks * bands, products < kSerialProducts ? 1 : threads, [&](Int unit, int) {
    const Int column = unit / bands * width;
    const Int row = unit % bands * kBlockRows;
    const auto* left =
        static_cast<const char*>(a) + row * product.a_stride * operand_bytes(product.kind);
    const auto* right =
        static_cast<const char*>(b) + column * product.b_stride * operand_bytes(product.kind);
    auto* sums =
        static_cast<char*>(c) + (row * product.c_stride + column) * sum_bytes(product.kind);
    isa.multiply(product.kind, left, product.a_stride, right, product.b_stride, sums,
                 product.c_stride, std::min(kBlockRows, product.rows - row),
                 std::min(width, product.columns - column), product.depth);
  });
}

}  // namespace mezzo::kernels::cpu
