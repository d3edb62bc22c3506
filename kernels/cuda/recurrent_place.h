// Which unit of which sequence a thread of a recurrent step has, and its
// activations.
#pragma once

#include <cmath>

#include "kernels/cuda/device_code.h"
#include "kernels/cuda/recurrent_cell.h"

namespace mezzo::kernels::cuda {

__device__ inline Int length_of(const RecurrentPlan& plan, const RecurrentArrays& arrays, Int b) {
  if (arrays.lengths == nullptr) return plan.steps;
  const Int length = arrays.lengths[b];
  return length < 0 ? 0 : length > plan.steps ? plan.steps : length;
}

// Place of one thread: unit k of sequence b, at time t of the step.
struct CellPlace {
  Int b, k, t, row;
  bool takes_part;
};
__device__ inline CellPlace place_of(const RecurrentPlan& plan, const RecurrentArrays& arrays,
                                     Int step, Int number) {
  CellPlace place;
  place.b = number / plan.hidden;
  place.k = number - place.b * plan.hidden;
  const Int length = length_of(plan, arrays, place.b);
  place.takes_part = step < length;
  place.t = place.takes_part && plan.backward != 0 ? length - 1 - step : step;
  place.row =
      plan.batch_first != 0 ? place.b * plan.steps + place.t : place.t * plan.batch + place.b;
  return place;
}
__device__ inline Int y_place(const RecurrentPlan& plan, const CellPlace& place) {
  const Int row = plan.batch_first != 0
                      ? (place.b * plan.steps + place.t) * plan.directions + plan.direction
                      : (place.t * plan.directions + plan.direction) * plan.batch + place.b;
  return row * plan.hidden + place.k;
}

__device__ inline float activate(const RecurrentPlan& plan, int which, float x) {
  if (plan.clips != 0 && std::fabs(x) > plan.clip) x = std::copysign(plan.clip, x);
  return activated(plan.activations[which], x);
}
// d f'(x), from y = f(x): clipped inputs have slope 0.
__device__ inline float times_slope(const RecurrentPlan& plan, int which, float y, float d) {
  const ActivationChoice& choice = plan.activations[which];
  if (plan.clips != 0 && (y == activated(choice, plan.clip) || y == activated(choice, -plan.clip)))
    return 0.0F;
  return d * slope_at_result(choice, y);
}

__device__ inline float bias_at(const float* bias, Int k) {
  return bias != nullptr ? bias[k] : 0.0F;
}

}  // namespace mezzo::kernels::cuda
