// Operators that only move data: Transpose, Reorder, copies, FillZero, Concat, Split, Slice and its
// gradient, Pad, Expand.
#include "kernels/cpu/strided.h"

#include <array>

#include "kernels/mapped_copy.h"
#include "kernels/movement_shape.h"
#include "kernels/pad_maps.h"

namespace mezzo::kernels::cpu {
namespace {

Int total(const Dims& index, const Dims& strides) {
  Int sum = 0;
  for (std::size_t dim = 0; dim < index.size(); ++dim) sum += index[dim] * strides[dim];
  return sum;
}

std::vector<std::size_t> order_of(const TensorDesc& desc) {
  return memory_order(desc.dims.size(), desc.layout);
}

// A kernel that makes one copy of operand 0 into result 0.
Prepared copy_kernel(const KernelRequest& request, const Isa& isa, StridedCopy copy) {
  return make_kernel(
      isa, 0,
      [copy = std::move(copy), &isa, threads = request.threads](const KernelArguments& arguments) {
        copy.run(isa, arguments.inputs[0], arguments.outputs[0], threads);
      });
}

}  // namespace

// Also Reorder, which is a transposition of memory with dims that stay.
Prepared prepare_transpose(const KernelRequest& request, const Isa& isa) {
  const TensorDesc& x = request.inputs[0];
  const TensorDesc& y = request.outputs[0];
  MEZZO_ASSIGN_OR_RETURN(const Int bytes, movable_bytes(x.dtype));
  const Dims x_strides = strides_within(x, x.dims);
  Dims from;
  for (const std::size_t dim : transposed_dims(request)) from.push_back(x_strides[dim]);
  return copy_kernel(
      request, isa,
      StridedCopy::make(bytes, y.dims, from, strides_within(y, y.dims), order_of(y), 0, 0));
}

// Reshape and its kin, which change dims and not the order of elements, and FillZero.
Prepared prepare_copy(const KernelRequest& request, const Isa& isa) {
  const std::size_t bytes = request.outputs[0].bytes();
  if (request.op == "FillZero") {
    return make_kernel(isa, 0,
                       [bytes, threads = request.threads](const KernelArguments& arguments) {
                         fill_zero(arguments.outputs[0], bytes, threads);
                       });
  }
  const TensorDesc& x = request.inputs[0];
  const TensorDesc& y = request.outputs[0];
  const bool same_order = (x.layout == Layout::kRowMajor && y.layout == Layout::kRowMajor) ||
                          (x.layout == y.layout && x.dims == y.dims);
  if (!same_order) return unimplemented("operand and result in different layouts");
  const Int elems = static_cast<Int>(bytes);
  return copy_kernel(request, isa, StridedCopy::make(1, {elems}, {1}, {1}, {0}, 0, 0));
}

Prepared prepare_concat(const KernelRequest& request, const Isa& isa) {
  const TensorDesc& y = request.outputs[0];
  MEZZO_ASSIGN_OR_RETURN(const Int bytes, movable_bytes(y.dtype));
  Int axis = request.attributes.get_int("axis", 0);
  if (axis < 0) axis += static_cast<Int>(y.dims.size());
  const Dims to = strides_within(y, y.dims);
  std::vector<StridedCopy> copies;
  Int start = 0;
  for (const TensorDesc& x : request.inputs) {
    Dims begin(y.dims.size(), 0);
    begin[static_cast<std::size_t>(axis)] = start;
    copies.push_back(StridedCopy::make(bytes, x.dims, strides_within(x, x.dims), to, order_of(y), 0,
                                       x.elems() == 0 ? 0 : total(begin, to)));
    start += x.dims[static_cast<std::size_t>(axis)];
  }
  return make_kernel(isa, 0,
                     [copies, &isa, threads = request.threads](const KernelArguments& arguments) {
                       for (std::size_t i = 0; i < copies.size(); ++i) {
                         copies[i].run(isa, arguments.inputs[i], arguments.outputs[0], threads);
                       }
                     });
}

Prepared prepare_split(const KernelRequest& request, const Isa& isa) {
  const TensorDesc& x = request.inputs[0];
  MEZZO_ASSIGN_OR_RETURN(const Int bytes, movable_bytes(x.dtype));
  Int axis = request.attributes.get_int("axis", 0);
  if (axis < 0) axis += static_cast<Int>(x.dims.size());
  const Dims from = strides_within(x, x.dims);
  std::vector<StridedCopy> copies;
  Int start = 0;
  const Dims sizes = request.attributes.get_ints("split");
  for (std::size_t i = 0; i < request.outputs.size(); ++i) {
    const TensorDesc& y = request.outputs[i];
    if (!y.present()) {
      copies.emplace_back();
      start += sizes[i];
      continue;
    }
    Dims begin(x.dims.size(), 0);
    begin[static_cast<std::size_t>(axis)] = start;
    copies.push_back(StridedCopy::make(bytes, y.dims, from, strides_within(y, y.dims), order_of(y),
                                       y.elems() == 0 ? 0 : total(begin, from), 0));
    start += y.dims[static_cast<std::size_t>(axis)];
  }
  return make_kernel(isa, 0,
                     [copies, &isa, threads = request.threads](const KernelArguments& arguments) {
                       for (std::size_t i = 0; i < copies.size(); ++i) {
                         if (arguments.outputs[i] == nullptr) continue;
                         copies[i].run(isa, arguments.inputs[0], arguments.outputs[i], threads);
                       }
                     });
}

Prepared prepare_slice(const KernelRequest& request, const Isa& isa) {
  const bool grad = request.op == "SliceGrad";
  const TensorDesc& whole = grad ? request.outputs[0] : request.inputs[0];
  const TensorDesc& small = grad ? request.inputs[0] : request.outputs[0];
  MEZZO_ASSIGN_OR_RETURN(const Int bytes, movable_bytes(whole.dtype));
  const TensorPart part =
      sliced_part(request, whole.dims, strides_within(whole, whole.dims), small.elems() == 0);
  const Dims dense = strides_within(small, small.dims);
  if (!grad) {
    return copy_kernel(
        request, isa,
        StridedCopy::make(bytes, small.dims, part.strides, dense, order_of(small), part.start, 0));
  }
  auto copy =
      StridedCopy::make(bytes, small.dims, dense, part.strides, order_of(whole), 0, part.start);
  return make_kernel(isa, 0,
                     [copy = std::move(copy), &isa, all = whole.bytes(),
                      threads = request.threads](const KernelArguments& arguments) {
                       fill_zero(arguments.outputs[0], all, threads);
                       copy.run(isa, arguments.inputs[0], arguments.outputs[0], threads);
                     });
}

namespace {

// A result of independent rows, in units of about kRowBytes.
Prepared mapped_kernel(const KernelRequest& request, const Isa& isa, MappedCopy copy) {
  constexpr Int kRowBytes = 1 << 16;
  const TensorDesc& y = request.outputs[0];
  const Int group =
      std::max<Int>(1, kRowBytes / std::max<Int>(1, static_cast<Int>(copy.row_bytes())));
  const int threads = threads_for(static_cast<Int>(y.bytes()) / 4, request.threads);
  return make_kernel(isa, 0,
                     [copy = std::move(copy), group, threads,
                      empty = y.elems() == 0](const KernelArguments& arguments) {
                       if (empty) return;
                       parallel_units(ceil_div(copy.rows(), group), threads, [&](Int unit, int) {
                         copy.run(arguments.inputs[0], arguments.outputs[0], nullptr, unit * group,
                                  std::min(copy.rows(), (unit + 1) * group));
                       });
                     });
}

Prepared repeating_pad(const KernelRequest& request, const Isa& isa, const std::string& mode) {
  const TensorDesc& x = request.inputs[0];
  const Dims pads = request.attributes.get_ints("pads");
  std::vector<Dims> maps;
  for (std::size_t d = 0; d < x.dims.size(); ++d) {
    maps.push_back(pad_map(x.dims[d], pads[d], pads[x.dims.size() + d],
                           mode == "edge"   ? PadMode::kEdge
                           : mode == "wrap" ? PadMode::kWrap
                                            : PadMode::kReflect));
  }
  MEZZO_ASSIGN_OR_RETURN(const Int bytes, movable_bytes(x.dtype));
  Dims dims = x.dims;
  if (x.layout == Layout::kChannelsLast) {
    std::rotate(dims.begin() + 1, dims.begin() + 2, dims.end());
    std::rotate(maps.begin() + 1, maps.begin() + 2, maps.end());
  }
  return mapped_kernel(request, isa,
                       MappedCopy::make(dims, std::move(maps), static_cast<std::size_t>(bytes)));
}

}  // namespace

// Negative pads cut off. The value is written by a copy that repeats one element.
Prepared prepare_pad(const KernelRequest& request, const Isa& isa) {
  const TensorDesc& x = request.inputs[0];
  const TensorDesc& y = request.outputs[0];
  const std::string mode = request.attributes.get_string("mode", "constant");
  if (mode != "constant") return repeating_pad(request, isa, mode);
  MEZZO_ASSIGN_OR_RETURN(const Int bytes, movable_bytes(x.dtype));
  const bool given = in_desc(request, 1).present();
  const double value = request.attributes.get_float("value", 0.0);
  if (given && in_desc(request, 1).dtype != x.dtype)
    return unimplemented("a value of another dtype");
  if (!given && value != 0.0 && !is_packed_float(x.dtype)) {
    return unimplemented("a value other than 0 for dtype " + std::string(dtype_name(x.dtype)));
  }
  const std::size_t rank = x.dims.size();
  const Dims pads = request.attributes.get_ints("pads");
  const Dims from = strides_within(x, x.dims);
  const Dims to = strides_within(y, y.dims);
  Dims sizes;
  Dims from_begin;
  Dims to_begin;
  for (std::size_t dim = 0; dim < rank; ++dim) {
    from_begin.push_back(std::max<Int>(-pads[dim], 0));
    to_begin.push_back(std::max<Int>(pads[dim], 0));
    const Int cut = from_begin.back() + std::max<Int>(-pads[rank + dim], 0);
    sizes.push_back(std::max<Int>(x.dims[dim] - cut, 0));
  }
  auto copy = StridedCopy::make(bytes, sizes, from, to, order_of(y), total(from_begin, from),
                                total(to_begin, to));
  const auto fill = StridedCopy::make(bytes, {y.elems()}, {0}, {1}, {0}, 0, 0);
  std::array<char, 8> element{};
  const auto number = static_cast<float>(value);
  if (value != 0.0 && !given) isa.pack(x.dtype, &number, element.data(), 1);
  return make_kernel(isa, 0,
                     [copy = std::move(copy), fill, element, given, &isa,
                      threads = request.threads](const KernelArguments& arguments) {
                       fill.run(isa, given ? arguments.inputs[1] : element.data(),
                                arguments.outputs[0], threads);
                       copy.run(isa, arguments.inputs[0], arguments.outputs[0], threads);
                     });
}

Prepared prepare_expand(const KernelRequest& request, const Isa& isa) {
  const TensorDesc& x = request.inputs[0];
  const TensorDesc& y = request.outputs[0];
  MEZZO_ASSIGN_OR_RETURN(const Int bytes, movable_bytes(x.dtype));
  return copy_kernel(request, isa,
                     StridedCopy::make(bytes, y.dims, strides_within(x, y.dims),
                                       strides_within(y, y.dims), order_of(y), 0, 0));
}

}  // namespace mezzo::kernels::cpu
