// Private to compiler/ops: the ONNX library's schema registry, cached.
#pragma once

#include <string>
#include <string_view>

#include "onnx/defs/schema.h"

namespace mezzo {

// The newest opset of a domain that the library knows; 0 for an unknown domain.
int newest_opset(std::string_view domain);

// The schema in force at `opset` (newest not above it), or null. Deprecated ones are returned too.
const onnx::OpSchema* find_schema(std::string_view op_type, std::string_view domain, int opset);

}  // namespace mezzo
