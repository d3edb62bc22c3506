#include "passes/precision/rules.h"

#include <algorithm>

#include "compiler/ops/op_def.h"
#include "compiler/ops/schema.h"
#include "passes/autodiff/exporter_notes.h"

namespace mezzo::passes {
namespace {

// Its element type is not known.
bool may_be_tensor(const Type& type) {
  return type.dtype() == DType::kNone &&
         (type.kind == Type::Kind::kUnknown || type.kind == Type::Kind::kTensor);
}

bool listed(const std::optional<std::vector<std::int64_t>>& slots, std::size_t index) {
  return !slots ||
         std::find(slots->begin(), slots->end(), static_cast<std::int64_t>(index)) != slots->end();
}

// By name, or by the module that PyTorch's exporter notes where its names tell nothing
// ("node_conv2d_7" of "aspp.branches.1.0").
bool matches_name(const Pattern& pattern, const Node& node) {
  if (const std::string module = module_of(node); !module.empty() && pattern.matches(module))
    return true;
  if (!node.name.empty()) return pattern.matches(node.name);
  return std::any_of(node.results().begin(), node.results().end(), [&](const Value* result) {
    return result != nullptr && pattern.matches(result->name());
  });
}

bool matches_metadata(const std::string& key, const Pattern& pattern, const Node& node) {
  return std::any_of(node.metadata.begin(), node.metadata.end(), [&](const auto& entry) {
    return entry.first == key && pattern.matches(entry.second);
  });
}

}  // namespace

StatusOr<RuleMatcher> RuleMatcher::create(const PrecisionPolicy& policy) {
  RuleMatcher matcher;
  for (PolicyRule& rule : policy.all_rules()) {
    Compiled compiled;
    if (!rule.node.empty()) {
      MEZZO_ASSIGN_OR_RETURN(Pattern pattern, Pattern::compile(rule.node, rule.origin + ": node"));
      compiled.node = std::move(pattern);
    }
    for (const auto& [key, text] : rule.metadata) {
      MEZZO_ASSIGN_OR_RETURN(Pattern pattern, Pattern::compile(text, rule.origin + ": metadata"));
      compiled.metadata.emplace_back(key, std::move(pattern));
    }
    compiled.rule = std::move(rule);
    matcher.rules_.push_back(std::move(compiled));
  }
  return matcher;
}

const PolicyRule* RuleMatcher::find(const Node& node, std::string_view spelled) const {
  const auto found = std::find_if(rules_.rbegin(), rules_.rend(), [&](const Compiled& compiled) {
    return matches(compiled, node, spelled);
  });
  return found == rules_.rend() ? nullptr : &found->rule;
}

bool RuleMatcher::matches(const Compiled& compiled, const Node& node, std::string_view spelled) {
  const PolicyRule& rule = compiled.rule;
  if (!rule.ops.empty() && std::find(rule.ops.begin(), rule.ops.end(), spelled) == rule.ops.end())
    return false;
  if (rule.domain && *rule.domain != node.domain()) return false;
  if (compiled.node && !matches_name(*compiled.node, node)) return false;
  return std::all_of(compiled.metadata.begin(), compiled.metadata.end(), [&](const auto& entry) {
    return matches_metadata(entry.first, entry.second, node);
  });
}

bool takes_slots_from_rules(const Node& node, const Model& model, const FunctionTable& functions) {
  return node.subgraphs().empty() && functions.find(node) == nullptr &&
         !has_schema(node.op_type(), node.domain(), model.opset(node.domain()));
}

LowSlots slots_by_rule(const Node& node, const PolicyRule& rule) {
  LowSlots slots;
  for (std::size_t i = 0; i < node.operand_count(); ++i)
    slots.operands.push_back(is_fp32(node.operand(i)) && listed(rule.operands, i));
  for (std::size_t i = 0; i < node.results().size(); ++i)
    slots.results.push_back(is_fp32(node.result(i)) && listed(rule.results, i));
  const auto any = [](const std::vector<bool>& list) {
    return std::find(list.begin(), list.end(), true) != list.end();
  };
  slots.possible = any(slots.operands) || any(slots.results);
  if (!slots.possible) slots.why_not = rule.origin + " names no FP32 operand or result";
  return slots;
}

StatusOr<bool> declare_results(Model& model, const PrecisionPolicy& policy) {
  const bool lists_any =
      std::any_of(policy.rules.begin(), policy.rules.end(),
                  [](const PolicyRule& rule) { return rule.results.has_value(); });
  if (!lists_any) return false;
  MEZZO_ASSIGN_OR_RETURN(const RuleMatcher rules, RuleMatcher::create(policy));
  const FunctionTable functions(model);
  bool declared = false;
  for_each_graph(*model.graph, [&](Graph& graph) {
    for (const auto& node : graph.nodes()) {
      if (!takes_slots_from_rules(*node, model, functions)) continue;
      const PolicyRule* rule = rules.find(*node, node->op_type());
      if (rule == nullptr || !rule->results) continue;
      for (std::size_t i = 0; i < node->results().size(); ++i) {
        Value* result = node->result(i);
        if (result == nullptr || !listed(rule->results, i) || !may_be_tensor(result->type))
          continue;
        TensorType type = result->type.tensor;
        type.dtype = DType::kFloat32;
        result->type = type;
        declared = true;
      }
    }
  });
  return declared;
}

}  // namespace mezzo::passes
