// The running statistics of normalisations in training form, on their way to graph outputs.
#pragma once

#include <unordered_map>

#include "compiler/ir/builder.h"
#include "passes/pass.h"

namespace mezzo::passes {

class RunningStatistics {
 public:
  // The newest value of `statistic`: itself until it moves. A normalisation used twice moves its
  // statistics twice, and the second starts from the first's.
  Value* newest(Value* statistic) const;

  // `next` is what becomes of `statistic`; only initializers are kept from step to step.
  void move(const Value* statistic, Value* next);

  // The newest value of each becomes the graph output `state/NAME`, listed in ctx.training->states.
  void publish(Graph& graph, Builder& builder, PassContext& ctx) const;

 private:
  std::unordered_map<const Value*, Value*> moved_;
};

}  // namespace mezzo::passes
