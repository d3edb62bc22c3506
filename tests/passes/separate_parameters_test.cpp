// What the exporter's notes on nodes say of merged parameters. (Text has no notes: the other cases
// are in separate-parameters/.)
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/onnx/import.h"
#include "tests/passes/pass_case.h"
#include "tests/support/status_test.h"

namespace mezzo::passes {
namespace {

using test::IsOk;

// torch.export's optimiser stores equal parameters once and leaves zero biases out; the notes on
// nodes say what each call was given.
TEST(SeparateParameters, FollowsTheNotesOfTheExporter) {
  const auto model = test::value_or_die(import_text(R"(<ir_version: 10, opset_import: ["" : 21]>
g (float[4,2] x) => (float[4,2] y)
<float[2] "ln.weight" = {1,1}, float[2] "ln.bias" = {0,0}, float[2,2] "layers.0.fc.weight" = {1,2,3,4}>
{
  a = LayerNormalization (x, "ln.weight", "ln.bias")
  b = Gemm (a, "layers.0.fc.weight")
  c = LayerNormalization (b, "ln.weight", "ln.bias")
  y = Gemm (c, "layers.0.fc.weight")
})"));
  const std::vector<std::pair<std::string, std::string>> notes = {
      {"layer_norm(%x, %p_ln_weight, %p_ln_bias)", "['', 'ln', 'layer_norm']"},
      {"linear(%a, %p_layers_0_fc_weight, %p_layers_0_fc_bias)", "['', 'layers.0.fc', 'linear']"},
      {"layer_norm(%b, %p_norm_weight, %p_norm_bias)", "['', 'norm', 'layer_norm_1']"},
      {"linear(%c, %p_layers_1_fc_weight, %p_layers_1_fc_bias)",
       "['', 'layers.1.fc', 'linear_1']"}};
  std::size_t at = 0;
  for (const auto& node : model->graph->nodes()) {
    node->metadata = {{"pkg.torch.onnx.fx_node", notes[at].first},
                      {"pkg.torch.onnx.name_scopes", notes[at].second}};
    ++at;
  }
  PassContext ctx;
  EXPECT_THAT(test::run_named(*model, ctx, "separate-parameters"), IsOk());
  std::vector<std::string> names;
  for (const Value* value : model->graph->initializers()) names.push_back(value->name());
  EXPECT_THAT(names, testing::UnorderedElementsAre("ln.weight", "ln.bias", "layers.0.fc.weight",
                                                   "layers.0.fc.bias", "norm.weight", "norm.bias",
                                                   "layers.1.fc.weight", "layers.1.fc.bias"));
  const Node& last = *model->graph->nodes().back();
  EXPECT_EQ(last.operand(1)->name(), "layers.1.fc.weight");
  EXPECT_EQ(last.operand(2)->name(), "layers.1.fc.bias");
  ASSERT_EQ(ctx.records.warnings.size(), 1U);
}

// A layer that is called twice has one weight. Notes are in lower case, names are not.
TEST(SeparateParameters, LayersThatAreSharedStayShared) {
  const auto model = test::value_or_die(import_text(R"(<ir_version: 10, opset_import: ["" : 21]>
g (float[4,2] x) => (float[4,2] y)
<float[2] "m.LayerNorm.weight" = {1,1}, float[2] "m.LayerNorm.bias" = {0,0}>
{
  a = LayerNormalization (x, "m.LayerNorm.weight", "m.LayerNorm.bias")
  y = LayerNormalization (a, "m.LayerNorm.weight", "m.LayerNorm.bias")
})"));
  const char* calls[] = {"layer_norm(%x, %p_m_layernorm_weight, %p_m_layernorm_bias)",
                         "layer_norm(%a, %p_m_layernorm_weight, %p_m_layernorm_bias)"};
  std::size_t at = 0;
  for (const auto& node : model->graph->nodes())
    node->metadata = {{"pkg.torch.onnx.fx_node", calls[at++]}};
  PassContext ctx;
  EXPECT_THAT(test::run_named(*model, ctx, "separate-parameters"), IsOk());
  EXPECT_EQ(model->graph->initializers().size(), 2U);
  EXPECT_THAT(ctx.records.warnings, testing::IsEmpty());
}

}  // namespace
}  // namespace mezzo::passes
