// Facts from the ONNX library's operator schemas, without its headers; for the domain com.microsoft
// from a table of our own (contrib_types.h), which holds whatever the opset.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "compiler/ir/graph.h"

namespace mezzo {

// True if a schema for the operator exists at `opset` (newest not above it).
bool has_schema(std::string_view op_type, std::string_view domain, std::int64_t opset);

// May operand / result number `index` of this node have element type `dtype` at this opset?
// nullopt: the operator or operand is unknown. Variadic operands are understood.
std::optional<bool> operand_accepts(const Node& node, std::size_t index, DType dtype,
                                    std::int64_t opset);
std::optional<bool> result_accepts(const Node& node, std::size_t index, DType dtype,
                                   std::int64_t opset);

// The type variable of an operand or result ("T"), equal for all that must share a type; "" for a
// fixed type or unknown.
std::string_view operand_type_variable(const Node& node, std::size_t index, std::int64_t opset);
std::string_view result_type_variable(const Node& node, std::size_t index, std::int64_t opset);

// Least opset at which this operator takes `dtype` as its first operand; 0 if none does.
std::int64_t first_opset_accepting(std::string_view op_type, std::string_view domain, DType dtype);
// The same for the first result: If, Loop and Scan take no tensor of the type they pass on first.
std::int64_t first_opset_giving(std::string_view op_type, std::string_view domain, DType dtype);

}  // namespace mezzo
