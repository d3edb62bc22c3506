#include "kernels/cpu/rows.h"

#include "kernels/cpu/common.h"

namespace mezzo::kernels {
namespace {

using cpu::Isa;
using cpu::Prepared;

// The family's kernel, after the reference has accepted the request: what a well-formed request is
// stands there, once.
template <Prepared (*kPrepare)(const KernelRequest&, const Isa&)>
Prepared checked(const KernelRequest& request) {
  const Isa* isa = cpu::selected_isa();
  if (isa == nullptr) return unimplemented("needs a processor with AVX2, FMA and F16C");
  const auto reference = kernel_rows(request.op, Backend::kReference);
  if (reference.empty()) return unimplemented("no reference kernel to check the request");
  const auto accepted = reference.front()->prepare(request);
  if (!accepted.ok()) return accepted.status();
  return kPrepare(request, *isa);
}

template <Prepared (*kPrepare)(const KernelRequest&, const Isa&)>
constexpr KernelEntry row(std::string_view op) {
  return {op, "cpu", checked<kPrepare>};
}

constexpr auto elementwise = row<cpu::prepare_elementwise>;
constexpr auto reduce = row<cpu::prepare_reduce>;
constexpr auto softmax = row<cpu::prepare_softmax>;
constexpr auto copy = row<cpu::prepare_copy>;

constexpr KernelEntry kRows[] = {
    row<cpu::prepare_attention>("ScaledDotProductAttention"),
    row<cpu::prepare_attention>("ScaledDotProductAttentionGrad"),
    elementwise("Add"),
    elementwise("Sub"),
    elementwise("Mul"),
    elementwise("Div"),
    elementwise("Pow"),
    elementwise("Max"),
    elementwise("Min"),
    elementwise("Relu"),
    elementwise("Sigmoid"),
    elementwise("Tanh"),
    elementwise("Erf"),
    elementwise("Exp"),
    elementwise("Log"),
    elementwise("Sqrt"),
    elementwise("Reciprocal"),
    elementwise("Neg"),
    elementwise("Abs"),
    elementwise("Softplus"),
    elementwise("HardSigmoid"),
    elementwise("HardSwish"),
    elementwise("LeakyRelu"),
    elementwise("Elu"),
    elementwise("Sin"),
    elementwise("Cos"),
    elementwise("Floor"),
    elementwise("Ceil"),
    elementwise("Round"),
    elementwise("Sign"),
    elementwise("Gelu"),
    elementwise("Swish"),
    elementwise("Clip"),
    elementwise("Where"),
    elementwise("Equal"),
    elementwise("Less"),
    elementwise("Greater"),
    elementwise("LessOrEqual"),
    elementwise("GreaterOrEqual"),
    elementwise("And"),
    elementwise("Or"),
    elementwise("Not"),
    elementwise("Tan"),
    elementwise("Asin"),
    elementwise("Acos"),
    elementwise("Atan"),
    elementwise("Sinh"),
    elementwise("Cosh"),
    elementwise("Asinh"),
    elementwise("Acosh"),
    elementwise("Atanh"),
    elementwise("Selu"),
    elementwise("Celu"),
    elementwise("Mish"),
    elementwise("Softsign"),
    elementwise("ThresholdedRelu"),
    elementwise("Shrink"),
    elementwise("PRelu"),
    elementwise("Mod"),
    elementwise("Xor"),
    elementwise("IsNaN"),
    elementwise("IsInf"),
    elementwise("BitwiseAnd"),
    elementwise("BitwiseOr"),
    elementwise("BitwiseXor"),
    elementwise("BitwiseNot"),
    elementwise("BitShift"),
    elementwise("ReluGrad"),
    elementwise("SigmoidGrad"),
    elementwise("TanhGrad"),
    elementwise("GeluGrad"),
    elementwise("SwishGrad"),
    elementwise("ErfGrad"),
    elementwise("SoftplusGrad"),
    elementwise("HardSwishGrad"),
    elementwise("HardSigmoidGrad"),
    elementwise("LeakyReluGrad"),
    elementwise("EluGrad"),
    elementwise("LogGrad"),
    elementwise("AbsGrad"),
    elementwise("SinGrad"),
    elementwise("CosGrad"),
    elementwise("ExpGrad"),
    elementwise("SqrtGrad"),
    elementwise("ReciprocalGrad"),
    elementwise("ClipGrad"),
    elementwise("PowGrad"),
    elementwise("DropoutGrad"),
    row<cpu::prepare_add_n>("AddN"),
    row<cpu::prepare_add_n>("Sum"),
    row<cpu::prepare_add_n>("Mean"),
    row<cpu::prepare_cast>("Cast"),
    row<cpu::prepare_dropout>("Dropout"),
    reduce("SumTo"),
    reduce("ReduceMean"),
    reduce("ReduceSum"),
    reduce("ReduceMax"),
    reduce("ReduceMin"),
    reduce("ReduceProd"),
    reduce("ReduceSumSquare"),
    reduce("ReduceL2"),
    reduce("ReduceL1"),
    reduce("ReduceLogSum"),
    row<cpu::prepare_arg_extreme>("ArgMax"),
    row<cpu::prepare_arg_extreme>("ArgMin"),
    row<cpu::prepare_scan>("CumSum"),
    row<cpu::prepare_scan>("CumProd"),
    row<cpu::prepare_quantize>("QuantizeLinear"),
    row<cpu::prepare_dequantize>("DequantizeLinear"),
    row<cpu::prepare_dynamic_quantize>("DynamicQuantizeLinear"),
    reduce("GlobalAveragePool"),
    reduce("ConvGradBias"),
    softmax("Softmax"),
    softmax("LogSoftmax"),
    softmax("SoftmaxGrad"),
    softmax("LogSoftmaxGrad"),
    row<cpu::prepare_cross_entropy>("SoftmaxCrossEntropyLoss"),
    row<cpu::prepare_cross_entropy_grad>("SoftmaxCrossEntropyLossGrad"),
    row<cpu::prepare_layer_norm>("LayerNormalization"),
    row<cpu::prepare_layer_norm_grad>("LayerNormalizationGrad"),
    row<cpu::prepare_batch_norm>("BatchNormalization"),
    row<cpu::prepare_batch_norm_grad>("BatchNormalizationGrad"),
    row<cpu::prepare_transpose>("Transpose"),
    row<cpu::prepare_transpose>("Reorder"),
    copy("Reshape"),
    copy("Flatten"),
    copy("Squeeze"),
    copy("Unsqueeze"),
    copy("Identity"),
    copy("BitCast"),
    copy("FillZero"),
    row<cpu::prepare_concat>("Concat"),
    row<cpu::prepare_split>("Split"),
    row<cpu::prepare_slice>("Slice"),
    row<cpu::prepare_slice>("SliceGrad"),
    row<cpu::prepare_pad>("Pad"),
    row<cpu::prepare_expand>("Expand"),
    row<cpu::prepare_resize>("Resize"),
    row<cpu::prepare_resize>("ResizeGrad"),
    row<cpu::prepare_grid_sample>("GridSample"),
    row<cpu::prepare_deform_conv>("DeformConv"),
    row<cpu::prepare_roi_align>("RoiAlign"),
    elementwise("GlobalAveragePoolGrad"),
    row<cpu::prepare_gather>("Gather"),
    row<cpu::prepare_gather_grad>("GatherGrad"),
    row<cpu::prepare_matmul>("MatMul"),
    row<cpu::prepare_matmul>("MatMulT"),
    row<cpu::prepare_matmul>("Gemm"),
    row<cpu::prepare_matmul_integer>("MatMulInteger"),
    row<cpu::prepare_qlinear_matmul>("QLinearMatMul"),
    row<cpu::prepare_conv>("Conv"),
    row<cpu::prepare_conv_integer>("ConvInteger"),
    row<cpu::prepare_qlinear_conv>("QLinearConv"),
    row<cpu::prepare_recurrent>("RNN"),
    row<cpu::prepare_recurrent>("GRU"),
    row<cpu::prepare_recurrent>("LSTM"),
    row<cpu::prepare_recurrent_grad>("RNNGrad"),
    row<cpu::prepare_recurrent_grad>("GRUGrad"),
    row<cpu::prepare_recurrent_grad>("LSTMGrad"),
    row<cpu::prepare_group_norm>("GroupNormalization"),
    row<cpu::prepare_group_norm>("InstanceNormalization"),
    row<cpu::prepare_rms_norm>("RMSNormalization"),
    row<cpu::prepare_rms_norm_grad>("RMSNormalizationGrad"),
    row<cpu::prepare_lrn>("LRN"),
    row<cpu::prepare_max_pool>("MaxPool"),
    row<cpu::prepare_max_pool_grad>("MaxPoolGrad"),
    row<cpu::prepare_average_pool>("AveragePool"),
    row<cpu::prepare_average_pool_grad>("AveragePoolGrad"),
};

}  // namespace

std::span<const KernelEntry> cpu_rows() { return kRows; }

}  // namespace mezzo::kernels
