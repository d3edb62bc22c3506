// Sequences of tensors, and strings. Splits into sequences whose elements are taken out again
// are normalised away before lowering.
#include "compiler/ops/families.h"

namespace mezzo {
namespace {

using enum PrecisionCategory;
using enum PadRule;

constexpr OpDef kSequenceOps[] = {
    {.name = "SequenceConstruct",
     .precision = kClear,
     .padding = kUnpadded,
     .not_differentiable = kUnrolledRule,
     .no_kernel = kNoSequences},
    {.name = "SequenceEmpty",
     .precision = kClear,
     .padding = kUnpadded,
     .not_differentiable = kNoFloatOperand,
     .no_kernel = kNoSequences},
    {.name = "SequenceAt",
     .precision = kClear,
     .no_gradient_operands = bits(1),
     .padding = kUnpadded,
     .not_differentiable = kUnrolledRule,
     .no_kernel = kNoSequences},
    {.name = "SequenceInsert",
     .precision = kClear,
     .no_gradient_operands = bits(2),
     .padding = kUnpadded,
     .not_differentiable = kUnrolledRule,
     .no_kernel = kNoSequences},
    {.name = "SequenceErase",
     .precision = kClear,
     .no_gradient_operands = bits(1),
     .padding = kUnpadded,
     .not_differentiable = kUnrolledRule,
     .no_kernel = kNoSequences},
    {.name = "SequenceLength",
     .precision = kClear,
     .no_gradient_operands = kAllBits,
     .padding = kUnpadded,
     .not_differentiable = kNoFloatResult,
     .no_kernel = kNoSequences},
    {.name = "SequenceMap",
     .precision = kInfer,
     .padding = kUnpadded,
     .not_differentiable = kNoKernelRule,
     .no_kernel = kNoSequences},
    {.name = "SplitToSequence",
     .precision = kClear,
     .no_gradient_operands = bits(1),
     .padding = kUnpadded,
     .not_differentiable = kUnrolledRule,
     .no_kernel = kNoSequences},
    {.name = "ConcatFromSequence",
     .precision = kInfer,
     .padding = kUnpadded,
     .not_differentiable = kUnrolledRule,
     .no_kernel = kNoSequences},
    {.name = "StringConcat",
     .precision = kClear,
     .no_gradient_operands = kAllBits,
     .padding = kUnpadded,
     .not_differentiable = kNoFloatOperand,
     .no_kernel = kNoStrings},
    {.name = "StringSplit",
     .precision = kClear,
     .no_gradient_operands = kAllBits,
     .padding = kUnpadded,
     .not_differentiable = kNoFloatOperand,
     .no_kernel = kNoStrings},
    {.name = "StringNormalizer",
     .precision = kClear,
     .no_gradient_operands = kAllBits,
     .padding = kUnpadded,
     .not_differentiable = kNoFloatOperand,
     .no_kernel = kNoStrings},
    {.name = "RegexFullMatch",
     .precision = kClear,
     .no_gradient_operands = kAllBits,
     .padding = kUnpadded,
     .not_differentiable = kNoFloatOperand,
     .no_kernel = kNoStrings},
    // Counts words.
    {.name = "TfIdfVectorizer",
     .precision = kDeny,
     .no_gradient_operands = kAllBits,
     .padding = kUnpadded,
     .not_differentiable = kNoFloatOperand,
     .no_kernel = kNoKernelYet},
};

}  // namespace

std::span<const OpDef> sequence_ops() { return kSequenceOps; }

}  // namespace mezzo
