// Pad. Attribute pads = begins, then ends, for every dim; negative ones cut off, before anything is
// added.
#include <algorithm>
#include <cstring>

#include "compiler/support/text.h"
#include "kernels/mapped_copy.h"
#include "kernels/pad_maps.h"
#include "kernels/reference/element.h"
#include "kernels/reference/families.h"
#include "kernels/reference/indices.h"
#include "kernels/reference/strided_copy.h"

namespace mezzo::kernels::reference {
namespace {

using Int = std::int64_t;

constexpr Int kMostMapped = Int{1} << 28;  // the longest dim that is mapped index by index

StatusOr<Dims> read_pads(const Operands& operands) {
  const Dims& x = operands.in(0).dims;
  const std::size_t rank = x.size();
  Dims pads = operands.attributes().get_ints("pads");
  if (pads.size() != 2 * rank) {
    return operands.error("attribute 'pads': expected " + std::to_string(2 * rank) +
                          " values, got " + format_dims(pads));
  }
  Dims dims;
  for (std::size_t d = 0; d < rank; ++d) {
    const Int begin = pads[d];
    const Int end = pads[rank + d];
    if (std::max(begin, end) > kMaxElems || begin < -x[d] || end < -x[d] ||
        x[d] + begin + end < 0) {
      return operands.error("attribute 'pads' is " + format_dims(pads) + ", too much for dims " +
                            format_dims(x));
    }
    dims.push_back(x[d] + begin + end);
  }
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, dims));
  return pads;
}

// The value comes as operand 1 or as an attribute, by default 0.
PreparedKernel constant_kernel(const Operands& operands, const Dims& pads) {
  const TensorDesc& x = operands.in(0);
  const TensorDesc& y = operands.out(0);
  const std::size_t rank = x.dims.size();
  StridedCopy copy = whole_copy(x, y);
  for (std::size_t d = 0; d < rank; ++d) {
    // A negative begin skips elements of x, a positive one leaves room in y.
    const Int skipped = std::max<Int>(-pads[d], 0);
    const Int room = std::max<Int>(pads[d], 0);
    const Int cut = std::max<Int>(-pads[rank + d], 0);
    copy.loop.dims[d] = std::max<Int>(x.dims[d] - skipped - cut, 0);
    copy.start[0] += skipped * copy.loop.strides[0][d];
    copy.start[1] += room * copy.loop.strides[1][d];
  }
  return make_kernel(
      [copy = std::move(copy), y = Elements(y), given = Elements(operands.in(1)),
       same = operands.in(1).dtype == y.dtype, bytes = element_bytes(y),
       value = operands.attributes().get_float("value", 0.0)](const KernelArguments& arguments) {
        const void* operand = in_buffer(arguments, 1);
        std::array<std::byte, 8> element{};
        if (operand != nullptr && same) {
          std::memcpy(element.data(), operand, bytes);
        } else {
          const double number = operand != nullptr ? given.read_at<double>(operand, 0) : value;
          y.write_at<double>(element.data(), 0, number);
        }
        auto* to = static_cast<std::byte*>(arguments.outputs[0]);
        for (Int i = 0; i < y.count(); ++i) {
          std::memcpy(to + static_cast<std::size_t>(i) * bytes, element.data(), bytes);
        }
        copy.run(arguments.inputs[0], arguments.outputs[0]);
      });
}

PreparedKernel repeating_kernel(const Operands& operands, const Dims& pads, PadMode mode) {
  if (operands.in(0).layout != operands.out(0).layout) {
    return unimplemented("Pad: operand and result in different layouts");
  }
  Dims x = operands.in(0).dims;
  const std::size_t rank = x.size();
  std::vector<std::vector<Int>> maps;
  for (std::size_t d = 0; d < rank; ++d) {
    const Int kept = x[d] + std::min<Int>(pads[d], 0) + std::min<Int>(pads[rank + d], 0);
    if (kept <= 0 && (pads[d] > 0 || pads[rank + d] > 0)) {
      return operands.error("dim " + std::to_string(d) + " of " + format_dims(x) +
                            " has nothing to repeat");
    }
    if (operands.out(0).dims[d] > kMostMapped) return unimplemented("Pad: a dim beyond 2^28");
    maps.push_back(pad_map(x[d], pads[d], pads[rank + d], mode));
  }
  if (operands.in(0).layout == Layout::kChannelsLast) {
    std::rotate(x.begin() + 1, x.begin() + 2, x.end());
    std::rotate(maps.begin() + 1, maps.begin() + 2, maps.end());
  }
  const auto copy = MappedCopy::make(x, std::move(maps), element_bytes(operands.in(0)));
  return make_kernel(
      [copy, empty = operands.out(0).elems() == 0](const KernelArguments& arguments) {
        if (empty) return;
        copy.run(arguments.inputs[0], arguments.outputs[0], nullptr, 0, copy.rows());
      });
}

}  // namespace

PreparedKernel prepare_pad(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "x:v value?:v -> y:v"));
  const DType dtype = operands.in(0).dtype;
  if (operands.out(0).dtype != dtype) {
    return operands.out_error(0, "expected dtype " + std::string(dtype_name(dtype)) + ", got " +
                                     std::string(dtype_name(operands.out(0).dtype)));
  }
  MEZZO_RETURN_IF_ERROR(operands.expect_in_scalar(1));
  if (operands.in(1).present() && operands.in(1).dtype != dtype &&
      !(is_floating(dtype) && is_floating(operands.in(1).dtype))) {
    return operands.in_error(1, "expected dtype " + std::string(dtype_name(dtype)) + ", got " +
                                    std::string(dtype_name(operands.in(1).dtype)));
  }
  MEZZO_ASSIGN_OR_RETURN(const Dims pads, read_pads(operands));
  const std::string mode = request.attributes.get_string("mode", "constant");
  if (mode == "constant") return constant_kernel(operands, pads);
  if (mode == "reflect") return repeating_kernel(operands, pads, PadMode::kReflect);
  if (mode == "edge") return repeating_kernel(operands, pads, PadMode::kEdge);
  if (mode == "wrap") return repeating_kernel(operands, pads, PadMode::kWrap);
  return operands.error("attribute 'mode' is '" + mode +
                        "', expected constant, reflect, edge or wrap");
}

}  // namespace mezzo::kernels::reference
