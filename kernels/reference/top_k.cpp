// TopK along one axis. Every element becomes an unsigned key that orders as the elements do, with
// its position behind it so that the lower index wins among equals: one word per element, compared
// as a whole. NaN is greater than all numbers, -0 equals 0.
#include <algorithm>
#include <bit>

#include "compiler/support/text.h"
#include "kernels/reference/families.h"
#include "kernels/reference/indices.h"

namespace mezzo::kernels::reference {
namespace {

using Int = std::int64_t;
__extension__ typedef unsigned __int128 Wide;

template <typename T>
auto key_of(T element) {
  if constexpr (std::is_same_v<T, double>) {
    if (std::isnan(element)) return ~std::uint64_t{0};
    const auto bits = std::bit_cast<std::uint64_t>(element == 0 ? 0.0 : element);
    return (bits >> 63) != 0 ? ~bits : bits | (std::uint64_t{1} << 63);
  } else if constexpr (kIsFloat<T>) {
    const auto value = static_cast<float>(decode(element));
    if (std::isnan(value)) return ~std::uint32_t{0};
    const auto bits = std::bit_cast<std::uint32_t>(value == 0 ? 0.0F : value);
    return (bits >> 31) != 0 ? ~bits : bits | (std::uint32_t{1} << 31);
  } else if constexpr (std::is_same_v<T, Bool>) {
    return static_cast<std::uint32_t>(element.bits != 0);
  } else if constexpr (sizeof(T) == 8) {
    const auto bits = static_cast<std::uint64_t>(element);
    return std::is_signed_v<T> ? bits ^ (std::uint64_t{1} << 63) : bits;
  } else {
    const auto bits = static_cast<std::uint32_t>(element);
    return std::is_signed_v<T> ? bits ^ (std::uint32_t{1} << 31) : bits;
  }
}

struct TopKPlan {
  AxisView view;
  Int k = 0;
  bool largest = true;
  DType dtype = DType::kNone;

  bool narrow() const { return dtype_bits(dtype) <= 32 && view.size < (std::int64_t{1} << 32); }
};

// The words of one lane in descending order of (key, lower index), as far as `k`.
template <typename Word>
void select(Word* words, Int n, Int k) {
  const auto greater = std::greater<Word>();
  if (k <= n / 8) {
    // A heap with the least of the best k on top; most elements fail against it.
    std::make_heap(words, words + k, greater);
    for (Int i = k; i < n; ++i) {
      if (words[i] <= words[0]) continue;
      std::pop_heap(words, words + k, greater);
      std::swap(words[k - 1], words[i]);
      std::push_heap(words, words + k, greater);
    }
  } else if (k < n) {
    std::nth_element(words, words + k - 1, words + n, greater);
  }
  std::sort(words, words + k, greater);
}

template <typename Word, typename T>
void top_k_lane(const TopKPlan& plan, const T* x, Word* words, T* values, Int* indices) {
  using Key = decltype(key_of(T{}));
  constexpr int kIndexBits = static_cast<int>(sizeof(Word) * 4);
  constexpr Word kIndexMask = (Word{1} << kIndexBits) - 1;
  const auto flip = plan.largest ? Key{0} : static_cast<Key>(~Key{0});
  for (Int i = 0; i < plan.view.size; ++i) {
    const auto key = static_cast<Key>(key_of(x[i * plan.view.inner]) ^ flip);
    words[i] = (Word{key} << kIndexBits) | (kIndexMask - static_cast<Word>(i));
  }
  select(words, plan.view.size, plan.k);
  for (Int j = 0; j < plan.k; ++j) {
    const Int index = static_cast<Int>(kIndexMask - (words[j] & kIndexMask));
    if (values != nullptr) values[j * plan.view.inner] = x[index * plan.view.inner];
    if (indices != nullptr) indices[j * plan.view.inner] = index;
  }
}

template <typename T>
void top_k(const TopKPlan& plan, const KernelArguments& arguments) {
  const T* x = static_cast<const T*>(arguments.inputs[0]);
  T* values = static_cast<T*>(out_buffer(arguments, 0));
  Int* indices = static_cast<Int*>(out_buffer(arguments, 1));
  for (Int lane = 0; lane < plan.view.outer * plan.view.inner; ++lane) {
    const Int o = lane / plan.view.inner;
    const Int i = lane % plan.view.inner;
    const T* from = x + o * plan.view.size * plan.view.inner + i;
    const Int to = o * plan.k * plan.view.inner + i;
    T* lane_values = values == nullptr ? nullptr : values + to;
    Int* lane_indices = indices == nullptr ? nullptr : indices + to;
    if constexpr (sizeof(T) < 8) {
      if (plan.narrow()) {
        auto* words = static_cast<std::uint64_t*>(arguments.workspace);
        top_k_lane(plan, from, words, lane_values, lane_indices);
        continue;
      }
    }
    top_k_lane(plan, from, static_cast<Wide*>(arguments.workspace), lane_values, lane_indices);
  }
}

}  // namespace

PreparedKernel prepare_top_k(const KernelRequest& request) {
  MEZZO_ASSIGN_OR_RETURN(const Operands operands,
                         Operands::check(request, "x:v -> values?:v indices?:l"));
  MEZZO_RETURN_IF_ERROR(expect_row_major(operands));
  const TensorDesc& x = operands.in(0);
  MEZZO_RETURN_IF_ERROR(operands.expect_in_rank(0, 1, kMaxRank));
  if (operands.out(0).present() && operands.out(0).dtype != x.dtype) {
    return operands.out_error(0, "expected dtype " + std::string(dtype_name(x.dtype)));
  }
  const Dims& result = operands.out(operands.out(0).present() ? 0 : 1).dims;
  MEZZO_ASSIGN_OR_RETURN(const Int axis, operands.axis("axis", -1, x.dims.size()));
  MEZZO_ASSIGN_OR_RETURN(const bool largest, operands.flag("largest", true));
  const auto a = static_cast<std::size_t>(axis);
  Dims expected = x.dims;
  if (result.size() == x.dims.size()) expected[a] = result[a];
  MEZZO_RETURN_IF_ERROR(operands.expect_out(0, expected));
  MEZZO_RETURN_IF_ERROR(operands.expect_out(1, expected));
  TopKPlan plan{view_along(x.dims, a), expected[a], largest, x.dtype};
  if (plan.k > plan.view.size) {
    return operands.error("k is " + std::to_string(plan.k) + ", the axis has size " +
                          std::to_string(plan.view.size));
  }
  const auto words = static_cast<std::size_t>(plan.view.size);
  return make_kernel(
      [plan](const KernelArguments& arguments) {
        if (plan.k == 0) return;
        with_element_type(plan.dtype, [&](auto element) {
          top_k<typename decltype(element)::Type>(plan, arguments);
        });
      },
      words * (plan.narrow() ? sizeof(std::uint64_t) : sizeof(Wide)));
}

}  // namespace mezzo::kernels::reference
