// Which loss `attach-loss` adds to a graph that has none; what the words of `mezzo train --loss`
// come to.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/support/dtype.h"

namespace mezzo::passes {

enum class LossKind : std::uint8_t { kNone, kCrossEntropy, kBce, kMse, kL1, kCosine };

// "cross-entropy", "bce", "mse", "l1", "cosine"; "none".
std::string_view loss_word(LossKind kind);

// An array of the data as its file's header states it.
struct ArrayShape {
  DType dtype = DType::kNone;      // kNone: nobody has looked
  std::vector<std::int64_t> dims;  // samples in front

  bool known() const { return dtype != DType::kNone; }
};

struct LossOptions {
  LossKind kind = LossKind::kNone;
  std::vector<std::string> outputs;  // that are scored; empty: the only floating-point one
  std::string target = "target";     // graph input that takes the targets; added if need be
  ArrayShape target_array;
  std::string padding_mask;  // graph input with a weight per position, added if need be; "": none
  ArrayShape mask_array;
  std::int64_t batch_size = 0;  // of the inputs that are added; 0: the output's first dimension

  double label_smoothing = 0;                // cross-entropy
  std::optional<std::int64_t> ignore_index;  // cross-entropy; PyTorch's default is -100
  std::optional<int> class_axis;             // cross-entropy; absent: as the target's shape says
  std::vector<double> class_weights;         // cross-entropy per class, bce along the last axis
  std::vector<double> pos_weights;           // bce, along the last axis
  double margin = 0;                         // cosine of two outputs
};

}  // namespace mezzo::passes
