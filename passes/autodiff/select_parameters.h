// Which initializers are trained, and why the others are not.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/support/status.h"
#include "passes/pass.h"

namespace mezzo::passes {

struct ParameterChoice {
  Value* value = nullptr;
  bool trained = false;
  std::string reason;  // "the loss depends on it", "running statistic of bn1", "--freeze", ...
};

// Names that exporters give to constants: "val_12", "onnx::Mul_7", "/block/Constant_output_0",
// "scalar_tensor_default_1", "42". Whole names: "const_scale" may be anybody's.
bool is_anonymous(const std::string& name);

// The graph's only scalar float output, or the one named. InvalidArgument lists the outputs.
// `states`: outputs that are new running statistics, which are no loss whatever their size.
StatusOr<Value*> find_loss(const Graph& graph, const std::string& name,
                           const std::set<std::string>& states = {});

// One entry per floating-point initializer, in file order. Trained is what the loss depends on,
// except running statistics, what the exporter notes as a buffer of the module, constants that an
// exporter turned into initializers or that were `computed` by folding, masks, quantization
// parameters and what `freeze` names; `train` overrules. InvalidArgument: a bad pattern, one that
// matches nothing, or nothing is left to train.
StatusOr<std::vector<ParameterChoice>> select_parameters(const Graph& graph, const Value& loss,
                                                         const TrainingOptions& options,
                                                         const std::set<std::string>& computed);

}  // namespace mezzo::passes
