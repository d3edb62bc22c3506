// What the element loops are given for a group's settings at one step. Private to runtime/train.
#pragma once

#include <cstdint>
#include <limits>

#include "runtime/train/optimizer.h"
#include "runtime/train/optimizer_loops.h"

namespace mezzo::runtime {

// `lr` is the group's times the schedule's factor, `step` counts from 1. Everything but buffers,
// scale and clipping is set; for LAMB also but the rate.
SgdArguments sgd_arguments(const OptimizerGroup& group, double lr, std::int64_t step);
AdamArguments adam_arguments(const OptimizerGroup& group, double lr, std::int64_t step);
LambArguments lamb_arguments(const OptimizerGroup& group, std::int64_t step);
AdagradArguments adagrad_arguments(const OptimizerGroup& group, double lr, std::int64_t step);

// Sets what the argument structs have in common for elements [begin, begin + elems).
template <typename Arguments>
void set_common(Arguments& arguments, const OptimizerParameter& parameter, std::int64_t begin,
                std::int64_t elems, const OptimizerStep& settings, float factor) {
  arguments.w = parameter.master + begin;
  arguments.g = parameter.grad + begin;
  arguments.low = parameter.low != nullptr ? parameter.low + begin : nullptr;
  arguments.low_dtype = parameter.low != nullptr ? parameter.low_dtype : DType::kNone;
  arguments.n = elems;
  arguments.inverse_scale = settings.inverse_scale;
  arguments.clip_factor = factor;
  arguments.clip_value = settings.clip_value > 0 ? static_cast<float>(settings.clip_value)
                                                 : std::numeric_limits<float>::infinity();
}

}  // namespace mezzo::runtime
