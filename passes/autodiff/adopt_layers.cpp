#include "passes/autodiff/adopt_layers.h"

#include <string>
#include <vector>

#include "compiler/ops/constants.h"
#include "compiler/support/text.h"
#include "passes/autodiff/running_statistics.h"

namespace mezzo::passes {
namespace {

constexpr const char* kRandomCounter = "random_counter";
constexpr std::string_view kMicrosoft = "com.microsoft";

bool is_dropout(const Node& node) {
  return node.is("Dropout") || node.is("BitmaskDropout", kMicrosoft);
}

bool is_bias_dropout(const Node& node) {
  return node.is("BiasDropout", kMicrosoft) || node.is("BitmaskBiasDropout", kMicrosoft);
}

bool is_batch_norm(const Node& node) {
  return node.is("BatchNormInternal", kMicrosoft) || node.is("BatchNormalization");
}

class LayerAdopter {
 public:
  LayerAdopter(Graph& graph, Builder& builder, PassContext& ctx)
      : graph_(graph), builder_(builder), ctx_(ctx) {}

  Status run() {
    std::vector<Node*> nodes = graph_.node_list();  // dropout takes its gradients along
    std::erase_if(nodes, [](const Node* node) {
      return !is_batch_norm(*node) && !is_bias_dropout(*node) && !is_dropout(*node);
    });
    for (Node* node : nodes) {
      if (is_batch_norm(*node))
        MEZZO_RETURN_IF_ERROR(adopt_batch_norm(*node));
      else if (is_bias_dropout(*node))
        MEZZO_RETURN_IF_ERROR(split_bias_dropout(*node));
      else
        MEZZO_RETURN_IF_ERROR(adopt_dropout(*node));
    }
    statistics_.publish(graph_, builder_, ctx_);
    return ok_status();
  }

 private:
  // ONNX Runtime on a CPU moves the variance by the batch's population variance, as
  // BatchNormalizationTrain does.
  Status adopt_batch_norm(Node& node) {
    const bool internal = node.is("BatchNormInternal", kMicrosoft);
    if (node.int_attribute("training_mode", internal ? 1 : 0) == 0) {
      if (internal) graph_.change_op(&node, "BatchNormalization");
      return ok_status();
    }
    for (std::size_t i = 0; i < 5; ++i) {
      if (node.operand(i) == nullptr)
        return invalid_argument(describe(node) + ": operand " + std::to_string(i) + " is missing");
    }
    MEZZO_RETURN_IF_ERROR(complete_results(node));
    node.erase_attribute("training_mode");
    graph_.change_op(&node, "BatchNormalizationTrain", kMezzoDomain);
    for (std::size_t i = 0; i < 2; ++i) {
      Value* statistic = node.operand(3 + i);
      node.set_operand(3 + i, statistics_.newest(statistic));
      statistics_.move(statistic, node.result(1 + i));
    }
    ctx_.stats.add("batch-norms-in-training-form", 1);
    return ok_status();
  }

  // The new statistics, at least, must be there.
  Status complete_results(Node& node) {
    const std::vector<Value*> results = node.results();
    for (std::size_t i = 0; i < results.size() && i < 3; ++i) {
      if (results[i] == nullptr) {
        return unimplemented(describe(node) + ": result " + std::to_string(i) + " is left out");
      }
    }
    for (std::size_t i = results.size(); i < 3; ++i)
      graph_.add_result(&node, graph_.unique_name(node.result(0)->name() + "_statistic"));
    for (std::size_t i = 1; i < 3; ++i) node.result(i)->type = node.operand(2 + i)->type;
    return ok_status();
  }

  // Dropout of x + bias, and then a residual: x, bias, residual, ratio, training mode.
  Status split_bias_dropout(Node& node) {
    if (node.operand(0) == nullptr || node.operand(1) == nullptr || node.result(0) == nullptr)
      return invalid_argument(describe(node) + ": operand or result missing");
    builder_.set_insertion_point(&node);
    builder_.set_scope(node.name.empty() ? "bias_dropout" : node.name);
    Value* sum = builder_.op("Add", {node.operand(0), node.operand(1)});
    Node* dropout = builder_.node("Dropout", {sum, node.operand(3), node.operand(4)}, 2);
    Value* y = dropout->result(0);
    if (node.operand(2) != nullptr) y = builder_.op("Add", {y, node.operand(2)});
    if (node.result(1) != nullptr) graph_.replace_uses(node.result(1), dropout->result(1));
    graph_.replace_uses(node.result(0), y);
    graph_.erase(&node);
    return adopt_dropout(*dropout);
  }

  // The nodes that read the mask. They do so in the form the forward node gives: bits or bools.
  static StatusOr<std::vector<Node*>> gradients_of(const Node& node) {
    std::vector<Node*> gradients;
    const Value* mask = node.result(1);
    if (mask == nullptr) return gradients;
    for (const Use& use : mask->uses()) {
      const bool reads = (use.node->is("DropoutGrad", kMicrosoft) ||
                          use.node->is("BitmaskDropoutGrad", kMicrosoft)) &&
                         use.operand == 1;
      if (!reads) {
        return unimplemented(describe(*use.node) + ": it reads the mask of " + describe(node) +
                             ", which only DropoutGrad may");
      }
      gradients.push_back(use.node);
    }
    if (mask->is_graph_output())
      return unimplemented(describe(node) + ": its mask is an output of the graph");
    return gradients;
  }

  Status adopt_dropout(Node& node) {
    if (node.operand(0) == nullptr || node.result(0) == nullptr)
      return invalid_argument(describe(node) + ": operand or result missing");
    MEZZO_ASSIGN_OR_RETURN(const double ratio, ratio_of(node));
    MEZZO_ASSIGN_OR_RETURN(const std::vector<Node*> gradients, gradients_of(node));
    if (ratio == 0) {
      for (Node* gradient : gradients) bypass(*gradient);
      bypass(node);
      return ok_status();
    }
    if (counter_ == nullptr) {
      counter_ =
          graph_.add_input(graph_.unique_name(kRandomCounter), TensorType(DType::kInt64, {}));
      ctx_.training->random_counter = counter_->name();
    }
    builder_.set_insertion_point(&node);
    builder_.set_scope(node.name.empty() ? "dropout" : node.name);
    Node* dropout =
        builder_.node("Dropout", {node.operand(0), counter_}, 2,
                      {{"ratio", static_cast<float>(ratio)}, {"seed", next_seed_++}}, kMezzoDomain);
    graph_.replace_uses(node.result(0), dropout->result(0));
    for (Node* gradient : gradients) {
      builder_.set_insertion_point(gradient);
      builder_.set_scope(gradient->name.empty() ? "dropout_grad" : gradient->name);
      Value* dx = builder_.mezzo_op("DropoutGrad", {gradient->operand(0), dropout->result(1)},
                                    {{"ratio", static_cast<float>(ratio)}});
      graph_.replace_uses(gradient->result(0), dx);
      graph_.erase(gradient);
    }
    graph_.erase(&node);
    ctx_.stats.add("dropouts-adopted", 1);
    return ok_status();
  }

  // What comes in goes out.
  void bypass(Node& node) {
    graph_.replace_uses(node.result(0), node.operand(0));
    graph_.erase(&node);
  }

  // 0 where nothing is dropped.
  static StatusOr<double> ratio_of(const Node& node) {
    if (node.operand(2) == nullptr) return 0;  // training_mode is false by default
    const auto mode = constant_scalar(node.operand(2));
    const auto ratio =
        node.operand(1) == nullptr ? std::optional(0.5) : constant_scalar(node.operand(1));
    if (!mode || !ratio) {
      return unimplemented(describe(node) +
                           ": expected constants for ratio and training_mode, got ones that "
                           "depend on the run");
    }
    if (!(*ratio >= 0 && *ratio < 1)) {
      return invalid_argument(describe(node) + ": expected a ratio in [0, 1), got " +
                              format_number(*ratio));
    }
    return *mode == 0 ? 0 : *ratio;
  }

  Graph& graph_;
  Builder& builder_;
  PassContext& ctx_;
  RunningStatistics statistics_;
  Value* counter_ = nullptr;
  std::int64_t next_seed_ = 1;  // one per node, so that no two draw the same numbers
};

}  // namespace

Status adopt_layers(Graph& graph, Builder& builder, PassContext& ctx) {
  return LayerAdopter(graph, builder, ctx).run();
}

}  // namespace mezzo::passes
