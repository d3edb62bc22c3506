// Constant tensors: weights, and tensors in attributes.
//
// A Tensor is immutable and shared. Its bytes are little-endian, row-major, packed below 8 bits,
// as in ONNX's raw_data. They lie in a mapped file (in-file raw_data or external data), in a
// buffer of their own, or are computed from another tensor when somebody asks (a weight stored in
// low precision): looking at a model never copies its weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "compiler/support/dtype.h"
#include "compiler/support/status.h"

namespace mezzo {

class MappedFile;
class Tensor;
using TensorRef = std::shared_ptr<const Tensor>;
using StringPairs = std::vector<std::pair<std::string, std::string>>;

class Tensor {
 public:
  // Which of TensorProto's fields held the data; kept so that export gives the same model.
  enum class Field : std::uint8_t { kRaw, kTyped, kExternal };
  struct FileSlice {
    std::shared_ptr<const MappedFile> file;
    std::size_t offset = 0;
    std::size_t bytes = 0;
  };
  // Elements of `source` cast to the tensor's dtype (round to nearest even; with `saturate`,
  // values beyond the range become the largest finite value of their sign).
  struct CastOf {
    TensorRef source;
    bool saturate = false;
  };
  // `source` placed at the origin of a larger tensor that is zero elsewhere.
  struct PadOf {
    TensorRef source;
  };
  using Storage =
      std::variant<FileSlice, std::vector<std::byte>, std::vector<std::string>, CastOf, PadOf>;

  // What ONNX stores beside the data and export gives back.
  struct Origin {
    Field field = Field::kRaw;
    std::string doc_string;
    StringPairs external_data;  // location, offset, length, checksum as found
    StringPairs metadata;
    std::int64_t segment_begin = 0, segment_end = 0;
    bool has_segment = false;
  };

  // REQUIRES: the storage fits dtype and dims, elems() and byte_size() do not overflow (asserted in
  // debug builds; the importer checks files).
  Tensor(DType dtype, std::vector<std::int64_t> dims, Storage storage, Origin origin);
  Tensor(DType dtype, std::vector<std::int64_t> dims, Storage storage)
      : Tensor(dtype, std::move(dims), std::move(storage), Origin()) {}

  static TensorRef from_bytes(DType dtype, std::vector<std::int64_t> dims,
                              std::vector<std::byte> bytes);
  static TensorRef from_ints(std::vector<std::int64_t> dims, std::span<const std::int64_t> values);
  static TensorRef from_floats(std::vector<std::int64_t> dims, std::span<const float> values);
  // A scalar of any floating, integer or bool dtype, rounded to nearest even; integers saturate.
  static TensorRef scalar(DType dtype, double value);
  // Keeps what source's origin says, so that it is stored where source was. REQUIRES: is_floating
  // for both dtypes. Gives `source` itself if it has the dtype.
  static TensorRef cast_of(TensorRef source, DType dtype, bool saturate);
  // Keeps the origin as well. REQUIRES: same rank, no dimension smaller than source's, elements of
  // whole bytes.
  static TensorRef pad_of(TensorRef source, std::vector<std::int64_t> dims);

  DType dtype() const { return dtype_; }
  const std::vector<std::int64_t>& dims() const { return dims_; }
  std::int64_t elems() const;
  std::size_t byte_size() const;
  const Storage& storage() const { return storage_; }
  const Origin& origin() const { return origin_; }
  // Differs for every tensor made in this process; copies share it, as they hold the same data.
  std::uint64_t id() const { return id_; }
  const std::vector<std::string>* strings() const {
    return std::get_if<std::vector<std::string>>(&storage_);
  }

  // The bytes where they lie in a file or buffer; empty for computed and string tensors.
  std::span<const std::byte> stored_bytes() const;
  static constexpr std::size_t kPieceBytes = std::size_t{1} << 18;  // stays in a core's cache
  // All bytes, computed if need be, handed to `sink` in order in pieces of at most `piece_bytes`
  // (at least one element) that hold whole elements. Memory in use does not grow with the tensor.
  // Stops at sink's first error and returns it. Internal error for string tensors.
  Status stream(const std::function<Status(std::span<const std::byte>)>& sink,
                std::size_t piece_bytes = kPieceBytes) const;
  // A copy of all bytes, empty for string tensors. For small tensors and where a copy is what is
  // wanted.
  std::vector<std::byte> copy_bytes() const;

  // Elements as double (floating, integer and bool types) or int64 (integer and bool types; uint64
  // beyond the range wraps); for small constants. Empty for other types: strings, complex numbers
  // and floating types of 8 bits or fewer.
  std::vector<double> to_doubles() const;
  std::vector<std::int64_t> to_ints() const;

 private:
  DType dtype_;
  std::vector<std::int64_t> dims_;
  Storage storage_;
  Origin origin_;
  std::uint64_t id_;
};

struct SparseTensor {
  TensorRef values;   // [NNZ]; the name of a sparse initializer is its values' name
  TensorRef indices;  // [NNZ] or [NNZ, rank]
  std::string indices_name;
  std::vector<std::int64_t> dims;
  std::string values_name;  // in an attribute; an initializer is named by its Value
};

}  // namespace mezzo
