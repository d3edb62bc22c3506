// The names in use in a tree of nested graphs, shared by all graphs of the tree.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

namespace mezzo {

// Counts how many values have each name (sibling subgraphs may use one name twice), so that a new
// name can be found that no graph of the tree uses, in constant time on average.
class NameScope {
 public:
  void add(std::string_view name);
  void remove(std::string_view name);
  bool contains(std::string_view name) const { return counts_.find(name) != counts_.end(); }
  // `base` if it is free, else `base`_N with the next N that is.
  std::string unique(std::string_view base);

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };
  template <typename T>
  using NameMap = std::unordered_map<std::string, T, Hash, std::equal_to<>>;

  NameMap<std::uint32_t> counts_;
  NameMap<std::uint64_t> next_suffix_;
};

}  // namespace mezzo
