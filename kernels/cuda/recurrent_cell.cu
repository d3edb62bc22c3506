// Forward steps of recurrent layers.
#include "kernels/cuda/recurrent_cell.h"

#include <cmath>

#include "kernels/cuda/element.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/recurrent_place.h"

namespace mezzo::kernels::cuda {

__device__ inline float lstm_forward(const RecurrentPlan& plan, const RecurrentArrays& arrays,
                                     const CellPlace& place) {
  const Int n = plan.hidden;
  const Int k = place.k;
  float* gates = arrays.gates + place.row * plan.width + k;
  const float* sums = arrays.sums + place.b * plan.width + k;
  float x[4];
#pragma unroll
  for (int g = 0; g < 4; ++g) {
    x[g] = gates[g * n] + sums[g * n] + bias_at(arrays.first_bias, g * n + k) +
           bias_at(arrays.second_bias, g * n + k);
  }
  const float* looks = arrays.peepholes;
  const Int at = place.b * n + k;
  const float old_c = arrays.c[at];
  if (looks != nullptr) x[0] += looks[k] * old_c;
  const float in = activate(plan, 0, x[0]);
  float forget = 1.0F - in;
  if (plan.input_forget == 0) {
    if (looks != nullptr) x[2] += looks[2 * n + k] * old_c;
    forget = activate(plan, 0, x[2]);
  }
  const float candidate = activate(plan, 1, x[3]);
  const float c = forget * old_c + in * candidate;
  if (looks != nullptr) x[1] += looks[n + k] * c;
  const float out = activate(plan, 0, x[1]);
  const float bent = activate(plan, 2, c);
  arrays.c[at] = c;
  if (arrays.old_h != nullptr) {
    gates[0] = in;
    gates[n] = out;
    gates[2 * n] = forget;
    gates[3 * n] = candidate;
    const Int kept = place.row * n + k;
    arrays.old_c[kept] = old_c;
    arrays.bent_c[kept] = bent;
    if (arrays.new_c != nullptr) arrays.new_c[kept] = c;
  }
  return out * bent;
}

// z and r; and of a GRU whose reset comes last the candidate and the new state.
__device__ inline float gru_candidate(const RecurrentPlan& plan, const RecurrentArrays& arrays,
                                      const CellPlace& place, float recurrent, float z,
                                      float old_h) {
  float* gate = arrays.gates + place.row * plan.width + 2 * plan.hidden + place.k;
  const float x = *gate + bias_at(arrays.first_bias, 2 * plan.hidden + place.k) + recurrent;
  const float candidate = activate(plan, 1, x);
  *gate = candidate;
  return (1.0F - z) * candidate + z * old_h;
}

// True if h is known.
__device__ inline bool gru_forward(const RecurrentPlan& plan, const RecurrentArrays& arrays,
                                   const CellPlace& place, float old_h, float& h) {
  const Int n = plan.hidden;
  const Int k = place.k;
  float* gates = arrays.gates + place.row * plan.width + k;
  const float* sums = arrays.sums + place.b * 2 * n + k;
  float values[2];
#pragma unroll
  for (int g = 0; g < 2; ++g) {
    values[g] = activate(plan, 0,
                         gates[g * n] + sums[g * n] + bias_at(arrays.first_bias, g * n + k) +
                             bias_at(arrays.second_bias, g * n + k));
    gates[g * n] = values[g];
  }
  const Int at = place.b * n + k;
  const float extra = plan.linear_before_reset != 0
                          ? arrays.last_sums[at] + bias_at(arrays.second_bias, 2 * n + k)
                          : values[1] * old_h;
  if (arrays.extra != nullptr) arrays.extra[place.row * n + k] = extra;
  if (plan.linear_before_reset == 0) {
    arrays.reset[at] = extra;
    return false;
  }
  h = gru_candidate(plan, arrays, place, values[1] * extra, values[0], old_h);
  return true;
}

__global__ void recurrent_forward(RecurrentPlan plan, RecurrentArrays arrays, Int step) {
  const Int all = plan.batch * plan.hidden;
  const Int threads = Int{gridDim.x} * blockDim.x;
  for (Int number = blockIdx.x * Int{blockDim.x} + threadIdx.x; number < all; number += threads) {
    const CellPlace place = place_of(plan, arrays, step, number);
    if (!place.takes_part) {
      if (arrays.y != nullptr)
        store_element<float>(arrays.y, y_place(plan, place), arrays.y_dtype, 0.0F);
      continue;
    }
    const float old_h = arrays.h[number];
    if (arrays.old_h != nullptr) arrays.old_h[place.row * plan.hidden + place.k] = old_h;
    float h = 0.0F;
    if (plan.cell == RecurrentCell::kLstm) {
      h = lstm_forward(plan, arrays, place);
    } else if (plan.cell == RecurrentCell::kGru) {
      if (!gru_forward(plan, arrays, place, old_h, h)) continue;
    } else {
      float* gate = arrays.gates + place.row * plan.hidden + place.k;
      h = activate(plan, 0,
                   *gate + arrays.sums[number] + bias_at(arrays.first_bias, place.k) +
                       bias_at(arrays.second_bias, place.k));
      *gate = h;
    }
    arrays.h[number] = h;
    if (arrays.y != nullptr)
      store_element<float>(arrays.y, y_place(plan, place), arrays.y_dtype, h);
  }
}

// GRU whose reset comes first: last_sums holds (r h) R_h^T.
__global__ void recurrent_finish(RecurrentPlan plan, RecurrentArrays arrays, Int step) {
  const Int all = plan.batch * plan.hidden;
  const Int threads = Int{gridDim.x} * blockDim.x;
  for (Int number = blockIdx.x * Int{blockDim.x} + threadIdx.x; number < all; number += threads) {
    const CellPlace place = place_of(plan, arrays, step, number);
    if (!place.takes_part) continue;
    const float z = arrays.gates[place.row * plan.width + place.k];
    const float recurrent =
        arrays.last_sums[number] + bias_at(arrays.second_bias, 2 * plan.hidden + place.k);
    const float h = gru_candidate(plan, arrays, place, recurrent, z, arrays.h[number]);
    arrays.h[number] = h;
    if (arrays.y != nullptr)
      store_element<float>(arrays.y, y_place(plan, place), arrays.y_dtype, h);
  }
}

Status forward_step(const RecurrentPlan& plan, const RecurrentArrays& arrays, Int step,
                    void* stream) {
  return launch<recurrent_forward>(shape_for(plan.batch * plan.hidden), stream, plan, arrays, step);
}
Status finish_step(const RecurrentPlan& plan, const RecurrentArrays& arrays, Int step,
                   void* stream) {
  return launch<recurrent_finish>(shape_for(plan.batch * plan.hidden), stream, plan, arrays, step);
}

}  // namespace mezzo::kernels::cuda
