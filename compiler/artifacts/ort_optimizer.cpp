#include "compiler/artifacts/ort_optimizer.h"

#include <cmath>

#include "compiler/support/text.h"

namespace mezzo {
namespace {

constexpr std::string_view kMicrosoft = "com.microsoft";

StatusOr<float> number_in(const Node& node, const char* name, float fallback, float limit) {
  const float value = node.float_attribute(name, fallback);
  if (std::isfinite(value) && value >= 0 && value < limit) return value;
  return invalid_argument(describe(node) + ", attribute '" + name +
                          "': expected a number from 0 to below " + format_number(limit) +
                          ", got " + format_number(value));
}

// Defaults are those of ONNX Runtime's schema.
Status read_adamw(const Node& node, OrtOptimizer& optimizer) {
  constexpr float kNoLimit = 3.4e38F;
  optimizer.kind = OrtOptimizer::Kind::kAdamW;
  MEZZO_ASSIGN_OR_RETURN(optimizer.beta1, number_in(node, "alpha", 0.9F, 1.0F));
  MEZZO_ASSIGN_OR_RETURN(optimizer.beta2, number_in(node, "beta", 0.999F, 1.0F));
  MEZZO_ASSIGN_OR_RETURN(optimizer.epsilon, number_in(node, "epsilon", 1e-8F, kNoLimit));
  MEZZO_ASSIGN_OR_RETURN(optimizer.weight_decay, number_in(node, "weight_decay", 0.01F, kNoLimit));
  optimizer.correct_bias = node.int_attribute("correct_bias", 1) != 0;
  const std::int64_t mode = node.int_attribute("adam_mode", 0);
  if (mode != 0 && mode != 1) {
    return invalid_argument(describe(node) + ", attribute 'adam_mode': expected 0 or 1, got " +
                            std::to_string(mode));
  }
  optimizer.mode = static_cast<OrtOptimizer::AdamMode>(mode);
  return ok_status();
}

}  // namespace

StatusOr<OrtOptimizer> read_ort_optimizer(const Graph& graph) {
  OrtOptimizer optimizer;
  const Node* found = nullptr;
  for (const auto& owned : graph.nodes()) {
    const Node& node = *owned;
    const bool adamw = node.is("AdamWOptimizer", kMicrosoft);
    if (adamw || node.is("SGDOptimizerV2", kMicrosoft)) {
      if (found != nullptr) {
        return unimplemented(describe(node) + ": a second optimizer beside " + describe(*found));
      }
      found = &node;
      optimizer.kind = OrtOptimizer::Kind::kSgd;
      if (adamw) MEZZO_RETURN_IF_ERROR(read_adamw(node, optimizer));
    } else if (node.is("InplaceClipGradNorm", kMicrosoft)) {
      const float norm = node.float_attribute("max_norm", 1.0F);
      if (!std::isfinite(norm) || norm <= 0 || node.string_attribute("norm_type", "fro") != "fro") {
        return unimplemented(describe(node) + ": expected the Frobenius norm and a limit above 0");
      }
      optimizer.clip_norm = norm;
    } else if (!node.is("SequenceConstruct") && !node.is("Identity")) {
      return unimplemented(describe(node) +
                           ": not an optimizer that mezzo knows. There are AdamWOptimizer and "
                           "SGDOptimizerV2, with or without InplaceClipGradNorm");
    }
  }
  if (found == nullptr) {
    return invalid_argument(
        "expected a node AdamWOptimizer or SGDOptimizerV2 of com.microsoft, got none");
  }
  return optimizer;
}

}  // namespace mezzo
