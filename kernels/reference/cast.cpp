// Cast between any two dtypes of numbers and truth values: the wide ones of element.h, and the
// narrow ones of narrow.h. Integers stay integers on the way, so that none above 2^53 loses digits.
#include "kernels/reference/element.h"
#include "kernels/reference/families.h"
#include "kernels/reference/narrow.h"
#include "kernels/reference/operands.h"

namespace mezzo::kernels::reference {
namespace {

template <typename T>
PreparedKernel wide_cast(const Operands& operands) {
  return make_kernel([x = Elements(operands.in(0)),
                      y = Elements(operands.out(0))](const KernelArguments& arguments) {
    for (std::int64_t i = 0; i < y.count(); ++i) {
      y.write<T>(arguments.outputs[0], i, x.read<T>(arguments.inputs[0], i));
    }
  });
}

StatusOr<Narrowing> read_narrowing(const Operands& operands) {
  Narrowing narrowing;
  MEZZO_ASSIGN_OR_RETURN(narrowing.saturate, operands.flag("saturate", true));
  const std::string mode = operands.attributes().get_string("round_mode", "up");
  if (mode != "up" && mode != "down" && mode != "nearest") {
    return operands.error("attribute 'round_mode' is '" + mode +
                          "', expected 'up', 'down' or 'nearest'");
  }
  narrowing.power = mode == "up"     ? Narrowing::Power::kUp
                    : mode == "down" ? Narrowing::Power::kDown
                                     : Narrowing::Power::kNearest;
  return narrowing;
}

// From wide to narrow.
PreparedKernel narrowing_cast(const Operands& operands, const Narrowing& narrowing) {
  const DType to = operands.out(0).dtype;
  const bool integers = !is_floating(operands.in(0).dtype);
  return make_kernel([narrowing, integers, whole = integers && is_narrow_integer(to),
                      x = Elements(operands.in(0)),
                      y = NarrowElements(to)](const KernelArguments& arguments) {
    for (std::int64_t i = 0; i < x.count(); ++i) {
      if (whole) {
        y.write_integer(arguments.outputs[0], i, x.read<Integer>(arguments.inputs[0], i));
      } else {
        const double value = integers
                                 ? integer_to_odd_double(x.read<Integer>(arguments.inputs[0], i))
                                 : x.read<double>(arguments.inputs[0], i);
        y.write(arguments.outputs[0], i, value, narrowing);
      }
    }
  });
}

// From narrow to wide: all narrow numbers are doubles.
PreparedKernel widening_cast(const Operands& operands) {
  return make_kernel([x = NarrowElements(operands.in(0).dtype),
                      y = Elements(operands.out(0))](const KernelArguments& arguments) {
    for (std::int64_t i = 0; i < y.count(); ++i) {
      y.write<double>(arguments.outputs[0], i, x.read(arguments.inputs[0], i));
    }
  });
}

}  // namespace

PreparedKernel prepare_cast(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "x:s -> y:s"));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, operands.in(0).dims));
  const DType from = operands.in(0).dtype;
  const DType to = operands.out(0).dtype;
  if (!is_narrow(from) && !is_narrow(to)) {
    return is_floating(from) ? wide_cast<double>(operands) : wide_cast<Integer>(operands);
  }
  if (operands.in(0).layout != Layout::kRowMajor || operands.out(0).layout != Layout::kRowMajor) {
    return unimplemented(request.op + ": narrow dtypes in channels-last layout");
  }
  MEZZO_ASSIGN_OR_RETURN(const Narrowing narrowing, read_narrowing(operands));
  if (!is_narrow(from)) return narrowing_cast(operands, narrowing);
  if (!is_narrow(to)) return widening_cast(operands);
  return make_kernel([narrowing, count = operands.in(0).elems(), x = NarrowElements(from),
                      y = NarrowElements(to)](const KernelArguments& arguments) {
    for (std::int64_t i = 0; i < count; ++i) {
      y.write(arguments.outputs[0], i, x.read(arguments.inputs[0], i), narrowing);
    }
  });
}

}  // namespace mezzo::kernels::reference
