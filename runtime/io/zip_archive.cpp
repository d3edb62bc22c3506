#include "runtime/io/zip_archive.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <set>

#define ZLIB_CONST  // inflate takes its input as const
#include <zlib.h>

#include "compiler/support/text.h"
#include "runtime/io/little_endian.h"

namespace mezzo::runtime {
namespace {

constexpr std::uint32_t kLocalSignature = 0x04034b50;
constexpr std::uint32_t kCentralSignature = 0x02014b50;
constexpr std::uint32_t kEndSignature = 0x06054b50;
constexpr std::uint32_t kEnd64Signature = 0x06064b50;
constexpr std::uint32_t kLocator64Signature = 0x07064b50;
constexpr std::size_t kLocalBytes = 30;
constexpr std::size_t kCentralBytes = 46;
constexpr std::size_t kEndBytes = 22;
constexpr std::size_t kEnd64Bytes = 56;
constexpr std::size_t kLocator64Bytes = 20;
constexpr std::uint16_t kZip64Extra = 0x0001;
constexpr std::uint16_t kAlignmentExtra = 0xd935;  // padding, as the Android tools write it
constexpr std::uint32_t kIn64 = 0xffffffff;        // "the number stands in the ZIP64 record"
constexpr std::uint64_t kMostInflation = 1032;     // deflate's greatest ratio
constexpr std::uint64_t kMemberAlignment = 64;
constexpr std::uint16_t kEarliestDate = (1 << 5) | 1;  // 1980-01-01

Status broken(const MappedFile& file, std::string_view what) {
  return invalid_argument(printable(file.path()) + ": not a valid npz (zip) file: " +
                          std::string(what) + ". Hint: the file may be truncated or damaged");
}

struct Directory {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::uint64_t entries = 0;
};

// The end record stands at the end of the file, before a comment of at most 65535 bytes.
std::optional<std::size_t> find_end_record(std::span<const std::byte> bytes) {
  if (bytes.size() < kEndBytes) return std::nullopt;
  const std::size_t last = bytes.size() - kEndBytes;
  const std::size_t first = last > 0xffff ? last - 0xffff : 0;
  for (std::size_t at = last + 1; at-- > first;) {
    if (load<std::uint32_t>(bytes, at) != kEndSignature) continue;
    if (at + kEndBytes + load<std::uint16_t>(bytes, at + 20) == bytes.size()) return at;
  }
  return std::nullopt;
}

StatusOr<Directory> find_directory(const MappedFile& file) {
  const auto bytes = file.bytes();
  const auto end = find_end_record(bytes);
  if (!end) return broken(file, "it has no directory at its end");
  const auto disk = load<std::uint16_t>(bytes, *end + 4);
  if (disk != 0 && disk != 0xffff) return unimplemented(file.path() + ": zip on several disks");
  Directory directory = {load<std::uint32_t>(bytes, *end + 16),
                         load<std::uint32_t>(bytes, *end + 12),
                         load<std::uint16_t>(bytes, *end + 10)};
  const bool in_64 =
      directory.offset == kIn64 || directory.size == kIn64 || directory.entries == 0xffff;
  if (in_64 && *end >= kLocator64Bytes &&
      load<std::uint32_t>(bytes, *end - kLocator64Bytes) == kLocator64Signature) {
    const auto at = load<std::uint64_t>(bytes, *end - kLocator64Bytes + 8);
    if (at > bytes.size() || bytes.size() - at < kEnd64Bytes ||
        load<std::uint32_t>(bytes, at) != kEnd64Signature) {
      return broken(file, "its ZIP64 end record is missing");
    }
    directory = {load<std::uint64_t>(bytes, at + 48), load<std::uint64_t>(bytes, at + 40),
                 load<std::uint64_t>(bytes, at + 32)};
  }
  if (directory.offset > *end || directory.size > *end - directory.offset) {
    return broken(file, "its directory lies outside the file");
  }
  if (directory.entries > directory.size / kCentralBytes) {
    return broken(file, "its directory is shorter than its number of members");
  }
  return directory;
}

// Replaces the numbers of a directory entry that stand in its ZIP64 record, in their fixed order.
bool read_zip64(std::span<const std::byte> extra, std::uint64_t& size, std::uint64_t& stored_size,
                std::uint64_t& offset) {
  std::size_t at = 0;
  while (extra.size() - at >= 4) {
    const auto id = load<std::uint16_t>(extra, at);
    const std::size_t length = load<std::uint16_t>(extra, at + 2);
    if (length > extra.size() - at - 4) return false;
    if (id == kZip64Extra) {
      std::span<const std::byte> numbers = extra.subspan(at + 4, length);
      for (std::uint64_t* number : {&size, &stored_size, &offset}) {
        if (*number != kIn64) continue;
        if (numbers.size() < 8) return false;
        *number = load<std::uint64_t>(numbers, 0);
        numbers = numbers.subspan(8);
      }
      return true;
    }
    at += 4 + length;
  }
  return size != kIn64 && stored_size != kIn64 && offset != kIn64;
}

// The bytes of the member whose local header stands at `offset`.
StatusOr<std::span<const std::byte>> member_bytes(const MappedFile& file, std::uint64_t offset,
                                                  std::uint64_t stored_size,
                                                  const std::string& name) {
  const auto header = file.slice(offset, kLocalBytes);
  if (!header.ok() || load<std::uint32_t>(*header, 0) != kLocalSignature) {
    return broken(file, "member '" + printable(name) + "' has no header where the directory says");
  }
  const std::uint64_t start =
      offset + kLocalBytes + load<std::uint16_t>(*header, 26) + load<std::uint16_t>(*header, 28);
  const auto bytes = file.slice(start, stored_size);
  if (!bytes.ok()) return broken(file, "member '" + printable(name) + "' reaches beyond the file");
  return *bytes;
}

// Reads the entry at the start of `rest` and removes it from there.
StatusOr<ZipMember> read_entry(const MappedFile& file, std::span<const std::byte>& rest) {
  if (rest.size() < kCentralBytes || load<std::uint32_t>(rest, 0) != kCentralSignature) {
    return broken(file, "its directory is damaged");
  }
  const std::size_t name_bytes = load<std::uint16_t>(rest, 28);
  const std::size_t extra_bytes = load<std::uint16_t>(rest, 30);
  const std::size_t comment_bytes = load<std::uint16_t>(rest, 32);
  const std::size_t total = kCentralBytes + name_bytes + extra_bytes + comment_bytes;
  if (total > rest.size()) return broken(file, "its directory is damaged");

  ZipMember member;
  member.name.assign(reinterpret_cast<const char*>(rest.data()) + kCentralBytes, name_bytes);
  const auto flags = load<std::uint16_t>(rest, 8);
  const auto method = load<std::uint16_t>(rest, 10);
  member.crc32 = load<std::uint32_t>(rest, 16);
  std::uint64_t stored_size = load<std::uint32_t>(rest, 20);
  member.size = load<std::uint32_t>(rest, 24);
  std::uint64_t offset = load<std::uint32_t>(rest, 42);
  if (!read_zip64(rest.subspan(kCentralBytes + name_bytes, extra_bytes), member.size, stored_size,
                  offset)) {
    return broken(file, "member '" + printable(member.name) + "' has a damaged ZIP64 record");
  }
  if ((flags & 1) != 0) {
    return unimplemented(file.path() + ": member '" + printable(member.name) + "' is encrypted");
  }
  if (method != 0 && method != 8) {
    return unimplemented(file.path() + ": member '" + printable(member.name) +
                         "' uses zip compression " + std::to_string(method) +
                         "; stored (0) and deflated (8) are supported. Hint: write it with "
                         "numpy.savez or numpy.savez_compressed");
  }
  member.deflated = method == 8;
  MEZZO_ASSIGN_OR_RETURN(member.stored, member_bytes(file, offset, stored_size, member.name));
  const bool impossible = member.deflated ? member.size / kMostInflation > member.stored.size()
                                          : member.size != member.stored.size();
  if (impossible) {
    return broken(file, "member '" + printable(member.name) + "' states a size it cannot have");
  }
  rest = rest.subspan(total);
  return member;
}

// Members over each other are how small files inflate without end.
Status check_members(const MappedFile& file, const std::vector<ZipMember>& members) {
  std::set<std::string_view> names;
  std::vector<std::span<const std::byte>> spans;
  for (const ZipMember& member : members) {
    if (!names.insert(member.name).second) {
      return broken(file, "it holds '" + printable(member.name) + "' twice");
    }
    if (!member.stored.empty()) spans.push_back(member.stored);
  }
  std::sort(spans.begin(), spans.end(),
            [](const auto& a, const auto& b) { return a.data() < b.data(); });
  for (std::size_t i = 1; i < spans.size(); ++i) {
    if (spans[i - 1].data() + spans[i - 1].size() > spans[i].data()) {
      return broken(file, "its members overlap");
    }
  }
  return ok_status();
}

std::uint32_t crc32_of(std::uint32_t start, std::span<const std::byte> bytes) {
  return static_cast<std::uint32_t>(
      ::crc32_z(start, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

Status wrong_checksum(std::string_view where) {
  return invalid_argument(std::string(where) +
                          ": the checksum does not fit the contents. Hint: the file is damaged");
}

// zlib counts in 32 bits, so input and output are handed over piece by piece.
Status inflate_into(const ZipMember& member, std::span<std::byte> to, std::string_view where) {
  constexpr std::size_t kPiece = std::size_t{1} << 30;
  z_stream stream = {};
  if (::inflateInit2(&stream, -MAX_WBITS) != Z_OK) return internal_error("zlib cannot start");
  std::span<const std::byte> input = member.stored;
  std::span<std::byte> output = to;
  const auto refill = [&] {
    if (stream.avail_in > 0) return;
    const auto piece = input.first(std::min(input.size(), kPiece));
    stream.next_in = reinterpret_cast<const Bytef*>(piece.data());
    stream.avail_in = static_cast<uInt>(piece.size());
    input = input.subspan(piece.size());
  };
  int result = Z_OK;
  while (result == Z_OK && (!output.empty() || stream.avail_out > 0)) {
    refill();
    if (stream.avail_out == 0) {
      const auto piece = output.first(std::min(output.size(), kPiece));
      stream.next_out = reinterpret_cast<Bytef*>(piece.data());
      stream.avail_out = static_cast<uInt>(piece.size());
      output = output.subspan(piece.size());
    }
    result = ::inflate(&stream, Z_NO_FLUSH);
  }
  const bool full = output.empty() && stream.avail_out == 0;
  if (full && result == Z_OK && to.size() == member.size) {  // the end mark may still be unread
    std::array<Bytef, 1> more{};
    stream.next_out = more.data();
    stream.avail_out = 1;
    refill();
    result = ::inflate(&stream, Z_NO_FLUSH);
    if (stream.avail_out == 0) result = Z_DATA_ERROR;  // more bytes than the directory states
  }
  ::inflateEnd(&stream);
  const bool whole = to.size() < member.size || result == Z_STREAM_END;
  if (full && whole) return ok_status();
  return invalid_argument(std::string(where) + ": cannot be inflated to the " +
                          std::to_string(member.size) +
                          " bytes it states. Hint: the file is damaged");
}

}  // namespace

StatusOr<std::vector<ZipMember>> read_zip_directory(const MappedFile& file) {
  MEZZO_ASSIGN_OR_RETURN(const Directory directory, find_directory(file));
  std::span<const std::byte> rest = file.bytes().subspan(directory.offset, directory.size);
  std::vector<ZipMember> members;
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    MEZZO_ASSIGN_OR_RETURN(ZipMember member, read_entry(file, rest));
    members.push_back(std::move(member));
  }
  MEZZO_RETURN_IF_ERROR(check_members(file, members));
  return members;
}

Status read_zip_member(const ZipMember& member, std::span<std::byte> to, std::string_view where) {
  if (to.size() > member.size) return internal_error("zip: asked for more than a member has");
  if (member.deflated) {
    MEZZO_RETURN_IF_ERROR(inflate_into(member, to, where));
  } else {
    std::copy_n(member.stored.begin(), to.size(), to.begin());
  }
  const bool whole = to.size() == member.size;
  return whole && crc32_of(0, to) != member.crc32 ? wrong_checksum(where) : ok_status();
}

Status check_zip_crc(const ZipMember& member, std::string_view where) {
  return crc32_of(0, member.stored) == member.crc32 ? ok_status() : wrong_checksum(where);
}

StatusOr<ZipWriter> ZipWriter::create(const std::string& path) {
  MEZZO_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path));
  return ZipWriter(std::move(file));
}

Status ZipWriter::add(std::string_view name, std::span<const std::span<const std::byte>> pieces) {
  if (name.size() > 0xffff) return invalid_argument("npz member name over 65535 bytes");
  Entry entry = {std::string(name), 0, 0, file_.position()};
  for (const auto piece : pieces) {
    entry.crc32 = crc32_of(entry.crc32, piece);
    entry.size += piece.size();
  }
  const bool large = entry.size >= kIn64;
  std::string extra;
  if (large) {
    append(extra, kZip64Extra);
    append(extra, std::uint16_t{16});
    append(extra, entry.size);
    append(extra, entry.size);
  }
  const std::uint64_t start = entry.offset + kLocalBytes + name.size() + extra.size() + 6;
  const auto padding = (kMemberAlignment - start % kMemberAlignment) % kMemberAlignment;
  append(extra, kAlignmentExtra);
  append(extra, static_cast<std::uint16_t>(2 + padding));
  append(extra, static_cast<std::uint16_t>(kMemberAlignment));
  extra.append(padding, '\0');

  std::string header;
  append(header, kLocalSignature);
  append(header, static_cast<std::uint16_t>(large ? 45 : 20));  // version needed
  append(header, std::uint16_t{0x0800});                        // names are UTF-8
  append(header, std::uint16_t{0});                             // stored
  append(header, std::uint16_t{0});
  append(header, kEarliestDate);
  append(header, entry.crc32);
  append(header, large ? kIn64 : static_cast<std::uint32_t>(entry.size));
  append(header, large ? kIn64 : static_cast<std::uint32_t>(entry.size));
  append(header, static_cast<std::uint16_t>(name.size()));
  append(header, static_cast<std::uint16_t>(extra.size()));
  header += name;
  header += extra;
  MEZZO_RETURN_IF_ERROR(file_.write(header));
  for (const auto piece : pieces) MEZZO_RETURN_IF_ERROR(file_.write(piece));
  entries_.push_back(std::move(entry));
  return ok_status();
}

Status ZipWriter::commit() {
  const std::uint64_t offset = file_.position();
  std::string text;
  for (const Entry& entry : entries_) {
    const bool large = entry.size >= kIn64 || entry.offset >= kIn64;
    append(text, kCentralSignature);
    append(text, static_cast<std::uint16_t>(large ? 45 : 20));
    append(text, static_cast<std::uint16_t>(large ? 45 : 20));
    append(text, std::uint16_t{0x0800});
    append(text, std::uint16_t{0});
    append(text, std::uint16_t{0});
    append(text, kEarliestDate);
    append(text, entry.crc32);
    append(text, large ? kIn64 : static_cast<std::uint32_t>(entry.size));
    append(text, large ? kIn64 : static_cast<std::uint32_t>(entry.size));
    append(text, static_cast<std::uint16_t>(entry.name.size()));
    append(text, static_cast<std::uint16_t>(large ? 28 : 0));
    append(text, std::uint16_t{0});  // comment
    append(text, std::uint16_t{0});  // disk
    append(text, std::uint16_t{0});  // internal attributes
    append(text, std::uint32_t{0});  // external attributes
    append(text, large ? kIn64 : static_cast<std::uint32_t>(entry.offset));
    text += entry.name;
    if (large) {
      append(text, kZip64Extra);
      append(text, std::uint16_t{24});
      append(text, entry.size);
      append(text, entry.size);
      append(text, entry.offset);
    }
  }
  const std::uint64_t size = text.size();
  const bool large = offset >= kIn64 || size >= kIn64 || entries_.size() >= 0xffff;
  const std::uint64_t end64 = offset + size;
  if (large) {
    append(text, kEnd64Signature);
    append(text, std::uint64_t{kEnd64Bytes - 12});
    append(text, std::uint16_t{45});
    append(text, std::uint16_t{45});
    append(text, std::uint64_t{0});  // both disk numbers
    append(text, std::uint64_t{entries_.size()});
    append(text, std::uint64_t{entries_.size()});
    append(text, size);
    append(text, offset);
    append(text, kLocator64Signature);
    append(text, std::uint32_t{0});
    append(text, end64);
    append(text, std::uint32_t{1});
  }
  append(text, kEndSignature);
  append(text, std::uint32_t{0});  // both disk numbers
  append(text, static_cast<std::uint16_t>(large ? 0xffff : entries_.size()));
  append(text, static_cast<std::uint16_t>(large ? 0xffff : entries_.size()));
  append(text, large ? kIn64 : static_cast<std::uint32_t>(size));
  append(text, large ? kIn64 : static_cast<std::uint32_t>(offset));
  append(text, std::uint16_t{0});
  MEZZO_RETURN_IF_ERROR(file_.write(text));
  return file_.commit();
}

}  // namespace mezzo::runtime
