// One walk in graph order: what each sequence holds is known where it is made, and what reads it
// gets the elements. Sequences that nobody reads any more go last.
#include "passes/cleanup/resolve_sequences.h"

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/ir/builder.h"
#include "compiler/ops/constants.h"
#include "compiler/ops/op_def.h"

namespace mezzo::passes {
namespace {

constexpr std::size_t kMostParts = 1024;  // of one split

using Elements = std::vector<Value*>;

class SequenceResolver {
 public:
  SequenceResolver(Model& model, PassContext& ctx)
      : graph_(*model.graph), ctx_(ctx), builder_(graph_, type_inference(model)) {}

  StatusOr<bool> run() {
    for (Node* node : graph_.node_list()) {
      builder_.set_insertion_point(node);
      builder_.set_scope(node->name.empty() ? node->op_type() : node->name);
      if (auto made = elements_of(*node)) sequences_[node->result()] = std::move(*made);
      read(*node);
    }
    erase_unread();
    MEZZO_RETURN_IF_ERROR(builder_.status());
    return changed_;
  }

 private:
  // The position that operand `index` gives for a sequence of `size` places; nullopt if it is not
  // known, or there is no such place.
  static std::optional<std::size_t> place(const Node& node, std::size_t index, std::size_t size,
                                          std::int64_t fallback) {
    std::int64_t at = fallback;
    if (node.operand(index) != nullptr) {
      const auto given = constant_ints(node.operand(index));
      if (!given || given->size() != 1) return std::nullopt;
      at = given->front();
      if (at < 0) at += static_cast<std::int64_t>(size);
    }
    if (at < 0 || at > static_cast<std::int64_t>(size)) return std::nullopt;
    return static_cast<std::size_t>(at);
  }

  const Elements* known(const Value* sequence) const {
    const auto found = sequences_.find(sequence);
    return found == sequences_.end() ? nullptr : &found->second;
  }

  // What the sequence that the node makes holds; nullopt if that is not known.
  std::optional<Elements> elements_of(const Node& node) {
    if (node.result() == nullptr) return std::nullopt;
    if (node.is("SequenceEmpty")) return Elements();
    if (node.is("SequenceConstruct")) return node.operands();
    if (node.is("SplitToSequence")) return parts_of(node);
    const Elements* before = known(node.operand(0));
    if (before == nullptr) return std::nullopt;
    if (node.is("Identity")) return *before;
    Elements elements = *before;
    const auto size = static_cast<std::int64_t>(elements.size());
    if (node.is("SequenceInsert")) {
      const auto at = place(node, 2, elements.size(), size);
      if (!at || node.operand(1) == nullptr) return std::nullopt;
      elements.insert(elements.begin() + static_cast<std::ptrdiff_t>(*at), node.operand(1));
      return elements;
    }
    if (node.is("SequenceErase")) {
      const auto at = place(node, 1, elements.size(), size - 1);
      if (!at || *at >= elements.size()) return std::nullopt;
      elements.erase(elements.begin() + static_cast<std::ptrdiff_t>(*at));
      return elements;
    }
    return std::nullopt;
  }

  // The parts' sizes along the axis; nullopt if they are not known.
  static std::optional<std::vector<std::int64_t>> part_sizes(const Node& split, std::int64_t axis) {
    const auto dims = static_dims(split.operand(0));
    if (!dims || axis < 0 || axis >= static_cast<std::int64_t>(dims->size())) return std::nullopt;
    const std::int64_t size = (*dims)[static_cast<std::size_t>(axis)];
    std::vector<std::int64_t> sizes;
    std::int64_t part = 1;
    if (split.operand(1) != nullptr) {
      auto given = constant_ints(split.operand(1));
      if (!given || given->empty()) return std::nullopt;
      if (static_dims(split.operand(1)) != std::vector<std::int64_t>()) return given;
      part = given->front();  // pieces of that size, the last one may be smaller
    }
    if (part <= 0 || size / part > static_cast<std::int64_t>(kMostParts)) return std::nullopt;
    for (std::int64_t left = size; left > 0; left -= part) sizes.push_back(std::min(part, left));
    return sizes;
  }

  std::optional<Elements> parts_of(const Node& split) {
    if (split.operand(0) == nullptr || !read_by_us(*split.result())) return std::nullopt;
    std::int64_t axis = split.int_attribute("axis", 0);
    if (axis < 0 && split.operand(0)->type.is_tensor()) {
      axis += static_cast<std::int64_t>(split.operand(0)->tensor_type().rank().value_or(0));
    }
    const auto sizes = part_sizes(split, axis);
    if (!sizes || sizes->empty() || sizes->size() > kMostParts) return std::nullopt;
    const Node* parts = builder_.node("Split", {split.operand(0), builder_.ints(*sizes)},
                                      sizes->size(), {{"axis", axis}});
    Elements elements = parts->results();
    // keepdims counts only where no sizes are given.
    if (split.operand(1) == nullptr && split.int_attribute("keepdims", 1) == 0) {
      for (Value*& part : elements) {
        part = builder_.op("Squeeze", {part, builder_.ints({axis})});
      }
    }
    return elements;
  }

  // True if some reader could be given the parts.
  static bool read_by_us(const Value& sequence) {
    return std::any_of(sequence.uses().begin(), sequence.uses().end(), [](const Use& use) {
      return use.operand == 0 && use.node->op_type() != "SequenceMap";
    });
  }

  void read(Node& node) {
    const Elements* elements = known(node.operand(0));
    if (elements == nullptr || node.result() == nullptr) return;
    Value* value = nullptr;
    if (node.is("SequenceAt")) {
      const auto at = place(node, 1, elements->size(), -1);
      if (!at || *at >= elements->size()) return;
      value = (*elements)[*at];
    } else if (node.is("SequenceLength")) {
      value = builder_.scalar(DType::kInt64, static_cast<double>(elements->size()));
      ctx_.computed_constants.insert(value->name());
    } else if (node.is("ConcatFromSequence") && !elements->empty()) {
      value = joined(node, *elements);
    }
    if (value == nullptr) return;
    graph_.replace_uses(node.result(), value);
    graph_.erase(&node);
    ctx_.stats.add("sequence-readers-resolved", 1);
    changed_ = true;
  }

  Value* joined(const Node& node, const Elements& elements) {
    const std::int64_t axis = node.int_attribute("axis", 0);
    Elements parts = elements;
    if (node.int_attribute("new_axis", 0) != 0) {
      for (Value*& part : parts) {
        part = builder_.op("Unsqueeze", {part, builder_.ints({axis})});
      }
    }
    return parts.size() == 1 ? parts[0] : builder_.op("Concat", parts, {{"axis", axis}});
  }

  void erase_unread() {
    const std::vector<Node*> nodes = graph_.node_list();
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
      const Value* result = (*node)->result();
      if (result == nullptr || known(result) == nullptr || result->has_uses()) continue;
      sequences_.erase(result);
      graph_.erase(*node);
      changed_ = true;
    }
  }

  Graph& graph_;
  PassContext& ctx_;
  Builder builder_;
  std::unordered_map<const Value*, Elements> sequences_;
  bool changed_ = false;
};

}  // namespace

StatusOr<bool> resolve_sequences(Model& model, PassContext& ctx) {
  return SequenceResolver(model, ctx).run();
}

}  // namespace mezzo::passes
