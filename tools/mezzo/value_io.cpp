#include "tools/mezzo/value_io.h"

#include <cstring>
#include <filesystem>

#include "compiler/onnx/value_file.h"
#include "compiler/support/text.h"
#include "runtime/train/element_cast.h"

namespace mezzo::cli {
namespace {

namespace fs = std::filesystem;

Status wrong_type(const std::string& where, const Type& type, DType dtype,
                  const std::vector<std::int64_t>& dims) {
  return invalid_argument(where + ": expected " + to_string(type) + ", got " +
                          to_string(TensorType::of(dtype, dims)));
}

// The elements as `want`, in memory of the pool.
StatusOr<RuntimeValue> make_tensor(BufferPool& pool, const std::string& where, const Type& type,
                                   DType dtype, const std::vector<std::int64_t>& dims,
                                   std::span<const std::byte> bytes) {
  const DType want = type.dtype() == DType::kNone ? dtype : type.dtype();
  HostTensor tensor{want, dims, nullptr};
  MEZZO_ASSIGN_OR_RETURN(const std::shared_ptr<std::byte> data, pool.allocate(tensor.bytes()));
  if (want == dtype) {
    if (!bytes.empty()) std::memcpy(data.get(), bytes.data(), bytes.size());
  } else {
    const runtime::CastFunction cast = runtime::element_cast(dtype, want);
    if (cast == nullptr) return wrong_type(where, type, dtype, dims);
    cast(bytes.data(), data.get(), tensor.elems());
  }
  tensor.data = data;
  return RuntimeValue(std::move(tensor));
}

// The type of an optional's or a sequence's elements.
Type element_of(const Type& type) { return type.element == nullptr ? Type() : *type.element; }

StatusOr<RuntimeValue> from_stored(BufferPool& pool, const std::string& where, const Type& type,
                                   const StoredValue& stored) {
  switch (stored.kind) {
    case StoredValue::Kind::kNone: return RuntimeValue();
    case StoredValue::Kind::kTensor: {
      const Type tensor_type = type.kind == Type::Kind::kOptional ? element_of(type) : type;
      const Tensor& tensor = *stored.tensor;
      if (tensor.strings() != nullptr) return unimplemented(where + ": strings cannot be executed");
      MEZZO_RETURN_IF_ERROR(check_dims(where, tensor_type, tensor.dtype(), tensor.dims()));
      const std::vector<std::byte> bytes = tensor.copy_bytes();
      return make_tensor(pool, where, tensor_type, tensor.dtype(), tensor.dims(), bytes);
    }
    case StoredValue::Kind::kSequence: {
      std::vector<RuntimeValue> elements;
      const Type sequence = type.kind == Type::Kind::kOptional ? element_of(type) : type;
      for (const StoredValue& element : stored.elements) {
        MEZZO_ASSIGN_OR_RETURN(RuntimeValue value,
                               from_stored(pool, where, element_of(sequence), element));
        elements.push_back(std::move(value));
      }
      return RuntimeValue::sequence(std::move(elements));
    }
  }
  return internal_error("a stored value of no kind");
}

StoredValue to_stored(const RuntimeValue& value) {
  StoredValue stored;
  if (value.is_tensor()) {
    const std::byte* data = value.tensor.data.get();
    stored.kind = StoredValue::Kind::kTensor;
    stored.tensor = Tensor::from_bytes(value.tensor.dtype, value.tensor.dims,
                                       {data, data + value.tensor.bytes()});
  } else if (value.is_sequence()) {
    stored.kind = StoredValue::Kind::kSequence;
    for (const RuntimeValue& element : value.elements)
      stored.elements.push_back(to_stored(element));
  }
  return stored;
}

Status write_archive(const std::string& path, const std::vector<GraphPort>& ports,
                     const std::vector<RuntimeValue>& values) {
  MEZZO_ASSIGN_OR_RETURN(runtime::NpzWriter writer, runtime::NpzWriter::create(path));
  for (std::size_t i = 0; i < ports.size(); ++i) {
    if (!values[i].is_tensor()) {
      return invalid_argument(path + ": output '" + printable(ports[i].name) + "' is " +
                              describe(values[i]) +
                              ", which npz cannot hold. Hint: give --output a folder");
    }
    const HostTensor& tensor = values[i].tensor;
    MEZZO_RETURN_IF_ERROR(
        writer.add(ports[i].name, tensor.dtype, tensor.dims, {tensor.data.get(), tensor.bytes()}));
  }
  return writer.commit();
}

}  // namespace

Status check_dims(const std::string& where, const Type& type, DType dtype,
                  const std::vector<std::int64_t>& dims) {
  if (!type.is_tensor() || !type.tensor.shape) return ok_status();
  const std::vector<Dim>& declared = *type.tensor.shape;
  bool fits = declared.size() == dims.size();
  for (std::size_t d = 0; fits && d < dims.size(); ++d)
    fits = !declared[d].known() || declared[d].value == dims[d];
  return fits ? ok_status() : wrong_type(where, type, dtype, dims);
}

StatusOr<InputFiles> InputFiles::open(const std::string& path) {
  InputFiles files;
  files.path_ = path;
  std::error_code error;
  if (fs::is_directory(path, error)) return files;
  MEZZO_ASSIGN_OR_RETURN(runtime::NpzFile npz, runtime::NpzFile::open(path));
  files.npz_.emplace(std::move(npz));
  return files;
}

StatusOr<std::vector<RuntimeValue>> InputFiles::read(const std::vector<GraphPort>& ports) const {
  std::vector<RuntimeValue> values;
  for (std::size_t i = 0; i < ports.size(); ++i) {
    MEZZO_ASSIGN_OR_RETURN(RuntimeValue value,
                           npz_ ? read_array(ports[i]) : read_message(ports[i], i));
    values.push_back(std::move(value));
  }
  return values;
}

StatusOr<RuntimeValue> InputFiles::read_array(const GraphPort& port) const {
  if (port.has_default && npz_->find(port.name) == nullptr) return RuntimeValue();
  if (port.type.kind == Type::Kind::kOptional && npz_->find(port.name) == nullptr)
    return RuntimeValue();
  MEZZO_ASSIGN_OR_RETURN(const runtime::ArrayInfo* const info, npz_->get(port.name));
  const std::string where = path_ + ": array '" + printable(port.name) + "'";
  const Type type = port.type.kind == Type::Kind::kOptional ? element_of(port.type) : port.type;
  if (type.kind == Type::Kind::kSequence) {
    return invalid_argument(where + ": expected " + to_string(type) +
                            ", which npz cannot hold. Hint: give a folder of input_K.pb files");
  }
  MEZZO_RETURN_IF_ERROR(check_dims(where, type, info->dtype, info->shape));
  MEZZO_ASSIGN_OR_RETURN(const runtime::ArrayData data,
                         npz_->read(port.name, runtime::Alignment::kAny));
  return make_tensor(*pool_, where, type, info->dtype, info->shape, data.bytes);
}

StatusOr<RuntimeValue> InputFiles::read_message(const GraphPort& port, std::size_t index) const {
  const fs::path file = fs::path(path_) / ("input_" + std::to_string(index) + ".pb");
  std::error_code error;
  if (!fs::exists(file, error)) {
    if (port.has_default) return RuntimeValue();
    return invalid_argument(path_ + ": there is no " + file.filename().string() + " for input '" +
                            printable(port.name) + "' (" + to_string(port.type) + ")");
  }
  MEZZO_ASSIGN_OR_RETURN(const StoredValue stored, read_value_file(file.string(), port.type));
  return from_stored(*pool_, file.string() + ": input '" + printable(port.name) + "'", port.type,
                     stored);
}

Status write_outputs(const std::string& path, const std::vector<GraphPort>& ports,
                     const std::vector<RuntimeValue>& values) {
  if (path.ends_with(".npz")) return write_archive(path, ports, values);
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return invalid_argument(path + ": " + error.message());
  for (std::size_t i = 0; i < ports.size(); ++i) {
    const fs::path file = fs::path(path) / ("output_" + std::to_string(i) + ".pb");
    MEZZO_RETURN_IF_ERROR(write_value_file(file.string(), to_stored(values[i]), ports[i].type));
  }
  return ok_status();
}

}  // namespace mezzo::cli
