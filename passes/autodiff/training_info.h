// Reads a model's TrainingInfoProto: what is minimised, which initializers are trained, and how.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/support/status.h"

namespace mezzo::passes {

// One optimizer node, with the names of ONNX's operators (ai.onnx.preview.training), or the
// spelled-out step W - R * G, which is a Momentum without momentum.
struct OptimizerRecipe {
  enum class Op : std::uint8_t { kMomentum, kAdam, kAdagrad };
  Op op = Op::kMomentum;
  std::string node;                     // for messages
  std::vector<std::string> parameters;  // initializers that it updates
  std::optional<double> rate;           // R; absent where it is an input of the graph
  std::string rate_name;
  std::int64_t first_count = 0;  // T at the first step
  double alpha = 0, beta = 1;
  double epsilon = 0, norm_coefficient = 0, norm_coefficient_post = 0, decay_factor = 0;
  bool nesterov = false;
  double first_sum = 0;  // Adagrad: what the sum of squares starts from
};

struct TrainingRecipe {
  std::string loss;  // graph output, added if need be
  std::vector<OptimizerRecipe> optimizers;
};

// Brings the training algorithm's loss into the main graph: the inputs that it needs become graph
// inputs, the value that Gradient differentiates an output. Gradient and optimizer nodes stay out,
// as `differentiate` and the runtime do their work; training_info is cleared. REQUIRES: there is
// one.
//
// InvalidArgument: bindings or attributes that contradict the graphs. Unimplemented, naming the
// node: an algorithm of another form, such as gradients that are changed before they are applied,
// or optimizer states that start from anything but zero.
StatusOr<TrainingRecipe> adopt_training_info(Model& model);

// The only entry of model.training_info that holds an algorithm with a Gradient; null if there is
// none or several.
const TrainingInfo* find_training_algorithm(const Model& model);

}  // namespace mezzo::passes
