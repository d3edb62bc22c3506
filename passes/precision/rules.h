// The rules of a policy, ready to be matched.
#pragma once

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/support/status.h"
#include "compiler/support/text.h"
#include "passes/cleanup/function_table.h"
#include "passes/precision/policy.h"
#include "passes/precision/slots.h"

namespace mezzo::passes {

class RuleMatcher {
 public:
  // InvalidArgument: an expression does not compile.
  static StatusOr<RuleMatcher> create(const PrecisionPolicy& policy);

  // The last rule that matches, or null. `spelled` is the operator that the node counts as: its
  // own type, or the pattern it is a part of ("LayerNormalization"). Nodes without a name go by
  // the names of their results.
  const PolicyRule* find(const Node& node, std::string_view spelled) const;

 private:
  struct Compiled {
    PolicyRule rule;
    std::optional<Pattern> node;
    std::vector<std::pair<std::string, Pattern>> metadata;
  };
  static bool matches(const Compiled& compiled, const Node& node, std::string_view spelled);

  std::vector<Compiled> rules_;  // read from the last; find() points into it
};

// May a rule say which operands and results of this node are low? Only where ONNX has no schema and
// the model no function body that does.
bool takes_slots_from_rules(const Node& node, const Model& model, const FunctionTable& functions);

// The low operands and results of such a node: those that the rule lists, else all, as far as they
// are FP32.
LowSlots slots_by_rule(const Node& node, const PolicyRule& rule);

// Gives FP32 to results of unknown type that a rule lists as taking the low type, so that what
// reads them can be typed. Returns whether there were any.
StatusOr<bool> declare_results(Model& model, const PrecisionPolicy& policy);

}  // namespace mezzo::passes
