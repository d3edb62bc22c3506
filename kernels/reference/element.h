// How the elements of a tensor are found and decoded. Reference kernels see a tensor as a row of
// doubles (floating dtypes) or of wide integers (integer dtypes, bool as 0 or 1), numbered in
// row-major order of the logical dims whatever the layout.
//
// Doubles are rounded once, to nearest even, when stored as float, float16 or bfloat16. Stored as
// an integer they are truncated toward zero and saturate at the type's ends, NaN gives 0 (ONNX
// leaves both open); stored as bool they become x != 0.
#pragma once

#include <cstdint>
#include <type_traits>

#include "compiler/support/dtype.h"
#include "kernels/kernel.h"

namespace mezzo::kernels::reference {

// Holds every int64 and uint64, their sums, and after wrapping their products: stores truncate.
__extension__ typedef __int128 Integer;

constexpr bool is_integer(DType dtype) {
  switch (dtype) {
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64:
    case DType::kUInt8:
    case DType::kUInt16:
    case DType::kUInt32:
    case DType::kUInt64: return true;
    default: return false;
  }
}

// The float16 or bfloat16 nearest to `value`, ties to even, without the double rounding that a
// stop at float would bring.
std::uint16_t double_to_f16(double value);
std::uint16_t double_to_bf16(double value);

// The double nearest to `value` but with a set last bit if that is inexact ("round to odd"), so
// that rounding the result again to float or less gives the correctly rounded `value`.
double integer_to_odd_double(Integer value);

// Access to one operand or result, prepared from its description. REQUIRES: a numeric or bool
// dtype that has a loader (all but packed, float8, complex and string). T: double or Integer.
class Elements {
 public:
  explicit Elements(const TensorDesc& desc);

  std::int64_t count() const { return count_; }
  DType dtype() const { return dtype_; }

  // Offset in elements of the element with row-major number `index`.
  std::int64_t offset(std::int64_t index) const {
    if (channels_ == 0) return index;
    const std::int64_t plane = index / pixels_;
    return (plane / channels_ * pixels_ + index % pixels_) * channels_ + plane % channels_;
  }

  // At row-major number `index`.
  template <typename T>
  T read(const void* data, std::int64_t index) const {
    return read_at<T>(data, offset(index));
  }
  template <typename T>
  void write(void* data, std::int64_t index, T value) const {
    write_at<T>(data, offset(index), value);
  }

  // At an offset in elements from the buffer's start.
  template <typename T>
  T read_at(const void* data, std::int64_t offset) const {
    if constexpr (std::is_same_v<T, double>) {
      return load_double_(data, offset);
    } else {
      return load_integer_(data, offset);
    }
  }
  template <typename T>
  void write_at(void* data, std::int64_t offset, T value) const {
    if constexpr (std::is_same_v<T, double>) {
      store_double_(data, offset, value);
    } else {
      store_integer_(data, offset, value);
    }
  }

  // All elements, in row-major order, to or from `count()` doubles.
  void unpack(const void* data, double* to) const;
  void pack(const double* from, void* data) const;

 private:
  double (*load_double_)(const void*, std::int64_t) = nullptr;
  Integer (*load_integer_)(const void*, std::int64_t) = nullptr;
  void (*store_double_)(void*, std::int64_t, double) = nullptr;
  void (*store_integer_)(void*, std::int64_t, Integer) = nullptr;
  DType dtype_;
  std::int64_t count_ = 0;
  std::int64_t channels_ = 0;  // 0: row-major
  std::int64_t pixels_ = 1;    // elements of one channel
};

// True if Elements can hold a tensor of this dtype.
bool has_elements(DType dtype);

}  // namespace mezzo::kernels::reference
