// Elementwise operations with broadcasting: which loop suits an operator and its operands' types.
//
// float32, float16 and bfloat16 in any mixture are computed in float32; with a double among them,
// in double. Integers are computed in their own type. The loops themselves stand in *_isa.cpp,
// shapes and threads in elementwise_plan.cpp.
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/cpu/elementwise_plan.h"
#include "kernels/philox.h"

namespace mezzo::kernels::cpu {
namespace {

struct OpRow {
  std::string_view name;
  ElementwiseOp op;
  double alpha = 0.0;  // defaults of the attributes
  double beta = 0.0;
  std::string_view alpha_name = "alpha";
  std::string_view beta_name = "beta";
};

// Defaults of attributes, which are float32 in ONNX.
constexpr double kFifth = 0.2F;
constexpr double kHundredth = 0.01F;

constexpr OpRow kOps[] = {
    {"Add", ElementwiseOp::kAdd},
    {"Sub", ElementwiseOp::kSub},
    {"Mul", ElementwiseOp::kMul},
    {"Div", ElementwiseOp::kDiv},
    {"Pow", ElementwiseOp::kPow},
    {"Max", ElementwiseOp::kMax},
    {"Min", ElementwiseOp::kMin},
    {"Relu", ElementwiseOp::kRelu},
    {"Sigmoid", ElementwiseOp::kSigmoid},
    {"Tanh", ElementwiseOp::kTanh},
    {"Erf", ElementwiseOp::kErf},
    {"Exp", ElementwiseOp::kExp},
    {"Log", ElementwiseOp::kLog},
    {"Sqrt", ElementwiseOp::kSqrt},
    {"Reciprocal", ElementwiseOp::kReciprocal},
    {"Neg", ElementwiseOp::kNeg},
    {"Abs", ElementwiseOp::kAbs},
    {"Softplus", ElementwiseOp::kSoftplus},
    {"HardSigmoid", ElementwiseOp::kHardSigmoid, kFifth, 0.5},
    {"HardSwish", ElementwiseOp::kHardSwish},
    {"LeakyRelu", ElementwiseOp::kLeakyRelu, kHundredth},
    {"Elu", ElementwiseOp::kElu, 1.0},
    {"Sin", ElementwiseOp::kSin},
    {"Cos", ElementwiseOp::kCos},
    {"Floor", ElementwiseOp::kFloor},
    {"Ceil", ElementwiseOp::kCeil},
    {"Round", ElementwiseOp::kRound},
    {"Sign", ElementwiseOp::kSign},
    {"Gelu", ElementwiseOp::kGelu},
    {"Swish", ElementwiseOp::kSwish, 1.0},
    {"Clip", ElementwiseOp::kClip},
    {"Where", ElementwiseOp::kWhere},
    {"Equal", ElementwiseOp::kEqual},
    {"Less", ElementwiseOp::kLess},
    {"Greater", ElementwiseOp::kGreater},
    {"LessOrEqual", ElementwiseOp::kLessOrEqual},
    {"GreaterOrEqual", ElementwiseOp::kGreaterOrEqual},
    {"And", ElementwiseOp::kAnd},
    {"Or", ElementwiseOp::kOr},
    {"Not", ElementwiseOp::kNot},
    {"Tan", ElementwiseOp::kTan},
    {"Asin", ElementwiseOp::kAsin},
    {"Acos", ElementwiseOp::kAcos},
    {"Atan", ElementwiseOp::kAtan},
    {"Sinh", ElementwiseOp::kSinh},
    {"Cosh", ElementwiseOp::kCosh},
    {"Asinh", ElementwiseOp::kAsinh},
    {"Acosh", ElementwiseOp::kAcosh},
    {"Atanh", ElementwiseOp::kAtanh},
    {"Selu", ElementwiseOp::kSelu, 1.67326319217681884765625, 1.05070102214813232421875, "alpha",
     "gamma"},
    {"Celu", ElementwiseOp::kCelu, 1.0},
    {"Mish", ElementwiseOp::kMish},
    {"Softsign", ElementwiseOp::kSoftsign},
    {"ThresholdedRelu", ElementwiseOp::kThresholdedRelu, 1.0},
    {"Shrink", ElementwiseOp::kShrink, 0.5, 0.0, "lambd", "bias"},
    {"PRelu", ElementwiseOp::kPRelu},
    {"Mod", ElementwiseOp::kMod},
    {"Xor", ElementwiseOp::kXor},
    {"IsNaN", ElementwiseOp::kIsNan},
    {"IsInf", ElementwiseOp::kIsInf, 1.0, 1.0, "detect_negative", "detect_positive"},
    {"BitwiseAnd", ElementwiseOp::kBitAnd},
    {"BitwiseOr", ElementwiseOp::kBitOr},
    {"BitwiseXor", ElementwiseOp::kBitXor},
    {"BitwiseNot", ElementwiseOp::kBitNot},
    {"BitShift", ElementwiseOp::kShiftLeft},
    {"GlobalAveragePoolGrad", ElementwiseOp::kScale},
    {"ReluGrad", ElementwiseOp::kReluGrad},
    {"SigmoidGrad", ElementwiseOp::kSigmoidGrad},
    {"TanhGrad", ElementwiseOp::kTanhGrad},
    {"GeluGrad", ElementwiseOp::kGeluGrad},
    {"SwishGrad", ElementwiseOp::kSwishGrad, 1.0},
    {"ErfGrad", ElementwiseOp::kErfGrad},
    {"SoftplusGrad", ElementwiseOp::kSoftplusGrad},
    {"HardSwishGrad", ElementwiseOp::kHardSwishGrad},
    {"HardSigmoidGrad", ElementwiseOp::kHardSigmoidGrad, kFifth, 0.5},
    {"LeakyReluGrad", ElementwiseOp::kLeakyReluGrad, kHundredth},
    {"EluGrad", ElementwiseOp::kEluGrad, 1.0},
    {"LogGrad", ElementwiseOp::kLogGrad},
    {"AbsGrad", ElementwiseOp::kAbsGrad},
    {"SinGrad", ElementwiseOp::kSinGrad},
    {"CosGrad", ElementwiseOp::kCosGrad},
    {"ExpGrad", ElementwiseOp::kExpGrad},
    {"SqrtGrad", ElementwiseOp::kSqrtGrad},
    {"ReciprocalGrad", ElementwiseOp::kReciprocalGrad},
    {"ClipGrad", ElementwiseOp::kClipGrad},
    {"PowGrad", ElementwiseOp::kPowGrad},
    {"DropoutGrad", ElementwiseOp::kDropoutGrad},
};

const OpRow* find_op(std::string_view name) {
  for (const OpRow& row : kOps) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

ElementwiseOp variant_of(const OpRow& row, const KernelRequest& request) {
  const bool by_tanh = request.attributes.get_string("approximate", "none") == "tanh";
  switch (row.op) {
    case ElementwiseOp::kGelu: return by_tanh ? ElementwiseOp::kGeluTanh : row.op;
    case ElementwiseOp::kGeluGrad: return by_tanh ? ElementwiseOp::kGeluTanhGrad : row.op;
    case ElementwiseOp::kMod:
      return request.attributes.get_int("fmod", 0) != 0 ? ElementwiseOp::kFMod : row.op;
    case ElementwiseOp::kShiftLeft:
      return request.attributes.get_string("direction", "") == "RIGHT" ? ElementwiseOp::kShiftRight
                                                                       : row.op;
    default: return row.op;
  }
}

Status set_parameters(const OpRow& row, const KernelRequest& request, ElementwisePlan& plan) {
  if (row.op == ElementwiseOp::kDropoutGrad) {
    plan.set_parameters(dropout_scale(request.attributes.get_float("ratio", 0.5)), 0.0);
    return ok_status();
  }
  if (row.op == ElementwiseOp::kScale) {  // the mean's share: dims 2.. of the result
    Int pixels = 1;
    const Dims& dims = request.outputs[0].dims;
    for (std::size_t dim = 2; dim < dims.size(); ++dim) pixels *= dims[dim];
    plan.set_parameters(1.0 / static_cast<double>(pixels), 0.0);
    return ok_status();
  }
  const double alpha = request.attributes.get_float(row.alpha_name, row.alpha);
  if (row.op == ElementwiseOp::kCelu && !(alpha > 0.0)) {
    return unimplemented("alpha is not above 0");
  }
  plan.set_parameters(alpha, request.attributes.get_float(row.beta_name, row.beta));
  return ok_status();
}

// Gives truth values, whatever the operands are.
bool gives_truth(ElementwiseOp op) {
  switch (op) {
    case ElementwiseOp::kEqual:
    case ElementwiseOp::kLess:
    case ElementwiseOp::kGreater:
    case ElementwiseOp::kLessOrEqual:
    case ElementwiseOp::kGreaterOrEqual:
    case ElementwiseOp::kIsNan:
    case ElementwiseOp::kIsInf: return true;
    default: return false;
  }
}

bool divides(ElementwiseOp op) {
  return op == ElementwiseOp::kDiv || op == ElementwiseOp::kMod || op == ElementwiseOp::kFMod;
}

// An integer type of as many bytes, for what only moves.
DType bits_of(DType dtype) {
  switch (elem_bytes(dtype)) {
    case 1: return DType::kUInt8;
    case 2: return DType::kUInt16;
    case 4: return DType::kUInt32;
    default: return DType::kUInt64;
  }
}

// The type an operation is computed in: see above.
DType domain_of(ElementwiseOp op, const KernelRequest& request) {
  const std::size_t first = op == ElementwiseOp::kWhere ? 1 : 0;
  const DType dtype = in_desc(request, first).dtype;
  if (!is_floating(dtype)) return op == ElementwiseOp::kWhere ? bits_of(dtype) : dtype;
  bool wide = false;
  bool same = true;
  for (const auto* side : {&request.inputs, &request.outputs}) {
    for (std::size_t i = side == &request.inputs ? first : 0; i < side->size(); ++i) {
      wide = wide || (*side)[i].dtype == DType::kFloat64;
      same = same && (*side)[i].dtype == dtype;
    }
  }
  if (op == ElementwiseOp::kWhere && same) return bits_of(dtype);
  return wide ? DType::kFloat64 : DType::kFloat32;
}

// The ends of a type's range, for the bounds that Clip was not given.
template <typename T>
void set_end(bool greatest, std::array<std::byte, 8>& element) {
  using Limits = std::numeric_limits<T>;
  const T end = Limits::has_infinity ? (greatest ? Limits::infinity() : -Limits::infinity())
                                     : (greatest ? Limits::max() : Limits::lowest());
  std::memcpy(element.data(), &end, sizeof end);
}

std::array<std::byte, 8> end_of(DType dtype, bool greatest) {
  std::array<std::byte, 8> element{};
  switch (dtype) {
    case DType::kFloat64: set_end<double>(greatest, element); break;
    case DType::kInt8: set_end<std::int8_t>(greatest, element); break;
    case DType::kInt16: set_end<std::int16_t>(greatest, element); break;
    case DType::kInt32: set_end<std::int32_t>(greatest, element); break;
    case DType::kInt64: set_end<std::int64_t>(greatest, element); break;
    case DType::kUInt8: set_end<std::uint8_t>(greatest, element); break;
    case DType::kUInt16: set_end<std::uint16_t>(greatest, element); break;
    case DType::kUInt32: set_end<std::uint32_t>(greatest, element); break;
    case DType::kUInt64: set_end<std::uint64_t>(greatest, element); break;
    default: set_end<float>(greatest, element); break;
  }
  return element;
}

// Loop, operands and result for `op` computed in `domain`.
Status choose_loop(ElementwiseOp op, DType domain, const KernelRequest& request, const Isa& isa,
                   ElementwisePlan& plan) {
  const ElementwiseLoop single =
      domain == DType::kFloat32 ? isa.elementwise(op) : ElementwiseLoop{nullptr};
  const TypedLoop typed = single == nullptr ? isa.typed(op, domain) : nullptr;
  if (single == nullptr && typed == nullptr) {
    return unimplemented("no loop for " + std::string(dtype_name(domain)));
  }
  if (single != nullptr) plan.set_loop(single);
  if (typed != nullptr) plan.set_loop(typed);
  // Clip and ClipGrad always have both bounds.
  const bool clips = op == ElementwiseOp::kClip || op == ElementwiseOp::kClipGrad;
  const std::size_t count = clips ? (op == ElementwiseOp::kClip ? 3 : 4) : request.inputs.size();
  if (count > ElementwisePlan::kMostOperands) return unimplemented("more than 8 operands");
  const bool moves = op == ElementwiseOp::kWhere && domain != DType::kFloat32 &&
                     domain != DType::kFloat64;  // an operand counts as the integer of its size
  for (std::size_t k = 0; k < count; ++k) {
    const DType dtype = in_desc(request, k).dtype;
    const bool condition = op == ElementwiseOp::kWhere && k == 0;
    if (dtype != DType::kNone && !is_convertible(dtype)) {
      return unimplemented("operand " + std::to_string(k) + " of dtype " +
                           std::string(dtype_name(dtype)));
    }
    const DType loop = condition && typed != nullptr ? DType::kBool : domain;
    const auto bound = end_of(domain, k + 1 == count);
    plan.add_operand(moves && !condition ? domain : dtype, loop, bound.data());
  }
  const DType out = request.outputs[0].dtype;
  if (!is_convertible(out)) {
    return unimplemented("result of dtype " + std::string(dtype_name(out)));
  }
  plan.set_result(moves ? domain : out,
                  typed != nullptr && gives_truth(op) ? DType::kBool : domain);
  return plan.join_dims(request);
}

StatusOr<ElementwisePlan> make_plan(const OpRow& row, DType domain, const KernelRequest& request,
                                    const Isa& isa) {
  ElementwisePlan plan(isa, request.threads);
  MEZZO_RETURN_IF_ERROR(set_parameters(row, request, plan));
  MEZZO_RETURN_IF_ERROR(choose_loop(variant_of(row, request), domain, request, isa, plan));
  return plan;
}

template <typename T>
bool holds_zero(const void* data, Int n) {
  const auto* elements = static_cast<const T*>(data);
  bool found = false;
  for (Int i = 0; i < n; ++i) found |= elements[i] == 0;
  return found;
}

bool holds_zero(DType dtype, const void* data, Int n) {
  switch (elem_bytes(dtype)) {
    case 1: return holds_zero<std::uint8_t>(data, n);
    case 2: return holds_zero<std::uint16_t>(data, n);
    case 4: return holds_zero<std::uint32_t>(data, n);
    default: return holds_zero<std::uint64_t>(data, n);
  }
}

Prepared division_kernel(const KernelRequest& request, const Isa& isa,
                         const ElementwisePlan& plan) {
  const TensorDesc& divisor = request.inputs[1];
  const Int divisors = request.outputs[0].elems() == 0 ? 0 : divisor.elems();
  return make_kernel(
      isa, 0,
      [plan, divisors, dtype = divisor.dtype,
       op = request.op](const KernelArguments& arguments) -> Status {
        if (holds_zero(dtype, arguments.inputs[1], divisors)) {
          return invalid_argument(op + ", operand 1 'b': division of integers by zero");
        }
        plan.run(arguments);
        return ok_status();
      });
}

bool is_unsigned(DType dtype) {
  return dtype == DType::kUInt8 || dtype == DType::kUInt16 || dtype == DType::kUInt32 ||
         dtype == DType::kUInt64;
}

// True if a float holds every one of these integers, and whether it is odd.
bool fit_float(const Isa& isa, DType dtype, const void* data, Int n) {
  constexpr double kMost = 1 << 24;
  alignas(64) double values[kBlock];
  const CastLoop widen = isa.cast(dtype, DType::kFloat64);
  bool fit = true;
  for (Int done = 0; done < n; done += kBlock) {
    const Int count = std::min(kBlock, n - done);
    widen(at(data, done, dtype), values, count);
    for (Int i = 0; i < count; ++i) fit &= std::fabs(values[i]) <= kMost;
  }
  return fit;
}

// Base and exponent may be of different kinds. The usual exponents are small integers, which
// float32 holds; whether they are shows in the data.
Prepared prepare_pow(const OpRow& row, const KernelRequest& request, const Isa& isa) {
  const DType base = request.inputs[0].dtype;
  const DType exponent = request.inputs[1].dtype;
  const DType out = request.outputs[0].dtype;
  DType domain = base;
  if (!is_floating(base) && is_floating(exponent)) domain = DType::kFloat64;
  if (!is_floating(base) && !is_floating(exponent) && base != exponent) {
    if (is_unsigned(base) && !is_unsigned(exponent))
      return unimplemented("these two integer types");
    domain = exponent == DType::kUInt64 ? DType::kUInt64 : DType::kInt64;
  }
  if (is_floating(base)) {
    const bool packed =
        base != DType::kFloat64 && exponent != DType::kFloat64 && out != DType::kFloat64;
    domain = packed ? DType::kFloat32 : DType::kFloat64;
  }
  MEZZO_ASSIGN_OR_RETURN(const ElementwisePlan plan, make_plan(row, domain, request, isa));
  if (domain != DType::kFloat32 || is_floating(exponent)) {
    return make_kernel(isa, 0, [plan](const KernelArguments& arguments) { plan.run(arguments); });
  }
  MEZZO_ASSIGN_OR_RETURN(const ElementwisePlan exact,
                         make_plan(row, DType::kFloat64, request, isa));
  return make_kernel(isa, 0,
                     [plan, exact, exponent, exponents = request.inputs[1].elems(),
                      &isa](const KernelArguments& arguments) {
                       const bool fit = fit_float(isa, exponent, arguments.inputs[1], exponents);
                       (fit ? plan : exact).run(arguments);
                     });
}

}  // namespace

Prepared prepare_elementwise(const KernelRequest& request, const Isa& isa) {
  const OpRow* row = find_op(request.op);
  if (row == nullptr) return internal_error("no elementwise loop for '" + request.op + "'");
  if (row->op == ElementwiseOp::kPow) return prepare_pow(*row, request, isa);
  const DType domain = domain_of(row->op, request);
  MEZZO_ASSIGN_OR_RETURN(const ElementwisePlan plan, make_plan(*row, domain, request, isa));
  if (divides(row->op) && !is_floating(domain)) return division_kernel(request, isa, plan);
  return make_kernel(isa, 0, [plan](const KernelArguments& arguments) { plan.run(arguments); });
}

}  // namespace mezzo::kernels::cpu
