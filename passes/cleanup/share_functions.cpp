// share-functions and inline-functions; see expand_functions.h.
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <utility>

#include "compiler/ir/clone.h"
#include "passes/cleanup/expand_functions.h"
#include "passes/cleanup/function_table.h"
#include "passes/precision/policy_words.h"

namespace mezzo::passes {
namespace {

std::set<const Function*> called_functions(Model& model) {
  const FunctionTable table(model);
  std::set<const Function*> called;
  const auto note = [&](Graph& graph) {
    for_each_node(graph, [&](Node& node) {
      if (const Function* function = table.find(node)) called.insert(function);
    });
  };
  note(*model.graph);
  for (const auto& function : model.functions) note(*function->body);
  return called;
}

// Types as the file had them: none at the function's own level; graphs nested in it may have some,
// whose element type follows what the passes chose.
void restore_types(Graph& body, Graph& original) {
  std::unordered_map<std::string, Type> before;
  for_each_graph(original, [&](Graph& graph) {
    for (const Value* value : graph.values()) {
      if (&graph != &original) before.emplace(value->name(), value->type);
    }
  });
  for_each_graph(body, [&](Graph& graph) {
    for (Value* value : graph.values()) {
      if (value->is_initializer()) continue;
      const DType dtype = value->dtype();
      const auto found = before.find(value->name());
      value->type = &graph == &body || found == before.end() ? Type() : found->second;
      if (value->type.is_tensor() && dtype != DType::kNone) value->type.tensor.dtype = dtype;
    }
  });
}

std::uint64_t signature(const Graph& body) {
  Model holder;
  holder.graph = clone(body);
  return fingerprint(holder);
}

class FunctionSharer {
 public:
  FunctionSharer(Model& model, PassContext& ctx) : model_(model), ctx_(ctx), originals_(model) {
    for (const auto& function : model.functions)
      names_.emplace(canonical_domain(function->domain), function->name);
  }

  bool run() {
    share(*model_.graph);
    if (had_calls_.empty()) return false;
    drop_functions_without_calls();
    return true;
  }

 private:
  // Innermost first: a body is compared with what it calls by its final name.
  void share(Graph& graph) {
    for (Node* node : graph.node_list()) {
      for (Graph* inner : node->subgraphs()) share(*inner);
      if (call_body(*node) != nullptr) share_call(*node);
    }
  }

  void share_call(Node& call) {
    const Function& function = *originals_.find(call);
    had_calls_.insert(&function);
    const auto attribute =
        call.attribute(kCallBody)->value;  // holds the body while it is looked at
    Graph& body = *std::get<Attribute::GraphRef>(attribute);
    call.erase_attribute(kCallBody);
    body.set_parent(nullptr);
    const std::unique_ptr<Graph> plain = body_for(call, function);
    restore_types(body, *plain);
    const std::uint64_t made = signature(body);
    if (made == signature(*plain)) return;
    const auto [entry, is_new] = specialised_.try_emplace({&function, made}, "");
    if (is_new) entry->second = add_function(function, body);
    call.mutable_attributes().clear();
    call.graph()->change_op(&call, entry->second, call.domain());
    call.graph()->set_overload(&call, "");
  }

  std::string add_function(const Function& original, const Graph& body) {
    auto function = std::make_unique<Function>();
    function->domain = original.domain;
    function->name = new_name(original);
    function->doc_string = original.doc_string;
    function->opsets = original.opsets;
    function->metadata = original.metadata;
    function->body = clone(body);
    function->body->name = original.body->name;
    model_.functions.push_back(std::move(function));
    ctx_.stats.add("functions-specialised", 1);
    return model_.functions.back()->name;
  }

  std::string new_name(const Function& original) {
    const std::string base = original.name + low_suffix(ctx_.policy.low);
    std::string name = base;
    for (int i = 1; !names_.emplace(canonical_domain(original.domain), name).second; ++i)
      name = base + "_" + std::to_string(i);
    return name;
  }

  // Only those that lost their calls; what the file did not call in the first place stays. What
  // they called may lose its last call with them.
  void drop_functions_without_calls() {
    std::size_t before = 0;
    do {
      before = model_.functions.size();
      const std::set<const Function*> used = called_functions(model_);
      std::erase_if(model_.functions, [&](const auto& function) {
        return had_calls_.contains(function.get()) && !used.contains(function.get());
      });
    } while (model_.functions.size() != before);
  }

  Model& model_;
  PassContext& ctx_;
  FunctionTable originals_;
  std::set<const Function*> had_calls_;
  std::map<std::pair<const Function*, std::uint64_t>, std::string> specialised_;  // by signature
  std::set<std::pair<std::string, std::string>> names_;  // domain and name of all functions
};

// An absent operand can stand for an input where nodes read it, not where a graph gives it back.
bool can_inline(const Node& call) {
  const std::vector<Value*>& inputs = call_body(call)->inputs();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (call.operand(i) != nullptr) continue;
    if (inputs[i]->is_graph_output() || !inputs[i]->inner_outputs().empty()) return false;
  }
  return call.operand_count() <= inputs.size() &&
         call.results().size() <= call_body(call)->outputs().size();
}

void inline_call(Node& call) {
  Graph& graph = *call.graph();
  const Graph& body = *call_body(call);
  ValueMapping mapping;
  for (std::size_t i = 0; i < body.inputs().size(); ++i)
    mapping[body.inputs()[i]] = call.operand(i);
  clone_nodes(graph, body, display_name(call) + "/", mapping, &call);
  for (std::size_t i = 0; i < call.results().size(); ++i) {
    Value* result = call.result(i);
    Value* output = body.outputs()[i];
    const auto found = mapping.find(output);
    if (result != nullptr)
      graph.replace_uses(result, found == mapping.end() ? output : found->second);
  }
  graph.erase(&call);
}

// Innermost first, so that nothing is copied more often than it is called.
void inline_calls(Graph& graph) {
  for (Node* node : graph.node_list()) {
    for (Graph* inner : node->subgraphs()) inline_calls(*inner);
    if (call_body(*node) == nullptr) continue;
    if (can_inline(*node)) {
      inline_call(*node);
    } else {
      node->erase_attribute(kCallBody);
    }
  }
}

}  // namespace

StatusOr<bool> share_functions(Model& model, PassContext& ctx) {
  return FunctionSharer(model, ctx).run();
}

StatusOr<bool> inline_functions(Model& model, PassContext& ctx) {
  const std::set<const Function*> called = called_functions(model);
  MEZZO_ASSIGN_OR_RETURN(const bool expanded, expand_functions(model, ctx));
  if (!expanded) return false;
  for (const auto& function : model.functions) {
    for (const OpsetImport& opset : function->opsets) {
      if (model.opset(opset.domain) == 0) model.set_opset(opset.domain, opset.version);
    }
  }
  inline_calls(*model.graph);
  // A call that could not be inlined needs what the functions call, too.
  const FunctionTable table(model);
  bool all = true;
  for_each_node(*model.graph, [&](Node& node) { all = all && table.find(node) == nullptr; });
  if (all)
    std::erase_if(model.functions,
                  [&](const auto& function) { return called.contains(function.get()); });
  return true;
}

}  // namespace mezzo::passes
