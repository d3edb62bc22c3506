#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/onnx/import.h"
#include "interpreted.h"
#include "passes/pass_runner.h"
#include "passes/pipeline.h"

namespace mezzo::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Limits, ALoopWithoutEndIsAnError) {
  InterpreterOptions options;
  options.most_iterations = 100;
  Interpreted model(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1] x) => (float[1] y) {
      y = Loop(, , x) <
        body = b (int64 i, bool go, float[1] s) => (bool on, float[1] t) {
          on = Identity(go)
          t = Neg(s)
        }
      >
    })",
                    options);
  EXPECT_THAT(model.error({model.tensor<float>({1}, {1})}),
              HasSubstr("(Loop): still runs after 100 iterations of all loops. Hint: "));
}

TEST(Limits, LoopsWithinLoopsCountTogether) {
  InterpreterOptions options;
  options.most_iterations = 50;
  Interpreted model(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (int64 n, float[1] x) => (float[1] y) {
      y = Loop(n, , x) <
        body = b (int64 i, bool go, float[1] s) => (bool on, float[1] t) {
          on = Identity(go)
          t = Loop(n, , s) <
            body = c (int64 j, bool go2, float[1] u) => (bool on2, float[1] v) {
              on2 = Identity(go2)
              v = Add(u, x)
            }
          >
        }
      >
    })",
                    options);
  const auto x = model.tensor<float>({1}, {1});
  // 6 + 36 iterations are within the limit, run after run; 7 + 49 are not.
  for (int run = 0; run < 2; ++run) {
    EXPECT_THAT(values_of<float>(model.run({model.scalar<std::int64_t>(6), x})[0]),
                ElementsAre(37));
  }
  EXPECT_THAT(model.error({model.scalar<std::int64_t>(7), x}),
              HasSubstr("still runs after 50 iterations of all loops"));
}

TEST(Limits, MemoryIsBounded) {
  InterpreterOptions options;
  options.most_bytes = 1 << 20;
  Interpreted model(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (int64[r] shape) => (float s) {
      a = ConstantOfShape(shape)
      s = ReduceSum<keepdims = 0>(a)
    })",
                    options);
  EXPECT_THAT(values_of<float>(model.run({model.tensor<std::int64_t>({2}, {100, 100})})[0]),
              ElementsAre(0));
  EXPECT_LE(model.interpreter().peak_bytes(), options.most_bytes);
  EXPECT_THAT(model.error({model.tensor<std::int64_t>({2}, {1000, 1000})}),
              HasSubstr("(ConstantOfShape)"));
  // Sizes whose product overflows, and negative ones.
  const std::int64_t huge = std::int64_t{1} << 40;
  model.error({model.tensor<std::int64_t>({2}, {huge, huge})});
  model.error({model.tensor<std::int64_t>({2}, {-3, 2})});
}

TEST(Limits, MemoryIsGivenBack) {
  InterpreterOptions options;
  options.most_bytes = 1 << 20;
  Interpreted model(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[n] x, int64 n_times) => (float[n] y) {
      y = Loop(n_times, , x) <
        body = b (int64 i, bool go, float[n] s) => (bool on, float[n] t) {
          on = Identity(go)
          a = Exp(s)
          b = Neg(a)
          t = Add(a, b)
        }
      >
    })",
                    options);
  // 64 kB a value, 1000 iterations: 192 MB in all.
  const auto out = model.run({model.tensor<float>({16384}, std::vector<float>(16384, 1)),
                              model.scalar<std::int64_t>(1000)});
  EXPECT_EQ(values_of<float>(out[0])[5], 0);
  EXPECT_LT(model.interpreter().peak_bytes(), 400'000U);
}

TEST(Limits, DivisionByZeroInShapeArithmeticIsAnError) {
  Interpreted model(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[n] x, int64[1] d) => (y) {
      dims = Shape(x)
      rows = Div(dims, d)
      y = Reshape(x, rows)
    })");
  EXPECT_THAT(
      model.run({model.tensor<float>({4}, {1, 2, 3, 4}), model.tensor<std::int64_t>({1}, {1})})[0]
          .tensor.dims,
      ElementsAre(4));
  EXPECT_THAT(
      model.error({model.tensor<float>({4}, {1, 2, 3, 4}), model.tensor<std::int64_t>({1}, {0})}),
      HasSubstr("(Div): Div, operand 1 'b': division of integers by zero"));
}

TEST(Limits, AnIndexOutOfRangeNamesTheNode) {
  Interpreted model(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[3] x, int64[n] at) => (float[n] y) { y = Gather(x, at) })");
  EXPECT_THAT(
      model.error({model.tensor<float>({3}, {1, 2, 3}), model.tensor<std::int64_t>({2}, {1, 3})}),
      HasSubstr("(Gather)"));
}

// It has a batch axis that later ones do not have.
TEST(Limits, ScanOfOpset8IsRefusedByName) {
  auto model = import_text(R"(
    <ir_version: 3, opset_import: ["" : 8]>
    g (float[1,2] start, float[1,3,2] x) => (float[1,2] sum, float[1,3,2] sums) {
      [walk] sum, sums = Scan<num_scan_inputs = 1,
        body = b (float[2] s, float[2] row) => (float[2] t, float[2] u) {
          t = Add(s, row)
          u = Identity(t)
        }>(, start, x)
    })");
  ASSERT_TRUE(model.ok()) << model.status().message();
  passes::PassContext ctx;
  ctx.policy.force_fp32 = true;
  const Status status = passes::run_passes(**model, ctx, passes::interpreter_pipeline(ctx));
  EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
  EXPECT_THAT(status.message(), HasSubstr("node 'walk' (Scan): Scan has a batch axis at opset 8"));
}

}  // namespace
}  // namespace mezzo::test
