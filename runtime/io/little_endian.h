// Little-endian numbers in byte buffers, at any alignment.
#pragma once

#include <bit>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>

namespace mezzo::runtime {

// Files are read and written by plain copies of numbers.
static_assert(std::endian::native == std::endian::little, "mezzo needs a little-endian machine");

// REQUIRES: offset + sizeof(Number) <= bytes.size().
template <typename Number>
Number load(std::span<const std::byte> bytes, std::size_t offset) {
  Number value;
  std::memcpy(&value, bytes.data() + offset, sizeof(Number));
  return value;
}

template <typename Number>
void append(std::string& to, Number value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof(Number));
}

}  // namespace mezzo::runtime
