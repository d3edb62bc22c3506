#include "compiler/report/records.h"

#include <array>

namespace mezzo {

std::string_view rule_name(Rule rule) {
  static constexpr std::array<std::string_view, kRuleCount> kNames = {
      "category", "pin",     "policy", "range",     "schema",
      "cut",      "pattern", "forced", "not-float", "calibration"};
  const auto index = static_cast<std::size_t>(rule);
  return index < kNames.size() ? kNames[index] : "?";
}

}  // namespace mezzo
