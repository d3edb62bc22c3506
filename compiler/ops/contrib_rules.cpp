#include "compiler/ops/contrib_rules.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ops/contrib_types.h"
#include "compiler/ops/merge_types.h"

namespace mezzo {
namespace {

using Dims = std::vector<Dim>;

// Null where the rank is not known.
const Dims* dims_of(const Value* value) {
  if (value == nullptr || !value->type.is_tensor() || !value->tensor_type().shape) return nullptr;
  return &*value->tensor_type().shape;
}

Status set_dims(Node& node, std::size_t result, Dims dims) {
  Value* value = node.result(result);
  if (value == nullptr || value->dtype() == DType::kNone) return ok_status();
  return merge_type(*value, Type(TensorType(value->dtype(), std::move(dims))));
}

Status set_dims_like(Node& node, std::size_t result, std::size_t operand) {
  const Dims* dims = dims_of(node.operand(operand));
  return dims == nullptr ? ok_status() : set_dims(node, result, *dims);
}

// a / b where that is a whole number.
Dim divided(const Dim& a, std::int64_t b) {
  return a.known() && b > 0 && a.value % b == 0 ? Dim(a.value / b) : Dim();
}

// [B, S, width], B and S those of the first operand.
Status set_sequence(Node& node, const Dim& width) {
  const Dims* query = dims_of(node.operand(0));
  if (query == nullptr || query->size() < 2) return ok_status();
  return set_dims(node, 0, {(*query)[0], (*query)[1], width});
}

}  // namespace

Status infer_contrib(Node& node) {
  const ContribSignature* signature = find_contrib_signature(node.op_type(), node.domain());
  if (signature == nullptr) return ok_status();
  for (std::size_t i = 0; i < node.results().size(); ++i) {
    const char letter = ContribSignature::at(signature->results, i);
    TensorType type;
    if (letter == 'f') type.dtype = DType::kFloat32;
    for (std::size_t k = 0; k < node.operand_count() && ContribSignature::is_variable(letter);
         ++k) {
      const Value* operand = node.operand(k);
      if (operand != nullptr && ContribSignature::at(signature->operands, k) == letter &&
          operand->dtype() != DType::kNone)
        type.dtype = operand->dtype();
    }
    if (type.dtype != DType::kNone && node.result(i) != nullptr)
      MEZZO_RETURN_IF_ERROR(merge_type(*node.result(i), Type(type)));
  }
  return ok_status();
}

Status infer_contrib_like_first(Node& node) {
  MEZZO_RETURN_IF_ERROR(infer_contrib(node));
  return set_dims_like(node, 0, 0);
}

// With equal ranks and without transBatch it is our MatMulT.
Status infer_fused_matmul(Node& node) {
  const Dims *a = dims_of(node.operand(0)), *b = dims_of(node.operand(1));
  const bool batch =
      node.int_attribute("transBatchA", 0) != 0 || node.int_attribute("transBatchB", 0) != 0;
  if (batch || a == nullptr || b == nullptr || a->size() < 2 || a->size() != b->size())
    return infer_contrib(node);
  return infer_product(node, node.int_attribute("transA", 0) != 0,
                       node.int_attribute("transB", 0) != 0);
}

Status infer_fused_gemm(Node& node) {
  MEZZO_RETURN_IF_ERROR(infer_contrib(node));
  const Dims *a = dims_of(node.operand(0)), *b = dims_of(node.operand(1));
  if (a == nullptr || b == nullptr || a->size() != 2 || b->size() != 2) return ok_status();
  return set_dims(node, 0,
                  {(*a)[node.int_attribute("transA", 0) != 0 ? 1 : 0],
                   (*b)[node.int_attribute("transB", 0) != 0 ? 0 : 1]});
}

Status infer_skip_norm(Node& node) {
  MEZZO_RETURN_IF_ERROR(infer_contrib(node));
  MEZZO_RETURN_IF_ERROR(set_dims_like(node, 0, 0));
  return set_dims_like(node, 3, 0);
}

Status infer_skip_group_norm(Node& node) {
  MEZZO_RETURN_IF_ERROR(infer_contrib(node));
  MEZZO_RETURN_IF_ERROR(set_dims_like(node, 0, 0));
  return set_dims_like(node, 1, 0);
}

Status infer_halved(Node& node) {
  MEZZO_RETURN_IF_ERROR(infer_contrib(node));
  const Dims* x = dims_of(node.operand(0));
  if (x == nullptr || x->empty()) return ok_status();
  Dims dims = *x;
  dims.back() = divided(dims.back(), 2);
  return set_dims(node, 0, std::move(dims));
}

Status infer_matmul_n_bits(Node& node) {
  MEZZO_RETURN_IF_ERROR(infer_contrib(node));
  const Dims* a = dims_of(node.operand(0));
  const std::int64_t width = node.int_attribute("N", -1);
  if (a == nullptr || a->empty() || width < 0) return ok_status();
  Dims dims = *a;
  dims.back() = Dim(width);
  return set_dims(node, 0, std::move(dims));
}

// The weights hold queries, keys and values side by side.
Status infer_contrib_attention(Node& node) {
  MEZZO_RETURN_IF_ERROR(infer_contrib(node));
  const std::vector<std::int64_t> sizes = node.ints_attribute("qkv_hidden_sizes");
  if (sizes.size() == 3) return set_sequence(node, sizes[2] >= 0 ? Dim(sizes[2]) : Dim());
  const Dims* weights = dims_of(node.operand(1));
  return weights == nullptr || weights->size() != 2 ? ok_status()
                                                    : set_sequence(node, divided((*weights)[1], 3));
}

// Query [B, S, D] with value [B, L, Dv] or [B, heads, L, Dh], or all packed: [B, S, heads, 3, Dh].
Status infer_multi_head_attention(Node& node) {
  MEZZO_RETURN_IF_ERROR(infer_contrib(node));
  const Dims *query = dims_of(node.operand(0)), *value = dims_of(node.operand(2));
  const std::int64_t heads = node.int_attribute("num_heads", 0);
  if (query == nullptr || heads <= 0) return ok_status();
  const auto all_heads = [&](const Dim& width) {
    return width.known() && width.value <= (std::int64_t{1} << 31) / heads
               ? Dim(width.value * heads)
               : Dim();
  };
  if (query->size() == 5) return set_sequence(node, all_heads(query->back()));
  if (query->size() != 3) return ok_status();
  if (value == nullptr) {
    const Dims* key = dims_of(node.operand(1));  // keys and values packed, as wide as the queries
    return key != nullptr && key->size() == 5 ? set_sequence(node, query->back())
                                              : set_sequence(node, Dim());
  }
  return set_sequence(node, value->size() == 3 ? value->back() : all_heads(value->back()));
}

Status infer_grouped_attention(Node& node) {
  MEZZO_RETURN_IF_ERROR(infer_contrib(node));
  const Dims* query = dims_of(node.operand(0));
  if (query == nullptr || query->size() != 3) return ok_status();
  if (node.operand(1) != nullptr) return set_dims_like(node, 0, 0);
  const std::int64_t heads = node.int_attribute("num_heads", 0);
  const std::int64_t kv_heads = node.int_attribute("kv_num_heads", 0);
  if (heads <= 0 || kv_heads <= 0 || heads > 65536 || kv_heads > 65536) return ok_status();
  const Dim head = divided(query->back(), heads + 2 * kv_heads);
  return set_sequence(node, head.known() ? Dim(head.value * heads) : Dim());
}

Status infer_embed_layer_norm(Node& node) {
  MEZZO_RETURN_IF_ERROR(infer_contrib(node));
  const Dims *ids = dims_of(node.operand(0)), *table = dims_of(node.operand(2));
  if (ids == nullptr || table == nullptr || ids->size() != 2 || table->size() != 2)
    return ok_status();
  const Dims dims{(*ids)[0], (*ids)[1], (*table)[1]};
  MEZZO_RETURN_IF_ERROR(set_dims(node, 0, dims));
  return set_dims(node, 2, dims);
}

}  // namespace mezzo
