#include <limits>

#include "compiler/artifacts/ort_checkpoint.h"
#include "compiler/artifacts/ort_checkpoint_generated.h"
#include "compiler/support/atomic_file.h"
#include "compiler/support/text.h"
#include "flatbuffers/flatbuffers.h"

namespace mezzo {
namespace {

// FlatBuffers end below 2 GiB. What is not tensor data (names, dims, offsets) stays far below this
// per tensor.
constexpr std::uint64_t kMostBytes = std::numeric_limits<std::int32_t>::max();
constexpr std::uint64_t kTensorOverhead = 4096;

class Writer {
 public:
  StatusOr<std::span<const std::byte>> run(const OrtCheckpoint& checkpoint) {
    const auto trained = tensors(checkpoint.trained);
    const auto frozen = tensors(checkpoint.frozen);
    const auto module = ort::CreateModuleState(builder_, trained, frozen);
    std::vector<flatbuffers::Offset<ort::OptimizerGroup>> groups;
    for (const OrtOptimizerGroup& group : checkpoint.groups) groups.push_back(group_of(group));
    const auto group_list = builder_.CreateVector(groups);
    const auto bag = checkpoint.properties.empty() ? flatbuffers::Offset<ort::PropertyBag>()
                                                   : properties(checkpoint);
    builder_.Finish(ort::CreateCheckpoint(builder_, checkpoint.version, module, group_list, bag),
                    ort::CheckpointIdentifier());
    MEZZO_RETURN_IF_ERROR(status_);
    return std::as_bytes(std::span(builder_.GetBufferPointer(), builder_.GetSize()));
  }

 private:
  using TensorOffset = flatbuffers::Offset<ort::Tensor>;

  flatbuffers::Offset<flatbuffers::Vector<TensorOffset>> tensors(
      const std::vector<CheckpointTensor>& list) {
    std::vector<TensorOffset> offsets;
    for (const CheckpointTensor& named : list) {
      const Tensor& tensor = *named.tensor;
      const auto name = builder_.CreateString(named.name);
      const auto dims = builder_.CreateVector(tensor.dims());
      // Sixteen bytes suit every element type.
      builder_.ForceVectorAlignment(tensor.byte_size(), 1, 16);
      std::uint8_t* to = nullptr;
      const auto data = builder_.CreateUninitializedVector(tensor.byte_size(), 1, &to);
      std::size_t done = 0;
      Status copied = tensor.stream([&](std::span<const std::byte> piece) {
        std::copy(piece.begin(), piece.end(), reinterpret_cast<std::byte*>(to) + done);
        done += piece.size();
        return ok_status();
      });
      if (!copied.ok() && status_.ok()) status_ = std::move(copied);
      offsets.push_back(
          ort::CreateTensor(builder_, name, 0, dims, static_cast<std::int32_t>(tensor.dtype()),
                            flatbuffers::Offset<flatbuffers::Vector<std::uint8_t>>(data)));
    }
    return builder_.CreateVector(offsets);
  }

  flatbuffers::Offset<ort::OptimizerGroup> group_of(const OrtOptimizerGroup& group) {
    std::vector<flatbuffers::Offset<ort::ParameterOptimizerState>> states;
    for (const OrtParameterState& state : group.parameters) {
      const auto name = builder_.CreateString(state.parameter);
      states.push_back(
          ort::CreateParameterOptimizerState(builder_, name, tensors(state.momentums)));
    }
    const auto name = builder_.CreateString(group.name);
    const auto list = builder_.CreateVector(states);
    return ort::CreateOptimizerGroup(builder_, name, group.step, group.initial_lr, list);
  }

  flatbuffers::Offset<ort::PropertyBag> properties(const OrtCheckpoint& checkpoint) {
    std::vector<flatbuffers::Offset<ort::IntProperty>> ints;
    std::vector<flatbuffers::Offset<ort::FloatProperty>> floats;
    std::vector<flatbuffers::Offset<ort::StringProperty>> strings;
    for (const auto& [name, value] : checkpoint.properties) {
      const auto key = builder_.CreateString(name);
      if (const auto* number = std::get_if<std::int64_t>(&value)) {
        ints.push_back(ort::CreateIntProperty(builder_, key, *number));
      } else if (const auto* real = std::get_if<float>(&value)) {
        floats.push_back(ort::CreateFloatProperty(builder_, key, *real));
      } else {
        const auto words = builder_.CreateString(std::get<std::string>(value));
        strings.push_back(ort::CreateStringProperty(builder_, key, words));
      }
    }
    return ort::CreatePropertyBag(builder_, builder_.CreateVector(ints),
                                  builder_.CreateVector(floats), builder_.CreateVector(strings));
  }

  Status status_;  // of reading tensors
  flatbuffers::FlatBufferBuilder builder_{std::size_t{1} << 20};
};

std::uint64_t estimated_bytes(const OrtCheckpoint& checkpoint) {
  std::uint64_t bytes = kTensorOverhead;
  const auto add = [&](const std::vector<CheckpointTensor>& list) {
    for (const CheckpointTensor& named : list)
      bytes += named.tensor->byte_size() + named.name.size() + kTensorOverhead;
  };
  add(checkpoint.trained);
  add(checkpoint.frozen);
  for (const OrtOptimizerGroup& group : checkpoint.groups) {
    for (const OrtParameterState& state : group.parameters) add(state.momentums);
  }
  for (const auto& [name, value] : checkpoint.properties) {
    const auto* words = std::get_if<std::string>(&value);
    bytes += name.size() + (words == nullptr ? 0 : words->size()) + 64;
  }
  return bytes;
}

}  // namespace

Status save_ort_checkpoint(const OrtCheckpoint& checkpoint, const std::string& path) {
  if (const std::uint64_t bytes = estimated_bytes(checkpoint); bytes >= kMostBytes) {
    return invalid_argument(printable(path) +
                            ": a checkpoint in this format holds at most 2 GiB, " +
                            "this one has " + format_bytes(bytes));
  }
  MEZZO_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path));
  Writer writer;
  MEZZO_ASSIGN_OR_RETURN(const std::span<const std::byte> bytes, writer.run(checkpoint));
  MEZZO_RETURN_IF_ERROR(file.write(bytes));
  return file.commit();
}

}  // namespace mezzo
