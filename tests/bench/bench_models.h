// The models that training_bench trains, made in memory with seeded random weights.
//
// tools/bench_vs_torch builds the same two in PyTorch: keep them alike.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "compiler/ir/graph.h"
#include "compiler/support/status.h"

namespace mezzo::bench {

// ResNet for 32x32 images, three stages of one block each (as the 8-layer ResNet of the CIFAR
// papers) at 64, 128 and 256 channels instead of 16, 32 and 64; batch normalisation, ReLU.
// Inputs x: float32 [batch, 3, 32, 32], y: int64 [batch]; output loss [].
StatusOr<std::unique_ptr<Model>> make_wide_resnet(std::int64_t batch);

// BERT: token and position embeddings, two post-norm transformer layers of width 256 with 4 heads
// and GELU, 64 positions, a classifier on the first one.
// Inputs x: int64 [batch, 64], y: int64 [batch]; output loss [].
StatusOr<std::unique_ptr<Model>> make_bert(std::int64_t batch);

inline constexpr std::int64_t kClasses = 10;
inline constexpr std::int64_t kPositions = 64;
inline constexpr std::int64_t kVocabulary = 1024;

}  // namespace mezzo::bench
