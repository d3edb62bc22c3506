// Runs a graph on the reference kernels in the types that it names, every node rounding its
// results.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/support/status.h"

namespace mezzo::test {

using Results = std::map<std::string, std::vector<double>>;  // by output name

// Inputs get numbers in [-1, 1] that depend on `seed` and their name only. Nodes with subgraphs are
// Unimplemented.
StatusOr<Results> execute(const Graph& graph, std::uint64_t seed);

// The largest difference over all outputs of `expected`, relative to the largest magnitude of the
// output (at least 1). Infinity where an output is missing, has another size, or is not finite.
double difference(const Results& expected, const Results& actual);

}  // namespace mezzo::test
