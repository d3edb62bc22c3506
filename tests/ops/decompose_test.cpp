// Decompositions and function bodies: what they compute.
#include <cmath>
#include <functional>
#include <numeric>

#include "compiler/ops/op_def.h"
#include "tests/ops/decomposed.h"
#include "tests/support/status_test.h"

namespace mezzo::test {
namespace {

void expect_function(const OpSample& sample, const std::function<double(double)>& function) {
  SCOPED_TRACE(sample.op);
  auto op = decomposed(sample);
  ASSERT_THAT(op, IsOk());
  Doubles expected = op->input(0);
  for (double& x : expected) x = function(x);
  expect_near(op->run(), expected);
}

TEST(Decompose, ActivationsFromFunctionBodies) {
  const OperandSample x = f({2, 5}, -3.0, 3.0);
  expect_function({.op = "Mish", .operands = {x}},
                  [](double v) { return v * std::tanh(std::log1p(std::exp(v))); });
  expect_function({.op = "Softsign", .operands = {x}},
                  [](double v) { return v / (1.0 + std::abs(v)); });
  expect_function({.op = "Selu", .operands = {x}}, [](double v) {
    return 1.0507009873554805 * (v > 0 ? v : 1.6732632423543772 * std::expm1(v));
  });
  expect_function({.op = "Celu", .operands = {x}, .attributes = {{"alpha", 1.5F}}},
                  [](double v) { return v > 0 ? v : 1.5 * std::expm1(v / 1.5); });
  expect_function({.op = "ThresholdedRelu", .operands = {x}},
                  [](double v) { return v > 1.0 ? v : 0.0; });
  expect_function({.op = "PRelu", .operands = {x, constant({}, {0.25})}},
                  [](double v) { return v < 0 ? 0.25 * v : v; });
}

TEST(Decompose, ManyOperands) {
  for (const char* op : {"Max", "Min", "Sum", "Mean"}) {
    SCOPED_TRACE(op);
    auto many = decomposed({.op = op, .operands = {f({2, 3}), f({3}), f({2, 1})}});
    ASSERT_THAT(many, IsOk());
    const Doubles a = many->input(0), b = many->input(1), c = many->input(2);
    Doubles expected;
    for (int i = 0; i < 6; ++i) {
      const Doubles parts = {a[i], b[i % 3], c[i / 3]};
      const double sum = parts[0] + parts[1] + parts[2];
      expected.push_back(op[1] == 'a'   ? *std::max_element(parts.begin(), parts.end())
                         : op[1] == 'i' ? *std::min_element(parts.begin(), parts.end())
                         : op[0] == 'S' ? sum
                                        : sum / 3);
    }
    expect_near(many->run(), expected);
  }
}

TEST(Decompose, TileAndConstantOfShape) {
  auto tile =
      decomposed({.op = "Tile", .operands = {constant({2, 2}, {1, 2, 3, 4}), ints({2, 2})}});
  ASSERT_THAT(tile, IsOk());
  expect_near(tile->run(), {1, 2, 1, 2, 3, 4, 3, 4, 1, 2, 1, 2, 3, 4, 3, 4});
  auto filled =
      decomposed({.op = "ConstantOfShape",
                  .operands = {ints({2})},
                  .attributes = {{"value", NamedTensor{{}, Tensor::from_ints({1}, Ints{7})}}}});
  ASSERT_THAT(filled, IsOk());
  expect_near(filled->run(), {7, 7});
}

// The examples of ONNX's documentation: channels 8 -> 2 and back.
TEST(Decompose, DepthToSpace) {
  Doubles x(48);
  for (std::size_t i = 0; i < x.size(); ++i)
    x[i] = 9.0 * static_cast<double>(i / 6) + static_cast<double>(i % 6);
  const OperandSample deep = constant({1, 8, 2, 3}, x);
  const auto first_row = [](StatusOr<Decomposed> op) {
    EXPECT_THAT(op, IsOk());
    const Doubles y = op->run();
    return Doubles(y.begin(), y.begin() + 6);
  };
  const Builder::NamedValue block = {"blocksize", std::int64_t{2}};
  EXPECT_EQ(
      first_row(decomposed({.op = "DepthToSpace", .operands = {deep}, .attributes = {block}})),
      (Doubles{0, 18, 1, 19, 2, 20}));
  EXPECT_EQ(first_row(decomposed({.op = "DepthToSpace",
                                  .operands = {deep},
                                  .attributes = {block, {"mode", std::string("CRD")}}})),
            (Doubles{0, 9, 1, 10, 2, 11}));
  Doubles flat(24);
  std::iota(flat.begin(), flat.end(), 0.0);
  EXPECT_EQ(first_row(decomposed({.op = "SpaceToDepth",
                                  .operands = {constant({1, 1, 4, 6}, flat)},
                                  .attributes = {block}})),
            (Doubles{0, 2, 4, 12, 14, 16}));
}

// The examples of ONNX's documentation of Resize.
TEST(Decompose, Resize) {
  const auto resize = [](const Ints& dims, const Doubles& x, const Doubles& scales,
                         const char* mode, const char* coordinates,
                         const char* rounding = "round_prefer_floor") {
    auto op =
        decomposed({.op = "Resize",
                    .operands = {constant(dims, x), absent(),
                                 constant({static_cast<std::int64_t>(dims.size())}, scales)},
                    .attributes = {{"mode", std::string(mode)},
                                   {"coordinate_transformation_mode", std::string(coordinates)},
                                   {"nearest_mode", std::string(rounding)}}});
    EXPECT_THAT(op, IsOk());
    return op.ok() ? op->run() : Doubles();
  };
  expect_near(resize({1, 1, 2, 2}, {1, 2, 3, 4}, {1, 1, 2, 3}, "nearest", "half_pixel"),
              {1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 3, 3, 3, 4, 4, 4});
  expect_near(resize({1, 1, 2, 2}, {1, 2, 3, 4}, {1, 1, 2, 2}, "linear", "half_pixel"),
              {1, 1.25, 1.75, 2, 1.5, 1.75, 2.25, 2.5, 2.5, 2.75, 3.25, 3.5, 3, 3.25, 3.75, 4});
  expect_near(resize({1, 1, 2, 2}, {1, 2, 3, 4}, {1, 1, 2, 2}, "linear", "align_corners"),
              {1, 4 / 3., 5 / 3., 2, 5 / 3., 2, 7 / 3., 8 / 3., 7 / 3., 8 / 3., 3, 10 / 3., 3,
               10 / 3., 11 / 3., 4});
  expect_near(
      resize({1, 1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}, {1, 1, 0.6, 0.6}, "nearest", "half_pixel"),
      {1, 3});
  expect_near(
      resize({1, 1, 2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}, {1, 1, 0.6, 0.6}, "linear", "half_pixel"),
      {2.6666665, 4.3333331}, 1e-5);
  expect_near(resize({1, 3}, {1, 2, 3}, {1, 2}, "nearest", "asymmetric", "floor"),
              {1, 1, 2, 2, 3, 3});
}

// y = (x - mean) / sqrt(var + epsilon) over `count` neighbouring elements.
Doubles normalised(Doubles x, std::size_t count, double epsilon, bool centred = true) {
  for (std::size_t begin = 0; begin < x.size(); begin += count) {
    const auto first = x.begin() + static_cast<std::ptrdiff_t>(begin),
               last = first + static_cast<std::ptrdiff_t>(count);
    const double mean =
        centred ? std::accumulate(first, last, 0.0) / static_cast<double>(count) : 0.0;
    double square = 0.0;
    for (auto at = first; at != last; ++at) square += (*at - mean) * (*at - mean);
    for (auto at = first; at != last; ++at)
      *at = (*at - mean) / std::sqrt(square / static_cast<double>(count) + epsilon);
  }
  return x;
}

TEST(Decompose, Normalisations) {
  const Builder::NamedValue epsilon = {"epsilon", 1e-3F};
  auto instance = decomposed(
      {.op = "InstanceNormalization",
       .operands = {f({2, 3, 2, 2}), constant({3}, {1, 2, 3}), constant({3}, {0.5, 0, -0.5})},
       .attributes = {epsilon}});
  ASSERT_THAT(instance, IsOk());
  Doubles expected = normalised(instance->input(0), 4, 1e-3);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const std::size_t channel = i / 4 % 3;
    expected[i] = expected[i] * (1.0 + channel) + 0.5 - 0.5 * channel;
  }
  expect_near(instance->run(), expected);

  auto rms = decomposed({.op = "RMSNormalization",
                         .operands = {f({3, 4}), constant({4}, {1, 1, 1, 1})},
                         .attributes = {epsilon}});
  ASSERT_THAT(rms, IsOk());
  expect_near(rms->run(), normalised(rms->input(0), 4, 1e-3, false));

  auto group = decomposed(
      {.op = "GroupNormalization",
       .operands = {f({2, 4, 3}), constant({4}, {1, 1, 1, 1}), constant({4}, {0, 0, 0, 0})},
       .attributes = {epsilon, {"num_groups", std::int64_t{2}}}});
  ASSERT_THAT(group, IsOk());
  expect_near(group->run(), normalised(group->input(0), 6, 1e-3));
}

TEST(Decompose, LossAfterLogSoftmax) {
  Graph* graph = nullptr;
  Model model;
  model.set_opset("", 17);
  model.graph = std::make_unique<Graph>("g");
  graph = model.graph.get();
  Value* x = graph->add_input("x", TensorType::of(DType::kFloat32, {2, 3}));
  Value* labels = graph->add_input("labels", TensorType::of(DType::kInt64, {2}));
  Builder builder(*graph, type_inference(model));
  Value* log_prob = builder.op("LogSoftmax", {x}, {{"axis", std::int64_t{1}}});
  Value* loss = builder.op("NegativeLogLikelihoodLoss", {log_prob, labels},
                           {{"reduction", std::string("sum")}});
  graph->add_output(loss);
  EXPECT_EQ(value_or_die(mezzo::decompose(*loss->producer(), &model)), true);
  const Node* cross_entropy = graph->outputs()[0]->producer();
  EXPECT_EQ(cross_entropy->op_type(), "SoftmaxCrossEntropyLoss");
  EXPECT_EQ(cross_entropy->operand(0), x);
  EXPECT_EQ(cross_entropy->string_attribute("reduction", ""), "sum");
}

// On its own it goes through the function body: mean of -w x[label] over the labels that count.
TEST(Decompose, LossOfLogProbabilities) {
  auto loss = decomposed(
      {.op = "NegativeLogLikelihoodLoss",
       .operands = {f({3, 4}, -3.0, -0.1), integers({3}, {2, 1, 0}), constant({4}, {1, 2, 3, 4})},
       .attributes = {{"reduction", std::string("mean")}, {"ignore_index", std::int64_t{1}}}});
  ASSERT_THAT(loss, IsOk());
  const Doubles x = loss->input(0);
  expect_near(loss->run(), {-(3 * x[2] + 1 * x[8]) / 4});
}

TEST(Decompose, FormsThatAreNotCoveredStay) {
  OpSample peepholes = recurrent("LSTM", false);
  peepholes.attributes.emplace_back("activations",
                                    std::vector<std::string>{"Relu", "Tanh", "Tanh"});
  const OpSample cubic{.op = "Resize",
                       .operands = {f({1, 1, 2, 2}), absent(), constant({4}, {1, 1, 2, 2})},
                       .attributes = {{"mode", std::string("cubic")}}};
  for (const OpSample& sample :
       {peepholes, cubic, OpSample{.op = "Det", .operands = {f({2, 2})}}}) {
    BuiltSample built = value_or_die(build_sample(sample, 1));
    EXPECT_EQ(value_or_die(mezzo::decompose(*built.node, &built.model)), false) << sample.op;
    EXPECT_EQ(built.model.graph->node_count(), 1U) << sample.op;
  }
}

// Every operator whose catalogue entry points to its function body gets one with nodes in it.
TEST(Decompose, PromisedBodiesLeadToKernels) {
  const OpSample samples[] = {
      {.op = "ReduceL1", .operands = {f({2, 3}), ints({1})}},
      {.op = "ReduceLogSum", .operands = {f({2, 3}, 0.5, 2.0), ints({1})}},
      {.op = "ReduceLogSumExp", .operands = {f({2, 3}), ints({1})}},
      {.op = "MeanVarianceNormalization", .operands = {f({2, 3, 2, 2})}},
      {.op = "DepthToSpace",
       .operands = {f({1, 4, 2, 2})},
       .attributes = {{"blocksize", std::int64_t{2}}}},
      {.op = "SpaceToDepth",
       .operands = {f({1, 1, 4, 4})},
       .attributes = {{"blocksize", std::int64_t{2}}}},
      {.op = "SwiGLU", .operands = {f({2, 3}), f({2, 3})}},
      {.op = "Shrink", .operands = {f({5})}},
      {.op = "Attention", .operands = {f({1, 2, 3, 4}), f({1, 2, 3, 4}), f({1, 2, 3, 4})}},
      {.op = "RotaryEmbedding", .operands = {f({1, 2, 3, 4}), f({1, 3, 2}), f({1, 3, 2})}},
  };
  for (const OpSample& sample : samples) {
    SCOPED_TRACE(to_string(sample));
    auto op = decomposed(sample);
    ASSERT_THAT(op, IsOk());
    for (const double value : op->run()) EXPECT_TRUE(std::isfinite(value));
  }
}

}  // namespace
}  // namespace mezzo::test
