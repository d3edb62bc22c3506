// `mezzo run --trace nan`: a run in which every tensor is looked at.
#pragma once

#include <cstdint>
#include <string>

#include "compiler/support/status.h"
#include "passes/precision/policy.h"

namespace mezzo::cli {

struct TraceRun {
  std::string model, input, output;  // output: "" for none
  passes::PrecisionPolicy policy;    // FP32 runs the model as it is
  int threads = 1;
  std::uint64_t most_iterations = 1'000'000;
};

// Executes the model in the interpreter, node by node, writes the outputs, and prints which node
// makes the first inf or NaN. InvalidArgument if one does: scripts can tell.
Status run_traced(const TraceRun& options);

}  // namespace mezzo::cli
