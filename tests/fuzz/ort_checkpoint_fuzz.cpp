// Any bytes as a checkpoint of ONNX Runtime; every tensor that is listed is read.
#include <cstdint>
#include <string>

#include "compiler/artifacts/ort_checkpoint.h"
#include "fuzz_target.h"

namespace mezzo::fuzz {
namespace {

// Touches first and last byte: the sanitizers see whether they are there.
std::uint64_t touch(const std::vector<CheckpointTensor>& tensors) {
  std::uint64_t sum = 0;
  for (const CheckpointTensor& tensor : tensors) {
    const std::span<const std::byte> bytes = tensor.tensor->stored_bytes();
    demand(bytes.size() == tensor.tensor->byte_size(), "a tensor has the bytes of its shape");
    if (!bytes.empty())
      sum += static_cast<std::uint64_t>(bytes.front()) + static_cast<std::uint64_t>(bytes.back());
  }
  return sum;
}

void run(Bytes bytes) {
  const std::string path = write_scratch("checkpoint", bytes);
  const auto checkpoint = load_ort_checkpoint(path);
  if (!accepted(checkpoint.status(), "load_ort_checkpoint")) return;
  std::uint64_t sum = touch(checkpoint->trained) + touch(checkpoint->frozen);
  for (const OrtOptimizerGroup& group : checkpoint->groups) {
    for (const OrtParameterState& state : group.parameters) sum += touch(state.momentums);
  }
  demand(sum < (std::uint64_t{1} << 40), "bytes add up");
  if (choice_for(bytes) % 16 != 0 && !do_everything) return;
  const std::string copy = output_path("checkpoint");
  // Tensors may share their bytes in the file, and be too many apart.
  if (!accepted(save_ort_checkpoint(*checkpoint, copy), "save_ort_checkpoint")) return;
  const auto again = load_ort_checkpoint(copy);
  demand_ok(again.status(), "load_ort_checkpoint of what was saved");
  demand(again->trained.size() == checkpoint->trained.size(), "all parameters come back");
}

}  // namespace

const Target ort_checkpoint_target = {"ort_checkpoint", run, nullptr};

}  // namespace mezzo::fuzz
