#include "compiler/ops/mezzo_rules.h"

#include <string>
#include <utility>

#include "compiler/ops/lowering_helpers.h"
#include "compiler/ops/merge_types.h"
#include "compiler/ops/window.h"

namespace mezzo {
namespace {

// Ok where the operand's type is known; otherwise inference has nothing to say.
const TensorType* tensor_operand(const Node& node, std::size_t index) {
  const Value* value = node.operand(index);
  return value != nullptr && value->type.is_tensor() ? &value->tensor_type() : nullptr;
}

Status set_result(Node& node, std::size_t index, const TensorType& type) {
  return node.result(index) ? merge_type(*node.result(index), Type(type)) : ok_status();
}

Status result_like_operand(Node& node, std::size_t result, std::size_t operand) {
  const TensorType* type = tensor_operand(node, operand);
  return type ? set_result(node, result, *type) : ok_status();
}

// Batch dimensions of a product, aligned right. False if they do not fit.
bool broadcast_dim(const Dim& a, const Dim& b, Dim& result) {
  if (a.known() && a.value == 1) {
    result = b;
  } else if (b.known() && b.value == 1) {
    result = a;
  } else if (a.known() && b.known()) {
    result = a;
    return a.value == b.value;
  } else {
    result = a.known() ? a : b;
  }
  return true;
}

}  // namespace

Status infer_nothing(Node&) { return ok_status(); }

Status infer_like_operand0(Node& node) { return result_like_operand(node, 0, 0); }

Status infer_like_operand1(Node& node) { return result_like_operand(node, 0, 1); }

Status infer_dtype_of_operand0(Node& node) {
  const TensorType* type = tensor_operand(node, 0);
  if (type == nullptr) return ok_status();
  TensorType dtype_only;
  dtype_only.dtype = type->dtype;
  return set_result(node, 0, dtype_only);
}

Status infer_matmul_t(Node& node) {
  return infer_product(node, node.int_attribute("trans_a", 0) != 0,
                       node.int_attribute("trans_b", 0) != 0);
}

Status infer_matmul_activation(Node& node) {
  MEZZO_RETURN_IF_ERROR(infer_matmul_t(node));
  const Value* y = node.result(0);
  if (y == nullptr || !y->type.is_tensor()) return ok_status();
  return set_result(node, 1, y->tensor_type());
}

Status infer_matmul_sums(Node& node) {
  MEZZO_RETURN_IF_ERROR(infer_matmul_t(node));
  const bool of_a = node.string_attribute("of", "b") == "a";
  const bool trans = node.int_attribute(of_a ? "trans_a" : "trans_b", 0) != 0;
  const TensorType* summed = tensor_operand(node, of_a ? 0 : 1);
  if (summed == nullptr || !summed->shape) return ok_status();
  if (summed->shape->size() != 2) return invalid_argument("expected matrices");
  // The inner dimension is the last one of a, the first one of b.
  return set_result(node, 1,
                    TensorType(DType::kFloat32, {(*summed->shape)[of_a != trans ? 0 : 1]}));
}

Status infer_product(Node& node, bool trans_a, bool trans_b) {
  const TensorType* a = tensor_operand(node, 0);
  const TensorType* b = tensor_operand(node, 1);
  if (a == nullptr || b == nullptr || !a->shape || !b->shape) return infer_dtype_of_operand0(node);
  std::vector<Dim> a_dims = *a->shape, b_dims = *b->shape;
  const std::size_t rank = a_dims.size();
  if (rank < 2 || (b_dims.size() != rank && b_dims.size() != 2)) {
    return invalid_argument(
        "expected operands of equal rank of at least 2, or a matrix as the second");
  }
  while (b_dims.size() < rank) b_dims.insert(b_dims.begin(), Dim(1));
  if (trans_a) std::swap(a_dims[rank - 1], a_dims[rank - 2]);
  if (trans_b) std::swap(b_dims[rank - 1], b_dims[rank - 2]);
  const Dim& inner_a = a_dims[rank - 1];
  const Dim& inner_b = b_dims[rank - 2];
  if (inner_a.known() && inner_b.known() && inner_a.value != inner_b.value) {
    return invalid_argument("expected equal inner dimensions, got " +
                            std::to_string(inner_a.value) + " and " +
                            std::to_string(inner_b.value));
  }
  std::vector<Dim> dims(rank);
  for (std::size_t i = 0; i + 2 < rank; ++i) {
    if (!broadcast_dim(a_dims[i], b_dims[i], dims[i])) {
      return invalid_argument("batch dimension " + std::to_string(i) + " does not broadcast");
    }
  }
  dims[rank - 2] = a_dims[rank - 2];
  dims[rank - 1] = b_dims[rank - 1];
  return set_result(node, 0, TensorType(a->dtype, std::move(dims)));
}

Status infer_conv_grad_bias(Node& node) {
  const TensorType* dy = tensor_operand(node, 0);
  if (dy == nullptr || !dy->shape) return infer_dtype_of_operand0(node);
  if (dy->shape->size() < 2) return invalid_argument("operand 0: expected rank 2 or more");
  return set_result(node, 0, TensorType(dy->dtype, {(*dy->shape)[1]}));
}

Status infer_norm_grad(Node& node) {
  MEZZO_RETURN_IF_ERROR(result_like_operand(node, 0, 1));
  MEZZO_RETURN_IF_ERROR(result_like_operand(node, 1, 2));
  return result_like_operand(node, 2, 2);
}

Status infer_layer_norm(Node& node) {
  MEZZO_RETURN_IF_ERROR(result_like_operand(node, 0, 0));
  const TensorType* x = tensor_operand(node, 0);
  if (x == nullptr || !x->shape) return ok_status();
  const auto rank = static_cast<std::int64_t>(x->shape->size());
  MEZZO_ASSIGN_OR_RETURN(const std::int64_t axis,
                         normalize_axis(node, node.int_attribute("axis", -1), rank));
  std::vector<Dim> dims = *x->shape;
  for (std::int64_t i = axis; i < rank; ++i) dims[i] = Dim(1);
  const TensorType statistics(DType::kFloat32, std::move(dims));
  MEZZO_RETURN_IF_ERROR(set_result(node, 1, statistics));
  return set_result(node, 2, statistics);
}

Status infer_batch_norm_train(Node& node) {
  MEZZO_RETURN_IF_ERROR(result_like_operand(node, 0, 0));
  for (std::size_t i = 1; i < 5; ++i) {
    MEZZO_RETURN_IF_ERROR(result_like_operand(node, i, i % 2 == 1 ? 3 : 4));
  }
  return ok_status();
}

// scores, labels, weights? -> loss, log_prob?, log_sum_exp
Status infer_cross_entropy_train(Node& node) {
  const TensorType* scores = tensor_operand(node, 0);
  const TensorType* labels = tensor_operand(node, 1);
  if (scores == nullptr || labels == nullptr) return ok_status();
  TensorType each = *labels;
  each.dtype = scores->dtype;
  const bool sums = node.string_attribute("reduction", "mean") != "none";
  MEZZO_RETURN_IF_ERROR(
      set_result(node, 0, sums ? TensorType(scores->dtype, std::vector<Dim>()) : each));
  MEZZO_RETURN_IF_ERROR(set_result(node, 1, *scores));
  return set_result(node, 2, each);
}

Status lower_cross_entropy_train(const Node&, LoweredOp& lowered) {
  lowered.kernel = "SoftmaxCrossEntropyLoss";
  return ok_status();
}

Status infer_dropout(Node& node) {
  MEZZO_RETURN_IF_ERROR(result_like_operand(node, 0, 0));
  const TensorType* x = tensor_operand(node, 0);
  if (x == nullptr) return ok_status();
  TensorType mask = *x;
  mask.dtype = DType::kBool;
  return set_result(node, 1, mask);
}

Status lower_batch_norm_train(const Node&, LoweredOp& lowered) {
  lowered.kernel = "BatchNormalization";
  set_attribute(lowered, "training_mode", std::int64_t{1});
  return ok_status();
}

Status lower_conv_grad_input(const Node& node, LoweredOp& lowered) {
  MEZZO_ASSIGN_OR_RETURN(const Window window, window_of(node, *node.result(0), node.operand(1)));
  for (auto& [name, value] : window_attributes(window))
    set_attribute(lowered, name, std::move(value));
  return ok_status();
}

Status lower_conv_grad_weight(const Node& node, LoweredOp& lowered) {
  MEZZO_RETURN_IF_ERROR(require_operand(node, 1));
  MEZZO_ASSIGN_OR_RETURN(const Window window, window_of(node, *node.operand(1), node.result(0)));
  for (auto& [name, value] : window_attributes(window))
    set_attribute(lowered, name, std::move(value));
  return ok_status();
}

}  // namespace mezzo
