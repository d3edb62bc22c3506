// What is known of a value before the run.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compiler/ir/graph.h"

namespace mezzo {

// The dense constant a value always holds: a fixed initializer, or the result of a Constant node,
// also through Identity. Null if there is none (a graph input's default can be overridden).
TensorRef constant_of(const Value* value);

// Elements of such a constant of integer or bool type; nullopt if the value is no constant, or
// another type.
std::optional<std::vector<std::int64_t>> constant_ints(const Value* value);

// The dims of a tensor whose shape is wholly known; nullopt for other values and null.
std::optional<std::vector<std::int64_t>> static_dims(const Value* value);

// The single element of a floating or integer constant with one element.
std::optional<double> constant_scalar(const Value* value);

}  // namespace mezzo
