// What initializers look like to the passes that undo what exporters did to parameters.
#pragma once

#include <cstdint>
#include <string>

#include "compiler/ir/graph.h"

namespace mezzo::passes {

// Larger tensors are not compared: that would take longer than training them.
inline constexpr std::int64_t kMostCompared = std::int64_t{1} << 26;

// A floating-point initializer that no caller can override; false for null.
bool is_weight(const Value* value);

// All elements are the same: what two parameters are equal in when they are made.
bool has_one_value(const Tensor& tensor);

// "layers.12.fc" and "layers.3.fc" read the same.
std::string without_numbers(const std::string& name);

// The exporter's own names are of what it computed, such as a transposed weight.
bool is_computed(const Value& weight);

}  // namespace mezzo::passes
