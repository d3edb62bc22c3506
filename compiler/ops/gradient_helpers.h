// Private to compiler/ops: what gradient rules have in common.
#pragma once

#include <vector>

#include "compiler/ops/op_def.h"

namespace mezzo {

using Gradients = std::vector<Value*>;

// All null: one entry per operand.
Gradients no_gradients(const GradientContext& ctx);

// Unimplemented if a gradient arrives at a result beyond the first, naming it. Rules for nodes with
// statistics, indices and the like as further results begin with this.
Status only_first_result(const GradientContext& ctx);

// True if both shapes are known and equal, dimension by dimension (the same symbol counts).
bool same_shape(const Value& a, const Value& b);

// A node of ours whose result has `like`'s shape.
Value* op_like(GradientContext& ctx, std::string_view op_type, std::vector<Value*> operands,
               std::vector<Builder::NamedValue> attributes, const Value& like);

// `grad`, summed over the dimensions in which `like` was broadcast.
Value* sum_to(GradientContext& ctx, Value* grad, const Value& like);
// `value` with the elements in order and `like`'s shape.
Value* reshape_like(GradientContext& ctx, Value* value, Value* like);
// `value` broadcast to `like`'s shape.
Value* expand_like(GradientContext& ctx, Value* value, Value* like);
// `value` times a number.
Value* scale(GradientContext& ctx, Value* value, double factor);

// The attributes of the forward node, to be handed to its gradient's node.
std::vector<Builder::NamedValue> forward_attributes(const GradientContext& ctx);

// The forward node's result `index`, added if it is not there. Unimplemented where it lies between
// results that exist but was left out.
StatusOr<Value*> require_result(GradientContext& ctx, std::size_t index, std::string_view what);

// dx = <op>Grad(dy, y) or <op>Grad(dy, x), with the forward node's attributes: unary functions.
StatusOr<Gradients> grad_from_result(GradientContext& ctx);
StatusOr<Gradients> grad_from_operand(GradientContext& ctx);
// No gradient at all: functions that are piecewise constant.
StatusOr<Gradients> grad_zero(GradientContext& ctx);
// dx = dy reshaped: Reshape, Flatten, Squeeze, Unsqueeze, Identity.
StatusOr<Gradients> grad_reshape(GradientContext& ctx);

}  // namespace mezzo
