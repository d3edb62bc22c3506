#include "tests/ops/decomposed.h"

#include "compiler/ops/op_def.h"
#include "passes/cleanup/decompose.h"
#include "passes/cleanup/fold_constants.h"
#include "tests/support/status_test.h"

namespace mezzo::test {

Doubles Decomposed::run(std::size_t output) {
  Environment environment = built.inputs;
  EXPECT_THAT(interpret(*built.model.graph, environment), IsOk());
  return environment.at(built.model.graph->outputs()[output]).to_doubles();
}

Doubles Decomposed::input(std::size_t index) {
  return built.inputs.at(built.model.graph->inputs()[index]).to_doubles();
}

StatusOr<Decomposed> decomposed(const OpSample& sample) {
  MEZZO_ASSIGN_OR_RETURN(BuiltSample built, build_sample(sample, 5));
  Graph& graph = *built.model.graph;
  for (Value* result : built.node->results()) graph.add_output(result);
  passes::PassContext ctx;
  MEZZO_RETURN_IF_ERROR(passes::decompose_for_gradient(built.model, ctx).status());
  for (int round = 0; round < 2; ++round) {  // bodies compute shapes, which folding makes known
    MEZZO_RETURN_IF_ERROR(passes::decompose(built.model, ctx).status());
    MEZZO_RETURN_IF_ERROR(passes::fold_constants(built.model, ctx).status());
  }
  for (const auto& node : graph.nodes()) MEZZO_RETURN_IF_ERROR(lower(*node).status());
  return Decomposed{std::move(built)};
}

void expect_near(const Doubles& got, const Doubles& expected, double tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], expected[i], tolerance) << "element " << i;
}

OpSample recurrent(const std::string& op, bool bidirectional, std::int64_t linear_before_reset) {
  const std::int64_t gates = op == "LSTM" ? 4 : op == "GRU" ? 3 : 1, d = bidirectional ? 2 : 1;
  OpSample sample{
      .op = op,
      .operands = {f({kT, kB, kI}), f({d, gates * kH, kI}, -1, 1), f({d, gates * kH, kH}, -1, 1),
                   f({d, 2 * gates * kH}, -1, 1)},
      .attributes = {{"hidden_size", kH},
                     {"direction", std::string(bidirectional ? "bidirectional" : "forward")}},
      .results = op == "LSTM" ? 3U : 2U};
  if (op == "GRU") sample.attributes.emplace_back("linear_before_reset", linear_before_reset);
  return sample;
}

}  // namespace mezzo::test
