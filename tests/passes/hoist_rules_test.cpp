// hoist-casts honours every way of a policy to keep a node in FP32.
#include <gtest/gtest.h>

#include "compiler/onnx/import.h"
#include "tests/passes/pass_case.h"
#include "tests/support/status_test.h"

namespace mezzo {
namespace {

constexpr const char* kExpandThenCast = R"(<ir_version: 10, opset_import: ["" : 21]>
g (float[2,1] x) => (float16[2,64] y)
<int64[2] shape = {2, 64}>
{
  [up] a = Expand (x, shape)
  y = Cast <to = 10> (a)
}
)";

// The element type that Expand gives after hoist-casts.
DType expands_in(const passes::PrecisionPolicy& policy) {
  const auto model = test::value_or_die(import_text(kExpandThenCast));
  passes::PassContext ctx;
  ctx.policy = policy;
  EXPECT_THAT(test::run_named(*model, ctx, "infer-shapes,hoist-casts"), test::IsOk());
  for (const auto& node : model->graph->nodes()) {
    if (node->is("Expand")) return node->result()->dtype();
  }
  return DType::kNone;
}

TEST(HoistRules, NothingHolds) { EXPECT_EQ(expands_in({}), DType::kFloat16); }

TEST(HoistRules, ARuleOnNamesHolds) {
  passes::PrecisionPolicy policy;
  policy.rules.emplace_back();
  policy.rules.back().node = "^up$";
  EXPECT_EQ(expands_in(policy), DType::kFloat32);
  policy.rules.back().node = "^down$";
  EXPECT_EQ(expands_in(policy), DType::kFloat16);
}

TEST(HoistRules, ARuleOnOperatorsHolds) {
  passes::PrecisionPolicy policy;
  policy.rules.emplace_back();
  policy.rules.back().ops = {"Expand"};
  policy.rules.back().effect = passes::RuleEffect::kDeny;
  EXPECT_EQ(expands_in(policy), DType::kFloat32);
  policy.rules.back().effect = passes::RuleEffect::kInfer;
  EXPECT_EQ(expands_in(policy), DType::kFloat16);
}

TEST(HoistRules, ACategoryHolds) {
  passes::PrecisionPolicy policy;
  policy.clear = passes::CategoryRun::kFp32;
  EXPECT_EQ(expands_in(policy), DType::kFloat32);
}

}  // namespace
}  // namespace mezzo
