#include "passes/autodiff/adopt_recurrent.h"

#include <string>
#include <vector>

#include "compiler/ops/op_def.h"

namespace mezzo::passes {
namespace {

constexpr std::string_view kMicrosoft = "com.microsoft";
constexpr std::size_t kSequenceLens = 4;  // an operand that takes no gradient

struct Layer {
  std::string_view training, gradient, onnx;
  std::size_t results;  // ONNX's; behind them come states and gates for the gradient
  std::size_t gates;    // the last of these
};
constexpr Layer kLayers[] = {{"LSTMTraining", "LSTMGrad", "LSTM", 3, 4},
                             {"GRUTraining", "GRUGrad", "GRU", 2, 2}};

const Layer* layer_of(const Node& node) {
  for (const Layer& layer : kLayers) {
    if (node.is(layer.training, kMicrosoft)) return &layer;
  }
  return nullptr;
}

class RecurrentAdopter {
 public:
  RecurrentAdopter(Graph& graph, Builder& builder, const Layer& layer)
      : graph_(graph), builder_(builder), layer_(layer) {}

  Status adopt(Node& node) {
    MEZZO_ASSIGN_OR_RETURN(Node* const gradient, gradient_of(node));
    builder_.set_insertion_point(&node);
    builder_.set_scope(node.name.empty() ? std::string(layer_.onnx) : node.name);
    std::vector<Builder::NamedValue> attributes;
    for (const Attribute& attribute : node.attributes())
      attributes.emplace_back(attribute.name, attribute.value);
    Node* forward =
        builder_.node(layer_.onnx, node.operands(), layer_.results, std::move(attributes));
    if (gradient != nullptr) MEZZO_RETURN_IF_ERROR(adopt_gradient(node, *forward, *gradient));
    for (std::size_t i = 0; i < layer_.results; ++i) {
      if (node.result(i) != nullptr) graph_.replace_uses(node.result(i), forward->result(i));
    }
    graph_.erase(&node);
    return ok_status();
  }

 private:
  // The one reader of states and gates; null if nothing reads them.
  StatusOr<Node*> gradient_of(const Node& node) const {
    Node* gradient = nullptr;
    for (std::size_t i = layer_.results; i < node.results().size(); ++i) {
      if (node.result(i) == nullptr) continue;
      for (const Use& use : node.result(i)->uses()) {
        const bool fits = use.node->is(layer_.gradient, kMicrosoft) &&
                          (gradient == nullptr || gradient == use.node);
        if (!fits) {
          return unimplemented(describe(*use.node) + ": it reads the gates of " + describe(node) +
                               ", which only its gradient may");
        }
        gradient = use.node;
      }
      if (node.result(i)->is_graph_output())
        return unimplemented(describe(node) + ": its gates are an output of the graph");
    }
    return gradient;
  }

  // The gradients of the forward results follow the gates among the operands; results are the
  // gradients of the forward operands, but for the lengths of sequences.
  Status adopt_gradient(const Node& node, Node& forward, Node& gradient) {
    std::size_t at = 0;
    while (at < gradient.operand_count() &&
           (gradient.operand(at) == nullptr || gradient.operand(at) != node.result(layer_.gates)))
      ++at;
    if (at == gradient.operand_count())
      return unimplemented(describe(gradient) + ": it does not read the gates of its layer");
    GradientContext ctx{builder_, forward, {}, std::vector<bool>(node.operand_count(), false)};
    for (std::size_t i = 0; i < layer_.results; ++i)
      ctx.result_grads.push_back(gradient.operand(at + 1 + i));
    const auto operand_of = [](std::size_t result) {
      return result < kSequenceLens ? result : result + 1;
    };
    for (std::size_t i = 0; i < gradient.results().size(); ++i) {
      if (gradient.result(i) == nullptr) continue;
      if (operand_of(i) >= ctx.wanted.size() || node.operand(operand_of(i)) == nullptr) {
        return invalid_argument(describe(gradient) + ": result " + std::to_string(i) +
                                " is the gradient of an operand that " + describe(node) +
                                " does not have");
      }
      ctx.wanted[operand_of(i)] = true;
    }
    builder_.set_insertion_point(&gradient);
    builder_.set_scope(gradient.name.empty() ? std::string(layer_.gradient) : gradient.name);
    MEZZO_ASSIGN_OR_RETURN(const std::vector<Value*> gradients,
                           find_op(layer_.onnx, "")->gradient(ctx));
    for (std::size_t i = 0; i < gradient.results().size(); ++i) {
      if (gradient.result(i) == nullptr) continue;
      Value* value = gradients.at(operand_of(i));
      if (value == nullptr)
        return internal_error(describe(gradient) + ": no result " + std::to_string(i));
      graph_.replace_uses(gradient.result(i), value);
    }
    graph_.erase(&gradient);
    return ok_status();
  }

  Graph& graph_;
  Builder& builder_;
  const Layer& layer_;
};

}  // namespace

Status adopt_recurrent(Graph& graph, Builder& builder, PassContext& ctx) {
  std::vector<Node*> nodes = graph.node_list();  // layers take their gradients along
  std::erase_if(nodes, [](const Node* node) { return layer_of(*node) == nullptr; });
  for (Node* node : nodes) {
    MEZZO_RETURN_IF_ERROR(RecurrentAdopter(graph, builder, *layer_of(*node)).adopt(*node));
    ctx.stats.add("recurrent-layers-adopted", 1);
  }
  return ok_status();
}

}  // namespace mezzo::passes
