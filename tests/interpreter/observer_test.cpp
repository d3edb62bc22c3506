#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "interpreted.h"

namespace mezzo::test {
namespace {

using ::testing::ElementsAre;

TEST(Observer, SeesEveryNodeInOrderThoseInsideBeforeTheirHolder) {
  std::vector<std::string> seen;
  std::vector<float> sums;
  InterpreterOptions options;
  options.observer = [&](const NodeRun& run) {
    seen.push_back(run.node.op_type());
    if (run.node.is("Add")) {
      sums.push_back(values_of<float>(*run.results[0])[0]);
      // Operands are whole, even those that nobody reads again.
      EXPECT_EQ(values_of<float>(*run.operands[0])[0] + values_of<float>(*run.operands[1])[0],
                sums.back());
    }
    return ok_status();
  };
  Interpreted model(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (int64 n, float[1] x) => (float[1] z) {
      y = Loop(n, , x) <
        body = b (int64 i, bool go, float[1] s) => (bool on, float[1] t) {
          on = Identity(go)
          t = Add(s, s)
        }
      >
      z = Mish(y)
    })",
                    options);
  model.run({model.scalar<std::int64_t>(2), model.tensor<float>({1}, {1})});
  // Mish runs as its function body, and counts as one node.
  EXPECT_THAT(seen, ElementsAre("Identity", "Add", "Identity", "Add", "Loop", "Mish"));
  EXPECT_THAT(sums, ElementsAre(2, 4));
}

TEST(Observer, EndsTheRunByAnError) {
  InterpreterOptions options;
  options.observer = [](const NodeRun& run) {
    return run.node.is("Exp") ? invalid_argument("enough") : ok_status();
  };
  Interpreted model(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1] x) => (float[1] y) {
      a = Neg(x)
      b = Exp(a)
      y = Neg(b)
    })",
                    options);
  EXPECT_EQ(model.error({model.tensor<float>({1}, {1})}), "enough");
}

}  // namespace
}  // namespace mezzo::test
