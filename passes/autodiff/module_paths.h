// Which PyTorch module a node of a TorchScript export was called in, told from the node's name.
#pragma once

#include <set>
#include <string>

#include "compiler/ir/graph.h"

namespace mezzo::passes {

// The exporter names a node after its module, "/l/fc/MatMul" in module "l.fc", and numbers the
// further calls of one module: "/l/fc_1/MatMul". A module may itself be called "fc_1": that is
// known where a parameter "l.fc_1.bias" is.
class ModulePaths {
 public:
  explicit ModulePaths(const Graph& graph);

  // "l.fc" for every call of it; "" for a name without a module.
  std::string of(const Node& node) const;
  // That of the first node that reads `value`, Identity apart; "" where none does.
  std::string of_user(const Value& value) const;

 private:
  std::set<std::string> modules_;  // those that own something named, and those around them
};

}  // namespace mezzo::passes
