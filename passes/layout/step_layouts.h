// What the steps of a plan make of layouts; shared by choose_layouts and its rewriter.
#pragma once

#include <cstdint>

#include "compiler/plan/device_kind.h"
#include "compiler/plan/plan.pb.h"
#include "kernels/kernel.h"

namespace mezzo::passes {

kernels::TensorDesc describe(const proto::Tensor& tensor);
kernels::Attributes attributes_of(const proto::Step& step);

enum class StepLayout : std::uint8_t {
  kRowMajor,      // takes nothing else
  kKeeps,         // channels last where all of its operands and results are
  kPrefers,       // operand 0 and result 0 in either, each on its own, faster channels last
  kMoves,         // in any mixture
  kChannelsLast,  // all of its operands and results channels last, weights too
};
// On the CPU what kernels::layout_use says. On a GPU convolutions of low operands run on Tensor
// Cores, which read channels last, weights as well: given anything else the library would reorder
// everything in every run. Its FP32 convolutions are made for row-major tensors.
StepLayout step_layout(const proto::Step& step, const proto::Plan& plan, DeviceKind device);

// What a Transpose is between a channels-last tensor and a row-major one of the same bytes.
enum class View : std::uint8_t { kNone, kOfChannelsLast, kToChannelsLast };
View view_of(const proto::Step& step, int rank);

}  // namespace mezzo::passes
