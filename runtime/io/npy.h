// The header of numpy's array format (.npy), versions 1 to 3.
// Format: numpy.lib.format; the header is a Python dict literal padded with blanks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/support/dtype.h"
#include "compiler/support/status.h"

namespace mezzo::runtime {

struct NpyHeader {
  DType dtype = DType::kNone;
  std::vector<std::int64_t> shape;  // every dimension >= 0
  bool fortran_order = false;       // first dimension fastest; false where it makes no difference
  std::uint64_t data_offset = 0;    // bytes from the magic to the first element
  std::uint64_t elems = 0;
  std::uint64_t data_bytes = 0;  // elems x element size; no overflow
};

// Bytes that hold any header we accept (64 KiB; numpy's own are below 1 KiB).
inline constexpr std::size_t kMaxNpyHeaderBytes = std::size_t{1} << 16;

// Reads the header at the start of `bytes`, which may end anywhere after it. `where` starts every
// error. Unimplemented: big-endian, complex, text, object, structured and unnamed (|V2) elements.
StatusOr<NpyHeader> read_npy_header(std::span<const std::byte> bytes, std::string_view where);

// A version 1 header (version 3 if the shape is very long) for C order, a multiple of 64 bytes
// long. Unimplemented: a dtype that numpy does not have.
StatusOr<std::string> make_npy_header(DType dtype, std::span<const std::int64_t> shape);

// Copies elements of `elem_bytes` each from Fortran order to C order.
// REQUIRES: both hold the product of `shape` elements.
void reorder_from_fortran(std::span<const std::byte> from, std::span<std::byte> to,
                          std::span<const std::int64_t> shape, std::size_t elem_bytes);

}  // namespace mezzo::runtime
