// Softmax and losses: pinned to FP32, as they exponentiate, sum and take logarithms.
#include "compiler/ops/families.h"
#include "compiler/ops/softmax_loss_rules.h"

namespace mezzo {
namespace {

using enum PrecisionCategory;
using enum PadRule;

constexpr OpDef kSoftmaxLossOps[] = {
    {.name = "Softmax",
     .precision = kDeny,
     .pin = PinKind::kSoftmax,
     .padding = kUnpadded,
     .gradient = grad_softmax},
    {.name = "LogSoftmax",
     .precision = kDeny,
     .pin = PinKind::kSoftmax,
     .padding = kUnpadded,
     .gradient = grad_softmax},
    {.name = "Hardmax",
     .precision = kDeny,  // rounding makes ties
     .pin = PinKind::kSoftmax,
     .padding = kUnpadded,
     .not_differentiable = kPiecewiseConstant},
    {.name = "SoftmaxCrossEntropyLoss",
     .precision = kDeny,
     .pin = PinKind::kLoss,
     .fp32_operands = bits(0, 2),
     .fp32_results = bits(0, 1),
     .no_gradient_operands = bits(1, 2),
     .padding = kUnpadded,
     .gradient = grad_softmax_cross_entropy},
    {.name = "NegativeLogLikelihoodLoss",
     .precision = kDeny,
     .pin = PinKind::kLoss,
     .fp32_operands = bits(0, 2),
     .fp32_results = bits(0),
     .no_gradient_operands = bits(1, 2),
     .padding = kUnpadded,
     .not_differentiable = kDecomposedRule},
};

}  // namespace

std::span<const OpDef> softmax_loss_ops() { return kSoftmaxLossOps; }

}  // namespace mezzo
