// Random numbers that are the same everywhere: the standard library leaves the results of its
// distributions and of std::shuffle to each implementation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace mezzo::runtime {

// SplitMix64 (Steele, Lea, Flood 2014): a counter passed through a mixing function. Its whole state
// is one number.
class SplitMix64 {
 public:
  explicit SplitMix64(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15ULL;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }

  // Uniform in [0, bound), without bias (Lemire 2019: the high half of a product, the few
  // low halves that would favour some results drawn again). REQUIRES: bound > 0.
  std::uint64_t below(std::uint64_t bound) {
    const std::uint64_t unfair = (0 - bound) % bound;
    while (true) {
      const unsigned __int128 product = static_cast<unsigned __int128>(next()) * bound;
      if (static_cast<std::uint64_t>(product) >= unfair)
        return static_cast<std::uint64_t>(product >> 64);
    }
  }

 private:
  std::uint64_t state_;
};

// The order of samples 0..n-1 in one epoch: Fisher-Yates from the back, drawing from a SplitMix64
// whose seed is mixed from `seed` and `epoch`. Nothing but these two is needed to make it again.
// REQUIRES: indices.size() <= 2^32.
inline void shuffle_indices(std::uint64_t seed, std::uint64_t epoch,
                            std::span<std::uint32_t> indices) {
  SplitMix64 random(SplitMix64(SplitMix64(seed).next() ^ epoch).next());
  for (std::size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<std::uint32_t>(i);
  for (std::size_t i = indices.size(); i > 1; --i)
    std::swap(indices[i - 1], indices[random.below(i)]);
}

}  // namespace mezzo::runtime
