#include "tools/mezzo/artifacts.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <span>

#include "compiler/artifacts/accumulators.h"
#include "compiler/artifacts/attach_checkpoint.h"
#include "compiler/onnx/import.h"
#include "compiler/support/quotes.h"
#include "compiler/support/text.h"

namespace mezzo::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kModel = "training_model.onnx";
constexpr const char* kCheckpoint = "checkpoint";
constexpr const char* kOptimizerModel = "optimizer_model.onnx";
// Of AdamW, in the order in which ONNX Runtime sorts its names.
constexpr const char* kMomentums[] = {"momentum0", "momentum1"};
constexpr std::string_view kStates[] = {"exp_avg", "exp_avg_sq"};

std::string beside(const std::string& model, const char* name) {
  return (fs::path(model).parent_path() / name).string();
}

StatusOr<std::string> checkpoint_of(const std::string& model, const ArtifactOptions& options) {
  if (!options.checkpoint.empty()) return options.checkpoint;
  std::string path = beside(model, kCheckpoint);
  std::error_code ignored;
  if (fs::exists(path, ignored)) return path;
  return invalid_argument(printable(model) +
                          ": the graph holds its own backward pass, and its parameters are graph "
                          "inputs: expected their values in " +
                          printable(path) + ", which is not there. Hint: --checkpoint FILE");
}

StatusOr<std::optional<OrtOptimizer>> optimizer_of(const std::string& path, bool required) {
  std::error_code ignored;
  if (!required && !fs::exists(path, ignored)) return std::optional<OrtOptimizer>();
  MEZZO_ASSIGN_OR_RETURN(const auto model, load_model(path));
  auto optimizer = read_ort_optimizer(*model->graph);
  if (!optimizer.ok()) return optimizer.status().with_context(printable(path));
  return std::optional(*optimizer);
}

// What the optimizer remembers of one parameter, as a tensor of `dims`.
StatusOr<std::span<const std::byte>> momentum_bytes(const OrtParameterState& state,
                                                    const char* name, std::size_t bytes) {
  for (const CheckpointTensor& tensor : state.momentums) {
    if (tensor.name != name) continue;
    if (tensor.tensor->dtype() != DType::kFloat32 || tensor.tensor->byte_size() != bytes) {
      return invalid_argument(
          "optimizer state " + in_quotes(name) + " of " + in_quotes(state.parameter) +
          ": expected " + std::to_string(bytes) + " bytes of float, got " +
          std::string(dtype_name(tensor.tensor->dtype())) + format_dims(tensor.tensor->dims()));
    }
    return tensor.tensor->stored_bytes();
  }
  return invalid_argument("optimizer state " + in_quotes(name) + " of " +
                          in_quotes(state.parameter) + " is missing");
}

TensorRef copy_of(std::span<const float> values, const std::vector<std::int64_t>& dims) {
  const auto bytes = std::as_bytes(values);
  return Tensor::from_bytes(DType::kFloat32, dims, {bytes.begin(), bytes.end()});
}

// Parameters and statistics as they are now, by name.
std::map<std::string, TensorRef> current_tensors(runtime::Executor& executor) {
  std::map<std::string, TensorRef> tensors;
  const auto add = [&](const auto& port, int index) {
    const std::vector<std::int64_t> dims(port.logical_dims().begin(), port.logical_dims().end());
    const std::size_t elems = executor.bytes(index) / sizeof(float);
    tensors[port.name()] = copy_of({executor.data_as<float>(index), elems}, dims);
  };
  for (const auto& parameter : executor.plan().parameters()) add(parameter, parameter.master());
  for (const auto& state : executor.plan().states()) add(state, state.tensor());
  return tensors;
}

// A number that was meant in decimals: 0.9 for the float next to it.
double decimal(float value) { return std::strtod(format_number(value).c_str(), nullptr); }

TensorRef zeros_like(const Tensor& tensor) {
  return Tensor::from_bytes(tensor.dtype(), tensor.dims(),
                            std::vector<std::byte>(tensor.byte_size()));
}

// ONNX Runtime wants the state of every parameter or of none. Frozen ones have had no gradient.
StatusOr<OrtOptimizerGroup> current_state(const OrtCheckpoint& checkpoint,
                                          runtime::Trainer& trainer) {
  OrtOptimizerGroup group;
  if (!checkpoint.groups.empty()) group.name = checkpoint.groups.front().name;
  MEZZO_ASSIGN_OR_RETURN(const auto optimizers, trainer.all_optimizers());
  group.initial_lr = static_cast<float>(optimizers.front()->groups().front().lr);
  group.step = optimizers.front()->applied_steps();
  std::map<std::pair<std::string, std::string_view>, std::span<const float>> states;
  for (runtime::Optimizer* optimizer : optimizers) {
    for (const runtime::Optimizer::State& state : optimizer->states())
      states[{optimizer->parameters()[state.parameter].name, state.name}] = state.values;
  }
  const bool any = std::any_of(states.begin(), states.end(), [](const auto& entry) {
    return std::find(std::begin(kStates), std::end(kStates), entry.first.second) !=
           std::end(kStates);
  });
  for (const CheckpointTensor& parameter : checkpoint.trained) {
    if (!any) break;
    OrtParameterState state{parameter.name, {}};
    for (std::size_t i = 0; i < std::size(kStates); ++i) {
      const auto found = states.find({parameter.name, kStates[i]});
      state.momentums.push_back(
          {kMomentums[i], found == states.end()
                              ? zeros_like(*parameter.tensor)
                              : copy_of(found->second, parameter.tensor->dims())});
    }
    group.parameters.push_back(std::move(state));
  }
  return group;
}

// Copies the state of one optimizer's parameters out of the checkpoint.
Status restore_states(const std::map<std::string, const OrtParameterState*>& by_name,
                      runtime::Optimizer& optimizer) {
  for (const runtime::Optimizer::State& state : optimizer.states()) {
    const auto at = std::find(std::begin(kStates), std::end(kStates), state.name);
    if (at == std::end(kStates)) continue;
    const std::string& name = optimizer.parameters()[state.parameter].name;
    const auto found = by_name.find(name);
    if (found == by_name.end()) {
      return invalid_argument("it has optimizer state, but none of parameter " + in_quotes(name));
    }
    MEZZO_ASSIGN_OR_RETURN(const auto bytes,
                           momentum_bytes(*found->second, kMomentums[at - std::begin(kStates)],
                                          state.values.size_bytes()));
    std::copy(bytes.begin(), bytes.end(), std::as_writable_bytes(state.values).begin());
  }
  return ok_status();
}

}  // namespace

void ArtifactOptions::add_to(CLI::App& app) {
  app.option_defaults()->group("Training artifacts of ONNX Runtime");
  app.add_option("--checkpoint", checkpoint,
                 "Parameters of a training_model.onnx (default: the file checkpoint beside it)")
      ->type_name("FILE");
  app.add_option(
         "--optimizer-model", optimizer_model,
         "Where the optimizer's defaults are read (default: optimizer_model.onnx beside it)")
      ->type_name("FILE");
  app.add_option("--export-checkpoint", export_checkpoint,
                 "Where the checkpoint for ONNX Runtime is written (default: OUT/ort_checkpoint)")
      ->type_name("FILE");
}

bool may_have_artifacts(const std::string& model, const ArtifactOptions& options) {
  std::error_code ignored;
  return options.given() || fs::is_directory(model, ignored) ||
         fs::is_regular_file(beside(model, kCheckpoint), ignored);
}

StatusOr<TrainingModel> load_training_model(const std::string& path,
                                            const ArtifactOptions& options) {
  TrainingModel result;
  std::error_code ignored;
  result.path = fs::is_directory(path, ignored) ? (fs::path(path) / kModel).string() : path;
  MEZZO_ASSIGN_OR_RETURN(result.model, load_model(result.path));
  if (!accumulates_gradients(*result.model->graph)) {
    if (!options.given()) return result;
    return invalid_argument(
        printable(result.path) +
        ": the graph holds no backward pass of ONNX Runtime's, so --checkpoint, "
        "--optimizer-model and --export-checkpoint say nothing here");
  }
  Artifacts artifacts;
  MEZZO_ASSIGN_OR_RETURN(artifacts.checkpoint_path, checkpoint_of(result.path, options));
  MEZZO_ASSIGN_OR_RETURN(artifacts.checkpoint, load_ort_checkpoint(artifacts.checkpoint_path));
  MEZZO_RETURN_IF_ERROR(attach_checkpoint(*result.model->graph, artifacts.checkpoint,
                                          printable(artifacts.checkpoint_path))
                            .with_context(printable(result.path)));
  const bool named = !options.optimizer_model.empty();
  artifacts.optimizer_path = named ? options.optimizer_model : beside(result.path, kOptimizerModel);
  MEZZO_ASSIGN_OR_RETURN(artifacts.optimizer, optimizer_of(artifacts.optimizer_path, named));
  result.artifacts = std::move(artifacts);
  return result;
}

Status apply_optimizer(const Artifacts& artifacts, const std::set<std::string>& given,
                       runtime::TrainerOptions& trainer) {
  runtime::OptimizerGroup& group = trainer.optimizer;
  const auto set = [&](const char* option, double& to, double value) {
    if (given.count(option) == 0) to = value;
  };
  if (!artifacts.checkpoint.groups.empty() && artifacts.checkpoint.groups.front().initial_lr > 0)
    set("--lr", group.lr, decimal(artifacts.checkpoint.groups.front().initial_lr));
  trainer.schedule.base_lr = group.lr;
  if (!artifacts.optimizer) return ok_status();
  const OrtOptimizer& optimizer = *artifacts.optimizer;
  if (optimizer.clip_norm) set("--clip-norm", trainer.clip_norm, decimal(*optimizer.clip_norm));
  if (given.count("--optimizer") > 0) return ok_status();
  if (optimizer.kind == OrtOptimizer::Kind::kSgd) {
    group.kind = runtime::OptimizerKind::kSgd;
    return ok_status();
  }
  group.kind = runtime::OptimizerKind::kAdamW;
  if (given.count("--adamw-form") == 0 && optimizer.mode == OrtOptimizer::AdamMode::kHuggingFace)
    group.adamw_form = runtime::AdamWForm::kHuggingFace;
  group.bias_correction = optimizer.correct_bias;
  if (given.count("--betas") == 0) {
    group.beta1 = decimal(optimizer.beta1);
    group.beta2 = decimal(optimizer.beta2);
  }
  set("--eps", group.eps, decimal(optimizer.epsilon));
  set("--weight-decay", group.weight_decay, decimal(optimizer.weight_decay));
  return ok_status();
}

Status restore_optimizer(const Artifacts& artifacts, runtime::Trainer& trainer) {
  if (artifacts.checkpoint.groups.empty()) return ok_status();
  const OrtOptimizerGroup& group = artifacts.checkpoint.groups.front();
  if (artifacts.checkpoint.groups.size() > 1) {
    return unimplemented(printable(artifacts.checkpoint_path) +
                         ": more than one optimizer group, which ONNX Runtime does not write");
  }
  std::map<std::string, const OrtParameterState*> by_name;
  for (const OrtParameterState& state : group.parameters) by_name[state.parameter] = &state;
  MEZZO_ASSIGN_OR_RETURN(const auto optimizers, trainer.all_optimizers());
  for (runtime::Optimizer* optimizer : optimizers) {
    optimizer->set_applied_steps(group.step);
    if (by_name.empty()) continue;
    MEZZO_RETURN_IF_ERROR(
        restore_states(by_name, *optimizer).with_context(printable(artifacts.checkpoint_path)));
  }
  return ok_status();
}

Status check_export_place(const std::string& path) {
  const auto refused = [&](const std::string& why) {
    return invalid_argument("--export-checkpoint " + printable(path) +
                            ": cannot be written: " + why);
  };
  std::error_code error;
  if (fs::is_directory(path, error)) return refused("it is a folder");
  const fs::path parent = fs::path(path).has_parent_path() ? fs::path(path).parent_path() : ".";
  if (!fs::is_directory(parent, error))
    return refused("there is no folder '" + printable(parent.string()) + "'");
  if (::access(parent.c_str(), W_OK | X_OK) != 0) return refused(std::strerror(errno));
  return ok_status();
}

Status export_checkpoint(const Artifacts& artifacts, runtime::Executor& executor,
                         runtime::Trainer& trainer, const std::string& path) {
  OrtCheckpoint checkpoint = artifacts.checkpoint;
  MEZZO_ASSIGN_OR_RETURN(auto state, current_state(checkpoint, trainer));
  const std::map<std::string, TensorRef> tensors = current_tensors(executor);
  for (auto* list : {&checkpoint.trained, &checkpoint.frozen}) {
    for (CheckpointTensor& tensor : *list) {
      const auto found = tensors.find(tensor.name);
      if (found != tensors.end()) tensor.tensor = found->second;
    }
  }
  checkpoint.groups = {std::move(state)};
  return save_ort_checkpoint(checkpoint, path);
}

}  // namespace mezzo::cli
