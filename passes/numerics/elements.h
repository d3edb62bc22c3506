// The elements of a tensor as numbers, whatever their type.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "compiler/interpreter/value.h"
#include "compiler/support/status.h"

namespace mezzo::numerics {

// Can its elements be read as doubles? (floating, integer and bool types)
bool is_numeric(DType dtype);

// Elements `first` to `first + count` as doubles; integers of 64 bits round. REQUIRES: is_numeric,
// and the range lies within the tensor.
void read_elements(const HostTensor& tensor, std::int64_t first, std::int64_t count, double* to);

// Calls visit(first, span of doubles) piece by piece; 32 KiB at a time, so that memory stays small.
template <typename Visit>
void for_each_piece(const HostTensor& tensor, const Visit& visit) {
  constexpr std::int64_t kPiece = 4096;
  std::vector<double> piece(static_cast<std::size_t>(std::min(kPiece, tensor.elems())));
  for (std::int64_t first = 0; first < tensor.elems(); first += kPiece) {
    const std::int64_t count = std::min(kPiece, tensor.elems() - first);
    read_elements(tensor, first, count, piece.data());
    visit(first, std::span<const double>(piece.data(), static_cast<std::size_t>(count)));
  }
}

// Memory for that many elements, aligned as tensors are.
std::shared_ptr<float> float_block(std::size_t elems);

// f of every element, in memory of its own. REQUIRES: tensor.dtype is kFloat32.
template <typename F>
HostTensor mapped(const HostTensor& tensor, const F& f) {
  const auto elems = static_cast<std::size_t>(tensor.elems());
  const std::shared_ptr<float> block = float_block(elems);
  const float* from = tensor.data_as<float>();
  for (std::size_t i = 0; i < elems; ++i) block.get()[i] = f(from[i]);
  HostTensor result = tensor;
  result.data = {block, reinterpret_cast<const std::byte*>(block.get())};
  return result;
}

}  // namespace mezzo::numerics
