#include "compiler/ops/contraction_rules.h"

#include <algorithm>
#include <string>

namespace mezzo {
namespace {

Value* matmul_t(GradientContext& ctx, Value* a, Value* b, bool trans_a, bool trans_b,
                double alpha = 1.0) {
  std::vector<Builder::NamedValue> attributes;
  if (trans_a) attributes.emplace_back("trans_a", std::int64_t{1});
  if (trans_b) attributes.emplace_back("trans_b", std::int64_t{1});
  if (alpha != 1.0) attributes.emplace_back("alpha", static_cast<float>(alpha));
  return ctx.builder.mezzo_op("MatMulT", {a, b}, std::move(attributes));
}

StatusOr<std::vector<Dim>> shape_of(const GradientContext& ctx, const Value& value) {
  if (value.type.is_tensor() && value.tensor_type().shape) return *value.tensor_type().shape;
  return unimplemented(describe(ctx.node) + ": its gradient needs the rank of '" + value.name() +
                       "'");
}

Value* reshape_to(GradientContext& ctx, Value* value, const std::vector<Dim>& dims) {
  std::vector<std::int64_t> target;
  for (const Dim& dim : dims) target.push_back(dim.known() ? dim.value : -1);
  Value* result = ctx.builder.op("Reshape", {value, ctx.builder.ints(target)});
  if (result->type.is_tensor()) result->type.tensor.shape = dims;
  return result;
}

// All but the last dimension become one. The last must be a number.
StatusOr<Value*> flatten_rows(GradientContext& ctx, Value* value) {
  MEZZO_ASSIGN_OR_RETURN(const std::vector<Dim> dims, shape_of(ctx, *value));
  if (dims.size() == 2) return value;
  if (!dims.back().known()) {
    return unimplemented(describe(ctx.node) + ": its gradient needs the last dimension of '" +
                         value->name() + "', which is " + to_string(value->type));
  }
  Dim rows(1);
  for (std::size_t i = 0; i + 1 < dims.size(); ++i) {
    if (!dims[i].known()) {
      rows = Dim();
      break;
    }
    rows.value *= dims[i].value;
  }
  return reshape_to(ctx, value, {rows, dims.back()});
}

// A shared matrix b[K,N] under batches of rows: one product over all rows instead of one per batch
// and a sum of the results.
StatusOr<Gradients> grad_shared_matrix(GradientContext& ctx) {
  Value* a = ctx.node.operand(0);
  Value* b = ctx.node.operand(1);
  MEZZO_ASSIGN_OR_RETURN(Value* const dy, flatten_rows(ctx, ctx.result_grads[0]));
  Gradients grads = no_gradients(ctx);
  if (ctx.wanted[0]) grads[0] = reshape_like(ctx, matmul_t(ctx, dy, b, false, true), a);
  if (ctx.wanted[1]) {
    MEZZO_ASSIGN_OR_RETURN(Value* const rows, flatten_rows(ctx, a));
    grads[1] = matmul_t(ctx, rows, dy, true, false);
  }
  return grads;
}

// `dims` with ones in front, up to `rank`.
std::vector<Dim> with_leading_ones(std::vector<Dim> dims, std::size_t rank) {
  if (dims.size() < rank) dims.insert(dims.begin(), rank - dims.size(), Dim(1));
  return dims;
}

Value* to_rank(GradientContext& ctx, Value* value, const std::vector<Dim>& dims) {
  return *value->tensor_type().rank() == dims.size() ? value : reshape_to(ctx, value, dims);
}

// The rest: vectors become matrices, both operands and the result get the same rank, and batches
// that were broadcast are summed.
StatusOr<Gradients> grad_batched(GradientContext& ctx) {
  Value* a = ctx.node.operand(0);
  Value* b = ctx.node.operand(1);
  MEZZO_ASSIGN_OR_RETURN(std::vector<Dim> a_dims, shape_of(ctx, *a));
  MEZZO_ASSIGN_OR_RETURN(std::vector<Dim> b_dims, shape_of(ctx, *b));
  MEZZO_ASSIGN_OR_RETURN(std::vector<Dim> y_dims, shape_of(ctx, *ctx.node.result()));
  if (a_dims.size() == 1) {
    a_dims.insert(a_dims.begin(), Dim(1));
    y_dims.insert(b_dims.size() == 1 ? y_dims.end() : y_dims.end() - 1, Dim(1));
  }
  if (b_dims.size() == 1) {
    b_dims.emplace_back(1);
    y_dims.emplace_back(1);
  }
  const std::size_t rank = y_dims.size();
  a_dims = with_leading_ones(std::move(a_dims), rank);
  b_dims = with_leading_ones(std::move(b_dims), rank);
  Value* wide_a = to_rank(ctx, a, a_dims);
  Value* wide_b = to_rank(ctx, b, b_dims);
  Value* dy = to_rank(ctx, ctx.result_grads[0], y_dims);
  Gradients grads = no_gradients(ctx);
  if (ctx.wanted[0]) {
    grads[0] = reshape_like(ctx, sum_to(ctx, matmul_t(ctx, dy, wide_b, false, true), *wide_a), a);
  }
  if (ctx.wanted[1]) {
    grads[1] = reshape_like(ctx, sum_to(ctx, matmul_t(ctx, wide_a, dy, true, false), *wide_b), b);
  }
  return grads;
}

}  // namespace

// y = a b: da = dy b^T, db = a^T dy.
StatusOr<Gradients> grad_matmul(GradientContext& ctx) {
  MEZZO_ASSIGN_OR_RETURN(const std::vector<Dim> a_dims, shape_of(ctx, *ctx.node.operand(0)));
  MEZZO_ASSIGN_OR_RETURN(const std::vector<Dim> b_dims, shape_of(ctx, *ctx.node.operand(1)));
  if (a_dims.size() >= 2 && b_dims.size() == 2) return grad_shared_matrix(ctx);
  return grad_batched(ctx);
}

// y = alpha A B with A = a or a^T, B = b or b^T, batches broadcast. dA = alpha dy B^T,
// dB = alpha A^T dy; the gradient of a transposed operand is written down transposed.
StatusOr<Gradients> grad_matmul_t(GradientContext& ctx) {
  const Node& node = ctx.node;
  Value* a = node.operand(0);
  Value* b = node.operand(1);
  const bool trans_a = node.int_attribute("trans_a", 0) != 0;
  const bool trans_b = node.int_attribute("trans_b", 0) != 0;
  const double alpha = node.float_attribute("alpha", 1.0F);
  MEZZO_ASSIGN_OR_RETURN(const std::vector<Dim> a_dims, shape_of(ctx, *a));
  MEZZO_ASSIGN_OR_RETURN(const std::vector<Dim> b_dims, shape_of(ctx, *b));
  const std::size_t rank = std::max(a_dims.size(), b_dims.size());
  Value* wide_a = to_rank(ctx, a, with_leading_ones(a_dims, rank));
  Value* wide_b = to_rank(ctx, b, with_leading_ones(b_dims, rank));
  Value* dy = ctx.result_grads[0];
  Gradients grads = no_gradients(ctx);
  if (ctx.wanted[0]) {
    Value* da = trans_a ? matmul_t(ctx, wide_b, dy, trans_b, true, alpha)
                        : matmul_t(ctx, dy, wide_b, false, !trans_b, alpha);
    grads[0] = reshape_like(ctx, sum_to(ctx, da, *wide_a), a);
  }
  if (ctx.wanted[1]) {
    Value* db = trans_b ? matmul_t(ctx, dy, wide_a, true, trans_a, alpha)
                        : matmul_t(ctx, wide_a, dy, !trans_a, false, alpha);
    grads[1] = reshape_like(ctx, sum_to(ctx, db, *wide_b), b);
  }
  return grads;
}

// y = alpha A B + beta c, with A = a or a^T, B = b or b^T. dA = alpha dy B^T, dB = alpha A^T dy;
// the gradient of a transposed operand is written down transposed.
StatusOr<Gradients> grad_gemm(GradientContext& ctx) {
  const Node& node = ctx.node;
  Value* a = node.operand(0);
  Value* b = node.operand(1);
  Value* dy = ctx.result_grads[0];
  const bool trans_a = node.int_attribute("transA", 0) != 0;
  const bool trans_b = node.int_attribute("transB", 0) != 0;
  const double alpha = node.float_attribute("alpha", 1.0F);
  Gradients grads = no_gradients(ctx);
  if (ctx.wanted[0]) {
    grads[0] = trans_a ? matmul_t(ctx, b, dy, trans_b, true, alpha)
                       : matmul_t(ctx, dy, b, false, !trans_b, alpha);
  }
  if (ctx.wanted[1]) {
    grads[1] = trans_b ? matmul_t(ctx, dy, a, true, trans_a, alpha)
                       : matmul_t(ctx, a, dy, !trans_a, false, alpha);
  }
  if (grads.size() > 2 && ctx.wanted[2]) {
    Value* sum = sum_to(ctx, dy, *node.operand(2));
    grads[2] = scale(ctx, sum, node.float_attribute("beta", 1.0F));
  }
  return grads;
}

}  // namespace mezzo
