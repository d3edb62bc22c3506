// What `mezzo opt` takes, apart from files: shared with the tests, whose RUN lines are its command
// lines.
#pragma once

#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/support/status.h"
#include "passes/pass.h"
#include "passes/pass_runner.h"
#include "tools/mezzo/loss_options.h"
#include "tools/mezzo/options.h"

namespace mezzo::cli {

struct OptOptions {
  std::string passes, print_after;
  PolicyOptions policy;
  DumpOptions dump;
  DimOptions dims;
  passes::TrainingOptions training;
  LossArguments loss;
  int stop_after = 0;
  std::string device = "cpu";
  bool for_runtime = false, types = false;

  void add_to(CLI::App& app);
  StatusOr<passes::PassContext> to_context() const;
  passes::RunnerOptions to_runner() const;
  // The model as text, with the types of all values if --types asks for them.
  StatusOr<std::string> print(Model& model) const;
};

}  // namespace mezzo::cli
