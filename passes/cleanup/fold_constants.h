#pragma once

#include <unordered_set>

#include "passes/pass.h"

namespace mezzo::passes {

// Computes nodes whose operands are all constant, and Shape and Size where shapes are static, with
// the reference kernels; the results become initializers. Types that become known on the way are
// inferred. Floating-point initializers of the model are weights, not constants: training may
// change them, so what reads them stays.
StatusOr<bool> fold_constants(Model& model, PassContext& ctx);

// The same node by node, for a pass that must know at once what its new nodes amount to.
class ConstantFolder {
 public:
  // Floating-point initializers that appear later count as weights only if they are among
  // `model`'s now.
  ConstantFolder(Model& model, PassContext& ctx);

  // Infers the node's types again if some are not known, and folds it if it can: it is erased then,
  // and initializers stand for its results. REQUIRES: a node of the main graph, visited after its
  // operands.
  Status visit(Node& node);

  // A floating-point initializer that is no constant.
  void add_weight(const Value* value) { weights_.insert(value); }
  bool changed() const { return changed_; }

 private:
  Status infer_again(Node& node);
  void fold(Node& node);
  void replace(Node& node, const TensorRef& tensor);

  Model& model_;
  Graph& graph_;
  PassContext& ctx_;
  std::unordered_set<const Value*> weights_;
  bool changed_ = false;
};

}  // namespace mezzo::passes
