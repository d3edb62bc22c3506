// One run of the elementwise kernel: a program of element_steps() and the buffers it works on.
#pragma once

#include <cstdint>

#include "kernels/cuda/index.h"
#include "kernels/element_program.h"

namespace mezzo::kernels::cuda {

inline constexpr int kElementViews = 12;  // most operands

// What numbers a program computes with.
enum class ElementDomain : std::uint8_t { kFloat, kDouble, kInteger };

// How an operand is walked through, beside the result, whose elements are numbered in the order of
// its memory.
enum class ElementAccess : std::uint8_t {
  kDense,    // element by element, as the result
  kOne,      // one element for all
  kStrided,  // by ElementRun::index
};

struct ElementOperand {
  const void* data = nullptr;
  DType dtype = DType::kNone;
  ElementAccess access = ElementAccess::kDense;
};

// The kernel's parameter.
struct ElementRun {
  ElementOperand operands[kElementViews];
  void* y = nullptr;
  DType y_dtype = DType::kNone;
  std::int32_t whole_rows = 1;  // four neighbours from a multiple of 4 on are in one row of `index`
  std::int32_t is_unsigned = 0;  // the integers are uint64
  std::int32_t steps = 0;
  std::int32_t step = 0;  // of the plan, for `fault`
  DeviceFault* fault = nullptr;
  StridedIndex<kElementViews> index;  // of the operands that are kStrided; its elems are all
  ElementStep program[kMaxElementSteps];
};

// Puts the run into the stream. y may be the buffer of operands of its size that are kDense.
// REQUIRES: elements are there. `multiprocessors` of the device say how finely to cut the work.
Status launch_elements(const ElementRun& run, ElementDomain domain, int multiprocessors,
                       void* stream);

}  // namespace mezzo::kernels::cuda
