// Forms whose gradients are checked beside those of all_samples(): odd shapes and attributes, and
// operators that only run decomposed.
#include "tests/ops/samples.h"

namespace mezzo::test {
namespace {

using Ints = std::vector<std::int64_t>;
using NamedValue = Builder::NamedValue;

NamedValue axis(std::int64_t value) { return {"axis", value}; }
NamedValue text(std::string_view name, const char* value) { return {name, std::string(value)}; }
NamedValue flag(std::string_view name) { return {name, std::int64_t{1}}; }

void add_functions(std::vector<OpSample>& samples) {
  for (const char* op : {"Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Atanh"}) {
    samples.push_back({.op = op, .operands = {f({}, 0.1, 0.8)}});
    samples.push_back({.op = op, .operands = {f({1, 3, 1}, -0.99, 0.99)}});
  }
  samples.push_back({.op = "Acosh", .operands = {f({}, 1.01, 1.1)}});
  samples.push_back({.op = "Acosh", .operands = {f({1, 4}, 1.5, 50.0)}});
  for (const Ints& slope : {Ints{}, Ints{1}, Ints{4}, Ints{2, 1, 4}, Ints{2, 3, 4}}) {
    samples.push_back({.op = "PRelu", .operands = {f({2, 3, 4}), f(slope, -0.5, 0.7)}});
  }
  for (const float alpha : {0.5F, 2.0F}) {
    samples.push_back({.op = "Celu", .operands = {f({3, 4})}, .attributes = {{"alpha", alpha}}});
    samples.push_back(
        {.op = "ThresholdedRelu", .operands = {f({9})}, .attributes = {{"alpha", alpha}}});
    samples.push_back(
        {.op = "Selu", .operands = {f({2, 5})}, .attributes = {{"alpha", alpha}, {"gamma", 1.5F}}});
    samples.push_back(
        {.op = "Shrink", .operands = {f({9})}, .attributes = {{"lambd", alpha}, {"bias", 0.25F}}});
  }
  samples.push_back(
      {.op = "Shrink", .operands = {f({7})}, .attributes = {{"lambd", -0.5F}, {"bias", 0.25F}}});
  for (const char* op : {"Mish", "Softsign"}) {
    samples.push_back({.op = op, .operands = {f({2, 3}, -30.0, 30.0)}});
    samples.push_back({.op = op, .operands = {f({}, 0.2, 0.4)}});
  }
  for (const Ints& dims : {Ints{2, 6}, Ints{2, 1, 4}, Ints{}}) {
    samples.push_back({.op = "SwiGLU",
                       .operands = {f(dims, 0.2, 2.0), f(dims)},
                       .attributes = {{"alpha", 1.5F}}});
  }
}

void add_arithmetic(std::vector<OpSample>& samples) {
  for (const char* op : {"Max", "Min", "Sum", "Mean"}) {
    samples.push_back({.op = op, .operands = {f({2, 3}), f({3}), f({2, 1})}});
    samples.push_back({.op = op, .operands = {f({}), f({1, 3}), f({4, 1}), f({4, 3})}});
  }
  for (const char* op : {"Max", "Min"}) {  // equal ones share
    samples.push_back({.op = op, .operands = {constant({3}, {1.0, -1.0, 0.5}), f({2, 3})}});
  }
  const std::vector<NamedValue> by_c = {flag("fmod")};
  samples.push_back(
      {.op = "Mod", .operands = {f({2, 3}, -7.0, 8.0), f({3}, 1.3, 2.9)}, .attributes = by_c});
  samples.push_back(
      {.op = "Mod", .operands = {f({4}, -7.0, 8.0), f({2, 1}, -2.9, -1.3)}, .attributes = by_c});
  samples.push_back(
      {.op = "Mod", .operands = {f({}, 5.0, 5.3), f({1, 3}, 0.41, 0.7)}, .attributes = by_c});
  samples.push_back({.op = "Pow", .operands = {f({3}, 0.4, 2.0), f({2, 3}, -2.0, 3.0)}});
  samples.push_back({.op = "Pow", .operands = {f({2, 3}, -2.0, 2.0), constant({}, {-3.0})}});
  samples.push_back({.op = "Pow", .operands = {f({4}, -2.0, 2.0), ints({0, 1, 2, 3})}});
  samples.push_back({.op = "Clip", .operands = {f({2, 5}), f({}, -0.9, -0.7), f({}, 0.5, 0.7)}});
  samples.push_back({.op = "Clip", .operands = {f({7}), absent(), f({}, 0.1, 0.2)}});
  samples.push_back({.op = "Clip", .operands = {f({7}), f({}, 0.1, 0.2)}});
  samples.push_back({.op = "Clip", .operands = {f({5}), f({}, 0.5, 0.7), f({}, -0.9, -0.7)}});
  const OperandSample mask = integers({1, 3}, {1, 0, 1}, DType::kBool);
  samples.push_back({.op = "Where", .operands = {mask, f({2, 1}), f({})}});
}

void add_reductions(std::vector<OpSample>& samples) {
  const NamedValue dropped = {"keepdims", std::int64_t{0}};
  for (const char* op :
       {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSumSquare",
        "ReduceL2", "ReduceL1", "ReduceLogSum", "ReduceLogSumExp"}) {
    const double low = std::string_view(op) == "ReduceLogSum" ? 0.2 : -2.0;
    samples.push_back({.op = op, .operands = {f({3, 1}, low, 2.1), ints({1})}});
    samples.push_back({.op = op, .operands = {f({2, 3}, low, 2.1)}, .attributes = {dropped}});
    samples.push_back({.op = op,
                       .operands = {f({2, 2, 3, 2}, low, 2.1), ints({-3, 3})},
                       .attributes = {dropped}});
    samples.push_back({.op = op, .operands = {f({2, 2, 3}, low, 2.1), ints({0, 1})}});
    samples.push_back({.op = op,
                       .operands = {f({4}, 0.5, 2.1), ints({})},
                       .attributes = {flag("noop_with_empty_axes")}});
  }
  // Zeros: of one, the others' product; of two, nothing.
  samples.push_back(
      {.op = "ReduceProd",
       .operands = {{.dims = {3, 3}, .values = {2, 0, 3, 1.5, 2, -1, 0, 0, 4}}, ints({1})}});
  for (const std::int64_t exclusive : {0, 1}) {
    for (const std::int64_t reverse : {0, 1}) {
      const std::vector<NamedValue> attributes = {{"exclusive", exclusive}, {"reverse", reverse}};
      const OperandSample last = constant({}, {-1}, DType::kInt64);
      samples.push_back({.op = "CumSum", .operands = {f({2, 3}), last}, .attributes = attributes});
      samples.push_back(
          {.op = "CumProd",
           .operands = {{.dims = {2, 4}, .values = {2, 0, 3, 0.5, 0, 2, 0, -1}}, last},
           .attributes = attributes});
      samples.push_back({.op = "CumProd",
                         .operands = {f({3, 2, 1}), constant({1}, {0}, DType::kInt64)},
                         .attributes = attributes});
    }
  }
  samples.push_back({.op = "Det", .operands = {f({1, 1})}});
  samples.push_back({.op = "Det", .operands = {f({4, 4})}});
  samples.push_back({.op = "Det", .operands = {{.dims = {2, 2}, .values = {1, 2, 2, 4}}}});
  samples.push_back(
      {.op = "Det", .operands = {{.dims = {3, 3}, .values = {1, 2, 3, 4, 5, 6, 7, 8, 9}}}});
}

void add_norms(std::vector<OpSample>& samples) {
  for (const std::int64_t p : {1, 2}) {
    samples.push_back(
        {.op = "LpNormalization", .operands = {f({2, 3, 2})}, .attributes = {axis(1), {"p", p}}});
    samples.push_back(
        {.op = "LpNormalization", .operands = {f({3, 1})}, .attributes = {axis(-1), {"p", p}}});
    samples.push_back({.op = "LpNormalization",
                       .operands = {f({4}, 0.3, 2.0)},
                       .attributes = {axis(0), {"p", p}}});
  }
  samples.push_back({.op = "MeanVarianceNormalization",
                     .operands = {f({2, 3})},
                     .attributes = {{"axes", Ints{1}}}});
  samples.push_back({.op = "MeanVarianceNormalization",
                     .operands = {f({2, 3, 2}, 10.0, 12.0)},
                     .attributes = {{"axes", Ints{0, -1}}}});
  for (const std::int64_t size : {1, 2, 4, 9}) {
    samples.push_back(
        {.op = "LRN",
         .operands = {f({2, 4, 3})},
         .attributes = {{"size", size}, {"alpha", 0.7F}, {"beta", 0.6F}, {"bias", 1.5F}}});
  }
  samples.push_back({.op = "LRN",
                     .operands = {f({1, 3, 2, 2, 2})},
                     .attributes = {{"size", std::int64_t{3}}, {"alpha", 0.5F}}});
  samples.push_back({.op = "GroupNormalization",
                     .operands = {f({2, 4, 3, 2}), f({2}), f({2})},
                     .attributes = {{"num_groups", std::int64_t{2}}}});
  samples.push_back({.op = "GroupNormalization",
                     .operands = {f({2, 6, 2}), f({6}), f({6})},
                     .attributes = {{"num_groups", std::int64_t{1}}, {"epsilon", 1e-2F}}});
  samples.push_back({.op = "GroupNormalization",
                     .operands = {f({1, 4, 5}), f({4}), f({4})},
                     .attributes = {{"num_groups", std::int64_t{4}}}});
  samples.push_back({.op = "InstanceNormalization", .operands = {f({2, 1, 5}), f({1}), f({1})}});
  samples.push_back(
      {.op = "InstanceNormalization", .operands = {f({1, 2, 2, 2, 2}), f({2}), f({2})}});
  samples.push_back({.op = "RMSNormalization",
                     .operands = {f({2, 2, 3}), f({3, 1})},
                     .attributes = {axis(-1), {"epsilon", 1e-2F}}});
  samples.back().operands[1] = f({1});  // broadcast
  samples.push_back({.op = "RMSNormalization", .operands = {f({5}), f({5})}});
  samples.push_back({.op = "RMSNormalization",
                     .operands = {f({2, 2, 2}), f({2, 2, 2})},
                     .attributes = {axis(0)}});
  for (const char* domain : {"", "ai.mezzo"}) {
    samples.push_back({.op = "LayerNormalization",
                       .operands = {f({2, 3, 4}), f({1}), f({4})},
                       .attributes = {{"epsilon", 1e-2F}},
                       .results = 3,
                       .domain = domain});
    samples.push_back({.op = "LayerNormalization",
                       .operands = {f({2, 2, 3}), f({2, 3}), f({3})},
                       .attributes = {axis(-2)},
                       .results = 2,
                       .domain = domain});
  }
}

void add_losses(std::vector<OpSample>& samples) {
  samples.push_back({.op = "Softmax", .operands = {f({2, 1, 3})}, .attributes = {axis(1)}});
  samples.push_back({.op = "LogSoftmax", .operands = {f({2, 3, 2})}, .attributes = {axis(-3)}});
  const OperandSample labels = integers({2, 2, 2}, {0, 2, 1, 1, 2, 0, 2, -100});
  for (const char* reduction : {"mean", "sum", "none"}) {
    const NamedValue mode = text("reduction", reduction);
    const NamedValue ignored = {"ignore_index", std::int64_t{-100}};
    for (const char* op : {"SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"}) {
      const bool softmax = std::string_view(op) == "SoftmaxCrossEntropyLoss";
      samples.push_back({.op = op,
                         .operands = {f({2, 3, 2, 2}), labels},
                         .attributes = {mode, ignored},
                         .results = softmax ? 2U : 1U});
      samples.push_back({.op = op,
                         .operands = {f({2, 3, 2, 2}), labels, f({3}, 0.5, 1.5)},
                         .attributes = {mode, ignored},
                         .results = softmax ? 2U : 1U});
      samples.push_back(
          {.op = op,
           .operands = {f({3, 4}), integers({3}, {3, 0, 1}, DType::kInt32), f({4}, 0.5, 1.5)},
           .attributes = {mode}});
      samples.push_back({.op = op,
                         .operands = {f({4, 2}), integers({4}, {1, 0, 1, 1})},
                         .attributes = {mode, {"ignore_index", std::int64_t{1}}}});
    }
  }
}

void add_parts(std::vector<OpSample>& samples) {
  for (const char* mode : {"reflect", "edge", "wrap", "constant"}) {
    const std::vector<NamedValue> attributes = {text("mode", mode)};
    samples.push_back(
        {.op = "Pad", .operands = {f({3, 4}), ints({1, 2, 0, 3})}, .attributes = attributes});
    samples.push_back(
        {.op = "Pad", .operands = {f({5, 2}), ints({-1, 1, 2, 0})}, .attributes = attributes});
    samples.push_back({.op = "Pad",
                       .operands = {f({2, 4, 2}), ints({3, -2}), absent(), ints({-2})},
                       .attributes = attributes});
  }
  samples.push_back({.op = "Pad", .operands = {f({2, 3}), ints({-1, 0, 0, -2})}});
  samples.push_back({.op = "Pad", .operands = {f({2, 3}), ints({1, -1, 2, 2}), f({}, 0.3, 0.4)}});
  samples.push_back({.op = "Pad", .operands = {f({2, 3}), ints({-1, 0, 0, 0}), f({1})}});
  samples.push_back(
      {.op = "Slice",
       .operands = {f({4, 5}), ints({3, -1}), ints({-5, 0}), ints({0, -1}), ints({-2, -1})}});
  samples.push_back({.op = "Split",
                     .operands = {f({2, 7})},
                     .attributes = {axis(-1), {"num_outputs", std::int64_t{3}}},
                     .results = 3});
  samples.push_back({.op = "Concat", .operands = {f({1, 0}), f({1, 3})}, .attributes = {axis(1)}});
  samples.push_back({.op = "Expand", .operands = {f({}), ints({2, 3})}});
  samples.push_back({.op = "Expand", .operands = {f({2, 1, 1}), ints({1, 3, 1})}});
  samples.push_back({.op = "Trilu",
                     .operands = {f({3, 2}), constant({}, {1}, DType::kInt64)},
                     .attributes = {{"upper", std::int64_t{1}}}});
  samples.push_back({.op = "Tile", .operands = {f({2, 1, 3}), ints({1, 2, 3})}});
  samples.push_back({.op = "Tile", .operands = {f({3}), ints({4})}});
  samples.push_back({.op = "Tile", .operands = {f({2, 2}), ints({1, 1})}});
  const OperandSample chosen = constant({3}, {1, 0, 1}, DType::kBool);
  samples.push_back({.op = "Compress", .operands = {f({2, 3}), chosen}, .attributes = {axis(-1)}});
  samples.push_back({.op = "Compress", .operands = {f({3, 2}), chosen}, .attributes = {axis(0)}});
  samples.push_back({.op = "Compress", .operands = {f({2, 2}), chosen}});
}

void add_indices(std::vector<OpSample>& samples) {
  samples.push_back({.op = "GatherND",
                     .operands = {f({2, 3, 2}), integers({2, 2, 1}, {2, 0, 1, 1})},
                     .attributes = {{"batch_dims", std::int64_t{1}}}});
  samples.push_back({.op = "GatherND",
                     .operands = {f({2, 2, 3}), integers({2, 2, 1}, {2, 0, -1, 1})},
                     .attributes = {{"batch_dims", std::int64_t{2}}}});
  samples.push_back({.op = "GatherND",
                     .operands = {f({2, 3, 2}), integers({2, 2}, {2, 1, 0, -1})},
                     .attributes = {{"batch_dims", std::int64_t{1}}}});
  samples.push_back({.op = "Gather",
                     .operands = {f({3, 2, 2}), integers({1, 2}, {1, 1})},
                     .attributes = {axis(-2)}});
  for (const char* reduction : {"add", "mul", "max", "min"}) {
    const NamedValue mode = text("reduction", reduction);
    samples.push_back({.op = "ScatterElements",
                       .operands = {f({3, 3}), integers({2, 3}, {1, 0, 2, 1, 2, -1}), f({2, 3})},
                       .attributes = {mode}});
    samples.push_back(
        {.op = "ScatterElements",
         .operands = {f({2, 3}), integers({2, 4}, {1, 1, 0, -2, 2, 2, 2, 0}), f({2, 4})},
         .attributes = {axis(-1), mode}});
    samples.push_back({.op = "ScatterND",
                       .operands = {f({3, 2}), integers({3, 1}, {2, 0, 2}), f({3, 2})},
                       .attributes = {mode}});
    samples.push_back({.op = "ScatterND",
                       .operands = {f({2, 2}), integers({3, 2}, {1, 1, 0, 0, 1, 1}), f({3})},
                       .attributes = {mode}});
  }
  const OperandSample places = integers({1, 6}, {0, 0, 1, 1, 2, 2});
  samples.push_back(
      {.op = "ScatterElements",  // zeros among the factors
       .operands = {f({1, 4}), places, {.dims = {1, 6}, .values = {0, 2, 0, 0, 3, 4}}},
       .attributes = {axis(1), text("reduction", "mul")}});
  samples.push_back({.op = "TensorScatter", .operands = {f({2, 4, 2}), f({2, 2, 2})}});
  samples.push_back({.op = "TensorScatter",
                     .operands = {f({2, 2, 4, 2}), f({2, 2, 3, 2}), integers({2}, {3, 1})},
                     .attributes = {text("mode", "circular")}});
  samples.push_back({.op = "TensorScatter",
                     .operands = {f({2, 2, 4}), f({2, 2, 1}), integers({2}, {0, 3})},
                     .attributes = {axis(-1)}});
  samples.push_back({.op = "OneHot",
                     .operands = {integers({3}, {0, -1, 7}), ints({4}), f({2})},
                     .attributes = {axis(0)}});
  samples.push_back({.op = "OneHot", .operands = {integers({1, 2}, {2, 0}), ints({3}), f({2})}});
  samples.push_back({.op = "TopK",
                     .operands = {f({5}), ints({5})},
                     .attributes = {{"sorted", std::int64_t{1}}},
                     .results = 2});
}

void add_products(std::vector<OpSample>& samples) {
  const std::vector<std::pair<const char*, std::vector<Ints>>> equations = {
      {"ij,jk->ik", {{2, 3}, {3, 4}}},
      {"bhqd,bhkd->bhqk", {{2, 1, 3, 2}, {2, 1, 4, 2}}},
      {"ii->i", {{3, 3}}},
      {"ii", {{3, 3}}},
      {"ij->", {{2, 3}}},
      {"ij->ji", {{2, 3}}},
      {"i,j->ij", {{3}, {2}}},
      {"...ij,...jk->...ik", {{2, 2, 3}, {1, 3, 2}}},
      {"ij,ij->ij", {{2, 3}, {2, 1}}},
      {"ij,jk,kl->il", {{2, 3}, {3, 2}, {2, 2}}},
      {"bi,bj,bk->bijk", {{2, 2}, {2, 3}, {2, 1}}},
  };
  for (const auto& [equation, shapes] : equations) {
    OpSample sample{.op = "Einsum", .attributes = {text("equation", equation)}};
    for (const Ints& shape : shapes) sample.operands.push_back(f(shape));
    samples.push_back(std::move(sample));
  }
  samples.push_back({.op = "MatMul", .operands = {f({1, 3}), f({2, 3, 1})}});
  samples.push_back({.op = "MatMul", .operands = {f({2, 3, 1}), f({1})}});
  samples.push_back({.op = "Gemm",
                     .operands = {f({1, 3}), f({3, 1}), f({1, 1})},
                     .attributes = {{"beta", 0.5F}}});
  for (const std::int64_t trans_a : {0, 1}) {
    for (const std::int64_t trans_b : {0, 1}) {
      samples.push_back({.op = "MatMulT",
                         .operands = {f(trans_a ? Ints{2, 1, 4, 3} : Ints{2, 1, 3, 4}),
                                      f(trans_b ? Ints{5, 4} : Ints{4, 5})},
                         .attributes = {{"trans_a", trans_a}, {"trans_b", trans_b}},
                         .domain = "ai.mezzo"});
    }
  }
}

}  // namespace

std::vector<OpSample> gradient_samples() {
  std::vector<OpSample> samples = all_samples();
  add_attention_samples(samples);
  add_functions(samples);
  add_arithmetic(samples);
  add_reductions(samples);
  add_norms(samples);
  add_losses(samples);
  add_parts(samples);
  add_indices(samples);
  add_products(samples);
  add_further_forms(samples);
  add_contrib_samples(samples);
  return samples;
}

}  // namespace mezzo::test
