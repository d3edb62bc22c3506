#include "tools/mezzo/model_training.h"

#include <algorithm>
#include <map>

#include "compiler/interpreter/interpreter.h"
#include "compiler/ir/clone.h"
#include "compiler/support/text.h"
#include "passes/autodiff/separate_parameters.h"
#include "passes/numerics/prepare.h"

namespace mezzo::cli {
namespace {

using passes::OptimizerRecipe;

// Puts `tensor` in the place of an initializer, or of an input without default.
Status initialize(Graph& graph, const std::string& name, TensorRef tensor) {
  Value* value = graph.find(name);
  const std::string where = "training_info, initialization_binding of '" + printable(name) + "': ";
  if (value == nullptr || !(value->is_initializer() || value->is_graph_input()))
    return invalid_argument(where + "the graph has no initializer of this name");
  const TensorType got = TensorType::of(tensor->dtype(), tensor->dims());
  const bool fits = value->dtype() == got.dtype && (!value->tensor_type().has_static_shape() ||
                                                    value->tensor_type().dims() == tensor->dims());
  if (!fits) {
    return invalid_argument(where + "expected " + to_string(value->type) + ", got " +
                            to_string(got));
  }
  if (value->is_initializer()) {
    graph.replace_constant(value, std::move(tensor));
    return ok_status();
  }
  graph.set_initializer(value, std::move(tensor));
  const auto& inputs = graph.inputs();
  graph.remove_input(
      static_cast<std::size_t>(std::find(inputs.begin(), inputs.end(), value) - inputs.begin()));
  return ok_status();
}

// The outputs of an initialization graph by name.
StatusOr<std::map<std::string, TensorRef>> run_initialization(const Model& model,
                                                              const Graph& initialization) {
  Model runnable;
  runnable.ir_version = model.ir_version;
  runnable.opsets = model.opsets;
  runnable.graph = clone(initialization);
  std::vector<std::string> names;
  for (const Value* output : initialization.outputs()) names.push_back(output->name());
  if (!runnable.graph->inputs().empty()) {
    return unimplemented("it takes an input, '" + runnable.graph->inputs()[0]->name() +
                         "', that nobody gives");
  }
  MEZZO_RETURN_IF_ERROR(numerics::prepare(runnable));
  Interpreter interpreter(runnable, {});
  MEZZO_ASSIGN_OR_RETURN(const std::vector<RuntimeValue> results, interpreter.run({}));
  std::map<std::string, TensorRef> tensors;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!results[i].is_tensor()) return unimplemented("'" + names[i] + "' is no tensor");
    const HostTensor& tensor = results[i].tensor;
    tensors[names[i]] = Tensor::from_bytes(tensor.dtype, tensor.dims,
                                           {tensor.data.get(), tensor.data.get() + tensor.bytes()});
  }
  return tensors;
}

// Is there an initializer that the file leaves to the initialization graph?
bool needs_initialization(const Model& model, const TrainingInfo& info) {
  return std::any_of(info.initialization_binding.begin(), info.initialization_binding.end(),
                     [&](const auto& pair) {
                       const Value* value = model.graph->find(pair.first);
                       return value != nullptr && value->is_graph_input() &&
                              !value->is_initializer();
                     });
}

Status initialize_all(Model& model) {
  for (const TrainingInfo& info : model.training_info) {
    if (!info.initialization || info.initialization_binding.empty()) continue;
    const auto tensors = run_initialization(model, *info.initialization);
    if (!tensors.ok())
      return tensors.status().with_context("training_info, the initialization graph");
    for (const auto& [name, output] : info.initialization_binding) {
      const auto tensor = tensors->find(output);
      if (tensor == tensors->end()) {
        return invalid_argument("training_info, initialization_binding of '" + printable(name) +
                                "': there is no output '" + printable(output) + "'");
      }
      Graph* algorithm = info.algorithm.get();
      const bool in_algorithm = algorithm != nullptr && algorithm->find(name) != nullptr;
      MEZZO_RETURN_IF_ERROR(
          initialize(in_algorithm ? *algorithm : *model.graph, name, tensor->second));
    }
  }
  return ok_status();
}

runtime::OptimizerGroup settings_of(const OptimizerRecipe& recipe) {
  runtime::OptimizerGroup group;
  group.onnx_form = true;
  group.first_count = recipe.first_count;
  group.weight_decay = recipe.norm_coefficient;
  switch (recipe.op) {
    case OptimizerRecipe::Op::kMomentum:
      group.kind = runtime::OptimizerKind::kSgd;
      group.momentum = recipe.alpha;
      group.dampening = 1 - recipe.beta;
      group.nesterov = recipe.nesterov;
      break;
    case OptimizerRecipe::Op::kAdam:
      group.kind = runtime::OptimizerKind::kAdam;
      group.beta1 = recipe.alpha;
      group.beta2 = recipe.beta;
      group.eps = recipe.epsilon;
      group.shrink = recipe.norm_coefficient_post;
      break;
    case OptimizerRecipe::Op::kAdagrad:
      group.kind = runtime::OptimizerKind::kAdagrad;
      group.eps = recipe.epsilon;
      group.lr_decay = recipe.decay_factor;
      group.initial_accumulator = recipe.first_sum;
      break;
  }
  return group;
}

}  // namespace

StatusOr<ModelTraining> read_model_training(Model& model, const std::string& path,
                                            const ModelTrainingOptions& options) {
  ModelTraining loaded;
  bool initialize = options.initialize;
  for (const TrainingInfo& info : model.training_info)
    initialize = initialize || needs_initialization(model, info);
  if (options.initialize &&
      std::none_of(model.training_info.begin(), model.training_info.end(),
                   [](const TrainingInfo& info) { return info.initialization != nullptr; })) {
    return invalid_argument(path + ": --initialize: the model has no initialization graph");
  }
  if (initialize) MEZZO_RETURN_IF_ERROR(initialize_all(model).with_context(path));
  if (options.use_training_info && passes::find_training_algorithm(model) != nullptr) {
    auto recipe = passes::adopt_training_info(model);
    if (!recipe.ok()) return recipe.status().with_context(path);
    loaded.recipe = std::move(recipe).value();
  } else if (!model.training_info.empty() && options.use_training_info) {
    const auto algorithms =
        std::count_if(model.training_info.begin(), model.training_info.end(),
                      [](const TrainingInfo& info) { return info.algorithm != nullptr; });
    if (algorithms > 1) {
      return invalid_argument(path + ": training_info: expected one training algorithm, got " +
                              std::to_string(algorithms) +
                              ". Hint: with --loss the model's own training is left aside");
    }
    loaded.notes.emplace_back(
        "the model's training information is not used: expected one algorithm with a Gradient");
  }
  passes::PassContext ctx;
  MEZZO_RETURN_IF_ERROR(passes::separate_parameters(model, ctx).status().with_context(path));
  for (std::string& warning : ctx.records.warnings) loaded.notes.push_back(std::move(warning));
  return loaded;
}

StatusOr<std::vector<runtime::ParameterGroup>> optimizer_groups(
    const passes::TrainingRecipe& recipe, std::optional<double> lr,
    std::optional<double> weight_decay) {
  std::vector<runtime::ParameterGroup> groups;
  for (const OptimizerRecipe& optimizer : recipe.optimizers) {
    runtime::ParameterGroup group;
    group.name = optimizer.node;
    group.settings = settings_of(optimizer);
    if (!lr && !optimizer.rate) {
      return invalid_argument(optimizer.node + ": its learning rate '" +
                              printable(optimizer.rate_name) +
                              "' is an input. Hint: give it with --lr");
    }
    if (group.settings.kind == runtime::OptimizerKind::kSgd && group.settings.momentum == 0) {
      // What is no momentum has no use for its mode, and none of its own for beta.
      group.settings.nesterov = false;
      if (group.settings.dampening != 0) {
        return unimplemented(optimizer.node + ": beta " + format_number(optimizer.beta) +
                             " without momentum (alpha 0) is not supported");
      }
    }
    group.settings.lr = lr ? *lr : *optimizer.rate;
    if (weight_decay) group.settings.weight_decay = *weight_decay;
    group.parameters = optimizer.parameters;
    groups.push_back(std::move(group));
  }
  return groups;
}

std::vector<std::string> parameters_of(const passes::TrainingRecipe& recipe) {
  std::vector<std::string> names;
  for (const OptimizerRecipe& optimizer : recipe.optimizers)
    names.insert(names.end(), optimizer.parameters.begin(), optimizer.parameters.end());
  return names;
}

}  // namespace mezzo::cli
