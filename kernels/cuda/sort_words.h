// Sorting of words that say by themselves what they are, such as (row, place) or (key, index): as
// no two are equal, the sorted order, and all that follows from it, is the same in every run.
//
// Chunks are sorted in shared memory (Batcher: "Sorting Networks and Their Applications", 1968),
// then merged pass by pass, every word finding its place by a binary search.
#pragma once

#include <cstdint>

#include "compiler/support/status.h"
#include "kernels/formulas/host_device.h"

namespace mezzo::kernels::cuda {

// A word of 128 bits.
struct WideWord {
  std::uint64_t high, low;
};
MEZZO_HD inline bool operator<(const WideWord& a, const WideWord& b) {
  return a.high < b.high || (a.high == b.high && a.low < b.low);
}

// `segments` lists of `length` words each, one behind the other, each to be sorted upwards.
struct SortShape {
  std::int64_t segments = 0;
  std::int64_t length = 0;

  std::int64_t words() const { return segments * length; }
};

// Sorts `words`, with as much room in `spare`; gives the one of both that holds the result.
// Word: std::uint64_t or WideWord.
template <typename Word>
StatusOr<const Word*> sort_words(const SortShape& shape, Word* words, Word* spare, void* stream);

extern template StatusOr<const std::uint64_t*> sort_words(const SortShape&, std::uint64_t*,
                                                          std::uint64_t*, void*);
extern template StatusOr<const WideWord*> sort_words(const SortShape&, WideWord*, WideWord*, void*);

// Places in sorted words below which all are less than `word`.
template <typename Word>
MEZZO_HD std::int64_t count_below(const Word* words, std::int64_t count, const Word& word) {
  std::int64_t first = 0;
  while (count > 0) {
    const std::int64_t half = count / 2;
    if (words[first + half] < word) {
      first += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  return first;
}

}  // namespace mezzo::kernels::cuda
