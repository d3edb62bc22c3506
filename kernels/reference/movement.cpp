// Ops that only move elements: every one is a few strided copies, exact for any dtype of whole
// bytes and any layout.
#include <algorithm>
#include <cstring>

#include "compiler/support/text.h"
#include "kernels/reference/families.h"
#include "kernels/reference/operands.h"
#include "kernels/reference/strided_copy.h"

namespace mezzo::kernels::reference {
namespace {

void zero_fill(void* data, std::size_t bytes) {
  if (bytes > 0) std::memset(data, 0, bytes);
}

PreparedKernel copy_kernel(StridedCopy copy) {
  return make_kernel([copy = std::move(copy)](const KernelArguments& arguments) {
    copy.run(arguments.inputs[0], arguments.outputs[0]);
  });
}

StatusOr<Operands> check_movement(const KernelRequest& request, std::string_view signature) {
  MEZZO_ASSIGN_OR_RETURN(Operands operands, Operands::check(request, signature));
  MEZZO_RETURN_IF_ERROR(operands.expect_one_dtype());
  return operands;
}

}  // namespace

// The buffer is copied as it lies: equal element counts, and layouts in which that is a reshape.
PreparedKernel prepare_reshape(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, check_movement(request, "x:a -> y:a"));
  const TensorDesc& x = operands.in(0);
  const TensorDesc& y = operands.out(0);
  if (x.elems() != y.elems()) {
    return operands.out_error(0, "expected " + std::to_string(x.elems()) + " elements as in " +
                                     format_dims(x.dims) + ", got " + format_dims(y.dims));
  }
  if (request.op == "Identity") MEZZO_RETURN_IF_ERROR(operands.expect_out(0, x.dims));
  if (x.dims == y.dims) return copy_kernel(whole_copy(x, y));
  if (x.layout != Layout::kRowMajor || y.layout != Layout::kRowMajor) {
    return unimplemented(request.op + ": dims of a channels-last tensor cannot be changed; " +
                         "Reorder it first");
  }
  return make_kernel([bytes = y.bytes()](const KernelArguments& arguments) {
    if (bytes > 0) std::memcpy(arguments.outputs[0], arguments.inputs[0], bytes);
  });
}

PreparedKernel prepare_reorder(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, check_movement(request, "x:a -> y:a"));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, operands.in(0).dims));
  return copy_kernel(whole_copy(operands.in(0), operands.out(0)));
}

PreparedKernel prepare_transpose(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, check_movement(request, "x:a -> y:a"));
  const TensorDesc& x = operands.in(0);
  const std::size_t rank = x.dims.size();
  Dims reversed;
  for (std::size_t d = rank; d > 0; --d) reversed.push_back(static_cast<std::int64_t>(d - 1));
  MEZZO_ASSIGN_OR_RETURN(const Dims perm, operands.axes("perm", reversed, rank));
  if (perm.size() != rank) {
    return operands.error("attribute 'perm' is " + format_dims(perm) + ", expected " +
                          std::to_string(rank) + " axes");
  }
  const Dims strides = element_strides(x);
  Dims dims;
  Dims moved;
  for (const std::int64_t axis : perm) {
    dims.push_back(x.dims[static_cast<std::size_t>(axis)]);
    moved.push_back(strides[static_cast<std::size_t>(axis)]);
  }
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, dims));
  return copy_kernel({{dims, {moved, element_strides(operands.out(0))}}, {}, element_bytes(x)});
}

PreparedKernel prepare_expand(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, check_movement(request, "x:a -> y:a"));
  const TensorDesc& x = operands.in(0);
  const TensorDesc& y = operands.out(0);
  if (!broadcasts_to(x.dims, y.dims)) {
    return operands.out_error(
        0, format_dims(x.dims) + " does not broadcast to " + format_dims(y.dims));
  }
  return copy_kernel(
      {{y.dims, {broadcast_strides(x, y.dims), element_strides(y)}}, {}, element_bytes(x)});
}

namespace {

// Pieces of `whole` that follow each other along one axis, as (piece, copy) of Concat and Split.
// `join`: pieces are copied into the whole; otherwise out of it.
StatusOr<std::vector<StridedCopy>> axis_copies(const Operands& operands, bool join) {
  const TensorDesc& whole = join ? operands.out(0) : operands.in(0);
  const std::size_t rank = whole.dims.size();
  MEZZO_ASSIGN_OR_RETURN(const std::int64_t axis, operands.axis("axis", 0, rank));
  const auto a = static_cast<std::size_t>(axis);
  const std::size_t pieces = join ? operands.in_count() : operands.out_count();
  const Dims whole_strides = element_strides(whole);
  const Dims sizes = operands.attributes().get_ints("split");
  std::vector<StridedCopy> copies;
  std::int64_t position = 0;
  for (std::size_t i = 0; i < pieces; ++i) {
    const TensorDesc& piece = join ? operands.in(i) : operands.out(i);
    if (!piece.present()) {
      if (i >= sizes.size() || sizes[i] < 0 || sizes[i] > whole.dims[a] - position) {
        return operands.error("attribute 'split' does not say how large part " + std::to_string(i) +
                              " is, which nobody wants");
      }
      position += sizes[i];
      copies.emplace_back();
      continue;
    }
    Dims expected = whole.dims;
    if (piece.dims.size() == rank) expected[a] = piece.dims[a];
    MEZZO_RETURN_IF_ERROR(join ? operands.expect_in(i, expected)
                               : operands.expect_out(i, expected));
    if (piece.dims[a] > whole.dims[a] - position) {
      return operands.error("the parts have more than the " + std::to_string(whole.dims[a]) +
                            " elements of the whole along axis " + std::to_string(axis));
    }
    const std::int64_t offset = position * whole_strides[a];
    const Dims strides = element_strides(piece);
    StridedCopy copy{{piece.dims, {strides, whole_strides}}, {0, offset}, element_bytes(whole)};
    if (!join) {
      std::swap(copy.loop.strides[0], copy.loop.strides[1]);
      std::swap(copy.start[0], copy.start[1]);
    }
    copies.push_back(std::move(copy));
    position += piece.dims[a];
  }
  if (position != whole.dims[a]) {
    return operands.error("the parts have " + std::to_string(position) + " of the " +
                          std::to_string(whole.dims[a]) + " elements of the whole along axis " +
                          std::to_string(axis));
  }
  return copies;
}

}  // namespace

PreparedKernel prepare_concat(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, check_movement(request, "x:a... -> y:a"));
  MEZZO_ASSIGN_OR_RETURN(std::vector<StridedCopy> copies, axis_copies(operands, true));
  return make_kernel([copies = std::move(copies)](const KernelArguments& arguments) {
    for (std::size_t i = 0; i < copies.size(); ++i) {
      copies[i].run(arguments.inputs[i], arguments.outputs[0]);
    }
  });
}

PreparedKernel prepare_split(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, check_movement(request, "x:a -> y?:a..."));
  MEZZO_ASSIGN_OR_RETURN(std::vector<StridedCopy> copies, axis_copies(operands, false));
  return make_kernel([copies = std::move(copies)](const KernelArguments& arguments) {
    for (std::size_t i = 0; i < copies.size(); ++i) {
      if (arguments.outputs[i] == nullptr) continue;
      copies[i].run(arguments.inputs[0], arguments.outputs[i]);
    }
  });
}

PreparedKernel prepare_fill_zero(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "-> y:a"));
  return make_kernel([bytes = operands.out(0).bytes()](const KernelArguments& arguments) {
    zero_fill(arguments.outputs[0], bytes);
  });
}

// Keeps the elements (row i, column j) of every matrix with j - i >= k (upper) or <= k (lower);
// the others are zero.
PreparedKernel prepare_trilu(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, check_movement(request, "x:a -> y:a"));
  MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(0, 2, kMaxRank));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, operands.in(0).dims));
  MEZZO_ASSIGN_OR_RETURN(const bool upper, operands.flag("upper", true));
  if (operands.in(0).layout != Layout::kRowMajor || operands.out(0).layout != Layout::kRowMajor) {
    return unimplemented("Trilu: channels-last is not supported");
  }
  const Dims& dims = operands.in(0).dims;
  const std::int64_t columns = dims.back();
  const std::int64_t rows = dims[dims.size() - 2];
  const std::int64_t k = std::clamp(request.attributes.get_int("k", 0), -rows - 1, columns + 1);
  return make_kernel([rows, columns, upper, k, elems = operands.in(0).elems(),
                      bytes = element_bytes(operands.in(0))](const KernelArguments& arguments) {
    const auto* from = static_cast<const std::byte*>(arguments.inputs[0]);
    auto* to = static_cast<std::byte*>(arguments.outputs[0]);
    const std::size_t row_bytes = static_cast<std::size_t>(columns) * bytes;
    for (std::int64_t row = 0; elems > 0 && row < elems / columns; ++row) {
      // Columns from `border` on are the upper part.
      const std::int64_t first = row % rows + k + (upper ? 0 : 1);
      const auto border =
          static_cast<std::size_t>(std::clamp<std::int64_t>(first, 0, columns)) * bytes;
      const std::size_t zeros_at = upper ? 0 : border;
      const std::size_t zeros = upper ? border : row_bytes - border;
      const std::size_t kept_at = upper ? border : 0;
      std::memset(to + zeros_at, 0, zeros);
      std::memcpy(to + kept_at, from + kept_at, row_bytes - zeros);
      from += row_bytes;
      to += row_bytes;
    }
  });
}

}  // namespace mezzo::kernels::reference
