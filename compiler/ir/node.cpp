#include <algorithm>
#include <cassert>

#include "compiler/ir/graph.h"
#include "compiler/support/text.h"

namespace mezzo {

void Node::unlink_operand(std::size_t index) {
  Operand& operand = operands_[index];
  if (!operand.value) return;
  std::vector<Use>& uses = operand.value->uses_;
  const Use last = uses.back();
  uses[operand.use_slot] = last;
  last.node->operands_[last.operand].use_slot = operand.use_slot;
  uses.pop_back();
  operand.value = nullptr;
}

void Node::link_operand(std::size_t index, Value* value) {
  operands_[index] = {value, static_cast<std::uint32_t>(value->uses_.size())};
  value->uses_.push_back({this, static_cast<std::uint32_t>(index)});
}

std::vector<Value*> Node::operands() const {
  std::vector<Value*> values;
  values.reserve(operands_.size());
  for (const Operand& operand : operands_) values.push_back(operand.value);
  return values;
}

void Node::set_operand(std::size_t index, Value* value) {
  if (index >= operands_.size()) operands_.resize(index + 1);
  if (operands_[index].value == value) return;
  unlink_operand(index);
  if (value) link_operand(index, value);
}

void Node::trim_operands(std::size_t keep_at_least) {
  while (operands_.size() > keep_at_least && !operands_.back().value) operands_.pop_back();
}

const Attribute* Node::attribute(std::string_view name) const {
  for (const Attribute& attribute : attributes_) {
    if (attribute.name == name) return &attribute;
  }
  return nullptr;
}

namespace {

template <typename T>
const T* attribute_value(const Node& node, std::string_view name) {
  const Attribute* attribute = node.attribute(name);
  return attribute ? std::get_if<T>(&attribute->value) : nullptr;
}

void adopt_graphs(const Attribute::Value& value, Node* parent) {
  if (const auto* graph = std::get_if<Attribute::GraphRef>(&value)) {
    if (*graph) (*graph)->set_parent(parent);
  } else if (const auto* graphs = std::get_if<std::vector<Attribute::GraphRef>>(&value)) {
    for (const auto& inner : *graphs) {
      if (inner) inner->set_parent(parent);
    }
  }
}

}  // namespace

std::int64_t Node::int_attribute(std::string_view name, std::int64_t fallback) const {
  const auto* value = attribute_value<std::int64_t>(*this, name);
  return value ? *value : fallback;
}

float Node::float_attribute(std::string_view name, float fallback) const {
  const auto* value = attribute_value<float>(*this, name);
  return value ? *value : fallback;
}

std::string Node::string_attribute(std::string_view name, std::string_view fallback) const {
  const auto* value = attribute_value<std::string>(*this, name);
  return value ? *value : std::string(fallback);
}

std::vector<std::int64_t> Node::ints_attribute(std::string_view name,
                                               std::vector<std::int64_t> fallback) const {
  const auto* value = attribute_value<std::vector<std::int64_t>>(*this, name);
  if (value != nullptr) return *value;
  return fallback;
}

void Node::set_attribute(std::string_view name, Attribute::Value value) {
  adopt_graphs(value, this);
  const auto found = std::find_if(attributes_.begin(), attributes_.end(),
                                  [&](const Attribute& a) { return a.name == name; });
  Attribute& attribute = found != attributes_.end() ? *found : attributes_.emplace_back();
  attribute.name = name;
  attribute.value = std::move(value);
  attribute.ref_name.clear();
  attribute.ref_kind = Attribute::Kind::kNone;
}

void Node::erase_attribute(std::string_view name) {
  std::erase_if(attributes_, [&](const Attribute& a) { return a.name == name; });
}

std::vector<Graph*> Node::subgraphs() const {
  std::vector<Graph*> graphs;
  for (const Attribute& attribute : attributes_) {
    if (const auto* graph = std::get_if<Attribute::GraphRef>(&attribute.value)) {
      if (*graph) graphs.push_back(graph->get());
    } else if (const auto* list = std::get_if<std::vector<Attribute::GraphRef>>(&attribute.value)) {
      for (const auto& inner : *list) {
        if (inner) graphs.push_back(inner.get());
      }
    }
  }
  return graphs;
}

std::string describe(const Node& node) {
  const std::string op = " (" + (node.domain().empty() ? "" : printable(node.domain()) + ".") +
                         printable(node.op_type()) + ")";
  if (!node.name.empty()) return "node '" + printable(node.name) + "'" + op;
  for (const Value* result : node.results()) {
    if (result) return "node producing '" + printable(result->name()) + "'" + op;
  }
  return "unnamed node" + op;
}

std::string display_name(const Node& node) {
  return node.name.empty() ? describe(node) : node.name;
}

}  // namespace mezzo
