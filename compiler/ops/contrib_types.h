// Private to compiler/ops: which operands and results of the domain com.microsoft take float16 and
// bfloat16. ONNX has no schemas for these operators; the facts are those of ONNX Runtime's own
// (docs/ContribOperators.md, and its registry). They say what is valid, not which of its execution
// providers has a kernel: on a CPU it computes most of them in FP32 between casts of its own.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace mezzo {

struct ContribSignature {
  std::string_view name;
  // One letter per operand or result: T to Z, a type variable; f, float whatever the others are; a
  // point, another type. A star at the end repeats the last one.
  std::string_view operands, results;
  std::string_view float16, bfloat16;  // the variables that may be that type

  // The letter for operand or result `index` of `list`; '\0' beyond the last.
  static char at(std::string_view list, std::size_t index);
  static bool is_variable(char letter) { return letter >= 'T' && letter <= 'Z'; }
};

// Null for operators that no row describes: those without floating-point operands, and those that
// this version does not know.
const ContribSignature* find_contrib_signature(std::string_view op_type, std::string_view domain);

// All rows: of the inference operators, and of those of training builds.
std::span<const ContribSignature> contrib_signatures();
std::span<const ContribSignature> contrib_training_signatures();

}  // namespace mezzo
