// Tensor::stream: bytes in pieces, whether stored, cast or padded.
#include <algorithm>
#include <cstring>

#include "compiler/ir/cast_elems.h"
#include "compiler/ir/tensor.h"
#include "compiler/support/mapped_file.h"

namespace mezzo {
namespace {

using Sink = std::function<Status(std::span<const std::byte>)>;

std::size_t elem_bytes(DType dtype) {
  return std::max<std::size_t>(1, static_cast<std::size_t>(dtype_bits(dtype)) / 8);
}

Status stream_stored(const Tensor& tensor, const Sink& sink, std::size_t piece_bytes) {
  std::span<const std::byte> bytes = tensor.stored_bytes();
  if (bytes.size() != tensor.byte_size()) {
    return internal_error("a constant of type " + std::string(dtype_name(tensor.dtype())) +
                          " needs " + std::to_string(tensor.byte_size()) + " bytes, stored are " +
                          std::to_string(bytes.size()));
  }
  const auto* slice = std::get_if<Tensor::FileSlice>(&tensor.storage());
  while (!bytes.empty()) {
    const std::size_t size = std::min(piece_bytes, bytes.size());
    MEZZO_RETURN_IF_ERROR(sink(bytes.first(size)));
    bytes = bytes.subspan(size);
    if (slice) slice->file->note_read(size);
  }
  return ok_status();
}

Status stream_cast(const Tensor& tensor, const Tensor::CastOf& cast, const Sink& sink,
                   std::size_t piece_bytes) {
  const DType from = cast.source->dtype();
  const DType to = tensor.dtype();
  if (!is_floating(from) || !is_floating(to)) {
    return internal_error("stored casts are between floating types, not from " +
                          std::string(dtype_name(from)) + " to " + std::string(dtype_name(to)));
  }
  const Overflow overflow = cast.saturate ? Overflow::kSaturate : Overflow::kInfinity;
  const std::size_t from_bytes = elem_bytes(from);
  const std::size_t to_bytes = elem_bytes(to);
  const std::size_t piece_elems =
      std::max<std::size_t>(1, piece_bytes / std::max(from_bytes, to_bytes));
  const auto total_elems = static_cast<std::size_t>(tensor.elems());
  std::vector<std::byte> block(std::min(piece_elems, total_elems) * to_bytes);
  const auto cast_piece = [&](std::span<const std::byte> piece) {
    const std::size_t elems = piece.size() / from_bytes;
    cast_elems(from, to, overflow, piece.data(), block.data(), elems);
    return sink(std::span(block).first(elems * to_bytes));
  };
  return cast.source->stream(cast_piece, piece_elems * from_bytes);
}

// Collects bytes and hands them on in pieces of `piece_bytes`.
class PieceWriter {
 public:
  PieceWriter(const Sink& sink, std::size_t piece_bytes)
      : sink_(&sink), piece_(piece_bytes, std::byte{0}) {}

  // `source` null: zeros.
  Status write(const std::byte* source, std::size_t bytes) {
    written_ += bytes;
    while (bytes > 0) {
      const std::size_t size = std::min(bytes, piece_.size() - fill_);
      if (source) {
        std::memcpy(piece_.data() + fill_, source, size);
        source += size;
      } else {
        std::memset(piece_.data() + fill_, 0, size);
      }
      fill_ += size;
      bytes -= size;
      if (fill_ == piece_.size()) MEZZO_RETURN_IF_ERROR(flush());
    }
    return ok_status();
  }
  Status flush() {
    if (fill_ == 0) return ok_status();
    return (*sink_)(std::span(piece_).first(std::exchange(fill_, 0)));
  }
  std::size_t written_bytes() const { return written_; }

 private:
  const Sink* sink_;
  std::vector<std::byte> piece_;
  std::size_t fill_ = 0;
  std::size_t written_ = 0;
};

// Where the bytes of a tensor go when it lies at the origin of a larger one. Both are looked at as
// rows that are contiguous in both: from the last padded axis on.
class PadLayout {
 public:
  PadLayout(const std::vector<std::int64_t>& from, const std::vector<std::int64_t>& to,
            std::size_t elem_bytes)
      : from_(from), to_(to) {
    while (axis_ > 0 && axis_ < from.size() && from[axis_] == to[axis_]) --axis_;
    row_bytes_ = stride_bytes_ = elem_bytes;
    for (std::size_t i = axis_; i < from.size(); ++i) {
      row_bytes_ *= static_cast<std::size_t>(from[i]);
      stride_bytes_ *= static_cast<std::size_t>(to[i]);
    }
  }
  std::size_t row_bytes() const { return row_bytes_; }
  std::size_t row_offset(std::size_t row) const {
    std::size_t offset = 0;
    std::size_t stride = stride_bytes_;
    for (std::size_t i = axis_; i-- > 0;) {
      offset += row % static_cast<std::size_t>(from_[i]) * stride;
      row /= static_cast<std::size_t>(from_[i]);
      stride *= static_cast<std::size_t>(to_[i]);
    }
    return offset;
  }

 private:
  const std::vector<std::int64_t>& from_;
  const std::vector<std::int64_t>& to_;
  std::size_t axis_ = from_.empty() ? 0 : from_.size() - 1;
  std::size_t row_bytes_ = 0, stride_bytes_ = 0;
};

Status stream_padded(const Tensor& tensor, const Tensor& source, const Sink& sink,
                     std::size_t piece_bytes) {
  if (dtype_bits(tensor.dtype()) % 8 != 0 || tensor.dims().size() != source.dims().size()) {
    return internal_error("padding of a constant of type " +
                          std::string(dtype_name(tensor.dtype())) + " or to another rank");
  }
  const std::size_t total_bytes = tensor.byte_size();
  PieceWriter writer(sink, std::max<std::size_t>(1, std::min(piece_bytes, total_bytes)));
  const PadLayout layout(source.dims(), tensor.dims(), elem_bytes(tensor.dtype()));
  std::size_t row = 0;
  std::size_t row_fill = 0;  // bytes of the row that are out already
  const auto place = [&](std::span<const std::byte> piece) {
    while (!piece.empty()) {
      if (row_fill == 0) {
        const std::size_t gap = layout.row_offset(row) - writer.written_bytes();
        MEZZO_RETURN_IF_ERROR(writer.write(nullptr, gap));
      }
      const std::size_t size = std::min(piece.size(), layout.row_bytes() - row_fill);
      MEZZO_RETURN_IF_ERROR(writer.write(piece.data(), size));
      piece = piece.subspan(size);
      row_fill += size;
      if (row_fill == layout.row_bytes()) {
        ++row;
        row_fill = 0;
      }
    }
    return ok_status();
  };
  MEZZO_RETURN_IF_ERROR(source.stream(place, piece_bytes));
  MEZZO_RETURN_IF_ERROR(writer.write(nullptr, total_bytes - writer.written_bytes()));
  return writer.flush();
}

}  // namespace

Status Tensor::stream(const Sink& sink, std::size_t piece_bytes) const {
  if (strings()) return internal_error("a string constant has no bytes to stream");
  const std::size_t unit = elem_bytes(dtype_);
  const std::size_t whole = std::max<std::size_t>(1, piece_bytes / unit) * unit;
  if (const auto* cast = std::get_if<CastOf>(&storage_)) {
    return stream_cast(*this, *cast, sink, whole);
  }
  if (const auto* pad = std::get_if<PadOf>(&storage_)) {
    return stream_padded(*this, *pad->source, sink, whole);
  }
  return stream_stored(*this, sink, whole);
}

}  // namespace mezzo
