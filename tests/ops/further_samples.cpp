// More forms for gradients: what all_samples() has too few of, and operators of com.microsoft.
#include "tests/ops/samples.h"

namespace mezzo::test {
namespace {

using Ints = std::vector<std::int64_t>;
using NamedValue = Builder::NamedValue;

NamedValue axis(std::int64_t value) { return {"axis", value}; }
NamedValue text(std::string_view name, const char* value) { return {name, std::string(value)}; }

OpSample microsoft(const char* op, std::vector<OperandSample> operands,
                   std::vector<NamedValue> attributes = {}, std::size_t results = 1) {
  return {.op = op,
          .operands = std::move(operands),
          .attributes = std::move(attributes),
          .results = results,
          .domain = "com.microsoft"};
}

}  // namespace

// A third form and more of what all_samples() has twice.
void add_further_forms(std::vector<OpSample>& samples) {
  for (const char* op :
       {"Abs",         "Ceil",      "Cos",      "Elu",      "Erf",  "Exp",        "Floor", "Gelu",
        "HardSigmoid", "HardSwish", "Identity", "Log",      "Neg",  "Reciprocal", "Relu",  "Round",
        "Sigmoid",     "Sign",      "Sin",      "Softplus", "Sqrt", "Swish",      "Tanh"}) {
    samples.push_back({.op = op, .operands = {f({}, 0.2, 0.4)}});
    samples.push_back({.op = op, .operands = {f({2, 1, 3}, 0.55, 0.95)}});
  }
  for (const std::int64_t to : {1, 10, 11}) {
    samples.push_back({.op = "Cast", .operands = {f({2, 1})}, .attributes = {{"to", to}}});
  }
  samples.push_back({.op = "CastLike", .operands = {f({}), constant({2}, {1.0, 2.0})}});
  samples.push_back({.op = "CastLike", .operands = {f({1, 3}), f({1})}});
  samples.push_back({.op = "Dropout", .operands = {f({}), constant({}, {0.5})}});
  samples.push_back({.op = "Flatten", .operands = {f({2, 3})}, .attributes = {axis(-1)}});
  samples.push_back({.op = "Flatten", .operands = {f({3})}, .attributes = {axis(0)}});
  samples.push_back({.op = "Reshape", .operands = {f({2, 3}), ints({1, 6, 1})}});
  samples.push_back({.op = "Reshape", .operands = {f({1}), ints({})}});
  samples.push_back({.op = "Squeeze", .operands = {f({2, 1, 3}), ints({-2})}});
  samples.push_back({.op = "Unsqueeze", .operands = {f({}), ints({0})}});
  samples.push_back({.op = "Unsqueeze", .operands = {f({3}), ints({1, 2})}});
  samples.push_back({.op = "Transpose",
                     .operands = {f({2, 1, 3, 2})},
                     .attributes = {{"perm", Ints{3, 1, 0, 2}}}});
  samples.push_back({.op = "GatherElements",
                     .operands = {f({2, 3}), integers({2, 1}, {-1, -1})},
                     .attributes = {axis(-1)}});
  samples.push_back({.op = "ReverseSequence", .operands = {f({3, 1}), integers({1}, {2})}});
  samples.push_back({.op = "Scatter",
                     .operands = {f({2, 3}), integers({2, 1}, {2, 0}), f({2, 1})},
                     .attributes = {axis(1)}});
  samples.push_back({.op = "Scatter", .operands = {f({4}), integers({2}, {3, 0}), f({2})}});
  for (const char* mode : {"DCR", "CRD"}) {
    samples.push_back({.op = "DepthToSpace",
                       .operands = {f({2, 8, 1, 3})},
                       .attributes = {text("mode", mode), {"blocksize", std::int64_t{2}}}});
  }
  samples.push_back({.op = "DepthToSpace",
                     .operands = {f({1, 9, 2, 1})},
                     .attributes = {{"blocksize", std::int64_t{3}}}});
  for (const Ints& dims : {Ints{1, 2, 4, 2}, Ints{2, 1, 2, 2}, Ints{1, 1, 2, 6}}) {
    samples.push_back({.op = "SpaceToDepth",
                       .operands = {f(dims)},
                       .attributes = {{"blocksize", std::int64_t{2}}}});
  }
  for (const char* op : {"GlobalAveragePool", "GlobalMaxPool"}) {
    samples.push_back({.op = op, .operands = {f({1, 2, 2, 1, 2})}});
  }
  samples.push_back({.op = "AffineGrid",
                     .operands = {f({2, 2, 3}), ints({2, 1, 1, 2})},
                     .attributes = {{"align_corners", std::int64_t{1}}}});
  samples.push_back(
      {.op = "MaxRoiPool",
       .operands = {f({2, 1, 3, 3}), constant({2, 5}, {1, 0, 0, 2, 2, 0, 1, 1, 2, 2})},
       .attributes = {{"pooled_shape", Ints{1, 2}}, {"spatial_scale", 1.0F}}});
  samples.push_back({.op = "CausalConvWithState",
                     .operands = {f({1, 2, 3}), f({2, 1, 2}), f({2}), f({1, 2, 1})},
                     .attributes = {text("activation", "silu")},
                     .results = 2});
  samples.push_back({.op = "Upsample", .operands = {f({1, 2, 2}), constant({3}, {1, 2, 1.5})}});
  samples.push_back({.op = "Upsample",
                     .operands = {f({1, 1, 2, 3}), constant({4}, {1, 1, 2, 2})},
                     .attributes = {text("mode", "linear")}});
}

// Those that contrib_cases.txt cannot have: ONNX Runtime's CPU provider lacks a kernel for them.
void add_contrib_samples(std::vector<OpSample>& samples) {
  samples.push_back(microsoft("BiasAdd", {f({2, 3, 4}), f({4}), f({2, 3, 4})}));
  samples.push_back(microsoft("BiasSoftmax", {f({2, 3, 4}), f({1, 3, 4})},
                              {axis(2), {"is_inner_broadcast", std::int64_t{1}}}));
  samples.push_back(microsoft("BiasSplitGelu", {f({2, 3, 8}), f({8})}));
  samples.push_back(microsoft("EmbedLayerNormalization",
                              {integers({2, 3}, {0, 4, 1, 2, 2, 3}, DType::kInt32),
                               integers({2, 3}, {0, 1, 1, 0, 0, 1}, DType::kInt32), f({5, 4}),
                               f({6, 4}), f({2, 4}), f({4}), f({4})},
                              {}, 2));
  samples.push_back(microsoft("FusedMatMulActivation", {f({2, 3}), f({3, 4})},
                              {text("activation", "Tanh"), {"alpha", 0.5F}}));
  samples.push_back(microsoft("GatherND", {f({3, 2}), integers({2, 1}, {2, 0})}));
  samples.push_back(microsoft("GemmFastGelu", {f({2, 3}), f({3, 4}), f({4})}));
  const std::vector<NamedValue> groups = {{"groups", std::int64_t{2}},
                                          {"activation", std::int64_t{1}}};
  samples.push_back(microsoft("GroupNorm", {f({2, 2, 3, 4}), f({4}), f({4})}, groups));
  samples.push_back(
      microsoft("SkipGroupNorm", {f({2, 2, 3, 4}), f({4}), f({4}), f({2, 4}), f({4})}, groups, 2));
  samples.push_back(microsoft("SimplifiedLayerNormalization", {f({2, 3, 4}), f({4})}));
  samples.push_back(
      microsoft("SkipSimplifiedLayerNormalization", {f({2, 3, 4}), f({2, 3, 4}), f({4})}));
  samples.push_back(microsoft("TorchEmbedding", {f({5, 3}), integers({2, 2}, {0, 4, 1, 0})}));
  // Of training artifacts.
  const std::vector<NamedValue> training = {{"training_mode", std::int64_t{1}}};
  samples.push_back(microsoft("BatchNormInternal",
                              {f({4, 3, 2}), f({3}, 0.5, 1.5), f({3}), f({3}), f({3}, 0.5, 2.0)},
                              training, 5));
  samples.push_back(microsoft("ConcatTraining", {f({2, 3}), f({2, 1})}, {axis(1)}, 2));
  samples.push_back(microsoft("SplitTraining", {f({2, 4}), ints({1, 3})}, {axis(1)}, 2));
  samples.push_back(microsoft("ReduceSumTraining", {f({2, 3, 2}), ints({0, 2})}));
  samples.push_back(microsoft("Scale", {f({2, 3}), constant({}, {2.5})}));
  samples.push_back(microsoft(
      "SoftmaxCrossEntropyLossInternal",
      {f({3, 4}), integers({3}, {2, -1, 3}), absent(), constant({}, {-1}, DType::kInt64)}, {}, 2));
}

}  // namespace mezzo::test
