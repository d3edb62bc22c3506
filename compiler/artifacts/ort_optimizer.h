// The optimizer graph of ONNX Runtime's training artifacts (optimizer_model.onnx), read as numbers.
#pragma once

#include <optional>
#include <string>

#include "compiler/ir/graph.h"
#include "compiler/support/status.h"

namespace mezzo {

struct OrtOptimizer {
  enum class Kind { kSgd, kAdamW };
  // How AdamW decays and where it corrects the bias of its means.
  enum class AdamMode {
    kPyTorch = 0,      // torch.optim.AdamW
    kHuggingFace = 1,  // transformers.AdamW: step size corrected, epsilon on the uncorrected root,
                       // weights decayed after the update
  };
  Kind kind = Kind::kAdamW;
  AdamMode mode = AdamMode::kPyTorch;
  float beta1 = 0.9F;  // attribute alpha
  float beta2 = 0.999F;
  float epsilon = 1e-8F;
  float weight_decay = 0.01F;
  bool correct_bias = true;
  std::optional<float> clip_norm;  // of InplaceClipGradNorm
};

// InvalidArgument or Unimplemented naming the node: another operator than AdamWOptimizer,
// SGDOptimizerV2, InplaceClipGradNorm and what moves sequences; not exactly one optimizer; a mode
// or number that makes no sense.
StatusOr<OrtOptimizer> read_ort_optimizer(const Graph& graph);

}  // namespace mezzo
