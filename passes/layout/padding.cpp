#include "passes/layout/padding.h"

#include <algorithm>

#include "compiler/ops/op_def.h"
#include "passes/cleanup/match.h"

namespace mezzo::passes {

void PaddedValues::mark(Value& value, const Padding& padding) {
  padding_[&value] = padding;
  (*value.type.tensor.shape)[static_cast<std::size_t>(padding.axis)] = Dim(padding.padded);
}

StatusOr<Value*> PaddedValues::logical_part(Value* value, Node* before) {
  if (const auto found = slices_.find(value); found != slices_.end()) return found->second;
  const Padding& padding = *find(value);
  // Behind the producer, so that all readers can share it.
  Node* place = value->producer() == nullptr ? before : graph_.next(value->producer());
  Builder builder(graph_, type_inference(model_), place);
  builder.set_scope(value->name() + "_logical");
  Value* slice = builder.op("Slice", {value, builder.ints({0}), builder.ints({padding.logical}),
                                      builder.ints({padding.axis})});
  MEZZO_RETURN_IF_ERROR(builder.status());
  slices_[value] = slice;
  ctx_.stats.add("slices-inserted", 1);
  return slice;
}

Status PaddedValues::slice_operand(Node& node, std::size_t index) {
  MEZZO_ASSIGN_OR_RETURN(Value* const slice, logical_part(node.operand(index), &node));
  node.set_operand(index, slice);
  return ok_status();
}

Status PaddedValues::slice_outputs() {
  for (std::size_t i = 0; i < graph_.outputs().size(); ++i) {
    Value* output = graph_.outputs()[i];
    if (find(output) == nullptr) continue;
    const bool is_state =
        ctx_.training &&
        std::any_of(ctx_.training->states.begin(), ctx_.training->states.end(),
                    [&](const auto& state) { return state.second == output->name(); });
    if (is_state) continue;
    MEZZO_ASSIGN_OR_RETURN(Value* const slice, logical_part(output, nullptr));
    // The name goes with the output.
    const std::string name = output->name();
    graph_.set_output(i, slice);
    graph_.rename(output, graph_.unique_name(name + "_padded"));
    graph_.rename(slice, name);
    slice->doc_string = std::exchange(output->doc_string, {});
    slice->metadata = std::exchange(output->metadata, {});
  }
  return ok_status();
}

Status PaddedValues::slice_captures() {
  std::vector<Value*> captured;
  for (const auto& node : graph_.nodes()) {
    for (Value* result : node->results()) {
      if (result == nullptr || find(result) == nullptr) continue;
      const bool read_within =
          std::any_of(result->uses().begin(), result->uses().end(),
                      [&](const Use& use) { return use.node->graph() != &graph_; });
      if (read_within || !result->inner_outputs().empty()) captured.push_back(result);
    }
  }
  for (Value* value : captured) {
    MEZZO_ASSIGN_OR_RETURN(Value* const slice, logical_part(value, nullptr));
    const std::vector<Use> uses = value->uses();
    for (const Use& use : uses) {
      if (use.node->graph() != &graph_) use.node->set_operand(use.operand, slice);
    }
    const std::vector<Graph*> inner = value->inner_outputs();
    for (Graph* graph : inner) {
      for (std::size_t i = 0; i < graph->outputs().size(); ++i) {
        if (graph->outputs()[i] == value) graph->set_output(i, slice);
      }
    }
  }
  return ok_status();
}

std::optional<PaddedValues::Weight> PaddedValues::weight_of(const Node& user,
                                                            std::size_t operand) const {
  Value* value = user.operand(operand);
  if (value == nullptr || !has_one_reader(*value)) return std::nullopt;
  if (value->is_fixed() && value->constant()) return Weight{value, nullptr};
  Node* transpose = value->producer();
  if (transpose == nullptr || !transpose->is("Transpose")) return std::nullopt;
  Value* source = transpose->operand(0);
  const bool alone =
      source != nullptr && source->is_fixed() && source->constant() && has_one_reader(*source);
  if (!alone || source->constant()->dims().size() != 2) return std::nullopt;
  const std::vector<std::int64_t> perm = transpose->ints_attribute("perm", {1, 0});
  return perm == std::vector<std::int64_t>{1, 0} ? std::optional(Weight{source, transpose})
                                                 : std::nullopt;
}

bool PaddedValues::can_pad_constant(const Node& user, std::size_t operand) const {
  const auto weight = weight_of(user, operand);
  return weight && is_floating(weight->initializer->dtype()) &&
         weight->initializer->graph() == &graph_;
}

void PaddedValues::pad_constant(Node& user, std::size_t operand, std::int64_t axis,
                                std::int64_t padded) {
  const Weight weight = *weight_of(user, operand);
  Value& initializer = *weight.initializer;
  std::vector<std::int64_t> dims = initializer.constant()->dims();
  if (ctx_.training)
    ctx_.training->logical_dims.emplace(initializer.name(), dims);  // keeps the first: the model's
  dims[static_cast<std::size_t>(weight.transpose != nullptr ? 1 - axis : axis)] = padded;
  graph_.replace_constant(&initializer, Tensor::pad_of(initializer.constant(), dims));
  if (weight.transpose != nullptr) {
    (*weight.transpose->result()->type.tensor.shape)[static_cast<std::size_t>(axis)] = Dim(padded);
  }
}

}  // namespace mezzo::passes
