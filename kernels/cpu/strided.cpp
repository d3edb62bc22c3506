// Dims that both views walk through alike are joined. Then the result's innermost dim is a run of
// the operand (memcpy), one repeated element (fill), or it lies strided there; if in that last case
// another dim is the operand's innermost, the two form matrices that are transposed in blocks.
#include "kernels/cpu/strided.h"

#include <array>
#include <cstring>

namespace mezzo::kernels::cpu {
namespace {

constexpr Int kPiece = 16384;  // elements of the last dim per unit
constexpr Int kTurn = 256;     // rows and columns of a matrix per unit
constexpr Int kGroup = 16384;  // elements per unit where the last dim is short

template <typename T>
void fill(void* to, const void* from, Int n) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  std::fill_n(static_cast<T*>(to), n, value);
}

template <typename T>
void gather(void* to, Int to_stride, const void* from, Int from_stride, Int n) {
  auto* out = static_cast<T*>(to);
  const auto* in = static_cast<const T*>(from);
  for (Int i = 0; i < n; ++i) out[i * to_stride] = in[i * from_stride];
}

void fill_elems(Int bytes, void* to, const void* from, Int n) {
  switch (bytes) {
    case 1: return fill<std::uint8_t>(to, from, n);
    case 2: return fill<std::uint16_t>(to, from, n);
    case 4: return fill<std::uint32_t>(to, from, n);
    default: return fill<std::uint64_t>(to, from, n);
  }
}

void gather_elems(Int bytes, void* to, Int to_stride, const void* from, Int from_stride, Int n) {
  switch (bytes) {
    case 1: return gather<std::uint8_t>(to, to_stride, from, from_stride, n);
    case 2: return gather<std::uint16_t>(to, to_stride, from, from_stride, n);
    case 4: return gather<std::uint32_t>(to, to_stride, from, from_stride, n);
    default: return gather<std::uint64_t>(to, to_stride, from, from_stride, n);
  }
}

}  // namespace

StridedCopy StridedCopy::make(std::int64_t elem_bytes, const Dims& sizes, const Dims& from_strides,
                              const Dims& to_strides, const std::vector<std::size_t>& order,
                              Int from_start, Int to_start) {
  StridedCopy copy;
  copy.elem_bytes_ = elem_bytes;
  copy.from_start_ = from_start;
  copy.to_start_ = to_start;
  copy.elems_ = 1;
  std::vector<Axis>& axes = copy.outer_;
  for (const std::size_t dim : order) {
    const Axis axis{sizes[dim], from_strides[dim], to_strides[dim]};
    copy.elems_ *= axis.size;
    if (axis.size == 1) continue;
    if (!axes.empty() && axes.back().from == axis.from * axis.size &&
        axes.back().to == axis.to * axis.size) {
      axes.back() = {axes.back().size * axis.size, axis.from, axis.to};
    } else {
      axes.push_back(axis);
    }
  }
  if (axes.empty()) return copy;
  copy.last_ = axes.back();
  axes.pop_back();
  if (copy.last_.to != 1) {
    copy.inner_ = Inner::kStrided;
  } else if (copy.last_.from == 0) {
    copy.inner_ = Inner::kRepeat;
  } else if (copy.last_.from != 1) {
    copy.inner_ = Inner::kStrided;
    for (std::size_t i = 0; i < axes.size() && copy.last_.from > 0; ++i) {
      if (axes[i].from != 1 || copy.turned_.from == 1) continue;
      copy.inner_ = Inner::kTranspose;
      copy.turned_ = axes[i];
      axes.erase(axes.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  return copy;
}

// Elements from `first` on of the last dim (and, transposing, from `second` on of the other).
void StridedCopy::run_inner(const Isa& isa, const char* from, char* to, Int first,
                            Int second) const {
  from += (first * last_.from + second * turned_.from) * elem_bytes_;
  to += (first * last_.to + second * turned_.to) * elem_bytes_;
  const Int n = std::min(inner_ == Inner::kTranspose ? kTurn : kPiece, last_.size - first);
  switch (inner_) {
    case Inner::kRun: std::memcpy(to, from, static_cast<std::size_t>(n * elem_bytes_)); return;
    case Inner::kRepeat: return fill_elems(elem_bytes_, to, from, n);
    case Inner::kStrided: return gather_elems(elem_bytes_, to, last_.to, from, last_.from, n);
    case Inner::kTranspose:
      return isa.transpose(static_cast<int>(elem_bytes_), from, last_.from, to, turned_.to, n,
                           std::min(kTurn, turned_.size - second));
  }
}

void StridedCopy::run(const Isa& isa, const void* from_data, void* to_data, int threads) const {
  if (elems_ == 0) return;
  const char* from = static_cast<const char*>(from_data) + from_start_ * elem_bytes_;
  char* to = static_cast<char*>(to_data) + to_start_ * elem_bytes_;
  const bool turns = inner_ == Inner::kTranspose;
  const Int step = turns ? kTurn : kPiece;
  const Int pieces = ceil_div(last_.size, step);
  const Int slabs = turns ? ceil_div(turned_.size, kTurn) : 1;
  const Int per_outer = pieces * slabs;
  Int outer = 1;
  for (const Axis& axis : outer_) outer *= axis.size;
  const Int jobs = outer * per_outer;
  const Int group =
      std::max<Int>(1, kGroup / (std::min(last_.size, step) * std::min(turned_.size, kTurn)));
  parallel_units(ceil_div(jobs, group), threads_for(elems_, threads), [&](Int unit, int) {
    Int job = unit * group;
    const Int end = std::min(jobs, job + group);
    // The place of the first job, then one step of an odometer per outer index.
    std::array<Int, kMaxRank> index{};
    Int from_at = 0;
    Int to_at = 0;
    Int rest = job / per_outer;
    for (std::size_t d = outer_.size(); d > 0; --d) {
      index[d - 1] = rest % outer_[d - 1].size;
      rest /= outer_[d - 1].size;
      from_at += index[d - 1] * outer_[d - 1].from;
      to_at += index[d - 1] * outer_[d - 1].to;
    }
    for (; job < end; ++job) {
      const Int piece = job % per_outer;
      run_inner(isa, from + from_at * elem_bytes_, to + to_at * elem_bytes_, piece / slabs * step,
                piece % slabs * kTurn);
      if (piece + 1 < per_outer) continue;
      for (std::size_t d = outer_.size(); d > 0; --d) {
        const Axis& axis = outer_[d - 1];
        from_at += axis.from;
        to_at += axis.to;
        if (++index[d - 1] < axis.size) break;
        from_at -= axis.from * axis.size;
        to_at -= axis.to * axis.size;
        index[d - 1] = 0;
      }
    }
  });
}

StatusOr<Int> movable_bytes(DType dtype) {
  const int bits = dtype_bits(dtype);
  if (bits == 8 || bits == 16 || bits == 32 || bits == 64) return Int{bits / 8};
  return unimplemented("elements of " + std::to_string(bits) + " bits");
}

void fill_zero(void* to, std::size_t bytes, int threads) {
  constexpr Int kBytes = 1 << 18;
  const auto all = static_cast<Int>(bytes);
  parallel_units(ceil_div(all, kBytes), threads_for(all / 4, threads), [&](Int unit, int) {
    const Int first = unit * kBytes;
    std::memset(static_cast<char*>(to) + first, 0,
                static_cast<std::size_t>(std::min(kBytes, all - first)));
  });
}

}  // namespace mezzo::kernels::cpu
