// A model made ready to be looked at while it runs.
#pragma once

#include <memory>
#include <string>

#include "compiler/ir/graph.h"
#include "compiler/support/status.h"

namespace mezzo::numerics {

// Brings it to an opset that the interpreter knows, types it, and expands calls of local functions
// in place: nodes and values keep their names. What is computed stays the same.
Status prepare(Model& model);

}  // namespace mezzo::numerics
