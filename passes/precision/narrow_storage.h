#pragma once

#include "passes/pass.h"

namespace mezzo::passes {

// For training plans on a device, where memory is what batches are limited by and time is spent on:
// large activations that kernels compute in FP32 are stored in the low type where mixed-precision
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
// In FP16, whose users take its ten bits for granted and whose range residual sums of transformers
// pass, the forward pass goes on with rounded numbers only where it is going to round them in any
// case (for a contraction, through what moves or picks them), and with what a contraction gives a
// normalisation. The gradients are stored as above, and what the backward pass reads of the forward
// pass is a low copy (save_low.h). For roundings are not alike: those of the forward pass reach all
// that follows, those of gradients hardly count. Distances of the first step's gradients from
// FP32's, in a residual network with SiLU of 8 layers, scale 1024:
//
//   operands of contractions rounded, all else FP32 (on the CPU)   1.30e-3
//   and all gradients, and the copies for the backward pass        1.31e-3
//   and results of convolutions (this pass)                        1.56e-3
//   and normalisations, sums, activations (as PyTorch's autocast)  1.82e-3
//
// AdamW turns that into distance of weights by its first steps, which have the gradients' signs
// alone: of 60 steps' way 0.008 (this pass) against 0.011.
//
// Does nothing but for ctx.for_runtime with a low type on a device, in graphs that train.
StatusOr<bool> narrow_storage(Model& model, PassContext& ctx);

}  // namespace mezzo::passes
