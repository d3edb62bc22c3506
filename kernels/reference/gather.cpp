// Gather along one axis and its gradient. Letters: O outer, D the axis, I inner, J indices:
// x[O,D,I], indices[J] -> y[O,J,I]. Negative indices count from the end.
#include <cstring>

#include "kernels/reference/element.h"
#include "kernels/reference/families.h"
#include "kernels/reference/operands.h"
#include "kernels/reference/strided_copy.h"

namespace mezzo::kernels::reference {
namespace {

struct GatherShape {
  std::int64_t outer = 1;
  std::int64_t axis_size = 0;
  std::int64_t inner = 1;
  std::string op;

  // The row of x that element j of the indices names; negative if there is none.
  std::int64_t row(const Elements& indices, const void* data, std::int64_t j) const {
    const auto index = static_cast<std::int64_t>(indices.read<Integer>(data, j));
    if (index >= axis_size) return -1;
    return index < 0 ? index + axis_size : index;
  }

  Status check(const Elements& indices, const void* data) const {
    for (std::int64_t j = 0; j < indices.count(); ++j) {
      if (row(indices, data, j) >= 0) continue;
      const auto index = static_cast<std::int64_t>(indices.read<Integer>(data, j));
      return invalid_argument(op + ", operand 1 'indices': element " + std::to_string(j) + " is " +
                              std::to_string(index) + ", expected -" + std::to_string(axis_size) +
                              " to " + std::to_string(axis_size - 1));
    }
    return ok_status();
  }
};

// `whole`: x or dx; `y_dims` gets the dims of y or dy.
StatusOr<GatherShape> read_gather(const Operands& operands, const TensorDesc& whole, Dims& y_dims) {
  const Dims& dims = whole.dims;
  MEZZO_ASSIGN_OR_RETURN(const std::int64_t axis, operands.axis("axis", 0, dims.size()));
  for (const TensorDesc* desc : {&whole, &operands.in(0), &operands.in(1), &operands.out(0)}) {
    if (desc->layout != Layout::kRowMajor) {
      return unimplemented(operands.op() + ": channels-last is not supported");
    }
  }
  GatherShape shape;
  shape.op = operands.op();
  shape.axis_size = dims[static_cast<std::size_t>(axis)];
  for (std::size_t d = 0; d < dims.size(); ++d) {
    if (static_cast<std::int64_t>(d) < axis) shape.outer *= dims[d];
    if (static_cast<std::int64_t>(d) > axis) shape.inner *= dims[d];
  }
  const Dims& indices = operands.in(1).dims;
  y_dims.assign(dims.begin(), dims.begin() + axis);
  y_dims.insert(y_dims.end(), indices.begin(), indices.end());
  y_dims.insert(y_dims.end(), dims.begin() + axis + 1, dims.end());
  return shape;
}

}  // namespace

PreparedKernel prepare_gather(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "x:a indices:i -> y:a"));
  if (operands.out(0).dtype != operands.in(0).dtype) {
    return operands.out_error(0, "expected dtype " + std::string(dtype_name(operands.in(0).dtype)));
  }
  Dims dims;
  MEZZO_ASSIGN_OR_RETURN(const GatherShape shape, read_gather(operands, operands.in(0), dims));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, dims));
  const std::size_t row_bytes =
      static_cast<std::size_t>(shape.inner) * element_bytes(operands.in(0));
  return make_kernel([shape, row_bytes,
                      indices = Elements(operands.in(1))](const KernelArguments& arguments) {
    MEZZO_RETURN_IF_ERROR(shape.check(indices, arguments.inputs[1]));
    if (row_bytes == 0) return ok_status();
    const auto* x = static_cast<const std::byte*>(arguments.inputs[0]);
    auto* y = static_cast<std::byte*>(arguments.outputs[0]);
    for (std::int64_t o = 0; o < shape.outer; ++o) {
      for (std::int64_t j = 0; j < indices.count(); ++j, y += row_bytes) {
        const std::int64_t row = o * shape.axis_size + shape.row(indices, arguments.inputs[1], j);
        std::memcpy(y, x + static_cast<std::size_t>(row) * row_bytes, row_bytes);
      }
    }
    return ok_status();
  });
}

// dx is zero but for the named rows, where the rows of dy are summed up in double, in the order of
// the indices. Workspace: dx as doubles.
PreparedKernel prepare_gather_grad(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands,
                         Operands::check(request, "dy:f indices:i -> dx:f"));
  Dims dims;
  MEZZO_ASSIGN_OR_RETURN(const GatherShape shape, read_gather(operands, operands.out(0), dims));
  MEZZO_RETURN_IF_ERROR(operands.expect_in(0, dims));
  return make_kernel(
      [shape, dy = Elements(operands.in(0)), indices = Elements(operands.in(1)),
       dx = Elements(operands.out(0))](const KernelArguments& arguments) {
        MEZZO_RETURN_IF_ERROR(shape.check(indices, arguments.inputs[1]));
        auto* sum = static_cast<double*>(arguments.workspace);
        for (std::int64_t i = 0; i < dx.count(); ++i) sum[i] = 0.0;
        for (std::int64_t o = 0; o < shape.outer; ++o) {
          for (std::int64_t j = 0; j < indices.count(); ++j) {
            const std::int64_t row =
                o * shape.axis_size + shape.row(indices, arguments.inputs[1], j);
            for (std::int64_t i = 0; i < shape.inner; ++i) {
              sum[row * shape.inner + i] +=
                  dy.read<double>(arguments.inputs[0], (o * indices.count() + j) * shape.inner + i);
            }
          }
        }
        dx.pack(sum, arguments.outputs[0]);
        return ok_status();
      },
      doubles_bytes(operands.out(0).elems()));
}

}  // namespace mezzo::kernels::reference
