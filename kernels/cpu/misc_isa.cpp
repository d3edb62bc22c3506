// Max-pooling's step and dropout's random numbers.
#include "kernels/cpu/loops.h"
#include "kernels/cpu/vec.h"

namespace mezzo::kernels::MEZZO_ISA {

void max_of_rows(const float* const* rows, Int count, float* y, Int n) {
  for (Int i = 0; i < n; i += kLanes) {
    const int width = static_cast<int>(n - i < kLanes ? n - i : kLanes);
    F best = load_n(rows[0] + i, width);
    for (Int r = 1; r < count; ++r) best = max_nan(best, load_n(rows[r] + i, width));
    store_n(y + i, best, width);
  }
}

void max_with_place(const float* x, std::int32_t at, std::int32_t step, float* best,
                    std::int32_t* place, Int n) {
  alignas(64) std::int32_t first[kLanes];
  // Lanes beyond n may wrap around.
  const auto wrapped_step = static_cast<std::uint32_t>(step);
  for (std::uint32_t i = 0; i < kLanes; ++i) {
    first[i] = static_cast<std::int32_t>(static_cast<std::uint32_t>(at) + i * wrapped_step);
  }
  I here = iload(first);
  const I lanes_step = iset1(static_cast<std::int32_t>(kLanes * wrapped_step));
  const auto better = [](F value, F old, I old_place) {
    return (old < value) | (is_nan(value) & (old == old)) |
           (shift_right<31>(old_place) == iset1(-1));
  };
  Int i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const F value = load(x + i);
    const F old = load(best + i);
    const I old_place = iload(place + i);
    const M wins = better(value, old, old_place);
    store(best + i, select(wins, value, old));
    istore(place + i, select(wins, here, old_place));
    here = here + lanes_step;
  }
  if (const int rest = static_cast<int>(n - i); rest > 0) {
    const F value = load_n(x + i, rest);
    const F old = load_n(best + i, rest);
    const I old_place = bits(load_n(reinterpret_cast<const float*>(place + i), rest));
    const M wins = better(value, old, old_place);
    store_n(best + i, select(wins, value, old), rest);
    store_n(reinterpret_cast<float*>(place + i), from_bits(select(wins, here, old_place)), rest);
  }
}

void take_every(const float* x, Int stride, float* to, Int n) {
  if (stride == 2) {  // of its own, as the compiler then shuffles whole vectors
    for (Int i = 0; i + 1 < n; ++i) to[i] = x[2 * i];
    if (n > 0) to[n - 1] = x[2 * (n - 1)];
    return;
  }
  for (Int i = 0; i < n; ++i) to[i] = x[i * stride];
}

namespace {

// Both halves of the 64-bit products of every lane with `factor`.
struct Product {
  I high;
  I low;
};

#if defined(__AVX512F__)
Product multiply(I a, std::uint32_t factor) {
  const __m512i f = _mm512_set1_epi32(static_cast<int>(factor));
  const __m512i even = _mm512_mul_epu32(a.v, f);  // lanes 0, 2, ..
  const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(a.v, 32), f);
  return {{_mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 32), odd)},
          {_mm512_mask_blend_epi32(0xaaaa, even, _mm512_slli_epi64(odd, 32))}};
}
// 1 where word >= threshold, both without sign.
M at_least(I word, std::uint32_t threshold) {
  return {_mm512_cmpge_epu32_mask(word.v, _mm512_set1_epi32(static_cast<int>(threshold)))};
}
#else
Product multiply(I a, std::uint32_t factor) {
  const __m256i f = _mm256_set1_epi32(static_cast<int>(factor));
  const __m256i even = _mm256_mul_epu32(a.v, f);
  const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(a.v, 32), f);
  return {{_mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa)},
          {_mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa)}};
}
M at_least(I word, std::uint32_t threshold) {
  const __m256i t = _mm256_set1_epi32(static_cast<int>(threshold));
  return {_mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_max_epu32(word.v, t), word.v))};
}
#endif

// philox4x32 (philox.h) on kLanes blocks side by side.
void philox(I (&word)[4], std::uint32_t key0, std::uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const Product product0 = multiply(word[0], 0xD2511F53U);
    const Product product1 = multiply(word[2], 0xCD9E8D57U);
    word[0] = product1.high ^ word[1] ^ iset1(static_cast<std::int32_t>(key0));
    word[1] = product1.low;
    word[2] = product0.high ^ word[3] ^ iset1(static_cast<std::int32_t>(key1));
    word[3] = product0.low;
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
}

}  // namespace

void dropout_mask(std::uint64_t seed, std::uint64_t step, Int first, std::uint64_t threshold,
                  std::uint8_t* mask, Int n) {
  constexpr int kWidth = 4 * kLanes;          // numbers at a time
  const bool none = threshold > 0xffffffffU;  // nothing is kept
  alignas(64) std::int32_t count_up[kLanes];
  for (int i = 0; i < kLanes; ++i) count_up[i] = i;
  const I iota = iload(count_up);
  const auto as_int = [](std::uint64_t word) { return static_cast<std::int32_t>(word); };
  for (Int done = 0; done < n; done += kWidth) {
    const std::uint64_t block = static_cast<std::uint64_t>((first + done) / 4);
    const I low = iset1(as_int(block)) + iota;
    const M same_high = at_least(low, static_cast<std::uint32_t>(block));  // else it wrapped
    const I high = select(same_high, iset1(as_int(block >> 32)), iset1(as_int((block >> 32) + 1)));
    I word[4] = {low, high, iset1(as_int(step)), iset1(as_int(step >> 32))};
    philox(word, static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32));
    // The four words of a block are its four bytes of the mask, lowest first.
    I bytes = iset1(0);
    for (int k = 3; k >= 0; --k) {
      const M kept = at_least(word[k], static_cast<std::uint32_t>(threshold));
      bytes = shift_left<8>(bytes) | select(kept, iset1(none ? 0 : 1), iset1(0));
    }
    if (done + kWidth <= n) {
      istore(reinterpret_cast<std::int32_t*>(mask + done), bytes);
    } else {
      alignas(64) std::uint8_t all[kWidth];
      istore(reinterpret_cast<std::int32_t*>(all), bytes);
      __builtin_memcpy(mask + done, all, static_cast<std::size_t>(n - done));
    }
  }
}

}  // namespace mezzo::kernels::MEZZO_ISA
