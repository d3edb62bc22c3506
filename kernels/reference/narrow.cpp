#include "kernels/reference/narrow.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace mezzo::kernels::reference {
namespace {

// Sign, exponent, mantissa; exponents count up from that of the subnormal numbers.
struct Format {
  int bits;
  int mantissa_bits;
  int least_exponent;  // of normal numbers
  double greatest;
  unsigned nan;        // the code of the NaN that is written
  unsigned infinity;   // 0: there is none
  bool unsigned_zero;  // -0 is NaN
  bool always_saturates;
};

constexpr Format kE4M3FN{8, 3, -6, 448.0, 0x7f, 0, false, false};
constexpr Format kE4M3FNUZ{8, 3, -7, 240.0, 0x80, 0, true, false};
constexpr Format kE5M2{8, 2, -14, 57344.0, 0x7e, 0x7c, false, false};
constexpr Format kE5M2FNUZ{8, 2, -15, 57344.0, 0x80, 0, true, false};
constexpr Format kE2M1{4, 1, 0, 6.0, 0x8, 0, false, true};  // no NaN: -0, as ONNX's cases have it

const Format& format_of(DType dtype) {
  switch (dtype) {
    case DType::kFloat8E4M3FN: return kE4M3FN;
    case DType::kFloat8E4M3FNUZ: return kE4M3FNUZ;
    case DType::kFloat8E5M2: return kE5M2;
    case DType::kFloat8E5M2FNUZ: return kE5M2FNUZ;
    default: return kE2M1;
  }
}

double decode(const Format& format, unsigned code) {
  const unsigned sign_bit = 1U << (format.bits - 1);
  const unsigned magnitude = code & (sign_bit - 1);
  const double sign = (code & sign_bit) != 0 ? -1.0 : 1.0;
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  if (format.unsigned_zero && code == format.nan) return kNan;
  if (format.infinity != 0 && magnitude >= format.infinity) {
    return magnitude == format.infinity ? sign * std::numeric_limits<double>::infinity() : kNan;
  }
  if (!format.unsigned_zero && !format.always_saturates && magnitude == format.nan) return kNan;
  const int field = static_cast<int>(magnitude >> format.mantissa_bits);
  const unsigned mantissa = magnitude & ((1U << format.mantissa_bits) - 1);
  const double whole = field == 0 ? mantissa : mantissa + (1U << format.mantissa_bits);
  const int exponent = std::max(field, 1) - 1 + format.least_exponent;
  return sign * std::ldexp(whole, exponent - format.mantissa_bits);
}

unsigned encode_magnitude(const Format& format, double value) {
  if (value == 0.0) return 0;
  const int exponent = std::max(std::ilogb(value), format.least_exponent);
  const auto whole =
      static_cast<unsigned>(std::ldexp(value, format.mantissa_bits - exponent));  // exact
  // A normal number's leading bit adds one to the field.
  return (static_cast<unsigned>(exponent - format.least_exponent) << format.mantissa_bits) + whole;
}

unsigned encode(const Format& format, double value, bool saturate) {
  if (std::isnan(value)) return format.nan;
  double magnitude = std::fabs(value);
  if (magnitude != 0.0 && std::isfinite(magnitude)) {
    const int exponent = std::max(std::ilogb(magnitude), format.least_exponent);
    const int last = exponent - format.mantissa_bits;
    magnitude = std::ldexp(std::nearbyint(std::ldexp(magnitude, -last)), last);
  }
  const unsigned sign = std::signbit(value) ? 1U << (format.bits - 1) : 0U;
  if (magnitude > format.greatest) {
    if (saturate || format.always_saturates)
      magnitude = format.greatest;
    else if (format.infinity != 0)
      return sign | format.infinity;
    else
      return format.unsigned_zero ? format.nan : sign | format.nan;
  }
  const unsigned code = encode_magnitude(format, magnitude);
  return code == 0 && format.unsigned_zero ? 0 : sign | code;
}

// Powers of two from 2^-127 to 2^127, 0xff is NaN. Of a negative number the magnitude counts.
unsigned encode_power(double value, const Narrowing& narrowing) {
  constexpr unsigned kNan = 0xff;
  if (std::isnan(value)) return kNan;
  const double magnitude = std::fabs(value);
  if (magnitude == 0.0) return narrowing.saturate ? 0 : kNan;
  if (std::isinf(magnitude)) return narrowing.saturate ? 0xfe : kNan;
  int exponent = std::ilogb(magnitude);
  const double part = std::ldexp(magnitude, -exponent);  // in [1, 2)
  const bool up = narrowing.power == Narrowing::Power::kUp        ? part > 1.0
                  : narrowing.power == Narrowing::Power::kNearest ? part >= 1.5
                                                                  : false;
  exponent += up ? 1 : 0;
  if (!narrowing.saturate && (exponent < -127 || exponent > 127)) return kNan;
  return static_cast<unsigned>(std::clamp(exponent, -127, 127) + 127);
}

}  // namespace

bool is_narrow_float(DType dtype) {
  switch (dtype) {
    case DType::kFloat8E4M3FN:
    case DType::kFloat8E4M3FNUZ:
    case DType::kFloat8E5M2:
    case DType::kFloat8E5M2FNUZ:
    case DType::kFloat8E8M0:
    case DType::kFloat4E2M1: return true;
    default: return false;
  }
}

bool is_narrow_integer(DType dtype) {
  return dtype == DType::kInt4 || dtype == DType::kUInt4 || dtype == DType::kInt2 ||
         dtype == DType::kUInt2;
}

NarrowElements::NarrowElements(DType dtype) : dtype_(dtype), bits_(dtype_bits(dtype)) {}

unsigned NarrowElements::code(const void* data, std::int64_t i) const {
  const std::int64_t bit = i * bits_;
  const unsigned byte = static_cast<const std::uint8_t*>(data)[bit / 8];
  return byte >> (bit % 8) & ((1U << bits_) - 1);
}

void NarrowElements::put(void* data, std::int64_t i, unsigned code) const {
  const std::int64_t bit = i * bits_;
  std::uint8_t& byte = static_cast<std::uint8_t*>(data)[bit / 8];
  const unsigned before = bit % 8 == 0 ? 0U : byte;
  byte = static_cast<std::uint8_t>(before | (code & ((1U << bits_) - 1)) << (bit % 8));
}

double NarrowElements::read(const void* data, std::int64_t i) const {
  const unsigned element = code(data, i);
  switch (dtype_) {
    case DType::kUInt2:
    case DType::kUInt4: return element;
    case DType::kInt2:
    case DType::kInt4: {
      const int half = 1 << (bits_ - 1);
      return (static_cast<int>(element) ^ half) - half;
    }
    case DType::kFloat8E8M0:
      return element == 0xff ? std::numeric_limits<double>::quiet_NaN()
                             : std::ldexp(1.0, static_cast<int>(element) - 127);
    default: return decode(format_of(dtype_), element);
  }
}

void NarrowElements::write_integer(void* data, std::int64_t i, Integer value) const {
  put(data, i, static_cast<unsigned>(static_cast<std::uint64_t>(value)));
}

void NarrowElements::write(void* data, std::int64_t i, double value,
                           const Narrowing& narrowing) const {
  if (is_narrow_integer(dtype_)) {
    const double whole = std::isnan(value) ? 0.0 : std::clamp(std::trunc(value), -0x1p62, 0x1p62);
    write_integer(data, i, static_cast<Integer>(whole));
  } else if (dtype_ == DType::kFloat8E8M0) {
    put(data, i, encode_power(value, narrowing));
  } else {
    put(data, i, encode(format_of(dtype_), value, narrowing.saturate));
  }
}

}  // namespace mezzo::kernels::reference
