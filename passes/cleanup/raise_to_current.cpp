#include "passes/cleanup/raise_to_current.h"

#include "compiler/onnx/check.h"

namespace mezzo::passes {
namespace {

constexpr std::int64_t kCurrent = 13;
constexpr std::int64_t kNumpyBroadcasting = 7;  // below, binary ops have an attribute for it

bool is_softmax_like(const Node& node) {
  return node.is("Softmax") || node.is("LogSoftmax") || node.is("Hardmax");
}

// The node that would be misread at this opset; null if there is none.
const Node* misread(const Graph& graph, std::int64_t opset) {
  for (const auto& node : graph.nodes()) {
    if (is_softmax_like(*node)) {
      const Value* x = node->operand(0);
      const auto rank =
          x != nullptr && x->type.is_tensor() ? x->tensor_type().rank() : std::nullopt;
      const std::int64_t axis = node->int_attribute("axis", 1);
      const bool is_last = axis == -1 || (rank && axis == static_cast<std::int64_t>(*rank) - 1);
      if (!is_last) return node.get();
    }
    if (opset < kNumpyBroadcasting && node->int_attribute("broadcast", 0) != 0) return node.get();
    for (const Graph* inner : node->subgraphs()) {
      if (const Node* found = misread(*inner, opset)) return found;
    }
  }
  return nullptr;
}

}  // namespace

StatusOr<bool> raise_to_current(Model& model, PassContext& ctx) {
  const std::int64_t opset = model.opset();
  if (opset == 0 || opset >= kCurrent) return false;
  const Status raised = raise_opset(model, kCurrent);
  if (raised.ok()) {
    ctx.stats.add("opset-raised", 1);
    return true;
  }
  if (raised.code() == StatusCode::kInternal) return raised;
  const Node* node = misread(*model.graph, opset);
  if (node == nullptr) return false;
  return unimplemented(describe(*node) + ": means something else since opset " +
                       std::to_string(kCurrent) +
                       ", and the model could not be raised from opset " + std::to_string(opset) +
                       ": " + raised.message() + ". Hint: export the model with a newer opset");
}

}  // namespace mezzo::passes
