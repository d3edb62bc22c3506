// Joining what is known of a value's type with what inference says.
#pragma once

#include "compiler/ir/graph.h"
#include "compiler/support/status.h"

namespace mezzo {

// Adds `inferred` to `value`'s type: the more specific dimension wins, a number over a symbol, a
// known symbol over another. InvalidArgument (result, expected, got) where both are known and
// differ. Two floating element types do not clash: kernels round to whatever result type a pass has
// chosen, so the known one stays.
Status merge_type(Value& value, const Type& inferred);

}  // namespace mezzo
