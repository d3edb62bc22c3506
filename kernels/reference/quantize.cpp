// QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear.
//
// A scale (and a zero point of the same dims) holds for the whole tensor, for each index along the
// axis, or for each block of `block_size` indices along it. Numbers are rounded to the nearest
// integer, halves to even, and saturate at the ends of the result's dtype; NaN gives the zero
// point, which stands for 0.
#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/support/half.h"
#include "compiler/support/text.h"
#include "kernels/reference/element.h"
#include "kernels/reference/families.h"
#include "kernels/reference/narrow.h"
#include "kernels/reference/operands.h"

namespace mezzo::kernels::reference {
namespace {

// x as [outer, length, inner] around the axis, and where the scale of an element lies.
struct Blocks {
  std::int64_t length = 1, inner = 1;
  std::int64_t block = 1;
  std::int64_t outer_step = 0, axis_step = 0, inner_step = 0;

  std::int64_t scale_of(std::int64_t element) const {
    const std::int64_t outer = element / inner / length;
    const std::int64_t place = element / inner % length;
    return outer * outer_step + place / block * axis_step + element % inner * inner_step;
  }
};

Status wrong_scale(const Operands& operands) {
  return operands.in_error(1, "a scale of dims " + format_dims(operands.in(1).dims) +
                                  " does not suit dims " + format_dims(operands.in(0).dims) +
                                  " of operand 0 at this axis and block_size");
}

StatusOr<Blocks> read_blocks(const Operands& operands) {
  const Dims& dims = operands.in(0).dims;
  const Dims& scale = operands.in(1).dims;
  Blocks blocks;
  if (scale.size() <= 1 && operands.in(1).elems() == 1) {
    MEZZO_RETURN_IF_ERROR(operands.expect_in_scalar(2));  // [] and [1] go together
    return blocks;
  }
  MEZZO_RETURN_IF_ERROR(operands.expect_in(2, scale));
  // A list has one axis, whatever the attribute (whose default is 1) says.
  std::int64_t axis = 0;
  if (dims.size() != 1) {
    MEZZO_ASSIGN_OR_RETURN(axis, operands.axis("axis", 1, dims.size()));
  }
  const auto place = static_cast<std::size_t>(axis);
  blocks.length = dims[place];
  for (std::size_t d = place + 1; d < dims.size(); ++d) blocks.inner *= dims[d];
  const std::int64_t block = operands.attributes().get_int("block_size", 0);
  if (block < 0) {
    return operands.error("attribute 'block_size' is " + std::to_string(block) +
                          ", expected 0 or more");
  }
  if (block == 0) {
    if (scale != Dims{dims[place]}) return wrong_scale(operands);
    blocks.axis_step = 1;
    return blocks;
  }
  Dims expected = dims;
  expected[place] = dims[place] / block + (dims[place] % block != 0 ? 1 : 0);
  if (scale != expected) return wrong_scale(operands);
  blocks.block = block;
  blocks.inner_step = 1;
  blocks.axis_step = blocks.inner;
  blocks.outer_step = expected[place] * blocks.inner;
  return blocks;
}

double rounded_to(DType dtype, double value) {
  switch (dtype) {
    case DType::kFloat32: return static_cast<float>(value);
    case DType::kFloat16: return f16_to_float(double_to_f16(value));
    case DType::kBFloat16: return bf16_to_float(double_to_bf16(value));
    default: return value;
  }
}

struct Range {
  double least;
  double greatest;
};
Range range_of(DType dtype) {
  switch (dtype) {
    case DType::kUInt8: return {0.0, 255.0};
    case DType::kInt8: return {-128.0, 127.0};
    case DType::kUInt16: return {0.0, 65535.0};
    case DType::kUInt4: return {0.0, 15.0};
    case DType::kInt4: return {-8.0, 7.0};
    case DType::kUInt2: return {0.0, 3.0};
    case DType::kInt2: return {-2.0, 1.0};
    default: return {-32768.0, 32767.0};
  }
}

Status expect_quantized(const Operands& operands, const TensorDesc& desc, bool also_int32) {
  if (is_narrow(desc.dtype) && desc.dtype != DType::kFloat8E8M0) {
    if (desc.layout == Layout::kRowMajor) return ok_status();
    return unimplemented(operands.op() + ": narrow dtypes in channels-last layout");
  }
  switch (desc.dtype) {
    case DType::kUInt8:
    case DType::kInt8:
    case DType::kUInt16:
    case DType::kInt16: return ok_status();
    case DType::kInt32:
      if (also_int32) return ok_status();
      [[fallthrough]];
    default:
      return unimplemented(operands.op() + ": quantized dtype " +
                           std::string(dtype_name(desc.dtype)) + " is not supported");
  }
}

// Quantized elements, whatever their dtype; written in order.
class Quantized {
 public:
  explicit Quantized(const TensorDesc& desc)
      : narrow_(is_narrow(desc.dtype)),
        wide_elements_(narrow_ ? TensorDesc{} : desc),
        narrow_elements_(desc.dtype) {}

  double read(const void* data, std::int64_t i) const {
    return narrow_ ? narrow_elements_.read(data, i) : wide_elements_.read<double>(data, i);
  }
  void write(void* data, std::int64_t i, double value, const Narrowing& narrowing) const {
    if (narrow_) {
      narrow_elements_.write(data, i, value, narrowing);
    } else {
      wide_elements_.write<double>(data, i, value);
    }
  }

 private:
  bool narrow_;
  Elements wide_elements_;
  NarrowElements narrow_elements_;
};

double quantize(double quotient, double zero, const Range& range) {
  if (std::isnan(quotient)) return zero;
  return std::clamp(std::nearbyint(quotient) + zero, range.least, range.greatest);
}

}  // namespace

// The quotient is rounded to the dtype named by `precision`, by default the scale's.
PreparedKernel prepare_quantize(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands,
                         Operands::check(request, "x:n scale:n zero?:t -> y:t"));
  MEZZO_RETURN_IF_ERROR(expect_quantized(operands, operands.out(0), false));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, operands.in(0).dims));
  if (operands.in(2).present() && operands.in(2).dtype != operands.out(0).dtype) {
    return operands.in_error(2, "expected dtype " + std::string(dtype_name(operands.out(0).dtype)) +
                                    " of the result, got " +
                                    std::string(dtype_name(operands.in(2).dtype)));
  }
  MEZZO_ASSIGN_OR_RETURN(const Blocks blocks, read_blocks(operands));
  DType precision = operands.in(1).dtype;
  if (const std::int64_t asked = request.attributes.get_int("precision", 0); asked != 0) {
    precision = static_cast<DType>(std::clamp<std::int64_t>(asked, 0, kDTypeCount));
    if (!is_floating(precision)) {
      return operands.error("attribute 'precision' is " + std::to_string(asked) +
                            ", expected a floating-point dtype");
    }
  }
  Narrowing narrowing;
  MEZZO_ASSIGN_OR_RETURN(narrowing.saturate, operands.flag("saturate", true));
  return make_kernel([blocks, precision, narrowing, range = range_of(operands.out(0).dtype),
                      floats = is_narrow_float(operands.out(0).dtype),
                      has_zero = operands.in(2).present(), x = Elements(operands.in(0)),
                      scale = Elements(operands.in(1)), zero = Quantized(operands.in(2)),
                      y = Quantized(operands.out(0))](const KernelArguments& arguments) {
    for (std::int64_t i = 0; i < x.count(); ++i) {
      const std::int64_t place = blocks.scale_of(i);
      const double numerator = rounded_to(precision, x.read<double>(arguments.inputs[0], i));
      const double divisor = rounded_to(precision, scale.read<double>(arguments.inputs[1], place));
      const double offset = has_zero ? zero.read(arguments.inputs[2], place) : 0.0;
      const double quotient = rounded_to(precision, numerator / divisor);
      y.write(arguments.outputs[0], i,
              floats ? quotient + offset : quantize(quotient, offset, range), narrowing);
    }
  });
}

// y = (x - zero) scale, the difference exactly, the product in double.
PreparedKernel prepare_dequantize(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands,
                         Operands::check(request, "x:t scale:f zero?:t -> y:f"));
  MEZZO_RETURN_IF_ERROR(expect_quantized(operands, operands.in(0), true));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, operands.in(0).dims));
  if (operands.in(2).present() && operands.in(2).dtype != operands.in(0).dtype) {
    return operands.in_error(2, "expected dtype " + std::string(dtype_name(operands.in(0).dtype)) +
                                    " of operand 0, got " +
                                    std::string(dtype_name(operands.in(2).dtype)));
  }
  MEZZO_ASSIGN_OR_RETURN(const Blocks blocks, read_blocks(operands));
  return make_kernel([blocks, has_zero = operands.in(2).present(), x = Quantized(operands.in(0)),
                      scale = Elements(operands.in(1)), zero = Quantized(operands.in(2)),
                      y = Elements(operands.out(0))](const KernelArguments& arguments) {
    for (std::int64_t i = 0; i < y.count(); ++i) {
      const std::int64_t place = blocks.scale_of(i);
      const double offset = has_zero ? zero.read(arguments.inputs[2], place) : 0.0;
      const double difference = x.read(arguments.inputs[0], i) - offset;
      y.write<double>(arguments.outputs[0], i,
                      difference * scale.read<double>(arguments.inputs[1], place));
    }
  });
}

// To uint8 by the range of the data, which is widened to hold 0; in float32, as ONNX's function
// body. A range of no width takes the scale 1 / 255.
PreparedKernel prepare_dynamic_quantize(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands,
                         Operands::check(request, "x:f -> y:z scale:f zero:z"));
  for (const std::size_t i : {std::size_t{0}, std::size_t{2}}) {
    if (operands.out(i).dtype != DType::kUInt8) {
      return operands.out_error(i, "expected dtype uint8");
    }
  }
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, operands.in(0).dims));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(1, {}));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(2, {}));
  return make_kernel([x = Elements(operands.in(0)), y = Elements(operands.out(0)),
                      scale = Elements(operands.out(1)),
                      zero = Elements(operands.out(2))](const KernelArguments& arguments) {
    double least = 0.0, greatest = 0.0;
    for (std::int64_t i = 0; i < y.count(); ++i) {
      const double value = x.read<double>(arguments.inputs[0], i);
      least = std::fmin(least, value);
      greatest = std::fmax(greatest, value);
    }
    const auto width = static_cast<float>(greatest - least);
    const double step = static_cast<float>((width == 0.0F ? 1.0 : double{width}) / 255.0);
    const Range range = range_of(DType::kUInt8);
    const double place = quantize(static_cast<float>(0.0 - least / step), 0.0, range);
    for (std::int64_t i = 0; i < y.count(); ++i) {
      const double quotient = static_cast<float>(x.read<double>(arguments.inputs[0], i) / step);
      y.write<double>(arguments.outputs[0], i, quantize(quotient, place, range));
    }
    scale.write<double>(arguments.outputs[1], 0, step);
    zero.write<double>(arguments.outputs[2], 0, place);
  });
}

}  // namespace mezzo::kernels::reference
