// What the exporter's notes on nodes say of merged parameters. (Text has no notes: the other cases
// are in separate-parameters/.)
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/onnx/import.h"
#include "passes/autodiff/exporter_notes.h"
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

// Layers merged because they were equal, one of them called twice: two parameters, not three. So it
// is with what the exporter transposed under a name of its own, and with biases that it left out.
TEST(SeparateParameters, EveryCallOfASeparatedLayerReadsItsOneParameter) {
  const auto model = test::value_or_die(import_text(R"(<ir_version: 10, opset_import: ["" : 21]>
g (float[4,2] x) => (float[4,2] y)
<float[2] "n.0.weight" = {1,1}, float[2] "n.0.bias" = {3,3}, float[2,2] val_1 = {1,2,3,4},
 float[2,2] "fc.weight" = {5,6,7,8}>
{
  a = LayerNormalization (x, "n.0.weight", "n.0.bias")
  b = LayerNormalization (a, "n.0.weight", "n.0.bias")
  c = LayerNormalization (b, "n.0.weight", "n.0.bias")
  d = MatMul (c, val_1)
  e = MatMul (d, val_1)
  f = MatMul (e, val_1)
  h = Gemm (f, "fc.weight")
  y = Gemm (h, "fc.weight")
})"));
  const char* calls[] = {"n(%x, %p_n_0_weight, %p_n_0_bias)",
                         "n(%a, %p_n_1_weight, %p_n_1_bias)",
                         "n(%b, %p_n_1_weight, %p_n_1_bias)",
                         "l(%c, %p_l_0_weight)",
                         "l(%d, %p_l_0_weight)",
                         "l(%e, %p_l_1_weight)",
                         "l(%f, %p_fc_weight, %p_fc_bias)",
                         "l(%h, %p_fc_weight, %p_fc_bias)"};
  std::vector<const Node*> nodes;
  for (const auto& node : model->graph->nodes()) {
    node->metadata = {{"pkg.torch.onnx.fx_node", calls[nodes.size()]}};
    nodes.push_back(node.get());
  }
  PassContext ctx;
  EXPECT_THAT(test::run_named(*model, ctx, "separate-parameters"), IsOk());
  EXPECT_EQ(nodes[0]->operand(1)->name(), "n.0.weight");
  EXPECT_EQ(nodes[1]->operand(1)->name(), "n.1.weight");
  EXPECT_EQ(nodes[2]->operand(1), nodes[1]->operand(1));
  EXPECT_EQ(nodes[2]->operand(2), nodes[1]->operand(2));
  EXPECT_EQ(nodes[3]->operand(1)->name(), "val_1");
  EXPECT_EQ(nodes[4]->operand(1), nodes[3]->operand(1));
  EXPECT_NE(nodes[5]->operand(1), nodes[3]->operand(1));
  ASSERT_NE(nodes[6]->operand(2), nullptr);
  EXPECT_EQ(nodes[7]->operand(2), nodes[6]->operand(2));
}

// The initializers after the pass, in order of name, of a graph where `result` =
// Identity(`weight`), both zero.
std::vector<std::string> after_identity(const std::string& weight, const std::string& result,
                                        const std::string& producer, const std::string& call = "") {
  const auto model = test::value_or_die(
      import_text("<ir_version: 10, opset_import: [\"\" : 21]>\ng (float[4,2] x) => (float[4,2] y) "
                  "<float[2] \"" +
                  weight + "\" = {0,0}> {\n\"" + result + "\" = Identity (\"" + weight +
                  "\")\na = Add (x, \"" + weight + "\")\ny = Add (a, \"" + result + "\")\n}"));
  model->producer_name = producer;
  if (!call.empty()) {
    model->graph->nodes().front()->metadata = {
        {"pkg.torch.onnx.fx_node",
         "%c : [num_users=1] = call_function[target=" + call + "](args = (%p_g,), kwargs = {})"}};
  }
  PassContext ctx;
  EXPECT_THAT(test::run_named(*model, ctx, "separate-parameters"), IsOk());
  std::vector<std::string> names;
  for (const Value* value : model->graph->initializers()) names.push_back(value->name());
  return names;
}

// TorchScript's exporter writes so what it merged. A call of the module's, what the exporter
// computed and ties in others' files are one parameter.
TEST(SeparateParameters, IdentityStandsForAParameterOnlyUnderAParametersName) {
  using testing::ElementsAre;
  const char* torch = "pytorch";
  EXPECT_THAT(after_identity("fc.bias", "norm.bias", torch), ElementsAre("fc.bias", "norm.bias"));
  EXPECT_THAT(after_identity("fc.bias", "attn.in_proj_bias", torch),
              ElementsAre("fc.bias", "attn.in_proj_bias"));
  EXPECT_THAT(after_identity("g", "h", torch), ElementsAre("g", "h"));
  EXPECT_THAT(after_identity("onnx::Mul_3", "onnx::Mul_9", torch),
              ElementsAre("onnx::Mul_3", "onnx::Mul_9"));
  EXPECT_THAT(after_identity("g", "onnx::Mul_9", torch), ElementsAre("g", "onnx::Mul_9"));
  EXPECT_THAT(after_identity("fc.bias", "norm.bias", ""), ElementsAre("fc.bias", "norm.bias"));
  EXPECT_THAT(after_identity("g", "clone", torch, "torch.ops.aten.clone.default"),
              ElementsAre("g"));
  EXPECT_THAT(after_identity("m.g", "clone_1", torch), ElementsAre("m.g"));
  EXPECT_THAT(after_identity("g", "val_3", torch), ElementsAre("g"));
  EXPECT_THAT(after_identity("m.g", "/m/Identity_output_0", torch), ElementsAre("m.g"));
  EXPECT_THAT(after_identity("g", "7", torch), ElementsAre("g"));
  for (const char* name : {"tied", "w2", "model/dense/kernel/Read/ReadVariableOp", "w_t"})
    EXPECT_THAT(after_identity("w", name, "tf2onnx"), ElementsAre("w")) << name;
  EXPECT_THAT(after_identity("encoder.weight", "decoder.proj", ""), ElementsAre("encoder.weight"));
}

// One token for every sample of a fixed batch is one parameter; what differs by sample is not, nor
// what is the module's own under that name, nor anything in files without notes.
TEST(SeparateParameters, ExpandedTokensAreOneParameterWhereNotesAllowIt) {
  const std::string kind = "pkg.torch.export.graph_signature.InputSpec.kind";
  for (const char* noted : {"", "w", "expand"}) {
    const auto model = test::value_or_die(import_text(R"(<ir_version: 10, opset_import: ["" : 21]>
g (float[2,1,2] x) => (float[2,3,2] y)
<float[2,1,2] expand = {1,2,1,2}, float[2,1,2] expand_1 = {1,2,3,4}, float w = {1}>
{
  y = Concat <axis = 1> (expand, x, expand_1)
})"));
    if (*noted != 0) model->graph->value_info.push_back({noted, {}, {}, {{kind, "PARAMETER"}}});
    PassContext ctx;
    EXPECT_THAT(test::run_named(*model, ctx, "separate-parameters,infer-shapes"), IsOk());
    const bool undone = std::string(noted) == "w";
    EXPECT_EQ(to_string(model->graph->find("expand")->type),
              undone ? "float[1,1,2]" : "float[2,1,2]");
    EXPECT_EQ(to_string(model->graph->find("expand_1")->type), "float[2,1,2]");
    EXPECT_EQ(ctx.records.warnings.size(), undone ? 1U : 0U);
  }
}

// A scale of 1 + 0 that the exporter multiplied away leaves the signature alone to tell of it.
TEST(SeparateParameters, ParametersWithoutATraceAreToldOf) {
  const auto model = test::value_or_die(import_text(R"(<ir_version: 10, opset_import: ["" : 21]>
g (float[4,2] x) => (float loss) <float[2,2] "fc.weight" = {5,6,7,8}>
{
  a = MatMul (x, "fc.weight")
  loss = ReduceMean <keepdims = 0> (a)
})"));
  model->graph->metadata = {{"pkg.torch.export.ExportedProgram.graph_signature",
                             "# inputs\np_gate: PARAMETER target='gate'\n"
                             "p_fc_weight: PARAMETER target='fc.weight'\nx: USER_INPUT\n"}};
  EXPECT_THAT(untraced_parameters(*model->graph), testing::ElementsAre("gate"));
}

}  // namespace
}  // namespace mezzo::passes
