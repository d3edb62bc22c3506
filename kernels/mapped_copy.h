// Moves elements to a result whose every dim names, per index, where in the operand it comes from:
// Pad with its modes, Resize to the nearest element.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mezzo::kernels {

// Per dim of the result and index along it: the operand's index along the dim, or kFill for the
// fill element. Dense row-major operand and result.
class MappedCopy {
 public:
  static constexpr std::int64_t kFill = -1;

  // `maps` has one list per dim, as long as the result's dim. REQUIRES: entries are kFill or in
  // [0, from_dims[d]); element_bytes is 1, 2, 4, 8 or 16.
  static MappedCopy make(const std::vector<std::int64_t>& from_dims,
                         std::vector<std::vector<std::int64_t>> maps, std::size_t element_bytes);

  // Rows may be made in any order and on any thread.
  std::int64_t rows() const { return rows_; }
  std::size_t row_bytes() const { return row_bytes_; }
  // `fill` points to one element; null where no map holds kFill.
  void run(const void* from, void* to, const void* fill, std::int64_t first_row,
           std::int64_t last_row) const;

 private:
  // Entries of the innermost map that lie one behind the other in the operand, or one alone.
  struct Run {
    std::int64_t to, from, size;  // in units; from kFill: fill
  };
  void make_runs();
  void copy_row(const std::byte* from, std::byte* to, const void* fill) const;
  void fill_units(std::byte* to, const void* fill, std::int64_t units) const;

  std::vector<std::vector<std::int64_t>> outer_;  // per outer dim: offsets in bytes, or kFill
  std::vector<std::int64_t> inner_;               // innermost mapped dim, in units
  std::vector<Run> runs_;                         // of inner_, where they are long; else empty
  std::size_t element_bytes_ = 1;
  std::size_t unit_bytes_ = 1;  // of the dims behind the innermost mapped one
  std::size_t row_bytes_ = 0;
  std::int64_t rows_ = 1;
  bool fills_ = false;
};

}  // namespace mezzo::kernels
