// FlatBuffers' Verifier proves that offsets, lengths and alignment lie within the file; what the
// numbers mean is checked here: sizes against shapes, names given once, positions in the data file.

#include "compiler/artifacts/ort_checkpoint.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <limits>
#include <optional>
#include <set>

#include "compiler/artifacts/ort_checkpoint_generated.h"
#include "compiler/support/mapped_file.h"
#include "compiler/support/quotes.h"
#include "compiler/support/text.h"
#include "flatbuffers/flatbuffers.h"

namespace mezzo {
namespace {

constexpr std::int32_t kNewestVersion = 2;
constexpr std::int64_t kMostSteps = 1'000'000'000'000'000;  // counting on does not overflow
constexpr std::size_t kMostBytes = std::numeric_limits<std::int32_t>::max();  // FlatBuffers' limit

using Strings = flatbuffers::String;

std::string text(const Strings* string) { return string == nullptr ? "" : string->str(); }

// Bytes of a tensor of these dims; nothing where they are negative or overflow.
std::optional<std::size_t> byte_count(DType dtype, const std::vector<std::int64_t>& dims) {
  constexpr std::int64_t kMostElems = std::numeric_limits<std::int64_t>::max() / 64;
  std::int64_t elems = 1;
  bool empty = false;
  for (const std::int64_t dim : dims) {
    if (dim < 0) return std::nullopt;
    empty = empty || dim == 0;
    if (dim > 0 && elems > kMostElems / dim) return std::nullopt;
    elems *= std::max<std::int64_t>(dim, 1);
  }
  return dtype_bytes(dtype, empty ? 0 : elems);
}

class Reader {
 public:
  Reader(std::string path, std::shared_ptr<const MappedFile> file)
      : path_(std::move(path)), file_(std::move(file)) {}

  StatusOr<OrtCheckpoint> run() {
    const std::span<const std::byte> bytes = file_->bytes();
    if (bytes.size() < 8 || !flatbuffers::BufferHasIdentifier(bytes.data(), "ODTC")) {
      return invalid_argument(
          "not a checkpoint of ONNX Runtime's training artifacts: expected the mark ODTC at byte "
          "4");
    }
    if (bytes.size() > kMostBytes) {
      return invalid_argument("expected at most 2 GiB, got " + format_bytes(bytes.size()));
    }
    const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data());
    flatbuffers::Verifier verifier(data, bytes.size());
    if (!ort::VerifyCheckpointBuffer(verifier)) {
      return invalid_argument("damaged or truncated: its offsets lead out of its " +
                              std::to_string(bytes.size()) + " bytes");
    }
    const ort::Checkpoint& root = *ort::GetCheckpoint(data);
    OrtCheckpoint checkpoint;
    checkpoint.version = root.version();
    if (root.version() < 1 || root.version() > kNewestVersion) {
      return unimplemented("version " + std::to_string(root.version()) +
                           " of the format; versions 1 and 2 are read");
    }
    if (const ort::ModuleState* module = root.module_state()) {
      MEZZO_RETURN_IF_ERROR(read_module(*module, checkpoint));
    }
    if (const auto* groups = root.optimizer_groups()) {
      for (const ort::OptimizerGroup* group : *groups)
        MEZZO_RETURN_IF_ERROR(read_group(*group, checkpoint));
    }
    if (root.property_bag() != nullptr) read_properties(*root.property_bag(), checkpoint);
    return checkpoint;
  }

 private:
  using Tensors = flatbuffers::Vector<flatbuffers::Offset<ort::Tensor>>;

  Status read_module(const ort::ModuleState& module, OrtCheckpoint& checkpoint) {
    if (module.is_nominal_state()) {
      return unimplemented(
          "it holds names without data (a nominal checkpoint). Hint: give the full one");
    }
    MEZZO_RETURN_IF_ERROR(
        read_tensors(module.requires_grad_params(), "parameter", checkpoint.trained));
    MEZZO_RETURN_IF_ERROR(
        read_tensors(module.frozen_params(), "frozen parameter", checkpoint.frozen));
    std::set<std::string> names;
    for (const auto* list : {&checkpoint.trained, &checkpoint.frozen}) {
      for (const CheckpointTensor& tensor : *list) {
        if (!names.insert(tensor.name).second)
          return invalid_argument("parameter " + in_quotes(tensor.name) + " is there twice");
      }
    }
    return ok_status();
  }

  Status read_tensors(const Tensors* tensors, const std::string& what,
                      std::vector<CheckpointTensor>& list) {
    if (tensors == nullptr) return ok_status();
    list.reserve(tensors->size());
    for (const ort::Tensor* tensor : *tensors) {
      std::string name = text(tensor->name());
      if (name.empty()) return invalid_argument("a " + what + " has no name");
      auto data = read_tensor(*tensor);
      if (!data.ok()) return data.status().with_context(what + " " + in_quotes(name));
      list.push_back({std::move(name), *std::move(data)});
    }
    return ok_status();
  }

  StatusOr<TensorRef> read_tensor(const ort::Tensor& tensor) {
    const std::int32_t type = tensor.data_type();
    if (type <= 0 || type >= kDTypeCount || dtype_bits(static_cast<DType>(type)) == 0)
      return unimplemented("element type " + std::to_string(type));
    const auto dtype = static_cast<DType>(type);
    std::vector<std::int64_t> dims(tensor.dims() == nullptr ? 0 : tensor.dims()->size());
    // The Verifier lets numbers of a list lie at any address.
    if (!dims.empty())
      std::memcpy(dims.data(), tensor.dims()->Data(), dims.size() * sizeof(dims[0]));
    const auto bytes = byte_count(dtype, dims);
    if (!bytes) return invalid_argument("impossible shape " + format_dims(dims));
    const std::string shape = std::string(dtype_name(dtype)) + format_dims(dims);
    if (tensor.external_data_offset() >= 0) {
      MEZZO_ASSIGN_OR_RETURN(const auto data, data_file());
      const auto offset = static_cast<std::uint64_t>(tensor.external_data_offset());
      MEZZO_RETURN_IF_ERROR(data->slice(offset, *bytes).status());
      return TensorRef(std::make_shared<Tensor>(dtype, std::move(dims),
                                                Tensor::FileSlice{data, offset, *bytes}));
    }
    const std::size_t got = tensor.raw_data() == nullptr ? 0 : tensor.raw_data()->size();
    if (got != *bytes) {
      return invalid_argument("expected the " + std::to_string(*bytes) + " bytes of " + shape +
                              ", got " + std::to_string(got));
    }
    const auto* start = reinterpret_cast<const std::byte*>(file_->bytes().data());
    const std::size_t offset =
        got == 0 ? 0
                 : static_cast<std::size_t>(
                       reinterpret_cast<const std::byte*>(tensor.raw_data()->data()) - start);
    return TensorRef(
        std::make_shared<Tensor>(dtype, std::move(dims), Tensor::FileSlice{file_, offset, got}));
  }

  StatusOr<std::shared_ptr<const MappedFile>> data_file() {
    if (!data_file_) {
      MEZZO_ASSIGN_OR_RETURN(data_file_, MappedFile::open(path_ + ".data"));
    }
    return data_file_;
  }

  Status read_group(const ort::OptimizerGroup& group, OrtCheckpoint& checkpoint) {
    OrtOptimizerGroup result;
    result.name = text(group.group_name());
    result.step = group.step();
    result.initial_lr = group.initial_learning_rate();
    const std::string where = "optimizer group " + in_quotes(result.name);
    if (result.step < 0 || result.step > kMostSteps) {
      return invalid_argument(where + ": expected a step from 0 to " + std::to_string(kMostSteps) +
                              ", got " + std::to_string(result.step));
    }
    if (const auto* states = group.optimizer_states()) {
      for (const ort::ParameterOptimizerState* state : *states) {
        OrtParameterState parameter;
        parameter.parameter = text(state->param_name());
        MEZZO_RETURN_IF_ERROR(
            read_tensors(state->momentums(), "state", parameter.momentums)
                .with_context(where + ", parameter " + in_quotes(parameter.parameter)));
        std::sort(
            parameter.momentums.begin(), parameter.momentums.end(),
            [](const CheckpointTensor& a, const CheckpointTensor& b) { return a.name < b.name; });
        result.parameters.push_back(std::move(parameter));
      }
    }
    checkpoint.groups.push_back(std::move(result));
    return ok_status();
  }

  static void read_properties(const ort::PropertyBag& bag, OrtCheckpoint& checkpoint) {
    const auto add = [&](const auto* list, const auto& value_of) {
      if (list == nullptr) return;
      for (const auto* property : *list)
        checkpoint.properties.emplace_back(text(property->name()), value_of(*property));
    };
    add(bag.ints(), [](const ort::IntProperty& p) -> std::int64_t { return p.value(); });
    add(bag.floats(), [](const ort::FloatProperty& p) -> float { return p.value(); });
    add(bag.strings(), [](const ort::StringProperty& p) { return text(p.value()); });
  }

  std::string path_;
  std::shared_ptr<const MappedFile> file_, data_file_;
};

}  // namespace

const CheckpointTensor* OrtCheckpoint::find(const std::string& name) const {
  for (const auto* list : {&trained, &frozen}) {
    for (const CheckpointTensor& tensor : *list) {
      if (tensor.name == name) return &tensor;
    }
  }
  return nullptr;
}

StatusOr<OrtCheckpoint> load_ort_checkpoint(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return invalid_argument(
        printable(path) +
        ": a folder; checkpoints are files since ONNX Runtime 1.15. Hint: save it again with a "
        "newer version");
  }
  MEZZO_ASSIGN_OR_RETURN(auto file, MappedFile::open(path));
  auto checkpoint = Reader(path, std::move(file)).run();
  if (!checkpoint.ok()) return checkpoint.status().with_context(printable(path));
  return checkpoint;
}

}  // namespace mezzo
