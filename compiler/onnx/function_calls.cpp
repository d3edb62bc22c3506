#include "compiler/onnx/function_calls.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "compiler/support/text.h"

namespace mezzo {
namespace {

constexpr int kMostLevels = 100;  // ONNX's own limit

class Counter {
 public:
  Counter(const Model& model, std::uint64_t limit) : limit_(limit) {
    for (const auto& function : model.functions) {
      entries_.try_emplace(
          Key(std::string(canonical_domain(function->domain)), function->name, function->overload),
          Entry{function.get()});
    }
  }

  // `total` grows by the nodes of `graph`, `levels` becomes the depth of calls below it.
  Status count(const Graph& graph, int depth, std::uint64_t& total, int& levels) {
    for (const auto& node : graph.nodes()) {
      if (++total > limit_) return too_many();
      MEZZO_RETURN_IF_ERROR(count_call(*node, depth, total, levels));
      for (const Graph* inner : node->subgraphs()) {
        MEZZO_RETURN_IF_ERROR(count(*inner, depth, total, levels));
      }
    }
    return ok_status();
  }

 private:
  using Key = std::tuple<std::string, std::string, std::string>;
  struct Entry {
    const Function* function = nullptr;
    std::uint64_t nodes = 0;
    int levels = 0;
    enum class State : std::uint8_t { kNew, kOpen, kDone } state = State::kNew;
  };

  Status count_call(const Node& node, int depth, std::uint64_t& total, int& levels) {
    const auto found = entries_.find(
        Key(std::string(canonical_domain(node.domain())), node.op_type(), node.overload()));
    if (found == entries_.end()) return ok_status();
    Entry& entry = found->second;
    if (entry.state == Entry::State::kOpen) {
      return invalid_argument(describe(node) +
                              ": expected functions that do not call themselves, got one that " +
                              "does, directly or by way of others");
    }
    if (entry.state == Entry::State::kNew) {
      if (depth >= kMostLevels) return too_deep(node);
      entry.state = Entry::State::kOpen;
      MEZZO_RETURN_IF_ERROR(count(*entry.function->body, depth + 1, entry.nodes, entry.levels));
      entry.state = Entry::State::kDone;
    }
    levels = std::max(levels, entry.levels + 1);
    if (levels > kMostLevels) return too_deep(node);
    if (entry.nodes > limit_ - std::min(total, limit_)) return too_many();
    total += entry.nodes;
    return ok_status();
  }

  Status too_many() const {
    return invalid_argument("expected at most " + std::to_string(limit_) +
                            " nodes with every call replaced by its function, got more");
  }
  static Status too_deep(const Node& node) {
    return invalid_argument(describe(node) + ": expected calls of functions nested at most " +
                            std::to_string(kMostLevels) + " deep, got more");
  }

  std::uint64_t limit_;
  std::map<Key, Entry> entries_;
};

}  // namespace

StatusOr<std::uint64_t> count_expanded_nodes(const Model& model, std::uint64_t limit) {
  std::uint64_t total = 0;
  int levels = 0;
  MEZZO_RETURN_IF_ERROR(Counter(model, limit).count(*model.graph, 0, total, levels));
  return total;
}

}  // namespace mezzo
