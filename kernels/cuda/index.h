// From the number of an element to where it lies: strides of up to 12 dims packed into a kernel
// parameter, and division by fixed numbers without dividing.
//
// Everything is right for all tensors that a request may have (request_check.h); 32-bit arithmetic
// is used where the sizes allow it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "kernels/formulas/host_device.h"
#include "kernels/kernel.h"
#include "kernels/request_check.h"

namespace mezzo::kernels::cuda {

using Int = std::int64_t;
using Dims = std::vector<std::int64_t>;

inline constexpr int kMaxDims = static_cast<int>(kMaxRank);
inline constexpr Int kNarrowLimit = Int{1} << 31;  // numbers below take 32-bit arithmetic

MEZZO_HD constexpr Int ceil_div(Int a, Int b) { return (a + b - 1) / b; }

// Division by a number fixed when the kernel is prepared (Granlund, Montgomery: "Division by
// Invariant Integers using Multiplication", PLDI 1994, figure 4.1).
class Divisor {
 public:
  Divisor() = default;
  // REQUIRES: value >= 0; a divisor of 0 counts as 1.
  explicit Divisor(Int value) : value_(value == 0 ? 1 : value) {
    if (value_ > kNarrowLimit) return;
    while ((Int{1} << shift_) < value_) ++shift_;
    const auto distance = static_cast<std::uint64_t>((Int{1} << shift_) - value_);
    multiplier_ =
        static_cast<std::uint32_t>((distance << 32) / static_cast<std::uint64_t>(value_) + 1);
  }

  MEZZO_HD Int value() const { return value_; }

  // n / value(). REQUIRES: n < 2^31 and value() <= 2^31.
  MEZZO_HD std::uint32_t narrow_quotient(std::uint32_t n) const {
    const auto high = static_cast<std::uint32_t>((std::uint64_t{n} * multiplier_) >> 32);
    return (high + n) >> shift_;
  }
  // n / value(). REQUIRES: n >= 0.
  MEZZO_HD Int quotient(Int n) const {
    if ((n | (value_ - 1)) < kNarrowLimit) return narrow_quotient(static_cast<std::uint32_t>(n));
    return n / value_;
  }
  // n / value(), and the remainder in `rest`.
  MEZZO_HD Int divide(Int n, Int& rest) const {
    const Int result = quotient(n);
    rest = n - result * value_;
    return result;
  }

 private:
  Int value_ = 1;
  std::uint32_t multiplier_ = 1, shift_ = 0;
};

// kViews tensors that are walked through together: dims outermost first, each with its size and
// how many elements its neighbours are apart in each view (any number, negative and 0 too).
// Dims of one element are left out, and neighbours that every view walks through as if they were
// one are joined.
template <int kViews>
struct StridedIndex {
  std::int32_t rank = 0;       // after joining; 0: one element
  std::int32_t is_narrow = 1;  // element numbers and offsets stay below 2^31
  Int elems = 1;
  Divisor sizes[kMaxDims];
  Int strides[kViews][kMaxDims] = {};

  // The offset of element `number` (counted in the order of the dims) in every view.
  // REQUIRES: 0 <= number < elems.
  MEZZO_HD void offsets(Int number, Int (&offsets)[kViews]) const {
    if (is_narrow != 0) {
      std::int32_t sums[kViews] = {};
      auto left = static_cast<std::uint32_t>(number);
      for (int d = rank - 1; d >= 0; --d) {
        const std::uint32_t next = d > 0 ? sizes[d].narrow_quotient(left) : 0;
        const auto place =
            static_cast<std::int32_t>(left - next * static_cast<std::uint32_t>(sizes[d].value()));
        for (int v = 0; v < kViews; ++v)
          sums[v] += place * static_cast<std::int32_t>(strides[v][d]);
        left = next;
      }
      for (int v = 0; v < kViews; ++v) offsets[v] = sums[v];
      return;
    }
    for (int v = 0; v < kViews; ++v) offsets[v] = 0;
    for (int d = rank - 1; d >= 0; --d) {
      Int place = number;
      if (d > 0) number = sizes[d].divide(number, place);
      for (int v = 0; v < kViews; ++v) offsets[v] += place * strides[v][d];
    }
  }
};

// REQUIRES: sizes and every strides[v] have one length, at most kMaxDims; sizes are not negative,
// offsets and the number of elements fit into 63 bits.
template <int kViews>
StridedIndex<kViews> make_index(const Dims& sizes, const std::array<Dims, kViews>& strides) {
  StridedIndex<kViews> index;
  Int extents[kViews] = {};
  int rank = 0;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    index.elems *= sizes[d];
    if (sizes[d] == 1) continue;
    bool joins = rank > 0;
    for (int v = 0; v < kViews; ++v) {
      const Int stride = strides[static_cast<std::size_t>(v)][d];
      joins = joins && index.strides[v][rank - 1] == stride * sizes[d];
      extents[v] += (sizes[d] - 1) * (stride < 0 ? -stride : stride);
    }
    if (joins) {
      index.sizes[rank - 1] = Divisor(index.sizes[rank - 1].value() * sizes[d]);
    } else {
      index.sizes[rank++] = Divisor(sizes[d]);
    }
    for (int v = 0; v < kViews; ++v) {
      index.strides[v][rank - 1] = strides[static_cast<std::size_t>(v)][d];
    }
  }
  index.rank = rank;
  bool narrow = index.elems < kNarrowLimit;
  for (const Int extent : extents) narrow = narrow && extent < kNarrowLimit;
  index.is_narrow = narrow ? 1 : 0;
  return index;
}

// Elements between neighbours of `desc` along every dim of `dims`, to which it is broadcast
// (aligned right); 0 along dims where it has size 1 or none.
inline Dims strides_within(const TensorDesc& desc, const Dims& dims) {
  const std::size_t rank = desc.dims.size();
  Dims dense(rank, 0);
  Int step = 1;
  const auto place = [&](std::size_t d) {
    dense[d] = step;
    step *= desc.dims[d];
  };
  const bool channels_last = desc.layout == Layout::kChannelsLast && rank >= 3;
  if (channels_last) place(1);
  for (std::size_t d = rank; d > 0; --d) {
    if (!channels_last || d != 2) place(d - 1);
  }
  Dims strides(dims.size(), 0);
  for (std::size_t d = 0; d < rank; ++d) {
    if (desc.dims[d] != 1) strides[dims.size() - rank + d] = dense[d];
  }
  return strides;
}

// The dims of a tensor in the order of its memory, outermost first.
inline std::vector<std::size_t> memory_order(std::size_t rank, Layout layout) {
  std::vector<std::size_t> order;
  const bool channels_last = layout == Layout::kChannelsLast && rank >= 3;
  for (std::size_t d = 0; d < rank; ++d) {
    if (!channels_last || d != 1) order.push_back(d);
  }
  if (channels_last) order.push_back(1);
  return order;
}

// `values` in the order `order`.
inline Dims ordered(const Dims& values, const std::vector<std::size_t>& order) {
  Dims result;
  for (const std::size_t d : order) result.push_back(values[d]);
  return result;
}

}  // namespace mezzo::kernels::cuda
