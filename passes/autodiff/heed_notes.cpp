#include "passes/autodiff/heed_notes.h"

#include <charconv>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/ir/builder.h"
#include "compiler/ops/constants.h"
#include "compiler/ops/op_def.h"
#include "compiler/support/text.h"
#include "passes/autodiff/exporter_notes.h"
#include "passes/autodiff/loss_terms.h"

namespace mezzo::passes {
namespace {

// The number written at a place of the arguments; nullopt if there is none.
template <typename Number>
std::optional<Number> number_at(const NotedCall& call, std::size_t index) {
  if (index >= call.arguments.size()) return std::nullopt;
  const std::string& text = call.arguments[index];
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole ? std::optional(number) : std::nullopt;
}

class NoteReader {
 public:
  NoteReader(Graph& graph, const Model& model, PassContext& ctx)
      : graph_(graph), model_(model), ctx_(ctx) {}

  StatusOr<bool> run() {
    bool changed = false;
    for (Node* node : graph_.node_list()) {
      const NotedCall call = noted_call(*node);
      Builder builder(graph_, type_inference(model_), node);
      builder.set_scope(node->name.empty() ? node->op_type() : node->name);
      Value* result = nullptr;
      if (call.target == "torch.ops.aten.detach.default" && node->is("Identity")) {
        result = builder.mezzo_op("StopGradient", {node->operand(0)});
      } else if (call.target == "torch.ops.aten.embedding.default" && node->is("Gather")) {
        changed = stop_padding(*node, call) || changed;
      } else if (call.target == "torch.ops.aten.cross_entropy_loss.default" &&
                 node->is("SoftmaxCrossEntropyLoss")) {
        result = smoothed(builder, *node, call);
      }
      MEZZO_RETURN_IF_ERROR(builder.status());
      if (result == nullptr) continue;
      graph_.replace_uses(node->result(), result);
      result->producer()->name = node->name.empty() ? result->name() : node->name;
      result->producer()->metadata = node->metadata;
      graph_.erase(node);
      changed = true;
    }
    warn_of_lost_detaches();
    return changed;
  }

 private:
  // The exporter's optimiser takes Identity away; only the readers' notes still name the call.
  void warn_of_lost_detaches() {
    std::set<std::string> lost;
    for (const auto& node : graph_.nodes()) {
      for (const std::string& argument : noted_call(*node).arguments) {
        if (argument.rfind("%detach", 0) == 0 && graph_.find(argument.substr(1)) == nullptr)
          lost.insert("'" + argument.substr(1) + "'");
      }
    }
    if (lost.empty()) return;
    ctx_.records.warnings.push_back(
        "the exporter's optimiser removed " +
        join(std::vector<std::string>(lost.begin(), lost.end()), ", ") +
        ": gradients flow on where PyTorch stops them. Hint: export with "
        "torch.onnx.export(..., optimize=False)");
  }

  // embedding(weight, indices, padding_idx = -1, ...): where the index is padding_idx, the row that
  // was looked up goes on without a gradient.
  bool stop_padding(Node& gather, const NotedCall& call) {
    const auto padding = number_at<std::int64_t>(call, 2);
    Value *row = gather.result(), *indices = gather.operand(1);
    if (!padding || *padding < 0 || row == nullptr || indices == nullptr ||
        gather.int_attribute("axis", 0) != 0)
      return false;
    Node* next = graph_.next(&gather);
    Builder builder(graph_, type_inference(model_), next);
    builder.set_scope(gather.name.empty() ? "padding" : gather.name + "/padding");
    Value* index = builder.constant(Tensor::scalar(indices->dtype(), static_cast<double>(*padding)),
                                    "padding_idx");
    Value* is_padding =
        builder.op("Unsqueeze", {builder.op("Equal", {indices, index}), builder.ints({-1})});
    Value* stopped = builder.mezzo_op("StopGradient", {row});
    Node* choice = builder.node("Where", {is_padding, stopped, row}, 1);
    graph_.replace_uses(row, choice->result());  // the choice itself goes on reading the row
    stopped->producer()->set_operand(0, row);
    ctx_.stats.add("padding-rows-stopped", 1);
    return true;
  }

  // cross_entropy_loss(input, target, weight, reduction, ignore_index, label_smoothing); null where
  // nothing was smoothed, or cannot be.
  Value* smoothed(Builder& builder, const Node& loss, const NotedCall& call) {
    const auto smoothing = number_at<double>(call, 5);
    if (!smoothing || !(*smoothing > 0 && *smoothing <= 1)) return nullptr;
    const Value *scores = loss.operand(0), *weights = loss.operand(2);
    const TensorRef weight_data = weights == nullptr ? nullptr : constant_of(weights);
    const bool shaped = scores != nullptr && scores->type.is_tensor() &&
                        scores->tensor_type().has_static_shape() &&
                        scores->tensor_type().dims().size() >= 2;
    const bool log_prob_read =
        loss.results().size() > 1 && loss.result(1) != nullptr && loss.result(1)->has_uses();
    const std::string amount = call.arguments[5];
    if (!shaped || log_prob_read || loss.string_attribute("reduction", "mean") != "mean" ||
        (weights != nullptr && !weight_data)) {
      ctx_.records.warnings.push_back(describe(loss) + ": the exporter left out label_smoothing " +
                                      amount + ", and so does the training");
      return nullptr;
    }
    LossTerms::CrossEntropy given;
    given.scores = loss.operand(0);
    given.label_smoothing = *smoothing;
    given.ignore_index = loss.int_attribute("ignore_index", -100);
    if (weight_data) given.class_weights = weight_data->to_doubles();
    ctx_.records.warnings.push_back(describe(loss) + ": trained with label_smoothing " + amount +
                                    ", which the exporter notes but the file does not compute");
    return LossTerms(builder).cross_entropy(given, loss.operand(1));
  }

  Graph& graph_;
  const Model& model_;
  PassContext& ctx_;
};

// What the exporter computed ahead of time is trained neither as a constant should be nor as a
// function of parameters would be. Scalars are constants.
void freeze_computed(const Graph& graph, PassContext& ctx) {
  std::vector<std::string> names;
  for (const Value* value : computed_initializers(graph)) {
    ctx.computed_constants.insert(value->name());
    if (value->constant() && value->constant()->elems() > 1)
      names.push_back("'" + value->name() + "'");
  }
  if (names.empty()) return;
  ctx.records.warnings.push_back(
      "the exporter's optimiser computed " + join(names, ", ") +
      " ahead of time: not trained, and what parameters they stem from learn nothing there. Hint: "
      "export with torch.onnx.export(..., optimize=False), or name them with --train");
}

}  // namespace

StatusOr<bool> heed_notes(Model& model, PassContext& ctx) {
  Graph& graph = *model.graph;
  freeze_computed(graph, ctx);
  const std::size_t before = graph.initializers().size();
  MEZZO_ASSIGN_OR_RETURN(const bool changed, NoteReader(graph, model, ctx).run());
  const auto& initializers = graph.initializers();
  for (std::size_t i = before; i < initializers.size(); ++i)  // no weights
    ctx.computed_constants.insert(initializers[i]->name());
  return changed;
}

}  // namespace mezzo::passes
