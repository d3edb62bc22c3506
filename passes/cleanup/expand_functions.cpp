#include "passes/cleanup/expand_functions.h"

#include <algorithm>
#include <map>
#include <memory>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "compiler/ir/clone.h"
#include "compiler/ops/op_def.h"
#include "compiler/support/text.h"

namespace mezzo::passes {
namespace {

constexpr double kLargestExpansion = 1e6;  // nodes
constexpr int kDeepestCall = 64;

using FunctionKey = std::tuple<std::string_view, std::string_view, std::string_view>;

FunctionKey key_of(const Function& function) {
  return {canonical_domain(function.domain), function.name, function.overload};
}
FunctionKey key_of(const Node& node) { return {node.domain(), node.op_type(), node.overload()}; }

using FunctionTable = std::map<FunctionKey, const Function*>;

FunctionTable table_of(const Model& model) {
  FunctionTable table;
  for (const auto& function : model.functions) table.emplace(key_of(*function), function.get());
  return table;
}

const Function* find(const FunctionTable& table, const Node& node) {
  const auto found = table.find(key_of(node));
  return found == table.end() ? nullptr : found->second;
}

template <typename Visit>
void for_each_node(Graph& graph, const Visit& visit) {
  for_each_graph(graph, [&](Graph& inner) {
    for (const auto& node : inner.nodes()) visit(*node);
  });
}

// How many nodes calls expand to, and that none leads to itself.
class ExpansionSize {
 public:
  explicit ExpansionSize(const FunctionTable& table) : table_(table) {}

  StatusOr<double> of(Graph& graph, int depth = 0) {
    double nodes = 0;
    Status status;
    for_each_node(graph, [&](Node& node) {
      nodes += 1;
      const Function* function = find(table_, node);
      if (function == nullptr || !status.ok()) return;
      const StatusOr<double> inner = of(*function, depth + 1);
      if (inner.ok())
        nodes += *inner;
      else
        status = inner.status().with_context(describe(node));
    });
    if (!status.ok()) return status;
    return nodes;
  }

 private:
  StatusOr<double> of(const Function& function, int depth) {
    const auto [entry, is_new] = sizes_.try_emplace(&function, -1);
    if (!is_new && entry->second >= 0) return entry->second;
    if (!is_new || depth > kDeepestCall) {
      return invalid_argument(
          "function '" + printable(function.name) + "': " +
          (is_new ? "calls are nested more than " + std::to_string(kDeepestCall) + " deep"
                  : std::string("calls itself")));
    }
    MEZZO_ASSIGN_OR_RETURN(const double nodes, of(*function.body, depth));
    sizes_[&function] = nodes;
    return nodes;
  }

  const FunctionTable& table_;
  std::unordered_map<const Function*, double> sizes_;  // -1: being counted
};

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
    const Function* function = find(table, *node);
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
    scope.opsets = find(table_, call)->opsets;
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

const Function* called_function(const Model& model, const Node& node) {
  for (const auto& function : model.functions) {
    if (key_of(*function) == key_of(node)) return function.get();
  }
  return nullptr;
}

std::int64_t opset_at(const Model& model, const Graph& graph, std::string_view domain) {
  for (const Graph* at = &graph; at->parent() != nullptr; at = at->enclosing()) {
    if (call_body(*at->parent()) != at) continue;
    const Function* function = called_function(model, *at->parent());
    if (function == nullptr) break;
    for (const OpsetImport& opset : function->opsets) {
      if (canonical_domain(opset.domain) == domain) return opset.version;
    }
    return 0;
  }
  return model.opset(domain);
}

std::unique_ptr<Graph> body_for(const Node& call, const Function& function) {
  std::unique_ptr<Graph> body = clone(*function.body);
  for_each_node(*body, [&](Node& node) { resolve_references(node, call, function); });
  return body;
}

StatusOr<bool> expand_functions(Model& model, PassContext& ctx) {
  if (model.functions.empty()) return false;
  const FunctionTable table = table_of(model);
  MEZZO_RETURN_IF_ERROR(check_reserved_name(*model.graph));
  for (const auto& function : model.functions)
    MEZZO_RETURN_IF_ERROR(check_reserved_name(*function->body));
  MEZZO_ASSIGN_OR_RETURN(const double nodes, ExpansionSize(table).of(*model.graph));
  if (nodes > kLargestExpansion) {
    ctx.records.warnings.push_back("calls of local functions would expand to " +
                                   format_number(nodes) + " nodes: they stay in FP32");
    return false;
  }
  const bool changed = expand_calls(*model.graph, table);
  for (Node* call : outermost_calls(*model.graph)) BodyTyper(table).type_call(*call);
  return changed;
}

}  // namespace mezzo::passes
