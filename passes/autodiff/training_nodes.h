// Private to passes/autodiff: the nodes of a training algorithm (training_info.h) and their
// constants.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/graph.h"
#include "passes/autodiff/training_info.h"

namespace mezzo::passes {

bool is_gradient(const Node& node);   // ai.onnx.preview.training.Gradient
bool is_optimizer(const Node& node);  // Adam, Momentum, Adagrad of the same domain

// What Identity nodes pass on; null for null.
Value* behind_identities(Value* value);

std::vector<std::string> strings_of(const Node& node, std::string_view attribute);

// What all elements of an initializer or Constant are; nothing where they differ.
std::optional<double> constant_of(const Value* value);

// Is it `count` + 1?
bool counts_up(const Value& count, const Node& node);

// Op and attributes of an optimizer node, with ONNX's defaults. REQUIRES: is_optimizer(node).
void read_constants(const Node& node, OptimizerRecipe& recipe);
void read_rate(const Value* rate, OptimizerRecipe& recipe);

}  // namespace mezzo::passes
