// Gradient(xs, zs; y) becomes nodes that compute the derivatives of y by xs.
//
// 1. The nodes on the way from xs and zs to y are copied, reading the node's operands in the place
//    of the values that xs and zs name: it may be given others.
// 2. Copies without gradient rule are decomposed.
// 3. The backward walk from y, whose elements count one each.
//
// In the order of the nodes, so that one Gradient may differentiate another.
#include "passes/autodiff/expand_gradients.h"

#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/ir/builder.h"
#include "compiler/ops/decompose.h"
#include "compiler/ops/op_def.h"
#include "passes/autodiff/activity.h"
#include "passes/autodiff/reverse_sweep.h"

namespace mezzo::passes {
namespace {

constexpr std::string_view kDomain = "ai.onnx.preview.training";
constexpr int kMostRounds = 8;  // bodies nest a few levels deep

std::vector<std::string> names_of(const Node& node, std::string_view attribute) {
  const Attribute* found = node.attribute(attribute);
  const auto* names = found ? std::get_if<std::vector<std::string>>(&found->value) : nullptr;
  return names ? *names : std::vector<std::string>();
}

class Expansion {
 public:
  Expansion(Model& model, PassContext& ctx, Node& node)
      : model_(model),
        ctx_(ctx),
        graph_(*node.graph()),
        node_(node),
        builder_(graph_, type_inference(model), &node) {
    builder_.set_scope(node.name.empty() ? node.op_type() : node.name);
  }

  Status run() {
    const std::vector<Node*> before = graph_.node_list();
    MEZZO_RETURN_IF_ERROR(read_names());
    MEZZO_RETURN_IF_ERROR(copy_nodes(before));
    MEZZO_ASSIGN_OR_RETURN(const std::vector<Node*> copies, decomposed_copies(before));
    const auto found = copies_.find(y_);
    if (found == copies_.end()) return wrong("attribute y: '" + y_->name() + "' depends on no xs");
    Value* y = holder_ != nullptr ? holder_->operand(0) : found->second;
    if (holder_ != nullptr) graph_.erase(holder_);
    MEZZO_RETURN_IF_ERROR(sweep(copies, *y));
    graph_.erase(&node_);
    return builder_.status();
  }

 private:
  Status wrong(const std::string& what) const {
    return invalid_argument(describe(node_) + ": " + what);
  }

  Status read_names() {
    std::vector<std::string> names = names_of(node_, "xs");
    wanted_ = names.size();
    for (std::string& name : names_of(node_, "zs")) names.push_back(std::move(name));
    if (names.size() != node_.operand_count() || wanted_ < node_.results().size()) {
      return wrong("attributes xs and zs name " + std::to_string(names.size()) + " values for " +
                   std::to_string(node_.operand_count()) + " operands");
    }
    for (std::size_t i = 0; i < names.size(); ++i) {
      const Value* named = graph_.find_visible(names[i]);
      if (named == nullptr || node_.operand(i) == nullptr) {
        return wrong("there is no value '" + names[i] + "'");
      }
      copies_[named] = node_.operand(i);
    }
    const std::string y = node_.string_attribute("y", "");
    y_ = graph_.find_visible(y);
    return y_ != nullptr ? ok_status() : wrong("attribute y: there is no value '" + y + "'");
  }

  // Copies the nodes between xs, zs and y.
  Status copy_nodes(const std::vector<Node*>& nodes) {
    const ValueSet on_the_way = influences(*y_);
    for (const Node* node : nodes) {
      if (node == &node_) break;
      bool reads_a_copy = false;
      for (const Value* operand : node->operands()) {
        reads_a_copy = reads_a_copy || copies_.count(operand) > 0;
      }
      bool is_wanted = false;
      for (const Value* result : node->results()) {
        // xs and zs are taken as they are given.
        is_wanted = is_wanted || (on_the_way.count(result) > 0 && copies_.count(result) == 0);
      }
      if (!reads_a_copy || !is_wanted) continue;
      if (!node->subgraphs().empty()) {
        return unimplemented(describe(*node) + ": control flow is not differentiated");
      }
      std::vector<Value*> operands = node->operands();
      for (Value*& operand : operands) {
        if (const auto copy = copies_.find(operand); copy != copies_.end()) operand = copy->second;
      }
      std::vector<Builder::NamedValue> attributes;
      for (const Attribute& attribute : node->attributes()) {
        attributes.emplace_back(attribute.name, attribute.value);
      }
      Node* copy = builder_.node(node->op_type(), operands, node->results().size(), attributes,
                                 node->domain());
      for (std::size_t i = 0; i < node->results().size(); ++i) {
        if (node->result(i) != nullptr) copies_.emplace(node->result(i), copy->result(i));
      }
    }
    // Decomposing the last copy replaces its uses: this one remembers what y became.
    if (const auto y = copies_.find(y_); y != copies_.end() && y->second->producer() != nullptr) {
      holder_ = builder_.node("Identity", {y->second}, 1);
    }
    return builder_.status();
  }

  // The new nodes in order, spelled out until each has a gradient rule or none can be given.
  StatusOr<std::vector<Node*>> decomposed_copies(const std::vector<Node*>& before) {
    const std::unordered_set<const Node*> old(before.begin(), before.end());
    std::vector<Node*> copies;
    for (int round = 0; round < kMostRounds; ++round) {
      bool changed = false;
      copies.clear();
      for (Node* node : graph_.node_list()) {
        if (old.count(node) > 0 || node == holder_) continue;
        if (is_differentiated_decomposed(*node)) {
          MEZZO_ASSIGN_OR_RETURN(const bool replaced, mezzo::decompose(*node, &model_));
          changed = changed || replaced;
          if (replaced) continue;
        }
        copies.push_back(node);
      }
      if (!changed) break;
    }
    return copies;
  }

  // An array of `value` like another.
  Value* filled_like(Value* like, double value) {
    return builder_.op("Expand",
                       {builder_.scalar(like->dtype(), value), builder_.op("Shape", {like})});
  }

  Status sweep(const std::vector<Node*>& copies, Value& y) {
    ValueSet sources;
    for (std::size_t i = 0; i < wanted_; ++i) sources.insert(node_.operand(i));
    const ValueSet backward = influences(y);
    ValueSet active;
    for (const Value* value : depends_on(graph_, sources)) {
      if (backward.count(value) > 0) active.insert(value);
    }
    ReverseSweep sweep(builder_, std::move(active), ctx_.stats, "");
    sweep.add(y, filled_like(&y, 1.0));
    for (auto node = copies.rbegin(); node != copies.rend(); ++node) {
      MEZZO_RETURN_IF_ERROR(sweep.visit(**node));
    }
    builder_.set_scope(node_.name.empty() ? node_.op_type() : node_.name);
    for (std::size_t i = 0; i < node_.results().size(); ++i) {
      if (node_.result(i) == nullptr) continue;
      Value* x = node_.operand(i);
      Value* gradient = sweep.total(*x);
      if (gradient == nullptr) gradient = filled_like(x, 0.0);
      graph_.replace_uses(node_.result(i), gradient);
    }
    return ok_status();
  }

  Model& model_;
  PassContext& ctx_;
  Graph& graph_;
  Node& node_;
  Builder builder_;
  std::size_t wanted_ = 0;
  const Value* y_ = nullptr;
  std::unordered_map<const Value*, Value*> copies_;
  Node* holder_ = nullptr;
};

}  // namespace

StatusOr<bool> expand_gradients(Model& model, PassContext& ctx) {
  bool changed = false;
  for (Node* node : model.graph->node_list()) {
    if (!node->is("Gradient", kDomain)) continue;
    if (!changed) MEZZO_RETURN_IF_ERROR(infer_types(model));  // rules ask for types and shapes
    MEZZO_RETURN_IF_ERROR(Expansion(model, ctx, *node).run());
    ctx.stats.add("gradients-expanded", 1);
    changed = true;
  }
  return changed;
}

}  // namespace mezzo::passes
