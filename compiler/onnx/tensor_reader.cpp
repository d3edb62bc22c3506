#include "compiler/onnx/tensor_reader.h"

#include <charconv>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "compiler/onnx/proto_types.h"
#include "compiler/onnx/tensor_codec.h"
#include "compiler/support/text.h"

namespace mezzo {

struct TensorReader::Header {
  DType dtype = DType::kNone;
  std::vector<std::int64_t> dims;
  std::int64_t elems = 0;
  std::uint64_t bytes = 0;

  // "float[2,3]", for messages.
  std::string text() const { return std::string(dtype_name(dtype)) + format_dims(dims); }

  Status check_bytes(std::uint64_t got, std::string_view where) const {
    if (got == bytes) return ok_status();
    return invalid_argument(text() + " in " + std::string(where) + ": expected " +
                            std::to_string(bytes) + " bytes, got " + std::to_string(got));
  }
};

namespace {

namespace fs = std::filesystem;

// A value of external_data: a decimal number without sign.
StatusOr<std::uint64_t> parse_number(std::string_view key, std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) {
    return invalid_argument("external data: expected a number as " + std::string(key) + ", got '" +
                            printable(text) + "'");
  }
  return value;
}

bool is_inside(const fs::path& path, const fs::path& folder) {
  const auto relative = path.lexically_relative(folder);
  return !relative.empty() && *relative.begin() != ".." && *relative.begin() != ".";
}

struct ExternalEntry {
  std::string location;
  std::uint64_t offset = 0;
  std::optional<std::uint64_t> length;
  std::optional<std::uint64_t> elided;  // number of the tensor in the list of elided ones
};

StatusOr<ExternalEntry> parse_external(const onnx::TensorProto& proto) {
  ExternalEntry entry;
  const std::string* elided = nullptr;
  for (const auto& pair : proto.external_data()) {
    if (pair.key() == "location") {
      entry.location = pair.value();
    } else if (pair.key() == "offset") {
      MEZZO_ASSIGN_OR_RETURN(entry.offset, parse_number("offset", pair.value()));
    } else if (pair.key() == "length") {
      MEZZO_ASSIGN_OR_RETURN(entry.length, parse_number("length", pair.value()));
    } else if (pair.key() == kElidedLocation) {
      elided = &pair.value();
    }
  }
  // Beside another location the key is the file's own, and means nothing to us.
  if (entry.location == kElidedLocation && elided != nullptr) {
    MEZZO_ASSIGN_OR_RETURN(entry.elided, parse_number(kElidedLocation, *elided));
  }
  if (entry.location.empty()) {
    return invalid_argument("external data: expected a location, got none");
  }
  return entry;
}

Tensor::Origin read_origin(const onnx::TensorProto& proto) {
  Tensor::Origin origin;
  origin.doc_string = proto.doc_string();
  origin.metadata = pairs_from_proto(proto.metadata_props());
  origin.external_data = pairs_from_proto(proto.external_data());
  origin.has_segment = proto.has_segment();
  origin.segment_begin = proto.segment().begin();
  origin.segment_end = proto.segment().end();
  return origin;
}

}  // namespace

StatusOr<std::shared_ptr<const MappedFile>> ExternalFiles::open(const std::string& location) {
  if (const auto known = by_location_.find(location); known != by_location_.end()) {
    return known->second;
  }
  const std::string shown = "external data file '" + printable(location) + "': ";
  if (folder_.empty()) {
    return invalid_argument(shown + "expected data inside the model, as it is not from a file");
  }
  const fs::path relative(location);
  if (relative.is_absolute() || location.find('\0') != std::string::npos) {
    return invalid_argument(shown + "expected a path relative to the model's folder");
  }
  for (const fs::path& part : relative) {
    if (part == "..") {
      return invalid_argument(shown + "expected a path inside the model's folder, got '..'");
    }
  }
  std::error_code error;
  const fs::path folder = fs::canonical(folder_, error);
  const fs::path path = error ? fs::path{} : fs::canonical(folder / relative, error);
  if (error) return invalid_argument(shown + error.message());
  if (!is_inside(path, folder)) {
    return invalid_argument(shown +
                            "expected a file inside the model's folder, got a link that leaves it. "
                            "Hint: copy the file beside the model");
  }
  auto& file = by_path_[path.string()];
  if (!file) {
    auto opened =
        MappedFile::open_inside(folder.string(), path.lexically_relative(folder).string());
    if (!opened.ok()) {
      by_path_.erase(path.string());
      return opened.status().with_context("external data");
    }
    file = std::move(opened).value();
  }
  by_location_[location] = file;
  return file;
}

std::vector<std::string> ExternalFiles::paths() const {
  std::vector<std::string> paths;
  for (const auto& [path, file] : by_path_) paths.push_back(path);
  return paths;
}

StatusOr<Tensor::Storage> TensorReader::read_raw(const onnx::TensorProto& proto,
                                                 const Header& header) {
  if (has_typed_data(proto)) {
    return invalid_argument("expected data in one field, got raw_data and a typed field");
  }
  if (!file_) {
    MEZZO_RETURN_IF_ERROR(header.check_bytes(proto.raw_data().size(), "raw_data"));
    const auto bytes = std::as_bytes(std::span(proto.raw_data()));
    return Tensor::Storage(std::vector<std::byte>(bytes.begin(), bytes.end()));
  }
  const auto payload = decode_marker(proto.raw_data());
  if (!payload || *payload >= payloads_.size()) {
    return internal_error("a raw_data field holds no marker");
  }
  const ByteRange range = payloads_[*payload];
  MEZZO_RETURN_IF_ERROR(header.check_bytes(range.bytes, "raw_data"));
  return Tensor::Storage(Tensor::FileSlice{file_, range.offset, range.bytes});
}

StatusOr<Tensor::Storage> TensorReader::read_external(const onnx::TensorProto& proto,
                                                      const Header& header) {
  if (proto.has_raw_data() || has_typed_data(proto)) {
    return invalid_argument("expected data in one place, got external data and data in the model");
  }
  MEZZO_ASSIGN_OR_RETURN(const ExternalEntry entry, parse_external(proto));
  if (entry.elided) {
    return invalid_argument(
        "expected data, got a tensor whose data were left out of a dump. Hint: dumps show a graph, "
        "use the model or a reproducer");
  }
  MEZZO_ASSIGN_OR_RETURN(const auto file, external_.open(entry.location));
  const std::uint64_t length = entry.length.value_or(header.bytes);
  MEZZO_RETURN_IF_ERROR(header.check_bytes(length, "external data"));
  MEZZO_ASSIGN_OR_RETURN(const auto bytes, file->slice(entry.offset, length));
  return Tensor::Storage(Tensor::FileSlice{file, entry.offset, bytes.size()});
}

StatusOr<Tensor::Storage> TensorReader::read_typed(const onnx::TensorProto& proto,
                                                   const Header& header) {
  if (header.dtype == DType::kString) {
    MEZZO_RETURN_IF_ERROR(decode_typed(proto, header.dtype, header.elems).status());
    return Tensor::Storage(
        std::vector<std::string>(proto.string_data().begin(), proto.string_data().end()));
  }
  MEZZO_ASSIGN_OR_RETURN(auto bytes, decode_typed(proto, header.dtype, header.elems));
  return Tensor::Storage(std::move(bytes));
}

Status TensorReader::read_header(const onnx::TensorProto& proto, Header& header) {
  MEZZO_ASSIGN_OR_RETURN(header.dtype, dtype_from_proto(proto.data_type()));
  if (header.dtype == DType::kNone) return invalid_argument("expected a data_type, got none");
  if (dtype_bits(header.dtype) == 0 && header.dtype != DType::kString) {
    return unimplemented("constants of element type " + std::to_string(proto.data_type()) +
                         ": expected one of ONNX's TensorProto.DataType (1 to " +
                         std::to_string(kDTypeCount - 1) + ")");
  }
  header.dims.assign(proto.dims().begin(), proto.dims().end());
  MEZZO_ASSIGN_OR_RETURN(header.elems, count_elems(header.dims));
  MEZZO_ASSIGN_OR_RETURN(header.bytes, count_bytes(header.dtype, header.elems));
  return ok_status();
}

StatusOr<TensorRef> TensorReader::read(const onnx::TensorProto& proto) {
  Header header;
  MEZZO_RETURN_IF_ERROR(read_header(proto, header));
  const bool external = proto.data_location() == onnx::TensorProto::EXTERNAL;
  if (external && !elided_.empty()) {
    MEZZO_ASSIGN_OR_RETURN(const ExternalEntry entry, parse_external(proto));
    if (entry.elided && *entry.elided < elided_.size()) return elided_[*entry.elided];
  }
  Tensor::Origin origin = read_origin(proto);
  Tensor::Storage storage = std::vector<std::byte>{};
  if (external) {
    origin.field = Tensor::Field::kExternal;
    MEZZO_ASSIGN_OR_RETURN(storage, read_external(proto, header));
  } else if (proto.has_raw_data()) {
    if (header.dtype == DType::kString) {
      return invalid_argument("expected strings in string_data, got raw_data");
    }
    MEZZO_ASSIGN_OR_RETURN(storage, read_raw(proto, header));
  } else {
    origin.field = Tensor::Field::kTyped;
    MEZZO_ASSIGN_OR_RETURN(storage, read_typed(proto, header));
  }
  return TensorRef(std::make_shared<const Tensor>(header.dtype, std::move(header.dims),
                                                  std::move(storage), std::move(origin)));
}

}  // namespace mezzo
