// Backward steps of recurrent layers.
#include "kernels/cuda/launch.h"
#include "kernels/cuda/recurrent_cell.h"
#include "kernels/cuda/recurrent_place.h"

namespace mezzo::kernels::cuda {

__device__ inline void lstm_backward(const RecurrentPlan& plan, const RecurrentArrays& arrays,
                                     const CellPlace& place, float dh) {
  const Int n = plan.hidden;
  const Int k = place.k;
  float* gates = arrays.gates + place.row * plan.width + k;
  float* sums = arrays.sums + place.b * plan.width + k;
  const float in = gates[0];
  const float out = gates[n];
  const float forget = gates[2 * n];
  const float candidate = gates[3 * n];
  const Int kept = place.row * n + k;
  const float bent = arrays.bent_c[kept];
  const float old_c = arrays.old_c[kept];
  const float* looks = arrays.peepholes;
  float dc = arrays.c[place.b * n + k];
  const float d_out = times_slope(plan, 0, out, dh * bent);
  dc += times_slope(plan, 2, bent, dh * out);
  if (looks != nullptr) dc += looks[n + k] * d_out;
  const bool joined = plan.input_forget != 0;
  const float d_in = times_slope(plan, 0, in, dc * (joined ? candidate - old_c : candidate));
  const float d_forget = joined ? 0.0F : times_slope(plan, 0, forget, dc * old_c);
  const float d_candidate = times_slope(plan, 1, candidate, dc * in);
  dc *= forget;
  if (looks != nullptr) dc += looks[k] * d_in + looks[2 * n + k] * d_forget;
  arrays.c[place.b * n + k] = dc;
  const float all[4] = {d_in, d_out, d_forget, d_candidate};
#pragma unroll
  for (int g = 0; g < 4; ++g) {
    gates[g * n] = all[g];
    sums[g * n] = all[g];
  }
}

__device__ inline void gru_backward(const RecurrentPlan& plan, const RecurrentArrays& arrays,
                                    const CellPlace& place, float dh) {
  const Int n = plan.hidden;
  const Int k = place.k;
  const Int at = place.b * n + k;
  float* gates = arrays.gates + place.row * plan.width + k;
  float* sums = arrays.sums + place.b * 2 * n + k;
  const float z = gates[0];
  const float r = gates[n];
  const float candidate = gates[2 * n];
  const Int kept = place.row * n + k;
  const float d_z = times_slope(plan, 0, z, dh * (arrays.old_h[kept] - candidate));
  const float d_candidate = times_slope(plan, 1, candidate, dh * (1.0F - z));
  arrays.h[at] = dh * z;
  gates[0] = sums[0] = d_z;
  gates[2 * n] = d_candidate;
  arrays.last_gates[kept] = d_candidate;
  if (plan.linear_before_reset == 0) {
    arrays.last_sums[at] = d_candidate;
    return;
  }
  const float through = d_candidate * r;
  const float d_r = times_slope(plan, 0, r, d_candidate * arrays.extra[kept]);
  arrays.last_sums[at] = arrays.extra[kept] = through;
  gates[n] = sums[n] = d_r;
}

__global__ void recurrent_backward(RecurrentPlan plan, RecurrentArrays arrays, Int step) {
  const Int all = plan.batch * plan.hidden;
  const Int threads = Int{gridDim.x} * blockDim.x;
  const bool gru = plan.cell == RecurrentCell::kGru;
  for (Int number = blockIdx.x * Int{blockDim.x} + threadIdx.x; number < all; number += threads) {
    const CellPlace place = place_of(plan, arrays, step, number);
    if (!place.takes_part) {  // nothing comes from what lies beyond the sequence
      for (Int g = place.k; g < plan.width; g += plan.hidden) {
        arrays.gates[place.row * plan.width + g] = 0.0F;
        if (!gru || g < 2 * plan.hidden) {
          arrays.sums[place.b * (gru ? 2 * plan.hidden : plan.width) + g] = 0.0F;
        }
      }
      if (gru) arrays.last_sums[number] = 0.0F;
      continue;
    }
    const float dy = arrays.dy != nullptr ? arrays.dy[y_place(plan, place)] : 0.0F;
    const float dh = arrays.h[number] + dy;
    if (plan.cell == RecurrentCell::kLstm) {
      lstm_backward(plan, arrays, place, dh);
    } else if (gru) {
      gru_backward(plan, arrays, place, dh);
    } else {
      float* gate = arrays.gates + place.row * plan.hidden + place.k;
      *gate = arrays.sums[number] = times_slope(plan, 0, *gate, dh);
    }
  }
}

__global__ void recurrent_backward_reset(RecurrentPlan plan, RecurrentArrays arrays, Int step) {
  const Int all = plan.batch * plan.hidden;
  const Int threads = Int{gridDim.x} * blockDim.x;
  for (Int number = blockIdx.x * Int{blockDim.x} + threadIdx.x; number < all; number += threads) {
    const CellPlace place = place_of(plan, arrays, step, number);
    if (!place.takes_part) continue;
    float* gate = arrays.gates + place.row * plan.width + plan.hidden + place.k;
    const float r = *gate;
    const float far = arrays.far[number];
    const float d_r =
        times_slope(plan, 0, r, far * arrays.old_h[place.row * plan.hidden + place.k]);
    arrays.far[number] = far * r;
    *gate = arrays.sums[place.b * 2 * plan.hidden + plan.hidden + place.k] = d_r;
  }
}

__global__ void recurrent_join(RecurrentPlan plan, RecurrentArrays arrays, Int step) {
  const Int all = plan.batch * plan.hidden;
  const Int threads = Int{gridDim.x} * blockDim.x;
  for (Int number = blockIdx.x * Int{blockDim.x} + threadIdx.x; number < all; number += threads) {
    if (!place_of(plan, arrays, step, number).takes_part) continue;
    const float near = arrays.near[number];
    arrays.h[number] =
        plan.cell == RecurrentCell::kGru ? arrays.h[number] + near + arrays.far[number] : near;
  }
}

// dp: of the gates i, o, f the products with the states they look at, over all
// rows.
__global__ void recurrent_peepholes(RecurrentPlan plan, RecurrentArrays arrays, float* dp) {
  const Int all = 3 * plan.hidden;
  const Int threads = Int{gridDim.x} * blockDim.x;
  for (Int number = blockIdx.x * Int{blockDim.x} + threadIdx.x; number < all; number += threads) {
    const Int gate = number / plan.hidden;
    const Int k = number - gate * plan.hidden;
    const float* states = gate == 1 ? arrays.new_c : arrays.old_c;
    float sum = 0.0F;
    for (Int row = 0; row < plan.steps * plan.batch; ++row) {
      sum += arrays.gates[row * plan.width + number] * states[row * plan.hidden + k];
    }
    dp[number] = sum;
  }
}

Status backward_step(const RecurrentPlan& plan, const RecurrentArrays& arrays, Int step,
                     void* stream) {
  return launch<recurrent_backward>(shape_for(plan.batch * plan.hidden), stream, plan, arrays,
                                    step);
}
Status backward_reset(const RecurrentPlan& plan, const RecurrentArrays& arrays, Int step,
                      void* stream) {
  return launch<recurrent_backward_reset>(shape_for(plan.batch * plan.hidden), stream, plan, arrays,
                                          step);
}
Status join_states(const RecurrentPlan& plan, const RecurrentArrays& arrays, Int step,
                   void* stream) {
  return launch<recurrent_join>(shape_for(plan.batch * plan.hidden), stream, plan, arrays, step);
}
Status peephole_gradients(const RecurrentPlan& plan, const RecurrentArrays& arrays, float* dp,
                          void* stream) {
  return launch<recurrent_peepholes>(shape_for(3 * plan.hidden), stream, plan, arrays, dp);
}

}  // namespace mezzo::kernels::cuda
