// The safetensors format: 8 bytes with the header's length N (little-endian), N bytes of JSON that
// maps names to {dtype, shape, data_offsets: [begin, end]} counted from the end of the header, then
// the data. Every byte of data belongs to exactly one tensor.
// Format: the safetensors project's README; holes, overlaps and headers over 100 MB are refused as
// its own reader does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/support/atomic_file.h"
#include "compiler/support/dtype.h"
#include "compiler/support/mapped_file.h"
#include "compiler/support/status.h"

namespace mezzo::runtime {

struct SafetensorsEntry {
  std::string name;
  DType dtype = DType::kNone;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;  // inside the mapping; foreign files may align them badly
};

// A mapped file. Entries and their bytes live as long as any copy of this object.
class SafetensorsFile {
 public:
  // Checks everything the format promises. InvalidArgument: damaged or hostile. Unimplemented: an
  // element type that DType lacks.
  static StatusOr<SafetensorsFile> open(const std::string& path);

  const std::string& path() const { return file_->path(); }
  // In the order of the data.
  std::span<const SafetensorsEntry> entries() const { return entries_; }
  const SafetensorsEntry* find(std::string_view name) const;
  // The float32 tensor `name` of exactly this shape. InvalidArgument, with a suggestion for a name
  // that is missing.
  StatusOr<const SafetensorsEntry*> get_floats(std::string_view name,
                                               std::span<const std::int64_t> shape) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  explicit SafetensorsFile(std::shared_ptr<const MappedFile> file) : file_(std::move(file)) {}

  std::shared_ptr<const MappedFile> file_;
  std::vector<SafetensorsEntry> entries_;
  std::map<std::string, std::size_t, std::less<>> index_;
  std::map<std::string, std::string> metadata_;
};

// Has the format a name for the type?
bool safetensors_holds(DType dtype);

struct SafetensorsDecl {
  std::string name;
  DType dtype = DType::kNone;
  std::vector<std::int64_t> shape;
};

// Writes a file tensor by tensor. The data starts at a multiple of 64 (the header is padded with
// blanks); tensors follow each other without gaps, in the order declared, so those with the largest
// elements should come first if a reader is to find all of them aligned.
class SafetensorsWriter {
 public:
  // InvalidArgument: a name twice or "__metadata__", a shape too large, the path not writable.
  static StatusOr<SafetensorsWriter> create(
      const std::string& path, std::span<const SafetensorsDecl> tensors,
      const std::map<std::string, std::string>& metadata = {});

  // Appends data of the declared tensors in order; pieces may end anywhere.
  Status write(std::span<const std::byte> bytes);
  // Internal if more or less was written than declared.
  Status commit();

 private:
  SafetensorsWriter(AtomicFile file, std::uint64_t left) : file_(std::move(file)), left_(left) {}

  AtomicFile file_;
  std::uint64_t left_;  // bytes still to be written
};

}  // namespace mezzo::runtime
