// Which kernels read and write floating operands of any type, each on its own.
#pragma once

#include "compiler/ir/graph.h"

namespace mezzo::passes {

// Kernels that load and store through their own conversion: all that compute, none that move bits
// or contract. An alias is no kernel at all.
bool reads_any_type(const Node& node);

}  // namespace mezzo::passes
