// Gradients of Pad. Constant padding passes on the part of dy that x filled; the other modes repeat
// elements, whose gradients are added up dimension by dimension.
#include <algorithm>
#include <optional>
#include <string>

#include "compiler/ops/compose.h"
#include "compiler/ops/constants.h"
#include "compiler/ops/movement_rules.h"

namespace mezzo {
namespace {

using Ints = std::vector<std::int64_t>;

constexpr std::int64_t kMostPadded = std::int64_t{1} << 28;

// The window of dy that x filled: padding with the opposite sign, which also puts zeros where x was
// cut off.
Value* window_of_operand(GradientContext& ctx, const Ints& pads) {
  Value* dy = ctx.result_grads[0];
  if (std::all_of(pads.begin(), pads.end(), [](std::int64_t pad) { return pad == 0; })) return dy;
  Ints opposite;
  for (const std::int64_t pad : pads) opposite.push_back(-pad);
  Value* window = ctx.builder.op("Pad", {dy, ctx.builder.ints(opposite)});
  window->type = ctx.node.operand(0)->type;
  return window;
}

// What the padding itself takes: the sum of dy over it.
Value* sum_of_padding(GradientContext& ctx, const Ints& pads) {
  const Compose c(ctx);
  Value* zeros = op_like(ctx, "FillZero", {}, {}, *ctx.node.operand(0));
  Value* padding = c.op("Pad", {zeros, ctx.builder.ints(pads), c.number(zeros, 1.0)});
  padding->type = ctx.node.result()->type;
  Value* sum =
      c.op("ReduceSum", {c.mul(ctx.result_grads[0], padding)}, {{"keepdims", std::int64_t{0}}});
  return reshape_like(ctx, sum, ctx.node.operand(2));
}

// Which element of a dimension of `size` stands at every index of the padded one. Cutting (negative
// pads) comes first. nullopt: an unknown mode, or nothing to repeat.
std::optional<Ints> repeated(std::int64_t size, std::int64_t begin, std::int64_t end,
                             const std::string& mode) {
  const std::int64_t first = std::max<std::int64_t>(-begin, 0);
  const std::int64_t kept = size - first - std::max<std::int64_t>(-end, 0);
  if (kept < 1 || begin > kMostPadded || end > kMostPadded) return std::nullopt;
  const auto modulo = [](std::int64_t i, std::int64_t n) { return (i % n + n) % n; };
  Ints places;
  for (std::int64_t i = -std::max<std::int64_t>(begin, 0);
       i < kept + std::max<std::int64_t>(end, 0); ++i) {
    std::int64_t place = 0;
    if (mode == "edge") {
      place = std::clamp<std::int64_t>(i, 0, kept - 1);
    } else if (mode == "wrap") {
      place = modulo(i, kept);
    } else if (mode == "reflect") {
      const std::int64_t period = 2 * (kept - 1);
      place = period == 0 ? 0 : modulo(i, period);
      place = std::min(place, period - place);
    } else {
      return std::nullopt;
    }
    places.push_back(first + place);
  }
  return places;
}

StatusOr<Value*> sum_of_repeats(GradientContext& ctx, const Ints& pads, const std::string& mode) {
  const Node& node = ctx.node;
  const auto x = static_dims(node.operand(0));
  if (!x) {
    return unimplemented(describe(node) + ": its gradient needs the dimensions of '" +
                         node.operand(0)->name() + "', which is " +
                         to_string(node.operand(0)->type));
  }
  Ints dims = *x;
  for (std::size_t i = 0; i < dims.size(); ++i) dims[i] += pads[i] + pads[dims.size() + i];
  Value* grad = ctx.result_grads[0];
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (pads[i] == 0 && pads[dims.size() + i] == 0) continue;
    const auto places = repeated((*x)[i], pads[i], pads[dims.size() + i], mode);
    if (!places) {
      return unimplemented(describe(node) + ": no gradient in mode '" + mode + "' for dimension " +
                           std::to_string(i) + " of '" + node.operand(0)->name() + "'");
    }
    dims[i] = (*x)[i];
    grad = ctx.builder.mezzo_op("GatherGrad", {grad, ctx.builder.ints(*places)},
                                {{"axis", static_cast<std::int64_t>(i)}});
    grad->type = TensorType::of(node.operand(0)->dtype(), dims);
  }
  return grad;
}

}  // namespace

StatusOr<Gradients> grad_pad(GradientContext& ctx) {
  MEZZO_ASSIGN_OR_RETURN(const Ints pads, full_pads(ctx.node));
  const std::string mode = ctx.node.string_attribute("mode", "constant");
  Gradients grads = no_gradients(ctx);
  if (mode != "constant") {
    MEZZO_ASSIGN_OR_RETURN(grads[0], sum_of_repeats(ctx, pads, mode));
    return grads;
  }
  if (ctx.wanted[0]) grads[0] = window_of_operand(ctx, pads);
  if (grads.size() > 2 && ctx.wanted[2]) grads[2] = sum_of_padding(ctx, pads);
  return grads;
}

}  // namespace mezzo
