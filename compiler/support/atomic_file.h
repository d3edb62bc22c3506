// Output that appears whole or not at all: a file or folder is written under a temporary name
// beside its target and renamed over it at the end. An error or a crash leaves the old one, if any,
// as it was.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/support/status.h"

namespace mezzo {

// One file. The target may exist (it is replaced and its permissions kept) if it is a regular
// file; a symbolic link is followed. Every error is InvalidArgument and names path and reason.
class AtomicFile {
 public:
  // Creates `path`.tmp-XXXXXX. Errors: no such folder, not writable, the target is no regular file.
  static StatusOr<AtomicFile> create(const std::string& path);

  ~AtomicFile();  // removes the temporary file unless committed
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&& other) noexcept;

  // Appends. Small pieces are gathered in a buffer, so errors may come with a later call.
  Status write(std::span<const std::byte> bytes);
  Status write(std::string_view text) { return write(std::as_bytes(std::span(text))); }
  Status write_zeros(std::uint64_t count);

  // Overwrites bytes already written (a size known only at the end). REQUIRES: offset + size <=
  // position(). The position stays.
  Status write_at(std::uint64_t offset, std::span<const std::byte> bytes);

  // Bytes appended so far, which is where the next write() lands.
  std::uint64_t position() const { return position_; }

  // Flushes to the disk (fsync). Of what can fail only the rename is then left, so files that
  // belong together are all finished before the first is committed. InvalidArgument also where a
  // file that was read meanwhile turned out to be cut short (mapping_guard.h).
  Status finish();
  // finish(), and renames to `path`. Nothing may be written afterwards.
  Status commit();

  const std::string& path() const { return path_; }

 private:
  AtomicFile(std::string path, std::string temporary, int fd);
  Status flush();
  Status error(int number) const;
  void discard();

  std::string path_;       // as the user gave it, for messages
  std::string target_;     // with symbolic links followed
  std::string temporary_;  // empty after commit or a move
  int fd_ = -1;
  std::uint64_t position_ = 0;
  std::vector<std::byte> buffer_;
};

// A folder of files. The caller writes files (AtomicFile, or anything that closes them) under
// temporary_path(); commit() flushes them and puts the folder in the target's place: by one
// exchange where the file system can do it, so that at every moment the target is the old or the
// new folder, else by two renames.
class AtomicDirectory {
 public:
  // Creates `path`.tmp-XXXXXX. The target may be missing or a folder, which is then replaced with
  // all it holds: callers check that it is theirs. InvalidArgument: not writable, or the target is
  // a file.
  static StatusOr<AtomicDirectory> create(const std::string& path);

  ~AtomicDirectory();  // removes the temporary folder unless committed
  AtomicDirectory(AtomicDirectory&& other) noexcept;
  AtomicDirectory& operator=(AtomicDirectory&& other) noexcept;

  const std::string& temporary_path() const { return temporary_; }
  // temporary_path()/name.
  std::string file(std::string_view name) const;

  Status commit();

 private:
  AtomicDirectory(std::string path, std::string temporary);
  Status error(int number) const;
  void discard();

  std::string path_;
  std::string temporary_;  // empty after commit or a move
};

// Writes `text` to `path` in one go.
Status write_file(const std::string& path, std::string_view text);

}  // namespace mezzo
