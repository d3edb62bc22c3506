// Pad in all its modes, and Trilu: results whose every element is one of x, or a fill element.
//
// Attribute pads = begins, then ends, for every dim; negative ones cut off before anything is
// added. Any dtype of whole bytes, any layout.
#include <algorithm>
#include <cstring>

#include "kernels/cuda/element.h"
#include "kernels/cuda/function_kernel.h"
#include "kernels/cuda/index.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/unit.h"

namespace mezzo::kernels::cuda {

enum class Padding : std::int32_t { kConstant, kReflect, kEdge, kWrap };

// Dims in the order of y's memory, outermost first; those that are not padded may be joined.
struct PadPlan {
  Padding mode = Padding::kConstant;
  std::int32_t rank = 0;
  Int elems = 0;               // of y, in units
  Divisor sizes[kMaxDims];     // of y
  Int begins[kMaxDims] = {};   // elements added in front
  Int kept[kMaxDims] = {};     // of x, cut
  Int strides[kMaxDims] = {};  // in x
  Int y_strides[kMaxDims] = {};
  Int start = 0;  // in x: what is cut off in front
};

// The kept element of a dim that stands at place `i`, counted from the first one kept; negative:
// none, the fill element.
__device__ inline Int padded_place(Padding mode, Int i, Int kept) {
  if (i >= 0 && i < kept) return i;
  switch (mode) {
    case Padding::kConstant: return -1;
    case Padding::kEdge: return i < 0 ? 0 : kept - 1;
    case Padding::kWrap: return (i % kept + kept) % kept;
    case Padding::kReflect: break;
  }
  const Int period = 2 * (kept - 1);
  if (period == 0) return 0;
  const Int at = (i % period + period) % period;
  return at < period - at ? at : period - at;
}

// `fill`: one element of `fill_bytes`, repeated to a unit; null: the bytes of `fill_word`.
template <typename U>
__global__ void pad(PadPlan plan, const U* x, U* y, const std::uint8_t* fill,
                    std::uint64_t fill_word, std::int32_t fill_bytes) {
  U filler;
  auto* bytes = reinterpret_cast<std::uint8_t*>(&filler);
  for (std::size_t b = 0; b < sizeof(U); ++b) {
    const auto place = static_cast<int>(b) % fill_bytes;
    bytes[b] = fill != nullptr ? fill[place] : static_cast<std::uint8_t>(fill_word >> (8 * place));
  }
  const Int step = Int{gridDim.x} * blockDim.x;
  for (Int number = blockIdx.x * Int{blockDim.x} + threadIdx.x; number < plan.elems;
       number += step) {
    Int left = number;
    Int from = plan.start;
    Int to = 0;
    bool fills = false;
    for (int d = plan.rank - 1; d >= 0; --d) {
      Int place = left;
      if (d > 0) left = plan.sizes[d].divide(left, place);
      const Int at = padded_place(plan.mode, place - plan.begins[d], plan.kept[d]);
      fills = fills || at < 0;
      from += at * plan.strides[d];
      to += place * plan.y_strides[d];
    }
    y[to] = fills ? filler : x[from];
  }
}

// Element (row, column) of every matrix stays where column - row >= k (upper) or <= k.
template <typename U>
__global__ void trilu(Divisor rows, Divisor columns, Int elems, Int k, std::int32_t upper,
                      const U* x, U* y) {
  const Int step = Int{gridDim.x} * blockDim.x;
  for (Int number = blockIdx.x * Int{blockDim.x} + threadIdx.x; number < elems; number += step) {
    Int column = 0;
    Int row = 0;
    rows.divide(columns.divide(number, column), row);
    const bool stays = upper != 0 ? column - row >= k : column - row <= k;
    y[number] = stays ? x[number] : U{};
  }
}

// Element 0 of `from`, of one floating dtype, as element 0 of `to`, of another.
__global__ void convert_value(const void* from, DType from_dtype, void* to, DType to_dtype) {
  store_element<double>(to, 0, to_dtype, load_element<double>(from, 0, from_dtype));
}

namespace {

constexpr std::string_view kName = "cuda:pad";

struct PadDim {
  Int size, begin, kept, stride, y_stride;
  bool is_padded;
};

// Joins dims that are not padded, and takes several elements as one where the innermost is such.
PadPlan make_plan(std::vector<PadDim> dims, Padding mode, Int start, Int& bytes) {
  std::vector<PadDim> joined;
  for (const PadDim& dim : dims) {
    if (dim.size == 1 && !dim.is_padded) continue;
    if (!joined.empty() && !dim.is_padded && !joined.back().is_padded &&
        joined.back().stride == dim.stride * dim.size &&
        joined.back().y_stride == dim.y_stride * dim.size) {
      const Int size = joined.back().size * dim.size;
      joined.back() = {size, 0, size, dim.stride, dim.y_stride, false};
    } else {
      joined.push_back(dim);
    }
  }
  if (!joined.empty() && !joined.back().is_padded && joined.back().stride == 1 &&
      joined.back().y_stride == 1) {
    Int unit = common_unit(kWidestUnit / bytes, joined.back().size, start);
    for (std::size_t d = 0; d + 1 < joined.size(); ++d) {
      unit = common_unit(unit, joined[d].stride, joined[d].y_stride);
    }
    for (std::size_t d = 0; d + 1 < joined.size(); ++d) {
      joined[d].stride /= unit;
      joined[d].y_stride /= unit;
    }
    joined.back().size /= unit;
    joined.back().kept /= unit;
    start /= unit;
    bytes *= unit;
  }
  PadPlan plan;
  plan.mode = mode;
  plan.start = start;
  plan.elems = 1;
  for (const PadDim& dim : joined) {
    const int d = plan.rank++;
    plan.sizes[d] = Divisor(dim.size);
    plan.begins[d] = dim.begin;
    plan.kept[d] = dim.kept;
    plan.strides[d] = dim.stride;
    plan.y_strides[d] = dim.y_stride;
    plan.elems *= dim.size;
  }
  return plan;
}

Padding read_mode(const KernelRequest& request) {
  const std::string mode = request.attributes.get_string("mode", "constant");
  if (mode == "reflect") return Padding::kReflect;
  if (mode == "edge") return Padding::kEdge;
  return mode == "wrap" ? Padding::kWrap : Padding::kConstant;
}

// The bits of `value` as an element.
StatusOr<std::uint64_t> value_bits(double value, DType dtype) {
  std::uint64_t bits = 0;
  const auto put = [&](auto element) { std::memcpy(&bits, &element, sizeof element); };
  switch (dtype) {
    case DType::kFloat32: put(static_cast<float>(value)); break;
    case DType::kFloat64: put(value); break;
    case DType::kFloat16: put(__double2half(value)); break;
    case DType::kBFloat16: put(__double2bfloat16(value)); break;
    default:
      if (value != 0.0) return unimplemented("a value other than 0 for this dtype");
  }
  return bits;
}

Prepared pad_row(const KernelRequest& request) {
  const TensorDesc& x = request.inputs[0];
  const TensorDesc& y = request.outputs[0];
  MEZZO_ASSIGN_OR_RETURN(Int bytes, movable_bytes(x.dtype));
  const TensorDesc& value = in_desc(request, 1);
  const auto fill_bytes = static_cast<std::int32_t>(bytes);
  MEZZO_ASSIGN_OR_RETURN(
      const std::uint64_t word,
      value_bits(value.present() ? 0.0 : request.attributes.get_float("value", 0.0), x.dtype));
  const Dims pads = request.attributes.get_ints("pads");
  const Dims from = strides_within(x, x.dims);
  const Dims to = strides_within(y, y.dims);
  const std::size_t rank = x.dims.size();
  std::vector<PadDim> dims;
  Int start = 0;
  for (const std::size_t d : memory_order(rank, y.layout)) {
    const Int cut = std::max<Int>(-pads[d], 0);
    const Int kept = std::max<Int>(x.dims[d] - cut - std::max<Int>(-pads[rank + d], 0), 0);
    start += cut * from[d];
    dims.push_back({y.dims[d], std::max<Int>(pads[d], 0), kept, from[d], to[d],
                    pads[d] > 0 || pads[rank + d] > 0});
  }
  const PadPlan plan = make_plan(std::move(dims), read_mode(request), start, bytes);
  const bool converts = value.present() && value.dtype != x.dtype;
  if (converts && (!has_elements(value.dtype) || !has_elements(x.dtype))) {
    return unimplemented("a value of another dtype");
  }
  return make_kernel(
      kName, converts ? sizeof(double) : 0,
      [plan, bytes, word, fill_bytes, converts, value = value.dtype,
       dtype = x.dtype](const KernelArguments& arguments) {
        if (plan.elems == 0) return ok_status();
        const void* fill = in_buffer(arguments, 1);
        if (converts) {
          MEZZO_RETURN_IF_ERROR(launch<convert_value>({dim3(1), dim3(1)}, arguments.stream, fill,
                                                      value, arguments.workspace, dtype));
          fill = arguments.workspace;
        }
        return with_unit(bytes, [&](auto tag) {
          using U = typename decltype(tag)::Type;
          return launch<pad<U>>(shape_for(plan.elems), arguments.stream, plan,
                                static_cast<const U*>(arguments.inputs[0]),
                                static_cast<U*>(arguments.outputs[0]),
                                static_cast<const std::uint8_t*>(fill), word, fill_bytes);
        });
      });
}

Prepared trilu_row(const KernelRequest& request) {
  const TensorDesc& x = request.inputs[0];
  MEZZO_ASSIGN_OR_RETURN(const Int bytes, movable_bytes(x.dtype));
  const Int columns = x.dims.back();
  const Int rows = x.dims[x.dims.size() - 2];
  const Int k = std::clamp(request.attributes.get_int("k", 0), -rows - 1, columns + 1);
  const std::int32_t upper = request.attributes.get_int("upper", 1) != 0 ? 1 : 0;
  return make_kernel("cuda:trilu", 0,
                     [rows = Divisor(rows), columns = Divisor(columns), elems = x.elems(), k, upper,
                      bytes](const KernelArguments& arguments) {
                       if (elems == 0) return ok_status();
                       return with_unit(bytes, [&](auto tag) {
                         using U = typename decltype(tag)::Type;
                         return launch<trilu<U>>(shape_for(elems), arguments.stream, rows, columns,
                                                 elems, k, upper,
                                                 static_cast<const U*>(arguments.inputs[0]),
                                                 static_cast<U*>(arguments.outputs[0]));
                       });
                     });
}

constexpr KernelEntry kRows[] = {{"Pad", kName, pad_row}, {"Trilu", "cuda:trilu", trilu_row}};

}  // namespace

std::span<const KernelEntry> pad_rows() { return kRows; }

}  // namespace mezzo::kernels::cuda
