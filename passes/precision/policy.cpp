#include "passes/precision/policy.h"

#include "compiler/support/text.h"

namespace mezzo::passes {

std::vector<std::pair<std::string, std::string>> PrecisionPolicy::describe() const {
  const auto yes = [](bool value) { return std::string(value ? "yes" : "no"); };
  return {
      {"precision", force_fp32 ? "fp32" : (low == DType::kBFloat16 ? "bf16" : "fp16")},
      {"assign", assign == AssignMethod::kCut ? "cut" : "propagate"},
      {"io", io == IoTypes::kKeep ? "keep" : "low"},
      {"target", target},
      {"pin_embedding", yes(pin_embedding)},
      {"pin_normalization", yes(pin_normalization)},
      {"pin_softmax", yes(pin_softmax)},
      {"pin_loss", yes(pin_loss)},
      {"pins", join(pins, ", ")},
      {"deny_ops", join(deny_ops, ", ")},
      {"allow_ops", join(allow_ops, ", ")},
  };
}

}  // namespace mezzo::passes
