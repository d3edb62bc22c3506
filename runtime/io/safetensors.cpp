#include "runtime/io/safetensors.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "compiler/support/json_util.h"
#include "compiler/support/text.h"
#include "runtime/io/little_endian.h"

namespace mezzo::runtime {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
constexpr std::size_t kDataAlignment = 64;
constexpr std::string_view kMetadata = "__metadata__";

struct TypeName {
  std::string_view name;
  DType dtype;
};
constexpr std::array<TypeName, 18> kTypeNames = {{{"F32", DType::kFloat32},
                                                  {"F16", DType::kFloat16},
                                                  {"BF16", DType::kBFloat16},
                                                  {"F64", DType::kFloat64},
                                                  {"I64", DType::kInt64},
                                                  {"I32", DType::kInt32},
                                                  {"I16", DType::kInt16},
                                                  {"I8", DType::kInt8},
                                                  {"U64", DType::kUInt64},
                                                  {"U32", DType::kUInt32},
                                                  {"U16", DType::kUInt16},
                                                  {"U8", DType::kUInt8},
                                                  {"BOOL", DType::kBool},
                                                  {"C64", DType::kComplex64},
                                                  {"F8_E4M3", DType::kFloat8E4M3FN},
                                                  {"F8_E5M2", DType::kFloat8E5M2},
                                                  {"F8_E8M0", DType::kFloat8E8M0},
                                                  {"F8_E4M3FNUZ", DType::kFloat8E4M3FNUZ}}};

std::optional<std::string_view> type_name(DType dtype) {
  for (const TypeName& row : kTypeNames) {
    if (row.dtype == dtype) return row.name;
  }
  return std::nullopt;
}

std::optional<DType> type_from_name(std::string_view name) {
  for (const TypeName& row : kTypeNames) {
    if (row.name == name) return row.dtype;
  }
  return std::nullopt;
}

// Bytes of a tensor; nothing if that overflows or a dimension is negative.
std::optional<std::uint64_t> tensor_bytes(DType dtype, std::span<const std::int64_t> shape) {
  const auto elem_bytes = static_cast<std::uint64_t>(dtype_bits(dtype)) / 8;
  const std::uint64_t most = std::uint64_t{std::numeric_limits<std::int64_t>::max()} / elem_bytes;
  std::uint64_t product = 1;
  for (const std::int64_t dim : shape) {
    if (dim < 0) return std::nullopt;
    if (dim == 0) return 0;
    if (product > most / static_cast<std::uint64_t>(dim)) return std::nullopt;
    product *= static_cast<std::uint64_t>(dim);
  }
  return product * elem_bytes;
}

StatusOr<std::vector<std::int64_t>> parse_shape(const json& entry) {
  MEZZO_ASSIGN_OR_RETURN(const json* list, json_array(entry, "shape"));
  std::vector<std::int64_t> shape;
  for (const json& dim : *list) {
    if (!dim.is_number_unsigned() ||
        dim.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()}) {
      return invalid_argument("key 'shape': expected sizes of at least 0, got " +
                              printable(json_text(*list), 60));
    }
    shape.push_back(dim.get<std::int64_t>());
  }
  return shape;
}

// One tensor of the header, its bytes taken from `data`.
StatusOr<SafetensorsEntry> parse_entry(const std::string& name, const json& entry,
                                       std::span<const std::byte> data) {
  SafetensorsEntry result;
  result.name = name;
  MEZZO_ASSIGN_OR_RETURN(const std::string dtype, json_string(entry, "dtype"));
  const auto known = type_from_name(dtype);
  if (!known) return unimplemented("element type '" + printable(dtype, 40) + "' is not supported");
  result.dtype = *known;
  MEZZO_ASSIGN_OR_RETURN(result.shape, parse_shape(entry));
  MEZZO_ASSIGN_OR_RETURN(const json* offsets, json_array(entry, "data_offsets"));
  if (offsets->size() != 2 || !(*offsets)[0].is_number_unsigned() ||
      !(*offsets)[1].is_number_unsigned()) {
    return invalid_argument("key 'data_offsets': expected two sizes, got " +
                            printable(json_text(*offsets), 60));
  }
  const auto begin = (*offsets)[0].get<std::uint64_t>();
  const auto end = (*offsets)[1].get<std::uint64_t>();
  if (begin > end || end > data.size()) {
    return invalid_argument("bytes " + std::to_string(begin) + " to " + std::to_string(end) +
                            " are not in the file's " + std::to_string(data.size()) +
                            " bytes of data. Hint: the file may be truncated");
  }
  const auto expected = tensor_bytes(result.dtype, result.shape);
  if (!expected || *expected != end - begin) {
    return invalid_argument("expected the bytes of " + dtype + format_dims(result.shape) +
                            ", got " + std::to_string(end - begin));
  }
  result.bytes = data.subspan(begin, end - begin);
  return result;
}

StatusOr<std::map<std::string, std::string>> parse_metadata(const json& entry) {
  if (!entry.is_object()) return invalid_argument("expected an object of strings");
  std::map<std::string, std::string> metadata;
  for (const auto& [key, value] : entry.items()) {
    if (!value.is_string())
      return invalid_argument("key '" + printable(key) + "': expected a string");
    metadata[key] = value.get<std::string>();
  }
  return metadata;
}

// Sorts by place and checks that the tensors cover the data without gap or overlap.
Status check_coverage(std::vector<SafetensorsEntry>& entries, std::span<const std::byte> data) {
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return std::pair(a.bytes.data(), a.bytes.size()) < std::pair(b.bytes.data(), b.bytes.size());
  });
  const std::byte* next = data.data();
  for (const SafetensorsEntry& entry : entries) {
    if (entry.bytes.data() != next) {
      return invalid_argument(
          "tensor '" + printable(entry.name) + "' " +
          (entry.bytes.data() < next ? "overlaps another" : "leaves a gap before it"));
    }
    next += entry.bytes.size();
  }
  if (next != data.data() + data.size()) {
    return invalid_argument("bytes after the last tensor belong to none");
  }
  return ok_status();
}

}  // namespace

bool safetensors_holds(DType dtype) { return type_name(dtype).has_value(); }

StatusOr<SafetensorsFile> SafetensorsFile::open(const std::string& path) {
  MEZZO_ASSIGN_OR_RETURN(auto mapped, MappedFile::open(path));
  SafetensorsFile file(std::move(mapped));
  const std::string where = printable(path);
  const auto bytes = file.file_->bytes();
  if (bytes.size() < 8) return invalid_argument(where + ": not a safetensors file: under 8 bytes");
  const auto header_bytes = load<std::uint64_t>(bytes, 0);
  if (header_bytes > std::min<std::uint64_t>(kMaxHeaderBytes, bytes.size() - 8)) {
    return invalid_argument(where +
                            ": not a safetensors file, or truncated: its header is said to "
                            "have " +
                            std::to_string(header_bytes) + " bytes");
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + 8, header_bytes);
  MEZZO_ASSIGN_OR_RETURN(const json header, parse_json(text, where));
  if (!header.is_object()) return invalid_argument(where + ": its header is not a JSON object");
  const auto data = bytes.subspan(8 + header_bytes);
  for (const auto& [name, value] : header.items()) {
    const std::string place = where + ": tensor '" + printable(name) + "'";
    if (name == kMetadata) {
      auto metadata = parse_metadata(value);
      if (!metadata.ok()) return metadata.status().with_context(place);
      file.metadata_ = *std::move(metadata);
      continue;
    }
    auto entry = parse_entry(name, value, data);
    if (!entry.ok()) return entry.status().with_context(place);
    file.entries_.push_back(*std::move(entry));
  }
  const Status coverage = check_coverage(file.entries_, data);
  if (!coverage.ok()) return coverage.with_context(where);
  for (std::size_t i = 0; i < file.entries_.size(); ++i) file.index_[file.entries_[i].name] = i;
  return file;
}

const SafetensorsEntry* SafetensorsFile::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &entries_[found->second];
}

StatusOr<const SafetensorsEntry*> SafetensorsFile::get_floats(
    std::string_view name, std::span<const std::int64_t> shape) const {
  const std::string where = printable(path());
  const SafetensorsEntry* entry = find(name);
  if (entry == nullptr) {
    std::vector<std::string> names;
    for (const SafetensorsEntry& other : entries_) names.push_back(other.name);
    return invalid_argument(where + ": has no tensor '" + printable(name) + "'." +
                            did_you_mean(name, names));
  }
  if (entry->dtype != DType::kFloat32 || !std::ranges::equal(entry->shape, shape)) {
    return invalid_argument(where + ": tensor '" + printable(name) + "': expected float" +
                            format_dims(shape) + ", got " + std::string(dtype_name(entry->dtype)) +
                            format_dims(entry->shape));
  }
  return entry;
}

StatusOr<SafetensorsWriter> SafetensorsWriter::create(
    const std::string& path, std::span<const SafetensorsDecl> tensors,
    const std::map<std::string, std::string>& metadata) {
  // Put together by hand: the header lists tensors in the order of their data, which a JSON object
  // would sort.
  std::string header = "{";
  if (!metadata.empty()) {
    header += "\"" + std::string(kMetadata) + "\":" + json_text(json(metadata)) + ",";
  }
  std::set<std::string_view> names;
  std::uint64_t offset = 0;
  for (const SafetensorsDecl& tensor : tensors) {
    const std::string place = printable(path) + ": tensor '" + printable(tensor.name) + "'";
    if (tensor.name == kMetadata || !names.insert(tensor.name).second) {
      return invalid_argument(place + ": the name is taken");
    }
    const auto dtype = type_name(tensor.dtype);
    if (!dtype) {
      return unimplemented(place + ": safetensors has no type " +
                           std::string(dtype_name(tensor.dtype)));
    }
    const auto size = tensor_bytes(tensor.dtype, tensor.shape);
    if (!size || *size > std::uint64_t{std::numeric_limits<std::int64_t>::max()} - offset) {
      return invalid_argument(place + ": shape " + format_dims(tensor.shape) + " is too large");
    }
    header += json_text(json(tensor.name)) + ":{\"dtype\":\"" + std::string(*dtype) +
              "\",\"shape\":" + format_dims(tensor.shape) + ",\"data_offsets\":[" +
              std::to_string(offset) + "," + std::to_string(offset + *size) + "]},";
    offset += *size;
  }
  if (header.back() == ',') header.pop_back();
  header += "}";
  header.append((kDataAlignment - (8 + header.size()) % kDataAlignment) % kDataAlignment, ' ');
  if (header.size() > kMaxHeaderBytes) {
    return invalid_argument(printable(path) + ": too many tensors for one safetensors file");
  }
  MEZZO_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path));
  const std::uint64_t length = header.size();
  MEZZO_RETURN_IF_ERROR(file.write(std::as_bytes(std::span(&length, 1))));
  MEZZO_RETURN_IF_ERROR(file.write(header));
  return SafetensorsWriter(std::move(file), offset);
}

Status SafetensorsWriter::write(std::span<const std::byte> bytes) {
  if (bytes.size() > left_) {
    return internal_error(file_.path() + ": more tensor data than declared");
  }
  left_ -= bytes.size();
  return file_.write(bytes);
}

Status SafetensorsWriter::commit() {
  if (left_ != 0) return internal_error(file_.path() + ": less tensor data than declared");
  return file_.commit();
}

}  // namespace mezzo::runtime
