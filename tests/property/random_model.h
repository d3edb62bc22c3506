// Random models for property tests: small, typed, and the same for the same seed.
#pragma once

#include <cstdint>
#include <memory>
#include <random>

#include "compiler/ir/graph.h"

namespace mezzo::test {

struct RandomModelOptions {
  int nodes = 14;         // about so many
  bool smooth = false;    // differentiable everywhere, and one scalar output `loss`
  bool branches = false;  // If nodes that read and give back values of the graph around them
  bool images = true;     // convolutions, pools, batch normalisation
};

// A model of opset 22 with float inputs `x0`, `x1`: contractions with weights, elementwise ops,
// data movement, normalisations (also spelled out in simpler ops), reductions, no-ops, constants,
// shared values, nodes with several results, and outputs that are read inside. Values stay within
// a few units, so that low precision is meaningful.
std::unique_ptr<Model> random_model(std::uint64_t seed, const RandomModelOptions& options = {});

}  // namespace mezzo::test
