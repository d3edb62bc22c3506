#include "runtime/train/padded_copy.h"

#include <algorithm>
#include <string>
#include <vector>

#include "compiler/support/text.h"

namespace mezzo::runtime {
namespace {

std::int64_t count(std::span<const std::int64_t> dims) {
  std::int64_t product = 1;
  for (const std::int64_t dim : dims) product *= dim;
  return product;
}

// Calls row(offset in the padded tensor, offset in the logical one, elements) for every row along
// the last dimension of the logical tensor.
template <typename Row>
void for_each_row(std::span<const std::int64_t> dims, std::span<const std::int64_t> padded,
                  const Row& row) {
  if (count(dims) == 0) return;
  if (dims.empty()) return row(0, 0, 1);
  const std::size_t last = dims.size() - 1;
  std::vector<std::int64_t> stride(dims.size(), 1);  // of the padded tensor
  for (std::size_t i = last; i > 0; --i) stride[i - 1] = stride[i] * padded[i];
  std::vector<std::int64_t> index(last, 0);
  std::int64_t at = 0;
  const std::int64_t rows = count(dims) / dims[last];
  for (std::int64_t done = 0; done < rows; ++done) {
    row(at, done * dims[last], dims[last]);
    for (std::size_t i = last; i-- > 0;) {
      at += stride[i];
      if (++index[i] < dims[i]) break;
      at -= stride[i] * dims[i];
      index[i] = 0;
    }
  }
}

}  // namespace

Status check_padding(std::string_view name, std::span<const std::int64_t> dims,
                     std::span<const std::int64_t> padded) {
  const bool fits =
      dims.size() == padded.size() &&
      std::equal(dims.begin(), dims.end(), padded.begin(),
                 [](auto logical, auto whole) { return 0 <= logical && logical <= whole; });
  if (fits) return ok_status();
  return invalid_argument("tensor '" + printable(name) + "': shape " + format_dims(dims) +
                          " is not a part of the padded shape " + format_dims(padded));
}

void copy_without_padding(const float* from, std::span<const std::int64_t> padded, float* to,
                          std::span<const std::int64_t> dims) {
  for_each_row(dims, padded, [&](std::int64_t in_padded, std::int64_t in_logical, std::int64_t n) {
    std::copy_n(from + in_padded, n, to + in_logical);
  });
}

void copy_with_padding(const float* from, std::span<const std::int64_t> dims, float* to,
                       std::span<const std::int64_t> padded) {
  std::fill_n(to, count(padded), 0.0F);
  for_each_row(dims, padded, [&](std::int64_t in_padded, std::int64_t in_logical, std::int64_t n) {
    std::copy_n(from + in_logical, n, to + in_padded);
  });
}

}  // namespace mezzo::runtime
