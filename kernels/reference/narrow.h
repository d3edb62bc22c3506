// Elements of 8-bit floats and of types that several share a byte: read and written one by one, for
// casts and quantization.
//
// float8e4m3fn, float8e4m3fnuz, float8e5m2, float8e5m2fnuz, float8e8m0, float4e2m1; int4, uint4,
// int2, uint2. The elements of a byte begin at its low end. Formats: ONNX's pages on 8-bit, 4-bit
// and 2-bit types; float8e8m0: OCP Microscaling Formats 1.0.
#pragma once

#include <cstdint>
#include <string_view>

#include "compiler/support/dtype.h"
#include "kernels/reference/element.h"

namespace mezzo::kernels::reference {

bool is_narrow_float(DType dtype);
bool is_narrow_integer(DType dtype);
inline bool is_narrow(DType dtype) { return is_narrow_float(dtype) || is_narrow_integer(dtype); }

// How numbers become elements of a narrow float.
struct Narrowing {
  bool saturate = true;  // beyond the greatest number: that, otherwise infinity or NaN
  enum class Power : std::uint8_t { kUp, kDown, kNearest } power = Power::kUp;  // float8e8m0
};

// One dtype's elements. REQUIRES: is_narrow(dtype).
class NarrowElements {
 public:
  explicit NarrowElements(DType dtype);

  // Integers as they are; floats exactly.
  double read(const void* data, std::int64_t i) const;
  // The low bits of an integer.
  void write_integer(void* data, std::int64_t i, Integer value) const;
  // Floats: rounded to nearest, halves to even. Integers: truncated, then their low bits.
  void write(void* data, std::int64_t i, double value, const Narrowing& narrowing = {}) const;

 private:
  unsigned code(const void* data, std::int64_t i) const;
  // The first element of a byte clears it: elements must be written in order.
  void put(void* data, std::int64_t i, unsigned code) const;

  DType dtype_;
  int bits_;
};

}  // namespace mezzo::kernels::reference
