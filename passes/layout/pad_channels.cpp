// One walk in graph order. At every node:
//
// 1. a contraction takes padded operands in by zero rows of its weight, and pads its own result if
//    that is not a multiple yet;
// 2. ops that keep zero zero pass padding on;
// 3. all others get the logical part of what they read.

#include "passes/layout/pad_channels.h"

#include <algorithm>

#include "compiler/ops/op_def.h"
#include "passes/layout/padding.h"

namespace mezzo::passes {
namespace {

constexpr std::int64_t kSliceByOperands = 10;  // the opset from which padding can be cut off so

// Where the weight of a contraction has its input and output features.
struct ContractionAxes {
  std::int64_t x_axis = 0;           // of operand 0: the contracted axis
  std::int64_t y_axis = 0;           // of the result: output features
  std::int64_t w_in = 0, w_out = 0;  // axes of operand 1 as the node sees it
  bool has_bias = false;             // operand 2 has one element per output feature
};

std::int64_t rank(const Value& value) {
  return static_cast<std::int64_t>(value.tensor_type().shape->size());
}

std::optional<ContractionAxes> contraction_axes(const Node& node) {
  const Value *x = node.operand(0), *w = node.operand(1), *y = node.result();
  if (x == nullptr || w == nullptr || y == nullptr) return std::nullopt;
  for (const Value* value : {x, w, y}) {
    if (!value->type.is_tensor() || !value->tensor_type().shape) return std::nullopt;
  }
  ContractionAxes axes;
  axes.has_bias = node.operand(2) != nullptr;
  if (node.is("Conv") && node.int_attribute("group", 1) == 1) {
    axes.x_axis = axes.y_axis = 1;
    axes.w_out = 0;
    axes.w_in = 1;
    return axes;
  }
  if (node.is("Gemm") && node.int_attribute("transA", 0) == 0) {
    const bool transposed = node.int_attribute("transB", 0) != 0;
    axes.x_axis = axes.y_axis = 1;
    axes.w_in = transposed ? 1 : 0;
    axes.w_out = 1 - axes.w_in;
    // A bias that is broadcast along the features cannot be padded with zeros.
    const Value* bias = node.operand(2);
    if (bias != nullptr &&
        (!bias->type.is_tensor() || !bias->tensor_type().has_static_shape() || rank(*bias) != 1 ||
         bias->tensor_type().shape->back() != y->tensor_type().shape->back())) {
      return std::nullopt;
    }
    return axes;
  }
  if (node.is("MatMul") && rank(*w) == 2 && rank(*x) >= 2) {
    axes.x_axis = axes.y_axis = rank(*x) - 1;
    axes.w_in = 0;
    axes.w_out = 1;
    axes.has_bias = false;
    return axes;
  }
  return std::nullopt;
}

class Padder {
 public:
  Padder(Model& model, PassContext& ctx) : graph_(*model.graph), ctx_(ctx), padded_(model, ctx) {}

  StatusOr<bool> run() {
    for (Node* node : graph_.node_list()) {
      if (node->is("Transpose") && reads_constant(*node)) continue;  // handled with its user
      MEZZO_RETURN_IF_ERROR(visit(*node));
    }
    MEZZO_RETURN_IF_ERROR(padded_.slice_captures());
    MEZZO_RETURN_IF_ERROR(padded_.slice_outputs());
    return changed_;
  }

 private:
  static bool reads_constant(const Node& node) {
    return node.operand(0) != nullptr && node.operand(0)->is_fixed();
  }

  bool reads_padded(const Node& node) const {
    for (const Value* operand : node.operands()) {
      if (operand != nullptr && padded_.find(operand) != nullptr) return true;
    }
    return false;
  }

  Status visit(Node& node) {
    const OpDef* def = find_op(node);
    const bool incoming = reads_padded(node);
    if (def != nullptr && def->padding == PadRule::kContraction) return visit_contraction(node);
    if (!incoming) return ok_status();
    if (def != nullptr && pass_on(node, *def)) return ok_status();
    return slice_all(node);
  }

  Status slice_all(Node& node) {
    for (std::size_t i = 0; i < node.operand_count(); ++i) {
      if (node.operand(i) != nullptr && padded_.find(node.operand(i)) != nullptr)
        MEZZO_RETURN_IF_ERROR(padded_.slice_operand(node, i));
    }
    return ok_status();
  }

  Status visit_contraction(Node& node) {
    const auto axes = contraction_axes(node);
    const bool can_pad = axes && padded_.can_pad_constant(node, 1) &&
                         (!axes->has_bias || padded_.can_pad_constant(node, 2));
    const Padding* incoming = padded_.find(node.operand(0));
    if (incoming != nullptr) {
      const bool fits = can_pad && incoming->zero && incoming->axis == axes->x_axis;
      if (fits) {
        padded_.pad_constant(node, 1, axes->w_in, incoming->padded);
      } else {
        MEZZO_RETURN_IF_ERROR(padded_.slice_operand(node, 0));
      }
    }
    for (std::size_t i = 1; i < node.operand_count(); ++i) {
      if (node.operand(i) != nullptr && padded_.find(node.operand(i)) != nullptr)
        MEZZO_RETURN_IF_ERROR(padded_.slice_operand(node, i));
    }
    if (can_pad) pad_result(node, *axes);
    return ok_status();
  }

  void pad_result(Node& node, const ContractionAxes& axes) {
    const Dim& features =
        (*node.result()->tensor_type().shape)[static_cast<std::size_t>(axes.y_axis)];
    const std::int64_t multiple = ctx_.padding.multiple;
    if (!features.known() || features.value % multiple == 0) return;
    const std::int64_t target = (features.value + multiple - 1) / multiple * multiple;
    const std::string what = display_name(node) + ": " + std::to_string(features.value) + " -> " +
                             std::to_string(target);
    if (!ctx_.padding.always && !pays(features.value, target)) {
      ctx_.records.pads.push_back(what + " would not pay on " + ctx_.policy.target);
      return;
    }
    const Padding padding{axes.y_axis, features.value, target, true};
    padded_.pad_constant(node, 1, axes.w_out, target);
    if (axes.has_bias) padded_.pad_constant(node, 2, 0, target);
    padded_.mark(*node.result(), padding);
    ctx_.records.pads.push_back(what + " output features");
    ctx_.stats.add("contractions-padded", 1);
    changed_ = true;
  }

  // Tensor Cores without aligned sizes run at a fraction; a CPU gains nothing. Twice the work is
  // too much.
  bool pays(std::int64_t from, std::int64_t to) const {
    return ctx_.policy.target != "cpu" && to <= 2 * from;
  }

  // Lets padding through the node; false if its operands must be sliced.
  bool pass_on(Node& node, const OpDef& def) {
    if (node.result() == nullptr || !node.result()->type.is_tensor() ||
        !node.result()->tensor_type().shape)
      return false;
    // The catalogue has them as unpadded, as the target shape names logical sizes: it is rewritten.
    if (node.is("Flatten") || node.is("Reshape")) return pass_reshape(node);
    switch (def.padding) {
      case PadRule::kNormalization: return pass_batch_norm(node);
      case PadRule::kBreaksZero: return pass_unary(node, /*zero=*/false);
      case PadRule::kZeroTimesAny: return pass_product(node);
      case PadRule::kKeepsZero: return pass_zero_keeping(node);
      default: return false;
    }
  }

  bool pass_unary(Node& node, bool zero) {
    if (node.operand_count() != 1 || node.results().size() != 1) return false;
    Padding padding = *padded_.find(node.operand(0));
    padding.zero = padding.zero && zero;
    return hand_on(node, padding);
  }

  // Same shape behind as before: the padding stands where it stood.
  bool hand_on(Node& node, const Padding& padding) {
    const auto& shape = *node.result()->tensor_type().shape;
    if (padding.axis >= static_cast<std::int64_t>(shape.size()) ||
        shape[static_cast<std::size_t>(padding.axis)] != Dim(padding.logical))
      return false;
    padded_.mark(*node.result(), padding);
    return true;
  }

  bool pass_zero_keeping(Node& node) {
    if (node.is("Transpose")) return pass_transpose(node);
    if (is_channelwise(node)) return pass_channelwise(node);
    if (is_elementwise_sum(node)) return pass_sum(node);
    const bool shape_kept =
        node.operand_count() == 1 && node.operand(0)->type.is_tensor() &&
        node.operand(0)->tensor_type().shape &&
        node.operand(0)->tensor_type().shape->size() == node.result()->tensor_type().shape->size();
    return shape_kept && def_is_elementwise(node) && padded_.find(node.operand(0))->zero &&
           pass_unary(node, true);
  }

  // Unary ops whose result has the operand's shape; reductions and their like do not count.
  static bool def_is_elementwise(const Node& node) {
    static constexpr std::string_view kNames[] = {
        "Relu",      "Tanh", "Gelu", "Swish",     "Neg",      "Abs",  "Sqrt", "Erf", "Sin",
        "LeakyRelu", "Elu",  "Selu", "HardSwish", "Identity", "Sign", "Cast", "Mish"};
    return std::find(std::begin(kNames), std::end(kNames), node.op_type()) != std::end(kNames);
  }

  // Pooling works on every channel by itself.
  static bool is_channelwise(const Node& node) {
    return node.is("MaxPool") || node.is("AveragePool") || node.is("GlobalAveragePool") ||
           node.is("GlobalMaxPool");
  }
  bool pass_channelwise(Node& node) {
    const Padding padding = *padded_.find(node.operand(0));
    for (std::size_t r = 1; r < node.results().size(); ++r) {
      if (node.result(r) != nullptr && node.result(r)->has_uses())
        return false;  // indices count the channels
    }
    return padding.zero && padding.axis == 1 && hand_on(node, padding);
  }

  static bool is_elementwise_sum(const Node& node) {
    return (node.is("Add") || node.is("Sub")) && node.operand_count() == 2;
  }

  // Zero plus zero: both padded alike, or the other a constant with one element per channel.
  bool pass_sum(Node& node) {
    const Padding *a = padded_.find(node.operand(0)), *b = padded_.find(node.operand(1));
    const Padding padding = a != nullptr ? *a : *b;
    if (!padding.zero || !hand_on_allowed(node, padding)) return false;
    if (a != nullptr && b != nullptr) {
      return a->same_place(*b) && a->zero && b->zero &&
             rank(*node.operand(0)) == rank(*node.operand(1)) && hand_on(node, padding);
    }
    const std::size_t other = a != nullptr ? 1 : 0;
    if (!grow_channel_constant(node, other, padding)) return false;
    return hand_on(node, padding);
  }

  bool hand_on_allowed(const Node& node, const Padding& padding) const {
    const auto& shape = *node.result()->tensor_type().shape;
    return padding.axis < static_cast<std::int64_t>(shape.size()) &&
           shape[static_cast<std::size_t>(padding.axis)] == Dim(padding.logical);
  }

  // A constant operand whose dimension along the padded axis is the channels grows with zeros.
  bool grow_channel_constant(Node& node, std::size_t operand, const Padding& padding) {
    const Value& constant = *node.operand(operand);
    if (!padded_.can_pad_constant(node, operand) || !constant.type.is_tensor() ||
        !constant.is_fixed())
      return false;
    const std::int64_t axis = padding.axis - (rank(*node.result()) - rank(constant));
    if (axis < 0 || constant.constant()->dims()[static_cast<std::size_t>(axis)] != padding.logical)
      return false;
    padded_.pad_constant(node, operand, axis, padding.padded);
    return true;
  }

  // Zero times anything finite: one side zero is enough.
  bool pass_product(Node& node) {
    const Padding *a = padded_.find(node.operand(0)), *b = padded_.find(node.operand(1));
    if (a != nullptr && b != nullptr) {
      if (!a->same_place(*b) || rank(*node.operand(0)) != rank(*node.operand(1))) return false;
      Padding padding = *a;
      padding.zero = a->zero || b->zero;
      return hand_on(node, padding);
    }
    const Padding padding = a != nullptr ? *a : *b;
    const std::size_t other = a != nullptr ? 1 : 0;
    if (!hand_on_allowed(node, padding)) return false;
    if (is_broadcast_along(*node.operand(other), *node.result(), padding.axis))
      return hand_on(node, padding);
    return grow_channel_constant(node, other, padding) && hand_on(node, padding);
  }

  static bool is_broadcast_along(const Value& value, const Value& result, std::int64_t axis) {
    if (!value.type.is_tensor() || !value.tensor_type().shape) return false;
    const std::int64_t own = axis - (rank(result) - rank(value));
    return own < 0 || (*value.tensor_type().shape)[static_cast<std::size_t>(own)] == Dim(1);
  }

  // Scale, bias and statistics grow with zeros: (0 - 0) / sqrt(0 + eps) x 0 + 0 = 0, with an eps.
  bool pass_batch_norm(Node& node) {
    if (!(node.float_attribute("epsilon", 1e-5F) > 0)) return false;
    if (!node.is("BatchNormalizationTrain", kMezzoDomain) &&
        !(node.is("BatchNormalization") && node.int_attribute("training_mode", 0) == 0))
      return false;
    const Padding padding = *padded_.find(node.operand(0));
    if (!padding.zero || padding.axis != 1 || !hand_on_allowed(node, padding)) return false;
    for (std::size_t i = 1; i < 5; ++i) {
      if (!padded_.can_pad_constant(node, i)) return false;
    }
    for (std::size_t i = 1; i < 5; ++i) padded_.pad_constant(node, i, 0, padding.padded);
    for (std::size_t r = 1; r < node.results().size(); ++r) {
      if (node.result(r) != nullptr)
        padded_.mark(*node.result(r), {0, padding.logical, padding.padded, true});
    }
    return hand_on(node, padding);
  }

  bool pass_transpose(Node& node) {
    Padding padding = *padded_.find(node.operand(0));
    std::vector<std::int64_t> perm = node.ints_attribute("perm");
    if (perm.empty()) {
      for (std::int64_t d = rank(*node.result()) - 1; d >= 0; --d) perm.push_back(d);
    }
    const auto place = std::find(perm.begin(), perm.end(), padding.axis);
    if (place == perm.end()) return false;
    padding.axis = place - perm.begin();
    return hand_on(node, padding);
  }

  // [N, C, d1, ...] -> [N, C d1 ...]: the padding is still the tail of its axis.
  bool pass_reshape(Node& node) {
    const Padding padding = *padded_.find(node.operand(0));
    const TensorType &from = node.operand(0)->tensor_type(), &to = node.result()->tensor_type();
    if (!from.has_static_shape() || !to.has_static_shape() || node.operand_count() > 2)
      return false;
    std::vector<std::int64_t> before = from.dims(), after = to.dims();
    const auto axis = static_cast<std::size_t>(padding.axis);
    if (after.size() != axis + 1 ||
        !std::equal(before.begin(), before.begin() + padding.axis, after.begin()))
      return false;
    std::int64_t inner = 1;
    for (std::size_t d = axis + 1; d < before.size(); ++d) inner *= before[d];
    if (after[axis] != padding.logical * inner) return false;
    const Padding grown{padding.axis, padding.logical * inner, padding.padded * inner,
                        padding.zero};
    if (node.is("Reshape")) {
      after[axis] = grown.padded;
      Builder builder(
          graph_, [](Node&) { return ok_status(); }, &node);
      node.set_operand(1, builder.ints(after));
    }
    return hand_on(node, grown);
  }

  Graph& graph_;
  PassContext& ctx_;
  PaddedValues padded_;
  bool changed_ = false;
};

}  // namespace

StatusOr<bool> pad_channels(Model& model, PassContext& ctx) {
  if (ctx.padding.multiple <= 1) return false;
  if (model.opset() < kSliceByOperands) {
    ctx.records.pads.push_back("no padding at opset " + std::to_string(model.opset()) +
                               ": its Slice takes no operands");
    return false;
  }
  return Padder(model, ctx).run();
}

}  // namespace mezzo::passes
