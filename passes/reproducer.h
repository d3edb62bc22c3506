// What a pass leaves behind when it fails by a bug of ours: a model and a command that fail alike.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/support/status.h"
#include "passes/pass.h"
#include "passes/pipeline.h"

namespace mezzo::passes {

// Runs one pass; verifies the model and that "unchanged" is true. `changed` receives what it says.
// `known` is the model's fingerprint where the caller knows it, and leaves as what is known then.
Status run_checked(const PassInfo& pass, Model& model, PassContext& ctx, bool* changed,
                   std::optional<std::uint64_t>& known);

// A model to start from and the passes that lead to the failure. The first attempt that fails alike
// is the reproducer, so put the smallest first.
struct Attempt {
  const Model* model = nullptr;
  std::vector<const PassInfo*> passes;
};

// Writes `repro.onnxtxt` into `folder`: the model with its weights, headed by a RUN line; where
// they are large or the text syntax cannot hold the model, the model goes to `repro.onnx` beside
// it. Attempts are read back and run to see whether they fail with `failure`. Returns what to tell
// the user: the command.
std::string write_reproducer(const std::string& folder, const std::vector<Attempt>& attempts,
                             const PassContext& ctx, const Status& failure);

// The options of `mezzo opt` that give a context like this one, for example
// "--precision=bf16 --pin='^block/'". What passes themselves have put into it is not among them.
std::string command_options(const PassContext& ctx);

}  // namespace mezzo::passes
