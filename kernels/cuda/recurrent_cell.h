// The steps of recurrent layers on the device, in float32. Letters as in
// kernels/recurrent.h; rows: T B, in the order of x. Formulas as in
// kernels/recurrent_replay.h and recurrent_grad.h.
#pragma once

#include <cstdint>

#include "compiler/support/status.h"
#include "kernels/cuda/index.h"
#include "kernels/recurrent.h"

namespace mezzo::kernels::cuda {

// One direction of a layer, as its kernels take it.
struct RecurrentPlan {
  RecurrentCell cell = RecurrentCell::kRnn;
  Int steps = 0, batch = 0, hidden = 0, directions = 1, direction = 0;
  Int width = 0;  // G H
  std::int32_t batch_first = 0, backward = 0, input_forget = 0, linear_before_reset = 0;
  std::int32_t clips = 0;
  float clip = 0.0F;
  ActivationChoice activations[3];
};
RecurrentPlan recurrent_plan(const RecurrentForm& form, Int direction);

// What the steps of one direction read and write. All float32 but `y`; null
// where absent.
struct RecurrentArrays {
  const std::int32_t* lengths = nullptr;
  const float *first_bias = nullptr, *second_bias = nullptr, *peepholes = nullptr;
  // [rows, G H]: x W^T, then where all is kept the gates, then their gradients.
  float* gates = nullptr;
  // [B, G H], GRU [B, 2 H]: of the step's product, h R^T; backward what goes
  // into a' R.
  float* sums = nullptr;
  float* last_sums = nullptr;        // GRU: [B, H], the same of the candidate
  float *h = nullptr, *c = nullptr;  // [B, H]: states; backward dh and dc
  float* reset = nullptr;            // GRU whose reset comes first: r h of the step
  // Kept for the way back, [rows, H]: states before the step; LSTM: the state
  // after it and what the third activation makes of it; GRU: r h, or h R_h^T
  // and its bias.
  float *old_h = nullptr, *old_c = nullptr, *new_c = nullptr, *bent_c = nullptr, *extra = nullptr;
  // Backward: GRU's gradients of the candidate, once more together [rows, H];
  // dh through R.
  float* last_gates = nullptr;
  float *near = nullptr, *far = nullptr;  // [B, H]
  const float* dy = nullptr;
  void* y = nullptr;
  DType y_dtype = DType::kNone;
};

// All of these put work into the stream.

// A fault of operand `operand` for a length below 0 or above `steps`; such
// lengths are then taken for the nearest that makes sense.
Status check_recurrent_lengths(const std::int32_t* lengths, Int batch, Int steps,
                               const KernelArguments& arguments, std::int32_t operand);
// n elements of any floating dtype from element `first` on, as float32; back;
// and zeros.
Status to_floats(const void* from, DType dtype, Int first, Int n, float* to, void* stream);
Status from_floats(const float* from, Int n, void* to, DType dtype, void* stream);
Status fill_zeros(float* to, Int n, void* stream);
// to += from
Status add_floats(const float* from, Int n, float* to, void* stream);

// States between [B, H] and the direction's part of a tensor of states; `from`
// null: zeros.
Status load_state(const RecurrentPlan& plan, const void* from, DType dtype, float* to,
                  void* stream);
Status store_state(const RecurrentPlan& plan, const float* from, void* to, DType dtype,
                   void* stream);

// After h R^T has been computed. A GRU whose reset comes first goes on with
// finish_step, after (r h) R_h^T.
Status forward_step(const RecurrentPlan& plan, const RecurrentArrays& arrays, Int step,
                    void* stream);
Status finish_step(const RecurrentPlan& plan, const RecurrentArrays& arrays, Int step,
                   void* stream);

// Gradients of the gates' inputs from dh (and dy) and dc. A GRU whose reset
// comes first goes on with backward_reset, when `far` holds the candidate's a'
// R_h.
Status backward_step(const RecurrentPlan& plan, const RecurrentArrays& arrays, Int step,
                     void* stream);
Status backward_reset(const RecurrentPlan& plan, const RecurrentArrays& arrays, Int step,
                      void* stream);
// dh of the step before, when `near` (GRU: and `far`) holds a' R.
Status join_states(const RecurrentPlan& plan, const RecurrentArrays& arrays, Int step,
                   void* stream);
// dp[3 H] of the direction.
Status peephole_gradients(const RecurrentPlan& plan, const RecurrentArrays& arrays, float* dp,
                          void* stream);

}  // namespace mezzo::kernels::cuda
