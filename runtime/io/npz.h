// numpy's npz archives: data sets, inputs and outputs of `run`, saved gradients.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/support/dtype.h"
#include "compiler/support/mapped_file.h"
#include "compiler/support/status.h"
#include "runtime/io/npy.h"
#include "runtime/io/zip_archive.h"

namespace mezzo::runtime {

struct ArrayInfo {
  std::string name;  // without ".npy"
  DType dtype = DType::kNone;
  std::vector<std::int64_t> shape;
  std::uint64_t elems = 0;
  std::uint64_t bytes = 0;
};

// The elements of an array in C order, and what keeps them alive: the mapping or a buffer.
struct ArrayData {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

// May the data lie at any address? kAny never copies a stored array; readers then go through
// memcpy. kElement gives addresses that are multiples of the element size.
enum class Alignment { kElement, kAny };

// An npz archive, or a single .npy file seen as an archive with one array named like the file.
// Opening reads headers alone; contents are read, checked and inflated on demand.
class NpzFile {
 public:
  // InvalidArgument: not an npz, damaged, a header that does not fit its member's size.
  // Unimplemented: element types that numpy has and we do not (objects, text, big-endian, ...).
  // Members that are not .npy are ignored.
  static StatusOr<NpzFile> open(const std::string& path);

  const std::string& path() const { return file_->path(); }
  std::span<const ArrayInfo> arrays() const { return arrays_; }
  std::vector<std::string> names() const;
  // Null if there is none; the pointer lives as long as this object.
  const ArrayInfo* find(std::string_view name) const;
  // As find, but a missing array is InvalidArgument with a suggestion and the list of names.
  StatusOr<const ArrayInfo*> get(std::string_view name) const;

  // The contents. Stored, C-ordered, sufficiently aligned data is the mapping itself; else a buffer
  // of exactly the array's size, aligned to 64 bytes. Checksums are compared.
  StatusOr<ArrayData> read(std::string_view name, Alignment alignment = Alignment::kElement) const;

 private:
  explicit NpzFile(std::shared_ptr<const MappedFile> file) : file_(std::move(file)) {}
  Status add(ZipMember member, std::string name);
  std::string where(std::string_view name) const;

  std::shared_ptr<const MappedFile> file_;
  std::vector<ArrayInfo> arrays_;
  std::vector<ZipMember> members_;  // of arrays_[i]
  std::vector<NpyHeader> headers_;  // of arrays_[i]
  bool has_checksums_ = true;       // false for a single .npy
};

// Writes an npz that numpy.load reads, in place only when complete.
class NpzWriter {
 public:
  static StatusOr<NpzWriter> create(const std::string& path);

  // One array in C order. numpy has no bfloat16: such arrays are written as float32, which keeps
  // every value. REQUIRES: bytes.size() == dtype_bytes(dtype, product of shape).
  Status add(std::string_view name, DType dtype, std::span<const std::int64_t> shape,
             std::span<const std::byte> bytes);
  Status commit() { return zip_.commit(); }

 private:
  explicit NpzWriter(ZipWriter zip) : zip_(std::move(zip)) {}
  ZipWriter zip_;
};

}  // namespace mezzo::runtime
