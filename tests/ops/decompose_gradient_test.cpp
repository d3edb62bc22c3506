// What decompositions lead to can be differentiated with the catalogue's rules.
#include <cmath>
#include <numeric>
#include <unordered_map>

#include "compiler/ops/op_def.h"
#include "tests/ops/decomposed.h"
#include "tests/support/status_test.h"

namespace mezzo::test {
namespace {

// Reverse mode over the decomposed graph, with the catalogue's rules: the gradient of
// sum(output 0 x weight) by graph input `index`.
StatusOr<Value*> gradient_of(Decomposed& op, std::size_t index, const Doubles& weights) {
  Graph& graph = *op.built.model.graph;
  Builder builder(graph, type_inference(op.built.model));
  Value* y = graph.outputs()[0];
  Value* dy = graph.add_input("dy", y->type);
  op.built.inputs[dy] = Buffer::doubles(y->tensor_type().dims(), weights);
  std::unordered_map<const Value*, Value*> grads = {{y, dy}};
  const std::vector<Node*> nodes = graph.node_list();
  for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {
    GradientContext ctx{builder, **it, {}, {}};
    bool any = false;
    for (const Value* result : (*it)->results()) {
      ctx.result_grads.push_back(grads.count(result) > 0 ? grads.at(result) : nullptr);
      any = any || ctx.result_grads.back() != nullptr;
    }
    const OpDef& def = *find_op(**it);
    if (!any || def.gradient == nullptr) continue;
    for (std::size_t i = 0; i < (*it)->operand_count(); ++i) {
      const Value* operand = (*it)->operand(i);
      ctx.wanted.push_back(operand && is_floating(operand->dtype()) &&
                           !(def.no_gradient_operands >> i & 1U));
    }
    MEZZO_ASSIGN_OR_RETURN(const std::vector<Value*> parts, def.gradient(ctx));
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (parts[i] == nullptr || !ctx.wanted[i]) continue;
      Value*& sum = grads[(*it)->operand(i)];
      sum = sum == nullptr ? parts[i] : builder.mezzo_op("AddN", {sum, parts[i]});
    }
  }
  MEZZO_RETURN_IF_ERROR(builder.status());
  return grads[graph.inputs()[index]];
}

TEST(Decompose, CanBeDifferentiated) {
  const OpSample samples[] = {
      recurrent("LSTM", false),
      recurrent("GRU", true, 1),
      recurrent("RNN", false),
      {.op = "Resize",
       .operands = {f({1, 2, 3, 3}), absent(), constant({4}, {1, 1, 2, 1.5})},
       .attributes = {{"mode", std::string("linear")}}},
      {.op = "InstanceNormalization", .operands = {f({2, 2, 3, 2}), f({2}), f({2})}},
      {.op = "GroupNormalization",
       .operands = {f({2, 4, 3}), f({4}), f({4})},
       .attributes = {{"num_groups", std::int64_t{2}}}},
      {.op = "RMSNormalization", .operands = {f({3, 4}), f({4})}},
      {.op = "PRelu", .operands = {f({2, 3}), f({3})}},
      {.op = "Mish", .operands = {f({5})}},
      {.op = "Tile", .operands = {f({2, 3}), ints({2, 1})}},
  };
  for (const OpSample& sample : samples) {
    SCOPED_TRACE(to_string(sample));
    for (std::size_t index = 0; index < sample.operands.size(); ++index) {
      const OperandSample& operand = sample.operands[index];
      if (operand.constant || operand.absent || !is_floating(operand.dtype)) continue;
      auto op = decomposed(sample);
      ASSERT_THAT(op, IsOk());
      Doubles weights = op->run();
      for (std::size_t i = 0; i < weights.size(); ++i)
        weights[i] = 1.0 + 0.3 * std::sin(1.7 * static_cast<double>(i));
      const auto grad = gradient_of(*op, index, weights);
      ASSERT_THAT(grad, IsOk());
      ASSERT_NE(*grad, nullptr);
      Environment environment = op->built.inputs;
      ASSERT_THAT(interpret(*op->built.model.graph, environment), IsOk());
      const Doubles got = environment.at(*grad).to_doubles();
      Buffer& x = op->built.inputs.at(op->built.model.graph->inputs()[index]);
      constexpr double kStep = 1e-5;
      for (std::size_t e = 0; e < got.size(); ++e) {
        const double kept = x.values()[e];
        const auto loss = [&](double value) {
          x.values()[e] = value;
          const Doubles y = op->run();
          return std::inner_product(y.begin(), y.end(), weights.begin(), 0.0);
        };
        const double expected = (loss(kept + kStep) - loss(kept - kStep)) / (2 * kStep);
        x.values()[e] = kept;
        ASSERT_NEAR(got[e], expected, 1e-6 * (1.0 + std::abs(expected)))
            << "operand " << index << ", element " << e;
      }
    }
  }
}

}  // namespace
}  // namespace mezzo::test
