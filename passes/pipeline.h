// The table of passes and the pipelines made of them.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/support/status.h"
#include "passes/pass.h"

namespace mezzo::passes {

// Facts about a model that passes need or give; checked by the runner, which tracks them.
enum class Condition : std::uint8_t {
  kNone,
  kTyped,           // values have types and, for our runtime, static shapes
  kTrainingForm,    // prepare-training ran
  kDifferentiated,  // differentiate or adopt-backward ran
  kAssigned,        // assign-precision ran and nothing has changed since
  kMixed,           // casts are in
};
std::string_view condition_name(Condition condition);

struct PassInfo {
  std::string_view name;  // "fold-casts"
  PassFunction function;
  std::string_view summary;  // one line
  Condition precondition = Condition::kNone;
  Condition postcondition = Condition::kNone;
};

std::span<const PassInfo> all_passes();
const PassInfo* find_pass(std::string_view name);  // null if there is none

// Comma-separated names; InvalidArgument with a suggestion for an unknown one.
StatusOr<std::vector<const PassInfo*>> parse_passes(std::string_view names);

// What the commands run.
std::vector<const PassInfo*> convert_pipeline(const PassContext& ctx);
// After adopt-backward has set ctx.training, or for a graph without backward pass.
std::vector<const PassInfo*> training_pipeline(const PassContext& ctx);
// FP32 with inference semantics, for the evaluate phase.
std::vector<const PassInfo*> inference_pipeline(const PassContext& ctx);
// The model as it is, for our runtime; in mixed precision unless the policy forces FP32.
std::vector<const PassInfo*> run_pipeline(const PassContext& ctx);
// The same for the interpreter (compiler/interpreter), which takes nearly everything as it is.
std::vector<const PassInfo*> interpreter_pipeline(const PassContext& ctx);

}  // namespace mezzo::passes
