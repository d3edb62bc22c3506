#include "kernels/mapped_copy.h"

#include <algorithm>
#include <cstring>

namespace mezzo::kernels {
namespace {

using Int = std::int64_t;

bool is_identity(const std::vector<Int>& map, Int size) {
  if (static_cast<Int>(map.size()) != size) return false;
  for (Int i = 0; i < size; ++i) {
    if (map[static_cast<std::size_t>(i)] != i) return false;
  }
  return true;
}

template <typename T>
void gather(const std::byte* from, std::byte* to, const void* fill, const std::vector<Int>& map) {
  const auto* in = reinterpret_cast<const T*>(from);
  auto* out = reinterpret_cast<T*>(to);
  T value{};
  if (fill != nullptr) std::memcpy(&value, fill, sizeof(T));
  for (std::size_t i = 0; i < map.size(); ++i) {
    out[i] = map[i] == MappedCopy::kFill ? value : in[map[i]];
  }
}

template <typename T>
void gather_all(const std::byte* from, std::byte* to, const std::vector<Int>& map) {
  const auto* in = reinterpret_cast<const T*>(from);
  auto* out = reinterpret_cast<T*>(to);
  for (std::size_t i = 0; i < map.size(); ++i) out[i] = in[map[i]];
}

}  // namespace

MappedCopy MappedCopy::make(const std::vector<Int>& from_dims, std::vector<std::vector<Int>> maps,
                            std::size_t element_bytes) {
  MappedCopy copy;
  copy.element_bytes_ = element_bytes;
  std::size_t mapped = maps.size();
  Int unit = 1;
  while (mapped > 1 && is_identity(maps[mapped - 1], from_dims[mapped - 1])) {
    unit *= from_dims[--mapped];
  }
  copy.unit_bytes_ = static_cast<std::size_t>(unit) * element_bytes;
  if (mapped > 0) {
    copy.inner_ = std::move(maps[mapped - 1]);
  } else {
    copy.inner_ = {0};
  }
  copy.row_bytes_ = copy.inner_.size() * copy.unit_bytes_;
  Int stride = static_cast<Int>(copy.unit_bytes_) * (mapped > 0 ? from_dims[mapped - 1] : 1);
  for (std::size_t d = mapped > 0 ? mapped - 1 : 0; d > 0; --d) {
    std::vector<Int> offsets = std::move(maps[d - 1]);
    copy.rows_ *= static_cast<Int>(offsets.size());
    for (Int& offset : offsets) {
      copy.fills_ = copy.fills_ || offset == kFill;
      if (offset != kFill) offset *= stride;
    }
    stride *= from_dims[d - 1];
    copy.outer_.insert(copy.outer_.begin(), std::move(offsets));
  }
  copy.make_runs();
  return copy;
}

void MappedCopy::make_runs() {
  for (std::size_t i = 0; i < inner_.size();) {
    const Int from = inner_[i];
    std::size_t end = i + 1;
    while (end < inner_.size() && inner_[end] == (from == kFill ? kFill : inner_[end - 1] + 1)) {
      ++end;
    }
    fills_ = fills_ || from == kFill;
    runs_.push_back({static_cast<Int>(i), from, static_cast<Int>(end - i)});
    i = end;
  }
  // Short runs of single elements cost more than looking every element up.
  if (unit_bytes_ == element_bytes_ && runs_.size() * 16 > inner_.size()) runs_.clear();
}

void MappedCopy::fill_units(std::byte* to, const void* fill, Int units) const {
  const std::size_t bytes = static_cast<std::size_t>(units) * unit_bytes_;
  if (bytes == 0) return;
  std::memcpy(to, fill, element_bytes_);
  for (std::size_t done = element_bytes_; done < bytes;) {
    const std::size_t more = std::min(done, bytes - done);
    std::memcpy(to + done, to, more);
    done += more;
  }
}

void MappedCopy::copy_row(const std::byte* from, std::byte* to, const void* fill) const {
  if (!runs_.empty()) {
    for (const Run& run : runs_) {
      std::byte* target = to + static_cast<std::size_t>(run.to) * unit_bytes_;
      if (run.from == kFill) {
        fill_units(target, fill, run.size);
      } else {
        std::memcpy(target, from + static_cast<std::size_t>(run.from) * unit_bytes_,
                    static_cast<std::size_t>(run.size) * unit_bytes_);
      }
    }
    return;
  }
  switch (element_bytes_) {
    case 1:
      return fills_ ? gather<std::uint8_t>(from, to, fill, inner_)
                    : gather_all<std::uint8_t>(from, to, inner_);
    case 2:
      return fills_ ? gather<std::uint16_t>(from, to, fill, inner_)
                    : gather_all<std::uint16_t>(from, to, inner_);
    case 4:
      return fills_ ? gather<std::uint32_t>(from, to, fill, inner_)
                    : gather_all<std::uint32_t>(from, to, inner_);
    case 8:
      return fills_ ? gather<std::uint64_t>(from, to, fill, inner_)
                    : gather_all<std::uint64_t>(from, to, inner_);
    default: break;
  }
  for (std::size_t i = 0; i < inner_.size(); ++i) {
    const void* source =
        inner_[i] == kFill ? fill : from + static_cast<std::size_t>(inner_[i]) * element_bytes_;
    std::memcpy(to + i * element_bytes_, source, element_bytes_);
  }
}

// Rows that come from the same place as the row before are copies of it.
void MappedCopy::run(const void* from, void* to, const void* fill, Int first_row,
                     Int last_row) const {
  if (row_bytes_ == 0 || first_row >= last_row) return;
  std::vector<Int>::size_type dims = outer_.size();
  Int index[16] = {};
  Int rest = first_row;
  for (std::size_t d = dims; d > 0; --d) {
    const auto size = static_cast<Int>(outer_[d - 1].size());
    index[d - 1] = rest % size;
    rest /= size;
  }
  Int previous = -2;
  auto* target = static_cast<std::byte*>(to) + static_cast<std::size_t>(first_row) * row_bytes_;
  for (Int row = first_row; row < last_row; ++row, target += row_bytes_) {
    Int place = 0;
    for (std::size_t d = 0; d < dims && place != kFill; ++d) {
      const Int offset = outer_[d][static_cast<std::size_t>(index[d])];
      place = offset == kFill ? kFill : place + offset;
    }
    if (place == previous) {
      std::memcpy(target, target - row_bytes_, row_bytes_);
    } else if (place == kFill) {
      fill_units(target, fill, static_cast<Int>(inner_.size()));
    } else {
      copy_row(static_cast<const std::byte*>(from) + place, target, fill);
    }
    previous = place;
    for (std::size_t d = dims; d > 0; --d) {
      if (++index[d - 1] < static_cast<Int>(outer_[d - 1].size())) break;
      index[d - 1] = 0;
    }
  }
}

}  // namespace mezzo::kernels
