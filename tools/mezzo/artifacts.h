// ONNX Runtime's training artifacts on the command line: which files belong together, what they say
// of the optimizer, and the checkpoint that is written back.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>

#include "compiler/artifacts/ort_checkpoint.h"
#include "compiler/artifacts/ort_optimizer.h"
#include "compiler/ir/graph.h"
#include "compiler/support/status.h"
#include "runtime/exec/trainer.h"

namespace CLI {
class App;
}

namespace mezzo::cli {

struct ArtifactOptions {
  std::string checkpoint, optimizer_model, export_checkpoint;

  void add_to(CLI::App& app);
  bool given() const {
    return !checkpoint.empty() || !optimizer_model.empty() || !export_checkpoint.empty();
  }
};

// Could `model` be a training graph that brings its optimizer along? Looks at names alone.
bool may_have_artifacts(const std::string& model, const ArtifactOptions& options);

// What lies beside a training_model.onnx.
struct Artifacts {
  std::string checkpoint_path, optimizer_path;
  OrtCheckpoint checkpoint;
  std::optional<OrtOptimizer> optimizer;  // nothing without an optimizer model
};

struct TrainingModel {
  std::unique_ptr<Model> model;
  std::string path;                    // of the .onnx file
  std::optional<Artifacts> artifacts;  // of a graph that holds its own backward pass
};

// Loads a model; `path` may also be a folder with a training_model.onnx. A graph that accumulates
// gradients gets the values of its parameters from the checkpoint, by default the file `checkpoint`
// beside it, and optimizer_model.onnx beside it is read if it is there. InvalidArgument: a file is
// missing or damaged, the files contradict each other, or options of artifacts are given for
// another model.
StatusOr<TrainingModel> load_training_model(const std::string& path,
                                            const ArtifactOptions& options);

// The optimizer's settings as the artifacts have them, but for those whose options (such as
// "--lr") are in `given`.
Status apply_optimizer(const Artifacts& artifacts, const std::set<std::string>& given,
                       runtime::TrainerOptions& trainer);

// Puts the checkpoint's optimizer state, if it has one, into a trainer that has not stepped yet.
Status restore_optimizer(const Artifacts& artifacts, runtime::Trainer& trainer);

// InvalidArgument if the checkpoint cannot be written to `path`: its folder is missing or closed to
// us, or it is a folder itself. To find out before training rather than after.
Status check_export_place(const std::string& path);

// Writes a checkpoint of ONNX Runtime with the weights, statistics and optimizer state as they are
// now; what mezzo does not change is as it was read.
Status export_checkpoint(const Artifacts& artifacts, runtime::Executor& executor,
                         runtime::Trainer& trainer, const std::string& path);

}  // namespace mezzo::cli
