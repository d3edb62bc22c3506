// 1. Refuse graphs from which an exporter's optimiser removed trainable layers.
// 2. BatchNormalization -> BatchNormalizationTrain, with outputs for the running statistics.
// 3. Dropout -> the counter-based Dropout of the runtime.

#include "passes/autodiff/prepare_training.h"

#include <array>
#include <set>
#include <string>
#include <vector>

#include "compiler/ir/builder.h"
#include "compiler/ops/op_def.h"
#include "compiler/support/text.h"
#include "passes/autodiff/exporter_notes.h"
#include "passes/autodiff/running_statistics.h"

namespace mezzo::passes {
namespace {

constexpr const char* kRandomCounter = "random_counter";

class Preparer {
 public:
  Preparer(Model& model, PassContext& ctx)
      : graph_(*model.graph), ctx_(ctx), builder_(graph_, type_inference(model)) {}

  StatusOr<bool> run() {
    bool changed = false;
    for (Node* node : graph_.node_list()) {
      if (node->is("BatchNormalization")) {
        MEZZO_RETURN_IF_ERROR(prepare_batch_norm(*node));
        changed = true;
      } else if (node->is("Dropout") && drop_ratio(*node) > 0) {
        MEZZO_RETURN_IF_ERROR(prepare_dropout(*node));
        changed = true;
      }
    }
    statistics_.publish(graph_, builder_, ctx_);
    MEZZO_RETURN_IF_ERROR(builder_.status());
    return changed;
  }

 private:
  Status prepare_batch_norm(Node& node) {
    std::vector<Value*> operands = node.operands();
    for (std::size_t i = 1; i < 5; ++i) {
      if (i >= operands.size() || operands[i] == nullptr)
        return invalid_argument(describe(node) + ": operand missing");
    }
    const Value* statistics[] = {operands[3], operands[4]};
    for (std::size_t i = 3; i < 5; ++i) operands[i] = statistics_.newest(operands[i]);
    builder_.set_insertion_point(&node);
    builder_.set_scope(node.name.empty() ? "batch_norm" : node.name);
    Node* train = builder_.node("BatchNormalizationTrain", operands, 5,
                                {{"epsilon", node.float_attribute("epsilon", 1e-5F)},
                                 {"momentum", node.float_attribute("momentum", 0.9F)},
                                 {"unbiased_running_var", std::int64_t{1}}},
                                kMezzoDomain);
    train->metadata = node.metadata;
    // Results 1 and 2 in training form are the new statistics; older opsets' further results are
    // not used.
    for (std::size_t r = 0; r < node.results().size(); ++r) {
      Value* old = node.result(r);
      if (old != nullptr && r < 3) graph_.replace_uses(old, train->result(r));
    }
    for (std::size_t i = 0; i < 2; ++i) {
      statistics_.move(statistics[i], train->result(1 + i));
    }
    graph_.erase(&node);
    ctx_.stats.add("batch-norms-in-training-form", 1);
    return ok_status();
  }

  // By operand since opset 12, by attribute before; where the caller gives it, its default.
  static double drop_ratio(const Node& node) {
    const Value* operand = node.operand(1);
    if (operand == nullptr || !operand->constant()) return node.float_attribute("ratio", 0.5F);
    const std::vector<double> values = operand->constant()->to_doubles();
    return values.empty() ? 0 : values.front();
  }

  Status prepare_dropout(Node& node) {
    const double ratio = drop_ratio(node);
    if (!(ratio < 1)) {
      return invalid_argument(describe(node) + ": expected a ratio in [0, 1), got " +
                              format_number(ratio));
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
    for (std::size_t r = 0; r < node.results().size() && r < 2; ++r) {
      if (node.result(r) != nullptr) graph_.replace_uses(node.result(r), dropout->result(r));
    }
    graph_.erase(&node);
    return ok_status();
  }

  Graph& graph_;
  PassContext& ctx_;
  Builder builder_;
  RunningStatistics statistics_;
  Value* counter_ = nullptr;
  std::int64_t next_seed_ = 1;  // one per node, so that no two draw the same numbers
};

// The inference form of a BatchNormalization in training form: one result, normalised by the
// running statistics, which no longer move.
void normalise_by_running_statistics(Graph& graph, Node* node) {
  const std::array<std::string, 1> names = {graph.unique_name(node->result(0)->name())};
  Node* inference = graph.add_node("BatchNormalization", "", node->operands(), names, node);
  inference->name = node->name;
  inference->set_attribute("epsilon", node->float_attribute("epsilon", 1e-5F));
  inference->result(0)->type = node->result(0)->type;
  graph.replace_uses(node->result(0), inference->result(0));
  for (std::size_t r = 1; r < node->results().size() && r < 3; ++r) {
    if (node->result(r) != nullptr && node->result(r)->has_uses())
      graph.replace_uses(node->result(r), node->operand(2 + r));
  }
  graph.erase(node);
}

bool normalises_by_the_batch(const Node& node) {
  return node.is("BatchNormalizationTrain", kMezzoDomain) ||
         (node.is("BatchNormalization") && node.int_attribute("training_mode", 0) != 0);
}

}  // namespace

StatusOr<bool> prepare_training(Model& model, PassContext& ctx) {
  MEZZO_RETURN_IF_ERROR(check_nothing_folded(*model.graph));
  if (const std::vector<std::string> lost = lost_parameters(*model.graph); !lost.empty()) {
    ctx.records.warnings.push_back(
        "the exporter computed with " + std::to_string(lost.size()) +
        " parameters ahead of time, so they are not trained under their own names: " +
        join(lost, ", ") + ". Hint: export with torch.onnx.export(..., optimize=False)");
  }
  if (const std::vector<std::string> gone = untraced_parameters(*model.graph); !gone.empty()) {
    ctx.records.warnings.push_back(
        "the file does not hold these parameters of the module: " + join(gone, ", ") +
        ". They are unused, tied to another, or were computed with by the exporter's optimiser, "
        "which optimize=False turns off");
  }
  if (const auto folded = convolutions_with_computed_weights(*model.graph); !folded.empty()) {
    ctx.records.warnings.push_back(
        "the exporter computed the weights of " + std::to_string(folded.size()) +
        " convolutions, most likely with the BatchNormalization behind each, which is gone; they "
        "are trained as they are: " +
        join(folded, ", ") +
        ". Hint: export with torch.onnx.export(..., training=TrainingMode.TRAINING)");
  }
  if (!ctx.training) ctx.training.emplace();
  return Preparer(model, ctx).run();
}

StatusOr<bool> to_inference_form(Model& model, PassContext&) {
  Graph& graph = *model.graph;
  bool changed = false;
  for (Node* node : graph.node_list()) {
    if (normalises_by_the_batch(*node)) {
      normalise_by_running_statistics(graph, node);
      changed = true;
    } else if (node->is("Dropout") || node->is("Dropout", kMezzoDomain)) {
      if (node->result(1) != nullptr && node->result(1)->has_uses())
        continue;  // the mask is wanted: keep
      graph.replace_uses(node->result(0), node->operand(0));
      graph.erase(node);
      changed = true;
    }
  }
  return changed;
}

}  // namespace mezzo::passes
