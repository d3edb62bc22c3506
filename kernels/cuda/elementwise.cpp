// Elementwise operators, their gradients, casts and programs of them: each becomes a program for
// the one kernel of element_run.cu.
//
// Floating operands of up to 32 bits are computed in float32, with a float64 among them in double,
// integers and truth values in 64-bit integers. Results are rounded once.
#include <algorithm>
#include <cmath>
#include <memory>

#include "kernels/cuda/check.h"
#include "kernels/cuda/context.h"
#include "kernels/cuda/element_dtypes.h"
#include "kernels/cuda/element_run.h"
#include "kernels/cuda/rows.h"

namespace mezzo::kernels::cuda {
namespace {

class ElementKernel : public Kernel {
 public:
  ElementKernel(ElementRun run, ElementDomain domain, int multiprocessors, std::string op)
      : run_(run), domain_(domain), multiprocessors_(multiprocessors), op_(std::move(op)) {}

  Status run(const KernelArguments& arguments) override {
    if (run_.index.elems == 0) return ok_status();
    ElementRun run = run_;
    for (std::size_t i = 0; i < arguments.inputs.size(); ++i) {
      run.operands[i].data = arguments.inputs[i];
    }
    run.y = arguments.outputs[0];
    run.fault = arguments.fault;
    run.step = arguments.step;
    return launch_elements(run, domain_, multiprocessors_, arguments.stream);
  }

  Status explain(const DeviceFault& fault) const override {
    return invalid_argument(op_ + ", operand " + std::to_string(fault.operand) + " 'b', element " +
                            std::to_string(fault.position) + ": division of integers by zero");
  }

  std::string_view implementation() const override { return "cuda:elementwise"; }

 private:
  ElementRun run_;
  ElementDomain domain_;
  int multiprocessors_;
  std::string op_;
};

bool side_has(const std::vector<TensorDesc>& side, std::size_t first, DType dtype) {
  return std::any_of(side.begin() + static_cast<std::ptrdiff_t>(std::min(first, side.size())),
                     side.end(), [=](const TensorDesc& desc) { return desc.dtype == dtype; });
}

bool has_double(const KernelRequest& request) {
  return side_has(request.inputs, 0, DType::kFloat64) ||
         side_has(request.outputs, 0, DType::kFloat64);
}

bool is_wide_integer(DType dtype) {
  return dtype == DType::kInt32 || dtype == DType::kUInt32 || dtype == DType::kInt64 ||
         dtype == DType::kUInt64;
}

// True if float32 holds every element of a constant operand, and whether it is odd.
bool fits_float(const TensorDesc& desc, const void* data) {
  if (!is_wide_integer(desc.dtype)) return true;
  if (data == nullptr) return false;
  constexpr std::int64_t kMost = 1 << 24;
  const auto all = [&](const auto* elements) {
    return std::all_of(elements, elements + desc.elems(), [](auto element) {
      return static_cast<std::int64_t>(element) >= -kMost &&
             static_cast<std::int64_t>(element) <= kMost;
    });
  };
  switch (desc.dtype) {
    case DType::kInt32: return all(static_cast<const std::int32_t*>(data));
    case DType::kUInt32: return all(static_cast<const std::uint32_t*>(data));
    case DType::kInt64: return all(static_cast<const std::int64_t*>(data));
    default: return all(static_cast<const std::uint64_t*>(data));
  }
}

struct Numbers {
  ElementDomain domain = ElementDomain::kFloat;
  bool is_unsigned = false;
};

Numbers real_numbers(const KernelRequest& request) {
  return {has_double(request) ? ElementDomain::kDouble : ElementDomain::kFloat, false};
}

// Base and exponent may be of different kinds.
StatusOr<Numbers> numbers_of_power(const KernelRequest& request) {
  const DType base = request.inputs[0].dtype, exponent = request.inputs[1].dtype;
  if (is_floating(base)) {
    const bool fits = fits_float(request.inputs[1], request.constant(1));
    return Numbers{fits ? real_numbers(request).domain : ElementDomain::kDouble, false};
  }
  if (is_floating(exponent)) return Numbers{ElementDomain::kDouble, false};
  // Products of signed numbers have the bits of unsigned ones; what counts is the exponent's sign.
  return Numbers{ElementDomain::kInteger, exponent == DType::kUInt64};
}

StatusOr<Numbers> numbers_of(const KernelRequest& request) {
  const DType first = request.inputs[request.op == "Where" ? 1 : 0].dtype;
  if (request.op == "Pow") return numbers_of_power(request);
  if (request.op == "FusedElementwise") return real_numbers(request);
  if (request.op == "PowGrad" && !fits_float(request.inputs[2], request.constant(2))) {
    return Numbers{ElementDomain::kDouble, false};
  }
  if (is_floating(first)) return real_numbers(request);
  return Numbers{ElementDomain::kInteger, first == DType::kUInt64};
}

// Attributes as whole numbers, as in ONNX's function body of Shrink.
Status truncate(ElementStatement& shrink, bool is_unsigned) {
  constexpr double kMost = 4e18;
  for (double* value : {&shrink.alpha, &shrink.beta}) {
    *value = std::isnan(*value) ? 0.0 : std::trunc(*value);
    if (std::fabs(*value) > kMost || (is_unsigned && *value < 0.0)) {
      return unimplemented("an attribute beyond the integers' range");
    }
  }
  return ok_status();
}

StatusOr<ElementProgram> program_of(const KernelRequest& request, const Numbers& numbers) {
  if (request.op == "FusedElementwise") {
    return parse_element_program(request.attributes.get_string("program", ""),
                                 request.inputs.size());
  }
  ElementProgram program;
  std::vector<ElementSource> sources;
  std::vector<bool> is_present;
  for (std::size_t i = 0; i < request.inputs.size(); ++i) {
    sources.push_back(ElementSource::operand(static_cast<int>(i)));
    is_present.push_back(request.inputs[i].present());
  }
  if (request.op == "Cast") {
    program.statements.push_back({ElementOp::kIdentity, 0.0, 0.0, sources});
  } else if (request.op == "BitShift") {
    const bool left = request.attributes.get_string("direction", "") == "LEFT";
    program.statements.push_back({left ? ElementOp::kShiftLeft : ElementOp::kShiftRight,
                                  static_cast<double>(dtype_bits(request.inputs[0].dtype)), 0.0,
                                  sources});
  } else if (request.op == "GlobalAveragePoolGrad") {
    double pixels = 1.0;
    const Dims& dims = request.outputs[0].dims;
    for (std::size_t d = 2; d < dims.size(); ++d) pixels *= static_cast<double>(dims[d]);
    program.statements.push_back(
        {ElementOp::kMul, 0.0, 0.0, {sources[0], ElementSource::constant(1.0 / pixels)}});
  } else {
    MEZZO_RETURN_IF_ERROR(
        append_operation(request.op, request.attributes, sources, is_present, program));
  }
  if (request.op == "Pow" && request.inputs[0].dtype == DType::kUInt64) {
    program.statements.front().alpha = numbers.is_unsigned ? 0.0 : 1.0;
  }
  if (request.op == "Shrink" && numbers.domain == ElementDomain::kInteger) {
    MEZZO_RETURN_IF_ERROR(truncate(program.statements.front(), numbers.is_unsigned));
  }
  return program;
}

// How each operand is walked through beside the result.
void set_accesses(const KernelRequest& request, ElementRun& run) {
  const TensorDesc& y = request.outputs[0];
  const auto order = memory_order(y.dims.size(), y.layout);
  const Dims dense = strides_within(y, y.dims);
  std::array<Dims, kElementViews> strides;
  strides.fill(Dims(y.dims.size(), 0));
  for (std::size_t i = 0; i < request.inputs.size(); ++i) {
    const TensorDesc& x = request.inputs[i];
    run.operands[i].dtype = x.dtype;
    if (!x.present()) continue;
    const Dims walk = strides_within(x, y.dims);
    if (x.elems() == 1) {
      run.operands[i].access = ElementAccess::kOne;
    } else if (walk == dense) {
      run.operands[i].access = ElementAccess::kDense;
    } else {
      run.operands[i].access = ElementAccess::kStrided;
      strides[i] = ordered(walk, order);
    }
  }
  run.index = make_index<kElementViews>(ordered(y.dims, order), strides);
  const int rank = run.index.rank;
  run.whole_rows = rank < 2 || run.index.sizes[rank - 1].value() % 4 == 0 ? 1 : 0;
}

StatusOr<std::unique_ptr<Kernel>> prepare_elements(const KernelRequest& request) {
  if (request.inputs.empty() || request.outputs.empty()) return invalid_argument("no operands");
  if (request.inputs.size() > kElementViews) {
    return unimplemented("more than " + std::to_string(kElementViews) + " operands");
  }
  for (const auto* side : {&request.inputs, &request.outputs}) {
    for (const TensorDesc& desc : *side) {
      if (desc.present() && !has_elements(desc.dtype)) {
        return unimplemented("dtype " + std::string(dtype_name(desc.dtype)));
      }
    }
  }
  if (request.op == "Mean" && !is_floating(request.inputs[0].dtype) &&
      dtype_bits(request.inputs[0].dtype) == 64) {
    return unimplemented("means of 64-bit integers");
  }
  MEZZO_ASSIGN_OR_RETURN(const Numbers numbers, numbers_of(request));
  MEZZO_ASSIGN_OR_RETURN(const ElementProgram program, program_of(request, numbers));
  MEZZO_ASSIGN_OR_RETURN(const std::vector<ElementStep> steps, element_steps(program));
  ElementRun run;
  run.y_dtype = request.outputs[0].dtype;
  run.is_unsigned = numbers.is_unsigned ? 1 : 0;
  run.steps = static_cast<std::int32_t>(steps.size());
  std::copy(steps.begin(), steps.end(), std::begin(run.program));
  set_accesses(request, run);
  return std::unique_ptr<Kernel>(std::make_unique<ElementKernel>(
      run, numbers.domain, static_cast<const Context*>(request.device)->multiprocessors,
      request.op));
}

// The same bits under another dtype.
class BitCopy : public Kernel {
 public:
  explicit BitCopy(std::size_t bytes) : bytes_(bytes) {}
  Status run(const KernelArguments& arguments) override {
    if (bytes_ == 0) return ok_status();
    return check("cudaMemcpyAsync", cudaMemcpyAsync(arguments.outputs[0], arguments.inputs[0],
                                                    bytes_, cudaMemcpyDeviceToDevice,
                                                    static_cast<cudaStream_t>(arguments.stream)));
  }
  std::string_view implementation() const override { return "cuda:copy"; }

 private:
  std::size_t bytes_;
};

StatusOr<std::unique_ptr<Kernel>> prepare_bit_cast(const KernelRequest& request) {
  return std::unique_ptr<Kernel>(std::make_unique<BitCopy>(request.outputs.at(0).bytes()));
}

constexpr KernelEntry row(std::string_view op) { return {op, "cuda", prepare_elements}; }

constexpr KernelEntry kRows[] = {
    row("Add"),
    row("Sub"),
    row("Mul"),
    row("Div"),
    row("Pow"),
    row("Max"),
    row("Min"),
    row("Mod"),
    row("PRelu"),
    row("Relu"),
    row("Sigmoid"),
    row("Tanh"),
    row("Erf"),
    row("Exp"),
    row("Log"),
    row("Sqrt"),
    row("Reciprocal"),
    row("Neg"),
    row("Abs"),
    row("Softplus"),
    row("HardSigmoid"),
    row("HardSwish"),
    row("LeakyRelu"),
    row("Elu"),
    row("Sin"),
    row("Cos"),
    row("Gelu"),
    row("Swish"),
    row("Floor"),
    row("Ceil"),
    row("Round"),
    row("Sign"),
    row("Tan"),
    row("Asin"),
    row("Acos"),
    row("Atan"),
    row("Sinh"),
    row("Cosh"),
    row("Asinh"),
    row("Acosh"),
    row("Atanh"),
    row("Selu"),
    row("Celu"),
    row("Mish"),
    row("Softsign"),
    row("ThresholdedRelu"),
    row("Shrink"),
    row("Clip"),
    row("Sum"),
    row("Mean"),
    row("AddN"),
    row("Where"),
    row("Equal"),
    row("Less"),
    row("Greater"),
    row("LessOrEqual"),
    row("GreaterOrEqual"),
    row("And"),
    row("Or"),
    row("Xor"),
    row("Not"),
    row("IsNaN"),
    row("IsInf"),
    row("BitwiseAnd"),
    row("BitwiseOr"),
    row("BitwiseXor"),
    row("BitwiseNot"),
    row("BitShift"),
    row("Cast"),
    {"BitCast", "cuda", prepare_bit_cast},
    row("ReluGrad"),
    row("SigmoidGrad"),
    row("TanhGrad"),
    row("ExpGrad"),
    row("SqrtGrad"),
    row("ReciprocalGrad"),
    row("GeluGrad"),
    row("SwishGrad"),
    row("ErfGrad"),
    row("SoftplusGrad"),
    row("HardSwishGrad"),
    row("HardSigmoidGrad"),
    row("LeakyReluGrad"),
    row("EluGrad"),
    row("LogGrad"),
    row("AbsGrad"),
    row("SinGrad"),
    row("CosGrad"),
    row("ClipGrad"),
    row("PowGrad"),
    row("DropoutGrad"),
    row("GlobalAveragePoolGrad"),
    row("FusedElementwise"),
};

}  // namespace

std::span<const KernelEntry> elementwise_rows() { return kRows; }

}  // namespace mezzo::kernels::cuda
