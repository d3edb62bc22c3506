// Zero points and scales of 8-bit operands, and the way back to 8 bits.
#pragma once

#include <cmath>
#include <limits>

#include "kernels/cpu/common.h"

namespace mezzo::kernels::cpu {

inline constexpr std::size_t kNoOperand = std::numeric_limits<std::size_t>::max();

// The double of element i of a floating operand.
double read_scale(const void* data, DType dtype, Int i);

// An 8-bit operand: one zero point and scale, one per line, or one per line of each matrix. A line
// is a row of a, a column of b, or an output channel.
struct QuantizedSide {
  std::size_t operand = 0, zero_operand = kNoOperand, scale_operand = kNoOperand;
  bool is_signed = false;
  Int lines = 1;
  Int zeros = 0, scales = 0;  // how many there are; 0: the operand is absent
  DType scale_dtype = DType::kNone;

  static QuantizedSide of(const KernelRequest& request, std::size_t operand,
                          std::size_t zero_operand, std::size_t scale_operand, Int lines);

  // Unimplemented if the zero point has another dtype than the operand.
  Status check(const KernelRequest& request) const;

  std::int32_t zero(const KernelArguments& arguments, Int matrix, Int line) const {
    if (zeros == 0) return 0;
    const void* data = arguments.inputs[zero_operand];
    const Int i = place(zeros, matrix, line);
    return is_signed ? std::int32_t{static_cast<const std::int8_t*>(data)[i]}
                     : std::int32_t{static_cast<const std::uint8_t*>(data)[i]};
  }
  double scale(const KernelArguments& arguments, Int matrix, Int line) const {
    return scales == 0 ? 1.0
                       : read_scale(arguments.inputs[scale_operand], scale_dtype,
                                    place(scales, matrix, line));
  }

 private:
  Int place(Int count, Int matrix, Int line) const {
    return count == 1 ? 0 : count == lines ? line : matrix * lines + line;
  }
};

// saturate(round to nearest even(value) + zero), to int8 or uint8.
struct Requantization {
  std::size_t scale_operand = 0, zero_operand = 0;
  DType scale_dtype = DType::kNone;
  bool is_signed = false;

  struct Ends {
    double scale, zero, low, high;

    std::uint8_t quantize(double value) const {
      const double rounded = value != value ? 0.0 : std::nearbyint(value);
      const auto whole = static_cast<std::int32_t>(std::clamp(rounded + zero, low, high));
      return static_cast<std::uint8_t>(whole);  // the same bits for either sign
    }
  };

  static Requantization of(const KernelRequest& request, std::size_t scale_operand,
                           std::size_t zero_operand);
  static Status check(const KernelRequest& request, std::size_t zero_operand);
  Ends ends(const KernelArguments& arguments) const;
};

}  // namespace mezzo::kernels::cpu
