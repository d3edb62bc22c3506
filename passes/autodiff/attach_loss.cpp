// 1. Choose the outputs that are scored, and what lies before their Softmax or Sigmoid.
// 2. Find the target's and the mask's place in the shape of the output; add inputs for them.
// 3. Build the loss in FP32 (loss_terms.h) and make it an output.
//
// The names of all new nodes begin with loss_scope, so the precision passes know them, and the
// nodes of their gradients, again.

#include "passes/autodiff/attach_loss.h"

#include <algorithm>
#include <set>

#include "compiler/ir/builder.h"
#include "compiler/ops/op_def.h"
#include "compiler/support/text.h"
#include "passes/autodiff/loss_shapes.h"
#include "passes/autodiff/loss_terms.h"

namespace mezzo::passes {
namespace {

bool only_reshapes(const Node& node) {
  return node.is("Identity") || node.is("Reshape") || node.is("Squeeze") || node.is("Unsqueeze") ||
         node.is("Flatten") || (node.is("Cast") && is_floating(node.operand(0)->dtype()));
}

class LossAttacher {
 public:
  LossAttacher(Model& model, PassContext& ctx)
      : graph_(*model.graph),
        ctx_(ctx),
        options_(ctx.loss),
        builder_(graph_, type_inference(model)),
        terms_(builder_) {}

  Status run() {
    const std::set<const Value*> before(graph_.initializers().begin(), graph_.initializers().end());
    MEZZO_RETURN_IF_ERROR(choose_outputs());
    const std::string name = graph_.unique_name("loss");
    ctx_.loss_scope = free_scope();
    builder_.set_scope(ctx_.loss_scope);
    MEZZO_ASSIGN_OR_RETURN(Value * loss, build());
    MEZZO_RETURN_IF_ERROR(builder_.status().with_context(std::string(loss_word(options_.kind))));
    graph_.rename(loss, name);
    graph_.add_output(loss);
    ctx_.training_options.loss_output = name;
    for (const Value* value : graph_.initializers()) {
      if (before.count(value) == 0) ctx_.computed_constants.insert(value->name());
    }
    return ok_status();
  }

 private:
  // "loss", or "loss_1" and so on where nodes of the model are called so.
  std::string free_scope() const {
    std::string scope = "loss";
    const auto is_taken = [&] {
      return std::any_of(graph_.nodes().begin(), graph_.nodes().end(),
                         [&](const auto& node) { return node->name.starts_with(scope + "/"); });
    };
    for (int number = 1; is_taken(); ++number) scope = "loss_" + std::to_string(number);
    return scope;
  }

  std::string output_list() const {
    std::vector<std::string> all;
    for (const Value* output : graph_.outputs())
      all.push_back("'" + printable(output->name()) + "' " + to_string(output->type));
    return " The outputs are " + join(all, ", ");
  }

  Status choose_outputs() {
    const std::string option = "--loss " + std::string(loss_word(options_.kind)) + ": ";
    if (options_.outputs.empty()) {
      for (Value* output : graph_.outputs()) {
        if (is_floating(output->dtype())) outputs_.push_back(output);
      }
      if (outputs_.size() == 1) return check_output(*outputs_[0]);
      return invalid_argument(option + "expected one floating-point output to score, got " +
                              std::to_string(outputs_.size()) + "." + output_list() +
                              ". Hint: choose one with --loss-input NAME");
    }
    for (const std::string& name : options_.outputs) {
      const auto found = std::find_if(graph_.outputs().begin(), graph_.outputs().end(),
                                      [&](const Value* value) { return value->name() == name; });
      if (found == graph_.outputs().end()) {
        return invalid_argument("--loss-input '" + printable(name) + "': no such output." +
                                output_list());
      }
      MEZZO_RETURN_IF_ERROR(check_output(**found));
      outputs_.push_back(*found);
    }
    return ok_status();
  }

  Status check_output(const Value& output) const {
    const std::string where = "output '" + printable(output.name()) + "': ";
    if (!is_floating(output.dtype())) {
      return invalid_argument(where + "expected floating-point numbers to score, got " +
                              to_string(output.type));
    }
    if (!output.tensor_type().has_static_shape()) {
      return unimplemented(where + "its shape must be known to score it, got " +
                           to_string(output.type) +
                           ". Hint: give its dimensions with --batch-size and --dim NAME=SIZE");
    }
    if (output.tensor_type().dims().empty()) {
      return invalid_argument(where +
                              "expected a batch of values to score, got a scalar. Hint: "
                              "where it is the loss, leave --loss away");
    }
    const std::int64_t rows = output.tensor_type().dims()[0];
    if (options_.batch_size > 0 && rows % options_.batch_size != 0) {
      return invalid_argument(where + "expected batches of " + std::to_string(options_.batch_size) +
                              " along its first axis, got " + to_string(output.type) +
                              ". Hint: the graph fixes a size, most likely in a Reshape; use that "
                              "batch size, or export with a symbolic batch dimension");
    }
    return ok_status();
  }

  StatusOr<Value*> build() {
    switch (options_.kind) {
      case LossKind::kCrossEntropy: return cross_entropy();
      case LossKind::kBce: return bce();
      case LossKind::kMse:
      case LossKind::kL1: return distance();
      case LossKind::kCosine: return outputs_.size() == 2 ? cosine_embedding() : cosine();
      case LossKind::kNone: break;
    }
    return internal_error("attach-loss: no loss asked for");
  }

  void note(const std::string& text) { ctx_.records.warnings.push_back(text); }

  std::int64_t batch(const Dims& output) const {
    return options_.batch_size > 0 ? options_.batch_size : output[0];
  }

  // A graph input `name` of type and shape, or the one that is there, reshaped.
  StatusOr<Value*> port(const std::string& name, DType dtype, const Dims& dims, const Dims& wanted,
                        const std::string& what) {
    Value* value = graph_.find(name);
    if (value != nullptr && !value->is_graph_input()) {
      return invalid_argument(what + " '" + printable(name) +
                              "': the graph has a value of this name that is no input");
    }
    if (value == nullptr) value = graph_.add_input(name, TensorType::of(dtype, dims));
    if (!value->type.is_tensor() || !value->tensor_type().has_static_shape() ||
        product(value->tensor_type().dims()) != product(wanted)) {
      return invalid_argument(what + " '" + printable(name) + "': expected " +
                              to_string(TensorType::of(dtype, wanted)) + ", got " +
                              to_string(value->type));
    }
    return terms_.reshape(value, wanted);
  }

  // Shape of a batch of the array: as the graph's input says, or the data; empty if neither does.
  Dims array_dims(const std::string& name, const ArrayShape& array, const Dims& output) const {
    const Value* input = graph_.find(name);
    if (input != nullptr && input->is_graph_input() && input->type.is_tensor() &&
        input->tensor_type().has_static_shape())
      return input->tensor_type().dims();
    Dims dims = array.dims;
    if (!dims.empty()) dims[0] = batch(output);
    return dims;
  }
  DType array_dtype(const std::string& name, const ArrayShape& array) const {
    const Value* input = graph_.find(name);
    return input != nullptr && input->is_graph_input() ? input->dtype() : array.dtype;
  }

  // A floating-point target of the shape `wanted`.
  StatusOr<Value*> float_target(const Dims& wanted) {
    Dims dims = array_dims(options_.target, options_.target_array, wanted);
    if (dims.empty()) dims = wanted;
    if (!is_like(dims, wanted)) {
      return misfit("target", options_.target, *outputs_[0],
                    to_string(TensorType::of(DType::kFloat32, wanted)),
                    array_dtype(options_.target, options_.target_array), dims);
    }
    MEZZO_ASSIGN_OR_RETURN(Value* const value,
                           port(options_.target, DType::kFloat32, dims, wanted, "target"));
    return terms_.as_float(value);
  }

  // Weights of the places, or null.
  StatusOr<Value*> mask(const Dims& places, bool may_cover_more) {
    if (options_.padding_mask.empty()) return nullptr;
    Dims dims = array_dims(options_.padding_mask, options_.mask_array, places);
    if (dims.empty()) dims = places;
    Dims wanted = places;
    if (may_cover_more && dims.size() < places.size()) wanted.resize(dims.size());
    const bool fits =
        is_like(dims, wanted) || (wanted.size() == 1 && product(dims) == product(wanted));
    if (!fits) {
      return misfit("padding mask", options_.padding_mask, *outputs_[0],
                    to_string(TensorType::of(DType::kFloat32, wanted)),
                    array_dtype(options_.padding_mask, options_.mask_array), dims);
    }
    MEZZO_ASSIGN_OR_RETURN(Value* const value, port(options_.padding_mask, DType::kFloat32, dims,
                                                    wanted, "padding mask"));
    return terms_.as_float(value);
  }

  // --- cross-entropy

  // What the scores are the Softmax or LogSoftmax of along the class axis; else the scores.
  Value* before_softmax(Value* scores, std::size_t axis) {
    Value* at = scores;
    while (at->producer() != nullptr &&
           (at->producer()->is("Identity") ||
            (at->producer()->is("Cast") && is_floating(at->producer()->operand(0)->dtype())) ||
            (at->producer()->is("Log") && at->producer()->operand(0)->producer() != nullptr &&
             at->producer()->operand(0)->producer()->is("Softmax"))))
      at = at->producer()->operand(0);
    const Node* node = at->producer();
    if (node == nullptr || !(node->is("Softmax") || node->is("LogSoftmax"))) return scores;
    std::int64_t of = node->int_attribute("axis", -1);
    if (of < 0) of += static_cast<std::int64_t>(scores->tensor_type().dims().size());
    if (of != static_cast<std::int64_t>(axis)) return scores;
    if (node->is("Softmax")) {
      note("output '" + scores->name() + "' is a Softmax: cross-entropy scores what lies before " +
           "it, '" + node->operand(0)->name() + "', as it takes the Softmax itself");
    }
    return node->operand(0);
  }

  StatusOr<Value*> cross_entropy() {
    const Dims output = outputs_[0]->tensor_type().dims();
    const ArrayShape target = {array_dtype(options_.target, options_.target_array),
                               array_dims(options_.target, options_.target_array, output)};
    MEZZO_ASSIGN_OR_RETURN(const ClassPlace place,
                           find_classes(*outputs_[0], target, options_, ctx_.records.warnings));
    MEZZO_RETURN_IF_ERROR(
        check_class_count(options_.class_weights, output[place.axis], "--class-weights"));
    LossTerms::CrossEntropy given;
    given.scores = terms_.as_float(before_softmax(outputs_[0], place.axis));
    // The class axis comes second: places before a last one become one axis.
    Dims scores = output, places = without_axis(output, place.axis);
    const bool flattened = place.axis != 1;
    if (flattened) scores = {product(places), output[place.axis]};
    if (flattened) places = {scores[0]};
    given.scores = terms_.reshape(given.scores, scores);
    MEZZO_ASSIGN_OR_RETURN(given.mask, mask(without_axis(output, place.axis), false));
    if (given.mask != nullptr) given.mask = terms_.reshape(given.mask, places);
    given.class_weights = options_.class_weights;
    given.label_smoothing = options_.label_smoothing;
    given.ignore_index = options_.ignore_index.value_or(-100);
    if (place.soft) {
      if (options_.ignore_index) {
        return invalid_argument("--ignore-index: the target '" + printable(options_.target) +
                                "' holds probabilities, not class numbers");
      }
      MEZZO_ASSIGN_OR_RETURN(Value * target, float_target(output));
      return terms_.soft_cross_entropy(given, terms_.reshape(target, scores));
    }
    MEZZO_ASSIGN_OR_RETURN(Value * labels,
                           port(options_.target, DType::kInt64, place.labels, places, "target"));
    if (labels->dtype() != DType::kInt64 && labels->dtype() != DType::kInt32) {
      labels = builder_.op("Cast", {labels}, {{"to", static_cast<std::int64_t>(DType::kInt64)}});
    }
    return terms_.cross_entropy(given, labels);
  }

  Status check_class_count(const std::vector<double>& weights, std::int64_t classes,
                           const char* option) const {
    if (weights.empty() || static_cast<std::int64_t>(weights.size()) == classes) return ok_status();
    return invalid_argument(std::string(option) + ": expected " + std::to_string(classes) +
                            " numbers, one per class of output '" + printable(outputs_[0]->name()) +
                            "' " + to_string(outputs_[0]->type) + ", got " +
                            std::to_string(weights.size()));
  }

  // --- the others

  StatusOr<Value*> bce() {
    const Dims dims = outputs_[0]->tensor_type().dims();
    MEZZO_RETURN_IF_ERROR(
        check_class_count(options_.class_weights, dims.back(), "--class-weights"));
    MEZZO_RETURN_IF_ERROR(check_class_count(options_.pos_weights, dims.back(), "--pos-weights"));
    Value* at = outputs_[0];
    while (at->producer() != nullptr && only_reshapes(*at->producer()))
      at = at->producer()->operand(0);
    const bool is_sigmoid = at->producer() != nullptr && at->producer()->is("Sigmoid");
    Value* logits = is_sigmoid ? at->producer()->operand(0) : outputs_[0];
    logits = terms_.reshape(terms_.as_float(logits), dims);
    MEZZO_ASSIGN_OR_RETURN(Value* const target, float_target(dims));
    MEZZO_ASSIGN_OR_RETURN(Value* const weights, mask(dims, true));
    return terms_.mean(terms_.bce(logits, target, options_.class_weights, options_.pos_weights),
                       weights);
  }

  StatusOr<Value*> distance() {
    const Dims dims = outputs_[0]->tensor_type().dims();
    Value* output = terms_.as_float(outputs_[0]);
    MEZZO_ASSIGN_OR_RETURN(Value* const target, float_target(dims));
    MEZZO_ASSIGN_OR_RETURN(Value* const weights, mask(dims, true));
    return terms_.mean(options_.kind == LossKind::kMse ? terms_.squared_error(output, target)
                                                       : terms_.absolute_error(output, target),
                       weights);
  }

  StatusOr<Value*> cosine() {
    const Dims dims = outputs_[0]->tensor_type().dims();
    if (dims.size() < 2) {
      return invalid_argument("output '" + printable(outputs_[0]->name()) +
                              "': expected vectors [N,...,D] to compare, got " +
                              to_string(outputs_[0]->type));
    }
    Value* output = terms_.as_float(outputs_[0]);
    MEZZO_ASSIGN_OR_RETURN(Value* const target, float_target(dims));
    MEZZO_ASSIGN_OR_RETURN(Value* const weights, mask(without_axis(dims, dims.size() - 1), true));
    return terms_.mean(terms_.cosine_distance(output, target), weights);
  }

  StatusOr<Value*> cosine_embedding() {
    const Dims dims = outputs_[0]->tensor_type().dims();
    if (dims.size() != 2 || outputs_[1]->tensor_type().dims() != dims) {
      return invalid_argument("outputs '" + printable(outputs_[0]->name()) + "' and '" +
                              printable(outputs_[1]->name()) + "': expected two of one shape " +
                              "[N,D], got " + to_string(outputs_[0]->type) + " and " +
                              to_string(outputs_[1]->type));
    }
    Value* a = terms_.as_float(outputs_[0]);
    Value* b = terms_.as_float(outputs_[1]);
    MEZZO_ASSIGN_OR_RETURN(Value* const target, float_target({dims[0]}));
    MEZZO_ASSIGN_OR_RETURN(Value* const weights, mask({dims[0]}, false));
    return terms_.mean(terms_.cosine_embedding(a, b, target, options_.margin), weights);
  }

  Graph& graph_;
  PassContext& ctx_;
  const LossOptions& options_;
  Builder builder_;
  LossTerms terms_;
  std::vector<Value*> outputs_;
};

}  // namespace

std::string_view loss_word(LossKind kind) {
  switch (kind) {
    case LossKind::kNone: return "none";
    case LossKind::kCrossEntropy: return "cross-entropy";
    case LossKind::kBce: return "bce";
    case LossKind::kMse: return "mse";
    case LossKind::kL1: return "l1";
    case LossKind::kCosine: return "cosine";
  }
  return "?";
}

StatusOr<bool> attach_loss(Model& model, PassContext& ctx) {
  if (ctx.loss.kind == LossKind::kNone) return false;
  MEZZO_RETURN_IF_ERROR(LossAttacher(model, ctx).run());
  return true;
}

}  // namespace mezzo::passes
