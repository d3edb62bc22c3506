#include "passes/autodiff/module_paths.h"

#include <algorithm>
#include <cctype>

namespace mezzo::passes {
namespace {

// "fc_1" without what numbers the call; "fc" as it is.
std::string without_call_number(const std::string& name) {
  const std::size_t mark = name.rfind('_');
  if (mark == std::string::npos || mark == 0 || mark + 1 == name.size()) return name;
  const bool number = std::all_of(name.begin() + static_cast<std::ptrdiff_t>(mark) + 1, name.end(),
                                  [](unsigned char c) { return std::isdigit(c) != 0; });
  return number ? name.substr(0, mark) : name;
}

}  // namespace

ModulePaths::ModulePaths(const Graph& graph) {
  const auto add = [&](std::string name) {
    for (std::size_t dot = name.rfind('.'); dot != std::string::npos; dot = name.rfind('.')) {
      name.resize(dot);
      if (!modules_.insert(name).second) break;
    }
  };
  for (const Value* value : graph.initializers()) add(value->name());
  for (const auto& node : graph.nodes()) {
    if (node->is("Identity") && node->result() != nullptr) add(node->result()->name());
  }
}

std::string ModulePaths::of(const Node& node) const {
  std::string path;
  std::size_t at = 0;
  for (std::size_t end; (end = node.name.find('/', at)) != std::string::npos; at = end + 1) {
    if (end == at) continue;
    const std::string part = node.name.substr(at, end - at);
    if (!path.empty()) path += '.';
    const std::size_t prefix = path.size();
    path += part;
    if (modules_.count(path) == 0)
      path.replace(prefix, std::string::npos, without_call_number(part));
  }
  return path;
}

std::string ModulePaths::of_user(const Value& value) const {
  for (const Use& use : value.uses()) {
    if (!use.node->is("Identity")) return of(*use.node);
  }
  return {};
}

}  // namespace mezzo::passes
