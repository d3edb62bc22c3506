#include "compiler/ir/clone.h"

namespace mezzo {
namespace {

Value* mapped(const ValueMapping& mapping, Value* value) {
  const auto found = mapping.find(value);
  return found == mapping.end() ? value : found->second;
}

// Decides what the copy of a value is called: `prefix` + its name, or a unique name if that is
// taken.
class Namer {
 public:
  enum class Avoid { kHere, kVisible };

  Namer(const Graph& into, std::string_view prefix, Avoid avoid)
      : into_(&into), prefix_(prefix), avoid_(avoid) {}

  std::string operator()(const std::string& name) const {
    std::string wanted = prefix_ + name;
    const Value* taken = avoid_ == Avoid::kHere ? into_->find(wanted) : into_->find_visible(wanted);
    return taken ? into_->unique_name(wanted) : wanted;
  }
  Namer within(const Graph& inner) const { return {inner, prefix_, avoid_}; }

 private:
  const Graph* into_;
  std::string prefix_;
  Avoid avoid_;
};

void copy_note(const Value& from, Value& to) {
  to.type = from.type;
  to.doc_string = from.doc_string;
  to.metadata = from.metadata;
}

void copy_initializer(const Value& from, Graph& into, Value* to) {
  if (from.constant()) into.set_initializer(to, from.constant());
  if (from.sparse_constant()) into.set_sparse_initializer(to, from.sparse_constant());
}

void copy_initializers(const Graph& graph, Graph& into, const Namer& namer, ValueMapping& mapping) {
  for (const Value* value : graph.initializers()) {
    if (value->is_graph_input()) {
      copy_initializer(*value, into, mapping.at(value));
      continue;
    }
    Value* copy = value->constant()
                      ? into.add_initializer(namer(value->name()), value->constant())
                      : into.add_sparse_initializer(namer(value->name()), value->sparse_constant());
    copy_note(*value, *copy);
    mapping[value] = copy;
  }
}

Node* copy_node(Graph& into, const Node& node, const Namer& namer, ValueMapping& mapping,
                Node* before);

void copy_graph(const Graph& graph, Graph& into, const Namer& namer, ValueMapping& mapping) {
  into.doc_string = graph.doc_string;
  into.metadata = graph.metadata;
  into.value_info = graph.value_info;
  into.quantization_annotations = graph.quantization_annotations;
  for (const Value* value : graph.inputs()) {
    Value* copy = into.add_input(namer(value->name()), value->type);
    copy_note(*value, *copy);
    mapping[value] = copy;
  }
  copy_initializers(graph, into, namer, mapping);
  for (const auto& node : graph.nodes()) copy_node(into, *node, namer, mapping, nullptr);
  for (Value* output : graph.outputs()) into.add_output(mapped(mapping, output));
}

Attribute::GraphRef copy_subgraph(const Attribute::GraphRef& graph, Node* parent,
                                  const Namer& namer, ValueMapping& mapping) {
  if (!graph) return nullptr;
  auto copy = std::make_shared<Graph>(graph->name, parent);
  copy_graph(*graph, *copy, namer.within(*copy), mapping);
  return copy;
}

Attribute copy_attribute(const Attribute& attribute, Node* parent, const Namer& namer,
                         ValueMapping& mapping) {
  Attribute copy = attribute;
  if (auto* graph = std::get_if<Attribute::GraphRef>(&copy.value)) {
    *graph = copy_subgraph(*graph, parent, namer, mapping);
  } else if (auto* graphs = std::get_if<std::vector<Attribute::GraphRef>>(&copy.value)) {
    for (Attribute::GraphRef& inner : *graphs) {
      inner = copy_subgraph(inner, parent, namer, mapping);
    }
  }
  return copy;
}

Node* copy_node(Graph& into, const Node& node, const Namer& namer, ValueMapping& mapping,
                Node* before) {
  std::vector<Value*> operands = node.operands();
  for (Value*& operand : operands) operand = mapped(mapping, operand);
  Node* copy = into.add_node(node.op_type(), node.domain(), operands, {}, before);
  into.set_overload(copy, node.overload());
  copy->name = node.name;
  copy->doc_string = node.doc_string;
  copy->metadata = node.metadata;
  copy->device_configurations = node.device_configurations;
  // Subgraphs first: they see the operands as the original's saw them, not the results.
  for (const Attribute& attribute : node.attributes()) {
    copy->mutable_attributes().push_back(copy_attribute(attribute, copy, namer, mapping));
  }
  for (const Value* result : node.results()) {
    Value* made = into.add_result(copy, result ? namer(result->name()) : std::string());
    if (!result) continue;
    copy_note(*result, *made);
    mapping[result] = made;
  }
  return copy;
}

}  // namespace

std::unique_ptr<Graph> clone(const Graph& graph, ValueMapping* mapping) {
  ValueMapping own;
  auto copy = std::make_unique<Graph>(graph.name);
  copy_graph(graph, *copy, Namer(*copy, "", Namer::Avoid::kHere), mapping ? *mapping : own);
  return copy;
}

Node* clone_node(Graph& into, const Node& node, ValueMapping& mapping, Node* before) {
  Node* copy = copy_node(into, node, Namer(into, "", Namer::Avoid::kVisible), mapping, before);
  // A node in the same tree of graphs would be the second of its name.
  const Value* result = copy->result();
  if (result && node.result() && result->name() != node.result()->name()) {
    copy->name = result->name();
  }
  return copy;
}

Node* clone_node(Builder& builder, const Node& node, ValueMapping& mapping) {
  if (builder.scope().empty()) {
    return clone_node(builder.graph(), node, mapping, builder.insertion_point());
  }
  const Namer namer(builder.graph(), builder.scope() + "/", Namer::Avoid::kVisible);
  Node* copy = copy_node(builder.graph(), node, namer, mapping, builder.insertion_point());
  if (const Value* result = copy->result()) copy->name = result->name();
  return copy;
}

void clone_nodes(Graph& into, const Graph& body, std::string_view prefix, ValueMapping& mapping,
                 Node* before) {
  const Namer namer(into, prefix, Namer::Avoid::kVisible);
  copy_initializers(body, into, namer, mapping);
  for (const auto& node : body.nodes()) {
    Node* copy = copy_node(into, *node, namer, mapping, before);
    if (!copy->name.empty()) copy->name.insert(0, prefix);
  }
}

namespace {

std::unique_ptr<Function> clone_function(const Function& function) {
  auto copy = std::make_unique<Function>();
  copy->domain = function.domain;
  copy->name = function.name;
  copy->overload = function.overload;
  copy->doc_string = function.doc_string;
  copy->attribute_names = function.attribute_names;
  copy->opsets = function.opsets;
  copy->metadata = function.metadata;
  if (!function.body) return copy;
  copy->body = clone(*function.body);
  ValueMapping mapping;
  const Namer namer(*copy->body, "", Namer::Avoid::kHere);
  for (const Attribute& attribute : function.attribute_defaults) {
    copy->attribute_defaults.push_back(copy_attribute(attribute, nullptr, namer, mapping));
  }
  return copy;
}

}  // namespace

std::unique_ptr<Model> clone_model(const Model& model) {
  auto copy = std::make_unique<Model>();
  copy->ir_version = model.ir_version;
  copy->producer_name = model.producer_name;
  copy->producer_version = model.producer_version;
  copy->domain = model.domain;
  copy->doc_string = model.doc_string;
  copy->model_version = model.model_version;
  copy->opsets = model.opsets;
  copy->metadata = model.metadata;
  copy->device_configurations = model.device_configurations;
  copy->source_path = model.source_path;
  ValueMapping mapping;
  if (model.graph) copy->graph = clone(*model.graph, &mapping);
  for (const auto& function : model.functions) copy->functions.push_back(clone_function(*function));
  for (const TrainingInfo& info : model.training_info) {
    TrainingInfo& made = copy->training_info.emplace_back();
    if (info.initialization) made.initialization = clone(*info.initialization, &mapping);
    if (info.algorithm) made.algorithm = clone(*info.algorithm, &mapping);
    made.initialization_binding = info.initialization_binding;
    made.update_binding = info.update_binding;
  }
  return copy;
}

}  // namespace mezzo
