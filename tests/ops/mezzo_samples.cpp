#include "tests/ops/samples.h"

namespace mezzo::test {
namespace {

using Ints = std::vector<std::int64_t>;

OpSample mezzo(OpSample sample) {
  sample.domain = "ai.mezzo";
  return sample;
}

void add_elementwise_gradients(std::vector<OpSample>& samples) {
  for (const char* op :
       {"ReluGrad", "SigmoidGrad", "TanhGrad", "ErfGrad", "GeluGrad", "SwishGrad",
        "HardSigmoidGrad", "HardSwishGrad", "LeakyReluGrad", "EluGrad", "SoftplusGrad", "AbsGrad",
        "ExpGrad", "SinGrad", "CosGrad", "ClipGrad", "SoftmaxGrad", "LogSoftmaxGrad"}) {
    samples.push_back(mezzo({.op = op, .operands = {f({2, 3}), f({2, 3})}}));
  }
  for (const char* op : {"LogGrad", "SqrtGrad", "ReciprocalGrad"}) {
    samples.push_back(mezzo({.op = op, .operands = {f({2, 3}), f({2, 3}, 0.5, 2.0)}}));
  }
  samples.push_back(mezzo({.op = "PowGrad", .operands = {f({2, 3}), f({2, 3}, 0.5, 2.0), f({})}}));
}

void add_layer_gradients(std::vector<OpSample>& samples) {
  samples.push_back(mezzo(
      {.op = "SoftmaxCrossEntropyLossTrain", .operands = {f({2, 3}), integers({2}, {0, 2})}}));
  samples.push_back(
      mezzo({.op = "SoftmaxCrossEntropyLossTrain",
             .operands = {f({2, 3, 2}), integers({2, 2}, {0, 2, 1, 1}), f({3}, 0.5, 2.0)},
             .attributes = {{"reduction", std::string("sum")}}}));
  samples.push_back(mezzo({.op = "SoftmaxCrossEntropyLossTrain",
                           .operands = {f({3, 4}), integers({3}, {3, 0, 1})},
                           .attributes = {{"reduction", std::string("none")}}}));
  samples.push_back(mezzo({.op = "SoftmaxCrossEntropyLossGrad",
                           .operands = {f({}), f({2, 3}, -3.0, -0.1), integers({2}, {0, 2})}}));
  samples.push_back(
      mezzo({.op = "LayerNormalizationGrad",
             .operands = {f({2, 3}), f({2, 3}), f({3}), f({2, 1}), f({2, 1}, 0.5, 2.0)},
             .results = 3}));
  samples.push_back(mezzo(
      {.op = "RMSNormalizationGrad", .operands = {f({2, 3}), f({2, 3}), f({3})}, .results = 2}));
  samples.push_back(mezzo({.op = "CumProdGrad",
                           .operands = {f({2, 3}), f({2, 3})},
                           .attributes = {{"axis", std::int64_t{1}}}}));
  samples.push_back(mezzo({.op = "DetGrad", .operands = {f({2}), f({2, 3, 3})}}));
  samples.push_back(
      mezzo({.op = "BatchNormalizationGrad",
             .operands = {f({2, 3, 2}), f({2, 3, 2}), f({3}), f({3}), f({3}, 0.5, 2.0)},
             .results = 3}));
  const std::vector<Builder::NamedValue> window = {{"pads", Ints{1, 1, 1, 1}}};
  samples.push_back(mezzo({.op = "ConvGradInput",
                           .operands = {f({1, 2, 4, 4}), f({2, 3, 3, 3})},
                           .attributes = window,
                           .result_dims = {1, 3, 4, 4}}));
  samples.push_back(mezzo({.op = "ConvGradWeight",
                           .operands = {f({1, 2, 4, 4}), f({1, 3, 4, 4})},
                           .attributes = window,
                           .result_dims = {2, 3, 3, 3}}));
  samples.push_back(mezzo({.op = "ConvGradBias", .operands = {f({1, 2, 4, 4})}}));
  samples.push_back(mezzo({.op = "MaxPoolGrad",
                           .operands = {f({1, 1, 1, 2}), integers({1, 1, 1, 2}, {1, 6})},
                           .result_dims = {1, 1, 2, 4}}));
  samples.push_back(mezzo({.op = "AveragePoolGrad",
                           .operands = {f({1, 1, 2, 2})},
                           .attributes = {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}},
                           .result_dims = {1, 1, 4, 4}}));
  samples.push_back(mezzo(
      {.op = "GlobalAveragePoolGrad", .operands = {f({1, 2, 1, 1})}, .result_dims = {1, 2, 3, 3}}));
  samples.push_back(mezzo({.op = "SliceGrad",
                           .operands = {f({2, 2})},
                           .attributes = {{"starts", Ints{1}},
                                          {"ends", Ints{3}},
                                          {"axes", Ints{0}},
                                          {"steps", Ints{1}}},
                           .result_dims = {4, 2}}));
  samples.push_back(mezzo(
      {.op = "GatherGrad", .operands = {f({2, 3}), integers({2}, {4, 4})}, .result_dims = {5, 3}}));
  samples.push_back(mezzo(
      {.op = "DropoutGrad", .operands = {f({4}), integers({4}, {1, 0, 1, 1}, DType::kBool)}}));
}

void add_epilogues(std::vector<OpSample>& samples) {
  for (const char* activation : {"none", "relu", "gelu_tanh"}) {
    samples.push_back(mezzo(
        {.op = "MatMulActivation",
         .operands = {f({2, 3, 4}), f({5, 4}), f({5})},
         .attributes = {{"trans_b", std::int64_t{1}}, {"activation", std::string(activation)}},
         .results = 2}));
  }
  samples.push_back(mezzo({.op = "MatMulActivation",
                           .operands = {f({3, 4}), f({4, 5})},
                           .attributes = {{"alpha", 0.5F}}}));
  for (const char* activation : {"relu", "gelu_tanh"}) {
    samples.push_back(mezzo(
        {.op = "MatMulActivationGrad",
         .operands = {f({4, 3}), f({4, 5}), f({3, 5})},
         .attributes = {{"trans_a", std::int64_t{1}}, {"activation", std::string(activation)}}}));
  }
  for (const char* of : {"a", "b"}) {
    for (const std::int64_t trans : {0, 1}) {
      samples.push_back(mezzo(
          {.op = "MatMulSums",
           .operands = {f(trans ? Ints{4, 3} : Ints{3, 4}), f(trans ? Ints{5, 4} : Ints{4, 5})},
           .attributes = {{"of", std::string(of)}, {"trans_a", trans}, {"trans_b", trans}},
           .results = 2}));
    }
  }
}

// 2 batches, 3 queries, 5 keys of 4 numbers, values of 3.
void add_attention(std::vector<OpSample>& samples) {
  const auto attend = [&](std::int64_t heads, std::int64_t groups, OperandSample bias,
                          std::vector<Builder::NamedValue> attributes) {
    samples.push_back(mezzo({.op = "ScaledDotProductAttention",
                             .operands = {f({2, heads, 3, 4}), f({2, groups, 5, 4}),
                                          f({2, groups, 5, 3}), std::move(bias)},
                             .attributes = std::move(attributes)}));
  };
  attend(2, 2, absent(), {});
  attend(4, 2, absent(), {{"causal", std::int64_t{1}}, {"scale", 0.7F}});
  attend(2, 1, f({2, 1, 1, 5}), {});
  attend(2, 2, f({3, 5}), {{"causal", std::int64_t{1}}});
  // Heads behind tokens.
  samples.push_back(mezzo({.op = "ScaledDotProductAttention",
                           .operands = {f({2, 3, 4, 2}), f({2, 5, 2, 2}), f({2, 2, 5, 3})},
                           .attributes = {{"tokens_first", std::int64_t{11}}}}));
  // More queries than keys: the first two see nothing.
  samples.push_back(mezzo({.op = "ScaledDotProductAttention",
                           .operands = {f({1, 2, 4, 2}), f({1, 2, 2, 2}), f({1, 2, 2, 2})},
                           .attributes = {{"causal", std::int64_t{1}}}}));
  samples.push_back(mezzo({.op = "ScaledDotProductAttentionGrad",
                           .operands = {f({1, 2, 3, 2}), f({1, 2, 3, 4}), f({1, 1, 5, 4}),
                                        f({1, 1, 5, 2}), absent(), f({1, 2, 3, 2}), f({1, 2, 3})},
                           .results = 3}));
}

}  // namespace

void add_mezzo_samples(std::vector<OpSample>& samples) {
  for (const std::int64_t trans_a : {0, 1}) {
    for (const std::int64_t trans_b : {0, 1}) {
      samples.push_back(
          mezzo({.op = "MatMulT",
                 .operands = {f(trans_a ? Ints{2, 4, 3} : Ints{2, 3, 4}),
                              f(trans_b ? Ints{1, 5, 4} : Ints{1, 4, 5})},
                 .attributes = {{"trans_a", trans_a}, {"trans_b", trans_b}, {"alpha", 0.5F}}}));
    }
  }
  add_epilogues(samples);
  add_attention(samples);
  samples.push_back(mezzo({.op = "AddN", .operands = {f({2, 3}), f({2, 3}), f({2, 3})}}));
  samples.push_back(mezzo({.op = "SumTo", .operands = {f({2, 3, 4})}, .result_dims = {3, 1}}));
  samples.push_back(mezzo({.op = "FillZero", .result_dims = {2, 3}}));
  samples.push_back(
      mezzo({.op = "FusedElementwise",
             .operands = {f({2, 3}), f({3})},
             .attributes = {{"program", std::string("t0 = Add(x0, x1); y = Relu(t0)")}},
             .result_dims = {2, 3}}));
  samples.push_back(mezzo({.op = "StopGradient", .operands = {f({2, 3})}}));
  samples.push_back(mezzo({.op = "Reorder", .operands = {f({2, 3, 2})}}));
  samples.push_back(mezzo(
      {.op = "Gelu", .operands = {f({5})}, .attributes = {{"approximate", std::string("tanh")}}}));
  samples.push_back(mezzo({.op = "Gelu", .operands = {f({2, 5})}}));
  samples.push_back(
      mezzo({.op = "Swish", .operands = {f({2, 5})}, .attributes = {{"alpha", 1.5F}}}));
  for (const std::int64_t seed : {3, 4}) {
    samples.push_back(mezzo({.op = "Dropout",
                             .operands = {f({4, 5}), integers({}, {7})},
                             .attributes = {{"ratio", 0.4F}, {"seed", seed}},
                             .results = seed == 3 ? 1U : 2U}));
  }
  add_elementwise_gradients(samples);
  add_layer_gradients(samples);
  for (const char* op : {"Gelu", "FastGelu", "QuickGelu"}) {
    samples.push_back({.op = op, .operands = {f({2, 3})}, .domain = "com.microsoft"});
  }
  samples.push_back({.op = "FusedMatMul",
                     .operands = {f({2, 3}), f({4, 3})},
                     .attributes = {{"transB", std::int64_t{1}}, {"alpha", 2.0F}},
                     .domain = "com.microsoft"});
}

}  // namespace mezzo::test
