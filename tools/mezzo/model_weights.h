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
  ParameterNames names;  // `trained` is empty before set_trained()
  std::vector<std::pair<std::string, TensorRef>> tensors;

  static ModelWeights of(const Graph& graph);

  // Takes over what the compiler found to train: also parameters that share an initializer in the
  // file and are apart in the plan.
  void set_trained(const proto::Plan& plan);

  // Those that are neither parameters nor states of the plan, and that a checkpoint can hold (no
  // text, nothing below a byte). The bytes live as long as this object.
  std::vector<runtime::FixedTensor> fixed(const proto::Plan& plan);

 private:
  std::vector<std::vector<std::byte>> copies_;  // of tensors that do not lie in memory
};

}  // namespace mezzo::cli
