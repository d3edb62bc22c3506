// The end of `mezzo train`: what it came to, in summary.json and on the terminal.
#pragma once

#include <vector>

#include "compiler/support/status.h"
#include "runtime/exec/executor.h"
#include "runtime/exec/trainer.h"
#include "tools/mezzo/compile_model.h"
#include "tools/mezzo/memory_use.h"
#include "tools/mezzo/run_folder.h"
#include "tools/mezzo/train_options.h"

namespace mezzo::cli {

struct FinishedRun {
  const TrainOptions& options;
  const Compiled& compiled;
  runtime::Executor& executor;
  runtime::Trainer& session;
  ResidentBytes resident_before;  // when the executor was made
  std::vector<double> step_ms;    // of the steps of this call
  float last_loss;                // NaN: there was no step, or it had none
};

// Evaluates where --eval-data asks for it, writes summary.json into the folder, and prints it or,
// for people, its gist.
Status finish_run(const FinishedRun& run, const RunFolder& folder);

}  // namespace mezzo::cli
