#include "passes/pipeline.h"

#include <algorithm>
#include <array>

#include "compiler/support/text.h"
#include "passes/autodiff/adopt_backward.h"
#include "passes/autodiff/attach_loss.h"
#include "passes/autodiff/check_quantized.h"
#include "passes/autodiff/differentiate.h"
#include "passes/autodiff/expand_gradients.h"
#include "passes/autodiff/heed_notes.h"
#include "passes/autodiff/prepare_training.h"
#include "passes/autodiff/separate_parameters.h"
#include "passes/autodiff/widen_weights.h"
#include "passes/cleanup/dce.h"
#include "passes/cleanup/decompose.h"
#include "passes/cleanup/expand_functions.h"
#include "passes/cleanup/fold_batch_norm.h"
#include "passes/cleanup/fold_constants.h"
#include "passes/cleanup/fuse_bias.h"
#include "passes/cleanup/fuse_transposes.h"
#include "passes/cleanup/infer_shapes.h"
#include "passes/cleanup/normalise.h"
#include "passes/cleanup/raise_to_current.h"
#include "passes/cleanup/recognise.h"
#include "passes/cleanup/resolve_sequences.h"
#include "passes/cleanup/stable_logs.h"
#include "passes/cleanup/unroll.h"
#include "passes/fusion/fuse_attention.h"
#include "passes/fusion/fuse_elementwise.h"
#include "passes/fusion/fuse_epilogues.h"
#include "passes/layout/pad_channels.h"
#include "passes/precision/absorb_casts.h"
#include "passes/precision/assign_precision.h"
#include "passes/precision/fold_casts.h"
#include "passes/precision/hoist_casts.h"
#include "passes/precision/insert_casts.h"
#include "passes/precision/narrow_storage.h"
#include "passes/precision/raise_for_precision.h"

namespace mezzo::passes {
namespace {

using enum Condition;

constexpr std::array kPasses = {
    PassInfo{"raise-to-current", raise_to_current, "brings models older than opset 13 to it"},
    PassInfo{"infer-shapes", infer_shapes, "gives every value its type and shape", kNone, kTyped},
    PassInfo{"expand-functions", expand_functions, "gives each call its function's body, typed"},
    PassInfo{"share-functions", share_functions, "makes functions of the bodies in calls"},
    PassInfo{"inline-functions", inline_functions, "puts functions in the place of their calls"},
    PassInfo{"fold-constants", fold_constants, "computes what depends on constants only"},
    PassInfo{"unroll-control-flow", unroll_control_flow,
             "spells out If, Loop and Scan as straight lines", kTyped},
    PassInfo{"resolve-sequences", resolve_sequences,
             "puts the elements of known sequences in the place of their readers"},
    PassInfo{"expand-gradients", expand_gradients,
             "spells out the operator Gradient of ONNX's training preview"},
    PassInfo{"heed-notes", heed_notes,
             "adds what torch.export leaves out but notes: detach, padding rows, smoothed labels"},
    PassInfo{"decompose", decompose, "spells out operators that have no kernel"},
    PassInfo{"decompose-for-gradient", decompose_for_gradient,
             "spells out operators that have no gradient rule"},
    PassInfo{"normalise", normalise, "brings older and roundabout forms into one"},
    PassInfo{"recognise", recognise, "turns decomposed LayerNorm, GELU and Softmax into one node"},
    PassInfo{"stable-logs", stable_logs, "takes logarithms of probabilities from their scores"},
    PassInfo{"widen-weights", widen_weights, "makes an FP32 model of one with 16-bit weights"},
    PassInfo{"separate-parameters", separate_parameters,
             "undoes the sharing of parameters that were equal when exported"},
    PassInfo{"check-quantized", check_quantized,
             "refuses to train what quantization cuts off from the loss", kTyped},
    PassInfo{"attach-loss", attach_loss, "adds the loss that --loss names", kTyped},
    PassInfo{"inference-form", to_inference_form,
             "normalisation by running statistics, no dropout"},
    PassInfo{"prepare-training", prepare_training, "normalisation by the batch, dropout that drops",
             kTyped, kTrainingForm},
    PassInfo{"pad-channels", pad_channels, "pads channels to a multiple of 8", kTyped},
    PassInfo{"adopt-backward", adopt_backward,
             "takes the backward graph of ONNX Runtime's training artifacts as it is", kNone,
             kDifferentiated},
    PassInfo{"differentiate", differentiate, "adds the backward graph", kTyped, kDifferentiated},
    PassInfo{"fold-batch-norm", fold_batch_norm,
             "puts normalisation by constants into the weights before it", kTyped},
    PassInfo{"fuse-bias", fuse_bias, "lets products add the row that follows them", kTyped},
    PassInfo{"fuse-attention", fuse_attention,
             "makes one node of scores, Softmax and weighted sum where it pays", kTyped},
    PassInfo{"fuse-transposes", fuse_transposes, "lets contractions read transposed operands"},
    PassInfo{"raise-for-precision", raise_for_precision,
             "brings the model to an opset that has the low type"},
    PassInfo{"assign-precision", assign_precision, "decides what runs low", kTyped, kAssigned},
    PassInfo{"insert-casts", insert_casts, "puts casts on the boundaries", kAssigned, kMixed},
    PassInfo{"fold-casts", fold_casts, "removes casts that change nothing"},
    PassInfo{"hoist-casts", hoist_casts, "moves casts to where fewer bytes pass"},
    PassInfo{"absorb-casts", absorb_casts, "lets kernels read and write the other type themselves"},
    PassInfo{"narrow-storage", narrow_storage,
             "stores activations of FP32 kernels in the low type, on devices"},
    PassInfo{"fuse-epilogues", fuse_epilogues,
             "lets products add biases and apply activations as they write", kTyped},
    PassInfo{"fuse-elementwise", fuse_elementwise,
             "makes one node of elementwise operators that follow one another", kTyped},
    PassInfo{"dce", dce, "removes what no output needs"},
};

std::vector<const PassInfo*> by_name(std::initializer_list<std::string_view> names) {
  std::vector<const PassInfo*> passes;
  for (const std::string_view name : names) passes.push_back(find_pass(name));
  return passes;
}

enum class Purpose { kInference, kTraining, kEvaluation };

// From what the file says to operators that the runtime has. Decomposing makes constants, and what
// these fold to may let more be decomposed (a Tile whose repeats were computed). Training has one
// plan for all phases, so its control flow is spelled out; other models with it are interpreted.
std::vector<const PassInfo*> executable_form(std::initializer_list<std::string_view> first,
                                             Purpose purpose) {
  const bool for_training = purpose == Purpose::kTraining;
  std::vector<const PassInfo*> passes =
      by_name({"inline-functions", "raise-to-current", "expand-gradients"});
  for (const PassInfo* pass : by_name(first)) passes.push_back(pass);
  if (purpose != Purpose::kInference) {
    for (const PassInfo* pass : by_name({"fold-constants", "unroll-control-flow"}))
      passes.push_back(pass);
  }
  for (int round = 0; round < 2; ++round) {
    if (for_training) passes.push_back(find_pass("decompose-for-gradient"));
    for (const PassInfo* pass : by_name({"fold-constants", "decompose"})) passes.push_back(pass);
  }
  if (for_training) passes.push_back(find_pass("decompose-for-gradient"));
  for (const PassInfo* pass :
       by_name({"normalise", "resolve-sequences", "fold-constants", "recognise", "stable-logs"})) {
    passes.push_back(pass);
  }
  // Now the shapes of all outputs are known, and a Softmax at the end is one node.
  if (purpose != Purpose::kInference) passes.push_back(find_pass("attach-loss"));
  return passes;
}

// What follows when precision is settled: forms that cost least on the device.
void add_device_passes(const PassContext& ctx, std::vector<const PassInfo*>& passes) {
  const bool fuses = ctx.device == DeviceKind::kCuda;
  if (fuses) passes.push_back(find_pass("fuse-epilogues"));
  passes.push_back(find_pass("dce"));
  // What other kernels do as well, they take first.
  if (fuses) passes.push_back(find_pass("fuse-elementwise"));
}

// Does the user say of nodes or operators how they run? Then they stay what they are called.
bool names_nodes(const PrecisionPolicy& policy) {
  return !policy.rules.empty() || !policy.pins.empty() || !policy.deny_ops.empty() ||
         !policy.allow_ops.empty();
}

}  // namespace

std::string_view condition_name(Condition condition) {
  switch (condition) {
    case kNone: return "none";
    case kTyped: return "typed";
    case kTrainingForm: return "training form";
    case kDifferentiated: return "differentiated";
    case kAssigned: return "assigned";
    case kMixed: return "mixed";
  }
  return "?";
}

std::span<const PassInfo> all_passes() { return kPasses; }

const PassInfo* find_pass(std::string_view name) {
  const auto found = std::find_if(kPasses.begin(), kPasses.end(),
                                  [&](const PassInfo& pass) { return pass.name == name; });
  return found == kPasses.end() ? nullptr : &*found;
}

StatusOr<std::vector<const PassInfo*>> parse_passes(std::string_view names) {
  std::vector<const PassInfo*> passes;
  while (!names.empty()) {
    const std::size_t comma = names.find(',');
    const std::string_view name = names.substr(0, comma);
    names = comma == std::string_view::npos ? std::string_view() : names.substr(comma + 1);
    const PassInfo* pass = find_pass(name);
    if (pass == nullptr) {
      std::vector<std::string> all;
      for (const PassInfo& info : kPasses) all.emplace_back(info.name);
      return invalid_argument("--passes: no pass is named '" + std::string(name) + "'." +
                              did_you_mean(name, all) +
                              " Hint: `mezzo opt --list-passes` lists them");
    }
    passes.push_back(pass);
  }
  return passes;
}

std::vector<const PassInfo*> convert_pipeline(const PassContext& ctx) {
  std::vector<const PassInfo*> passes =
      by_name({"raise-for-precision", "infer-shapes", "expand-functions"});
  if (ctx.padding.multiple > 0) passes.push_back(find_pass("pad-channels"));
  for (const PassInfo* pass : by_name({"assign-precision", "insert-casts", "fold-casts",
                                       "hoist-casts", "fold-casts", "share-functions"})) {
    passes.push_back(pass);
  }
  return passes;
}

std::vector<const PassInfo*> training_pipeline(const PassContext& ctx) {
  // A graph whose own backward pass was adopted is differentiated already.
  const bool adopted = ctx.training && !ctx.training->gradients.empty();
  std::vector<const PassInfo*> passes =
      adopted ? executable_form({"infer-shapes"}, Purpose::kInference)
              : executable_form({"widen-weights", "separate-parameters", "infer-shapes",
                                 "heed-notes", "check-quantized"},
                                Purpose::kTraining);
  if (!adopted) {
    passes.push_back(find_pass("prepare-training"));
    if (ctx.padding.multiple > 0) passes.push_back(find_pass("pad-channels"));
    if (!names_nodes(ctx.policy)) passes.push_back(find_pass("fuse-attention"));
    passes.push_back(find_pass("differentiate"));
  }
  for (const PassInfo* pass :
       by_name({"dce", "fuse-transposes", "assign-precision", "insert-casts", "fold-casts",
                "hoist-casts", "absorb-casts", "narrow-storage"})) {
    passes.push_back(pass);
  }
  add_device_passes(ctx, passes);
  return passes;
}

std::vector<const PassInfo*> run_pipeline(const PassContext& ctx) {
  std::vector<const PassInfo*> passes = executable_form({"infer-shapes"}, Purpose::kInference);
  if (!names_nodes(ctx.policy)) {
    for (const PassInfo* pass : by_name({"fold-batch-norm", "fuse-bias", "fuse-attention"}))
      passes.push_back(pass);
  }
  passes.push_back(find_pass("fuse-transposes"));
  if (!ctx.policy.force_fp32) {
    for (const PassInfo* pass : by_name(
             {"assign-precision", "insert-casts", "fold-casts", "hoist-casts", "absorb-casts"})) {
      passes.push_back(pass);
    }
  }
  add_device_passes(ctx, passes);
  return passes;
}

std::vector<const PassInfo*> interpreter_pipeline(const PassContext& ctx) {
  std::vector<const PassInfo*> passes;
  if (!ctx.policy.force_fp32) passes = convert_pipeline(ctx);
  for (const PassInfo* pass : by_name({"inline-functions", "raise-to-current", "expand-gradients"}))
    passes.push_back(pass);
  return passes;
}

std::vector<const PassInfo*> inference_pipeline(const PassContext& ctx) {
  std::vector<const PassInfo*> passes;
  if (ctx.padding.multiple > 0) {
    // Parameters are shared with the training phases: the same passes pad them alike.
    passes = executable_form({"widen-weights", "separate-parameters", "infer-shapes", "heed-notes"},
                             Purpose::kTraining);
    for (const PassInfo* pass : by_name({"prepare-training", "pad-channels", "inference-form"}))
      passes.push_back(pass);
  } else {
    passes = executable_form(
        {"widen-weights", "separate-parameters", "infer-shapes", "heed-notes", "inference-form"},
        Purpose::kEvaluation);
  }
  for (const PassInfo* pass : by_name({"fuse-attention", "fuse-transposes"}))
    passes.push_back(pass);
  add_device_passes(ctx, passes);
  return passes;
}

}  // namespace mezzo::passes
