// Gives back to parameters what PyTorch's exporters merged because it was equal at the time.
#pragma once

#include "passes/pass.h"

namespace mezzo::passes {

// Exporters store initializers of equal value once: the biases of a fresh model, all zero, become
// one, and so do the weights of layers that are copies of each other. Trained, they would stay
// one. Where the model tells what was merged, by Identity nodes (TorchScript) or by notes on nodes
// (torch.export), each parameter gets an initializer of its own under its own name; notes say so.
//
// Merged is what has one value throughout, or names that differ in numbers only
// ("layers.0.fc.weight", "layers.1.fc.weight"); any other sharing is a tie that was meant. A bias
// of zeros that the exporter left out of a product comes back as well.
//
// The other way round, an output layer tied to the embedding, which exporters part by transposing
// it ahead of time, is tied again, and what torch.export's optimiser expanded over a fixed batch ahead
// of time (the class token of a vision transformer) is one parameter again.
//
// Leaves what the exporter computed with to lost_parameters() (exporter_notes.h).
StatusOr<bool> separate_parameters(Model& model, PassContext& ctx);

}  // namespace mezzo::passes
