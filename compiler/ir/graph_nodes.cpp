// Nodes of a graph: creation, order, erasure; uses of values.
#include <algorithm>
#include <cassert>

#include "compiler/ir/graph.h"

namespace mezzo {
namespace {

// True if `node` is `outer`, or lies in a graph nested in it.
bool is_within(const Node* node, const Node* outer) {
  while (node && node != outer) node = node->graph()->parent();
  return node != nullptr;
}

}  // namespace

std::vector<Node*> Graph::node_list() const {
  std::vector<Node*> list;
  list.reserve(nodes_.size());
  for (const auto& node : nodes_) list.push_back(node.get());
  return list;
}

Node* Graph::add_node(std::string_view op_type, std::string_view domain,
                      std::span<Value* const> operands, std::span<const std::string> result_names,
                      Node* before) {
  assert(!before || before->graph_ == this);
  const auto position =
      nodes_.insert(before ? before->position_ : nodes_.end(), std::make_unique<Node>());
  Node* node = position->get();
  node->position_ = position;
  node->graph_ = this;
  change_op(node, op_type, domain);
  node->operands_.resize(operands.size());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i]) node->link_operand(i, operands[i]);
  }
  for (const std::string& name : result_names) add_result(node, name);
  return node;
}

Value* Graph::add_result(Node* node, std::string name) {
  Value* value = nullptr;
  if (!name.empty()) {
    value = new_value(std::move(name));
    value->producer_ = node;
    value->result_index_ = static_cast<std::uint32_t>(node->results_.size());
  }
  node->results_.push_back(value);
  return value;
}

void Graph::change_op(Node* node, std::string_view op_type, std::string_view domain) {
  node->op_type_ = op_type;
  node->domain_ = canonical_domain(domain);
}

void Graph::move_before(Node* node, Node* before) {
  assert(node->graph_ == this && (!before || before->graph_ == this));
  if (node == before) return;
  nodes_.splice(before ? before->position_ : nodes_.end(), nodes_, node->position_);
}

void Graph::erase(Node* node) {
  assert(node->graph_ == this);
  // Subgraphs unlink what they capture as they go; one that somebody else holds becomes an orphan.
  for (Graph* inner : node->subgraphs()) inner->parent_ = nullptr;
  node->attributes_.clear();
  for (std::size_t i = 0; i < node->operands_.size(); ++i) node->unlink_operand(i);
  for (Value* result : node->results_) {
    if (result) forget(result);
  }
  nodes_.erase(node->position_);
}

void Graph::replace_operand_uses(Value* from, Value* to) {
  if (from == to) return;
  std::vector<Use> kept;
  for (const Use& use : from->uses_) {
    Node::Operand& operand = use.node->operands_[use.operand];
    const bool feeds_to = to->producer_ && is_within(use.node, to->producer_);
    std::vector<Use>& uses = feeds_to ? kept : to->uses_;
    operand = {feeds_to ? from : to, static_cast<std::uint32_t>(uses.size())};
    uses.push_back(use);
  }
  from->uses_ = std::move(kept);
}

// Outputs of nested graphs that list `from`.
void Graph::replace_inner_outputs(Value* from, Value* to) {
  std::vector<Graph*> kept;
  for (Graph* inner : std::exchange(from->inner_outputs_, {})) {
    if (to->producer_ && is_within(inner->parent_, to->producer_)) {
      kept.push_back(inner);
      continue;
    }
    *std::find(inner->outputs_.begin(), inner->outputs_.end(), from) = to;
    inner->link_output(to);
  }
  from->inner_outputs_ = std::move(kept);
}

void Graph::replace_uses(Value* from, Value* to) {
  if (from == to) return;
  replace_operand_uses(from, to);
  replace_inner_outputs(from, to);
  if (!from->is_graph_output() || from->is_input_) return;

  Graph& home = *from->graph_;
  Value* output = to;
  if (to->graph_ == &home && to->producer_ && !to->is_graph_output()) {
    home.exchange_names(from, to);
  } else {
    const std::string label = home.unique_name(from->name_ + "_identity");
    const std::string placeholder[] = {label};
    Node* identity = home.add_node("Identity", "", std::span(&to, 1), placeholder);
    identity->name = label;
    output = identity->result();
    output->type = to->type;
    home.exchange_names(from, output);
  }
  if (from->type.is_tensor() && output->type.is_tensor() && from->type.tensor.shape) {
    output->type.tensor.shape = from->type.tensor.shape;
  }
  std::replace(home.outputs_.begin(), home.outputs_.end(), from, output);
  output->output_count_ = std::exchange(from->output_count_, 0);
}

}  // namespace mezzo
