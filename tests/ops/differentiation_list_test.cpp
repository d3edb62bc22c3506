// The lists of compiler/ops/README.md against the catalogue, in both directions.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "compiler/ops/differentiation.h"

namespace mezzo::test {
namespace {

using Lists = std::map<std::string, std::string>;  // operator: reason

std::string trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(' ');
  return first == std::string::npos ? ""
                                    : text.substr(first, text.find_last_not_of(' ') + 1 - first);
}

// The rows "| reason | Op, Op |" under a heading.
Lists lists_under(const std::string& heading) {
  std::ifstream file(MEZZO_OPS_README);
  Lists lists;
  bool inside = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("## ")) inside = line == "## " + heading;
    if (!inside || !line.starts_with("| ") || line.starts_with("| Reason")) continue;
    const std::size_t middle = line.find(" | ");
    const std::string reason = trimmed(line.substr(1, middle - 1));
    std::istringstream names(line.substr(middle + 3, line.rfind('|') - middle - 3));
    for (std::string name; std::getline(names, name, ',');) {
      EXPECT_TRUE(lists.emplace(trimmed(name), reason).second) << name << " stands there twice";
    }
  }
  return lists;
}

Lists lists_of(Differentiation how) {
  Lists lists;
  for (const OpDef* op : all_ops()) {
    if (differentiation_of(*op) == how) lists[qualified_name(*op)] = differentiation_gap(*op);
  }
  return lists;
}

// The rows as they should stand.
std::string rows(const Lists& lists) {
  std::map<std::string, std::string> by_reason;
  for (const auto& [name, reason] : lists) {
    std::string& names = by_reason[reason];
    names += (names.empty() ? "" : ", ") + name;
  }
  std::string text = "| Reason | Operators |\n|---|---|\n";
  for (const auto& [reason, names] : by_reason) text += "| " + reason + " | " + names + " |\n";
  return text;
}

TEST(DifferentiationLists, EqualTheCatalogue) {
  const std::pair<const char*, Differentiation> sections[] = {
      {"Not differentiable", Differentiation::kNot},
      {"Differentiable, but without a rule", Differentiation::kNoRule}};
  for (const auto& [heading, how] : sections) {
    const Lists expected = lists_of(how);
    EXPECT_FALSE(expected.empty());
    EXPECT_EQ(lists_under(heading), expected)
        << "Under '" << heading << "' of " << MEZZO_OPS_README << " there should stand:\n\n"
        << rows(expected);
  }
}

TEST(DifferentiationLists, EveryOperatorStandsInOnePlace) {
  for (const OpDef* op : all_ops()) {
    const Differentiation how = differentiation_of(*op);
    const bool differentiated = how == Differentiation::kRule ||
                                how == Differentiation::kDecomposed ||
                                how == Differentiation::kUnrolled;
    EXPECT_EQ(differentiated, differentiation_gap(*op).empty()) << qualified_name(*op);
  }
}

}  // namespace
}  // namespace mezzo::test
