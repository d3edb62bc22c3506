#include "compiler/onnx/value_file.h"

#include <filesystem>

#include "compiler/onnx/proto_builder.h"
#include "compiler/onnx/tensor_reader.h"
#include "compiler/support/atomic_file.h"
#include "compiler/support/mapped_file.h"
#include "onnx/onnx-data.pb.h"

namespace mezzo {
namespace {

using Kind = StoredValue::Kind;

// Optionals and sequences may hold each other; a file that nests more is no value but a trap.
constexpr int kMostDepth = 16;

class Reader {
 public:
  explicit Reader(const std::string& path) : tensors_(std::filesystem::path(path).parent_path()) {}

  StatusOr<StoredValue> read(const onnx::TensorProto& proto) {
    MEZZO_ASSIGN_OR_RETURN(TensorRef tensor, tensors_.read(proto));
    return StoredValue{Kind::kTensor, std::move(tensor), {}};
  }

  StatusOr<StoredValue> read(const onnx::SequenceProto& proto, int depth = 0) {
    if (depth > kMostDepth) return too_deep();
    StoredValue value;
    value.kind = Kind::kSequence;
    for (const auto& tensor : proto.tensor_values()) {
      MEZZO_ASSIGN_OR_RETURN(StoredValue element, read(tensor));
      value.elements.push_back(std::move(element));
    }
    for (const auto& sequence : proto.sequence_values()) {
      MEZZO_ASSIGN_OR_RETURN(StoredValue element, read(sequence, depth + 1));
      value.elements.push_back(std::move(element));
    }
    for (const auto& optional : proto.optional_values()) {
      MEZZO_ASSIGN_OR_RETURN(StoredValue element, read(optional, depth + 1));
      value.elements.push_back(std::move(element));
    }
    if (proto.sparse_tensor_values_size() + proto.map_values_size() > 0)
      return unimplemented("sequences of maps or sparse tensors cannot be read");
    return value;
  }

  StatusOr<StoredValue> read(const onnx::OptionalProto& proto, int depth = 0) {
    if (depth > kMostDepth) return too_deep();
    if (proto.has_tensor_value()) return read(proto.tensor_value());
    if (proto.has_sequence_value()) return read(proto.sequence_value(), depth + 1);
    if (proto.has_optional_value()) return read(proto.optional_value(), depth + 1);
    if (proto.has_sparse_tensor_value() || proto.has_map_value())
      return unimplemented("optional maps and sparse tensors cannot be read");
    return StoredValue();
  }

 private:
  static Status too_deep() { return invalid_argument("values are nested too deeply"); }

  TensorReader tensors_;
};

template <typename Proto>
StatusOr<StoredValue> parse(const std::string& path, std::span<const std::byte> bytes) {
  Proto proto;
  if (bytes.size() > static_cast<std::size_t>(INT32_MAX) ||
      !proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return invalid_argument(std::string("expected a ") + Proto::descriptor()->name().c_str() +
                            " of ONNX");
  }
  return Reader(path).read(proto);
}

Status fill(const StoredValue& value, onnx::TensorProto& proto) {
  if (value.tensor == nullptr) return internal_error("a tensor is missing");
  proto.set_data_type(static_cast<int>(value.tensor->dtype()));
  for (const std::int64_t dim : value.tensor->dims()) proto.add_dims(dim);
  return store_embedded(value.tensor, proto);
}

Status fill(const StoredValue& value, onnx::SequenceProto& proto) {
  proto.set_elem_type(onnx::SequenceProto::TENSOR);
  for (const StoredValue& element : value.elements) {
    if (element.kind == Kind::kTensor) {
      MEZZO_RETURN_IF_ERROR(fill(element, *proto.add_tensor_values()));
    } else if (element.kind == Kind::kSequence) {
      proto.set_elem_type(onnx::SequenceProto::SEQUENCE);
      MEZZO_RETURN_IF_ERROR(fill(element, *proto.add_sequence_values()));
    }
  }
  return ok_status();
}

Status fill(const StoredValue& value, onnx::OptionalProto& proto) {
  if (value.kind == Kind::kTensor) {
    proto.set_elem_type(onnx::OptionalProto::TENSOR);
    return fill(value, *proto.mutable_tensor_value());
  }
  if (value.kind == Kind::kSequence) {
    proto.set_elem_type(onnx::OptionalProto::SEQUENCE);
    return fill(value, *proto.mutable_sequence_value());
  }
  return ok_status();
}

template <typename Proto>
StatusOr<std::string> serialize(const StoredValue& value) {
  Proto proto;
  MEZZO_RETURN_IF_ERROR(fill(value, proto));
  std::string bytes;
  if (!proto.SerializeToString(&bytes))
    return invalid_argument("the value is too large for one message of 2 GiB");
  return bytes;
}

}  // namespace

StatusOr<StoredValue> read_value_file(const std::string& path, const Type& type) {
  MEZZO_ASSIGN_OR_RETURN(const auto file, MappedFile::open(path));
  StatusOr<StoredValue> value = StoredValue();
  switch (type.kind) {
    case Type::Kind::kSequence: value = parse<onnx::SequenceProto>(path, file->bytes()); break;
    case Type::Kind::kOptional: value = parse<onnx::OptionalProto>(path, file->bytes()); break;
    default: value = parse<onnx::TensorProto>(path, file->bytes()); break;
  }
  if (!value.ok()) return value.status().with_context(path);
  return value;
}

Status write_value_file(const std::string& path, const StoredValue& value, const Type& type) {
  StatusOr<std::string> bytes = std::string();
  if (type.kind == Type::Kind::kOptional) {
    bytes = serialize<onnx::OptionalProto>(value);
  } else if (value.kind == Kind::kSequence) {
    bytes = serialize<onnx::SequenceProto>(value);
  } else {
    bytes = serialize<onnx::TensorProto>(value);
  }
  if (!bytes.ok()) return bytes.status().with_context(path);
  return write_file(path, *bytes);
}

}  // namespace mezzo
