// OneHot, EyeLike, ReverseSequence.
#include <cstring>

#include "compiler/support/text.h"
#include "kernels/reference/element_types.h"
#include "kernels/reference/families.h"
#include "kernels/reference/indices.h"
#include "kernels/reference/strided_copy.h"

namespace mezzo::kernels::reference {

// Letters: O I what lies before and behind the new axis, D its depth: indices[O,I], values[2]
// (off, on) -> y[O,D,I]. Negative indices count from the end; those out of range are off
// everywhere. Indices of floating dtypes are truncated.
PreparedKernel prepare_one_hot(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands,
                         Operands::check(request, "indices:n values:a -> y:a"));
  MEZZO_RETURN_IF_ERROR(expect_row_major(operands));
  MEZZO_RETURN_IF_ERROR(operands.expect_in(1, {2}));
  if (operands.out(0).dtype != operands.in(1).dtype) {
    return operands.out_error(0, "expected dtype " + std::string(dtype_name(operands.in(1).dtype)));
  }
  const Dims& indices = operands.in(0).dims;
  MEZZO_ASSIGN_OR_RETURN(const std::int64_t axis, operands.axis("axis", -1, indices.size() + 1));
  const Dims& y = operands.out(0).dims;
  Dims expected = indices;
  expected.insert(expected.begin() + axis,
                  y.size() == indices.size() + 1 ? y[static_cast<std::size_t>(axis)] : 0);
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, expected));
  const AxisView view = view_along(y, static_cast<std::size_t>(axis));
  return make_kernel([view, elems = operands.out(0).elems(), places = Elements(operands.in(0)),
                      bytes = element_bytes(operands.in(1))](const KernelArguments& arguments) {
    with_element_bytes(bytes, [&](auto element) {
      using T = typename decltype(element)::Type;
      const T off = static_cast<const T*>(arguments.inputs[1])[0];
      const T on = static_cast<const T*>(arguments.inputs[1])[1];
      T* y = static_cast<T*>(arguments.outputs[0]);
      for (std::int64_t i = 0; i < elems; ++i) y[i] = off;
      for (std::int64_t i = 0; elems > 0 && i < places.count(); ++i) {
        Integer index = places.read<Integer>(arguments.inputs[0], i);
        if (index < 0) index += view.size;
        if (index < 0 || index >= view.size) continue;
        y[(i / view.inner * view.size + static_cast<std::int64_t>(index)) * view.inner +
          i % view.inner] = on;
      }
    });
  });
}

// 1 where column - row = k, else 0.
PreparedKernel prepare_eye_like(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "-> y:v"));
  MEZZO_RETURN_IF_ERROR(expect_row_major(operands));
  const Dims& dims = operands.out(0).dims;
  if (dims.size() != 2) return operands.out_error(0, "expected rank 2, got " + format_dims(dims));
  return make_kernel([rows = dims[0], columns = dims[1], k = request.attributes.get_int("k", 0),
                      bytes = operands.out(0).bytes(),
                      dtype = operands.out(0).dtype](const KernelArguments& arguments) {
    if (bytes == 0) return;
    std::memset(arguments.outputs[0], 0, bytes);
    if (k >= columns || k <= -rows) return;
    with_element_type(dtype, [&](auto element) {
      using T = typename decltype(element)::Type;
      T* y = static_cast<T*>(arguments.outputs[0]);
      for (std::int64_t row = k < 0 ? -k : 0; row < rows && row + k < columns; ++row) {
        y[row * columns + row + k] = element_of<T>(NumberOf<T>(1));
      }
    });
  });
}

// Letters: T time, B batch, I the dims behind: x[T,B,I] or x[B,T,I], sequence_lens[B]. Of every
// batch entry the first sequence_lens[b] time steps come in reverse order.
PreparedKernel prepare_reverse_sequence(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands,
                         Operands::check(request, "x:a sequence_lens:l -> y:a"));
  MEZZO_RETURN_IF_ERROR(expect_row_major(operands));
  const TensorDesc& x = operands.in(0);
  MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(0, 2, kMaxRank));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, x.dims));
  if (operands.out(0).dtype != x.dtype) {
    return operands.out_error(0, "expected dtype " + std::string(dtype_name(x.dtype)));
  }
  const std::int64_t batch_axis = request.attributes.get_int("batch_axis", 1);
  const std::int64_t time_axis = request.attributes.get_int("time_axis", 0);
  if (!((batch_axis == 0 && time_axis == 1) || (batch_axis == 1 && time_axis == 0))) {
    return operands.error("attributes 'batch_axis' and 'time_axis' are " +
                          std::to_string(batch_axis) + " and " + std::to_string(time_axis) +
                          ", expected 0 and 1 or 1 and 0");
  }
  const std::int64_t batch = x.dims[static_cast<std::size_t>(batch_axis)];
  const std::int64_t time = x.dims[static_cast<std::size_t>(time_axis)];
  MEZZO_RETURN_IF_ERROR(operands.expect_in(1, {batch}));
  std::size_t row_bytes = element_bytes(x);
  for (std::size_t d = 2; d < x.dims.size(); ++d) row_bytes *= static_cast<std::size_t>(x.dims[d]);
  return make_kernel(
      [batch, time, row_bytes, time_first = time_axis == 0](const KernelArguments& arguments) {
        const auto* lengths = static_cast<const std::int64_t*>(arguments.inputs[1]);
        for (std::int64_t b = 0; b < batch; ++b) {
          if (lengths[b] >= 0 && lengths[b] <= time) continue;
          return invalid_argument("ReverseSequence, operand 1 'sequence_lens': element " +
                                  std::to_string(b) + " is " + std::to_string(lengths[b]) +
                                  ", expected 0 to " + std::to_string(time));
        }
        if (row_bytes == 0) return ok_status();
        const auto* x = static_cast<const std::byte*>(arguments.inputs[0]);
        auto* y = static_cast<std::byte*>(arguments.outputs[0]);
        const auto place = [&](std::int64_t b, std::int64_t t) {
          return static_cast<std::size_t>(time_first ? t * batch + b : b * time + t) * row_bytes;
        };
        for (std::int64_t b = 0; b < batch; ++b) {
          for (std::int64_t t = 0; t < time; ++t) {
            const std::int64_t from = t < lengths[b] ? lengths[b] - 1 - t : t;
            std::memcpy(y + place(b, t), x + place(b, from), row_bytes);
          }
        }
        return ok_status();
      });
}

}  // namespace mezzo::kernels::reference
