// Which kernels there are, best first: oneDNN, then the project's vectorised code, then reference.
// Each room keeps one explicit array of rows; nothing registers itself.
#include <algorithm>
#include <iterator>

#include "kernels/cpu/rows.h"
#include "kernels/kernel.h"
#include "kernels/onednn/rows.h"
#include "kernels/reference/rows.h"
#include "kernels/request_check.h"

namespace mezzo::kernels {
namespace {

struct InPlaceRow {
  std::string_view op;
  bool second_operand = false;  // input 1 may be reused as well
  bool every_operand = false;
};

// The third column of the op list (README.md). Always output 0 over input 0.
constexpr InPlaceRow kInPlace[] = {
    {"SoftmaxCrossEntropyLossGrad", true},
    {"Add", true},
    {"Sub", true},
    {"Mul", true},
    {"Div", true},
    {"Pow", true},
    {"Max", true},
    {"Min", true},
    {"Relu"},
    {"Sigmoid"},
    {"Tanh"},
    {"Erf"},
    {"Exp"},
    {"Log"},
    {"Sqrt"},
    {"Reciprocal"},
    {"Neg"},
    {"Abs"},
    {"Softplus"},
    {"HardSigmoid"},
    {"HardSwish"},
    {"LeakyRelu"},
    {"Elu"},
    {"Sin"},
    {"Cos"},
    {"Gelu"},
    {"Swish"},
    {"Clip"},
    {"ReluGrad"},
    {"SigmoidGrad"},
    {"TanhGrad"},
    {"GeluGrad"},
    {"SwishGrad"},
    {"ErfGrad"},
    {"SoftplusGrad"},
    {"HardSwishGrad"},
    {"HardSigmoidGrad"},
    {"LeakyReluGrad"},
    {"EluGrad"},
    {"LogGrad"},
    {"AbsGrad"},
    {"SinGrad"},
    {"CosGrad"},
    {"ExpGrad"},
    {"SqrtGrad"},
    {"ReciprocalGrad"},
    {"ClipGrad"},
    {"PowGrad"},
    {"AddN"},
    {"FusedElementwise", true, true},
    {"ScatterElements"},
    {"ScatterND"},
    {"TensorScatter"},
    {"Tan"},
    {"Asin"},
    {"Acos"},
    {"Atan"},
    {"Sinh"},
    {"Cosh"},
    {"Asinh"},
    {"Acosh"},
    {"Atanh"},
    {"Mish"},
    {"Softsign"},
    {"Selu"},
    {"Celu"},
    {"ThresholdedRelu"},
    {"Shrink"},
    {"PRelu"},
};

// Beside those of kInPlace, which go through their operands in the order of memory.
constexpr std::string_view kKeepLayout[] = {
    "BatchNormalization",
    "BatchNormalizationGrad",
    "MaxPool",
    "MaxPoolGrad",
    "AveragePoolGrad",
    "GlobalAveragePoolGrad",
    "ConvGradBias",
    "ResizeGrad",
    "SumTo",
    "Expand",
    "AveragePool",
    "GlobalAveragePool",
    "Concat",
    "Split",
    "Slice",
    "Pad",
    "Resize",
    "ReduceMean",
    "ReduceSum",
    "ReduceMax",
    "ReduceMin",
    "Softmax",
    "LogSoftmax",
    "Cast",
    "Where",
    "Floor",
    "Ceil",
    "Round",
    "Sign",
};
// Run in place, yet elements are named by their row-major places; or labels stand beside the
// scores, which have dims of their own.
constexpr std::string_view kByPlace[] = {"ScatterElements", "ScatterND", "TensorScatter",
                                         "SoftmaxCrossEntropyLossGrad"};
constexpr std::string_view kPreferChannelsLast[] = {"Conv", "ConvTranspose"};

struct OptionalResult {
  std::string_view op;
  int output;
};

// The results marked ? in the op list.
constexpr OptionalResult kOptionalResults[] = {
    {"LayerNormalization", 1},
    {"LayerNormalization", 2},
    {"LayerNormalizationGrad", 2},
    {"RMSNormalizationGrad", 0},
    {"RMSNormalizationGrad", 1},
    {"MaxPool", 1},
    {"SoftmaxCrossEntropyLoss", 1},
    {"SoftmaxCrossEntropyLoss", 2},
    {"TopK", 0},
    {"TopK", 1},
    {"Unique", 1},
    {"Unique", 2},
    {"Unique", 3},
    {"Dropout", 1},
    {"MatMulActivation", 1},
    {"ScaledDotProductAttention", 1},
    {"LinearAttention", 1},
    {"RNN", 0},
    {"RNN", 1},
    {"GRU", 0},
    {"GRU", 1},
    {"LSTM", 0},
    {"LSTM", 1},
    {"LSTM", 2},
    {"GridSampleGrad", 0},
    {"GridSampleGrad", 1},
    {"STFTGrad", 0},
    {"STFTGrad", 1},
};

// Of these every result.
constexpr std::string_view kAllResultsOptional[] = {"RNNGrad", "GRUGrad", "LSTMGrad",
                                                    "DeformConvGrad", "LinearAttentionGrad"};

void append_rows(std::span<const KernelEntry> rows, std::string_view op,
                 std::vector<const KernelEntry*>& found) {
  for (const KernelEntry& row : rows) {
    if (row.op == op) found.push_back(&row);
  }
}

}  // namespace

std::vector<const KernelEntry*> kernel_rows(std::string_view op, Backend backend) {
  std::vector<const KernelEntry*> found;
  if (backend == Backend::kCpu) {
    append_rows(onednn_rows(), op, found);
    append_rows(cpu_rows(), op, found);
  }
  append_rows(reference_rows(), op, found);
  return found;
}

StatusOr<std::unique_ptr<Kernel>> prepare_kernel(const KernelRequest& request, Backend backend) {
  MEZZO_RETURN_IF_ERROR(check_request(request));
  std::string refusals;
  for (const KernelEntry* row : kernel_rows(request.op, backend)) {
    auto kernel = row->prepare(request);
    if (kernel.ok() || kernel.status().code() != StatusCode::kUnimplemented) return kernel;
    refusals += refusals.empty() ? "" : "; ";
    refusals += std::string(row->implementation) + ": " + kernel.status().message();
  }
  if (refusals.empty()) return unimplemented("no kernel for operator '" + request.op + "'");
  return unimplemented("no kernel of '" + request.op + "' supports this request: " + refusals);
}

bool may_run_in_place(std::string_view op, int input, int output) {
  if (output != 0) return false;
  const auto* row = std::find_if(std::begin(kInPlace), std::end(kInPlace),
                                 [&](const InPlaceRow& candidate) { return candidate.op == op; });
  if (row == std::end(kInPlace)) return false;
  return input == 0 || (input == 1 && row->second_operand) || row->every_operand;
}

LayoutUse layout_use(std::string_view op) {
  const auto lists = [op](std::span<const std::string_view> ops) {
    return std::find(ops.begin(), ops.end(), op) != ops.end();
  };
  if (lists(kByPlace)) return LayoutUse::kRowMajor;
  if (lists(kPreferChannelsLast)) return LayoutUse::kPrefers;
  if (op == "Transpose" || op == "Reorder") return LayoutUse::kMoves;
  if (lists(kKeepLayout) || may_run_in_place(op, 0, 0)) return LayoutUse::kKeeps;
  return LayoutUse::kRowMajor;
}

bool result_may_be_absent(std::string_view op, int output) {
  if (std::find(std::begin(kAllResultsOptional), std::end(kAllResultsOptional), op) !=
      std::end(kAllResultsOptional)) {
    return true;
  }
  return std::any_of(
      std::begin(kOptionalResults), std::end(kOptionalResults),
      [&](const OptionalResult& row) { return row.op == op && row.output == output; });
}

}  // namespace mezzo::kernels
