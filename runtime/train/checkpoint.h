// Checkpoints: a folder with
//   model.safetensors      the whole model: float32 master weights and running statistics under
//                          their ONNX initializer names, in their logical shapes, without padding;
//                          then the initializers that are not trained, as the model has them
//   optimizer.safetensors  optimizer state, "NAME.exp_avg", "NAME.exp_avg_sq",
//                          "NAME.momentum_buffer" or "NAME.sum", in the same shapes
//   ema.safetensors        with a moving average of the weights: model.safetensors with the
//                          averages in the place of the weights
//   state.json             everything else, and checksums of the other files
// The folder appears whole or not at all: a crash while saving leaves the previous checkpoint.
//
// state.json is one object:
//   format "mezzo-checkpoint", format_version 1,
//   step           optimizer steps taken, skipped ones included
//   applied_steps  those not skipped: the optimizer's step count and the schedule's position; with
//                  several optimizers, of the first
//   optimizers     [{"name", "applied_steps"}, ...], one row each; may be missing if there is one
//   loss_scaler    LossScaler::save        data   Dataset::save
//   rng            {"seed", "draws"}: dropout masks are made from a seed and a counter
//   options_digest what the run was started with, as a digest; resuming compares it
//   options        {"lr": "0.1", ...}: options that were given and are not at their defaults; may
//   be
//                  missing
//   extra          anything the caller adds
//   files          {"model.safetensors": {"bytes", "xxh3"}, ...}
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/support/dtype.h"
#include "compiler/support/status.h"
#include "runtime/io/safetensors.h"
#include "runtime/train/loss_scaler.h"

namespace mezzo::runtime {

inline constexpr std::int64_t kCheckpointVersion = 1;

// A float32 tensor whose logical part is the corner at the origin of a larger, padded one.
struct PaddedTensor {
  std::string name;
  std::vector<std::int64_t> dims;         // logical, as saved
  std::vector<std::int64_t> padded_dims;  // as it lies in memory; same rank, nowhere smaller
  float* values = nullptr;                // padded_dims elements
};

// An initializer that training does not change; the bytes belong to the caller.
struct FixedTensor {
  std::string name;
  DType dtype = DType::kNone;
  std::vector<std::int64_t> dims;
  std::span<const std::byte> bytes;
};

struct OptimizerProgress {
  std::string name;
  std::int64_t applied_steps = 0;
};

struct TrainingState {
  std::int64_t step = 0;
  std::int64_t applied_steps = 0;
  std::vector<OptimizerProgress> optimizers;  // empty in checkpoints of older versions
  LossScaler loss_scaler;
  std::uint64_t rng_seed = 0;
  std::uint64_t rng_draws = 0;
  std::string options_digest;
  std::optional<std::map<std::string, std::string>> options;  // nothing: of an older version
  // Owned by pointer so that this header needs no JSON: null stands for an empty object.
  std::shared_ptr<const nlohmann::json> data;
  std::shared_ptr<const nlohmann::json> extra;
};

struct CheckpointTensors {
  std::span<const PaddedTensor> weights;
  std::span<const PaddedTensor> optimizer;
  std::span<const PaddedTensor> average;  // names as in weights; empty: no ema.safetensors
  std::span<const FixedTensor> fixed;     // names that weights has not
};

// Writes the folder, replacing an older checkpoint there. InvalidArgument: not writable, or the
// folder holds something else than a checkpoint (it is left alone), or a name occurs twice.
Status save_checkpoint(const std::string& folder, const CheckpointTensors& tensors,
                       const TrainingState& state);

// An opened checkpoint, checksums compared.
struct Checkpoint {
  TrainingState state;
  SafetensorsFile model;
  SafetensorsFile optimizer;
  std::optional<SafetensorsFile> average;
};

// InvalidArgument: missing or damaged files, a field that is missing or out of range.
// Unimplemented: a later format version.
StatusOr<Checkpoint> load_checkpoint(const std::string& folder);

// Copies every tensor from `file`, zeroing the padding. All of `tensors` must be there in the same
// shapes; `fixed` may be (older versions did not save them) and must then be the same bytes;
// nothing else may be. Nothing is changed unless all fit.
Status restore_tensors(const SafetensorsFile& file, std::span<const PaddedTensor> tensors,
                       std::span<const FixedTensor> fixed = {});

}  // namespace mezzo::runtime
