// The checkpoint file of ONNX Runtime's training artifacts: parameters, trained and frozen,
// optimizer state, and properties of the user's. FlatBuffers by the schema ort_checkpoint.fbs, file
// identifier ODTC, versions 1 and 2 (2 may keep tensors in a data file, CHECKPOINT.data).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "compiler/ir/tensor.h"
#include "compiler/support/status.h"

namespace mezzo {

struct CheckpointTensor {
  std::string name;
  TensorRef tensor;
};

// What the optimizer remembers of one parameter: "momentum0", "momentum1" of AdamW, in this order;
// nothing of SGD.
struct OrtParameterState {
  std::string parameter;
  std::vector<CheckpointTensor> momentums;
};

struct OrtOptimizerGroup {
  std::string name = "group0";
  std::int64_t step = 0;  // applied
  float initial_lr = 1e-3F;
  std::vector<OrtParameterState> parameters;
};

struct OrtCheckpoint {
  using Property = std::variant<std::int64_t, float, std::string>;

  std::int32_t version = 2;
  std::vector<CheckpointTensor> trained, frozen;
  std::vector<OrtOptimizerGroup> groups;  // empty before the first step
  std::vector<std::pair<std::string, Property>> properties;

  // The tensor of that name, trained or frozen; null if there is none.
  const CheckpointTensor* find(const std::string& name) const;
};

// Tensors point into the mapped file. The file is not trusted: InvalidArgument naming `path` and
// what is wrong. Unimplemented: a later version, or names without data (nominal state).
StatusOr<OrtCheckpoint> load_ort_checkpoint(const std::string& path);

// Replaces `path` whole or not at all. Everything is written into the one file. InvalidArgument:
// not writable, or more than the format's 2 GiB.
Status save_ort_checkpoint(const OrtCheckpoint& checkpoint, const std::string& path);

}  // namespace mezzo
