// Attention, MultiHeadAttention and RotaryEmbedding of com.microsoft.
//
// Letters: B batch, S queries, T keys (those of the past included), N heads, H size of a head.
// Masked scores get `mask_filter_value` added, as there, and those of the future the lowest number.
#include <cmath>

#include "compiler/ops/constants.h"
#include "compiler/ops/decompose_contrib.h"

namespace mezzo {
namespace {

using Ints = std::vector<std::int64_t>;
using OptionalDims = std::optional<Ints>;

// Positions are written down one by one.
constexpr std::int64_t kMostPositions = std::int64_t{1} << 22;

// The heads of one layer, each [B, N, S or T, H].
struct Heads {
  Value* q = nullptr;
  Value* k = nullptr;
  Value* v = nullptr;
};

// x[B, S, N H] as [B, N, S, H].
Value* split_heads(const Sketch& s, Value* x, std::int64_t heads) {
  return s.transpose(s.reshape(x, {0, 0, heads, -1}), {0, 2, 1, 3});
}

// 0 where the mask is true, else the filter value.
Value* penalty(const Sketch& s, Value* mask) {
  const double filter = s.node().float_attribute("mask_filter_value", -10000.0F);
  return s.op("Where", {s.cast(mask, DType::kBool), s.number(s.dtype(), 0.0),
                        s.number(s.dtype(), std::max(filter, -float_facts(s.dtype()).max))});
}

// For positions 0 .. keys - 1: is it below `ends` [B, 1]?
Value* below(const Sketch& s, Value* ends, std::int64_t keys) {
  Ints positions(static_cast<std::size_t>(keys));
  for (std::int64_t i = 0; i < keys; ++i) positions[static_cast<std::size_t>(i)] = i;
  return s.op("Less", {s.builder().ints(positions), s.cast(ends, DType::kInt64)});
}

// The masks of the two operators as what is added to the scores; null where the form is unknown.
// mask: lengths [B], ends and starts [2 B], keys [B, T] or [B, S, T].
Value* mask_penalty(const Sketch& s, Value* mask, std::int64_t batch, std::int64_t keys) {
  const auto dims = static_dims(mask);
  if (!dims || keys > kMostPositions) return nullptr;
  if (dims->size() == 2) return s.unsqueeze(penalty(s, mask), {1, 2});
  if (dims->size() == 3) return s.unsqueeze(penalty(s, mask), {1});
  if (dims->size() != 1) return nullptr;
  Value* inside = nullptr;
  if ((*dims)[0] == batch) {
    inside = below(s, s.unsqueeze(mask, {1}), keys);
  } else if ((*dims)[0] == 2 * batch) {
    Value* ends = s.unsqueeze(s.slice(mask, 0, 0, batch), {1});
    Value* starts = s.unsqueeze(s.slice(mask, 0, batch, 2 * batch), {1});
    inside = s.op("And", {below(s, ends, keys), s.op("Not", {below(s, starts, keys)})});
  } else {
    return nullptr;
  }
  return s.unsqueeze(penalty(s, inside), {1, 2});
}

// [B, S, N H]: softmax(q k^T scale + what is added) v.
Value* attend(const Sketch& s, const Heads& heads, const std::vector<Value*>& added, double scale,
              bool causal, std::int64_t queries, std::int64_t keys) {
  Value* scores =
      s.builder().mezzo_op("MatMulT", {heads.q, heads.k},
                           {{"trans_b", std::int64_t{1}}, {"alpha", static_cast<float>(scale)}});
  for (Value* part : added) scores = s.add(scores, part);
  if (causal) {
    Value* all = s.op("Expand", {s.number(DType::kInt32, 1.0), s.builder().ints({queries, keys})});
    Value* past = s.builder().scalar(DType::kInt64, static_cast<double>(keys - queries));
    Value* seen = s.op("Trilu", {all, past}, {{"upper", std::int64_t{0}}});
    scores = s.op("Where", {s.cast(seen, DType::kBool), scores,
                            s.number(s.dtype(), -float_facts(s.dtype()).max)});
  }
  Value* weights = s.op("Softmax", {scores}, {{"axis", std::int64_t{-1}}});
  Value* y = s.op("MatMul", {weights, heads.v});
  return s.reshape(s.transpose(y, {0, 2, 1, 3}), {0, 0, -1});
}

double scale_of(const Node& node, std::int64_t head_size) {
  const double given = node.float_attribute("scale", 0.0F);
  return given != 0.0 ? given : 1.0 / std::sqrt(static_cast<double>(head_size));
}

}  // namespace

// input[B, S, D] weights[D, Dq + Dk + Dv] + bias are q, k and v of all heads. past[2, B, N, P, H].
StatusOr<Results> decompose_contrib_attention(Builder& builder, const Node& node) {
  const Sketch s(builder, node);
  const auto x = static_dims(node.operand(0));
  const auto w = static_dims(node.operand(1));
  const std::int64_t heads = node.int_attribute("num_heads", 0);
  if (!x || !w || x->size() != 3 || w->size() != 2 || heads < 1) return Results{};
  if (node.int_attribute("do_rotary", 0) != 0 || node.operand(6) != nullptr) return Results{};
  Ints sizes = node.ints_attribute("qkv_hidden_sizes");
  if (sizes.size() != 3) sizes = {(*w)[1] / 3, (*w)[1] / 3, (*w)[1] / 3};
  for (const std::int64_t size : sizes) {
    if (size < 1 || size > (*w)[1]) return Results{};
  }
  if (sizes[0] % heads != 0 || sizes[0] + sizes[1] + sizes[2] != (*w)[1]) return Results{};
  Value* all = s.add(s.op("MatMul", {node.operand(0), node.operand(1)}), node.operand(2));
  const std::int64_t k_end = sizes[0] + sizes[1];
  Heads split = {split_heads(s, s.slice(all, 2, 0, sizes[0]), heads),
                 split_heads(s, s.slice(all, 2, sizes[0], k_end), heads),
                 split_heads(s, s.slice(all, 2, k_end, k_end + sizes[2]), heads)};
  std::int64_t keys = (*x)[1];
  Results results = {nullptr};
  if (Value* past = node.operand(4)) {
    const auto dims = static_dims(past);
    if (!dims || dims->size() != 5) return Results{};
    keys += (*dims)[3];
    split.k = s.concat({s.squeeze(s.slice(past, 0, 0, 1), {0}), split.k}, 2);
    split.v = s.concat({s.squeeze(s.slice(past, 0, 1, 2), {0}), split.v}, 2);
  }
  if (node.result(1) != nullptr) {
    results.push_back(s.concat({s.unsqueeze(split.k, {0}), s.unsqueeze(split.v, {0})}, 0));
  }
  std::vector<Value*> added;
  if (node.operand(5) != nullptr) added.push_back(node.operand(5));
  if (Value* mask = node.operand(3)) {
    added.push_back(mask_penalty(s, mask, (*x)[0], keys));
    if (added.back() == nullptr) return Results{};
  }
  results[0] = attend(s, split, added, scale_of(node, sizes[0] / heads),
                      node.int_attribute("unidirectional", 0) != 0, (*x)[1], keys);
  return results;
}

// query [B, S, D], key and value [B, L, D] or both packed in key [B, L, N, 2, H], or all in query
// [B, S, N, 3, H]; key and value [B, N, L, H] are another layer's.
StatusOr<Results> decompose_multi_head_attention(Builder& builder, const Node& node) {
  const Sketch s(builder, node);
  const auto query = static_dims(node.operand(0));
  const OptionalDims key = node.operand(1) ? static_dims(node.operand(1)) : OptionalDims();
  const std::int64_t heads = node.int_attribute("num_heads", 0);
  if (!query || heads < 1 || (node.operand(1) != nullptr && !key)) return Results{};
  if (node.operand(8) != nullptr || node.operand(9) != nullptr) return Results{};
  Value* bias = node.operand(3);
  const auto bias_part = [&](Value* x, std::int64_t begin, std::int64_t end) {
    return bias == nullptr ? x : s.add(x, s.slice(bias, 0, begin, end));
  };
  const auto packed = [&](Value* x, std::int64_t i) {  // [B, L, N, parts, H] -> [B, N, L, H]
    return s.transpose(s.squeeze(s.slice(x, 3, i, i + 1), {3}), {0, 2, 1, 3});
  };
  Heads split;
  std::int64_t head_size = 0;
  std::int64_t keys = (*query)[1];
  if (query->size() == 5) {
    if (bias != nullptr) return Results{};
    split = {packed(node.operand(0), 0), packed(node.operand(0), 1), packed(node.operand(0), 2)};
    head_size = (*query)[4];
  } else if (query->size() == 3 && key && (*query)[2] % heads == 0) {
    const std::int64_t width = (*query)[2];
    head_size = width / heads;
    split.q = split_heads(s, bias_part(node.operand(0), 0, width), heads);
    keys = (*key)[key->size() == 4 ? 2 : 1];
    if (key->size() == 5) {
      if (bias != nullptr) return Results{};
      split.k = packed(node.operand(1), 0);
      split.v = packed(node.operand(1), 1);
    } else if (key->size() == 4) {
      split.k = node.operand(1);
      split.v = node.operand(2);
    } else if (const auto value = static_dims(node.operand(2)); value && value->size() == 3) {
      split.k = split_heads(s, bias_part(node.operand(1), width, 2 * width), heads);
      split.v =
          split_heads(s, bias_part(node.operand(2), 2 * width, 2 * width + (*value)[2]), heads);
    }
  }
  if (split.v == nullptr) return Results{};
  if (node.operand(6) != nullptr && node.operand(7) != nullptr) {
    const auto past = static_dims(node.operand(6));
    if (!past || past->size() != 4) return Results{};
    keys += (*past)[2];
    split.k = s.concat({node.operand(6), split.k}, 2);
    split.v = s.concat({node.operand(7), split.v}, 2);
  }
  std::vector<Value*> added;
  if (node.operand(5) != nullptr) added.push_back(node.operand(5));
  if (Value* mask = node.operand(4)) {
    added.push_back(mask_penalty(s, mask, (*query)[0], keys));
    if (added.back() == nullptr) return Results{};
  }
  Value* y = attend(s, split, added, scale_of(node, head_size),
                    node.int_attribute("unidirectional", 0) != 0, (*query)[1], keys);
  return Results{y, split.k, split.v};
}

// ONNX's, with position_ids [B, S] or the offset of the first [1].
StatusOr<Results> decompose_contrib_rotary(Builder& builder, const Node& node) {
  const Sketch s(builder, node);
  const auto x = static_dims(node.operand(0));
  const auto ids = static_dims(node.operand(1));
  const auto cache = static_dims(node.operand(2));
  if (!x || !ids || !cache || cache->size() != 2 || x->size() < 3) return Results{};
  if (node.float_attribute("scale", 1.0F) != 1.0F || (*cache)[1] < 1) return Results{};
  std::int64_t heads = node.int_attribute("num_heads", 0);
  const std::int64_t steps = (*x)[x->size() == 4 ? 2 : 1];
  Value* positions = node.operand(1);
  if (steps > kMostPositions) return Results{};
  if (ids->size() == 1) {
    Ints range(static_cast<std::size_t>(steps));
    for (std::int64_t i = 0; i < steps; ++i) range[static_cast<std::size_t>(i)] = i;
    positions = s.op("Expand", {s.unsqueeze(s.add(builder.ints(range), positions), {0}),
                                builder.ints({(*x)[0], steps})});
  }
  const std::int64_t rotated = node.int_attribute("rotary_embedding_dim", 0);
  if (x->size() == 3 && heads == 0) heads = (*x)[2] / (2 * (*cache)[1]);
  std::vector<Builder::NamedValue> attributes = {
      {"interleaved", node.int_attribute("interleaved", 0)}, {"rotary_embedding_dim", rotated}};
  if (x->size() == 3) attributes.emplace_back("num_heads", heads);
  return Results{s.op("RotaryEmbedding",
                      {node.operand(0), node.operand(2), node.operand(3), positions}, attributes)};
}

}  // namespace mezzo
