// Attributes of nodes in a plan's steps.
#pragma once

#include "compiler/ir/attribute.h"
#include "compiler/plan/plan.pb.h"

namespace mezzo {

// Attribute of an IR node as the plan's. False: tensors and graphs have no such form.
bool to_plan_attribute(const Attribute& attribute, proto::Attribute* out);

}  // namespace mezzo
