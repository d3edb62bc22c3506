// Topological sorting and dead code.
#include <algorithm>
#include <cstddef>
#include <unordered_map>

#include "compiler/ir/graph.h"

namespace mezzo {
namespace {

void append_producer(const Value* value, const Graph* graph, std::vector<Node*>& needed) {
  if (value && value->producer() && value->graph() == graph) needed.push_back(value->producer());
}

// Nodes of `graph` that `node`, or a graph nested in it, takes values from.
void append_needed(const Node& node, const Graph* graph, std::vector<Node*>& needed) {
  for (std::size_t i = 0; i < node.operand_count(); ++i) {
    append_producer(node.operand(i), graph, needed);
  }
  for (const Graph* inner : node.subgraphs()) {
    for (const auto& inner_node : inner->nodes()) append_needed(*inner_node, graph, needed);
    for (const Value* output : inner->outputs()) append_producer(output, graph, needed);
  }
}

// Depth-first search that emits a node after all it needs; `order` stays partial on a cycle.
class Sorter {
 public:
  explicit Sorter(const Graph& graph) : graph_(&graph) { state_.reserve(graph.node_count()); }

  bool visit(Node* root) {
    if (!push(root)) return true;  // done already
    while (!stack_.empty()) {
      Frame& top = stack_.back();
      if (top.next == top.needed.size()) {
        state_[top.node] = State::kDone;
        order_.push_back(top.node);
        stack_.pop_back();
        continue;
      }
      Node* needed = top.needed[top.next++];
      const auto found = state_.find(needed);
      if (found != state_.end() && found->second == State::kOpen) return false;
      push(needed);
    }
    return true;
  }
  const std::vector<Node*>& order() const { return order_; }

 private:
  enum class State : std::uint8_t { kOpen, kDone };
  struct Frame {
    Node* node;
    std::vector<Node*> needed;
    std::size_t next = 0;
  };

  bool push(Node* node) {
    if (!state_.try_emplace(node, State::kOpen).second) return false;
    Frame frame{node, {}, 0};
    append_needed(*node, graph_, frame.needed);
    stack_.push_back(std::move(frame));
    return true;
  }

  const Graph* graph_;
  std::unordered_map<const Node*, State> state_;
  std::vector<Frame> stack_;
  std::vector<Node*> order_;
};

}  // namespace

bool Graph::sort_topologically() {
  bool acyclic = true;
  Sorter sorter(*this);
  for (const auto& node : nodes_) {
    for (Graph* inner : node->subgraphs()) acyclic &= inner->sort_topologically();
  }
  for (const auto& node : nodes_) {
    if (!sorter.visit(node.get())) return false;
  }
  for (Node* node : sorter.order()) nodes_.splice(nodes_.end(), nodes_, node->position_);
  return acyclic;
}

namespace {

bool is_dead(const Node& node) {
  return std::none_of(node.results().begin(), node.results().end(),
                      [](const Value* result) { return result && result->has_uses(); });
}

}  // namespace

// Users come after producers, so one backward sweep finds whole dead chains. A node that stays is
// entered before its producers are looked at: dead captures within it free them.
std::size_t Graph::remove_dead_nodes(bool unused_initializers_too) {
  std::size_t removed = 0;
  for (auto next = nodes_.end(); next != nodes_.begin();) {
    Node* node = std::prev(next)->get();
    if (is_dead(*node)) {
      erase(node);
      ++removed;
      continue;
    }
    for (Graph* inner : node->subgraphs()) {
      removed += inner->remove_dead_nodes(unused_initializers_too);
    }
    --next;
  }
  if (unused_initializers_too) {
    for (Value* value : std::vector<Value*>(initializers())) {
      if (value->is_fixed() && !value->has_uses()) erase_initializer(value);
    }
  }
  return removed;
}

}  // namespace mezzo
