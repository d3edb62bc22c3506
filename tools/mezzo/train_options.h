// Options of `mezzo train`.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "compiler/support/status.h"
#include "passes/pass.h"
#include "runtime/exec/trainer.h"
#include "tools/mezzo/artifacts.h"
#include "tools/mezzo/device_options.h"
#include "tools/mezzo/loss_options.h"
#include "tools/mezzo/model_training.h"
#include "tools/mezzo/optimizer_options.h"
#include "tools/mezzo/options.h"

namespace CLI {
class App;
}

namespace mezzo::cli {

struct TrainOptions {
  std::string model, data, eval_data, out = "run", resume;
  PolicyOptions policy;
  DumpOptions dump;
  DimOptions dims;
  ThreadOptions threads;
  DeviceArguments device;
  LossArguments loss;
  ArtifactOptions artifacts;
  passes::TrainingOptions training;
  runtime::TrainerOptions trainer;  // complete after read()
  std::int64_t batch_size = 0, steps = 0, epochs = 0, save_every = 0;
  bool no_shuffle = false, json = false, profile = false, initialize = false;
  UpdateOptions update;
  std::set<std::string> given;  // options on the command line or in the configuration, as "--lr"

  void add_to(CLI::App& app);
  // Brings the options into the form that the runtime takes and checks how they fit together;
  // reads no file.
  Status read();
  // What of the model's own training is used.
  ModelTrainingOptions own_training() const;
  // The optimizers of a model's training information, where the command line names no other, of
  // the parameters in `trained`. InvalidArgument: options that do not go with them.
  StatusOr<std::vector<runtime::ParameterGroup>> groups_of(
      const passes::TrainingRecipe& recipe, const std::vector<std::string>& trained) const;
  // What must not differ between a run and its continuation, as text. New options are compared by
  // given_options() alone: checkpoints of older versions have this text.
  std::string digest() const;

 private:
  void add_data_options(CLI::App& app);
  void add_output_options(CLI::App& app);
  std::map<std::string, std::string> given_options() const;

  ScheduleOptions schedule_;
  ScaleOptions scale_;
  const CLI::App* app_ = nullptr;
  std::string config_, cuda_graph_ = "on";
};

}  // namespace mezzo::cli
