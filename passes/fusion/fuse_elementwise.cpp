// 1. From the last node to the first: an elementwise node that is in no group yet starts one, its
//    result is the group's.
// 2. A value that the group reads, of the result's dims, whose readers are all in the group and
//    whose producer is elementwise: the producer joins, as long as the program stays within the
//    limits of the kernels.
// 3. Groups of two and more become a FusedElementwise in the place of their last node.
//
// A producer that is far ahead joins only if it reads no more bytes than it writes, as what it
// reads must now stay until the group runs.

#include "passes/fusion/fuse_elementwise.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "compiler/ir/builder.h"
#include "passes/fusion/element_group.h"
#include "passes/fusion/element_nodes.h"

namespace mezzo::passes {
namespace {

// Nodes between a producer and the group beyond which memory counts for more than traffic.
constexpr int kNear = 16;

class Fuser {
 public:
  Fuser(Graph& graph, PassContext& ctx) : graph_(graph), ctx_(ctx) {}

  bool run() {
    const std::vector<Node*> nodes = graph_.node_list();
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      position_[nodes[i]] = static_cast<int>(i);
      if (auto element = read_element(*nodes[i])) elements_.emplace(nodes[i], *std::move(element));
    }
    bool changed = false;
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
      if (elements_.count(*node) == 0 || taken_.count(*node) > 0) continue;
      changed = fuse_from(**node) || changed;
    }
    return changed;
  }

 private:
  std::optional<GroupProgram> written(const Node& root, const NodeGroup& group) const {
    return write_group(root, group, elements_, ctx_);
  }

  static std::int64_t bytes_of(const Value& value) {
    const TensorType& type = value.tensor_type();
    return static_cast<std::int64_t>(dtype_bytes(value.dtype(), type.elems()));
  }

  // Would what the producer reads stay alive for long because of the group?
  bool keeps_much_alive(const Node& producer, const Node& root) const {
    if (position_.at(&root) - position_.at(&producer) <= kNear) return false;
    std::int64_t read = 0;
    std::set<const Value*> seen;
    for (const Value* operand : elements_.at(&producer).operands) {
      if (operand == nullptr || operand->is_initializer() || !seen.insert(operand).second) continue;
      read += bytes_of(*operand);
    }
    return read > bytes_of(*producer.result());
  }

  bool may_join(const Node& producer, const Node& root, const NodeGroup& group) const {
    const Value& value = *producer.result();
    if (elements_.count(&producer) == 0 || taken_.count(&producer) > 0 ||
        producer.graph() != &graph_ || value.is_graph_output() || !value.inner_outputs().empty() ||
        value.tensor_type().dims() != root.result()->tensor_type().dims()) {
      return false;
    }
    return std::all_of(value.uses().begin(), value.uses().end(),
                       [&](const Use& use) { return group.count(use.node) > 0; }) &&
           !keeps_much_alive(producer, root);
  }

  bool fuse_from(Node& root) {
    NodeGroup group = {&root};
    std::vector<Node*> members = {&root};
    if (!written(root, group) && !is_idle_cast(root)) return false;
    // A producer that some member outside did not let join may do so when that has joined.
    for (bool grown = true; grown;) {
      grown = false;
      for (std::size_t m = 0; m < members.size(); ++m) {
        for (Value* operand : elements_.at(members[m]).operands) {
          Node* producer = operand == nullptr ? nullptr : operand->producer();
          if (producer == nullptr || group.count(producer) > 0 ||
              !may_join(*producer, root, group)) {
            continue;
          }
          group.insert(producer);
          if (!written(root, group) && !is_idle_cast(*producer)) {
            group.erase(producer);
            continue;
          }
          members.push_back(producer);
          grown = true;
        }
      }
    }
    const auto program = written(root, group);
    if (members.size() < 2 || !program) return false;
    replace(root, members, *program);
    return true;
  }

  // A cast that a program needs no statement for, as long as others are behind it.
  bool is_idle_cast(const Node& node) const { return elements_.at(&node).is_idle_cast(); }

  void replace(Node& root, std::vector<Node*>& members, const GroupProgram& group) {
    ctx_.stats.add("elementwise-fused", static_cast<std::int64_t>(members.size()));
    taken_.insert(members.begin(), members.end());
    graph_.change_op(&root, "FusedElementwise", kMezzoDomain);
    root.mutable_attributes().clear();
    root.set_attribute("program", format_element_program(group.program));
    const std::size_t before = root.operand_count();
    for (std::size_t i = 0; i < std::max(before, group.operands.size()); ++i) {
      root.set_operand(i, i < group.operands.size() ? group.operands[i] : nullptr);
    }
    root.trim_operands();
    std::sort(members.begin(), members.end(),
              [&](const Node* a, const Node* b) { return position_.at(a) > position_.at(b); });
    for (Node* member : members) {
      if (member != &root) graph_.erase(member);
    }
  }

  Graph& graph_;
  PassContext& ctx_;
  std::unordered_map<const Node*, int> position_;
  std::unordered_map<const Node*, Element> elements_;
  std::unordered_set<const Node*> taken_;
};

}  // namespace

StatusOr<bool> fuse_elementwise(Model& model, PassContext& ctx) {
  if (!ctx.for_runtime) return false;
  return Fuser(*model.graph, ctx).run();
}

}  // namespace mezzo::passes
