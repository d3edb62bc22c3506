#include "compiler/ops/differentiation.h"

#include "compiler/ops/families.h"

namespace mezzo {

std::string_view differentiation_name(Differentiation how) {
  switch (how) {
    case Differentiation::kRule: return "rule";
    case Differentiation::kDecomposed: return "decomposed";
    case Differentiation::kUnrolled: return "unrolled";
    case Differentiation::kNoRule: return "no rule";
    case Differentiation::kNot: return "not";
  }
  return "?";
}

Differentiation differentiation_of(const OpDef& op) {
  if (op.gradient != nullptr) return Differentiation::kRule;
  if (op.not_differentiable == kFunctionBodyRule || op.not_differentiable == kDecomposedRule) {
    return Differentiation::kDecomposed;
  }
  if (op.not_differentiable == kUnrolledRule) return Differentiation::kUnrolled;
  return op.not_differentiable.starts_with(kNoRuleYet) ? Differentiation::kNoRule
                                                       : Differentiation::kNot;
}

std::string_view differentiation_gap(const OpDef& op) {
  const Differentiation how = differentiation_of(op);
  const bool differentiated = how == Differentiation::kRule ||
                              how == Differentiation::kDecomposed ||
                              how == Differentiation::kUnrolled;
  return differentiated ? std::string_view() : op.not_differentiable;
}

std::string qualified_name(const OpDef& op) {
  return (op.domain.empty() ? std::string() : std::string(op.domain) + ".") + std::string(op.name);
}

}  // namespace mezzo
