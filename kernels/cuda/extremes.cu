// ArgMax, ArgMin, TopK: which elements along an axis are the largest or least. NaN counts as beyond
// every number (TopK: as the greatest).
#include <algorithm>

#include "kernels/cuda/element.h"
#include "kernels/cuda/function_kernel.h"
#include "kernels/cuda/index.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/ordered_key.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/rows.h"
#include "kernels/cuda/sort_words.h"
#include "kernels/cuda/unit.h"

namespace mezzo::kernels::cuda {

struct ArgPlan {
  StridedIndex<2> results;  // views x (at the axis' first element) and y
  Int length = 1, stride = 1;
  std::int32_t threads = 1;  // that share a result: a power of 2 within a warp
  std::int32_t least = 0, last = 0, is_wide = 0, is_floating = 0;
  DType x = DType::kNone;
};

// The better of two places; place -1: none.
struct Candidate {
  std::uint64_t key;
  Int place;
};
__device__ inline Candidate better(const ArgPlan& plan, const Candidate& a, const Candidate& b) {
  if (a.place < 0 || b.place < 0) return a.place < 0 ? b : a;
  if (a.key != b.key) return a.key > b.key ? a : b;
  return (a.place < b.place) == (plan.last == 0) ? a : b;
}

__global__ void arg_extreme(ArgPlan plan, const void* x, Int* y) {
  const std::uint64_t all_ones = plan.is_wide != 0 ? ~std::uint64_t{0} : kNarrowKeys;
  const int lane = static_cast<int>(threadIdx.x) % plan.threads;
  const int group = static_cast<int>(threadIdx.x) / plan.threads;
  const Int groups = kBlockThreads / plan.threads;
  for (Int first = blockIdx.x * groups; first < plan.results.elems; first += gridDim.x * groups) {
    const Int number = first + group;
    Candidate best{0, -1};
    Int at[2] = {0, 0};
    if (number < plan.results.elems) {
      plan.results.offsets(number, at);
      for (Int i = lane; i < plan.length; i += plan.threads) {
        std::uint64_t key = load_key(x, at[0] + i * plan.stride, plan.x);
        const bool nan = plan.is_floating != 0 && key == all_ones;
        if (plan.least != 0 && !nan) key = all_ones - key;
        best = better(plan, best, {key, i});
      }
    }
    for (int distance = plan.threads / 2; distance > 0; distance /= 2) {
      const auto far = static_cast<unsigned>(distance);
      const Candidate other{__shfl_down_sync(kWholeWarp, best.key, far),
                            __shfl_down_sync(kWholeWarp, best.place, far)};
      best = better(plan, best, other);
    }
    if (lane == 0 && number < plan.results.elems) y[at[1]] = best.place;
  }
}

// Letters: O outer, N the axis, I inner, K results: x[O,N,I] -> values[O,K,I], indices[O,K,I].
// Lists of words (key, place), one for every outer and inner index, sorted upwards, some of them at
// a time.
struct TopKPlan {
  Int first = 0, lists = 0;  // those at hand
  Int k = 0;
  Divisor length, inner;
  std::int32_t largest = 1;
  DType x = DType::kNone;
};

__device__ inline void set_word(std::uint64_t& word, std::uint64_t key, Int place) {
  word = (key << 32) | static_cast<std::uint64_t>(place);
}
__device__ inline void set_word(WideWord& word, std::uint64_t key, Int place) {
  word = {key, static_cast<std::uint64_t>(place)};
}
__device__ inline Int place_of(std::uint64_t word) { return static_cast<Int>(word & kNarrowKeys); }
__device__ inline Int place_of(const WideWord& word) { return static_cast<Int>(word.low); }

template <typename Word>
__global__ void make_key_words(TopKPlan plan, const void* x, Word* words) {
  const std::uint64_t flip = plan.largest != 0 ? ~std::uint64_t{0} : 0;
  const Int all = plan.lists * plan.length.value();
  const Int step = Int{gridDim.x} * blockDim.x;
  for (Int number = blockIdx.x * Int{blockDim.x} + threadIdx.x; number < all; number += step) {
    Int place = 0;
    Int i = 0;
    const Int outer = plan.inner.divide(plan.first + plan.length.divide(number, place), i);
    const Int at = (outer * plan.length.value() + place) * plan.inner.value() + i;
    std::uint64_t key = load_key(x, at, plan.x) ^ flip;
    if (sizeof(Word) == 8) key &= kNarrowKeys;
    set_word(words[number], key, place);
  }
}

template <typename Word, typename U>
__global__ void take_first(TopKPlan plan, Divisor k, const Word* words, const U* x, U* values,
                           Int* indices) {
  const Int all = plan.lists * plan.k;
  const Int step = Int{gridDim.x} * blockDim.x;
  for (Int number = blockIdx.x * Int{blockDim.x} + threadIdx.x; number < all; number += step) {
    Int j = 0;
    Int i = 0;
    const Int list = k.divide(number, j);
    const Int outer = plan.inner.divide(plan.first + list, i);
    const Int place = place_of(words[list * plan.length.value() + j]);
    const Int to = (outer * plan.k + j) * plan.inner.value() + i;
    if (values != nullptr) {
      values[to] = x[(outer * plan.length.value() + place) * plan.inner.value() + i];
    }
    if (indices != nullptr) indices[to] = place;
  }
}

namespace {

constexpr std::string_view kArgName = "cuda:extreme";
constexpr std::string_view kTopName = "cuda:sorted";

Prepared arg_row(const KernelRequest& request) {
  const TensorDesc& x = request.inputs[0];
  const TensorDesc& y = request.outputs[0];
  if (!has_elements(x.dtype)) return unimplemented("dtype");
  const std::size_t axis = axis_of(request, "axis", 0, x.dims.size());
  const Dims from = strides_within(x, x.dims);
  const bool keeps = y.dims.size() == x.dims.size();
  const Dims to = strides_within(y, y.dims);
  Dims sizes, x_strides, y_strides;
  for (const std::size_t d : memory_order(x.dims.size(), x.layout)) {
    if (d == axis) continue;
    sizes.push_back(x.dims[d]);
    x_strides.push_back(from[d]);
    y_strides.push_back(to[keeps || d < axis ? d : d - 1]);
  }
  ArgPlan plan;
  plan.results = make_index<2>(sizes, {x_strides, y_strides});
  plan.length = x.dims[axis];
  plan.stride = from[axis];
  plan.least = request.op == "ArgMin" ? 1 : 0;
  plan.last = request.attributes.get_int("select_last_index", 0) != 0 ? 1 : 0;
  plan.is_wide = has_wide_key(x.dtype) ? 1 : 0;
  plan.is_floating = is_floating(x.dtype) ? 1 : 0;
  plan.x = x.dtype;
  // Along memory a warp shares a line; otherwise neighbouring threads read neighbours.
  constexpr Int kLeastOfThread = 4;
  if (plan.stride == 1) {
    while (plan.threads < kWarpThreads && plan.threads * kLeastOfThread < plan.length) {
      plan.threads *= 2;
    }
  }
  return make_kernel(kArgName, 0, [plan](const KernelArguments& arguments) {
    if (plan.results.elems == 0) return ok_status();
    return launch<arg_extreme>(shape_for(plan.results.elems * plan.threads), arguments.stream, plan,
                               arguments.inputs[0], static_cast<Int*>(arguments.outputs[0]));
  });
}

// Words that are sorted at a time, if a list is not longer: enough to fill a device.
constexpr Int kMostWords = Int{1} << 20;

Int lists_at_once(const TopKPlan& plan) {
  return std::clamp<Int>(kMostWords / plan.length.value(), 1, std::max<Int>(plan.lists, 1));
}

// The lists of one round.
template <typename Word>
Status run_lists(const TopKPlan& plan, const KernelArguments& arguments) {
  const SortShape shape{plan.lists, plan.length.value()};
  auto* words = static_cast<Word*>(arguments.workspace);
  MEZZO_RETURN_IF_ERROR(launch<make_key_words<Word>>(shape_for(shape.words()), arguments.stream,
                                                     plan, arguments.inputs[0], words));
  MEZZO_ASSIGN_OR_RETURN(const Word* sorted,
                         sort_words(shape, words, words + shape.words(), arguments.stream));
  return with_unit(dtype_bits(plan.x) / 8, [&](auto tag) {
    using U = typename decltype(tag)::Type;
    return launch<take_first<Word, U>>(
        shape_for(plan.lists * plan.k), arguments.stream, plan, Divisor(plan.k), sorted,
        static_cast<const U*>(arguments.inputs[0]), static_cast<U*>(out_buffer(arguments, 0)),
        static_cast<Int*>(out_buffer(arguments, 1)));
  });
}

template <typename Word>
Status run_top_k(const TopKPlan& plan, const KernelArguments& arguments) {
  TopKPlan round = plan;
  for (Int first = 0; first < plan.lists; first += round.lists) {
    round.first = first;
    round.lists = std::min(lists_at_once(plan), plan.lists - first);
    MEZZO_RETURN_IF_ERROR(run_lists<Word>(round, arguments));
  }
  return ok_status();
}

Prepared top_k_row(const KernelRequest& request) {
  const TensorDesc& x = request.inputs[0];
  if (!has_elements(x.dtype)) return unimplemented("dtype");
  const std::size_t axis = axis_of(request, "axis", -1, x.dims.size());
  const TensorDesc& values = out_desc(request, 0);
  TopKPlan plan;
  Int outer = 1;
  Int inner = 1;
  for (std::size_t d = 0; d < x.dims.size(); ++d) {
    if (d < axis) outer *= x.dims[d];
    if (d > axis) inner *= x.dims[d];
  }
  plan.lists = outer * inner;
  plan.k = (values.present() ? values : request.outputs[1]).dims[axis];
  plan.length = Divisor(x.dims[axis]);
  plan.inner = Divisor(inner);
  plan.largest = request.attributes.get_int("largest", 1) != 0 ? 1 : 0;
  plan.x = x.dtype;
  const bool wide = has_wide_key(x.dtype) || x.dims[axis] > static_cast<Int>(kNarrowKeys);
  const std::size_t words = static_cast<std::size_t>(lists_at_once(plan) * plan.length.value()) *
                            (wide ? sizeof(WideWord) : sizeof(std::uint64_t));
  return make_kernel(kTopName, plan.k == 0 ? 0 : 2 * words,
                     [plan, wide](const KernelArguments& arguments) {
                       if (plan.lists * plan.k == 0) return ok_status();
                       return wide ? run_top_k<WideWord>(plan, arguments)
                                   : run_top_k<std::uint64_t>(plan, arguments);
                     });
}

constexpr KernelEntry kRows[] = {
    {"ArgMax", kArgName, arg_row}, {"ArgMin", kArgName, arg_row}, {"TopK", kTopName, top_k_row}};

}  // namespace

std::span<const KernelEntry> extreme_rows() { return kRows; }

}  // namespace mezzo::kernels::cuda
