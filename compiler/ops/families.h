// Private to compiler/ops: the tables of the catalogue, one function per family file, and the
// reasons they share.
#pragma once

#include <span>
#include <string_view>

#include "compiler/ops/op_def.h"

namespace mezzo {

std::span<const OpDef> elementwise_ops();  // arithmetic and functions of one operand
std::span<const OpDef> logic_ops();        // comparisons, truth values, bits, casts
std::span<const OpDef> activation_ops();
std::span<const OpDef> contraction_ops();  // MatMul, Gemm, Einsum, attention
std::span<const OpDef> conv_ops();
std::span<const OpDef> norm_ops();
std::span<const OpDef> softmax_loss_ops();
std::span<const OpDef> reduce_ops();
std::span<const OpDef> pool_ops();
std::span<const OpDef> movement_ops();
std::span<const OpDef> index_ops();  // gather, scatter, selection by index
std::span<const OpDef> shape_ops();  // shapes, constants and generators
std::span<const OpDef> random_ops();
std::span<const OpDef> image_ops();     // resampling, regions, signals
std::span<const OpDef> control_ops();   // If, Loop, Scan, optionals
std::span<const OpDef> sequence_ops();  // sequences and strings
std::span<const OpDef> quantize_ops();
std::span<const OpDef> rnn_ops();
std::span<const OpDef> contrib_ops();  // domain com.microsoft
std::span<const OpDef> contrib_training_ops();
std::span<const OpDef> preview_training_ops();  // domain ai.onnx.preview.training
std::span<const OpDef> mezzo_ops();             // domain ai.mezzo: what training needs beside ONNX
std::span<const OpDef> mezzo_grad_ops();        // domain ai.mezzo: gradients
std::span<const OpDef> mezzo_layer_grad_ops();  // of images, signals and recurrent layers

// bits(0, 2) = 0b101: operands or results by number.
template <typename... Index>
constexpr std::uint32_t bits(Index... index) {
  return ((std::uint32_t{1} << index) | ... | std::uint32_t{0});
}
inline constexpr std::uint32_t kAllBits = 0xffffffffU;

// Why there is no gradient.
// Operators that decompose() spells out first; the words stand where that did not happen.
inline constexpr std::string_view kDecomposedRule =
    "it has no rule of its own and this form of it cannot be decomposed into others";
inline constexpr std::string_view kDecomposedKernel =
    "the runtime has no kernel for it and this form of it cannot be decomposed into others";
inline constexpr std::string_view kFunctionBodyRule =
    "it has no rule of its own and must be expanded into its ONNX function body first";
// Operators with a derivative that nobody has written down: reasons that begin with these words.
inline constexpr std::string_view kNoRuleYet = "it has no gradient rule";
inline constexpr std::string_view kNoKernelRule =
    "it has no gradient rule, as the runtime has no kernel for it either";
inline constexpr std::string_view kDataSizedRule =
    "it has no gradient rule, as the data decide how many elements its result has";
inline constexpr std::string_view kNoFloatResult = "its results are not floating-point numbers";
inline constexpr std::string_view kNoFloatOperand =
    "it has no floating-point operand to differentiate";
inline constexpr std::string_view kPiecewiseConstant =
    "piecewise constant: its derivative is zero wherever it exists";
inline constexpr std::string_view kIsGradient =
    "made by differentiation; second derivatives are not supported";
inline constexpr std::string_view kIntegersOnly =
    "it computes with integers; their scales are calibrated constants";
inline constexpr std::string_view kStaircase =
    "quantization is a staircase, its derivative is zero; train before quantizing";
// Control flow and sequences that a pass spells out first; the words stand where that did not
// happen.
inline constexpr std::string_view kUnrolledRule =
    "it is unrolled before differentiation, which needs trip counts, lengths and conditions that "
    "are "
    "known";

// Why there is no kernel.
inline constexpr std::string_view kNoKernelYet = "the runtime has no kernel for it yet";
inline constexpr std::string_view kFunctionBodyKernel =
    "the runtime has no kernel for it; it must be expanded into its ONNX function body first";
inline constexpr std::string_view kFolded =
    "it is folded into a constant before lowering; this one depends on the run";
inline constexpr std::string_view kNoSequences = "the runtime has tensors only, no sequences";
inline constexpr std::string_view kNoStrings = "the runtime has no string tensors";

}  // namespace mezzo
