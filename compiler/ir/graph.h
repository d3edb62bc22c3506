// The program: a Model holds a Graph and model-local functions; a Graph holds Nodes in an order
// that is topological, and owns its Values. Everything ONNX holds is kept (names, doc strings,
// metadata, subgraphs, functions, symbolic shapes, where a weight was stored), so that import
// followed by export gives the same model back.
//
// Invariants (checked by verify()): every operand is null (absent), or a Value of this graph or of
// an enclosing one, defined before its use; uses and operands agree; names are unique among a
// graph's values, and no capture is hidden by an inner value of its name; a Value is produced by
// one node result, or is a graph input and/or constant.
//
// Ownership: Graph owns nodes and values; Node* and Value* stay valid until erased. An attribute
// holding a subgraph owns it; a subgraph's nodes may use values of enclosing graphs (captures), and
// these uses are listed like all others. A graph may also list an enclosing graph's value as
// output.
//
// Cost: linking, unlinking, inserting, moving and erasing are O(1) per operand whatever the number
// of uses; nothing here is worse than linear in the size of the graph.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/ir/attribute.h"
#include "compiler/ir/tensor.h"
#include "compiler/ir/type.h"

namespace mezzo {

class Graph;
class NameScope;
class Node;
class Value;

// "ai.onnx" is another name of ONNX's own domain "".
constexpr std::string_view canonical_domain(std::string_view domain) {
  return domain == "ai.onnx" ? std::string_view() : domain;
}

// One place that uses a value: operand number `operand` of `node`.
struct Use {
  Node* node = nullptr;
  std::uint32_t operand = 0;
};

class Value {
 public:
  const std::string& name() const { return name_; }
  Graph* graph() const { return graph_; }

  Type type;
  std::string doc_string;  // of graph inputs and outputs
  StringPairs metadata;    // of graph inputs and outputs

  DType dtype() const { return type.dtype(); }
  // Shorthand for type.tensor. REQUIRES: type.is_tensor().
  const TensorType& tensor_type() const { return type.tensor; }

  // The node whose result this is; null for graph inputs and constants.
  Node* producer() const { return producer_; }
  std::uint32_t result_index() const { return result_index_; }

  // Dense constant data (an initializer), or null. An initializer may also be a graph input, whose
  // default it then is.
  const TensorRef& constant() const { return constant_; }
  const std::shared_ptr<const SparseTensor>& sparse_constant() const { return sparse_constant_; }
  bool is_initializer() const { return constant_ || sparse_constant_; }
  bool is_graph_input() const { return is_input_; }
  // An output of the graph that owns the value.
  bool is_graph_output() const { return output_count_ > 0; }
  // True if the value is the same on every run: an initializer that no caller can override.
  bool is_fixed() const { return is_initializer() && !is_input_; }

  // Operand uses, those in subgraphs included, in no particular (but reproducible) order. Changes
  // with every edit: copy before editing in a loop.
  const std::vector<Use>& uses() const { return uses_; }
  // The graphs nested in this value's graph that list it among their outputs, once per listing.
  const std::vector<Graph*>& inner_outputs() const { return inner_outputs_; }
  // Used by an operand or as an output of any graph.
  bool has_uses() const { return !uses_.empty() || output_count_ > 0 || !inner_outputs_.empty(); }

 private:
  friend class Graph;
  friend class Node;
  std::string name_;
  Graph* graph_ = nullptr;
  Node* producer_ = nullptr;
  std::uint32_t result_index_ = 0;
  std::size_t slot_ = 0;              // position in graph_->values_
  std::size_t initializer_slot_ = 0;  // position in graph_->initializers_
  TensorRef constant_;
  std::shared_ptr<const SparseTensor> sparse_constant_;
  bool is_input_ = false;
  int output_count_ = 0;
  std::vector<Use> uses_;
  std::vector<Graph*> inner_outputs_;
};

class Node {
 public:
  std::string name;
  std::string doc_string;
  StringPairs metadata;
  std::vector<std::string> device_configurations;  // serialized messages, only carried along

  const std::string& op_type() const { return op_type_; }
  const std::string& domain() const { return domain_; }  // "" for ONNX's own, also for "ai.onnx"
  const std::string& overload() const { return overload_; }
  bool is(std::string_view op, std::string_view domain = "") const {
    return op_type_ == op && domain_ == domain;
  }
  Graph* graph() const { return graph_; }

  std::size_t operand_count() const { return operands_.size(); }
  // Null for an absent optional operand, and beyond the last.
  Value* operand(std::size_t index) const {
    return index < operands_.size() ? operands_[index].value : nullptr;
  }
  std::vector<Value*> operands() const;
  void set_operand(std::size_t index, Value* value);  // grows the list with absent ones if need be
  // Drops absent operands at the end (keep_at_least of the list stay).
  void trim_operands(std::size_t keep_at_least = 0);

  const std::vector<Value*>& results() const { return results_; }
  // Null for a result that is not wanted, and beyond the last.
  Value* result(std::size_t index = 0) const {
    return index < results_.size() ? results_[index] : nullptr;
  }

  const std::vector<Attribute>& attributes() const { return attributes_; }
  std::vector<Attribute>& mutable_attributes() { return attributes_; }
  const Attribute* attribute(std::string_view name) const;
  bool has_attribute(std::string_view name) const { return attribute(name) != nullptr; }
  std::int64_t int_attribute(std::string_view name, std::int64_t fallback) const;
  float float_attribute(std::string_view name, float fallback) const;
  std::string string_attribute(std::string_view name, std::string_view fallback) const;
  std::vector<std::int64_t> ints_attribute(std::string_view name,
                                           std::vector<std::int64_t> fallback = {}) const;
  // Adds or replaces. Graphs in `value` get this node as parent.
  void set_attribute(std::string_view name, Attribute::Value value);
  void erase_attribute(std::string_view name);
  // The graphs in this node's attributes (If, Loop, Scan), in attribute order.
  std::vector<Graph*> subgraphs() const;

 private:
  friend class Graph;
  struct Operand {
    Value* value = nullptr;
    std::uint32_t use_slot = 0;  // position in value->uses_
  };
  void unlink_operand(std::size_t index);
  void link_operand(std::size_t index, Value* value);

  std::string op_type_, domain_, overload_;
  Graph* graph_ = nullptr;
  std::list<std::unique_ptr<Node>>::iterator position_;
  std::vector<Operand> operands_;
  std::vector<Value*> results_;
  std::vector<Attribute> attributes_;
};

// A type note of ONNX's value_info list, as found in the file. Kept apart from Value::type because
// it may be stale, or name nothing.
struct ValueInfo {
  std::string name;
  Type type;
  std::string doc_string;
  StringPairs metadata;
};

class Graph {
 public:
  explicit Graph(std::string name = {}, Node* parent = nullptr);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  std::string name;
  std::string doc_string;
  StringPairs metadata;
  std::vector<ValueInfo> value_info;
  std::vector<std::string> quantization_annotations;  // serialized messages, only carried along

  // The node whose attribute holds this graph; null for the main graph and function bodies.
  Node* parent() const { return parent_; }
  void set_parent(Node* node);
  Graph* enclosing() const { return parent_ ? parent_->graph() : nullptr; }

  // Nodes in topological order. Erasing or inserting while iterating: keep the next iterator first.
  const std::list<std::unique_ptr<Node>>& nodes() const { return nodes_; }
  std::vector<Node*> node_list() const;  // a snapshot, safe against changes
  std::size_t node_count() const { return nodes_.size(); }

  const std::vector<Value*>& inputs() const { return inputs_; }
  const std::vector<Value*>& outputs() const { return outputs_; }
  const std::vector<Value*>& initializers() const;  // in file order; copy before erasing in a loop

  // Values. A name that is free in this graph is taken exactly, as importing needs it. An empty
  // one, or one that is taken here, is replaced by unique_name() of it. Passes that make up a name
  // ask unique_name() themselves, lest it hide, or be hidden by, one in a graph around or within.
  Value* add_input(std::string name, Type type);
  Value* add_initializer(std::string name, TensorRef tensor);
  Value* add_sparse_initializer(std::string name, std::shared_ptr<const SparseTensor> tensor);
  // Gives an existing graph input a default (an initializer of the same name).
  void set_initializer(Value* value, TensorRef tensor);
  void set_sparse_initializer(Value* value, std::shared_ptr<const SparseTensor> tensor);
  // Exchanges the data of an initializer; its type follows.
  void replace_constant(Value* value, TensorRef tensor);
  void add_output(Value* value);  // of this graph or of an enclosing one
  void set_output(std::size_t index, Value* value);
  // Input `index` becomes a plain initializer if it has a default, else it goes. REQUIRES for the
  // latter: it has no uses.
  void remove_input(std::size_t index);
  void remove_output(std::size_t index);
  Value* find(std::string_view name) const;          // in this graph only; null if absent
  Value* find_visible(std::string_view name) const;  // here, then in enclosing graphs
  void rename(Value* value, std::string name);  // takes the name exactly; REQUIRES: it is free here
  // `base` or `base`_1, `base`_2, ...: a name that no value has in this graph, in one around it or
  // in one nested in any of these. The name is not reserved: a second call may return it again.
  std::string unique_name(std::string_view base) const;
  // All values of this graph (inputs, initializers, results), in no particular (but reproducible)
  // order.
  std::vector<Value*> values() const;

  // Adds a node with `result_names.size()` results ("" makes an absent one) before `before`
  // (null: at the end). Result types are unknown until set.
  Node* add_node(std::string_view op_type, std::string_view domain,
                 std::span<Value* const> operands, std::span<const std::string> result_names,
                 Node* before = nullptr);
  // Adds one more result; "" for absent.
  Value* add_result(Node* node, std::string name);
  void set_overload(Node* node, std::string overload) { node->overload_ = std::move(overload); }
  // Makes a node another op, keeping operands and results.
  void change_op(Node* node, std::string_view op_type, std::string_view domain = "");
  void move_before(Node* node, Node* before);  // null: to the end
  // The node after `node` in the order; null behind the last.
  Node* next(const Node* node) const {
    std::list<std::unique_ptr<Node>>::const_iterator position = node->position_;
    return ++position == nodes_.end() ? nullptr : position->get();
  }
  // Erases a node and its results. REQUIRES: no result has uses.
  void erase(Node* node);
  // Erases an initializer that nothing uses and that is no input.
  void erase_initializer(Value* value);

  // All uses of `from`, outputs of graphs included, become uses of `to`; except operands of the
  // node that produces `to` (and of its subgraphs), which would make a cycle. So `y = Cast(x)` may
  // be added first and put in x's place by replace_uses(x, y).
  //
  // An output of from's graph keeps its public name, doc string and metadata:
  // - if `to` is a node result of the same graph and no output yet, `from` and `to` exchange them;
  // - else (`to` is an input, an initializer, an output already, or of an enclosing graph) a node
  //   y = Identity(to) is added at the end, y becomes the output and takes them, and `from` gets a
  //   new unique name;
  // - if `from` is an input as well, its name must serve both: the output stays `from`.
  // The output keeps its declared shape, but its element type is that of `to`: a caller that
  // changes it inserts a Cast itself.
  void replace_uses(Value* from, Value* to);
  // As above for node operands only.
  void replace_operand_uses(Value* from, Value* to);

  // Sorts the nodes of this graph and of nested ones topologically, counting captures of subgraphs.
  // Stable: each node stays where it is, and what it needs is pulled in front of it; a sorted graph
  // does not change. False if there is a cycle; that graph is then left as it was.
  bool sort_topologically();
  // Drops nodes whose results nothing uses, here and in nested graphs, and then unused initializers
  // if asked. Returns how many nodes went. Nodes with side effects do not exist in ONNX.
  std::size_t remove_dead_nodes(bool unused_initializers_too);

 private:
  friend class Node;
  Value* new_value(std::string name);
  void forget(Value* value);
  void make_initializer(Value* value);
  void drop_initializer(Value* value);
  void link_output(Value* value);
  void unlink_output(Value* value);
  void exchange_names(Value* a, Value* b);
  static void replace_inner_outputs(Value* from, Value* to);

  Node* parent_ = nullptr;
  std::shared_ptr<NameScope> scope_;  // one for a graph and all nested in it
  std::list<std::unique_ptr<Node>> nodes_;
  std::vector<std::unique_ptr<Value>> values_;
  std::unordered_map<std::string_view, Value*> by_name_;  // keys lie in the values
  std::vector<Value*> inputs_, outputs_;
  // Erased ones leave null behind until somebody looks, so that erasing many stays linear.
  mutable std::vector<Value*> initializers_;
  mutable bool initializers_have_holes_ = false;
};

struct OpsetImport {
  std::string domain;
  std::int64_t version = 0;
  bool operator==(const OpsetImport&) const = default;
};

// A model-local function. Its body is a Graph whose inputs and outputs are untyped.
struct Function {
  std::string domain, name, overload, doc_string;
  std::vector<std::string> attribute_names;  // without default
  std::vector<Attribute> attribute_defaults;
  std::vector<OpsetImport> opsets;
  StringPairs metadata;
  std::unique_ptr<Graph> body;
};

struct TrainingInfo {
  std::unique_ptr<Graph> initialization, algorithm;  // either may be null
  StringPairs initialization_binding, update_binding;
};

struct Model {
  std::int64_t ir_version = 0;
  std::string producer_name, producer_version, domain, doc_string;
  std::int64_t model_version = 0;
  std::vector<OpsetImport> opsets;
  StringPairs metadata;
  std::unique_ptr<Graph> graph;
  std::vector<std::unique_ptr<Function>> functions;
  std::vector<TrainingInfo> training_info;
  std::vector<std::string> device_configurations;  // serialized messages, only carried along
  std::string source_path;                         // for messages; "" if not from a file

  // Version of an operator set; 0 if not imported. "" and "ai.onnx" are the same.
  std::int64_t opset(std::string_view domain = "") const;
  void set_opset(std::string_view domain, std::int64_t version);  // adds or changes
};

// Calls `visit(Graph&)` for the graph and all graphs nested in it, outermost first.
template <typename Visit>
void for_each_graph(Graph& graph, const Visit& visit) {
  visit(graph);
  for (const auto& node : graph.nodes()) {
    for (Graph* inner : node->subgraphs()) for_each_graph(*inner, visit);
  }
}

// "node 'conv1' (Conv)"; an unnamed node is called by its first result: "node producing 'y'
// (Relu)".
std::string describe(const Node& node);

// What reports call a node: its name; describe(node) where it has none, never "".
std::string display_name(const Node& node);

// A hash over everything that matters to a run: ops, attributes, names, types, constants' identity
// (Tensor::id, so weights are not read, and only models of one process compare).
std::uint64_t fingerprint(const Model& model);

}  // namespace mezzo
