// What a model's file says of its own training, and what exporters did to it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/support/status.h"
#include "passes/autodiff/training_info.h"
#include "runtime/exec/trainer.h"

namespace mezzo::cli {

struct ModelTrainingOptions {
  bool use_training_info = true;  // where the command line does not name another loss
  bool initialize = false;        // run the initialization graph
};

struct ModelTraining {
  std::optional<passes::TrainingRecipe> recipe;  // of the training information, where it is used
  std::vector<std::string> notes;                // for people
};

// Gives merged parameters of a model just loaded from `path` back to themselves
// (separate_parameters.h). With a training algorithm in the file, brings its loss into the graph;
// runs the initialization graph if asked to, or where it gives initializers that the graph has only
// as inputs.
StatusOr<ModelTraining> read_model_training(Model& model, const std::string& path,
                                            const ModelTrainingOptions& options);

// The optimizers of the recipe. `lr` and `weight_decay` overrule its own. InvalidArgument: it
// leaves the rate to an input, and no `lr` is given.
StatusOr<std::vector<runtime::ParameterGroup>> optimizer_groups(
    const passes::TrainingRecipe& recipe, std::optional<double> lr,
    std::optional<double> weight_decay);

// All parameters that the recipe updates.
std::vector<std::string> parameters_of(const passes::TrainingRecipe& recipe);

}  // namespace mezzo::cli
