#include "passes/autodiff/running_statistics.h"

#include <string>

namespace mezzo::passes {
namespace {

constexpr const char* kStatePrefix = "state/";

}  // namespace

Value* RunningStatistics::newest(Value* statistic) const {
  const auto moved = moved_.find(statistic);
  return moved == moved_.end() ? statistic : moved->second;
}

void RunningStatistics::move(const Value* statistic, Value* next) {
  if (statistic->is_initializer()) moved_[statistic] = next;
}

void RunningStatistics::publish(Graph& graph, Builder& builder, PassContext& ctx) const {
  for (const Value* statistic : graph.initializers()) {
    const auto moved = moved_.find(statistic);
    if (moved == moved_.end()) continue;
    Value* next = moved->second;
    const std::string name = graph.unique_name(kStatePrefix + statistic->name());
    if (next->is_graph_output()) {
      builder.set_insertion_point(nullptr);
      next = builder.op("Identity", {next});
      next->producer()->name = name;
    }
    graph.rename(next, name);
    graph.add_output(next);
    ctx.training->states[statistic->name()] = name;
  }
}

}  // namespace mezzo::passes
