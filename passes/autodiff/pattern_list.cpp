#include "passes/autodiff/pattern_list.h"

#include <algorithm>

namespace mezzo::passes {

StatusOr<PatternList> PatternList::compile(const std::vector<std::string>& texts,
                                           const std::string& option) {
  PatternList list;
  list.option_ = option;
  for (const std::string& text : texts) {
    MEZZO_ASSIGN_OR_RETURN(Pattern pattern, Pattern::compile(text, option));
    list.patterns_.push_back(std::move(pattern));
  }
  return list;
}

Status PatternList::check_names(const Graph& graph) const {
  const auto& values = graph.initializers();
  for (const Pattern& pattern : patterns_) {
    if (std::none_of(values.begin(), values.end(),
                     [&](const Value* value) { return pattern.matches(value->name()); })) {
      return invalid_argument(option_ + " '" + printable(pattern.text()) +
                              "': matches no initializer. Hint: `mezzo inspect` lists their names");
    }
  }
  return ok_status();
}

bool PatternList::matches(const std::string& name) const {
  return std::any_of(patterns_.begin(), patterns_.end(),
                     [&](const Pattern& pattern) { return pattern.matches(name); });
}

}  // namespace mezzo::passes
