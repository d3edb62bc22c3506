// Two and three operands with ONNX's multidirectional broadcasting: arithmetic, comparisons,
// logic, bits, PRelu, Where.
//
// Floating operands may be of any mixture of dtypes. Integer operands share one dtype; results
// wrap as in numpy. Integer division truncates toward zero; a zero divisor is InvalidArgument.
#include <cmath>

#include "compiler/support/text.h"
#include "kernels/reference/element.h"
#include "kernels/reference/families.h"
#include "kernels/reference/operands.h"

namespace mezzo::kernels::reference {
namespace {

struct BinaryFunction {
  std::string_view op;
  double (*floating)(double a, double b);
  Integer (*integer)(Integer a, Integer b);
  bool divides = false;  // integer: b must not be 0
};

// Unsigned arithmetic wraps, as the stored low bits ask.
__extension__ typedef unsigned __int128 Wrapping;

Integer wrapping_multiply(Integer a, Integer b) {
  return static_cast<Integer>(static_cast<Wrapping>(a) * static_cast<Wrapping>(b));
}

Integer integer_pow(Integer base, Integer exponent) {
  if (exponent < 0) {  // 1 / base^n, truncated
    if (base == 1) return 1;
    if (base == -1) return exponent % 2 == 0 ? 1 : -1;
    return 0;
  }
  Integer result = 1;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 != 0) result = wrapping_multiply(result, base);
    base = wrapping_multiply(base, base);
  }
  return result;
}

// A NaN in either operand is the result.
double maximum(double a, double b) { return std::isnan(a) || a > b ? a : b; }
double minimum(double a, double b) { return std::isnan(a) || a < b ? a : b; }

// Mod with fmod = 0 takes the divisor's sign, as in Python.
Integer floor_mod(Integer a, Integer b) {
  const Integer remainder = a % b;
  return remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder;
}

double real_floor_mod(double a, double b) {
  const double remainder = std::fmod(a, b);
  if (remainder == 0.0) return std::copysign(0.0, b);
  return (remainder < 0.0) != (b < 0.0) ? remainder + b : remainder;
}

constexpr BinaryFunction kArithmetic[] = {
    {"Add", [](double a, double b) { return a + b; },
     [](Integer a, Integer b) -> Integer { return a + b; }},
    {"Sub", [](double a, double b) { return a - b; },
     [](Integer a, Integer b) -> Integer { return a - b; }},
    {"Mul", [](double a, double b) { return a * b; }, wrapping_multiply},
    {"Div", [](double a, double b) { return a / b; },
     [](Integer a, Integer b) -> Integer { return a / b; }, true},
    {"Max", maximum, [](Integer a, Integer b) -> Integer { return a > b ? a : b; }},
    {"Min", minimum, [](Integer a, Integer b) -> Integer { return a < b ? a : b; }},
};

constexpr BinaryFunction kComparisons[] = {
    {"Equal", [](double a, double b) -> double { return a == b; },
     [](Integer a, Integer b) -> Integer { return a == b; }},
    {"Less", [](double a, double b) -> double { return a < b; },
     [](Integer a, Integer b) -> Integer { return a < b; }},
    {"Greater", [](double a, double b) -> double { return a > b; },
     [](Integer a, Integer b) -> Integer { return a > b; }},
    {"LessOrEqual", [](double a, double b) -> double { return a <= b; },
     [](Integer a, Integer b) -> Integer { return a <= b; }},
    {"GreaterOrEqual", [](double a, double b) -> double { return a >= b; },
     [](Integer a, Integer b) -> Integer { return a >= b; }},
};

constexpr BinaryFunction kLogic[] = {
    {"And", nullptr, [](Integer a, Integer b) -> Integer { return a != 0 && b != 0; }},
    {"Xor", nullptr, [](Integer a, Integer b) -> Integer { return (a != 0) != (b != 0); }},
    {"Or", nullptr, [](Integer a, Integer b) -> Integer { return a != 0 || b != 0; }},
};

template <std::size_t N>
const BinaryFunction* find_function(const BinaryFunction (&rows)[N], std::string_view op) {
  for (const BinaryFunction& row : rows) {
    if (row.op == op) return &row;
  }
  return nullptr;
}

// Checks that operands `first` and `second` broadcast to result 0.
Status expect_broadcast(const Operands& operands, std::size_t first, std::size_t second) {
  const auto dims = broadcast_dims(operands.in(first).dims, operands.in(second).dims);
  if (!dims) {
    return operands.in_error(
        second, "dims " + format_dims(operands.in(second).dims) + " do not broadcast with " +
                    format_dims(operands.in(first).dims) + " of operand " + std::to_string(first));
  }
  return operands.expect_out(0, *dims);
}

// y = function(a, b) over the broadcast dims, reading A and B and writing Y elements.
template <typename T, typename Function>
PreparedKernel zip_kernel(const Operands& operands, Function function, bool divides = false) {
  const TensorDesc& result = operands.out(0);
  return make_kernel(
      [loop = broadcast_loop<3>(result.dims, {&operands.in(0), &operands.in(1), &result}),
       a = Elements(operands.in(0)), b = Elements(operands.in(1)), y = Elements(result), function,
       divides, op = operands.op()](const KernelArguments& arguments) {
        bool zero_divisor = false;
        for_each(loop, [&](const std::array<std::int64_t, 3>& at) {
          const T left = a.read_at<T>(arguments.inputs[0], at[0]);
          const T right = b.read_at<T>(arguments.inputs[1], at[1]);
          if (divides && right == 0) {
            zero_divisor = true;
          } else {
            y.write_at<T>(arguments.outputs[0], at[2], function(left, right));
          }
        });
        if (!zero_divisor) return ok_status();
        return invalid_argument(op + ", operand 1 'b': division of integers by zero");
      });
}

PreparedKernel zip_either(const Operands& operands, const BinaryFunction& row) {
  if (is_floating(operands.in(0).dtype)) return zip_kernel<double>(operands, row.floating);
  return zip_kernel<Integer>(operands, row.integer, row.divides);
}

}  // namespace

PreparedKernel prepare_arithmetic(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "a:n b:n -> y:n"));
  MEZZO_RETURN_IF_ERROR(operands.expect_one_kind(true));
  MEZZO_RETURN_IF_ERROR(expect_broadcast(operands, 0, 1));
  const BinaryFunction* row = find_function(kArithmetic, request.op);
  if (row == nullptr) return unimplemented(request.op + ": no such arithmetic function");
  return zip_either(operands, *row);
}

PreparedKernel prepare_comparison(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "a:v b:v -> y:b"));
  MEZZO_RETURN_IF_ERROR(operands.expect_one_kind(false));
  MEZZO_RETURN_IF_ERROR(expect_broadcast(operands, 0, 1));
  const BinaryFunction* row = find_function(kComparisons, request.op);
  if (row == nullptr) return unimplemented(request.op + ": no such comparison");
  return zip_either(operands, *row);
}

PreparedKernel prepare_logic(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "a:b b:b -> y:b"));
  MEZZO_RETURN_IF_ERROR(expect_broadcast(operands, 0, 1));
  const BinaryFunction* row = find_function(kLogic, request.op);
  if (row == nullptr) return unimplemented(request.op + ": no such logic function");
  return zip_either(operands, *row);
}

namespace {

constexpr BinaryFunction kBitwise[] = {
    {"BitwiseAnd", nullptr, [](Integer a, Integer b) -> Integer { return a & b; }},
    {"BitwiseOr", nullptr, [](Integer a, Integer b) -> Integer { return a | b; }},
    {"BitwiseXor", nullptr, [](Integer a, Integer b) -> Integer { return a ^ b; }},
};

}  // namespace

PreparedKernel prepare_bitwise(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "a:z b:z -> y:z"));
  MEZZO_RETURN_IF_ERROR(operands.expect_one_dtype());
  MEZZO_RETURN_IF_ERROR(expect_broadcast(operands, 0, 1));
  const BinaryFunction* row = find_function(kBitwise, request.op);
  if (row == nullptr) return unimplemented(request.op + ": no such function of bits");
  return zip_kernel<Integer>(operands, row->integer);
}

// By a negative number of places, or by all the dtype has: what filling with the sign leaves, -1
// for negative x shifted right, 0 otherwise.
PreparedKernel prepare_bit_shift(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "x:z places:z -> y:z"));
  MEZZO_RETURN_IF_ERROR(operands.expect_one_dtype());
  MEZZO_RETURN_IF_ERROR(expect_broadcast(operands, 0, 1));
  const std::string direction = request.attributes.get_string("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") {
    return operands.error("attribute 'direction' is '" + direction + "', expected LEFT or RIGHT");
  }
  const Integer bits = dtype_bits(operands.in(0).dtype);
  if (direction == "LEFT") {
    return zip_kernel<Integer>(operands, [bits](Integer x, Integer places) -> Integer {
      return places < 0 || places >= bits ? 0 : wrapping_multiply(x, Integer{1} << places);
    });
  }
  return zip_kernel<Integer>(operands, [bits](Integer x, Integer places) -> Integer {
    if (places < 0 || places >= bits) return x < 0 ? -1 : 0;
    return x >> places;
  });
}

// The slope broadcasts to x, not the other way round.
PreparedKernel prepare_prelu(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "x:n slope:n -> y:n"));
  MEZZO_RETURN_IF_ERROR(operands.expect_one_kind(true));
  MEZZO_RETURN_IF_ERROR(expect_broadcast(operands, 0, 1));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, operands.in(0).dims));
  if (is_floating(operands.in(0).dtype)) {
    return zip_kernel<double>(operands,
                              [](double x, double slope) { return x < 0 ? slope * x : x; });
  }
  return zip_kernel<Integer>(operands, [](Integer x, Integer slope) -> Integer {
    return x < 0 ? wrapping_multiply(slope, x) : x;
  });
}

// The exponent's dtype is free (ONNX's T1); the result has the kind of the base.
PreparedKernel prepare_pow(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "a:n b:n -> y:n"));
  const DType base = operands.in(0).dtype;
  const DType result = operands.out(0).dtype;
  if (is_floating(base) ? !is_floating(result) : result != base) {
    return operands.out_error(0, "dtype " + std::string(dtype_name(result)) +
                                     " does not go with base " + std::string(dtype_name(base)));
  }
  MEZZO_RETURN_IF_ERROR(expect_broadcast(operands, 0, 1));
  if (is_integer(base) && is_integer(operands.in(1).dtype)) {
    return zip_kernel<Integer>(operands, integer_pow);
  }
  return zip_kernel<double>(operands, [](double a, double b) { return std::pow(a, b); });
}

PreparedKernel prepare_mod(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands, Operands::check(request, "a:n b:n -> y:n"));
  MEZZO_RETURN_IF_ERROR(operands.expect_one_kind(true));
  MEZZO_RETURN_IF_ERROR(expect_broadcast(operands, 0, 1));
  MEZZO_ASSIGN_OR_RETURN(const bool fmod, operands.flag("fmod", false));
  if (is_floating(operands.in(0).dtype)) {
    if (!fmod) return zip_kernel<double>(operands, real_floor_mod);
    return zip_kernel<double>(operands, [](double a, double b) { return std::fmod(a, b); });
  }
  if (fmod) {
    return zip_kernel<Integer>(
        operands, [](Integer a, Integer b) -> Integer { return a % b; }, true);
  }
  return zip_kernel<Integer>(operands, floor_mod, true);
}

namespace {

template <typename T>
PreparedKernel where_kernel(const Operands& operands) {
  const TensorDesc& result = operands.out(0);
  return make_kernel(
      [loop = broadcast_loop<4>(result.dims,
                                {&operands.in(0), &operands.in(1), &operands.in(2), &result}),
       condition = Elements(operands.in(0)), a = Elements(operands.in(1)),
       b = Elements(operands.in(2)), y = Elements(result)](const KernelArguments& arguments) {
        for_each(loop, [&](const std::array<std::int64_t, 4>& at) {
          const bool first = condition.read_at<Integer>(arguments.inputs[0], at[0]) != 0;
          y.write_at<T>(arguments.outputs[0], at[3],
                        first ? a.read_at<T>(arguments.inputs[1], at[1])
                              : b.read_at<T>(arguments.inputs[2], at[2]));
        });
      });
}

}  // namespace

PreparedKernel prepare_where(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands,
                         Operands::check(request, "condition:b a:v b:v -> y:v"));
  const DType a = operands.in(1).dtype;
  for (const TensorDesc* desc : {&operands.in(2), &operands.out(0)}) {
    if (desc->dtype != a && !(is_floating(desc->dtype) && is_floating(a))) {
      return operands.error("dtypes " + std::string(dtype_name(a)) + " and " +
                            std::string(dtype_name(desc->dtype)) + " do not go together");
    }
  }
  const auto choices = broadcast_dims(operands.in(1).dims, operands.in(2).dims);
  const auto dims = choices ? broadcast_dims(operands.in(0).dims, *choices) : std::nullopt;
  if (!dims) {
    return operands.error("dims " + format_dims(operands.in(0).dims) + ", " +
                          format_dims(operands.in(1).dims) + " and " +
                          format_dims(operands.in(2).dims) + " do not broadcast");
  }
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, *dims));
  return is_floating(a) ? where_kernel<double>(operands) : where_kernel<Integer>(operands);
}

}  // namespace mezzo::kernels::reference
