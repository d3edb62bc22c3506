// How the model-local functions of a model call each other.
#pragma once

#include <cstdint>

#include "compiler/ir/graph.h"
#include "compiler/support/status.h"

namespace mezzo {

// Nodes of the main graph and the graphs in it, each call counted with all nodes of the body that
// it stands for. Type inference and conversion visit that many, and a file of a few hundred bytes
// can make them more than there are atoms. InvalidArgument: a function that calls itself, by way of
// others too; calls nested deeper than 100; more nodes than `limit`.
StatusOr<std::uint64_t> count_expanded_nodes(const Model& model, std::uint64_t limit);

// The limit that models are imported with: a minute's work, and 50 times the largest exports.
inline constexpr std::uint64_t kMostExpandedNodes = std::uint64_t{1} << 20;

}  // namespace mezzo
