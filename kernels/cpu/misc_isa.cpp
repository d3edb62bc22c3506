// Max-pooling's step and dropout's random numbers.
#include "kernels/cpu/loops.h"
#include "kernels/cpu/vec.h"
#include "kernels/philox.h"

namespace mezzo::kernels::MEZZO_ISA {

void max_with_place(const float* x, std::int32_t at, std::int32_t step, float* best,
                    std::int32_t* place, Int n) {
  alignas(64) std::int32_t first[kLanes];
  for (int i = 0; i < kLanes; ++i) first[i] = at + i * step;
  I here = iload(first);
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
    here = here + iset1(kLanes * step);
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

constexpr int kWide = 32;  // Philox blocks at a time: the compiler turns the loops into vectors

struct WideBlocks {
  alignas(64) std::uint32_t word[4][kWide];
};

// The same rounds as philox4x32 (philox.h), side by side.
void philox_wide(WideBlocks& w, std::uint32_t key0, std::uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < kWide; ++i) {
      const std::uint64_t product0 = std::uint64_t{0xD2511F53U} * w.word[0][i];
      const std::uint64_t product1 = std::uint64_t{0xCD9E8D57U} * w.word[2][i];
      w.word[0][i] = static_cast<std::uint32_t>(product1 >> 32) ^ w.word[1][i] ^ key0;
      w.word[1][i] = static_cast<std::uint32_t>(product1);
      w.word[2][i] = static_cast<std::uint32_t>(product0 >> 32) ^ w.word[3][i] ^ key1;
      w.word[3][i] = static_cast<std::uint32_t>(product0);
    }
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
}

}  // namespace

void dropout_mask(std::uint64_t seed, std::uint64_t step, Int first, std::uint64_t threshold,
                  std::uint8_t* mask, Int n) {
  const auto key0 = static_cast<std::uint32_t>(seed);
  const auto key1 = static_cast<std::uint32_t>(seed >> 32);
  for (Int done = 0; done < n; done += 4 * kWide) {
    WideBlocks w;
    for (int i = 0; i < kWide; ++i) {
      const std::uint64_t block = static_cast<std::uint64_t>((first + done) / 4 + i);
      w.word[0][i] = static_cast<std::uint32_t>(block);
      w.word[1][i] = static_cast<std::uint32_t>(block >> 32);
      w.word[2][i] = static_cast<std::uint32_t>(step);
      w.word[3][i] = static_cast<std::uint32_t>(step >> 32);
    }
    philox_wide(w, key0, key1);
    alignas(64) std::uint8_t kept[4 * kWide];
    for (int i = 0; i < kWide; ++i) {
      for (int k = 0; k < 4; ++k) kept[4 * i + k] = w.word[k][i] >= threshold ? 1 : 0;
    }
    const Int count = n - done < 4 * kWide ? n - done : 4 * kWide;
    for (Int i = 0; i < count; ++i) mask[done + i] = kept[i];
  }
}

}  // namespace mezzo::kernels::MEZZO_ISA
