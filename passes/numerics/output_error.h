// How far a model's outputs are from another's on the same inputs.
#pragma once

#include <cstdint>
#include <string>

#include "compiler/ir/graph.h"
#include "passes/numerics/calibrate.h"
#include "passes/numerics/difference.h"

namespace mezzo::numerics {

struct OutputError {
  std::string output;  // the farthest
  Difference difference;
};

// The worst over `samples` samples and all outputs of `b` beside `a`, which have the same inputs
// and outputs in the same order; both as prepare() left them. The outputs of `a` are kept for all
// samples. Inputs are given to `b` in the types that it declares.
StatusOr<OutputError> output_error(const Model& a, const Model& b, std::uint64_t samples,
                                   const SampleReader& read, const CalibrateOptions& options);

// The value in the type that `declared` says, rounded where need be; unchanged where that is none
// of the floating types.
StatusOr<RuntimeValue> in_type_of(const Value& declared, const RuntimeValue& value);

}  // namespace mezzo::numerics
