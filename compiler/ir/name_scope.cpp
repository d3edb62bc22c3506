#include "compiler/ir/name_scope.h"

namespace mezzo {

void NameScope::add(std::string_view name) {
  const auto found = counts_.find(name);
  if (found != counts_.end()) {
    ++found->second;
  } else {
    counts_.emplace(name, 1);
  }
}

void NameScope::remove(std::string_view name) {
  const auto found = counts_.find(name);
  if (found != counts_.end() && --found->second == 0) counts_.erase(found);
}

std::string NameScope::unique(std::string_view base) {
  if (!contains(base)) return std::string(base);
  std::uint64_t& next = next_suffix_.try_emplace(std::string(base), 1).first->second;
  std::string name;
  do {
    name = std::string(base) + "_" + std::to_string(next++);
  } while (contains(name));
  --next;  // stays a candidate until somebody takes it
  return name;
}

}  // namespace mezzo
