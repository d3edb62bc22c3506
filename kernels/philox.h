// Counter-based random numbers: Philox 4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel Random
// Numbers: As Easy as 1, 2, 3", SC 2011), and how Dropout draws from it.
//
// Numbers depend on (seed, counter, element) alone, so every implementation, thread count and
// resumed run gives the same mask. This file fixes the bits: it must not change.
//
// Dropout of ratio r: element i (its place in row-major order, whatever the layout) takes word
// i % 4 of philox4x32(counter words {block lo, block hi, step lo, step hi}, key {seed lo, seed
// hi}) with block = i / 4, step = the counter operand. It is kept if that word, as an integer in
// [0, 2^32), is at least dropout_threshold(r); a kept element is multiplied by dropout_scale(r).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/formulas/host_device.h"

namespace mezzo::kernels {

// Four words (std::array's functions are none of a device's).
struct PhiloxBlock {
  std::uint32_t words[4];

  MEZZO_HD constexpr std::uint32_t operator[](std::size_t i) const { return words[i]; }
};

MEZZO_HD constexpr PhiloxBlock philox4x32(PhiloxBlock counter, std::uint32_t key0,
                                          std::uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53U} * counter[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57U} * counter[2];
    counter = {{static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key0,
                static_cast<std::uint32_t>(product1),
                static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key1,
                static_cast<std::uint32_t>(product0)}};
    key0 += 0x9E3779B9U;
    key1 += 0xBB67AE85U;
  }
  return counter;
}

// The four words for elements 4 block .. 4 block + 3.
MEZZO_HD constexpr PhiloxBlock dropout_block(std::uint64_t seed, std::uint64_t step,
                                             std::uint64_t block) {
  return philox4x32({{static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
                      static_cast<std::uint32_t>(step), static_cast<std::uint32_t>(step >> 32)}},
                    static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32));
}

// Words below are dropped: ratio 2^32, rounded down. REQUIRES: 0 <= ratio <= 1.
constexpr std::uint64_t dropout_threshold(double ratio) {
  return static_cast<std::uint64_t>(ratio * 4294967296.0);
}

// A number in [0, 1) of 53 bits.
MEZZO_HD constexpr double uniform_of(std::uint32_t high, std::uint32_t low) {
  return static_cast<double>((std::uint64_t{high} << 21) ^ (low >> 11)) * 0x1p-53;
}

// For draws of other distributions (RandomUniform, RandomNormal, Bernoulli, Multinomial): two
// numbers in [0, 1) of 53 bits each, for elements 2 pair and 2 pair + 1 of draw `step`. The high
// bit of `step` keeps them apart from the words that Dropout takes.
struct UniformPair {
  double first, second;
};
MEZZO_HD constexpr UniformPair philox_pair(std::uint64_t seed, std::uint64_t step,
                                           std::uint64_t pair) {
  const PhiloxBlock words = dropout_block(seed, step | (std::uint64_t{1} << 63), pair);
  return {uniform_of(words[0], words[1]), uniform_of(words[2], words[3])};
}

// 1 / (1 - ratio); 0 for ratio 1, where nothing is kept.
constexpr double dropout_scale(double ratio) { return ratio < 1.0 ? 1.0 / (1.0 - ratio) : 0.0; }

}  // namespace mezzo::kernels
