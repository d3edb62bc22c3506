// Every operator that the catalogue calls differentiable, by its rule or decomposed, against
// central differences: as training does it, with the passes that decompose and the sweep that
// differentiates, in double on the reference kernels.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>

#include "compiler/ops/differentiation.h"
#include "passes/autodiff/activity.h"
#include "passes/autodiff/reverse_sweep.h"
#include "tests/ops/contrib_cases.h"
#include "tests/ops/decomposed.h"
#include "tests/support/status_test.h"

namespace mezzo::test {
namespace {

constexpr double kStep = 1e-5;
constexpr double kTolerance = 1e-6;
constexpr std::size_t kMostElems = 40;  // of one operand; larger ones are sampled

// Statistics of the batch take no gradients.
bool takes_gradient(const OpSample& sample, const Value& result, std::size_t index) {
  const bool statistics = sample.op.starts_with("BatchNorm");
  return is_floating(result.dtype()) && (index == 0 || !statistics);
}

class Check {
 public:
  Check(const OpSample& sample, Decomposed op) : sample_(sample), op_(std::move(op)) {
    const Graph& graph = *op_.built.model.graph;
    for (std::size_t r = 0; r < graph.outputs().size(); ++r) {
      weights_.emplace_back();
      const Value& y = *graph.outputs()[r];
      if (!takes_gradient(sample_, y, r)) continue;
      const std::int64_t elems = y.tensor_type().elems();
      for (std::int64_t i = 0; i < elems; ++i) {
        weights_[r].push_back(1.0 + 0.3 * std::sin(1.7 * static_cast<double>(i + 1) + 2.0 * r));
      }
    }
  }

  // True if some operand was checked.
  bool run() {
    std::map<std::size_t, Doubles> expected;
    for (const std::size_t input : checked_inputs()) expected[input] = differences(input);
    if (expected.empty()) return false;
    Status status = differentiate();
    Environment environment = op_.built.inputs;
    if (status.ok()) status = interpret(*op_.built.model.graph, environment);
    EXPECT_TRUE(status.ok()) << status.message();
    if (!status.ok()) return true;
    for (const auto& [input, list] : expected) {
      SCOPED_TRACE("graph input " + op_.built.model.graph->inputs()[input]->name());
      compare(list, grads_[input] ? environment.at(grads_[input]).to_doubles() : Doubles());
    }
    return true;
  }

 private:
  // Graph inputs that the catalogue gives gradients for.
  std::vector<std::size_t> checked_inputs() const {
    const OpDef& def = *find_op(sample_.op, sample_.domain);
    std::vector<std::size_t> inputs;
    std::size_t input = 0;
    for (std::size_t i = 0; i < sample_.operands.size(); ++i) {
      const OperandSample& operand = sample_.operands[i];
      if (operand.absent || operand.constant) continue;
      const bool wanted =
          is_floating(operand.dtype) && i < 32 && (def.no_gradient_operands >> i & 1U) == 0;
      if (wanted) inputs.push_back(input);
      ++input;
    }
    return inputs;
  }

  Buffer& buffer(std::size_t input) {
    return op_.built.inputs.at(op_.built.model.graph->inputs()[input]);
  }
  std::size_t stride(std::size_t elems) const {
    return std::max<std::size_t>(1, elems / kMostElems);
  }

  double loss() {
    Environment environment = op_.built.inputs;
    const Status status = interpret(*op_.built.model.graph, environment);
    EXPECT_TRUE(status.ok()) << status.message();
    if (!status.ok()) return std::nan("");
    double sum = 0.0;
    for (std::size_t r = 0; r < weights_.size(); ++r) {
      if (weights_[r].empty()) continue;
      const Doubles y = environment.at(op_.built.model.graph->outputs()[r]).to_doubles();
      for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * weights_[r][i];
    }
    return sum;
  }

  Doubles differences(std::size_t input) {
    const std::size_t elems = static_cast<std::size_t>(buffer(input).desc.elems());
    Doubles list;
    for (std::size_t e = 0; e < elems; e += stride(elems)) {
      double& x = buffer(input).values()[e];
      const double kept = x;
      x = kept + kStep;
      const double above = loss();
      x = kept - kStep;
      const double below = loss();
      x = kept;
      list.push_back((above - below) / (2 * kStep));
    }
    return list;
  }

  // Adds the backward nodes.
  Status differentiate() {
    Graph& graph = *op_.built.model.graph;
    Builder builder(graph, type_inference(op_.built.model));
    const std::vector<Value*> inputs = graph.inputs();
    passes::PassStats stats;
    passes::ReverseSweep sweep(builder, passes::depends_on(graph, {inputs.begin(), inputs.end()}),
                               stats, "");
    const std::vector<Node*> nodes = graph.node_list();
    for (std::size_t r = 0; r < weights_.size(); ++r) {
      if (weights_[r].empty()) continue;
      const Value& y = *graph.outputs()[r];
      Value* dy = graph.add_input("dy" + std::to_string(r), y.type);
      op_.built.inputs[dy] = Buffer::doubles(y.tensor_type().dims(), weights_[r]);
      sweep.add(y, dy);
    }
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
      MEZZO_RETURN_IF_ERROR(sweep.visit(**node));
    }
    for (Value* input : inputs) grads_.push_back(sweep.total(*input));
    return builder.status();
  }

  // An empty list claims that the gradient is zero.
  void compare(const Doubles& expected, const Doubles& got) const {
    for (std::size_t k = 0; k < expected.size(); ++k) {
      const std::size_t e = k * (got.empty() ? 1 : stride(got.size()));
      ASSERT_NEAR(got.empty() ? 0.0 : got[e], expected[k],
                  kTolerance * (1.0 + std::abs(expected[k])))
          << "element " << e;
    }
  }

  const OpSample& sample_;
  Decomposed op_;
  std::vector<Doubles> weights_;  // per output; empty where it takes no gradient
  std::vector<Value*> grads_;     // per graph input
};

std::vector<OpSample> samples_of_all_domains() {
  std::vector<OpSample> samples = gradient_samples();
  for (const ContribCase& c : read_contrib_cases()) {
    samples.push_back(c.sample);
    std::size_t results = 0;  // as far as none is left out
    while (results < c.results.size() && !c.results[results].absent) ++results;
    samples.back().results = std::max<std::size_t>(1, results);
  }
  return samples;
}

TEST(Differentiation, EveryDifferentiableOperatorEqualsCentralDifferences) {
  std::map<std::string, int> forms;
  for (const OpSample& sample : samples_of_all_domains()) {
    const OpDef* op = find_op(sample.op, sample.domain);
    ASSERT_NE(op, nullptr) << sample.op;
    const Differentiation how = differentiation_of(*op);
    if (how != Differentiation::kRule && how != Differentiation::kDecomposed) continue;
    if (!sample.result_bounds.empty()) continue;  // the data decide about the result's size
    SCOPED_TRACE(to_string(sample));
    auto decomposed_op = decomposed(sample);
    EXPECT_TRUE(decomposed_op.ok()) << decomposed_op.status().message();
    if (!decomposed_op.ok()) continue;
    if (Check(sample, *std::move(decomposed_op)).run()) ++forms[qualified_name(*op)];
  }
  for (const OpDef* op : all_ops()) {
    const Differentiation how = differentiation_of(*op);
    if (how != Differentiation::kRule && how != Differentiation::kDecomposed) continue;
    EXPECT_GE(forms[qualified_name(*op)], op->domain.empty() ? 3 : 1) << qualified_name(*op);
  }
}

// At kinks the derivative is PyTorch's; compiler/ops/README.md lists them.
TEST(Differentiation, Kinks) {
  struct Kink {
    OpSample sample;
    std::vector<Doubles> expected;  // per graph input, for dy = 1
  };
  const auto at = [](std::vector<double> values) {
    const auto size = static_cast<std::int64_t>(values.size());
    return OperandSample{.dims = {size}, .values = std::move(values)};
  };
  const OperandSample x = at({-1.0, 0.0, 1.0});
  const std::vector<Kink> kinks = {
      {{.op = "Abs", .operands = {x}}, {{-1, 0, 1}}},
      {{.op = "Relu", .operands = {x}}, {{0, 0, 1}}},
      {{.op = "LeakyRelu", .operands = {x}, .attributes = {{"alpha", 0.25F}}}, {{0.25, 0.25, 1}}},
      {{.op = "PRelu", .operands = {x, at({0.25})}}, {{0.25, 0.25, 1}, {-1}}},
      {{.op = "ThresholdedRelu", .operands = {x}}, {{0, 0, 0}}},
      {{.op = "Shrink", .operands = {x}, .attributes = {{"lambd", 1.0F}}}, {{0, 0, 0}}},
      {{.op = "Clip", .operands = {x, constant({}, {-1}), constant({}, {0})}}, {{1, 1, 0}}},
      {{.op = "Max", .operands = {x, at({0, 0, 0})}}, {{0, 0.5, 1}, {1, 0.5, 0}}},
      {{.op = "Min", .operands = {x, at({0, 0, 0})}}, {{1, 0.5, 0}, {0, 0.5, 1}}},
      {{.op = "ReduceMax", .operands = {at({2, 1, 2})}}, {{0.5, 0, 0.5}}},
      {{.op = "ReduceL1", .operands = {x}}, {{-1, 0, 1}}},
      {{.op = "ReduceL2", .operands = {at({0, 0})}}, {{0, 0}}},
      {{.op = "LpNormalization", .operands = {at({0, 0})}}, {{0, 0}}},
      {{.op = "MeanVarianceNormalization",
        .operands = {at({3, 3})},
        .attributes = {{"axes", Ints{0}}}},
       {{0, 0}}},
      {{.op = "ScatterElements",
        .operands = {at({2, 1}), integers({2}, {0, 1}), at({2, 3})},
        .attributes = {{"reduction", std::string("max")}}},
       {{0.5, 0}, {0.5, 1}}},
      {{.op = "Pow", .operands = {at({0, 2}), at({2, 0})}}, {{0, 0}, {0, std::log(2.0)}}},
  };
  for (const Kink& kink : kinks) {
    SCOPED_TRACE(to_string(kink.sample));
    auto built = build_sample(kink.sample, 1);
    ASSERT_THAT(built, IsOk());
    Graph& graph = *built->model.graph;
    Builder builder(graph, type_inference(built->model));
    const Value& y = *built->node->result();
    const std::vector<Value*> inputs = graph.inputs();
    passes::PassStats stats;
    passes::ReverseSweep sweep(builder, passes::depends_on(graph, {inputs.begin(), inputs.end()}),
                               stats, "");
    Value* dy = graph.add_input("dy", y.type);
    const Doubles ones(static_cast<std::size_t>(y.tensor_type().elems()), 1.0);
    built->inputs[dy] = Buffer::doubles(y.tensor_type().dims(), ones);
    sweep.add(y, dy);
    ASSERT_THAT(sweep.visit(*built->node), IsOk());
    std::vector<Value*> grads;
    for (Value* input : inputs) grads.push_back(sweep.total(*input));
    ASSERT_THAT(interpret(graph, built->inputs), IsOk());
    std::size_t next = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!is_floating(inputs[i]->dtype())) continue;
      ASSERT_NE(grads[i], nullptr);
      expect_near(built->inputs.at(grads[i]).to_doubles(), kink.expected.at(next++), 1e-9);
    }
  }
}

// The message names the node and the tensor whose gradient is asked for, also where it arrives at a
// further result.
TEST(Differentiation, WhatHasNoGradientIsNamed) {
  Model model;
  model.set_opset("", 20);
  model.graph = std::make_unique<Graph>("g");
  Graph& graph = *model.graph;
  Value* x = graph.add_input("x", TensorType::of(DType::kFloat32, {4}));
  Builder builder(graph, type_inference(model));
  Node* node = builder.node("Unique", {x}, 4);
  node->name = "sorting";
  passes::PassStats stats;
  passes::ReverseSweep sweep(builder, {x, node->result()}, stats, ". Hint: export without it");
  sweep.add(*node->result(), graph.add_input("dy", node->result()->type));
  EXPECT_THAT(sweep.visit(*node),
              FailsWith(StatusCode::kUnimplemented,
                        testing::AllOf(testing::HasSubstr("node 'sorting' (Unique)"),
                                       testing::HasSubstr("the gradient of 'x' is needed"),
                                       testing::HasSubstr("Hint: export without it"))));
}

// Rules may read every operand that the schema demands.
TEST(Differentiation, MissingOperandsAreNamed) {
  Model model;
  model.set_opset("", 23);
  model.graph = std::make_unique<Graph>("g");
  Graph& graph = *model.graph;
  Value* x = graph.add_input("x", TensorType::of(DType::kFloat32, {2, 4}));
  Value* operands[] = {x};
  Node* node = graph.add_node("RMSNormalization", "", operands, std::vector<std::string>{"y"});
  node->name = "norm";
  node->result()->type = x->type;
  Builder builder(graph, type_inference(model));
  passes::PassStats stats;
  passes::ReverseSweep sweep(builder, {x, node->result()}, stats, "");
  sweep.add(*node->result(), graph.add_input("dy", x->type));
  EXPECT_THAT(
      sweep.visit(*node),
      FailsWith(StatusCode::kInvalidArgument,
                testing::HasSubstr("node 'norm' (RMSNormalization): operand 1 is missing")));
}

}  // namespace
}  // namespace mezzo::test
