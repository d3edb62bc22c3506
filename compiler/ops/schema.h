// Facts from the ONNX library's operator schemas, without its headers; for the domain com.microsoft
// from a table of our own (contrib_types.h), which holds whatever the opset.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

// Can the operator not do without its first operand or result? By its newest schema; true where
// there is none.
bool needs_first_operand(const Node& node);
bool needs_first_result(const Node& node);

// The first operand that the newest schema demands and the node leaves out; nullopt where there is
// none, or no schema.
std::optional<std::size_t> missing_operand(const Node& node);

// The type variable of an operand or result ("T"), equal for all that must share a type; "" for a
// fixed type or unknown.
std::string_view operand_type_variable(const Node& node, std::size_t index, std::int64_t opset);
std::string_view result_type_variable(const Node& node, std::size_t index, std::int64_t opset);

// ONNX spells some operators as functions of others, which runtimes without a kernel for them
// execute instead. Why that spelling does not hold at `opset` where the marked operands and results
// have element type `dtype` (an operator in it does not take the type, or it gives another); ""
// where it does, or there is none.
std::string function_body_fault(const Node& node, const std::vector<bool>& operands,
                                const std::vector<bool>& results, DType dtype, std::int64_t opset);

// An attribute that names the element type of a node's results, and the type that holds where the
// node does not have it: kNone if the operands tell then.
struct TypeAttribute {
  std::string_view name;  // "" if the operator has none
  DType fallback = DType::kNone;
};
TypeAttribute type_attribute(const Node& node, std::int64_t opset);

// Least opset at which this operator takes `dtype` as its first operand; 0 if none does.
std::int64_t first_opset_accepting(std::string_view op_type, std::string_view domain, DType dtype);
// The same for the first result: If, Loop and Scan take no tensor of the type they pass on first.
std::int64_t first_opset_giving(std::string_view op_type, std::string_view domain, DType dtype);

}  // namespace mezzo
