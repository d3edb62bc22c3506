// Reductions over axes, SumTo, global pooling and the gradient of a convolution's bias, by the
// kernels of reduce_plan.h. Any layout. Sums in float32 or better: float64 in float64, integers in
// 64 bits, wrapping.
#include <string>
#include <utility>

#include "kernels/cuda/element_dtypes.h"
#include "kernels/cuda/function_kernel.h"
#include "kernels/cuda/reduce_plan.h"
#include "kernels/cuda/rows.h"

namespace mezzo::kernels::cuda {
namespace {

constexpr std::string_view kName = "cuda:reduce";

bool is_unsigned(DType dtype) {
  return dtype == DType::kUInt8 || dtype == DType::kUInt16 || dtype == DType::kUInt32 ||
         dtype == DType::kUInt64;
}

// The dims that are reduced, and the strides of y along those that are not.
struct Axes {
  std::vector<bool> reduced;
  Dims y_strides;
};

Axes read_axes(const KernelRequest& request) {
  const Dims& x = request.inputs[0].dims;
  const TensorDesc& y = request.outputs[0];
  const std::size_t rank = x.size();
  Axes axes{std::vector<bool>(rank, false), Dims(rank, 0)};
  const std::size_t missing = rank - y.dims.size();
  if (request.op == "SumTo") {
    for (std::size_t d = 0; d < rank; ++d) {
      axes.reduced[d] = d < missing || (y.dims[d - missing] == 1 && x[d] != 1);
    }
  } else if (request.op == "ConvGradBias") {
    for (std::size_t d = 0; d < rank; ++d) axes.reduced[d] = d != 1;
  } else if (request.op == "GlobalAveragePool" || request.op == "GlobalLpPool") {
    for (std::size_t d = 2; d < rank; ++d) axes.reduced[d] = true;
  } else {
    const Dims list = request.attributes.get_ints("axes");
    for (const Int axis : list) {
      axes.reduced[static_cast<std::size_t>(axis < 0 ? axis + static_cast<Int>(rank) : axis)] =
          true;
    }
    if (list.empty() && request.attributes.get_int("noop_with_empty_axes", 0) == 0) {
      axes.reduced.assign(rank, true);
    }
  }
  const Dims strides = strides_within(y, y.dims);
  std::size_t next = 0;
  for (std::size_t d = 0; d < rank; ++d) {
    if (axes.reduced[d]) continue;
    const std::size_t place = missing == 0 ? d : request.op == "SumTo" ? d - missing : next;
    axes.y_strides[d] = strides[place];
    ++next;
  }
  return axes;
}

void choose_op(const KernelRequest& request, ReducePlan& plan) {
  const std::string& name = request.op;
  const bool power = name == "GlobalLpPool";
  plan.power = power ? static_cast<double>(request.attributes.get_int("p", 2)) : 2.0;
  if (name == "ReduceMax") plan.op = ReduceOp::kMax;
  if (name == "ReduceMin") plan.op = ReduceOp::kMin;
  if (name == "ReduceProd") plan.op = ReduceOp::kProd;
  if (name == "ReduceSumSquare" || name == "ReduceL2") plan.op = ReduceOp::kSumSquare;
  if (name == "ReduceL1" && !is_unsigned(plan.x)) plan.op = ReduceOp::kSumAbs;
  if (power) plan.op = plan.power == 1.0 ? ReduceOp::kSumAbs : ReduceOp::kSumPower;
  if (power && plan.power == 2.0) plan.op = ReduceOp::kSumSquare;
  if (name == "ReduceMean" || name == "GlobalAveragePool") plan.end = ReduceEnd::kMean;
  if (name == "ReduceL2") plan.end = ReduceEnd::kRoot;
  if (name == "ReduceLogSum") plan.end = ReduceEnd::kLog;
  if (power && plan.power != 1.0) {
    plan.end = plan.power == 2.0 ? ReduceEnd::kRoot : ReduceEnd::kPowerRoot;
  }
}

// Integers: what maxima and minima start from, the end of the dtype's range.
void choose_extreme(ReducePlan& plan) {
  const bool greatest = plan.op == ReduceOp::kMin;
  if (plan.op != ReduceOp::kMax && !greatest) return;
  const int bits = dtype_bits(plan.x);
  plan.flips = plan.x == DType::kUInt64 ? 1 : 0;
  const Int half = bits == 64 ? INT64_MAX : (Int{1} << (bits - 1)) - 1;
  if (plan.x == DType::kBool) {
    plan.extreme = greatest ? 1 : 0;
  } else if (is_unsigned(plan.x) && bits < 64) {
    plan.extreme = greatest ? (Int{1} << bits) - 1 : 0;
  } else {
    plan.extreme = greatest ? half : -half - 1;
  }
}

// A bound of the sum of magnitudes of n integers below 2^63.
bool sum_may_overflow(const ReducePlan& plan) {
  return plan.x == DType::kInt64 || plan.x == DType::kUInt64;
}

StatusOr<ReducePlan> make_plan(const KernelRequest& request) {
  const TensorDesc& x = request.inputs[0];
  const TensorDesc& y = request.outputs[0];
  if (!has_elements(x.dtype) || !has_elements(y.dtype)) return unimplemented("narrow dtypes");
  ReducePlan plan;
  plan.x = x.dtype;
  plan.y = y.dtype;
  choose_op(request, plan);
  const bool floats = is_floating(plan.x);
  if (plan.x == DType::kFloat64 || plan.y == DType::kFloat64) {
    plan.accumulator = Accumulator::kDouble;
  } else if (!floats) {
    // Roots and logarithms of integers are taken in float64.
    const bool whole = plan.end == ReduceEnd::kNone || plan.end == ReduceEnd::kMean;
    plan.accumulator =
        whole && request.op != "ReduceLogSumExp" ? Accumulator::kInteger : Accumulator::kDouble;
  }
  if (plan.accumulator == Accumulator::kInteger) {
    choose_extreme(plan);
    if (plan.end == ReduceEnd::kMean && sum_may_overflow(plan)) {
      return unimplemented("means of 64-bit integers, whose sums may need more bits");
    }
  }
  const Axes axes = read_axes(request);
  shape_reduction(x, axes.reduced, axes.y_strides, plan);
  return plan;
}

// The greatest number is taken out first, so that no exp overflows.
Prepared log_sum_exp(const ReducePlan& plan) {
  ReducePlan greatest = plan;
  greatest.op = ReduceOp::kMaxNumber;
  ReducePlan sums = plan;
  sums.op = ReduceOp::kSumExp;
  sums.end = ReduceEnd::kLogShift;
  const std::size_t shift_bytes =
      static_cast<std::size_t>(ceil_div(plan.results, 4) * 4) * plan.accumulator_bytes();
  return make_kernel(
      kName, shift_bytes + plan.partial_bytes(),
      [greatest, sums, shift_bytes](const KernelArguments& arguments) {
        void* shifts = arguments.workspace;
        void* partial = static_cast<std::byte*>(arguments.workspace) + shift_bytes;
        MEZZO_RETURN_IF_ERROR(run_reduction(greatest, arguments.inputs[0], shifts, partial, nullptr,
                                            true, arguments.stream));
        return run_reduction(sums, arguments.inputs[0], arguments.outputs[0], partial, shifts,
                             false, arguments.stream);
      });
}

Prepared reduce(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const ReducePlan plan, make_plan(request));
  if (request.op == "ReduceLogSumExp") return log_sum_exp(plan);
  return make_kernel(kName, plan.partial_bytes(), [plan](const KernelArguments& arguments) {
    return run_reduction(plan, arguments.inputs[0], arguments.outputs[0], arguments.workspace,
                         nullptr, false, arguments.stream);
  });
}

constexpr KernelEntry kRows[] = {
    {"ReduceMean", kName, reduce},
    {"ReduceSum", kName, reduce},
    {"ReduceMax", kName, reduce},
    {"ReduceMin", kName, reduce},
    {"ReduceProd", kName, reduce},
    {"ReduceSumSquare", kName, reduce},
    {"ReduceL1", kName, reduce},
    {"ReduceL2", kName, reduce},
    {"ReduceLogSum", kName, reduce},
    {"ReduceLogSumExp", kName, reduce},
    {"SumTo", kName, reduce},
    {"ConvGradBias", kName, reduce},
    {"GlobalAveragePool", kName, reduce},
    {"GlobalLpPool", kName, reduce},
};

}  // namespace

std::span<const KernelEntry> reduce_rows() { return kRows; }

}  // namespace mezzo::kernels::cuda
