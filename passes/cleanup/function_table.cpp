#include "passes/cleanup/function_table.h"

#include "passes/cleanup/expand_functions.h"

namespace mezzo::passes {

FunctionTable::FunctionTable(const Model& model) : model_(model) {
  for (const auto& function : model.functions) {
    functions_.emplace(Key{canonical_domain(function->domain), function->name, function->overload},
                       function.get());
  }
}

const Function* FunctionTable::find(const Node& node) const {
  if (functions_.empty()) return nullptr;
  const auto found = functions_.find({node.domain(), node.op_type(), node.overload()});
  return found == functions_.end() ? nullptr : found->second;
}

std::int64_t FunctionTable::opset(const Graph& graph, std::string_view domain) const {
  for (const Graph* at = &graph; at->parent() != nullptr; at = at->enclosing()) {
    if (call_body(*at->parent()) != at) continue;
    const Function* function = find(*at->parent());
    if (function == nullptr) break;
    for (const OpsetImport& opset : function->opsets) {
      if (canonical_domain(opset.domain) == domain) return opset.version;
    }
    return 0;
  }
  return model_.opset(domain);
}

}  // namespace mezzo::passes
