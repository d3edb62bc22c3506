// Which initializers are trained, and why the others are not.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/support/status.h"
#include "passes/pass.h"

namespace mezzo::passes {

// Reasons that the user gave.
inline constexpr const char* kFrozenByOption = "--freeze";
inline constexpr const char* kNotUpdated = "the training information does not update it";

struct ParameterChoice {
  Value* value = nullptr;
  bool trained = false;
  bool reached = false;  // gradients of the loss arrive there
  std::string reason;    // "the loss depends on it", "running statistic of bn1", "--freeze", ...
};

// The graph's only scalar float output, or the one named. InvalidArgument lists the outputs.
// `states`: outputs that are new running statistics, which are no loss whatever their size.
StatusOr<Value*> find_loss(const Graph& graph, const std::string& name,
                           const std::set<std::string>& states = {});

// One entry per floating-point initializer, in file order. Trained is what the loss depends on,
// except running statistics, what the exporter notes as a buffer of the module, constants that an
// exporter turned into initializers or that were `computed` by folding, masks (no operand that an
// operator takes as its weight is one), quantization parameters and what `freeze` names; `train`
// overrules. InvalidArgument: a bad pattern, one that matches nothing, or nothing is left to train.
StatusOr<std::vector<ParameterChoice>> select_parameters(const Graph& graph, const Value& loss,
                                                         const TrainingOptions& options,
                                                         const std::set<std::string>& computed);

// What the loss depends on and that is not trained all the same: name -> reason. Without lone
// constants of the exporter's.
std::map<std::string, std::string> untrained(const Graph& graph,
                                             const std::vector<ParameterChoice>& choices,
                                             const std::set<std::string>& computed);

}  // namespace mezzo::passes
