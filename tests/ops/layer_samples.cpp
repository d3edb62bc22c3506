#include "tests/ops/samples.h"

namespace mezzo::test {
namespace {

using Ints = std::vector<std::int64_t>;

void add_products(std::vector<OpSample>& samples) {
  const std::vector<std::pair<Ints, Ints>> shapes = {{{2, 3}, {3, 4}},
                                                     {{2, 2, 3}, {3, 4}},
                                                     {{2, 1, 2, 3}, {3, 2}},
                                                     {{2, 2, 3}, {2, 3, 2}},
                                                     {{2, 1, 2, 3}, {3, 3, 2}},
                                                     {{2, 3}, {2, 3, 2}},
                                                     {{3}, {3}},
                                                     {{3}, {3, 2}},
                                                     {{2, 3}, {3}},
                                                     {{3}, {2, 3, 2}},
                                                     {{2, 2, 3}, {3}},
                                                     {{1, 2, 3}, {4, 3, 1}}};
  for (const auto& [a, b] : shapes) samples.push_back({.op = "MatMul", .operands = {f(a), f(b)}});

  for (const std::int64_t trans_a : {0, 1}) {
    for (const std::int64_t trans_b : {0, 1}) {
      const Ints a = trans_a ? Ints{3, 2} : Ints{2, 3};
      const Ints b = trans_b ? Ints{4, 3} : Ints{3, 4};
      const std::vector<Builder::NamedValue> attributes = {
          {"transA", trans_a}, {"transB", trans_b}, {"alpha", 0.5F}, {"beta", 1.5F}};
      samples.push_back({.op = "Gemm", .operands = {f(a), f(b), f({4})}, .attributes = attributes});
      samples.push_back(
          {.op = "Gemm", .operands = {f(a), f(b), f({2, 1})}, .attributes = attributes});
    }
  }
  samples.push_back({.op = "Gemm", .operands = {f({2, 3}), f({3, 4})}});
  samples.push_back({.op = "Gemm", .operands = {f({2, 3}), f({3, 4}), f({})}});
}

void add_convolutions(std::vector<OpSample>& samples) {
  samples.push_back({.op = "Conv", .operands = {f({2, 3, 5, 4}), f({4, 3, 3, 3}), f({4})}});
  samples.push_back(
      {.op = "Conv",
       .operands = {f({1, 4, 6, 5}), f({4, 2, 3, 2}), f({4})},
       .attributes = {
           {"group", std::int64_t{2}}, {"pads", Ints{1, 0, 2, 1}}, {"strides", Ints{2, 1}}}});
  samples.push_back({.op = "Conv",
                     .operands = {f({1, 2, 7}), f({3, 2, 3})},
                     .attributes = {{"dilations", Ints{2}}, {"pads", Ints{1, 1}}}});
  samples.push_back(
      {.op = "Conv",
       .operands = {f({1, 2, 5, 5}), f({2, 2, 3, 3})},
       .attributes = {{"auto_pad", std::string("SAME_UPPER")}, {"strides", Ints{2, 2}}}});
  samples.push_back({.op = "Conv",
                     .operands = {f({1, 2, 4, 4}), f({2, 2, 2, 2})},
                     .attributes = {{"auto_pad", std::string("SAME_LOWER")}}});
  samples.push_back({.op = "Conv", .operands = {f({1, 1, 3, 3, 3}), f({2, 1, 2, 2, 2}), f({2})}});
  samples.push_back(
      {.op = "ConvTranspose", .operands = {f({2, 3, 3, 3}), f({3, 2, 2, 2}), f({2})}});
  samples.push_back({.op = "ConvTranspose",
                     .operands = {f({1, 4, 3, 2}), f({4, 1, 3, 3}), f({2})},
                     .attributes = {{"group", std::int64_t{2}},
                                    {"pads", Ints{1, 1, 1, 0}},
                                    {"strides", Ints{2, 2}},
                                    {"output_padding", Ints{1, 0}}}});
  samples.push_back(
      {.op = "ConvTranspose",
       .operands = {f({1, 2, 4}), f({2, 2, 3})},
       .attributes = {{"auto_pad", std::string("SAME_UPPER")}, {"strides", Ints{2}}}});
}

void add_norms(std::vector<OpSample>& samples) {
  const OperandSample variance = f({3}, 0.5, 2.0);
  for (const Ints& x : {Ints{4, 3, 2, 2}, Ints{5, 3}, Ints{3, 3, 4}}) {
    for (const std::int64_t training : {0, 1}) {
      samples.push_back({.op = "BatchNormalization",
                         .operands = {f(x), f({3}, 0.5, 1.5), f({3}), f({3}), variance},
                         .attributes = {{"training_mode", training}, {"epsilon", 1e-3F}},
                         .results = training ? 3U : 1U});
    }
    samples.push_back({.op = "BatchNormalizationTrain",
                       .operands = {f(x), f({3}, 0.5, 1.5), f({3}), f({3}), variance},
                       .attributes = {{"momentum", 0.8F}},
                       .results = 5,
                       .domain = "ai.mezzo"});
  }
  for (const char* domain : {"", "ai.mezzo"}) {
    samples.push_back({.op = "LayerNormalization",
                       .operands = {f({2, 3, 4}), f({4}), f({4})},
                       .attributes = {{"epsilon", 1e-3F}},
                       .domain = domain});
    samples.push_back({.op = "LayerNormalization",
                       .operands = {f({3, 2, 3}), f({2, 3})},
                       .attributes = {{"axis", std::int64_t{1}}},
                       .domain = domain});
    samples.push_back({.op = "LayerNormalization",
                       .operands = {f({2, 5}), f({5}), f({5})},
                       .attributes = {{"axis", std::int64_t{-1}}},
                       .results = 3,
                       .domain = domain});
  }
}

void add_softmax_and_loss(std::vector<OpSample>& samples) {
  for (const char* op : {"Softmax", "LogSoftmax", "Hardmax"}) {
    samples.push_back({.op = op, .operands = {f({2, 4})}});
    samples.push_back(
        {.op = op, .operands = {f({2, 3, 2})}, .attributes = {{"axis", std::int64_t{1}}}});
    samples.push_back({.op = op, .operands = {f({3})}, .attributes = {{"axis", std::int64_t{0}}}});
  }
  for (const char* reduction : {"mean", "sum", "none"}) {
    const Builder::NamedValue mode = {"reduction", std::string(reduction)};
    samples.push_back({.op = "SoftmaxCrossEntropyLoss",
                       .operands = {f({3, 4}), integers({3}, {2, 0, 3})},
                       .attributes = {mode}});
    samples.push_back({.op = "SoftmaxCrossEntropyLoss",
                       .operands = {f({2, 3, 2}), integers({2, 2}, {0, -1, 2, 1}),
                                    constant({3}, {0.5, 2.0, 1.25})},
                       .attributes = {mode, {"ignore_index", std::int64_t{-1}}},
                       .results = 2});
  }
}

void add_norms_and_quantization(std::vector<OpSample>& samples) {
  samples.push_back({.op = "LpNormalization", .operands = {f({2, 4})}});
  samples.push_back({.op = "MeanVarianceNormalization", .operands = {f({2, 3, 2, 2})}});
  const OperandSample scale = f({}, 0.02, 0.03);
  const OperandSample zero = constant({}, {100}, DType::kUInt8);
  samples.push_back({.op = "QuantizeLinear", .operands = {f({2, 3}), scale, zero}});
  samples.push_back(
      {.op = "DequantizeLinear",
       .operands = {integers({2, 2}, {1, 100, 180, 255}, DType::kUInt8), scale, zero}});
  samples.push_back({.op = "DynamicQuantizeLinear", .operands = {f({2, 3})}, .results = 3});
}

void add_pools(std::vector<OpSample>& samples) {
  const std::vector<std::vector<Builder::NamedValue>> windows = {
      {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}},
      {{"kernel_shape", Ints{3, 2}}, {"strides", Ints{2, 1}}, {"pads", Ints{1, 0, 1, 1}}},
      {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"ceil_mode", std::int64_t{1}}},
      {{"kernel_shape", Ints{2, 2}}, {"dilations", Ints{2, 1}}},
      {{"kernel_shape", Ints{3, 3}},
       {"strides", Ints{2, 2}},
       {"auto_pad", std::string("SAME_UPPER")}}};
  for (const auto& window : windows) {
    samples.push_back({.op = "MaxPool", .operands = {f({2, 2, 6, 5})}, .attributes = window});
    samples.push_back({.op = "AveragePool", .operands = {f({1, 2, 6, 5})}, .attributes = window});
    auto with_pads = window;
    with_pads.emplace_back("count_include_pad", std::int64_t{1});
    samples.push_back(
        {.op = "AveragePool", .operands = {f({1, 2, 6, 5})}, .attributes = with_pads});
  }
  samples.push_back(
      {.op = "MaxPool", .operands = {f({1, 2, 7})}, .attributes = windows[0], .results = 1});
  samples.back().attributes = {{"kernel_shape", Ints{3}}};
  samples.push_back({.op = "MaxPool",
                     .operands = {f({1, 1, 4, 4})},
                     .attributes = {{"kernel_shape", Ints{2, 2}}},
                     .results = 2});
  for (const char* op : {"GlobalAveragePool", "GlobalMaxPool"}) {
    samples.push_back({.op = op, .operands = {f({2, 3, 4, 2})}});
    samples.push_back({.op = op, .operands = {f({2, 3, 5})}});
  }
}

void add_more_norms_and_pools(std::vector<OpSample>& samples) {
  samples.push_back({.op = "GroupNormalization",
                     .operands = {f({2, 4, 3}), f({4}), f({4})},
                     .attributes = {{"num_groups", std::int64_t{2}}}});
  samples.push_back({.op = "InstanceNormalization", .operands = {f({2, 3, 4, 2}), f({3}), f({3})}});
  samples.push_back({.op = "RMSNormalization", .operands = {f({2, 3, 4}), f({4})}});
  samples.push_back({.op = "RMSNormalization",
                     .operands = {f({2, 3, 4}), f({3, 4})},
                     .attributes = {{"axis", std::int64_t{1}}}});
  samples.push_back({.op = "LRN",
                     .operands = {f({2, 5, 2, 3})},
                     .attributes = {{"size", std::int64_t{3}}, {"alpha", 0.5F}}});
  samples.push_back({.op = "LpPool",
                     .operands = {f({1, 2, 6, 5})},
                     .attributes = {{"kernel_shape", Ints{3, 2}},
                                    {"p", std::int64_t{3}},
                                    {"auto_pad", std::string("SAME_LOWER")}}});
  samples.push_back({.op = "GlobalLpPool", .operands = {f({2, 3, 4, 2})}});
  samples.push_back({.op = "NegativeLogLikelihoodLoss",
                     .operands = {f({3, 4}, -2.0, -0.1), integers({3}, {2, 0, 3})}});
  samples.push_back({.op = "NegativeLogLikelihoodLoss",
                     .operands = {f({2, 3, 2}, -2.0, -0.1), integers({2, 2}, {0, 1, 2, 1}),
                                  constant({3}, {0.5, 2.0, 1.25})},
                     .attributes = {{"reduction", std::string("none")}}});
}

}  // namespace

void add_layer_samples(std::vector<OpSample>& samples) {
  add_products(samples);
  add_convolutions(samples);
  add_norms(samples);
  add_softmax_and_loss(samples);
  add_norms_and_quantization(samples);
  add_pools(samples);
  add_more_norms_and_pools(samples);
}

}  // namespace mezzo::test
