// Initializers chosen by name, as --freeze and --train do.
#pragma once

#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/support/status.h"
#include "compiler/support/text.h"

namespace mezzo::passes {

class PatternList {
 public:
  // `option` is where the expressions come from: "--freeze". InvalidArgument: one is none.
  static StatusOr<PatternList> compile(const std::vector<std::string>& texts,
                                       const std::string& option);

  // InvalidArgument: an expression matches no initializer of the graph.
  Status check_names(const Graph& graph) const;

  // Does any match?
  bool matches(const std::string& name) const;

  const std::vector<Pattern>& patterns() const { return patterns_; }

 private:
  std::string option_;
  std::vector<Pattern> patterns_;
};

}  // namespace mezzo::passes
