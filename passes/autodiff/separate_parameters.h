// Gives back to parameters what PyTorch's exporters merged because it was equal at the time.
#pragma once

#include "passes/pass.h"

namespace mezzo::passes {

// Exporters store initializers of equal value once: the biases of a fresh model, all zero, become
// one, and so do the weights of layers that are copies of each other. Trained, they would stay
// one. Where the model tells what was merged, by Identity nodes (TorchScript) or by notes on nodes
// (torch.export), each parameter gets an initializer of its own under its own name; notes say so.
//
// Merged is what has one value throughout and a name that a module's parameter has, or names that
// differ in numbers only ("layers.0.fc.weight", "layers.1.fc.weight"); any other sharing is a tie
// that was meant. A bias of zeros that the exporter left out of a product comes back as well.
//
// The other way round, ties that exporters computed away come back (restore_ties.h).
//
// Leaves what the exporter computed with to lost_parameters() (exporter_notes.h).
StatusOr<bool> separate_parameters(Model& model, PassContext& ctx);

}  // namespace mezzo::passes
