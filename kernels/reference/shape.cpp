// Ops whose result is a shape, or whose shape is a value: Shape, Size, ConstantOfShape, Range. The
// dims of results are fixed when a kernel is prepared; data that asks for others is an error.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "compiler/support/text.h"
#include "kernels/reference/element_types.h"
#include "kernels/reference/families.h"
#include "kernels/reference/operands.h"
#include "kernels/reference/strided_copy.h"

namespace mezzo::kernels::reference {

// dims[start..end) of x; negative bounds count from the end, then both are clamped.
PreparedKernel prepare_shape(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "x:a -> y:l"));
  const Dims& dims = operands.in(0).dims;
  const auto rank = static_cast<std::int64_t>(dims.size());
  const auto bound = [&](std::string_view name, std::int64_t fallback) {
    const std::int64_t value = std::clamp(request.attributes.get_int(name, fallback), -rank, rank);
    return value < 0 ? value + rank : value;
  };
  const std::int64_t start = bound("start", 0);
  const std::int64_t end = std::max(start, bound("end", rank));
  Dims values(dims.begin() + start, dims.begin() + end);
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, {end - start}));
  return make_kernel([values = std::move(values)](const KernelArguments& arguments) {
    std::copy(values.begin(), values.end(), static_cast<std::int64_t*>(arguments.outputs[0]));
  });
}

PreparedKernel prepare_size(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "x:a -> y:l"));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, {}));
  return make_kernel([elems = operands.in(0).elems()](const KernelArguments& arguments) {
    *static_cast<std::int64_t*>(arguments.outputs[0]) = elems;
  });
}

// Operand `fill` stands for ONNX's attribute `value`: one element of the result's dtype; without
// it the result is zero.
PreparedKernel prepare_constant_of_shape(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands,
                         Operands::check(request, "shape:l fill?:v -> y:v"));
  const Dims& dims = operands.out(0).dims;
  MEZZO_RETURN_IF_ERROR(operands.expect_in(0, {static_cast<std::int64_t>(dims.size())}));
  MEZZO_RETURN_IF_ERROR(operands.expect_in_scalar(1));
  if (operands.in(1).present() && operands.in(1).dtype != operands.out(0).dtype) {
    return operands.in_error(1, "expected dtype " + std::string(dtype_name(operands.out(0).dtype)) +
                                    ", got " + std::string(dtype_name(operands.in(1).dtype)));
  }
  return make_kernel([dims, bytes = operands.out(0).bytes(),
                      element = element_bytes(operands.out(0))](const KernelArguments& arguments) {
    const auto* shape = static_cast<const std::int64_t*>(arguments.inputs[0]);
    if (!std::equal(dims.begin(), dims.end(), shape)) {
      return invalid_argument("ConstantOfShape, operand 0 'shape': expected " + format_dims(dims) +
                              ", got " + format_dims(Dims(shape, shape + dims.size())));
    }
    auto* y = static_cast<std::byte*>(arguments.outputs[0]);
    const void* value = in_buffer(arguments, 1);
    if (bytes > 0 && value == nullptr) std::memset(y, 0, bytes);
    for (std::size_t at = 0; value != nullptr && at < bytes; at += element) {
      std::memcpy(y + at, value, element);
    }
    return ok_status();
  });
}

namespace {

Integer range_size(Integer start, Integer limit, Integer delta) {
  const Integer distance = delta > 0 ? limit - start : start - limit;
  const Integer step = delta > 0 ? delta : -delta;
  return distance <= 0 ? 0 : (distance + step - 1) / step;
}

// As a double: the count may be too large for an integer.
double range_size(double start, double limit, double delta) {
  return std::fmax(std::ceil((limit - start) / delta), 0.0);
}

// Integers of the result wrap, reals are rounded once.
template <typename E, typename T>
void write_range(T first, T step, std::int64_t count, void* data) {
  E* y = static_cast<E*>(data);
  for (std::int64_t i = 0; i < count; ++i) {
    const T value = first + static_cast<T>(i) * step;
    if constexpr (kIsFloat<E> || std::is_same_v<E, Bool>) {
      y[i] = encode<E>(static_cast<double>(value));
    } else {
      y[i] = static_cast<E>(static_cast<Integer>(value));
    }
  }
}

// y[i] = start + i delta, as many as lie before limit.
template <typename T>
PreparedKernel range_kernel(const Operands& operands) {
  return make_kernel([start = Elements(operands.in(0)), limit = Elements(operands.in(1)),
                      delta = Elements(operands.in(2)),
                      y = Elements(operands.out(0))](const KernelArguments& arguments) {
    const T first = start.read<T>(arguments.inputs[0], 0);
    const T step = delta.read<T>(arguments.inputs[2], 0);
    if (step == 0) return invalid_argument("Range, operand 2 'delta': is 0");
    const auto size = range_size(first, limit.read<T>(arguments.inputs[1], 0), step);
    if (!(size == static_cast<decltype(size)>(y.count()))) {
      return invalid_argument("Range: the operands ask for another number of elements than the " +
                              std::to_string(y.count()) + " of the result");
    }
    with_element_type(y.dtype(), [&](auto element) {
      write_range<typename decltype(element)::Type>(first, step, y.count(), arguments.outputs[0]);
    });
    return ok_status();
  });
}

}  // namespace

PreparedKernel prepare_range(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands,
                         Operands::check(request, "start:n limit:n delta:n -> y:n"));
  MEZZO_RETURN_IF_ERROR(operands.expect_one_kind(true));
  for (std::size_t i = 0; i < 3; ++i) MEZZO_RETURN_IF_ERROR(operands.expect_in_scalar(i));
  if (operands.out(0).dims.size() != 1) {
    return operands.out_error(0, "expected rank 1, got " + format_dims(operands.out(0).dims));
  }
  return is_integer(operands.in(0).dtype) ? range_kernel<Integer>(operands)
                                          : range_kernel<double>(operands);
}

}  // namespace mezzo::kernels::reference
