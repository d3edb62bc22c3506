// Attention and its kin: operators that are spelled out before they run or are differentiated.
#include "tests/ops/samples.h"

namespace mezzo::test {
namespace {

using Attributes = std::vector<Builder::NamedValue>;

Builder::NamedValue number(std::string_view name, std::int64_t value) { return {name, value}; }

// Letters: B 2 batches, Hq and Hk heads, S 3 queries, L 4 keys, E 4 and V 3 numbers of a head.
void add_attention(std::vector<OpSample>& samples) {
  const auto attend = [&](std::vector<OperandSample> operands, Attributes attributes,
                          std::size_t results = 1) {
    samples.push_back({.op = "Attention",
                       .operands = std::move(operands),
                       .attributes = std::move(attributes),
                       .results = results});
  };
  const OperandSample q = f({2, 2, 3, 4}), k = f({2, 2, 4, 4}), v = f({2, 2, 4, 3});
  const OperandSample visible =
      integers({3, 4}, {1, 1, 0, 1, 0, 1, 1, 0, 1, 1, 1, 1}, DType::kBool);
  attend({q, k, v}, {});
  attend({q, k, v}, {number("is_causal", 1), {"scale", 0.8F}});
  attend({q, k, v, f({3, 4})}, {{"softcap", 1.5F}});
  attend({q, k, v, f({2, 1, 3, 4})}, {});
  attend({q, k, v, visible}, {});
  attend({q, k, v, visible}, {number("is_causal", 1), {"softcap", 2.0F}});
  // Grouped queries: two heads of queries share one of keys and values.
  attend({f({1, 4, 3, 4}), f({1, 2, 4, 4}), f({1, 2, 4, 3})}, {});
  attend({f({2, 3, 8}), f({2, 4, 4}), f({2, 4, 4})},
         {number("q_num_heads", 4), number("kv_num_heads", 2), number("is_causal", 1)});
  attend({f({2, 3, 8}), f({2, 4, 8}), f({2, 4, 6})},
         {number("q_num_heads", 2), number("kv_num_heads", 2)});
  for (const std::int64_t mode : {0, 1, 2, 3}) {
    attend({q, k, v, f({3, 4}), absent(), absent()},
           {number("qk_matmul_output_mode", mode), {"softcap", 1.5F}}, 4);
  }
  attend({q, f({2, 2, 3, 4}), f({2, 2, 3, 3}), absent(), f({2, 2, 2, 4}), f({2, 2, 2, 3})},
         {number("is_causal", 1)}, 3);
  attend({q, k, v, absent(), absent(), absent(), integers({2}, {2, 4})}, {});
}

void add_rotation(std::vector<OpSample>& samples) {
  const auto rotate = [&](OperandSample x, std::vector<std::int64_t> cache, OperandSample positions,
                          Attributes attributes) {
    samples.push_back({.op = "RotaryEmbedding",
                       .operands = {std::move(x), f(cache), f(cache), std::move(positions)},
                       .attributes = std::move(attributes)});
  };
  const OperandSample positions = integers({2, 3}, {0, 2, 4, 1, 3, 0});
  rotate(f({2, 2, 3, 4}), {5, 2}, positions, {});
  rotate(f({2, 2, 3, 4}), {2, 3, 2}, absent(), {number("interleaved", 1)});
  rotate(f({2, 3, 8}), {5, 2}, positions, {number("num_heads", 2), number("interleaved", 1)});
  rotate(f({2, 3, 12}), {5, 2}, positions,
         {number("num_heads", 2), number("rotary_embedding_dim", 4)});
  rotate(f({2, 2, 3, 6}), {2, 3, 1}, absent(),
         {number("rotary_embedding_dim", 2), number("interleaved", 1)});
}

void add_causal_convolutions(std::vector<OpSample>& samples) {
  samples.push_back({.op = "CausalConvWithState",
                     .operands = {f({2, 3, 5}), f({3, 1, 3}), f({3}), f({2, 3, 2})},
                     .results = 2});
  samples.push_back({.op = "CausalConvWithState",
                     .operands = {f({1, 2, 6}), f({2, 1, 4})},
                     .attributes = {{"activation", std::string("silu")}},
                     .results = 2});
}

void add_crops(std::vector<OpSample>& samples) {
  samples.push_back({.op = "CenterCropPad", .operands = {f({5, 4}), ints({3, 7})}});
  samples.push_back({.op = "CenterCropPad",
                     .operands = {f({2, 4, 3}), ints({5, 2})},
                     .attributes = {{"axes", std::vector<std::int64_t>{1, 2}}}});
  samples.push_back({.op = "CenterCropPad",
                     .operands = {f({2, 6, 3}), ints({3})},
                     .attributes = {{"axes", std::vector<std::int64_t>{-2}}}});
}

}  // namespace

void add_attention_samples(std::vector<OpSample>& samples) {
  add_attention(samples);
  add_rotation(samples);
  add_causal_convolutions(samples);
  add_crops(samples);
}

}  // namespace mezzo::test
