// Runs passes: verifies after each, checks their claims and conditions, dumps, times, and leaves a
// reproducer where one fails.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/support/status.h"
#include "passes/pipeline.h"

namespace mezzo::passes {

struct RunnerOptions {
  std::string dump_to;      // folder for `0003.after-insert-casts.onnxtxt`; "" for none
  std::string repro_to;     // folder for the reproducer; "": the dump folder, else none is written
  std::string print_after;  // regular expression on pass names: prints the graph to `print`
  std::function<void(const std::string&)> print;
  int stop_after = 0;  // number of passes to run; 0: all
};

struct PassRun {
  std::string_view name;
  double ms = 0;
  bool changed = false;
};

// Runs the passes in order. Internal errors leave a reproducer (reproducer.h). InvalidArgument: a
// pass whose precondition no pass before it gives. `runs` (may be null) receives times.
Status run_passes(Model& model, PassContext& ctx, const std::vector<const PassInfo*>& passes,
                  const RunnerOptions& options = {}, std::vector<PassRun>* runs = nullptr);

}  // namespace mezzo::passes
