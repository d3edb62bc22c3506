#include "compiler/ops/attention_rules.h"

#include <string>
#include <utility>

#include "compiler/ops/merge_types.h"

namespace mezzo {
namespace {

constexpr std::size_t kRank = 4;

// Bits of tokens_first, by operand; the result's comes behind them.
constexpr std::int64_t kResultBit = 8;

const std::vector<Dim>* shape_of(const Node& node, std::size_t operand) {
  const Value* value = node.operand(operand);
  if (value == nullptr || !value->type.is_tensor() || !value->tensor_type().shape) return nullptr;
  return &*value->tensor_type().shape;
}

// The other way round where the bit says so: heads in front of tokens, or behind them.
std::vector<Dim> turned(const Node& node, std::int64_t bit, std::vector<Dim> dims) {
  if ((node.int_attribute("tokens_first", 0) & bit) != 0) std::swap(dims[1], dims[2]);
  return dims;
}

Status expect_rank(const Node& node, std::size_t operand) {
  const std::vector<Dim>* shape = shape_of(node, operand);
  if (shape == nullptr || shape->size() == kRank) return ok_status();
  return invalid_argument("operand " + std::to_string(operand) + ": expected rank 4, got " +
                          std::to_string(shape->size()));
}

Status expect_equal(const Dim& got, const Dim& expected, const char* what) {
  if (!got.known() || !expected.known() || got.value == expected.value) return ok_status();
  return invalid_argument(std::string(what) + ": expected " + std::to_string(expected.value) +
                          ", got " + std::to_string(got.value));
}

}  // namespace

Status infer_attention(Node& node) {
  for (const std::size_t operand : {0, 1, 2}) {
    MEZZO_RETURN_IF_ERROR(expect_rank(node, operand));
  }
  for (const std::size_t operand : {0, 1, 2}) {
    if (shape_of(node, operand) == nullptr) return ok_status();
  }
  const std::vector<Dim> q = turned(node, 1, *shape_of(node, 0)),
                         k = turned(node, 2, *shape_of(node, 1)),
                         v = turned(node, 4, *shape_of(node, 2));
  MEZZO_RETURN_IF_ERROR(expect_equal(k[0], q[0], "batches of the keys"));
  MEZZO_RETURN_IF_ERROR(expect_equal(v[0], q[0], "batches of the values"));
  MEZZO_RETURN_IF_ERROR(expect_equal(v[1], k[1], "heads of the values"));
  MEZZO_RETURN_IF_ERROR(expect_equal(v[2], k[2], "number of values"));
  MEZZO_RETURN_IF_ERROR(expect_equal(k[3], q[3], "size of the keys"));
  const Dim &heads = q[1], &groups = k[1];
  if (heads.known() && groups.known() && (groups.value < 1 || heads.value % groups.value != 0)) {
    return invalid_argument("expected a multiple of the " + std::to_string(groups.value) +
                            " heads of keys as heads of queries, got " +
                            std::to_string(heads.value));
  }
  if (node.result(0) != nullptr) {
    const TensorType y(node.operand(0)->dtype(),
                       turned(node, kResultBit, {q[0], q[1], q[2], v[3]}));
    MEZZO_RETURN_IF_ERROR(merge_type(*node.result(0), Type(y)));
  }
  if (node.result(1) == nullptr) return ok_status();
  const TensorType lse(DType::kFloat32, {q[0], q[1], q[2]});
  return merge_type(*node.result(1), Type(lse));
}

Status infer_attention_grad(Node& node) {
  for (std::size_t i = 0; i < node.results().size() && i < 3; ++i) {
    const Value* operand = node.operand(i + 1);
    if (node.result(i) == nullptr || operand == nullptr) continue;
    MEZZO_RETURN_IF_ERROR(merge_type(*node.result(i), operand->type));
  }
  return ok_status();
}

// One node gives all three, wanted or not: they come of the same products.
StatusOr<Gradients> grad_attention(GradientContext& ctx) {
  MEZZO_RETURN_IF_ERROR(only_first_result(ctx));
  MEZZO_ASSIGN_OR_RETURN(Value* const lse, require_result(ctx, 1, "lse"));
  const Node& node = ctx.node;
  Node* made = ctx.builder.node("ScaledDotProductAttentionGrad",
                                {ctx.result_grads[0], node.operand(0), node.operand(1),
                                 node.operand(2), node.operand(3), node.result(0), lse},
                                3, forward_attributes(ctx), kMezzoDomain);
  Gradients grads = no_gradients(ctx);
  for (std::size_t i = 0; i < 3; ++i) {
    if (ctx.wanted[i]) grads[i] = made->result(i);
  }
  return grads;
}

}  // namespace mezzo
