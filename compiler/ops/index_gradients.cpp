// Gradients of gathering, scattering and selection by index, composed of the opposite operator.
#include <numeric>
#include <string>

#include "compiler/ops/compose.h"
#include "compiler/ops/constants.h"
#include "compiler/ops/index_rules.h"
#include "compiler/ops/lowering_helpers.h"

namespace mezzo {
namespace {

using Ints = std::vector<std::int64_t>;
using Attributes = std::vector<Builder::NamedValue>;

Attributes axis_attribute(const Node& node, std::int64_t fallback) {
  return {{"axis", node.int_attribute("axis", fallback)}};
}

// ScatterElements or ScatterND with the gather that undoes it.
struct Pair {
  std::string_view scatter, gather;
  Attributes attributes;
};

class Scattering {
 public:
  Scattering(GradientContext& ctx, Pair pair) : ctx_(ctx), c_(ctx), pair_(std::move(pair)) {}

  // `values` combined with `data` at the places that the indices name.
  Value* scatter(Value* data, Value* indices, Value* values, std::string_view reduction) const {
    Attributes attributes = pair_.attributes;
    attributes.emplace_back("reduction", std::string(reduction));
    Value* result = c_.op(pair_.scatter, {data, indices, values}, std::move(attributes));
    result->type = data->type;
    return result;
  }
  // The same with a tensor like `like`, full of zeros.
  Value* scatter_sum(Value* indices, Value* values, const Value& like) const {
    return scatter(op_like(ctx_, "FillZero", {}, {}, like), indices, values, "add");
  }
  Value* gather(Value* from, Value* indices) const {
    return c_.op(pair_.gather, {from, indices}, pair_.attributes);
  }

  StatusOr<Gradients> gradients() const {
    const std::string reduction = ctx_.node.string_attribute("reduction", "none");
    if (reduction == "mul") return of_product();
    if (reduction == "max" || reduction == "min") return of_extreme();
    if (reduction != "none" && reduction != "add") {
      return invalid_argument(describe(ctx_.node) + ": attribute reduction: '" + reduction + "'");
    }
    // dy where nothing was replaced, and what replaced it. With a sum both are the whole.
    Value* dy = ctx_.result_grads[0];
    Value* indices = ctx_.node.operand(1);
    Gradients grads = no_gradients(ctx_);
    if (ctx_.wanted[0] && reduction == "add") grads[0] = dy;
    if (ctx_.wanted[0] && reduction == "none") {
      Value* zeros = op_like(ctx_, "FillZero", {}, {}, *ctx_.node.operand(2));
      grads[0] = c_.op(pair_.scatter, {dy, indices, zeros}, pair_.attributes);
    }
    if (ctx_.wanted[2]) grads[2] = gather(dy, indices);
    return grads;
  }

 private:
  // y = data times all updates of a place. Zeros are counted apart: an update takes the product of
  // the others, which is the whole divided by it only where none of them is 0.
  StatusOr<Gradients> of_product() const {
    Value* data = ctx_.node.operand(0);
    Value* indices = ctx_.node.operand(1);
    Value* updates = ctx_.node.operand(2);
    Value* dy = ctx_.result_grads[0];
    Value* ones = c_.add(op_like(ctx_, "FillZero", {}, {}, *data), 1.0);
    Gradients grads = no_gradients(ctx_);
    if (ctx_.wanted[0]) grads[0] = c_.mul(dy, scatter(ones, indices, updates, "mul"));
    if (!ctx_.wanted[2]) return grads;
    Value* is_zero = c_.equals(updates, 0.0);
    Value* filled = c_.where(is_zero, c_.number(updates, 1.0), updates);
    Value* product = gather(scatter(ones, indices, filled, "mul"), indices);
    Value* zeros =
        gather(scatter_sum(indices, c_.indicator(is_zero, updates->dtype()), *data), indices);
    Value* only_zero = c_.op("And", {is_zero, c_.equals(zeros, 1.0)});
    Value* no_zero = c_.equals(zeros, 0.0);
    Value* others = c_.add(c_.where_or_zero(only_zero, product),
                           c_.where_or_zero(no_zero, c_.div(product, filled)));
    grads[2] = c_.mul(gather(c_.mul(dy, data), indices), others);
    return grads;
  }

  // y = the largest (smallest) of data and updates; equal ones share, as in PyTorch.
  StatusOr<Gradients> of_extreme() const {
    Value* data = ctx_.node.operand(0);
    Value* indices = ctx_.node.operand(1);
    Value* updates = ctx_.node.operand(2);
    Value* y = ctx_.node.result();
    const DType dtype = y->dtype();
    Value* kept = c_.indicator(c_.op("Equal", {data, y}), dtype);
    Value* chosen = c_.indicator(c_.op("Equal", {updates, gather(y, indices)}), dtype);
    Value* count = scatter(kept, indices, chosen, "add");
    // Where nothing is chosen (NaN) nothing is shared out.
    Value* share = c_.zero_where(c_.equals(count, 0.0), c_.div(ctx_.result_grads[0], count));
    Gradients grads = no_gradients(ctx_);
    if (ctx_.wanted[0]) grads[0] = c_.mul(kept, share);
    if (ctx_.wanted[2]) grads[2] = c_.mul(chosen, gather(share, indices));
    return grads;
  }

  GradientContext& ctx_;
  Compose c_;
  Pair pair_;
};

Pair elements(const Node& node, std::int64_t fallback) {
  return {"ScatterElements", "GatherElements", axis_attribute(node, fallback)};
}
Pair nd() { return {"ScatterND", "GatherND", {}}; }

// The places that GatherND's indices[B.., .., k] with `batch_dims` name, without batches: the
// position in every batch dimension in front of each index.
StatusOr<Value*> spelled_out(GradientContext& ctx, std::int64_t batch_dims) {
  Value* indices = ctx.node.operand(1);
  const auto dims = static_dims(indices);
  if (!dims || batch_dims < 0 || batch_dims >= static_cast<std::int64_t>(dims->size())) {
    return unimplemented(describe(ctx.node) + ": its gradient needs the dimensions of '" +
                         indices->name() + "', which is " + to_string(indices->type));
  }
  const auto count = static_cast<std::size_t>(batch_dims);
  std::vector<Value*> parts;
  for (std::size_t i = 0; i < count; ++i) {
    Ints places(static_cast<std::size_t>((*dims)[i]));
    std::iota(places.begin(), places.end(), 0);
    Ints shape(dims->size(), 1), wide = *dims;
    shape[i] = (*dims)[i];
    wide.back() = 1;
    Value* part = ctx.builder.constant(Tensor::from_ints(shape, places));
    if (indices->dtype() != DType::kInt64) {
      part = ctx.builder.op("Cast", {part}, {{"to", static_cast<std::int64_t>(indices->dtype())}});
    }
    parts.push_back(ctx.builder.op("Expand", {part, ctx.builder.ints(wide)}));
  }
  parts.push_back(indices);
  return ctx.builder.op("Concat", parts, {{"axis", std::int64_t{-1}}});
}

// The numbers 0, 1, .. as int64, and `dims` ones around them, `count` along `axis`.
Value* counting(GradientContext& ctx, std::size_t rank, std::size_t axis, std::int64_t count) {
  Ints places(static_cast<std::size_t>(count)), shape(rank, 1);
  std::iota(places.begin(), places.end(), 0);
  shape[axis] = count;
  return ctx.builder.constant(Tensor::from_ints(shape, places));
}

}  // namespace

StatusOr<Gradients> grad_gather_elements(GradientContext& ctx) {
  Gradients grads = no_gradients(ctx);
  grads[0] = Scattering(ctx, elements(ctx.node, 0))
                 .scatter_sum(ctx.node.operand(1), ctx.result_grads[0], *ctx.node.operand(0));
  return grads;
}

StatusOr<Gradients> grad_gather_nd(GradientContext& ctx) {
  Value* indices = ctx.node.operand(1);
  const std::int64_t batch_dims = ctx.node.int_attribute("batch_dims", 0);
  if (batch_dims != 0) {
    MEZZO_ASSIGN_OR_RETURN(indices, spelled_out(ctx, batch_dims));
  }
  Gradients grads = no_gradients(ctx);
  grads[0] = Scattering(ctx, nd()).scatter_sum(indices, ctx.result_grads[0], *ctx.node.operand(0));
  return grads;
}

StatusOr<Gradients> grad_scatter_elements(GradientContext& ctx) {
  return Scattering(ctx, elements(ctx.node, 0)).gradients();
}

StatusOr<Gradients> grad_scatter_nd(GradientContext& ctx) {
  return Scattering(ctx, nd()).gradients();
}

// The chosen elements take their gradients back to where they came from.
StatusOr<Gradients> grad_top_k(GradientContext& ctx) {
  MEZZO_ASSIGN_OR_RETURN(Value* const indices, require_result(ctx, 1, "indices"));
  Gradients grads = no_gradients(ctx);
  if (ctx.result_grads[0] == nullptr) return grads;
  grads[0] = Scattering(ctx, elements(ctx.node, -1))
                 .scatter_sum(indices, ctx.result_grads[0], *ctx.node.operand(0));
  return grads;
}

// past[B, .., L, ..] with update[B, .., S, ..] written from write_indices[B] on along the axis.
StatusOr<Gradients> grad_tensor_scatter(GradientContext& ctx) {
  const Node& node = ctx.node;
  const Compose c(ctx);
  const auto past = static_dims(node.operand(0));
  const auto update = static_dims(node.operand(1));
  if (!past || !update || past->size() != update->size() || past->empty()) {
    return unimplemented(describe(node) + ": its gradient needs the dimensions of '" +
                         node.operand(0)->name() + "' and '" + node.operand(1)->name() + "'");
  }
  const std::size_t rank = past->size();
  MEZZO_ASSIGN_OR_RETURN(
      const std::int64_t axis,
      normalize_axis(node, node.int_attribute("axis", -2), static_cast<std::int64_t>(rank)));
  const auto along = static_cast<std::size_t>(axis);
  Value* dy = ctx.result_grads[0];
  Gradients grads = no_gradients(ctx);
  if (ctx.wanted[0]) {
    Value* zeros = op_like(ctx, "FillZero", {}, {}, *node.operand(1));
    grads[0] = c.op("TensorScatter", {dy, zeros, node.operand(2)}, forward_attributes(ctx));
  }
  if (ctx.wanted[1]) {
    Value* places = counting(ctx, rank, along, (*update)[along]);
    if (Value* first = node.operand(2)) {
      Ints per_batch(rank, 1);
      per_batch[0] = -1;
      places = c.add(c.op("Reshape", {first, ctx.builder.ints(per_batch)}), places);
    }
    if (node.string_attribute("mode", "linear") == "circular") {
      places = c.op("Mod", {places, c.number(places, static_cast<double>((*past)[along]))});
    }
    places = c.op("Expand", {places, ctx.builder.ints(*update)});
    grads[1] = c.op("GatherElements", {dy, places}, {{"axis", axis}});
  }
  return grads;
}

// y = on where the index stands, off elsewhere: the sums of dy over both.
StatusOr<Gradients> grad_one_hot(GradientContext& ctx) {
  const Node& node = ctx.node;
  const Compose c(ctx);
  Value* values = node.operand(2);
  Value* dy = ctx.result_grads[0];
  const auto sum_where = [&](float off, float on) {
    const float numbers[] = {off, on};
    Value* pair = ctx.builder.constant(Tensor::from_floats({2}, numbers));
    if (pair->dtype() != dy->dtype()) {
      pair = c.op("Cast", {pair}, {{"to", static_cast<std::int64_t>(dy->dtype())}});
    }
    Value* mask = c.op("OneHot", {node.operand(0), node.operand(1), pair},
                       {{"axis", node.int_attribute("axis", -1)}});
    mask->type = dy->type;
    Value* sum = c.op("ReduceSum", {c.mul(dy, mask)}, {{"keepdims", std::int64_t{0}}});
    return c.op("Reshape", {sum, ctx.builder.ints({1})});
  };
  Gradients grads = no_gradients(ctx);
  if (ctx.wanted[2]) {
    grads[2] =
        c.op("Concat", {sum_where(1.0F, 0.0F), sum_where(0.0F, 1.0F)}, {{"axis", std::int64_t{0}}});
    grads[2]->type = values->type;
  }
  return grads;
}

}  // namespace mezzo
