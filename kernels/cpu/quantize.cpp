// QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear as elementwise operations of the
// numbers, their scales and zero points, which broadcast: to a list along the axis, or to blocks
// of it once the axis is cut in two.
#include <cmath>
#include <optional>

#include "kernels/cpu/elementwise_plan.h"

namespace mezzo::kernels::cpu {
namespace {

// The request with dims by which scale and zero point broadcast to the numbers. Nothing where the
// last block of an axis is not full.
std::optional<KernelRequest> broadcast_request(const KernelRequest& request) {
  KernelRequest spread = request;
  TensorDesc& x = spread.inputs[0];
  TensorDesc& scale = spread.inputs[1];
  if (scale.dims.size() <= 1 && scale.elems() == 1) {
    scale.dims.clear();
  } else {
    Int axis = x.dims.size() == 1 ? 0 : request.attributes.get_int("axis", 1);
    if (axis < 0) axis += static_cast<Int>(x.dims.size());
    const auto place = static_cast<std::ptrdiff_t>(axis);
    const Int block = request.attributes.get_int("block_size", 0);
    if (block == 0) {
      scale.dims.resize(x.dims.size() - static_cast<std::size_t>(axis), 1);
    } else {
      const Int length = x.dims[static_cast<std::size_t>(axis)];
      if (length % block != 0 || x.dims.size() == kMaxRank) return std::nullopt;
      x.dims[static_cast<std::size_t>(axis)] = length / block;
      x.dims.insert(x.dims.begin() + place + 1, block);
      scale.dims.insert(scale.dims.begin() + place + 1, 1);
    }
  }
  spread.outputs[0].dims = x.dims;
  if (spread.inputs.size() > 2 && spread.inputs[2].present()) spread.inputs[2].dims = scale.dims;
  return spread;
}

struct Range {
  double least, greatest;
};
Range range_of(DType dtype) {
  switch (dtype) {
    case DType::kUInt8: return {0.0, 255.0};
    case DType::kInt8: return {-128.0, 127.0};
    case DType::kUInt16: return {0.0, 65535.0};
    default: return {-32768.0, 32767.0};
  }
}

bool is_row_major(const KernelRequest& request) {
  bool row_major = request.outputs[0].layout == Layout::kRowMajor;
  for (const TensorDesc& desc : request.inputs) {
    row_major = row_major && (!desc.present() || desc.layout == Layout::kRowMajor);
  }
  return row_major;
}

// `loop` for the quotient or product, float32 or double.
Prepared quantization_kernel(const KernelRequest& request, const Isa& isa, DType loop) {
  if (!is_row_major(request)) return unimplemented("a channels-last operand or result");
  if (!is_convertible(request.inputs[0].dtype) || !is_convertible(request.outputs[0].dtype)) {
    return unimplemented("quantized elements of less than 8 bits, or 8-bit floats");
  }
  const auto spread = broadcast_request(request);
  if (!spread) return unimplemented("blocks that do not divide the axis");
  const bool quantizes = request.op == "QuantizeLinear";
  const ElementwiseOp op = quantizes ? ElementwiseOp::kQuantize : ElementwiseOp::kDequantize;
  ElementwisePlan plan(isa, request.threads);
  if (loop == DType::kFloat32) plan.set_loop(isa.elementwise(op));
  if (loop == DType::kFloat64) plan.set_loop(isa.typed(op, loop));
  const double none = 0.0;  // of either type: all bits are 0
  for (std::size_t k = 0; k < 3; ++k) {
    plan.add_operand(in_desc(*spread, k).dtype, loop, &none);
  }
  plan.set_result(request.outputs[0].dtype, loop);
  if (quantizes) {
    const Range range = range_of(request.outputs[0].dtype);
    plan.set_parameters(range.least, range.greatest);
  }
  MEZZO_RETURN_IF_ERROR(plan.join_dims(*spread));
  return make_kernel(isa, 0, [plan](const KernelArguments& arguments) { plan.run(arguments); });
}

// The least and the greatest number, and 0. NaN does not count.
void widen_range(const Isa& isa, const float* x, Int n, float& least, float& greatest) {
  const float low = isa.reduce_run(ReduceOp::kMin, x, n);
  const float high = isa.reduce_run(ReduceOp::kMax, x, n);
  if (!std::isnan(low) && !std::isnan(high)) {
    least = std::min(least, low);
    greatest = std::max(greatest, high);
    return;
  }
  for (Int i = 0; i < n; ++i) {
    least = std::fmin(least, x[i]);
    greatest = std::fmax(greatest, x[i]);
  }
}

}  // namespace

Prepared prepare_quantize(const KernelRequest& request, const Isa& isa) {
  const DType x = request.inputs[0].dtype;
  if (!is_packed_float(x) && x != DType::kInt32) return unimplemented("numbers of this dtype");
  const auto float32 = static_cast<Int>(DType::kFloat32);
  const Int precision = request.attributes.get_int("precision", 0);
  const bool singles =
      precision == float32 || (precision == 0 && request.inputs[1].dtype == DType::kFloat32);
  if (!singles || !is_packed_float(request.inputs[1].dtype)) {
    return unimplemented("quotients of another precision than float32");
  }
  return quantization_kernel(request, isa, DType::kFloat32);
}

Prepared prepare_dequantize(const KernelRequest& request, const Isa& isa) {
  // int32 has more digits than float32.
  const bool wide = request.inputs[0].dtype == DType::kInt32 ||
                    request.inputs[1].dtype == DType::kFloat64 ||
                    request.outputs[0].dtype == DType::kFloat64;
  return quantization_kernel(request, isa, wide ? DType::kFloat64 : DType::kFloat32);
}

Prepared prepare_dynamic_quantize(const KernelRequest& request, const Isa& isa) {
  const TensorDesc& x = request.inputs[0];
  if (x.dtype != DType::kFloat32 || request.outputs[1].dtype != DType::kFloat32) {
    return unimplemented("other dtypes than float32");
  }
  MEZZO_RETURN_IF_ERROR(expect_one_layout(request));
  const Int elems = x.elems();
  const int threads = threads_for(elems, request.threads);
  return make_kernel(isa, 0, [&isa, elems, threads](const KernelArguments& arguments) {
    const auto* from = static_cast<const float*>(arguments.inputs[0]);
    auto* to = static_cast<std::uint8_t*>(arguments.outputs[0]);
    float least = 0.0F, greatest = 0.0F;
    for (Int done = 0; done < elems; done += kBlock) {
      widen_range(isa, from + done, std::min(kBlock, elems - done), least, greatest);
    }
    const double width = static_cast<float>(double{greatest} - double{least});
    const auto scale = static_cast<float>((width == 0.0 ? 1.0 : width) / 255.0);
    const float zero = std::fmax(
        0.0F,
        std::fmin(255.0F, std::nearbyint(static_cast<float>(0.0 - double{least} / double{scale}))));
    const ElementwiseLoop loop = isa.elementwise(ElementwiseOp::kQuantize);
    const CastLoop narrow = isa.cast(DType::kFloat32, DType::kUInt8);
    parallel_units(ceil_div(elems, kBlock), threads, [&](Int unit, int) {
      alignas(64) float scales[kBlock], zeros[kBlock], values[kBlock];
      const Int first = unit * kBlock;
      const Int count = std::min(kBlock, elems - first);
      std::fill_n(scales, count, scale);
      std::fill_n(zeros, count, zero);
      const float* operands[3] = {from + first, scales, zeros};
      const float range[2] = {0.0F, 255.0F};
      loop(operands, values, count, range);
      narrow(values, to + first, count);
    });
    *static_cast<float*>(arguments.outputs[1]) = scale;
    *static_cast<std::uint8_t*>(arguments.outputs[2]) = static_cast<std::uint8_t>(zero);
  });
}

}  // namespace mezzo::kernels::cpu
