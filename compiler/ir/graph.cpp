// Values of a graph: creation, names, inputs, outputs, initializers; and the end of a graph.
#include "compiler/ir/graph.h"

#include <algorithm>
#include <cassert>

#include "compiler/ir/name_scope.h"

namespace mezzo {

Graph::Graph(std::string name, Node* parent)
    : name(std::move(name)),
      parent_(parent),
      scope_(parent ? parent->graph()->scope_ : std::make_shared<NameScope>()) {}

// Nested graphs go first, while the values they capture live; then the links to values that stay
// are cut. Links within the graph are not undone one by one: both ends go.
Graph::~Graph() {
  for (const auto& node : nodes_) {
    for (Graph* inner : node->subgraphs()) inner->parent_ = nullptr;
    node->attributes_.clear();
  }
  for (const auto& node : nodes_) {
    for (std::size_t i = 0; i < node->operands_.size(); ++i) {
      const Value* value = node->operands_[i].value;
      if (value && value->graph_ != this) node->unlink_operand(i);
    }
  }
  for (Value* value : outputs_) {
    if (value->graph_ != this) unlink_output(value);
  }
  const bool others_share_scope = scope_.use_count() > 1;
  for (const auto& value : values_) {
    if (others_share_scope) scope_->remove(value->name_);
    // Somebody may hold a nested graph beyond its parent: leave it no dangling pointers.
    for (const Use& use : value->uses_) {
      if (use.node->graph_ != this) use.node->operands_[use.operand].value = nullptr;
    }
    for (Graph* inner : value->inner_outputs_) std::erase(inner->outputs_, value.get());
  }
}

void Graph::set_parent(Node* node) {
  if (parent_ == node) return;
  parent_ = node;
  const auto scope = node ? node->graph()->scope_ : std::make_shared<NameScope>();
  if (scope == scope_) return;
  for_each_graph(*this, [&](Graph& graph) {
    for (const auto& value : graph.values_) {
      graph.scope_->remove(value->name_);
      scope->add(value->name_);
    }
    graph.scope_ = scope;
  });
}

// --- Names

std::string Graph::unique_name(std::string_view base) const {
  return scope_->unique(base.empty() ? "value" : base);
}

Value* Graph::find(std::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

Value* Graph::find_visible(std::string_view name) const {
  for (const Graph* graph = this; graph; graph = graph->enclosing()) {
    if (Value* value = graph->find(name)) return value;
  }
  return nullptr;
}

void Graph::rename(Value* value, std::string name) {
  if (value->name_ == name) return;
  assert(value->graph_ == this && !name.empty() && !find(name));
  by_name_.erase(value->name_);
  scope_->remove(value->name_);
  value->name_ = std::move(name);
  by_name_.emplace(value->name_, value);
  scope_->add(value->name_);
}

// Names of two values, with what else belongs to a graph output's public face.
void Graph::exchange_names(Value* a, Value* b) {
  by_name_.erase(a->name_);
  by_name_.erase(b->name_);
  a->name_.swap(b->name_);
  by_name_.emplace(a->name_, a);
  by_name_.emplace(b->name_, b);
  a->doc_string.swap(b->doc_string);
  a->metadata.swap(b->metadata);
}

Value* Graph::new_value(std::string name) {
  if (name.empty() || find(name)) name = unique_name(name);
  Value* value = values_.emplace_back(std::make_unique<Value>()).get();
  value->name_ = std::move(name);
  value->graph_ = this;
  value->slot_ = values_.size() - 1;
  by_name_.emplace(value->name_, value);
  scope_->add(value->name_);
  return value;
}

void Graph::forget(Value* value) {
  assert(!value->has_uses());
  by_name_.erase(value->name_);
  scope_->remove(value->name_);
  const std::size_t slot = value->slot_;
  values_.back()->slot_ = slot;
  std::swap(values_[slot], values_.back());
  values_.pop_back();
}

std::vector<Value*> Graph::values() const {
  std::vector<Value*> values;
  values.reserve(values_.size());
  for (const auto& value : values_) values.push_back(value.get());
  return values;
}

// --- Inputs

Value* Graph::add_input(std::string name, Type type) {
  Value* value = new_value(std::move(name));
  value->type = std::move(type);
  value->is_input_ = true;
  inputs_.push_back(value);
  return value;
}

void Graph::remove_input(std::size_t index) {
  Value* value = inputs_[index];
  inputs_.erase(inputs_.begin() + static_cast<std::ptrdiff_t>(index));
  value->is_input_ = false;
  if (!value->is_initializer()) forget(value);
}

// --- Initializers

namespace {

Type type_of(const Tensor& tensor) { return TensorType::of(tensor.dtype(), tensor.dims()); }

Type type_of(const SparseTensor& tensor) {
  Type type;
  type.kind = Type::Kind::kSparseTensor;
  const DType dtype = tensor.values ? tensor.values->dtype() : DType::kNone;
  type.tensor = TensorType::of(dtype, tensor.dims);
  return type;
}

}  // namespace

const std::vector<Value*>& Graph::initializers() const {
  if (initializers_have_holes_) {
    std::erase(initializers_, nullptr);
    for (std::size_t i = 0; i < initializers_.size(); ++i) initializers_[i]->initializer_slot_ = i;
    initializers_have_holes_ = false;
  }
  return initializers_;
}

void Graph::make_initializer(Value* value) {
  if (value->is_initializer()) return;
  value->initializer_slot_ = initializers_.size();
  initializers_.push_back(value);
}

void Graph::drop_initializer(Value* value) {
  initializers_[value->initializer_slot_] = nullptr;
  initializers_have_holes_ = true;
}

Value* Graph::add_initializer(std::string name, TensorRef tensor) {
  Value* value = new_value(std::move(name));
  value->type = type_of(*tensor);
  set_initializer(value, std::move(tensor));
  return value;
}

Value* Graph::add_sparse_initializer(std::string name, std::shared_ptr<const SparseTensor> tensor) {
  Value* value = new_value(std::move(name));
  value->type = type_of(*tensor);
  set_sparse_initializer(value, std::move(tensor));
  return value;
}

void Graph::set_initializer(Value* value, TensorRef tensor) {
  assert(value->graph_ == this && !value->producer_);
  make_initializer(value);
  value->constant_ = std::move(tensor);
  value->sparse_constant_.reset();
}

void Graph::set_sparse_initializer(Value* value, std::shared_ptr<const SparseTensor> tensor) {
  assert(value->graph_ == this && !value->producer_);
  make_initializer(value);
  value->sparse_constant_ = std::move(tensor);
  value->constant_.reset();
}

void Graph::replace_constant(Value* value, TensorRef tensor) {
  assert(value->is_initializer());
  value->type = type_of(*tensor);
  set_initializer(value, std::move(tensor));
}

void Graph::erase_initializer(Value* value) {
  assert(value->graph_ == this && value->is_fixed());
  drop_initializer(value);
  forget(value);
}

// --- Outputs

void Graph::link_output(Value* value) {
  if (value->graph_ == this) {
    ++value->output_count_;
  } else {
    value->inner_outputs_.push_back(this);
  }
}

void Graph::unlink_output(Value* value) {
  if (value->graph_ == this) {
    --value->output_count_;
  } else {
    auto& listed = value->inner_outputs_;
    listed.erase(std::find(listed.begin(), listed.end(), this));
  }
}

void Graph::add_output(Value* value) {
  outputs_.push_back(value);
  link_output(value);
}

void Graph::set_output(std::size_t index, Value* value) {
  unlink_output(outputs_[index]);
  outputs_[index] = value;
  link_output(value);
}

void Graph::remove_output(std::size_t index) {
  unlink_output(outputs_[index]);
  outputs_.erase(outputs_.begin() + static_cast<std::ptrdiff_t>(index));
}

}  // namespace mezzo
