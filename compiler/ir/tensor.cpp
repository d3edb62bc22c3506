#include "compiler/ir/tensor.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cassert>
#include <cstring>

#include "compiler/support/mapped_file.h"

namespace mezzo {

static_assert(std::endian::native == std::endian::little, "tensors are little-endian in memory");

namespace {

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

template <typename T>
TensorRef from_values(DType dtype, std::vector<std::int64_t> dims, std::span<const T> values) {
  std::vector<std::byte> bytes(values.size_bytes());
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return Tensor::from_bytes(dtype, std::move(dims), std::move(bytes));
}

[[maybe_unused]] bool fits(const Tensor& tensor) {
  if (tensor.strings()) {
    return tensor.dtype() == DType::kString &&
           tensor.strings()->size() == static_cast<std::size_t>(tensor.elems());
  }
  if (const auto* cast = std::get_if<Tensor::CastOf>(&tensor.storage())) {
    return is_floating(tensor.dtype()) && is_floating(cast->source->dtype()) &&
           tensor.dims() == cast->source->dims();
  }
  if (const auto* pad = std::get_if<Tensor::PadOf>(&tensor.storage())) {
    const std::vector<std::int64_t>& inner = pad->source->dims();
    return dtype_bits(tensor.dtype()) % 8 == 0 && tensor.dtype() == pad->source->dtype() &&
           std::equal(inner.begin(), inner.end(), tensor.dims().begin(), tensor.dims().end(),
                      std::less_equal<>());
  }
  return tensor.stored_bytes().size() == tensor.byte_size();
}

}  // namespace

Tensor::Tensor(DType dtype, std::vector<std::int64_t> dims, Storage storage, Origin origin)
    : dtype_(dtype),
      dims_(std::move(dims)),
      storage_(std::move(storage)),
      origin_(std::move(origin)),
      id_(next_id()) {
  assert(fits(*this));
}

TensorRef Tensor::from_bytes(DType dtype, std::vector<std::int64_t> dims,
                             std::vector<std::byte> bytes) {
  return std::make_shared<const Tensor>(dtype, std::move(dims), std::move(bytes));
}

TensorRef Tensor::from_ints(std::vector<std::int64_t> dims, std::span<const std::int64_t> values) {
  return from_values(DType::kInt64, std::move(dims), values);
}

TensorRef Tensor::from_floats(std::vector<std::int64_t> dims, std::span<const float> values) {
  return from_values(DType::kFloat32, std::move(dims), values);
}

TensorRef Tensor::cast_of(TensorRef source, DType dtype, bool saturate) {
  if (source->dtype() == dtype) return source;
  std::vector<std::int64_t> dims = source->dims();
  Origin origin = source->origin();
  return std::make_shared<const Tensor>(dtype, std::move(dims), CastOf{std::move(source), saturate},
                                        std::move(origin));
}

TensorRef Tensor::pad_of(TensorRef source, std::vector<std::int64_t> dims) {
  if (source->dims() == dims) return source;
  const DType dtype = source->dtype();
  Origin origin = source->origin();
  return std::make_shared<const Tensor>(dtype, std::move(dims), PadOf{std::move(source)},
                                        std::move(origin));
}

std::int64_t Tensor::elems() const {
  std::int64_t elems = 1;
  for (const std::int64_t dim : dims_) {
    [[maybe_unused]] const bool overflow = __builtin_mul_overflow(elems, dim, &elems);
    assert(dim >= 0 && !overflow);
  }
  return elems;
}

std::size_t Tensor::byte_size() const { return dtype_bytes(dtype_, elems()); }

std::span<const std::byte> Tensor::stored_bytes() const {
  if (const auto* bytes = std::get_if<std::vector<std::byte>>(&storage_)) return *bytes;
  if (const auto* slice = std::get_if<FileSlice>(&storage_)) {
    if (!slice->file) return {};
    const std::span<const std::byte> all = slice->file->bytes();
    if (slice->offset > all.size() || slice->bytes > all.size() - slice->offset) return {};
    return all.subspan(slice->offset, slice->bytes);
  }
  return {};
}

std::vector<std::byte> Tensor::copy_bytes() const {
  std::vector<std::byte> copy;
  copy.reserve(byte_size());
  const Status status = stream([&](std::span<const std::byte> piece) {
    copy.insert(copy.end(), piece.begin(), piece.end());
    return ok_status();
  });
  if (!status.ok()) copy.clear();
  return copy;
}

}  // namespace mezzo
