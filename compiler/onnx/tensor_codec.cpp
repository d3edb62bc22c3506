#include "compiler/onnx/tensor_codec.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>

#include "compiler/support/text.h"

namespace mezzo {
namespace {

enum class TypedField : std::uint8_t { kNone, kFloat, kInt32, kString, kInt64, kDouble, kUInt64 };

TypedField typed_field(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
    case DType::kComplex64: return TypedField::kFloat;
    case DType::kFloat64:
    case DType::kComplex128: return TypedField::kDouble;
    case DType::kInt64: return TypedField::kInt64;
    case DType::kUInt32:
    case DType::kUInt64: return TypedField::kUInt64;
    case DType::kString: return TypedField::kString;
    default: return dtype_bits(dtype) > 0 ? TypedField::kInt32 : TypedField::kNone;
  }
}

std::string_view field_name(TypedField field) {
  constexpr std::string_view kNames[] = {"none",       "float_data",  "int32_data", "string_data",
                                         "int64_data", "double_data", "uint64_data"};
  return kNames[static_cast<std::size_t>(field)];
}

std::size_t field_size(const onnx::TensorProto& proto, TypedField field) {
  switch (field) {
    case TypedField::kNone: return 0;
    case TypedField::kFloat: return static_cast<std::size_t>(proto.float_data_size());
    case TypedField::kInt32: return static_cast<std::size_t>(proto.int32_data_size());
    case TypedField::kString: return static_cast<std::size_t>(proto.string_data_size());
    case TypedField::kInt64: return static_cast<std::size_t>(proto.int64_data_size());
    case TypedField::kDouble: return static_cast<std::size_t>(proto.double_data_size());
    case TypedField::kUInt64: return static_cast<std::size_t>(proto.uint64_data_size());
  }
  return 0;
}

bool is_float6(DType dtype) { return dtype == DType::kFloat6E2M3 || dtype == DType::kFloat6E3M2; }

// int32_data entries of types up to 8 bits hold one byte each, those of float6 one element.
int int32_entry_bits(DType dtype) {
  if (is_float6(dtype)) return 6;
  return std::max(dtype_bits(dtype), 8);
}

std::uint64_t expected_entries(DType dtype, std::int64_t elems) {
  const auto count = static_cast<std::uint64_t>(elems);
  switch (dtype) {
    case DType::kComplex64:
    case DType::kComplex128: return 2 * count;
    default:
      if (is_float6(dtype) || dtype_bits(dtype) >= 8 || dtype == DType::kString) return count;
      return dtype_bytes(dtype, elems);
  }
}

template <typename T, typename Entries>
std::vector<std::byte> copy_entries(const Entries& entries) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(entries.size()) * sizeof(T));
  if constexpr (sizeof(T) == sizeof(*entries.data())) {
    if (!bytes.empty()) std::memcpy(bytes.data(), entries.data(), bytes.size());
  } else {
    std::size_t at = 0;
    for (const auto entry : entries) {
      const auto value = static_cast<T>(entry);
      std::memcpy(bytes.data() + at, &value, sizeof(T));
      at += sizeof(T);
    }
  }
  return bytes;
}

// Element `index` of a stream of 6-bit elements, lowest bits first.
void put_bits6(std::vector<std::byte>& bytes, std::size_t index, unsigned value) {
  const std::size_t bit = index * 6;
  const unsigned shifted = value << (bit % 8);
  bytes[bit / 8] |= static_cast<std::byte>(shifted & 0xffU);
  if ((shifted >> 8) != 0) bytes[bit / 8 + 1] |= static_cast<std::byte>(shifted >> 8);
}

unsigned get_bits6(std::span<const std::byte> bytes, std::size_t index) {
  const std::size_t bit = index * 6;
  unsigned pair = static_cast<unsigned>(bytes[bit / 8]);
  if (bit / 8 + 1 < bytes.size()) pair |= static_cast<unsigned>(bytes[bit / 8 + 1]) << 8;
  return (pair >> (bit % 8)) & 0x3fU;
}

// Both the signed and the unsigned reading of the entry's bits are in use by writers.
Status check_int32_range(const onnx::TensorProto& proto, int bits) {
  if (bits >= 32) return ok_status();
  const std::int64_t low = bits == 6 ? 0 : -(std::int64_t{1} << (bits - 1));
  const std::int64_t high = (std::int64_t{1} << bits) - 1;
  for (int i = 0; i < proto.int32_data_size(); ++i) {
    const std::int64_t value = proto.int32_data(i);
    if (value < low || value > high) {
      return invalid_argument("int32_data entry " + std::to_string(i) + ": expected " +
                              std::to_string(low) + " to " + std::to_string(high) + ", got " +
                              std::to_string(value));
    }
  }
  return ok_status();
}

StatusOr<std::vector<std::byte>> decode_int32(const onnx::TensorProto& proto, DType dtype,
                                              std::int64_t elems) {
  const int bits = int32_entry_bits(dtype);
  MEZZO_RETURN_IF_ERROR(check_int32_range(proto, bits));
  switch (bits) {
    case 32: return copy_entries<std::int32_t>(proto.int32_data());
    case 16: return copy_entries<std::uint16_t>(proto.int32_data());
    case 6: {
      std::vector<std::byte> bytes(dtype_bytes(dtype, elems));
      for (int i = 0; i < proto.int32_data_size(); ++i) {
        put_bits6(bytes, static_cast<std::size_t>(i), static_cast<unsigned>(proto.int32_data(i)));
      }
      return bytes;
    }
    default: return copy_entries<std::uint8_t>(proto.int32_data());
  }
}

template <typename T>
void append_entries(std::span<const std::byte> bytes, google::protobuf::RepeatedField<T>& entries) {
  entries.Resize(static_cast<int>(bytes.size() / sizeof(T)), T{});
  if (!bytes.empty()) std::memcpy(entries.mutable_data(), bytes.data(), bytes.size());
}

// Reads values of type From, in their order, into entries of type To.
template <typename From, typename To>
void widen_entries(std::span<const std::byte> bytes, google::protobuf::RepeatedField<To>& entries) {
  entries.Reserve(static_cast<int>(bytes.size() / sizeof(From)));
  for (std::size_t at = 0; at + sizeof(From) <= bytes.size(); at += sizeof(From)) {
    From value;
    std::memcpy(&value, bytes.data() + at, sizeof(From));
    entries.Add(static_cast<To>(value));
  }
}

void encode_int32(std::span<const std::byte> bytes, DType dtype, std::int64_t elems,
                  google::protobuf::RepeatedField<std::int32_t>& entries) {
  switch (dtype) {
    case DType::kInt32: return append_entries(bytes, entries);
    case DType::kInt16: return widen_entries<std::int16_t>(bytes, entries);
    case DType::kInt8: return widen_entries<std::int8_t>(bytes, entries);
    case DType::kFloat6E2M3:
    case DType::kFloat6E3M2:
      for (std::int64_t i = 0; i < elems; ++i) {
        entries.Add(static_cast<std::int32_t>(get_bits6(bytes, static_cast<std::size_t>(i))));
      }
      return;
    default:
      if (dtype_bits(dtype) == 16) return widen_entries<std::uint16_t>(bytes, entries);
      return widen_entries<std::uint8_t>(bytes, entries);
  }
}

}  // namespace

StatusOr<std::int64_t> count_elems(std::span<const std::int64_t> dims) {
  std::int64_t product = 1;
  bool empty = false;
  for (const std::int64_t dim : dims) {
    if (dim < 0) {
      return invalid_argument("expected dims of at least 0, got " + format_dims(dims));
    }
    empty |= dim == 0;
    if (dim > 0 && __builtin_mul_overflow(product, dim, &product)) {
      return invalid_argument("expected fewer than 2^63 elements, got " + format_dims(dims));
    }
  }
  return empty ? 0 : product;
}

StatusOr<std::uint64_t> count_bytes(DType dtype, std::int64_t elems) {
  std::int64_t bits = 0;
  if (__builtin_mul_overflow(elems, static_cast<std::int64_t>(dtype_bits(dtype)), &bits) ||
      bits > std::numeric_limits<std::int64_t>::max() - 7) {
    return invalid_argument("expected fewer than 2^63 bits, got " + std::to_string(elems) +
                            " elements of " + std::string(dtype_name(dtype)));
  }
  return static_cast<std::uint64_t>((bits + 7) / 8);
}

bool has_typed_data(const onnx::TensorProto& proto) {
  for (const TypedField field : {TypedField::kFloat, TypedField::kInt32, TypedField::kString,
                                 TypedField::kInt64, TypedField::kDouble, TypedField::kUInt64}) {
    if (field_size(proto, field) > 0) return true;
  }
  return false;
}

StatusOr<std::vector<std::byte>> decode_typed(const onnx::TensorProto& proto, DType dtype,
                                              std::int64_t elems) {
  const TypedField own = typed_field(dtype);
  for (const TypedField field : {TypedField::kFloat, TypedField::kInt32, TypedField::kString,
                                 TypedField::kInt64, TypedField::kDouble, TypedField::kUInt64}) {
    if (field != own && field_size(proto, field) > 0) {
      return invalid_argument("expected the data of dtype " + std::string(dtype_name(dtype)) +
                              " in field " + std::string(field_name(own)) + ", got field " +
                              std::string(field_name(field)));
    }
  }
  const std::uint64_t expected = expected_entries(dtype, elems);
  if (field_size(proto, own) != expected) {
    return invalid_argument("expected " + std::to_string(expected) + " entries in " +
                            std::string(field_name(own)) + ", got " +
                            std::to_string(field_size(proto, own)));
  }
  switch (own) {
    case TypedField::kFloat: return copy_entries<float>(proto.float_data());
    case TypedField::kDouble: return copy_entries<double>(proto.double_data());
    case TypedField::kInt64: return copy_entries<std::int64_t>(proto.int64_data());
    case TypedField::kUInt64:
      if (dtype == DType::kUInt64) return copy_entries<std::uint64_t>(proto.uint64_data());
      for (const std::uint64_t value : proto.uint64_data()) {
        if (value > std::numeric_limits<std::uint32_t>::max()) {
          return invalid_argument("expected uint32 values, got " + std::to_string(value));
        }
      }
      return copy_entries<std::uint32_t>(proto.uint64_data());
    case TypedField::kInt32: return decode_int32(proto, dtype, elems);
    default: return std::vector<std::byte>{};
  }
}

void encode_typed(std::span<const std::byte> bytes, DType dtype, std::int64_t elems,
                  onnx::TensorProto& proto) {
  switch (typed_field(dtype)) {
    case TypedField::kFloat: return append_entries(bytes, *proto.mutable_float_data());
    case TypedField::kDouble: return append_entries(bytes, *proto.mutable_double_data());
    case TypedField::kInt64: return append_entries(bytes, *proto.mutable_int64_data());
    case TypedField::kUInt64:
      if (dtype == DType::kUInt64) return append_entries(bytes, *proto.mutable_uint64_data());
      return widen_entries<std::uint32_t>(bytes, *proto.mutable_uint64_data());
    case TypedField::kInt32: return encode_int32(bytes, dtype, elems, *proto.mutable_int32_data());
    default: return;
  }
}

}  // namespace mezzo
