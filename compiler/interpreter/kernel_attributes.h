// Attributes of a lowered node as kernels take them.
#pragma once

#include <vector>

#include "compiler/ir/attribute.h"
#include "kernels/kernel.h"

namespace mezzo {

// Numbers, strings and lists of numbers; others are left out.
kernels::Attributes to_kernel_attributes(const std::vector<Attribute>& attributes);

}  // namespace mezzo
