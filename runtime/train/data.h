// Training data: an npz with one array per graph input, samples along the first axis.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/support/dtype.h"
#include "compiler/support/status.h"
#include "runtime/io/npz.h"
#include "runtime/train/element_cast.h"

namespace mezzo::runtime {

// A graph input as the plan states it. dims[0] is the batch axis and not looked at; a negative
// dimension accepts any size.
struct InputExpectation {
  std::string name;
  DType dtype = DType::kNone;
  std::vector<std::int64_t> dims;
};

struct DatasetOptions {
  std::int64_t batch_size = 1;
  bool shuffle = true;
  std::uint64_t seed = 0;
  bool check_values = true;  // look for NaN, inf and numbers that do not fit, once, when opened
};

// Samples follow each other without end: epoch after epoch, in file order without shuffling
// (wrapped around), else in an order of its own for each epoch, made from seed and epoch number
// (random.h). A batch may span two epochs; none is ever short. The position is one number, so
// resuming continues with exactly the samples that would have come.
class Dataset {
 public:
  // Opens and checks everything; all errors name file and array. InvalidArgument: an array missing
  // (with a suggestion), shapes or sample counts that do not fit, no samples, element types that
  // cannot be cast, NaN or inf (with the first place), a batch size under 1. Arrays that no input
  // asks for are ignored.
  static StatusOr<Dataset> open(const std::string& path, std::vector<InputExpectation> inputs,
                                const DatasetOptions& options);

  std::int64_t samples() const { return samples_; }
  std::int64_t batches_per_epoch() const;  // rounded up
  std::span<const InputExpectation> inputs() const { return inputs_; }
  // Dimensions of one batch of input i, with the batch size in front.
  std::vector<std::int64_t> batch_dims(std::size_t input) const;

  // Writes the next batch, cast to the inputs' types, and advances. `buffers` in the order of the
  // inputs, each with room for batch_dims() elements. Allocates nothing.
  // REQUIRES: buffers.size() == inputs().size().
  void next(std::span<void* const> buffers);

  // Samples given out since the start of training.
  std::int64_t position() const { return position_; }
  // Back to where position() was: the same samples come again. REQUIRES: position >= 0.
  void rewind(std::int64_t position) { seek(position); }

  // Position, order and sample count. load() refuses a state that was saved with other data,
  // another seed or order, as the run would not continue but mix two.
  nlohmann::json save() const;
  Status load(const nlohmann::json& saved);

 private:
  struct Source {
    ArrayData data;
    CastFunction cast;
    std::int64_t sample_elems;       // per sample
    std::int64_t from_bytes;         // per sample in the file
    std::int64_t to_bytes;           // per sample in the batch
    std::vector<std::int64_t> dims;  // of one sample
  };
  Dataset(std::vector<InputExpectation> inputs, const DatasetOptions& options)
      : inputs_(std::move(inputs)), options_(options) {}
  Status add_source(const NpzFile& file, const InputExpectation& input);
  void seek(std::int64_t position);

  std::vector<InputExpectation> inputs_;
  DatasetOptions options_;
  std::vector<Source> sources_;
  std::int64_t samples_ = 0;
  std::int64_t position_ = 0;
  std::int64_t epoch_ = -1;           // that order_ is of
  std::vector<std::uint32_t> order_;  // empty without shuffling
};

}  // namespace mezzo::runtime
