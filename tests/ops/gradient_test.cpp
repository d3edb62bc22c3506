// Every gradient rule against central differences, in double on the reference kernels.
#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <set>
#include <string>

#include "compiler/ops/op_def.h"
#include "tests/ops/samples.h"
#include "tests/support/status_test.h"

namespace mezzo::test {
namespace {

// Step and tolerance of the differences: truncation goes with the step squared, rounding with 1e-16
// over the step. Constants in the graph (1 / count, alpha) are float32, hence not tighter.
constexpr double kStep = 1e-5;
constexpr double kTolerance = 2e-7;

// loss = sum over floating results with a gradient of result x weight.
struct Loss {
  std::vector<std::vector<double>> weights;  // per result; empty where the result has none

  double of(const Node& node, const Environment& environment) const {
    double sum = 0.0;
    for (std::size_t r = 0; r < weights.size(); ++r) {
      const double* y = weights[r].empty() ? nullptr : environment.at(node.result(r)).values();
      for (std::size_t i = 0; i < weights[r].size(); ++i) sum += y[i] * weights[r][i];
    }
    return sum;
  }
};

// The results of Split and of layers with states all take a gradient; of the others the first does,
// the rest are statistics.
bool takes_gradient(const Node& node, std::size_t result) {
  return result == 0 || node.is("Split") || node.is("RNN") || node.is("GRU") || node.is("LSTM") ||
         node.is("LinearAttention");
}

class GradientCheck {
 public:
  // Asks for the gradient of operand `only`, or of all if it is negative.
  GradientCheck(BuiltSample built, const OpDef& op, int only)
      : built_(std::move(built)), node_(*built_.node), op_(op), only_(only) {}

  void run() {
    const std::size_t original_results = node_.results().size();
    Builder builder(*built_.model.graph, type_inference(built_.model));
    GradientContext ctx{builder, node_, {}, {}};
    std::mt19937 random(7);
    std::uniform_real_distribution<double> uniform(0.5, 1.5);
    for (std::size_t r = 0; r < original_results; ++r) {
      loss_.weights.emplace_back();
      ctx.result_grads.push_back(nullptr);
      if (!takes_gradient(node_, r)) continue;
      const std::vector<std::int64_t> dims = node_.result(r)->tensor_type().dims();
      Value* dy = built_.model.graph->add_input("dy" + std::to_string(r), node_.result(r)->type);
      ctx.result_grads[r] = dy;
      for (std::int64_t i = 0; i < Buffer::of(DType::kFloat64, dims).desc.elems(); ++i) {
        loss_.weights[r].push_back(uniform(random) * (i % 2 == 0 ? 1.0 : -1.0));
      }
      built_.inputs[dy] = Buffer::doubles(dims, loss_.weights[r]);
    }
    for (std::size_t i = 0; i < node_.operand_count(); ++i) ctx.wanted.push_back(is_wanted(i));
    const auto grads = op_.gradient(ctx);
    ASSERT_THAT(grads, IsOk());
    ASSERT_THAT(builder.status(), IsOk());
    check(*grads);
  }

 private:
  bool is_wanted(std::size_t i) const {
    const Value* operand = node_.operand(i);
    return (only_ < 0 || static_cast<int>(i) == only_) && operand != nullptr &&
           built_.inputs.count(operand) > 0 && is_floating(operand->dtype()) &&
           (op_.no_gradient_operands >> i & 1U) == 0;
  }

  void check(const std::vector<Value*>& grads) {
    Environment environment = built_.inputs;
    ASSERT_THAT(interpret(*built_.model.graph, environment), IsOk());
    bool some_nonzero = false;
    bool any_wanted = false;
    bool claims_zero = false;
    for (std::size_t i = 0; i < node_.operand_count(); ++i) {
      if (!is_wanted(i)) continue;
      any_wanted = true;
      ASSERT_LT(i, grads.size());
      if (grads[i] == nullptr) {  // the rule claims that it is zero everywhere
        claims_zero = true;
        check_operand(i, Buffer::doubles(environment.at(node_.operand(i)).desc.dims, {}),
                      some_nonzero);
        continue;
      }
      const Buffer& got = environment.at(grads[i]);
      EXPECT_EQ(got.desc.dims, environment.at(node_.operand(i)).desc.dims) << "operand " << i;
      check_operand(i, got, some_nonzero);
    }
    EXPECT_TRUE(some_nonzero || claims_zero || !any_wanted) << "all gradients are zero";
    if (only_ < 0) {
      EXPECT_TRUE(any_wanted);
    }
  }

  void check_operand(std::size_t i, const Buffer& got, bool& some_nonzero) {
    for (std::int64_t e = 0; e < got.desc.elems(); ++e) {
      const double expected = difference(*node_.operand(i), e);
      some_nonzero = some_nonzero || std::abs(expected) > 1e-6;
      ASSERT_NEAR(got.values()[e], expected, kTolerance * (1.0 + std::abs(expected)))
          << "operand " << i << ", element " << e;
    }
  }

  // (loss(x + step) - loss(x - step)) / (2 step) for one element of one operand.
  double difference(const Value& operand, std::int64_t element) {
    double losses[2];
    for (const int side : {0, 1}) {
      Environment environment = built_.inputs;
      environment.at(&operand).values()[element] += side == 0 ? kStep : -kStep;
      const Status status = interpret(*built_.model.graph, environment);
      EXPECT_THAT(status, IsOk());
      losses[side] = loss_.of(node_, environment);
    }
    return (losses[0] - losses[1]) / (2 * kStep);
  }

  BuiltSample built_;
  Node& node_;
  const OpDef& op_;
  int only_;
  Loss loss_;
};

// Numbers do not change when samples are added before this one.
std::uint32_t seed_of(const OpSample& sample) {
  std::uint32_t seed = 1;
  for (const char c : to_string(sample)) seed = 31 * seed + static_cast<unsigned char>(c);
  return seed;
}

bool has_floating_operand(const OpSample& sample) {
  return std::any_of(
      sample.operands.begin(), sample.operands.end(),
      [](const OperandSample& operand) { return !operand.absent && is_floating(operand.dtype); });
}

TEST(Gradient, EqualsCentralDifferences) {
  int checked = 0;
  for (const OpSample& sample : all_samples()) {
    const OpDef* op = find_op(sample.op, sample.domain);
    ASSERT_NE(op, nullptr) << sample.op;
    if (op->gradient == nullptr || !has_floating_operand(sample)) continue;
    SCOPED_TRACE(to_string(sample));
    // Rules that share work between operands must also do without the others.
    for (int only = -1; only < static_cast<int>(sample.operands.size()); ++only) {
      auto built = build_sample(sample, seed_of(sample));
      ASSERT_THAT(built, IsOk());
      GradientCheck(*std::move(built), *op, only).run();
    }
    ++checked;
  }
  EXPECT_GT(checked, 150);
}

// Rules must also work where the batch is a symbol: what they build has the operand's shape.
TEST(Gradient, SymbolicBatches) {
  const Dim batch = Dim::symbolic("batch");
  const TensorType rows(DType::kFloat32, {batch, Dim(4)});
  const TensorType cube(DType::kFloat32, {batch, Dim(3), Dim(4)});
  const TensorType image(DType::kFloat32, {batch, Dim(2), Dim(6), Dim(6)});
  struct Case {
    const char* op;
    std::vector<TensorType> operands;
    std::vector<Builder::NamedValue> attributes;
  };
  const Case cases[] = {
      {"Add", {rows, TensorType::of(DType::kFloat32, {4})}, {}},
      {"Mul", {cube, TensorType::of(DType::kFloat32, {3, 1})}, {}},
      {"MatMul", {cube, TensorType::of(DType::kFloat32, {4, 5})}, {}},
      {"Gemm",
       {rows, TensorType::of(DType::kFloat32, {4, 5}), TensorType::of(DType::kFloat32, {5})},
       {}},
      {"Flatten", {image}, {}},
      {"Conv", {image, TensorType::of(DType::kFloat32, {3, 2, 3, 3})}, {}},
      {"MaxPool", {image}, {{"kernel_shape", std::vector<std::int64_t>{2, 2}}}},
      {"GlobalAveragePool", {image}, {}},
      {"Softmax", {rows}, {}},
      {"ReduceMean", {image}, {{"axes", std::vector<std::int64_t>{2, 3}}}},
      {"LayerNormalization", {cube, TensorType::of(DType::kFloat32, {4})}, {}},
      {"GridSample", {image, TensorType(DType::kFloat32, {batch, Dim(3), Dim(3), Dim(2)})}, {}},
      {"LpPool", {image}, {{"kernel_shape", std::vector<std::int64_t>{2, 2}}}},
      {"GlobalLpPool", {image}, {}},
      {"LSTM",
       {TensorType(DType::kFloat32, {Dim(5), batch, Dim(4)}),
        TensorType::of(DType::kFloat32, {1, 12, 4}), TensorType::of(DType::kFloat32, {1, 12, 3})},
       {{"hidden_size", std::int64_t{3}}}},
  };
  for (const Case& sample : cases) {
    SCOPED_TRACE(sample.op);
    Model model;
    model.set_opset("", 17);
    model.graph = std::make_unique<Graph>("g");
    std::vector<Value*> operands;
    for (const TensorType& type : sample.operands)
      operands.push_back(model.graph->add_input("", type));
    Builder builder(*model.graph, type_inference(model));
    Node* node = builder.node(sample.op, operands, 1, sample.attributes);
    Value* dy = model.graph->add_input("dy", node->result()->type);
    GradientContext ctx{builder, *node, {dy}, std::vector<bool>(operands.size(), true)};
    const auto grads = find_op(*node)->gradient(ctx);
    ASSERT_THAT(grads, IsOk());
    ASSERT_THAT(builder.status(), IsOk());
    for (std::size_t i = 0; i < operands.size(); ++i) {
      ASSERT_NE((*grads)[i], nullptr);
      EXPECT_EQ(to_string((*grads)[i]->type), to_string(operands[i]->type)) << "operand " << i;
    }
  }
}

TEST(Gradient, EveryRuleHasASample) {
  std::set<std::pair<std::string, std::string>> sampled;
  for (const OpSample& sample : all_samples()) sampled.insert({sample.domain, sample.op});
  for (const OpDef* op : all_ops()) {
    if (op->gradient == nullptr) continue;
    EXPECT_TRUE(sampled.count({std::string(op->domain), std::string(op->name)}) > 0)
        << op->domain << " " << op->name;
  }
}

}  // namespace
}  // namespace mezzo::test
