// The derived backward graph of random models against central differences, in double.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "passes/pass_runner.h"
#include "passes/pipeline.h"
#include "tests/ops/interpreter.h"
#include "tests/property/random_model.h"
#include "tests/support/status_test.h"

namespace mezzo {
namespace {

using test::Buffer;
using test::Environment;
using test::IsOk;

class Gradient : public testing::TestWithParam<std::uint64_t> {};

Environment inputs_of(const Graph& graph, std::uint64_t seed) {
  Environment environment;
  std::mt19937_64 random(seed + 17);
  for (const Value* input : graph.inputs()) {
    std::vector<double> values;
    for (std::int64_t i = 0; i < input->tensor_type().elems(); ++i) {
      values.push_back(static_cast<double>(static_cast<int>(random() % 2001) - 1000) / 1000.0);
    }
    if (input->tensor_type().dims().empty()) values = {1.0};  // the loss gradient
    environment[input] = Buffer::doubles(input->tensor_type().dims(), values);
  }
  return environment;
}

double loss_with(const Graph& graph, const Value& parameter, std::size_t at, double change,
                 std::uint64_t seed) {
  Environment environment = inputs_of(graph, seed);
  std::vector<double> values = parameter.constant()->to_doubles();
  values[at] += change;
  environment[&parameter] = Buffer::doubles(parameter.tensor_type().dims(), values);
  EXPECT_THAT(test::interpret(graph, environment), IsOk());
  return environment.at(graph.find("loss")).values()[0];
}

// Every parameter, three of its elements. Returns the largest gradient seen.
double check_gradients(const Graph& graph, const TrainingRoles& roles, std::uint64_t seed) {
  Environment environment = inputs_of(graph, seed);
  EXPECT_THAT(test::interpret(graph, environment), IsOk());
  double largest = 0;
  for (const auto& [name, gradient_name] : roles.gradients) {
    const Value& parameter = *graph.find(name);
    const std::vector<double> gradient = environment.at(graph.find(gradient_name)).to_doubles();
    const std::size_t count = gradient.size();
    EXPECT_EQ(count, static_cast<std::size_t>(parameter.tensor_type().elems())) << name;
    for (std::size_t at = 0; at < count; at += std::max<std::size_t>(1, count / 3)) {
      constexpr double kStep = 1e-5;
      const double numeric = (loss_with(graph, parameter, at, kStep, seed) -
                              loss_with(graph, parameter, at, -kStep, seed)) /
                             (2 * kStep);
      EXPECT_NEAR(gradient[at], numeric, 1e-7 + 1e-5 * std::fabs(numeric))
          << name << "[" << at << "]";
      largest = std::max(largest, std::fabs(gradient[at]));
    }
  }
  return largest;
}

void check(const std::string& passes_text, const passes::PassContext& base, std::uint64_t first) {
  int trained = 0, alive = 0;
  for (std::uint64_t seed = first; seed < first + 10; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    test::RandomModelOptions options;
    options.smooth = true;
    options.nodes = 10;
    const auto model = test::random_model(seed, options);
    passes::PassContext ctx = base;
    const Status status =
        passes::run_passes(*model, ctx, test::value_or_die(passes::parse_passes(passes_text)));
    if (status.code() == StatusCode::kInvalidArgument)
      continue;  // no weight on the way to the loss
    ASSERT_THAT(status, IsOk());
    ++trained;
    alive += check_gradients(*model->graph, *ctx.training, seed) > 1e-9 ? 1 : 0;
  }
  EXPECT_GT(trained, 3);
  EXPECT_GT(alive, 3);  // gradients that are all zero would prove nothing
}

TEST_P(Gradient, EqualsCentralDifferences) {
  check("infer-shapes,fold-constants,prepare-training,differentiate,dce", {}, GetParam());
}

TEST_P(Gradient, AfterRecognition) {
  passes::PassContext ctx;
  ctx.for_runtime = true;
  check(
      "infer-shapes,fold-constants,decompose,fold-constants,decompose,normalise,fold-constants,"
      "recognise,prepare-training,differentiate,dce,fuse-transposes",
      ctx, GetParam());
}

TEST_P(Gradient, OfPaddedModels) {
  passes::PassContext ctx;
  ctx.for_runtime = true;
  ctx.padding = {8, true};
  check(
      "infer-shapes,fold-constants,normalise,recognise,prepare-training,pad-channels,differentiate,"
      "dce,fuse-transposes",
      ctx, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Seeds, Gradient, testing::Values(0, 10, 20, 30, 40, 50, 60, 70),
                         [](const auto& info) { return "from" + std::to_string(info.param); });

}  // namespace
}  // namespace mezzo
