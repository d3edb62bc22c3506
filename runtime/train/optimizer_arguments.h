// What the element loops are given beside coefficients. Private to runtime/train.
#pragma once

#include <cstdint>
#include <limits>

#include "runtime/train/optimizer.h"
#include "runtime/train/optimizer_loops.h"

namespace mezzo::runtime {

template <typename Arguments, typename Coefficients>
Arguments with(const Coefficients& coefficients) {
  Arguments arguments = {};
  static_cast<Coefficients&>(arguments) = coefficients;
  return arguments;
}

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
