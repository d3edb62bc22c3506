// What is known of a value before the run: the one reader of constants, whatever form a file gives
// them (initializers in any storage field, external data, every form of the Constant operator).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/ir/graph.h"

namespace mezzo {

// The dense tensor stored at `value` itself: an initializer that no caller can override, or the
// result of a Constant node (value, value_float(s), value_int(s)). Null for other values, and for
// sparse and string constants. For passes that rewrite where a constant is stored.
TensorRef constant_data(const Value& value);

// The constant that `value` always holds, also through Identity; sparse ones of up to 65536
// elements are spelled out. Values of enclosing graphs count like any other. Null if there is none
// (a graph input's default can be overridden).
TensorRef constant_of(const Value* value);

// Elements of such a constant of integer or bool type; nullopt if the value is no constant, of
// another type, or has more than 65536 elements.
std::optional<std::vector<std::int64_t>> constant_ints(const Value* value);

// The dims of a tensor whose shape is wholly known; nullopt for other values and null.
std::optional<std::vector<std::int64_t>> static_dims(const Value* value);

// The single element of a floating or integer constant with one element.
std::optional<double> constant_scalar(const Value* value);

}  // namespace mezzo
