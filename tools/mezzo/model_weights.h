// The initializers of a model as its file has them, kept beside the compiler, which rewrites its
// graph.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/plan/plan_builder.h"
#include "runtime/train/checkpoint.h"
#include "tools/mezzo/group_rules.h"

namespace mezzo::cli {

struct ModelWeights {
  ParameterNames names;  // but for `trained`, which the compiler tells
  std::vector<std::pair<std::string, TensorRef>> tensors;

  static ModelWeights of(const Graph& graph);

  // Those that are neither parameters nor states of the plan, and that a checkpoint can hold (no
  // text, nothing below a byte). The bytes live as long as this object.
  std::vector<runtime::FixedTensor> fixed(const proto::Plan& plan);

 private:
  std::vector<std::vector<std::byte>> copies_;  // of tensors that do not lie in memory
};

}  // namespace mezzo::cli
