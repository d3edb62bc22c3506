// Private to compiler/ops: what lowering rules have in common.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "compiler/ops/op_def.h"

namespace mezzo {

void set_attribute(LoweredOp& lowered, std::string_view name, Attribute::Value value);  // replaces
void erase_attribute(LoweredOp& lowered, std::string_view name);

// Keeps the first `count` operands.
void keep_operands(LoweredOp& lowered, std::size_t count);

// InvalidArgument where operand or result `index` is absent; rules ask before they look at one that
// the operator cannot do without.
Status require_operand(const Node& node, std::size_t index);
Status require_result(const Node& node, std::size_t index);

// Rank of an operand or result. Unimplemented where inference could not tell.
StatusOr<std::int64_t> known_rank(const Node& node, const Value& value);

// Integers given by attribute (older opsets) or by a constant operand. nullopt: neither is there.
// Unimplemented: the operand depends on the run.
StatusOr<std::optional<std::vector<std::int64_t>>> ints_of(const Node& node, std::string_view name,
                                                           std::size_t operand);

// `axis` in [0, rank). InvalidArgument otherwise.
StatusOr<std::int64_t> normalize_axis(const Node& node, std::int64_t axis, std::int64_t rank);

// The result is operand 0's bytes.
Status lower_alias(const Node& node, LoweredOp& lowered);

}  // namespace mezzo
