#pragma once

#include "passes/pass.h"

namespace mezzo::passes {

// For training plans in BF16 on a device, where memory is what batches are limited by and time is
// spent on: large activations that kernels compute in FP32 are stored in BF16 where mixed-precision
// training commonly has them in it. What computes in FP32 goes on to do so, in registers.
//
// Stored low, if every reader can take it:
// 1. what a contraction of low operands gives;
// 2. what a normalisation gives, and its gradient to the layer before;
// 3. the gradient of a loss to its scores;
// 4. what an elementwise operator, a pooling, a sum of gradients gives whose large operands are
//    all low;
// 5. what moves data of 1 to 4.
//
// A reader can take it if it is a cast to low, a normalisation, an elementwise operator, a mean or
// the like; an operator that needs FP32 (Exp, Softmax, a loss) only from a contraction, whose
// result a converted model rounds as well, or a Resize. Nodes that a policy, a pin of the user's, a
// range or a calibration keeps in FP32 read and write FP32.
//
// Not in FP16: its users take its ten bits for granted, and with these roundings the weights of a
// residual network with SiLU end 0.011 of their way from the FP32 run's instead of 0.007 (60 steps
// of AdamW); nor do transformers' residual sums keep to its range. Does nothing but for
// ctx.for_runtime on a device, in graphs that train.
StatusOr<bool> narrow_storage(Model& model, PassContext& ctx);

}  // namespace mezzo::passes
