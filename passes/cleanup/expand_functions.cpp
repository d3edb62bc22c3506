#include "passes/cleanup/expand_functions.h"

#include <algorithm>
#include <memory>

#include "compiler/ir/clone.h"
#include "compiler/ops/op_def.h"
#include "passes/cleanup/function_table.h"

namespace mezzo::passes {
namespace {

// A reference takes the call's attribute, else the function's default; without either the
// attribute is absent.
void resolve_references(Node& node, const Node& call, const Function& function) {
  std::vector<Attribute>& attributes = node.mutable_attributes();
  std::erase_if(attributes, [&](Attribute& attribute) {
    if (attribute.ref_name.empty()) return false;
    const Attribute* given = call.attribute(attribute.ref_name);
    for (const Attribute& fallback : function.attribute_defaults) {
      if (given == nullptr && fallback.name == attribute.ref_name) given = &fallback;
    }
    if (given == nullptr) return true;
    attribute.value = given->value;
    attribute.ref_name.clear();
    attribute.ref_kind = Attribute::Kind::kNone;
    return false;
  });
}

// A graph cannot stand in two places, so calls that hand graphs to functions stay as they are.
bool passes_graphs(const Node& call, const Function& function) {
  const auto is_graph = [](const Attribute& attribute) {
    return attribute.kind() == Attribute::Kind::kGraph ||
           attribute.kind() == Attribute::Kind::kGraphs;
  };
  return std::any_of(call.attributes().begin(), call.attributes().end(), is_graph) ||
         std::any_of(function.attribute_defaults.begin(), function.attribute_defaults.end(),
                     is_graph);
}

bool expand_calls(Graph& graph, const FunctionTable& table) {
  bool changed = false;
  for (Node* node : graph.node_list()) {
    const Function* function = table.find(*node);
    if (function != nullptr && !passes_graphs(*node, *function)) {
      node->set_attribute(kCallBody, Attribute::GraphRef(body_for(*node, *function)));
      changed = true;
    }
    for (Graph* inner : node->subgraphs()) changed = expand_calls(*inner, table) || changed;
  }
  return changed;
}

// Infers the types of a body whose inputs have theirs. What cannot be inferred stays unknown.
class BodyTyper {
 public:
  explicit BodyTyper(const FunctionTable& table) : table_(table) {}

  void type_call(Node& call) {
    Graph& body = *call_body(call);
    Model scope;  // only its opsets are asked
    scope.opsets = table_.find(call)->opsets;
    for (std::size_t i = 0; i < std::min(call.operand_count(), body.inputs().size()); ++i) {
      if (call.operand(i) != nullptr) body.inputs()[i]->type = call.operand(i)->type;
    }
    type_graph(body, scope);
  }

 private:
  void type_graph(Graph& graph, const Model& scope) {
    for (const auto& node : graph.nodes()) {
      if (call_body(*node) != nullptr) {
        type_call(*node);
        give_types(*node);
        continue;
      }
      (void)infer_types(*node, &scope);
      const std::vector<Graph*> inner = node->subgraphs();
      for (Graph* subgraph : inner) type_graph(*subgraph, scope);
      if (!inner.empty()) (void)infer_types(*node, &scope);
    }
  }

  static void give_types(Node& call) {
    const std::vector<Value*>& outputs = call_body(call)->outputs();
    for (std::size_t i = 0; i < std::min(outputs.size(), call.results().size()); ++i) {
      if (call.result(i) != nullptr) call.result(i)->type = outputs[i]->type;
    }
  }

  const FunctionTable& table_;
};

// Calls of the graph and the graphs nested in it, without those in the bodies of calls.
std::vector<Node*> outermost_calls(Graph& graph) {
  std::vector<Node*> calls;
  for (const auto& node : graph.nodes()) {
    if (call_body(*node) != nullptr) {
      calls.push_back(node.get());
      continue;
    }
    for (Graph* inner : node->subgraphs()) {
      for (Node* call : outermost_calls(*inner)) calls.push_back(call);
    }
  }
  return calls;
}

Status check_reserved_name(Graph& graph) {
  Status status;
  for_each_node(graph, [&](Node& node) {
    if (status.ok() && node.has_attribute(kCallBody)) {
      status = invalid_argument(describe(node) + ", attribute '" + std::string(kCallBody) +
                                "': the name is reserved");
    }
  });
  return status;
}

}  // namespace

Graph* call_body(const Node& node) {
  const Attribute* attribute = node.attribute(kCallBody);
  const auto* graph =
      attribute == nullptr ? nullptr : std::get_if<Attribute::GraphRef>(&attribute->value);
  return graph == nullptr ? nullptr : graph->get();
}

std::unique_ptr<Graph> body_for(const Node& call, const Function& function) {
  std::unique_ptr<Graph> body = clone(*function.body);
  for_each_node(*body, [&](Node& node) { resolve_references(node, call, function); });
  return body;
}

StatusOr<bool> expand_functions(Model& model, PassContext&) {
  if (model.functions.empty()) return false;
  const FunctionTable table(model);
  MEZZO_RETURN_IF_ERROR(check_reserved_name(*model.graph));
  for (const auto& function : model.functions)
    MEZZO_RETURN_IF_ERROR(check_reserved_name(*function->body));
  const bool changed = expand_calls(*model.graph, table);
  for (Node* call : outermost_calls(*model.graph)) BodyTyper(table).type_call(*call);
  return changed;
}

}  // namespace mezzo::passes
