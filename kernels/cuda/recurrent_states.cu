// What surrounds the steps of recurrent layers: lengths, conversions, states.
#include <cmath>

#include "kernels/cuda/element.h"
#include "kernels/cuda/fault.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/recurrent_cell.h"

namespace mezzo::kernels::cuda {

__global__ void recurrent_lengths(const std::int32_t* lengths, Int batch, Int steps,
                                  DeviceFault* fault, std::int32_t step, std::int32_t operand) {
  for (Int b = threadIdx.x; b < batch; b += blockDim.x) {
    if (lengths[b] < 0 || lengths[b] > steps) report_fault(fault, step, operand, b, lengths[b]);
  }
}

__global__ void elements_to_floats(const void* from, DType dtype, Int first, Int n, float* to) {
  const Int threads = Int{gridDim.x} * blockDim.x;
  for (Int i = blockIdx.x * Int{blockDim.x} + threadIdx.x; i < n; i += threads) {
    to[i] = load_element<float>(from, first + i, dtype);
  }
}
__global__ void floats_to_elements(const float* from, Int n, void* to, DType dtype) {
  const Int threads = Int{gridDim.x} * blockDim.x;
  for (Int i = blockIdx.x * Int{blockDim.x} + threadIdx.x; i < n; i += threads) {
    store_element<float>(to, i, dtype, from[i]);
  }
}
__global__ void add_to_floats(const float* from, Int n, float* to) {
  const Int threads = Int{gridDim.x} * blockDim.x;
  for (Int i = blockIdx.x * Int{blockDim.x} + threadIdx.x; i < n; i += threads) to[i] += from[i];
}

// Where the state of sequence b of this direction begins.
__device__ inline Int state_place(const RecurrentPlan& plan, Int number) {
  const Int b = number / plan.hidden;
  const Int row = plan.batch_first != 0 ? b * plan.directions + plan.direction
                                        : plan.direction * plan.batch + b;
  return row * plan.hidden + number - b * plan.hidden;
}
__global__ void states_to_floats(RecurrentPlan plan, const void* from, DType dtype, float* to) {
  const Int all = plan.batch * plan.hidden;
  const Int threads = Int{gridDim.x} * blockDim.x;
  for (Int number = blockIdx.x * Int{blockDim.x} + threadIdx.x; number < all; number += threads) {
    to[number] = load_element<float>(from, state_place(plan, number), dtype);
  }
}
__global__ void floats_to_states(RecurrentPlan plan, const float* from, void* to, DType dtype) {
  const Int all = plan.batch * plan.hidden;
  const Int threads = Int{gridDim.x} * blockDim.x;
  for (Int number = blockIdx.x * Int{blockDim.x} + threadIdx.x; number < all; number += threads) {
    store_element<float>(to, state_place(plan, number), dtype, from[number]);
  }
}

RecurrentPlan recurrent_plan(const RecurrentForm& form, Int direction) {
  RecurrentPlan plan;
  plan.cell = form.cell;
  plan.steps = form.steps;
  plan.batch = form.batch;
  plan.hidden = form.hidden;
  plan.directions = form.directions;
  plan.direction = direction;
  plan.width = form.gates * form.hidden;
  plan.batch_first = form.batch_first ? 1 : 0;
  plan.backward = form.is_backward(direction) ? 1 : 0;
  plan.input_forget = form.input_forget ? 1 : 0;
  plan.linear_before_reset = form.linear_before_reset ? 1 : 0;
  plan.clips = std::isfinite(form.clip) ? 1 : 0;
  plan.clip = plan.clips != 0 ? static_cast<float>(form.clip) : 0.0F;
  for (std::size_t i = 0; i < form.activations_each(); ++i) {
    plan.activations[i] = form.activation(direction, i);
  }
  return plan;
}

Status check_recurrent_lengths(const std::int32_t* lengths, Int batch, Int steps,
                               const KernelArguments& arguments, std::int32_t operand) {
  if (lengths == nullptr) return ok_status();
  return launch<recurrent_lengths>({dim3(1), dim3(kBlockThreads)}, arguments.stream, lengths, batch,
                                   steps, arguments.fault, arguments.step, operand);
}

Status to_floats(const void* from, DType dtype, Int first, Int n, float* to, void* stream) {
  if (n == 0) return ok_status();
  return launch<elements_to_floats>(shape_for(n), stream, from, dtype, first, n, to);
}
Status from_floats(const float* from, Int n, void* to, DType dtype, void* stream) {
  if (n == 0) return ok_status();
  return launch<floats_to_elements>(shape_for(n), stream, from, n, to, dtype);
}
Status fill_zeros(float* to, Int n, void* stream) {
  if (n == 0) return ok_status();
  return check("cudaMemsetAsync",
               cudaMemsetAsync(to, 0, static_cast<std::size_t>(n) * sizeof(float),
                               static_cast<cudaStream_t>(stream)));
}
Status add_floats(const float* from, Int n, float* to, void* stream) {
  if (n == 0) return ok_status();
  return launch<add_to_floats>(shape_for(n), stream, from, n, to);
}

Status load_state(const RecurrentPlan& plan, const void* from, DType dtype, float* to,
                  void* stream) {
  const Int all = plan.batch * plan.hidden;
  if (from == nullptr) return fill_zeros(to, all, stream);
  return launch<states_to_floats>(shape_for(all), stream, plan, from, dtype, to);
}
Status store_state(const RecurrentPlan& plan, const float* from, void* to, DType dtype,
                   void* stream) {
  if (to == nullptr) return ok_status();
  return launch<floats_to_states>(shape_for(plan.batch * plan.hidden), stream, plan, from, to,
                                  dtype);
}

}  // namespace mezzo::kernels::cuda
