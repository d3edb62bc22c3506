// The time of one conversion, from file to file, in processor seconds: waiting for other programs
// does not count.
#pragma once

#include <string>
#include <vector>

#include "compiler/support/status.h"
#include "passes/pass_runner.h"
#include "tests/bench/scale_models.h"

namespace mezzo::bench {

struct ConvertTime {
  double cpu_s = 0;
  std::vector<passes::PassRun> passes;  // these in wall-clock time
};

// Writes the graph to a file in `folder`, then converts it as `mezzo convert` does. BF16, so that
// the opset is raised where the kind has a Conv: the longest way.
Status write_graph(const GraphKind& kind, int nodes, const std::string& folder);
StatusOr<ConvertTime> time_conversion(const std::string& folder);

}  // namespace mezzo::bench
