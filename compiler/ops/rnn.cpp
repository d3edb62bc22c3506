// Recurrent layers: matrix products over time with bounded activations between.
#include "compiler/ops/families.h"

namespace mezzo {
namespace {

using enum PrecisionCategory;
using enum PadRule;

constexpr OpDef kRnnOps[] = {
    {.name = "RNN",
     .precision = kAllow,
     .no_gradient_operands = bits(4),
     .padding = kUnpadded,
     .not_differentiable = kDecomposedRule,
     .no_kernel = kDecomposedKernel},
    {.name = "LSTM",
     .precision = kAllow,
     .no_gradient_operands = bits(4),
     .padding = kUnpadded,
     .not_differentiable = kDecomposedRule,
     .no_kernel = kDecomposedKernel},
    {.name = "GRU",
     .precision = kAllow,
     .no_gradient_operands = bits(4),
     .padding = kUnpadded,
     .not_differentiable = kDecomposedRule,
     .no_kernel = kDecomposedKernel},
};

}  // namespace

std::span<const OpDef> rnn_ops() { return kRnnOps; }

}  // namespace mezzo
