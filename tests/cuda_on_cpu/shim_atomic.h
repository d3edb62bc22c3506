// Atomic operations on global and shared memory. Part of shim.h.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace cuda_on_cpu {

template <std::size_t kBytes>
using BitsOf = std::conditional_t<kBytes == 8, std::uint64_t,
                                  std::conditional_t<kBytes == 4, std::uint32_t, std::uint16_t>>;

// Replaces *at by change(*at) as one step, returns what was there. Blocks run at the same time.
template <typename T, typename Change>
T exchange(T* at, Change change) {
  static_assert(sizeof(T) == 2 || sizeof(T) == 4 || sizeof(T) == 8);
  using Bits = BitsOf<sizeof(T)>;
  auto* const bits = reinterpret_cast<Bits*>(at);
  Bits before = __atomic_load_n(bits, __ATOMIC_RELAXED);
  for (;;) {
    T value;
    std::memcpy(&value, &before, sizeof value);
    const T changed = change(value);
    Bits after;
    std::memcpy(&after, &changed, sizeof after);
    if (__atomic_compare_exchange_n(bits, &before, after, true, __ATOMIC_SEQ_CST,
                                    __ATOMIC_RELAXED)) {
      return value;
    }
  }
}

template <typename T>
using Same = std::type_identity_t<T>;

}  // namespace cuda_on_cpu

template <typename T>
T atomicAdd(T* at, cuda_on_cpu::Same<T> value) {
  return cuda_on_cpu::exchange(at, [&](T was) { return static_cast<T>(was + value); });
}
template <typename T>
T atomicSub(T* at, cuda_on_cpu::Same<T> value) {
  return cuda_on_cpu::exchange(at, [&](T was) { return static_cast<T>(was - value); });
}
template <typename T>
T atomicMin(T* at, cuda_on_cpu::Same<T> value) {
  return cuda_on_cpu::exchange(at, [&](T was) { return value < was ? value : was; });
}
template <typename T>
T atomicMax(T* at, cuda_on_cpu::Same<T> value) {
  return cuda_on_cpu::exchange(at, [&](T was) { return was < value ? value : was; });
}
template <typename T>
T atomicAnd(T* at, cuda_on_cpu::Same<T> value) {
  return cuda_on_cpu::exchange(at, [&](T was) { return static_cast<T>(was & value); });
}
template <typename T>
T atomicOr(T* at, cuda_on_cpu::Same<T> value) {
  return cuda_on_cpu::exchange(at, [&](T was) { return static_cast<T>(was | value); });
}
template <typename T>
T atomicXor(T* at, cuda_on_cpu::Same<T> value) {
  return cuda_on_cpu::exchange(at, [&](T was) { return static_cast<T>(was ^ value); });
}
template <typename T>
T atomicExch(T* at, cuda_on_cpu::Same<T> value) {
  return cuda_on_cpu::exchange(at, [&](T) { return value; });
}
// Compares bits, as the device does.
template <typename T>
T atomicCAS(T* at, cuda_on_cpu::Same<T> expected, cuda_on_cpu::Same<T> value) {
  return cuda_on_cpu::exchange(
      at, [&](T was) { return std::memcmp(&was, &expected, sizeof was) == 0 ? value : was; });
}
inline unsigned atomicInc(unsigned* at, unsigned most) {
  return cuda_on_cpu::exchange(at, [&](unsigned was) { return was >= most ? 0U : was + 1U; });
}
inline unsigned atomicDec(unsigned* at, unsigned most) {
  return cuda_on_cpu::exchange(
      at, [&](unsigned was) { return was == 0U || was > most ? most : was - 1U; });
}

inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
