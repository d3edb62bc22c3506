// Programs of elementwise operations, all of one shape: what the operator FusedElementwise runs, as
// text in its attribute `program`, and what the GPU's one elementwise kernel interprets.
//
//   program   := { "t" N "=" call ";" } "y" "=" call          N counts up from 0
//   call      := name [ "[" attribute "=" value { "," attribute "=" value } "]" ] "(" sources ")"
//   sources   := source { "," source }
//   source    := "x" N (operand N)  |  "t" N (an earlier result)  |  a number (float32)
//
//   t0 = Add(x0, x1); t1 = Gelu[approximate=tanh](t0); y = Mul(t1, 0.5)
//
// Names, attributes and their defaults are those of the op list (README.md). What lies between the
// operations is not rounded to the dtype that the separate operators would have stored; the casts
// Cast[to=float16], Cast[to=bfloat16] and Cast[to=bool] are.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/support/status.h"
#include "kernels/formulas/elementwise.h"
#include "kernels/kernel.h"

namespace mezzo::kernels {

struct ElementSource {
  enum class Kind : std::uint8_t { kOperand, kResult, kNumber } kind = Kind::kOperand;
  int index = 0;        // of an operand, or of an earlier statement
  double number = 0.0;  // kNumber

  static ElementSource operand(int index) { return {Kind::kOperand, index, 0.0}; }
  static ElementSource result(int index) { return {Kind::kResult, index, 0.0}; }
  static ElementSource constant(double number) { return {Kind::kNumber, 0, number}; }
  bool is_result(int i) const { return kind == Kind::kResult && index == i; }
};

// One operation. `alpha` and `beta` as ElementOp says; kDropoutGrad keeps the ratio in `beta`.
struct ElementStatement {
  ElementOp op = ElementOp::kIdentity;
  double alpha = 0.0, beta = 0.0;
  std::vector<ElementSource> sources;
};

// The last statement gives the result.
struct ElementProgram {
  std::vector<ElementStatement> statements;
};

// Limits of programs that come as text: what the GPU's kernel has room for.
inline constexpr int kMaxElementOperands = 8;
inline constexpr int kMaxElementStatements = 24;

// How many numbers go into an operation: 1, 2 or 3.
int element_op_arity(ElementOp op);

// The operation that computes one of the op list's elementwise operators, with its attributes.
// Clip, ClipGrad, Sum, Mean, AddN, Cast and BitShift are none: see append_operation().
// Unimplemented: another operator. InvalidArgument: an attribute with a wrong value.
StatusOr<ElementStatement> element_operation(std::string_view op, const Attributes& attributes);

// Appends the statements that compute `op` of these sources, also where that takes several: Clip
// and ClipGrad (an absent bound is no source: `is_present` says which are there), Sum, AddN and
// Mean.
Status append_operation(std::string_view op, const Attributes& attributes,
                        const std::vector<ElementSource>& sources,
                        const std::vector<bool>& is_present, ElementProgram& program);

// As append_operation() in reverse, for text: the operator's name and the attributes that are not
// their defaults. REQUIRES: may_be_fused(statement.op).
struct ElementName {
  std::string_view name;
  std::vector<std::pair<std::string_view, std::string>> attributes;
};
ElementName element_name(const ElementStatement& statement);

// True if programs as text may hold the operation: those of floating-point numbers that all
// backends have.
bool may_be_fused(ElementOp op);

// As few digits as give the float32 number back when read.
std::string shortest_text(double number);

// InvalidArgument, naming place and fault, for text that is no program on `operands` operands.
StatusOr<ElementProgram> parse_element_program(std::string_view text, std::size_t operands);
// REQUIRES: may_be_fused(every operation).
std::string format_element_program(const ElementProgram& program);

// The same program for a machine with an accumulator, a second and a third number, and a few
// registers:
//   1. `source`, if there is one, is brought into `b`.
//   2. kLoad: a = b. kThird: c = b. kApply: a = op(a, b, c), or op(b, a, c) if swapped.
//   3. a is saved in register `save`, unless that is -1.
// At the end a is the result.
struct ElementStep {
  enum class Kind : std::uint8_t { kLoad, kThird, kApply } kind = Kind::kApply;
  enum class Source : std::uint8_t { kNone, kOperand, kNumber, kAccumulator, kRegister };
  Source source = Source::kNone;
  std::uint8_t index = 0;  // of the operand or register
  bool swapped = false;
  std::int8_t save = -1;
  ElementOp op = ElementOp::kIdentity;
  double alpha = 0.0, beta = 0.0, number = 0.0;
};
inline constexpr int kElementRegisters = 3;
inline constexpr int kMaxElementSteps = 48;

// Unimplemented: more intermediate results are needed at a time than there are registers, or more
// steps than kMaxElementSteps.
StatusOr<std::vector<ElementStep>> element_steps(const ElementProgram& program);

}  // namespace mezzo::kernels
