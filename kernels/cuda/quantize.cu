// QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear for quantized dtypes of whole bytes.
//
// A scale (and a zero point of the same dims) holds for the whole tensor, for each index along the
// axis, or for each block of `block_size` indices along it. Numbers are rounded to the nearest
// integer, halves to even, and saturate at the ends of the result's dtype; NaN gives the zero
// point. Quotients are rounded to the dtype `precision`.
#include <cmath>

#include "kernels/cuda/element.h"
#include "kernels/cuda/function_kernel.h"
#include "kernels/cuda/index.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/reduce_plan.h"
#include "kernels/cuda/rows.h"

namespace mezzo::kernels::cuda {

constexpr int kQuantized = 4;  // neighbours that a thread takes

// Where the scale of an element of memory lies: by `places`, or for blocks along the axis of x
// seen as [outer, length, inner].
struct ScalePlaces {
  StridedIndex<1> places;
  std::int32_t is_one = 1;  // for all elements
  std::int32_t in_blocks = 0;
  Divisor inner, length, block;
  Int outer_step = 0;

  __device__ Int of(Int element) const {
    if (is_one != 0) return 0;
    if (in_blocks == 0) {
      Int place[1];
      places.offsets(element, place);
      return place[0];
    }
    Int column = 0;
    Int along = 0;
    const Int outer = length.divide(inner.divide(element, column), along);
    return outer * outer_step + block.quotient(along) * inner.value() + column;
  }
};

struct QuantizePlan {
  ScalePlaces places;
  Int elems = 0;
  DType x = DType::kNone, scale = DType::kNone, y = DType::kNone;
  DType precision = DType::kFloat32;
  double least = 0.0, greatest = 0.0;  // of the quantized dtype
};

__device__ inline float rounded_to(DType dtype, float value) {
  if (dtype == DType::kFloat16) return __half2float(__float2half_rn(value));
  if (dtype == DType::kBFloat16) return __bfloat162float(__float2bfloat16_rn(value));
  return value;
}
__device__ inline double rounded_to(DType dtype, double value) {
  switch (dtype) {
    case DType::kFloat16: return __half2float(__double2half(value));
    case DType::kBFloat16: return __bfloat162float(__double2bfloat16(value));
    case DType::kFloat32: return static_cast<float>(value);
    default: return value;
  }
}

// T: float where it holds every number of the operands, else double.
template <typename T>
__global__ void quantize(QuantizePlan plan, const void* x, const void* scale, const void* zero,
                         void* y) {
  const T least = static_cast<T>(plan.least);
  const T greatest = static_cast<T>(plan.greatest);
  const Int step = Int{gridDim.x} * blockDim.x * kQuantized;
  for (Int first = (blockIdx.x * Int{blockDim.x} + threadIdx.x) * kQuantized; first < plan.elems;
       first += step) {
    const Int left = plan.elems - first;
    const int count = static_cast<int>(left < kQuantized ? left : kQuantized);
    T values[kQuantized] = {};
    load_elements<T, kQuantized>(x, first, plan.x, values, count);
#pragma unroll
    for (int k = 0; k < kQuantized; ++k) {
      if (k >= count) break;
      const Int place = plan.places.of(first + k);
      const T divisor = rounded_to(plan.precision, load_element<T>(scale, place, plan.scale));
      const T offset = zero != nullptr ? load_element<T>(zero, place, plan.y) : T{0};
      const T quotient =
          rounded_to(plan.precision, rounded_to(plan.precision, values[k]) / divisor);
      const T whole = std::rint(quotient) + offset;
      values[k] = quotient != quotient ? offset
                  : whole < least      ? least
                  : whole > greatest   ? greatest
                                       : whole;
    }
    store_elements<T, kQuantized>(y, first, plan.y, values, count);
  }
}

// y = (x - zero) scale: the difference exactly, the product in double.
__global__ void dequantize(QuantizePlan plan, const void* x, const void* scale, const void* zero,
                           void* y) {
  const Int step = Int{gridDim.x} * blockDim.x * kQuantized;
  for (Int first = (blockIdx.x * Int{blockDim.x} + threadIdx.x) * kQuantized; first < plan.elems;
       first += step) {
    const Int left = plan.elems - first;
    const int count = static_cast<int>(left < kQuantized ? left : kQuantized);
    double values[kQuantized] = {};
    load_elements<double, kQuantized>(x, first, plan.x, values, count);
#pragma unroll
    for (int k = 0; k < kQuantized; ++k) {
      if (k >= count) break;
      const Int place = plan.places.of(first + k);
      const double offset = zero != nullptr ? load_element<double>(zero, place, plan.x) : 0.0;
      values[k] = (values[k] - offset) * load_element<double>(scale, place, plan.scale);
    }
    store_elements<double, kQuantized>(y, first, plan.y, values, count);
  }
}

// The range of the data, widened to hold 0: a scale and a zero point of uint8, for the results and
// once more for the kernel that follows.
struct ChosenRange {
  float scale;
  std::uint8_t zero;
};
__global__ void choose_range(const float* least, const float* greatest, ChosenRange* chosen,
                             void* scale, DType scale_dtype, std::uint8_t* zero) {
  const double low = std::fmin(0.0, static_cast<double>(*least));
  const double high = std::fmax(0.0, static_cast<double>(*greatest));
  const auto width = static_cast<float>(high - low);
  const auto step = static_cast<float>((width == 0.0F ? 1.0 : static_cast<double>(width)) / 255.0);
  const auto quotient = static_cast<float>(-low / static_cast<double>(step));
  const float place = quotient != quotient ? 0.0F : std::rint(quotient);
  chosen->scale = step;
  chosen->zero = static_cast<std::uint8_t>(place < 0.0F ? 0.0F : place > 255.0F ? 255.0F : place);
  store_element<double>(scale, 0, scale_dtype, static_cast<double>(step));
  *zero = chosen->zero;
}

namespace {

constexpr std::string_view kName = "cuda:quantize";

// False for quantized dtypes whose elements share bytes, and for 8-bit floats.
bool set_range(DType dtype, QuantizePlan& plan) {
  switch (dtype) {
    case DType::kUInt8: plan.greatest = 255.0; return true;
    case DType::kInt8: plan.least = -128.0, plan.greatest = 127.0; return true;
    case DType::kUInt16: plan.greatest = 65535.0; return true;
    case DType::kInt16: plan.least = -32768.0, plan.greatest = 32767.0; return true;
    case DType::kInt32: return true;
    default: return false;
  }
}

StatusOr<ScalePlaces> read_places(const KernelRequest& request) {
  const TensorDesc& x = request.inputs[0];
  const TensorDesc& scale = request.inputs[1];
  ScalePlaces places;
  if (scale.dims.size() <= 1 && scale.elems() == 1) return places;
  places.is_one = 0;
  const std::size_t axis = x.dims.size() == 1 ? 0 : axis_of(request, "axis", 1, x.dims.size());
  const Int block = request.attributes.get_int("block_size", 0);
  if (block == 0) {
    Dims strides(x.dims.size(), 0);
    strides[axis] = 1;
    const auto order = memory_order(x.dims.size(), x.layout);
    places.places = make_index<1>(ordered(x.dims, order), {ordered(strides, order)});
    return places;
  }
  if (!is_row_major(request)) return unimplemented("blocks of a channels-last operand");
  Int inner = 1;
  for (std::size_t d = axis + 1; d < x.dims.size(); ++d) inner *= x.dims[d];
  places.in_blocks = 1;
  places.inner = Divisor(inner);
  places.length = Divisor(x.dims[axis]);
  places.block = Divisor(block);
  places.outer_step = scale.dims[axis] * inner;
  return places;
}

StatusOr<QuantizePlan> make_plan(const KernelRequest& request, DType quantized) {
  const TensorDesc& x = request.inputs[0];
  const TensorDesc& y = request.outputs[0];
  QuantizePlan plan;
  if (!set_range(quantized, plan)) return unimplemented("narrow quantized dtypes");
  if (x.layout != y.layout && x.layout_matters()) {
    return unimplemented("operand and result in different layouts");
  }
  MEZZO_ASSIGN_OR_RETURN(plan.places, read_places(request));
  plan.elems = x.elems();
  plan.x = x.dtype;
  plan.scale = request.inputs[1].dtype;
  plan.y = y.dtype;
  if (!has_elements(plan.x) || !has_elements(plan.scale) || !has_elements(plan.y)) {
    return unimplemented("narrow dtypes");
  }
  return plan;
}

bool in_double(const QuantizePlan& plan) {
  return plan.x == DType::kFloat64 || plan.scale == DType::kFloat64 ||
         plan.precision == DType::kFloat64;
}

Status run_quantize(const QuantizePlan& plan, const void* x, const void* scale, const void* zero,
                    void* y, void* stream) {
  if (plan.elems == 0) return ok_status();
  const auto shape = shape_for(ceil_div(plan.elems, kQuantized));
  return in_double(plan) ? launch<quantize<double>>(shape, stream, plan, x, scale, zero, y)
                         : launch<quantize<float>>(shape, stream, plan, x, scale, zero, y);
}

Prepared quantize_row(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(QuantizePlan plan, make_plan(request, request.outputs[0].dtype));
  const Int precision = request.attributes.get_int("precision", 0);
  plan.precision = precision != 0 ? static_cast<DType>(precision) : plan.scale;
  return make_kernel(kName, 0, [plan](const KernelArguments& arguments) {
    return run_quantize(plan, arguments.inputs[0], arguments.inputs[1], in_buffer(arguments, 2),
                        arguments.outputs[0], arguments.stream);
  });
}

Prepared dequantize_row(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const QuantizePlan plan, make_plan(request, request.inputs[0].dtype));
  return make_kernel(kName, 0, [plan](const KernelArguments& arguments) {
    if (plan.elems == 0) return ok_status();
    return launch<dequantize>(shape_for(ceil_div(plan.elems, kQuantized)), arguments.stream, plan,
                              arguments.inputs[0], arguments.inputs[1], in_buffer(arguments, 2),
                              arguments.outputs[0]);
  });
}

// Workspace: the least and the greatest number, the range chosen, partial results.
Prepared dynamic_quantize(const KernelRequest& request) {
  const TensorDesc& x = request.inputs[0];
  if (x.dtype == DType::kFloat64) return unimplemented("operands of float64");
  if (x.layout != request.outputs[0].layout && x.layout_matters()) {
    return unimplemented("operand and result in different layouts");
  }
  QuantizePlan plan;
  set_range(DType::kUInt8, plan);
  plan.elems = x.elems();
  plan.x = x.dtype;
  plan.scale = DType::kFloat32;
  plan.y = DType::kUInt8;
  ReducePlan least;
  least.op = ReduceOp::kMinNumber;
  least.x = x.dtype;
  shape_reduction(x, std::vector<bool>(x.dims.size(), true), Dims(x.dims.size(), 0), least);
  ReducePlan greatest = least;
  greatest.op = ReduceOp::kMaxNumber;
  constexpr std::size_t kRoom = 64;
  return make_kernel(
      kName, kRoom + least.partial_bytes(),
      [plan, least, greatest, dtype = request.outputs[1].dtype](const KernelArguments& arguments) {
        auto* ends = static_cast<float*>(arguments.workspace);
        auto* chosen = reinterpret_cast<ChosenRange*>(ends + 4);
        void* partial = static_cast<std::byte*>(arguments.workspace) + kRoom;
        MEZZO_RETURN_IF_ERROR(run_reduction(least, arguments.inputs[0], ends, partial, nullptr,
                                            true, arguments.stream));
        MEZZO_RETURN_IF_ERROR(run_reduction(greatest, arguments.inputs[0], ends + 1, partial,
                                            nullptr, true, arguments.stream));
        MEZZO_RETURN_IF_ERROR(launch<choose_range>(
            {dim3(1), dim3(1)}, arguments.stream, static_cast<const float*>(ends),
            static_cast<const float*>(ends + 1), chosen, arguments.outputs[1], dtype,
            static_cast<std::uint8_t*>(arguments.outputs[2])));
        return run_quantize(plan, arguments.inputs[0], &chosen->scale, &chosen->zero,
                            arguments.outputs[0], arguments.stream);
      });
}

constexpr KernelEntry kRows[] = {{"QuantizeLinear", kName, quantize_row},
                                 {"DequantizeLinear", kName, dequantize_row},
                                 {"DynamicQuantizeLinear", kName, dynamic_quantize}};

}  // namespace

std::span<const KernelEntry> quantize_rows() { return kRows; }

}  // namespace mezzo::kernels::cuda
