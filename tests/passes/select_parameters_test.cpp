// DESIGN section 7, "What is trained".
#include "passes/autodiff/select_parameters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "compiler/onnx/import.h"
#include "tests/passes/pass_case.h"
#include "tests/support/status_test.h"

namespace mezzo::passes {
namespace {

using test::IsOk;
using test::Rejects;
using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kHead = "<ir_version: 10, opset_import: [\"\" : 21]>\n";

std::unique_ptr<Model> typed_model(const std::string& text) {
  auto model = test::value_or_die(import_text(kHead + text));
  PassContext ctx;
  EXPECT_THAT(test::run_named(*model, ctx, "infer-shapes"), IsOk());
  return model;
}

// Name -> reason for what is trained ("+") and what is not ("-").
std::map<std::string, std::string> choices_of(Model& model, const TrainingOptions& options = {},
                                              const std::set<std::string>& computed = {}) {
  const Value* loss = test::value_or_die(find_loss(*model.graph, options.loss_output));
  std::map<std::string, std::string> result;
  for (const ParameterChoice& choice :
       test::value_or_die(select_parameters(*model.graph, *loss, options, computed))) {
    result[choice.value->name()] = (choice.trained ? "+" : "-") + choice.reason;
  }
  return result;
}

constexpr const char* kNet = R"(
g (float[4,3] x, int64[4] labels) => (float loss, float[4,2] logits)
<float[3,2] "fc.weight" = {1,2,3,4,5,6}, float[2] "fc.bias" = {0,0}, float "temperature" = {1.5},
 float "val_7" = {0.5}, float[2] "bn.weight" = {1,1}, float[2] "bn.bias" = {0,0},
 float[2] "bn.running_mean" = {0,0}, float[2] "bn.running_var" = {1,1},
 float[4,2] "mask" = {0,-inf,0,0,-inf,0,0,0}, float[2] "unused" = {3,4}, int64[1] "axes" = {1}>
{
  h = Gemm (x, "fc.weight", "fc.bias")
  [bn] n = BatchNormalization (h, "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var")
  t = Mul (n, "temperature")
  s = Mul (t, "val_7")
  logits = Add (s, "mask")
  loss = SoftmaxCrossEntropyLoss (logits, labels)
  other = Neg ("unused")
})";

TEST(SelectParameters, TrainsWhatTheLossDependsOn) {
  const auto model = typed_model(kNet);
  const std::map<std::string, std::string> expected = {
      {"fc.weight", "+the loss depends on it"},
      {"fc.bias", "+the loss depends on it"},
      {"temperature", "+the loss depends on it"},  // a named scalar may be learned
      {"val_7", "-constant of the exporter"},
      {"bn.weight", "+the loss depends on it"},
      {"bn.bias", "+the loss depends on it"},
      {"bn.running_mean", "-running statistic of node 'bn' (BatchNormalization)"},
      {"bn.running_var", "-running statistic of node 'bn' (BatchNormalization)"},
      {"mask", "-mask"},
      {"unused", "-the loss does not depend on it"}};
  EXPECT_EQ(choices_of(*model), expected);
}

// The zeros that recurrent layers start from and windows are the exporter's; a learned state has a
// name.
TEST(SelectParameters, StatesAndWindowsOfLayers) {
  const auto model = typed_model(R"(
g (float[3,2,1] x) => (float loss)
<float[1,1,1] w = {1}, float[1,1,1] r = {1}, float[1,2,1] val_3 = {0,0}, float[1,2,1] h0 = {0,0},
 float[1,2,1] val_4 = {0,0.5}, int64 step = {1}, float[2] window = {0.5,0.5}>
{
  a, ah = RNN <hidden_size = 1> (x, w, r, , , val_3)
  b, bh = RNN <hidden_size = 1> (x, w, r, , , h0)
  c, ch = RNN <hidden_size = 1> (x, w, r, , , val_4)
  [spectrum] s = STFT (x, step, window)
  la = ReduceMean <keepdims = 0> (ah)
  lb = ReduceMean <keepdims = 0> (bh)
  lc = ReduceMean <keepdims = 0> (ch)
  ls = ReduceMean <keepdims = 0> (s)
  loss = Sum (la, lb, lc, ls)
})");
  const auto choices = choices_of(*model);
  EXPECT_EQ(choices.at("val_3"), "-initial state of zeros");
  EXPECT_EQ(choices.at("h0"), "+the loss depends on it");
  EXPECT_EQ(choices.at("val_4"), "+the loss depends on it");
  EXPECT_EQ(choices.at("window"), "-window of node 'spectrum' (STFT)");
}

// PyTorch's exporter notes what is a parameter of the module and what a buffer (the frequencies of
// rotary embeddings, masks); its word goes before what values look like.
TEST(SelectParameters, WhatTheExporterNotes) {
  const auto model = typed_model(kNet);
  const std::string key = "pkg.torch.export.graph_signature.InputSpec.kind";
  for (const auto& [name, kind] :
       {std::pair("fc.bias", "BUFFER"), std::pair("val_7", "PARAMETER"),
        std::pair("mask", "PARAMETER"), std::pair("bn.running_mean", "PARAMETER")})
    model->graph->value_info.push_back({name, {}, {}, {{key, kind}}});
  const auto choices = choices_of(*model);
  EXPECT_EQ(choices.at("fc.bias"), "-buffer of the module");
  EXPECT_EQ(choices.at("fc.weight"), "+the loss depends on it");
  EXPECT_EQ(choices.at("val_7"), "+the loss depends on it");
  EXPECT_EQ(choices.at("mask"), "+the loss depends on it");
  EXPECT_THAT(choices.at("bn.running_mean"), HasSubstr("running statistic"));
  // What it has computed is trained if a parameter went into it.
  model->graph->metadata.emplace_back("pkg.torch.export.ExportedProgram.graph_signature",
                                      "\n# inputs\np_w: PARAMETER target='net.w'\n"
                                      "b_t: BUFFER target='net.t' persistent=True\n");
  const std::string folded = "pkg.onnxscript.optimizer.folded_from";
  model->graph->value_info.push_back({"bn.weight", {}, {}, {{folded, "['zeros', 'net.t']"}}});
  model->graph->value_info.push_back({"bn.bias", {}, {}, {{folded, "['val_1', 'net.w']"}}});
  const auto computed = choices_of(*model);
  EXPECT_EQ(computed.at("bn.weight"), "-computed by the exporter, from no parameter");
  EXPECT_EQ(computed.at("bn.bias"), "+the loss depends on it");
  TrainingOptions options;
  options.train = {"^fc\\.bias$"};
  EXPECT_EQ(choices_of(*model, options).at("fc.bias"), "+--train");
}

TEST(SelectParameters, MasksOfShiftedWindows) {
  for (const auto& [values, reason] : {std::pair("0,-100,0,0,-100,0", "-mask"),
                                       std::pair("0,-100,0,0,-90,0", "+the loss depends on it"),
                                       std::pair("0,-1,0,0,-1,0", "+the loss depends on it")}) {
    const auto model = typed_model(std::string("g (float[2,3] x) => (float loss)\n"
                                               "<float[2,3] w = {1,2,3,4,5,6}, float[2,3] m = {") +
                                   values +
                                   "}>\n{\na = Mul (x, w)\nb = Add (a, m)\n"
                                   "loss = ReduceSum <keepdims = 0> (b)\n}");
    EXPECT_EQ(choices_of(*model).at("m"), reason) << values;
  }
}

TEST(SelectParameters, FreezeAndTrain) {
  const auto model = typed_model(kNet);
  TrainingOptions options;
  options.freeze = {"^fc\\.", "^bn\\.weight$"};
  options.train = {"^fc\\.bias$", "^val_7$"};
  const auto choices = choices_of(*model, options);
  EXPECT_EQ(choices.at("fc.weight"), "---freeze");
  EXPECT_EQ(choices.at("bn.weight"), "---freeze");
  EXPECT_EQ(choices.at("fc.bias"), "+--train");  // overrules --freeze
  EXPECT_EQ(choices.at("val_7"), "+--train");    // overrules the rules
  EXPECT_EQ(choices.at("bn.bias"), "+the loss depends on it");
}

TEST(SelectParameters, ComputedConstantsAreNoWeights) {
  const auto model = typed_model(kNet);
  EXPECT_EQ(choices_of(*model, {}, {"fc.bias"}).at("fc.bias"), "-computed from constants");
}

TEST(SelectParameters, PatternsMustBeValidAndMatch) {
  const auto model = typed_model(kNet);
  const Value* loss = model->graph->find("loss");
  TrainingOptions options;
  options.freeze = {"["};
  EXPECT_THAT(select_parameters(*model->graph, *loss, options, {}), Rejects("--freeze"));
  options.freeze = {"^encoder"};
  EXPECT_THAT(select_parameters(*model->graph, *loss, options, {}),
              Rejects("--freeze '^encoder': matches no initializer"));
  options.freeze.clear();
  options.train = {"^decoder"};
  EXPECT_THAT(select_parameters(*model->graph, *loss, options, {}),
              Rejects("--train '^decoder': matches no initializer"));
}

TEST(SelectParameters, NothingLeftToTrain) {
  const auto model = typed_model(kNet);
  TrainingOptions options;
  options.freeze = {"."};
  EXPECT_THAT(select_parameters(*model->graph, *model->graph->find("loss"), options, {}),
              Rejects("nothing to train"));
}

TEST(SelectParameters, LowPrecisionParametersAreRefused) {
  const auto model = typed_model(R"(
g (float16[2] x) => (float16 loss) <float16[2] w = {15360, 15360}> {
  a = Mul (x, w)
  loss = ReduceSum <keepdims = 0> (a)
})");
  EXPECT_THAT(select_parameters(*model->graph, *model->graph->find("loss"), {}, {}),
              test::FailsWith(StatusCode::kUnimplemented,
                              HasSubstr("parameter 'w': expected float to train")));
}

TEST(SelectParameters, QuantizationParametersStay) {
  const auto model = typed_model(R"(
g (float[2,2] x) => (float loss)
<float[2,2] w = {1,2,3,4}, float scale = {0.1}, uint8 zero = {0}>
{
  q = QuantizeLinear (x, scale, zero)
  d = DequantizeLinear (q, scale, zero)
  h = MatMul (d, w)
  loss = ReduceMean <keepdims = 0> (h)
})");
  const auto choices = choices_of(*model);
  EXPECT_EQ(choices.at("scale"), "-quantization parameter");
  EXPECT_EQ(choices.at("w")[0], '+');
}

// A mask is told by its values; a bias of zeros and ones (a forget gate) and a vector of ones are
// not.
TEST(SelectParameters, MasksAreToldFromWeights) {
  const auto model = typed_model(R"(
g (float[2,2] x) => (float loss)
<float[2,2] causal = {0,-3.4e38,0,0}, float[2,2] keep = {1,0,1,1}, float[2] gate = {0,1},
 float[2,2] ones = {1,1,1,1}, float[2,2] zeros = {0,0,0,0}, float[2,2] weight = {0,-0.5,1,1}>
{
  a = Add (x, causal)
  b = Mul (a, keep)
  c = Add (b, gate)
  d = Mul (c, ones)
  e = Add (d, zeros)
  f = MatMul (e, weight)
  loss = ReduceMean <keepdims = 0> (f)
})");
  const auto choices = choices_of(*model);
  EXPECT_EQ(choices.at("causal"), "-mask");
  EXPECT_EQ(choices.at("keep"), "-mask");
  for (const char* name : {"gate", "ones", "zeros", "weight"})
    EXPECT_EQ(choices.at(name)[0], '+') << name;
}

// What an operator takes as its weight or bias is one, even if it starts as zeros and ones.
TEST(SelectParameters, WeightsThatLookLikeMasks) {
  const auto model = typed_model(R"(
g (float[3,1,2] x, int64[3] ids) => (float loss)
<float[1,4,2] w = {0,1,0,0,1,0,1,0}, float[1,4,1] r = {1,0,0,1}, float[1,8] b = {0,0,0,0,0,1,0,0},
 float[2,2] eye = {1,0,0,1}, float[2,2] turned = {1,0,0,1}, float[2,2,1] kernel = {1,0,0,1},
 float[2,2] table = {1,0,0,1}, float[2,2] rows = {1,0,0,1}, int64 first = {0}, int64[2] flat = {3,2},
 float[1,2] shift = {0,1}, int64[1] axes = {2}>
{
  s = LSTM <hidden_size = 1> (x, w, r, b)
  f = Reshape (x, flat)
  m = MatMul (f, eye)
  t = Transpose (turned)
  n = MatMul (m, t)
  c = Unsqueeze (n, axes)
  k = Conv (c, kernel)
  e = Gather (table, ids)
  picked = Gather (rows, first)
  g1 = Gemm (e, eye, shift)
  a = Mul (g1, picked)
  la = ReduceMean <keepdims = 0> (a)
  lk = ReduceMean <keepdims = 0> (k)
  ls = ReduceMean <keepdims = 0> (s)
  loss = Sum (la, lk, ls)
})");
  const auto choices = choices_of(*model);
  for (const char* name : {"w", "r", "b", "eye", "turned", "kernel", "table", "shift"})
    EXPECT_EQ(choices.at(name), "+the loss depends on it") << name;
  EXPECT_EQ(choices.at("rows"), "-mask");  // not looked up: its first row is always the one
}

// Older exporters and converters number parameters; then a number says nothing.
TEST(SelectParameters, NumbersAsNames) {
  const char* text = R"(
g (float[2,1,3] x) => (float loss)
<float[1,1,1] "%" = {2}, float[1] "1" = {0}, float[1] "2" = {1}, float[1] "3" = {0}, float[1] "4" = {0},
 float[1] "5" = {1}, float "6" = {3}>
{
  c = Conv (x, "%", "1")
  n = BatchNormalization (c, "2", "3", "4", "5")
  s = Mul (n, "6")
  loss = ReduceMean <keepdims = 0> (s)
})";
  for (const bool proper : {true, false}) {
    std::string each = text;
    for (std::size_t at = 0; (at = each.find('%', at)) != std::string::npos;)
      each.replace(at, 1, proper ? "conv.weight" : "0");
    const auto model = test::value_or_die(import_text(kHead + each));
    PassContext ctx;
    EXPECT_THAT(test::run_named(*model, ctx, "infer-shapes,separate-parameters"), IsOk());
    const auto choices = choices_of(*model, {}, ctx.computed_constants);
    EXPECT_EQ(choices.at("1")[0], '+') << proper;  // a bias of one channel
    // Beside proper names, numbers are the exporter's: ones and zeros that only fill.
    EXPECT_EQ(choices.at("2"), proper ? "-computed from constants" : "+the loss depends on it");
    EXPECT_EQ(choices.at("3"), proper ? "-computed from constants" : "+the loss depends on it");
    EXPECT_EQ(choices.at("6"), proper ? "-constant of the exporter" : "+the loss depends on it");
  }
}

// A frozen parameter is told of, but for the exporter's lone constants.
TEST(SelectParameters, WhatIsNotTrainedIsToldWithItsReason) {
  const auto model = typed_model(kNet);
  PassContext ctx;
  ctx.training_options.freeze = {"^fc.bias$"};
  EXPECT_THAT(test::run_named(*model, ctx, "infer-shapes,prepare-training,differentiate"), IsOk());
  const std::map<std::string, std::string> expected = {{"fc.bias", "--freeze"}, {"mask", "mask"}};
  EXPECT_EQ(ctx.untrained, expected);
}

// Beside FP32 weights, a lone number in 16 bits is where a cast left it.
TEST(SelectParameters, LoneNumbersIn16BitsAreNoParameters) {
  const auto model = typed_model(R"(
g (float[2] x) => (float loss) <float[2] w = {1,2}, float16 tiny = {1}> {
  a = Mul (x, w)
  b = Cast <to = 10> (a)
  c = Add (b, tiny)
  d = Cast <to = 1> (c)
  loss = ReduceSum <keepdims = 0> (d)
})");
  PassContext ctx;
  EXPECT_THAT(test::run_named(*model, ctx, "widen-weights"), IsOk());
  EXPECT_THAT(ctx.records.warnings, testing::IsEmpty());
  EXPECT_EQ(choices_of(*model).at("tiny"), "-lone number in float16");
}

// Names that exporters give to scalar constants, from the acceptance models, and names of modules.
TEST(SelectParameters, ScalarConstantsOfExporters) {
  const auto trained = [](const std::string& name) {
    const auto model = typed_model("g (float[2] x) => (float loss) <float[2] w = {1,2}, float \"" +
                                   name + "\" = {2.0}> { a = Mul (x, w) b = Mul (a, \"" + name +
                                   "\") loss = ReduceMean <keepdims = 0> (b) }");
    return choices_of(*model).at(name)[0] == '+';
  };
  for (const char* name :
       {"val_12", "onnx::pow_exponent::3", "/Constant_3_output_0", "/blocks.0/Constant_output_0",
        "/layers.0/att/Constant_1_output_0", "scalar_tensor_default", "scalar_tensor_default_1",
        "onnx::Mul_12", "17", "const", "constant_3"}) {
    EXPECT_FALSE(trained(name)) << name;
  }
  for (const char* name : {"temperature", "m.logit_scale", "pool.p", "m.out.bias", "scalar_gain",
                           "const_scale", "layer.const.weight", "broadcast/Cast.scale"}) {
    EXPECT_TRUE(trained(name)) << name;
  }
}

TEST(SelectParameters, ExponentsAndEpsilonsAreNotLearned) {
  const auto model = typed_model(R"(
g (float[2,2] x) => (float loss)
<float two = {2.0}, float[1] "pool.p" = {3.0}, float "norm.eps" = {1e-5},
 float "layer.shift" = {5e-4}, float[1] "alpha" = {1e-6}, float[2] w = {1, 2},
 float "act.alpha" = {6}, float clip_max = {9}>
{
  a = Mul (x, w)
  b = Pow (a, two)
  c = Add (b, "norm.eps")
  d = Sqrt (c)
  e = Pow (d, "pool.p")
  f = Add (e, "layer.shift")
  h = Add (f, alpha)
  p = Clip (h, , "act.alpha")
  q = Clip (p, , clip_max)
  loss = ReduceMean <keepdims = 0> (q)
})");
  const auto choices = choices_of(*model);
  EXPECT_EQ(choices.at("two"), "-exponent");
  EXPECT_EQ(choices.at("norm.eps"), "-epsilon");
  EXPECT_EQ(choices.at("clip_max"), "-limit");
  // Learned, whatever their value: a shift, a limit of activations (PACT).
  for (const char* name : {"pool.p", "layer.shift", "alpha", "w", "act.alpha"}) {
    EXPECT_EQ(choices.at(name)[0], '+') << name;
  }
}

// What a branch reads of a parameter counts as use, and is refused rather than forgotten.
TEST(SelectParameters, CapturesInBranchesAreNotForgotten) {
  auto model = typed_model(R"(
g (bool c, float[2] x) => (float loss)
<float[2] w = {1,2}>
{
  a = Mul (x, w)
  b = If (c) <then_branch = t () => (float[2] p) { p = Mul (a, w) }, else_branch = e () => (float[2] q) { q = Neg (a) }>
  d = Add (a, b)
  loss = ReduceMean <keepdims = 0> (d)
})");
  EXPECT_EQ(choices_of(*model).at("w")[0], '+');
  PassContext ctx;
  EXPECT_THAT(
      test::run_named(*model, ctx, "infer-shapes,prepare-training,differentiate"),
      test::FailsWith(StatusCode::kUnimplemented, AllOf(HasSubstr("(If)"), HasSubstr("'a'"))));
}

}  // namespace
}  // namespace mezzo::passes
