// The one elementwise kernel: every thread interprets the program on kPerThread elements at a time,
// so that the cost of reading a step is shared. All threads take the same branches.
//
// A block works on tiles of kGroups groups of elements; in a group, a thread has kNeighbours that
// lie side by side, which are one access of up to 16 bytes, and neighbouring threads have
// neighbouring ones. All elements of a thread are read before the first is written, so that the
// result may lie where a dense operand does.
#include "kernels/cuda/element.h"
#include "kernels/cuda/element_run.h"
#include "kernels/cuda/fault.h"
#include "kernels/cuda/launch.h"

namespace mezzo::kernels::cuda {
namespace {

constexpr int kNeighbours = 4;

// Numbers of 8 bytes take twice the registers.
template <typename T>
inline constexpr int kGroups = sizeof(T) == 4 ? 4 : 2;
template <typename T>
inline constexpr int kPerThread = kNeighbours* kGroups<T>;
template <typename T>
using Numbers = T[kPerThread<T>];

// The elements that a thread works on: group g has `count[g]` from number `first[g]` on.
template <int kGroupCount>
struct Share {
  Int first[kGroupCount];
  int count[kGroupCount];
};
template <typename T>
using ShareOf = Share<kGroups<T>>;

// Where element `number` of the result lies in a strided operand.
__device__ __forceinline__ Int offset_in(const StridedIndex<kElementViews>& index, int view,
                                         Int number) {
  if (index.is_narrow != 0) {
    std::int32_t sum = 0;
    auto left = static_cast<std::uint32_t>(number);
#pragma unroll 1
    for (int d = index.rank - 1; d >= 0; --d) {
      const std::uint32_t next = d > 0 ? index.sizes[d].narrow_quotient(left) : 0;
      const auto place = static_cast<std::int32_t>(
          left - next * static_cast<std::uint32_t>(index.sizes[d].value()));
      sum += place * static_cast<std::int32_t>(index.strides[view][d]);
      left = next;
    }
    return sum;
  }
  Int sum = 0;
#pragma unroll 1
  for (int d = index.rank - 1; d >= 0; --d) {
    Int place = number;
    if (d > 0) number = index.sizes[d].divide(number, place);
    sum += place * index.strides[view][d];
  }
  return sum;
}

template <typename T>
__device__ __forceinline__ void fetch_strided(const ElementRun& run, int view,
                                              const ShareOf<T>& share, Numbers<T>& to) {
  const ElementOperand& operand = run.operands[view];
  const Int step = run.index.strides[view][run.index.rank - 1];
#pragma unroll
  for (int g = 0; g < kGroups<T>; ++g) {
    if (share.count[g] == 0) continue;
    Int at[kNeighbours];
    at[0] = offset_in(run.index, view, share.first[g]);
#pragma unroll
    for (int i = 1; i < kNeighbours; ++i) {
      at[i] = at[0] + i * step;
      if (run.whole_rows == 0 && i < share.count[g]) {
        at[i] = offset_in(run.index, view, share.first[g] + i);
      }
    }
    with_element(operand.dtype, [&](auto tag) {
      using U = typename decltype(tag)::Type;
      const U* from = static_cast<const U*>(operand.data);
      T* group = to + g * kNeighbours;
      if (run.whole_rows != 0 && step == 1) {
        load_neighbours<kNeighbours>(from + at[0], group, share.count[g]);
      } else {
#pragma unroll
        for (int i = 0; i < kNeighbours; ++i) {
          group[i] = i < share.count[g] ? number_of<T>(from[at[i]]) : T{0};
        }
      }
    });
  }
}

template <typename T>
__device__ __forceinline__ void fetch(const ElementRun& run, int view, const ShareOf<T>& share,
                                      Numbers<T>& to) {
  const ElementOperand& operand = run.operands[view];
  if (operand.access == ElementAccess::kStrided) return fetch_strided<T>(run, view, share, to);
  with_element(operand.dtype, [&](auto tag) {
    using U = typename decltype(tag)::Type;
    const U* from = static_cast<const U*>(operand.data);
    if (operand.access == ElementAccess::kOne) {
      const T one = number_of<T>(*from);
#pragma unroll
      for (int i = 0; i < kPerThread<T>; ++i) to[i] = one;
    } else {
#pragma unroll
      for (int g = 0; g < kGroups<T>; ++g) {
        load_neighbours<kNeighbours>(from + share.first[g], to + g * kNeighbours, share.count[g]);
      }
    }
  });
}

template <typename T>
__device__ __forceinline__ void copy(const Numbers<T>& from, Numbers<T>& to) {
#pragma unroll
  for (int i = 0; i < kPerThread<T>; ++i) to[i] = from[i];
}

// a = each a through a 16-bit float and back.
template <typename U, typename T>
__device__ __forceinline__ void round_to(Numbers<T>& a) {
#pragma unroll
  for (int i = 0; i < kPerThread<T>; ++i) a[i] = number_of<T>(element_of<U>(a[i]));
}

// Reports divisors that are 0 and replaces them. `view`: the operand they are from.
template <typename T>
__device__ __forceinline__ void check_divisors(const ElementRun& run, int view,
                                               const ShareOf<T>& share, Numbers<T>& b) {
#pragma unroll
  for (int i = 0; i < kPerThread<T>; ++i) {
    if (b[i] != T{0}) continue;
    b[i] = T{1};
    const int g = i / kNeighbours;
    if (i % kNeighbours >= share.count[g]) continue;
    Int place = share.first[g] + i % kNeighbours;
    if (run.operands[view].access == ElementAccess::kStrided) {
      place = offset_in(run.index, view, place);
    } else if (run.operands[view].access == ElementAccess::kOne) {
      place = 0;
    }
    report_fault(run.fault, run.step, view, place, 0);
  }
}

template <typename T>
struct Four {
  T x[4];
};

// What any operation makes of four elements. Called, not copied into the kernel: there are many.
template <typename T>
__device__ MEZZO_CALLED Four<T> apply_any(ElementOp op, double alpha, double beta, Four<T> a,
                                          Four<T> b, Four<T> c) {
  const auto each = [&](auto formula) {
#pragma unroll
    for (int i = 0; i < 4; ++i) a.x[i] = formula(a.x[i], b.x[i], c.x[i]);
  };
  if constexpr (std::is_floating_point_v<T>) {
    with_formula(op, static_cast<T>(alpha), static_cast<T>(beta), each);
  } else {
    with_integer_formula(op, static_cast<T>(alpha), static_cast<T>(beta), each);
  }
  return a;
}

// The same of all elements, taken for numbers of type N. `c` may be null.
template <typename N, typename T>
__device__ __forceinline__ void apply_any_as(const ElementStep& step, Numbers<T>& a,
                                             const Numbers<T>& b, const T* c) {
#pragma unroll
  for (int k = 0; k < kPerThread<T>; k += 4) {
    Four<N> first, second, third{};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      first.x[i] = static_cast<N>(a[k + i]);
      second.x[i] = static_cast<N>(b[k + i]);
      if (c != nullptr) third.x[i] = static_cast<N>(c[k + i]);
    }
    const Four<N> y = apply_any<N>(step.op, step.alpha, step.beta, first, second, third);
#pragma unroll
    for (int i = 0; i < 4; ++i) a[k + i] = static_cast<T>(y.x[i]);
  }
}

// Those that most programs are made of.
template <typename T>
__device__ __forceinline__ bool apply_common(ElementOp op, Numbers<T>& a, const Numbers<T>& b) {
  const auto each = [&](auto formula) {
#pragma unroll
    for (int i = 0; i < kPerThread<T>; ++i) a[i] = formula(a[i], b[i]);
  };
  switch (op) {
    case ElementOp::kIdentity: break;
    case ElementOp::kAdd: each([](T x, T y) { return x + y; }); break;
    case ElementOp::kSub: each([](T x, T y) { return x - y; }); break;
    case ElementOp::kMul: each([](T x, T y) { return x * y; }); break;
    case ElementOp::kRelu: each([](T x, T) { return formulas::relu(x); }); break;
    case ElementOp::kReluGrad: each([](T x, T y) { return y > T(0) ? x : T(0); }); break;
    case ElementOp::kToHalf: round_to<__half, T>(a); break;
    case ElementOp::kToBrain: round_to<__nv_bfloat16, T>(a); break;
    default: return false;
  }
  return true;
}

template <typename T>
__device__ __forceinline__ void apply(const ElementRun& run, const ElementStep& step,
                                      const ShareOf<T>& share, Numbers<T>& a, Numbers<T>& b,
                                      const T* c) {
  if (step.swapped) {
#pragma unroll
    for (int i = 0; i < kPerThread<T>; ++i) {
      const T kept = a[i];
      a[i] = b[i];
      b[i] = kept;
    }
  }
  if constexpr (std::is_floating_point_v<T>) {
    if (apply_common<T>(step.op, a, b)) return;
  } else {
    const bool divides =
        step.op == ElementOp::kDiv || step.op == ElementOp::kMod || step.op == ElementOp::kFMod;
    if (divides) check_divisors<T>(run, step.index, share, b);
  }
  if constexpr (std::is_integral_v<T>) {
    if (run.is_unsigned != 0) return apply_any_as<std::uint64_t, T>(step, a, b, c);
  }
  apply_any_as<T, T>(step, a, b, c);
}

template <typename U, typename T>
__device__ __forceinline__ void store(const ElementRun& run, const ShareOf<T>& share,
                                      const Numbers<T>& a) {
  U* to = static_cast<U*>(run.y);
#pragma unroll
  for (int g = 0; g < kGroups<T>; ++g) {
    const T* from = a + g * kNeighbours;
    if constexpr (std::is_integral_v<T> && !std::is_integral_v<U>) {  // to a float, sign matters
      if (run.is_unsigned != 0) {
        std::uint64_t large[kNeighbours];
#pragma unroll
        for (int i = 0; i < kNeighbours; ++i) large[i] = static_cast<std::uint64_t>(from[i]);
        store_neighbours<kNeighbours>(to + share.first[g], large, share.count[g]);
        continue;
      }
    }
    store_neighbours<kNeighbours>(to + share.first[g], from, share.count[g]);
  }
}

}  // namespace

template <typename T>
__global__ void __launch_bounds__(kBlockThreads, 3)
    interpret_elements(const __grid_constant__ ElementRun run) {
  const Int group = static_cast<Int>(blockDim.x) * kNeighbours;
  const Int elems = run.index.elems;
  for (Int tile = blockIdx.x; tile * group * kGroups<T> < elems; tile += gridDim.x) {
    ShareOf<T> share;
#pragma unroll
    for (int g = 0; g < kGroups<T>; ++g) {
      share.first[g] =
          (tile * kGroups<T> + g) * group + static_cast<Int>(threadIdx.x) * kNeighbours;
      const Int left = elems - share.first[g];
      share.count[g] = left >= kNeighbours ? kNeighbours : left > 0 ? static_cast<int>(left) : 0;
    }
    Numbers<T> a = {}, b = {};
    // Few programs need more numbers; they lie in memory and leave the registers to more threads.
    T kept[kElementRegisters + 1][kPerThread<T>];
    T* third = nullptr;
    for (int s = 0; s < run.steps; ++s) {
      const ElementStep& step = run.program[s];
      switch (step.source) {
        case ElementStep::Source::kNone: break;
        case ElementStep::Source::kOperand: fetch<T>(run, step.index, share, b); break;
        case ElementStep::Source::kNumber:
#pragma unroll
          for (int i = 0; i < kPerThread<T>; ++i) b[i] = static_cast<T>(step.number);
          break;
        case ElementStep::Source::kAccumulator: copy<T>(a, b); break;
        case ElementStep::Source::kRegister: copy<T>(kept[step.index], b); break;
      }
      switch (step.kind) {
        case ElementStep::Kind::kLoad: copy<T>(b, a); break;
        case ElementStep::Kind::kThird:
          third = kept[kElementRegisters];
          copy<T>(b, kept[kElementRegisters]);
          break;
        case ElementStep::Kind::kApply: apply<T>(run, step, share, a, b, third); break;
      }
      if (step.save >= 0) copy<T>(a, kept[step.save]);
    }
    with_element(run.y_dtype,
                 [&](auto tag) { store<typename decltype(tag)::Type, T>(run, share, a); });
  }
}

template <typename T>
Status launch_elements_of(const ElementRun& run, int multiprocessors, void* stream) {
  const Int elems = run.index.elems;
  // Smaller blocks where large ones would leave parts of the device idle.
  const bool few = elems < kBlockThreads * kPerThread<T> * multiprocessors;
  const Int threads = few ? kBlockThreads / 4 : kBlockThreads;
  const Int tiles = ceil_div(elems, threads * kPerThread<T>);
  const LaunchShape shape{dim3(static_cast<unsigned>(std::min<Int>(tiles, 1 << 16))),
                          dim3(static_cast<unsigned>(threads)), 0};
  return launch<interpret_elements<T>>(shape, stream, run);
}

Status launch_elements(const ElementRun& run, ElementDomain domain, int multiprocessors,
                       void* stream) {
  switch (domain) {
    case ElementDomain::kFloat: return launch_elements_of<float>(run, multiprocessors, stream);
    case ElementDomain::kDouble: return launch_elements_of<double>(run, multiprocessors, stream);
    default: return launch_elements_of<std::int64_t>(run, multiprocessors, stream);
  }
}

}  // namespace mezzo::kernels::cuda
