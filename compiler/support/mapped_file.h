// A file mapped read-only into memory: how models, external data, data sets and checkpoints are
// read without being copied.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "compiler/support/status.h"

namespace mezzo {

// Spans given out point into the mapping and live as long as this object, which is therefore
// shared. The contents must not be shortened by others while mapped (the kernel then raises SIGBUS
// on access, see mapping_guard.h); mezzo's own files are replaced by renaming, which leaves a
// mapping intact.
class MappedFile {
 public:
  // InvalidArgument naming the path and the reason: missing, a folder or device, unreadable. An
  // empty file is fine and has no bytes.
  static StatusOr<std::shared_ptr<const MappedFile>> open(const std::string& path);

  // The file `relative` below the folder `folder`, on a way without symbolic links: the kernel
  // refuses any other, also one that somebody puts there between a check of the path and this call.
  static StatusOr<std::shared_ptr<const MappedFile>> open_inside(const std::string& folder,
                                                                 const std::string& relative);

  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }
  std::size_t size() const { return size_; }

  // Bytes [offset, offset + length). InvalidArgument if they are not all in the file; no sum
  // overflows, whatever an untrusted header asks for.
  StatusOr<std::span<const std::byte>> slice(std::uint64_t offset, std::uint64_t length) const;

  // Says that about `bytes` more of the mapping were looked at. The process is charged for every
  // page it has seen, so whoever reads a large file from end to end calls this after each piece,
  // and now and then all pages are given back. Spans stay valid: the kernel maps a page again when
  // it is next looked at.
  void note_read(std::uint64_t bytes) const;
  // Gives all pages back at once.
  void release() const;

 private:
  static StatusOr<std::shared_ptr<const MappedFile>> map(int descriptor, const std::string& path);
  MappedFile(std::string path, const std::byte* data, std::size_t size)
      : path_(std::move(path)), data_(data), size_(size) {}

  std::string path_;
  const std::byte* data_;  // null for an empty file
  std::size_t size_;
  mutable std::atomic<std::uint64_t> read_bytes_ = 0;  // since pages were last given back
};

}  // namespace mezzo
