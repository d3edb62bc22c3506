#include "kernels/cuda/sort_words.h"

#include <algorithm>
#include <utility>

#include "kernels/cuda/index.h"
#include "kernels/cuda/launch.h"

namespace mezzo::kernels::cuda {

constexpr int kMostChunk = 1024;
constexpr Int kMostBlocks = 1024;  // enough to fill a device

__device__ inline void set_to_last(std::uint64_t& word) { word = ~std::uint64_t{0}; }
__device__ inline void set_to_last(WideWord& word) {
  word = {~std::uint64_t{0}, ~std::uint64_t{0}};
}

// Block: chunk / 2 threads, `chunk` a power of 2. Every chunk of a segment is sorted in place.
template <typename Word>
__global__ void sort_chunks(Word* words, Int length, Divisor chunks, Int all, int chunk) {
  __shared__ Word room[kMostChunk];
  const int thread = static_cast<int>(threadIdx.x);
  for (Int number = blockIdx.x; number < all; number += gridDim.x) {
    Int place = 0;
    Word* const from = words + chunks.divide(number, place) * length + place * chunk;
    const Int left = length - place * chunk;
    for (int i = thread; i < chunk; i += chunk / 2) {
      if (i < left) {
        room[i] = from[i];
      } else {
        set_to_last(room[i]);
      }
    }
    for (int run = 2; run <= chunk; run *= 2) {
      for (int distance = run / 2; distance > 0; distance /= 2) {
        __syncthreads();
        const int low = 2 * thread - (thread & (distance - 1));
        const int high = low + distance;
        const bool upwards = (low & run) == 0;
        const Word a = room[low];
        const Word b = room[high];
        if ((b < a) == upwards) {
          room[low] = b;
          room[high] = a;
        }
      }
    }
    __syncthreads();
    // A thread's places are its own here and where the next chunk is read.
    for (int i = thread; i < chunk && i < left; i += chunk / 2) from[i] = room[i];
  }
}

// Runs of `run` words become runs of twice as many. Equal words of the left run stay in front.
template <typename Word>
__global__ void merge_runs(const Word* words, Word* to, Divisor length, Divisor run, Int all) {
  const Int step = Int{gridDim.x} * blockDim.x;
  for (Int number = blockIdx.x * Int{blockDim.x} + threadIdx.x; number < all; number += step) {
    Int at = 0;
    const Int segment = length.divide(number, at) * length.value();
    Int place = 0;
    const Int own = run.divide(at, place);
    const Int other = (own ^ 1) * run.value();
    Int others = length.value() - other;
    if (others > run.value()) others = run.value();
    const Word word = words[number];
    Int before = 0;
    if (others > 0) {
      const Word* list = words + segment + other;
      before = count_below(list, others, word);
      if ((own & 1) != 0) {  // of the right run: behind its equals in the left one
        while (before < others && !(word < list[before])) ++before;
      }
    }
    const Int first = own & 1 ? other : own * run.value();
    to[segment + first + place + before] = word;
  }
}

template <typename Word>
StatusOr<const Word*> sort_words(const SortShape& shape, Word* words, Word* spare, void* stream) {
  if (shape.words() == 0 || shape.length < 2) return static_cast<const Word*>(words);
  int chunk = 2;
  while (chunk < kMostChunk && chunk < shape.length) chunk *= 2;
  const Int chunks = ceil_div(shape.length, chunk);
  LaunchShape blocks;
  blocks.grid = dim3(static_cast<unsigned>(limit_blocks(chunks * shape.segments, kMostBlocks)));
  blocks.block = dim3(static_cast<unsigned>(chunk / 2));
  MEZZO_RETURN_IF_ERROR(launch<sort_chunks<Word>>(blocks, stream, words, shape.length,
                                                  Divisor(chunks), chunks * shape.segments, chunk));
  for (Int run = chunk; run < shape.length; run *= 2) {
    MEZZO_RETURN_IF_ERROR(
        launch<merge_runs<Word>>(shape_for(shape.words()), stream, static_cast<const Word*>(words),
                                 spare, Divisor(shape.length), Divisor(run), shape.words()));
    std::swap(words, spare);
  }
  return static_cast<const Word*>(words);
}

template StatusOr<const std::uint64_t*> sort_words(const SortShape&, std::uint64_t*, std::uint64_t*,
                                                   void*);
template StatusOr<const WideWord*> sort_words(const SortShape&, WideWord*, WideWord*, void*);

}  // namespace mezzo::kernels::cuda
