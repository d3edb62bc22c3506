// Which operators a gradient can be taken through, and how: the catalogue's answer in one word, for
// lists and documentation.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "compiler/ops/op_def.h"

namespace mezzo {

enum class Differentiation : std::uint8_t {
  kRule,        // by a rule of its own
  kDecomposed,  // by what `decompose` makes of it, or its ONNX function body
  kUnrolled,    // control flow and sequences, by what is left when they are unrolled
  kNoRule,      // it has a derivative, and nobody has written it down
  kNot,         // it has none that training could use
};
std::string_view differentiation_name(Differentiation how);  // "rule", "decomposed", ...

Differentiation differentiation_of(const OpDef& op);

// Why no gradient passes the operator; of an operator that is differentiated: empty.
std::string_view differentiation_gap(const OpDef& op);

// "Relu", "com.microsoft.Gelu".
std::string qualified_name(const OpDef& op);

}  // namespace mezzo
