// TensorScatter, ReverseSequence, OneHot, EyeLike, Range, ConstantOfShape, Shape, Size.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "compiler/support/text.h"
#include "kernels/cuda/element.h"
#include "kernels/cuda/index.h"
#include "kernels/cuda/index_fault.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/unit.h"

namespace mezzo::kernels::cuda {

// Letters: O the dims up to the axis, of which B the first, L the cache's length, S the update's,
// I units behind: update[O,S,I] goes to y[O,L,I], row s to write_indices[b] + s, modulo L if
// circular.
struct TensorScatterPlan {
  Int elems = 0;  // of the update, in units
  Int length = 0, most_start = 0;
  Divisor row, rows, outer_per_batch;
  std::int32_t circular = 0;
};

template <typename U>
__global__ void scatter_rows_of_cache(TensorScatterPlan plan, const U* update, const Int* starts,
                                      U* y, FaultPlace place) {
  const Int step = Int{gridDim.x} * blockDim.x;
  for (Int number = blockIdx.x * Int{blockDim.x} + threadIdx.x; number < plan.elems;
       number += step) {
    Int unit = 0;
    Int s = 0;
    const Int outer = plan.rows.divide(plan.row.divide(number, unit), s);
    Int start = 0;
    if (starts != nullptr) {
      const Int b = plan.outer_per_batch.quotient(outer);
      start = starts[b];
      if (start < 0 || (plan.circular == 0 && start > plan.most_start)) {
        report_fault(place.fault, place.step, 2, b, start);
        continue;
      }
    }
    const Int to = plan.circular != 0 ? (start % plan.length + s) % plan.length : start + s;
    y[(outer * plan.length + to) * plan.row.value() + unit] = update[number];
  }
}

// x[T,B,I] or x[B,T,I] in units: of every batch entry the first lengths[b] rows in reverse order.
struct ReversePlan {
  Int elems = 0, time = 0, batch = 0;
  Divisor row, inner;  // inner: the second dim
  std::int32_t time_first = 0;
};

template <typename U>
__global__ void reverse_sequence(ReversePlan plan, const U* x, const Int* lengths, U* y,
                                 FaultPlace place) {
  const Int step = Int{gridDim.x} * blockDim.x;
  for (Int number = blockIdx.x * Int{blockDim.x} + threadIdx.x; number < plan.elems;
       number += step) {
    Int unit = 0;
    Int second = 0;
    const Int first = plan.inner.divide(plan.row.divide(number, unit), second);
    const Int b = plan.time_first != 0 ? second : first;
    const Int t = plan.time_first != 0 ? first : second;
    const Int length = lengths[b];
    if (length < 0 || length > plan.time) {
      report_fault(place.fault, place.step, 1, b, length);
      continue;
    }
    const Int from = t < length ? length - 1 - t : t;
    const Int row = plan.time_first != 0 ? from * plan.batch + b : b * plan.time + from;
    y[number] = x[row * plan.row.value() + unit];
  }
}

// indices[O,I], values[2] (off, on) -> y[O,D,I].
template <typename U>
__global__ void one_hot(Int elems, Divisor inner, Divisor depth, const void* indices, DType dtype,
                        const U* values, U* y) {
  const Int step = Int{gridDim.x} * blockDim.x;
  for (Int number = blockIdx.x * Int{blockDim.x} + threadIdx.x; number < elems; number += step) {
    Int i = 0;
    Int d = 0;
    const Int outer = depth.divide(inner.divide(number, i), d);
    Int index = load_element<Int>(indices, outer * inner.value() + i, dtype);
    if (index < 0 && dtype != DType::kUInt64) index += depth.value();
    y[number] = values[index == d ? 1 : 0];
  }
}

// 1 where column - row = k, else 0.
__global__ void eye_like(Int elems, Divisor columns, Int k, void* y, DType dtype) {
  const Int step = Int{gridDim.x} * blockDim.x;
  for (Int number = blockIdx.x * Int{blockDim.x} + threadIdx.x; number < elems; number += step) {
    Int column = 0;
    const Int row = columns.divide(number, column);
    store_element<Int>(y, number, dtype, column - row == k ? 1 : 0);
  }
}

// y[i] = start + i delta. Faults: operand 2 a delta of 0; operand 1 another number of elements.
struct RangeDTypes {
  DType start, limit, delta, y;
};
__global__ void range_of_reals(RangeDTypes dtypes, const void* start, const void* limit,
                               const void* delta, void* y, Int elems, FaultPlace place) {
  const double first = load_element<double>(start, 0, dtypes.start);
  const double each = load_element<double>(delta, 0, dtypes.delta);
  const double last = load_element<double>(limit, 0, dtypes.limit);
  const double size = std::fmax(std::ceil((last - first) / each), 0.0);
  if (each == 0.0 || !(size == static_cast<double>(elems))) {
    report_fault(place.fault, place.step, each == 0.0 ? 2 : 1, 0, 0);
    return;
  }
  const Int step = Int{gridDim.x} * blockDim.x;
  for (Int i = blockIdx.x * Int{blockDim.x} + threadIdx.x; i < elems; i += step) {
    store_element<double>(y, i, dtypes.y, first + static_cast<double>(i) * each);
  }
}

__global__ void range_of_integers(RangeDTypes dtypes, const void* start, const void* limit,
                                  const void* delta, void* y, Int elems, FaultPlace place) {
  const Int first = load_element<Int>(start, 0, dtypes.start);
  const Int each = load_element<Int>(delta, 0, dtypes.delta);
  const Int last = load_element<Int>(limit, 0, dtypes.limit);
  // Differences of any two int64 as uint64.
  const bool up = each > 0;
  const bool any = up ? last > first : last < first;
  const std::uint64_t distance =
      up ? static_cast<std::uint64_t>(last) - static_cast<std::uint64_t>(first)
         : static_cast<std::uint64_t>(first) - static_cast<std::uint64_t>(last);
  const std::uint64_t stride =
      up ? static_cast<std::uint64_t>(each) : std::uint64_t{0} - static_cast<std::uint64_t>(each);
  const std::uint64_t size = !any || stride == 0 ? 0 : (distance - 1) / stride + 1;
  if (each == 0 || size != static_cast<std::uint64_t>(elems)) {
    report_fault(place.fault, place.step, each == 0 ? 2 : 1, 0, 0);
    return;
  }
  const Int step = Int{gridDim.x} * blockDim.x;
  for (Int i = blockIdx.x * Int{blockDim.x} + threadIdx.x; i < elems; i += step) {
    const auto value = static_cast<std::uint64_t>(first) +
                       static_cast<std::uint64_t>(i) * static_cast<std::uint64_t>(each);
    store_element<Int>(y, i, dtypes.y, static_cast<Int>(value));
  }
}

// Up to kMaxDims numbers that are known beforehand.
struct KnownNumbers {
  Int count = 0;
  Int numbers[kMaxDims] = {};
};

__global__ void write_numbers(KnownNumbers known, Int* y) {
  for (Int i = threadIdx.x; i < known.count; i += blockDim.x) y[i] = known.numbers[i];
}

// `fill` (null: 0) over and over, if `shape` holds the dims expected.
template <typename U>
__global__ void fill_shape(KnownNumbers dims, const Int* shape, const U* fill, U* y, Int elems,
                           FaultPlace place) {
  for (Int d = 0; d < dims.count; ++d) {
    if (shape[d] == dims.numbers[d]) continue;
    report_fault(place.fault, place.step, 0, d, shape[d]);
    return;
  }
  const U element = fill != nullptr ? *fill : U{};
  const Int step = Int{gridDim.x} * blockDim.x;
  for (Int i = blockIdx.x * Int{blockDim.x} + threadIdx.x; i < elems; i += step) y[i] = element;
}

namespace {

// "Op, operand 1 'name': element 3 is 7, expected 0 to 5"
Explain explain_place(std::string where, Int most) {
  return [where = std::move(where), most](const DeviceFault& fault) {
    return invalid_argument(where + ": element " + std::to_string(fault.position) + " is " +
                            std::to_string(fault.value) + ", expected 0 to " +
                            std::to_string(most));
  };
}

Prepared tensor_scatter(const KernelRequest& request) {
  const TensorDesc& cache = request.inputs[0];
  const TensorDesc& update = request.inputs[1];
  MEZZO_ASSIGN_OR_RETURN(Int bytes, movable_bytes(cache.dtype));
  const std::size_t axis = axis_of(request, "axis", -2, cache.dims.size());
  Int outer = 1;
  Int row = 1;
  for (std::size_t d = 0; d < axis; ++d) outer *= cache.dims[d];
  for (std::size_t d = axis + 1; d < cache.dims.size(); ++d) row *= cache.dims[d];
  const Int unit = row == 0 ? 1 : common_unit(kWidestUnit / bytes, row);
  TensorScatterPlan plan;
  plan.elems = update.elems() / unit;
  plan.length = cache.dims[axis];
  plan.most_start = plan.length - update.dims[axis];
  plan.row = Divisor(row / unit);
  plan.rows = Divisor(update.dims[axis]);
  plan.outer_per_batch = Divisor(cache.dims[0] == 0 ? 1 : outer / cache.dims[0]);
  plan.circular = request.attributes.get_string("mode", "linear") == "circular" ? 1 : 0;
  return make_kernel(
      "cuda:scatter", 0,
      [plan, bytes = bytes * unit, all = cache.bytes()](const KernelArguments& arguments) {
        if (all > 0 && arguments.outputs[0] != arguments.inputs[0]) {
          MEZZO_RETURN_IF_ERROR(check(
              "cudaMemcpyAsync", cudaMemcpyAsync(arguments.outputs[0], arguments.inputs[0], all,
                                                 cudaMemcpyDeviceToDevice,
                                                 static_cast<cudaStream_t>(arguments.stream))));
        }
        if (plan.elems == 0) return ok_status();
        return with_unit(bytes, [&](auto tag) {
          using U = typename decltype(tag)::Type;
          return launch<scatter_rows_of_cache<U>>(shape_for(plan.elems), arguments.stream, plan,
                                                  static_cast<const U*>(arguments.inputs[1]),
                                                  static_cast<const Int*>(in_buffer(arguments, 2)),
                                                  static_cast<U*>(arguments.outputs[0]),
                                                  fault_place(arguments));
        });
      },
      explain_place("TensorScatter, operand 2 'write_indices'", plan.most_start));
}

Prepared reverse_row(const KernelRequest& request) {
  const TensorDesc& x = request.inputs[0];
  MEZZO_ASSIGN_OR_RETURN(Int bytes, movable_bytes(x.dtype));
  Int row = 1;
  for (std::size_t d = 2; d < x.dims.size(); ++d) row *= x.dims[d];
  const Int unit = row == 0 ? 1 : common_unit(kWidestUnit / bytes, row);
  ReversePlan plan;
  plan.time_first = request.attributes.get_int("time_axis", 0) == 0 ? 1 : 0;
  plan.time = x.dims[plan.time_first != 0 ? 0 : 1];
  plan.batch = x.dims[plan.time_first != 0 ? 1 : 0];
  plan.elems = x.elems() / unit;
  plan.row = Divisor(row / unit);
  plan.inner = Divisor(x.dims[1]);
  return make_kernel(
      "cuda:reverse", 0,
      [plan, bytes = bytes * unit](const KernelArguments& arguments) {
        if (plan.elems == 0) return ok_status();
        return with_unit(bytes, [&](auto tag) {
          using U = typename decltype(tag)::Type;
          return launch<reverse_sequence<U>>(shape_for(plan.elems), arguments.stream, plan,
                                             static_cast<const U*>(arguments.inputs[0]),
                                             static_cast<const Int*>(arguments.inputs[1]),
                                             static_cast<U*>(arguments.outputs[0]),
                                             fault_place(arguments));
        });
      },
      explain_place("ReverseSequence, operand 1 'sequence_lens'", plan.time));
}

Prepared one_hot_row(const KernelRequest& request) {
  const TensorDesc& indices = request.inputs[0];
  const TensorDesc& y = request.outputs[0];
  MEZZO_ASSIGN_OR_RETURN(const Int bytes, movable_bytes(y.dtype));
  if (!has_elements(indices.dtype)) return unimplemented("indices of this dtype");
  const std::size_t axis = axis_of(request, "axis", -1, y.dims.size());
  Int inner = 1;
  for (std::size_t d = axis + 1; d < y.dims.size(); ++d) inner *= y.dims[d];
  return make_kernel("cuda:one_hot", 0,
                     [elems = y.elems(), inner = Divisor(inner), depth = Divisor(y.dims[axis]),
                      bytes, dtype = indices.dtype](const KernelArguments& arguments) {
                       if (elems == 0) return ok_status();
                       return with_unit(bytes, [&](auto tag) {
                         using U = typename decltype(tag)::Type;
                         return launch<one_hot<U>>(shape_for(elems), arguments.stream, elems, inner,
                                                   depth, arguments.inputs[0], dtype,
                                                   static_cast<const U*>(arguments.inputs[1]),
                                                   static_cast<U*>(arguments.outputs[0]));
                       });
                     });
}

Prepared eye_row(const KernelRequest& request) {
  const TensorDesc& y = request.outputs[0];
  if (!has_elements(y.dtype)) return unimplemented("a result of this dtype");
  return make_kernel("cuda:eye", 0,
                     [elems = y.elems(), columns = Divisor(y.dims[1]), dtype = y.dtype,
                      k = std::clamp(request.attributes.get_int("k", 0), -y.dims[0] - 1,
                                     y.dims[1] + 1)](const KernelArguments& arguments) {
                       if (elems == 0) return ok_status();
                       return launch<eye_like>(shape_for(elems), arguments.stream, elems, columns,
                                               k, arguments.outputs[0], dtype);
                     });
}

Prepared range_row(const KernelRequest& request) {
  const RangeDTypes dtypes{request.inputs[0].dtype, request.inputs[1].dtype,
                           request.inputs[2].dtype, request.outputs[0].dtype};
  for (const DType dtype : {dtypes.start, dtypes.limit, dtypes.delta, dtypes.y}) {
    if (!has_elements(dtype)) return unimplemented("operands of this dtype");
    if (dtype == DType::kUInt64) return unimplemented("operands of uint64");
  }
  return make_kernel(
      "cuda:range", 0,
      [dtypes, elems = request.outputs[0].elems(),
       reals = is_floating(dtypes.start)](const KernelArguments& arguments) {
        const auto shape = shape_for(std::max<Int>(elems, 1));
        const auto& in = arguments.inputs;
        return reals
                   ? launch<range_of_reals>(shape, arguments.stream, dtypes, in[0], in[1], in[2],
                                            arguments.outputs[0], elems, fault_place(arguments))
                   : launch<range_of_integers>(shape, arguments.stream, dtypes, in[0], in[1], in[2],
                                               arguments.outputs[0], elems, fault_place(arguments));
      },
      [elems = request.outputs[0].elems()](const DeviceFault& fault) {
        if (fault.operand == 2) return invalid_argument("Range, operand 2 'delta': is 0");
        return invalid_argument("Range: the operands ask for another number of elements than the " +
                                std::to_string(elems) + " of the result");
      });
}

Prepared numbers_kernel(const KnownNumbers& known) {
  return make_kernel("cuda:known", 0, [known](const KernelArguments& arguments) {
    if (known.count == 0) return ok_status();
    return launch<write_numbers>({dim3(1), dim3(32)}, arguments.stream, known,
                                 static_cast<Int*>(arguments.outputs[0]));
  });
}

Prepared shape_row(const KernelRequest& request) {
  const Dims& dims = request.inputs[0].dims;
  const auto rank = static_cast<Int>(dims.size());
  const auto bound = [&](std::string_view name, Int fallback) {
    const Int value = std::clamp(request.attributes.get_int(name, fallback), -rank, rank);
    return value < 0 ? value + rank : value;
  };
  KnownNumbers known;
  const Int end = bound("end", rank);
  for (Int d = bound("start", 0); d < end; ++d) {
    known.numbers[known.count++] = dims[static_cast<std::size_t>(d)];
  }
  return numbers_kernel(known);
}

Prepared size_row(const KernelRequest& request) {
  return numbers_kernel({1, {request.inputs[0].elems()}});
}

Prepared constant_of_shape(const KernelRequest& request) {
  const TensorDesc& y = request.outputs[0];
  MEZZO_ASSIGN_OR_RETURN(const Int bytes, movable_bytes(y.dtype));
  KnownNumbers dims;
  for (const Int dim : y.dims) dims.numbers[dims.count++] = dim;
  return make_kernel(
      "cuda:fill", 0,
      [dims, bytes, elems = y.elems()](const KernelArguments& arguments) {
        return with_unit(bytes, [&](auto tag) {
          using U = typename decltype(tag)::Type;
          return launch<fill_shape<U>>(shape_for(std::max<Int>(elems, 1)), arguments.stream, dims,
                                       static_cast<const Int*>(arguments.inputs[0]),
                                       static_cast<const U*>(in_buffer(arguments, 1)),
                                       static_cast<U*>(arguments.outputs[0]), elems,
                                       fault_place(arguments));
        });
      },
      [expected = y.dims](const DeviceFault& fault) {
        return invalid_argument("ConstantOfShape, operand 0 'shape': expected " +
                                format_dims(expected) + ", got " + std::to_string(fault.value) +
                                " as element " + std::to_string(fault.position));
      });
}

constexpr KernelEntry kRows[] = {{"TensorScatter", "cuda:scatter", tensor_scatter},
                                 {"ReverseSequence", "cuda:reverse", reverse_row},
                                 {"OneHot", "cuda:one_hot", one_hot_row},
                                 {"EyeLike", "cuda:eye", eye_row},
                                 {"Range", "cuda:range", range_row},
                                 {"Shape", "cuda:known", shape_row},
                                 {"Size", "cuda:known", size_row},
                                 {"ConstantOfShape", "cuda:fill", constant_of_shape}};

}  // namespace

std::span<const KernelEntry> select_rows() { return kRows; }

}  // namespace mezzo::kernels::cuda
