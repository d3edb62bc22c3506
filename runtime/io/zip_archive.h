// The part of the ZIP format that npz files use: members stored or deflated, ZIP64 included.
//
// Reading works on a mapped file so that stored members need no copy; the usual libraries do not
// tell where a member's bytes lie, which is why the directory is read here. Inflating and checksums
// are zlib's. Format: PKWARE APPNOTE 6.3, sections 4.3 and 4.5.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/support/atomic_file.h"
#include "compiler/support/mapped_file.h"
#include "compiler/support/status.h"

namespace mezzo::runtime {

struct ZipMember {
  std::string name;
  bool deflated = false;  // else stored
  std::uint32_t crc32 = 0;
  std::uint64_t size = 0;             // as the directory states it, after inflating
  std::span<const std::byte> stored;  // the bytes in the archive, inside the mapping
};

// The members in directory order. Checked: every offset and size lies in the file, members do not
// overlap, names are unique, stored members have equal sizes, and a deflated one states no more
// than deflate can give (1032 times its bytes). Unimplemented: encryption, other compression,
// several disks.
StatusOr<std::vector<ZipMember>> read_zip_directory(const MappedFile& file);

// The first `to.size()` bytes of a member. REQUIRES: to.size() <= member.size. InvalidArgument if
// the member gives fewer, or if whole and its checksum or length is wrong. `where` starts errors.
Status read_zip_member(const ZipMember& member, std::span<std::byte> to, std::string_view where);

// Compares the checksum of a stored member's bytes with the directory's.
Status check_zip_crc(const ZipMember& member, std::string_view where);

// Writes an archive of stored members whose bytes start at multiples of 64. Dates are the format's
// earliest, so equal contents give equal files.
class ZipWriter {
 public:
  static StatusOr<ZipWriter> create(const std::string& path);

  // One member, from pieces written one after the other.
  Status add(std::string_view name, std::span<const std::span<const std::byte>> pieces);
  // Writes the directory and puts the file in place.
  Status commit();

 private:
  struct Entry {
    std::string name;
    std::uint32_t crc32;
    std::uint64_t size;
    std::uint64_t offset;
  };
  explicit ZipWriter(AtomicFile file) : file_(std::move(file)) {}

  AtomicFile file_;
  std::vector<Entry> entries_;
};

}  // namespace mezzo::runtime
