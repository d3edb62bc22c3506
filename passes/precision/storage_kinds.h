// What the passes that store activations in the low type tell nodes and values apart by.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_set>

#include "compiler/ir/graph.h"
#include "compiler/report/records.h"

namespace mezzo::passes {

// An FP32 tensor of known size that is worth a rounding.
bool is_large_float(const Value& value);

// Runs low by its category and accumulates in FP32.
bool is_contraction(const Node& node);

// Moves data and computes nothing; its results have the type of its operands.
bool is_move(const Node& node);

// Or the gradient of one.
bool is_normalisation(const Node& node);

// Sums of gradients: they take any type and add in FP32.
bool is_gradient_sum(const Node& node);

// Its kernel reads and writes any type, and its category lets it run low.
bool is_elementwise(const Node& node);

// Gives one of its operand's numbers or zero: rounding before it is rounding after it.
bool picks(const Node& node);

// Names (display_name) of nodes that a policy, a pin of the user's, a range or a calibration keeps
// in FP32: they read and write FP32. Pins of normalisations and the like, and of residual sums, are
// about what a node computes in, and are not among these.
std::unordered_set<std::string> kept_in_fp32(const Records& records);

}  // namespace mezzo::passes
