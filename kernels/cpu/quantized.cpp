#include "kernels/cpu/quantized.h"

#include "compiler/support/half.h"

namespace mezzo::kernels::cpu {

double read_scale(const void* data, DType dtype, Int i) {
  switch (dtype) {
    case DType::kFloat64: return static_cast<const double*>(data)[i];
    case DType::kFloat16: return f16_to_float(static_cast<const std::uint16_t*>(data)[i]);
    case DType::kBFloat16: return bf16_to_float(static_cast<const std::uint16_t*>(data)[i]);
    default: return static_cast<const float*>(data)[i];
  }
}

QuantizedSide QuantizedSide::of(const KernelRequest& request, std::size_t operand,
                                std::size_t zero_operand, std::size_t scale_operand, Int lines) {
  QuantizedSide side;
  side.operand = operand;
  side.zero_operand = zero_operand;
  side.scale_operand = scale_operand;
  side.is_signed = request.inputs[operand].dtype == DType::kInt8;
  side.lines = lines;
  const TensorDesc& zero = in_desc(request, zero_operand);
  const TensorDesc& scale = in_desc(request, scale_operand);
  if (zero.present()) side.zeros = zero.elems();
  if (scale.present()) side.scales = scale.elems();
  side.scale_dtype = scale.dtype;
  return side;
}

Status QuantizedSide::check(const KernelRequest& request) const {
  const TensorDesc& zero = in_desc(request, zero_operand);
  if (!zero.present() || zero.dtype == request.inputs[operand].dtype) return ok_status();
  return unimplemented("a zero point of another dtype than its operand");
}

Status Requantization::check(const KernelRequest& request, std::size_t zero_operand) {
  if (request.inputs[zero_operand].dtype == request.outputs[0].dtype) return ok_status();
  return unimplemented("a zero point of another dtype than the result");
}

Requantization Requantization::of(const KernelRequest& request, std::size_t scale_operand,
                                  std::size_t zero_operand) {
  return {scale_operand, zero_operand, request.inputs[scale_operand].dtype,
          request.outputs[0].dtype == DType::kInt8};
}

Requantization::Ends Requantization::ends(const KernelArguments& arguments) const {
  const auto zero = *static_cast<const std::uint8_t*>(arguments.inputs[zero_operand]);
  Ends ends{};
  ends.scale = read_scale(arguments.inputs[scale_operand], scale_dtype, 0);
  ends.zero = is_signed ? static_cast<std::int8_t>(zero) : zero;
  ends.low = is_signed ? -128.0 : 0.0;
  ends.high = is_signed ? 127.0 : 255.0;
  return ends;
}

}  // namespace mezzo::kernels::cpu
