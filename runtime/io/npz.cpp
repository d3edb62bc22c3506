#include "runtime/io/npz.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <new>

#include "compiler/support/half.h"
#include "compiler/support/text.h"
#include "runtime/io/little_endian.h"

namespace mezzo::runtime {
namespace {

constexpr std::size_t kBufferAlignment = 64;

struct Buffer {
  std::span<std::byte> bytes;
  std::shared_ptr<const void> owner;
};

// InvalidArgument where memory does not suffice: a size from a file is no reason to crash.
StatusOr<Buffer> allocate(std::uint64_t size, std::string_view where) {
  void* memory = ::operator new (std::max<std::size_t>(size, 1), std::align_val_t{kBufferAlignment},
                                 std::nothrow);
  if (memory == nullptr) {
    return invalid_argument(std::string(where) + ": needs " + format_bytes(size) +
                            " of memory, which there is not. Hint: numpy.savez (not compressed) "
                            "writes files that are mapped instead");
  }
  std::shared_ptr<const void> owner(memory, [](const void* pointer) {
    ::operator delete (const_cast<void*>(pointer), std::align_val_t{kBufferAlignment});
  });
  return Buffer{{static_cast<std::byte*>(memory), size}, std::move(owner)};
}

bool is_aligned(const std::byte* data, std::size_t alignment) {
  return reinterpret_cast<std::uintptr_t>(data) % alignment == 0;
}

}  // namespace

StatusOr<NpzFile> NpzFile::open(const std::string& path) {
  MEZZO_ASSIGN_OR_RETURN(auto mapped, MappedFile::open(path));
  NpzFile npz(std::move(mapped));
  const auto bytes = npz.file_->bytes();
  constexpr std::string_view kNpyMagic = "\x93NUMPY";
  if (bytes.size() >= kNpyMagic.size() &&
      std::memcmp(bytes.data(), kNpyMagic.data(), kNpyMagic.size()) == 0) {
    ZipMember whole;
    whole.size = bytes.size();
    whole.stored = bytes;
    npz.has_checksums_ = false;
    MEZZO_RETURN_IF_ERROR(npz.add(std::move(whole), std::filesystem::path(path).stem().string()));
    return npz;
  }
  MEZZO_ASSIGN_OR_RETURN(auto members, read_zip_directory(*npz.file_));
  for (ZipMember& member : members) {
    if (!member.name.ends_with(".npy")) continue;
    std::string name = member.name.substr(0, member.name.size() - 4);
    MEZZO_RETURN_IF_ERROR(npz.add(std::move(member), std::move(name)));
  }
  return npz;
}

Status NpzFile::add(ZipMember member, std::string name) {
  const std::string place = where(name);
  std::span<const std::byte> start = member.stored;
  std::vector<std::byte> inflated;
  if (member.deflated) {
    inflated.resize(std::min<std::uint64_t>(member.size, kMaxNpyHeaderBytes));
    MEZZO_RETURN_IF_ERROR(read_zip_member(member, inflated, place));
    start = inflated;
  }
  MEZZO_ASSIGN_OR_RETURN(NpyHeader header, read_npy_header(start, place));
  if (member.size - header.data_offset != header.data_bytes) {
    return invalid_argument(place + ": expected " + std::to_string(header.data_bytes) +
                            " bytes for " + std::string(dtype_name(header.dtype)) +
                            format_dims(header.shape) + ", got " +
                            std::to_string(member.size - header.data_offset) +
                            ". Hint: the file is truncated or damaged");
  }
  arrays_.push_back({std::move(name), header.dtype, header.shape, header.elems, header.data_bytes});
  headers_.push_back(std::move(header));
  members_.push_back(std::move(member));
  return ok_status();
}

std::string NpzFile::where(std::string_view name) const {
  return printable(path()) + ": array '" + printable(name) + "'";
}

std::vector<std::string> NpzFile::names() const {
  std::vector<std::string> result;
  for (const ArrayInfo& array : arrays_) result.push_back(array.name);
  return result;
}

const ArrayInfo* NpzFile::find(std::string_view name) const {
  const auto found = std::find_if(arrays_.begin(), arrays_.end(),
                                  [&](const ArrayInfo& array) { return array.name == name; });
  return found == arrays_.end() ? nullptr : &*found;
}

StatusOr<const ArrayInfo*> NpzFile::get(std::string_view name) const {
  const ArrayInfo* array = find(name);
  if (array != nullptr) return array;
  const auto all = names();
  const std::string list = all.empty() ? "no arrays" : printable(join(all, ", "), 400);
  return invalid_argument(printable(path()) + ": has no array '" + printable(name) + "'." +
                          did_you_mean(name, all) + " It holds: " + list);
}

StatusOr<ArrayData> NpzFile::read(std::string_view name, Alignment alignment) const {
  MEZZO_ASSIGN_OR_RETURN(const ArrayInfo* array, get(name));
  const auto index = static_cast<std::size_t>(array - arrays_.data());
  const ZipMember& member = members_[index];
  const NpyHeader& header = headers_[index];
  const std::string place = where(name);
  const auto elem_bytes = static_cast<std::size_t>(dtype_bits(header.dtype)) / 8;

  ArrayData data;
  if (member.deflated) {
    // The header is inflated along with the elements and left in front of them.
    const std::size_t front =
        (header.data_offset + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
    MEZZO_ASSIGN_OR_RETURN(Buffer buffer, allocate(front + header.data_bytes, place));
    const auto whole = buffer.bytes.subspan(front - header.data_offset);
    MEZZO_RETURN_IF_ERROR(read_zip_member(member, whole, place));
    data = {buffer.bytes.subspan(front), std::move(buffer.owner)};
  } else {
    if (has_checksums_) MEZZO_RETURN_IF_ERROR(check_zip_crc(member, place));
    data = {member.stored.subspan(header.data_offset), file_};
  }
  const bool moves = alignment == Alignment::kElement && !is_aligned(data.bytes.data(), elem_bytes);
  if (!moves && !header.fortran_order) return data;
  MEZZO_ASSIGN_OR_RETURN(Buffer copy, allocate(header.data_bytes, place));
  if (header.fortran_order) {
    reorder_from_fortran(data.bytes, copy.bytes, header.shape, elem_bytes);
  } else {
    std::copy(data.bytes.begin(), data.bytes.end(), copy.bytes.begin());
  }
  return ArrayData{copy.bytes, std::move(copy.owner)};
}

StatusOr<NpzWriter> NpzWriter::create(const std::string& path) {
  MEZZO_ASSIGN_OR_RETURN(ZipWriter zip, ZipWriter::create(path));
  return NpzWriter(std::move(zip));
}

Status NpzWriter::add(std::string_view name, DType dtype, std::span<const std::int64_t> shape,
                      std::span<const std::byte> bytes) {
  std::vector<float> widened;
  if (dtype == DType::kBFloat16) {
    widened.resize(bytes.size() / 2);
    for (std::size_t i = 0; i < widened.size(); ++i) {
      widened[i] = bf16_to_float(load<std::uint16_t>(bytes, 2 * i));
    }
    dtype = DType::kFloat32;
    bytes = std::as_bytes(std::span(widened));
  }
  MEZZO_ASSIGN_OR_RETURN(const std::string header, make_npy_header(dtype, shape));
  const std::array<std::span<const std::byte>, 2> pieces = {std::as_bytes(std::span(header)),
                                                            bytes};
  return zip_.add(std::string(name) + ".npy", pieces);
}

}  // namespace mezzo::runtime
