#include "compiler/plan/plan_builder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/onnx/import.h"
#include "model_text.h"
#include "passes/pipeline.h"
#include "tests/support/status_test.h"
#include "tests/support/temp_dir.h"
#include "training_session.h"

namespace mezzo {
namespace {

using test::FailsWith;
using test::ModelText;
using test::SessionOptions;
using test::value_or_die;
using testing::AllOf;
using testing::HasSubstr;

std::shared_ptr<PlanDraft> compile_training(const std::string& text, SessionOptions options = {}) {
  const test::TempDir dir;
  test::write_text(dir.file("m.onnxtxt"), text);
  return value_or_die(cli::compile_model(dir.file("m.onnxtxt"), test::compile_options(options)))
      .draft;
}

// The graph as it is, but for the types of its values.
StatusOr<PlanDraft> build(const std::string& text, const std::string& evaluate = {}) {
  const auto load = [](const std::string& source) {
    auto model = value_or_die(import_text(source));
    passes::PassContext ctx;
    (void)passes::find_pass("infer-shapes")
        ->function(*model, ctx);  // unknown operators stay untyped
    return model;
  };
  const auto model = load(text);
  const auto twin = evaluate.empty() ? nullptr : load(evaluate);
  PlanInputs inputs;
  inputs.model = model.get();
  inputs.evaluate = twin.get();
  return build_plan(inputs);
}

int find(const proto::Plan& plan, const std::string& name) {
  for (int i = 0; i < plan.tensors_size(); ++i) {
    if (plan.tensors(i).name() == name) return i;
  }
  return -1;
}

std::vector<std::string> ops(const proto::Phase& phase) {
  std::vector<std::string> names;
  for (const proto::Step& step : phase.steps()) names.push_back(step.op());
  return names;
}

std::vector<std::int64_t> dims(const google::protobuf::RepeatedField<std::int64_t>& field) {
  return {field.begin(), field.end()};
}

TEST(PlanBuilder, ANodeIsAStepAndAnAliasIsNone) {
  ModelText text;
  text.input("float[2,6] x").output("float[3,4] z").ints("shape", {3, 4});
  text.nodes("y = Relu(x)\nr = Reshape(y, shape)\nz = Tanh(r)");
  const PlanDraft draft = value_or_die(build(text.text()));
  ASSERT_EQ(draft.plan.phases_size(), 1);
  EXPECT_EQ(draft.plan.phases(0).kind(), proto::PHASE_FORWARD);
  EXPECT_EQ(ops(draft.plan.phases(0)), (std::vector<std::string>{"Relu", "Tanh"}));
  const int y = find(draft.plan, "y"), r = find(draft.plan, "r");
  EXPECT_EQ(draft.alias_of[static_cast<std::size_t>(r)], y);
  EXPECT_EQ(dims(draft.plan.tensors(r).dims()), (std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(draft.plan.phases(0).steps(1).inputs(0), r);
}

TEST(PlanBuilder, PortsStandInTheGraphsOrder) {
  ModelText text;
  text.input("float[2] b").input("float[2] a").output("float[2] y").output("float[2] x");
  text.nodes("x = Add(a, b)\ny = Sub(a, b)");
  const proto::Plan plan = value_or_die(build(text.text())).plan;
  EXPECT_EQ(plan.inputs(0).name(), "b");
  EXPECT_EQ(plan.inputs(1).name(), "a");
  EXPECT_EQ(plan.outputs(0).name(), "y");
  EXPECT_EQ(plan.outputs(1).name(), "x");
  EXPECT_EQ(plan.tensors(plan.inputs(0).tensor()).role(), proto::ROLE_INPUT);
  EXPECT_EQ(plan.inputs(0).evaluate_tensor(), -1);
}

TEST(PlanBuilder, SmallConstantsAreInlineLargeOnesInTheWeightsFile) {
  ModelText text;
  text.input("float[1024] x")
      .input("float[1025] v")
      .output("float[1024] y")
      .output("float[1025] w");
  text.filled("small", {1024}, 0.5F)
      .filled("large", {1025}, 0.5F)
      .nodes("y = Add(x, small)\nw = Add(v, large)");
  const PlanDraft draft = value_or_die(build(text.text()));
  const proto::Tensor& small = draft.plan.tensors(find(draft.plan, "small"));
  const proto::Tensor& large = draft.plan.tensors(find(draft.plan, "large"));
  EXPECT_EQ(small.inline_data().size(), 4096U);
  EXPECT_FALSE(small.in_weights_file());
  EXPECT_TRUE(large.inline_data().empty());
  EXPECT_TRUE(large.in_weights_file());
  ASSERT_EQ(draft.weights.size(), 1U);
  EXPECT_EQ(draft.weights.begin()->first, find(draft.plan, "large"));
}

// Such an alias has no arena to lie in: it names the same bytes of the file.
TEST(PlanBuilder, AnAliasOfAWeightNamesTheSameBytes) {
  ModelText text;
  text.input("float[40,50] x").output("float[40,50] y").weight("w", {2000}).ints("shape", {40, 50});
  text.nodes("m = Reshape(w, shape)\ny = Mul(x, m)");
  const PlanDraft draft = value_or_die(build(text.text()));
  const int m = draft.plan.phases(0).steps(0).inputs(1);
  EXPECT_EQ(dims(draft.plan.tensors(m).dims()), (std::vector<std::int64_t>{40, 50}));
  EXPECT_TRUE(draft.plan.tensors(m).in_weights_file());
  EXPECT_EQ(draft.plan.tensors(m).name(), "w");
  EXPECT_EQ(draft.weights.size(), 1U);
}

// Passes name constants they make; in the two graphs one name may stand for different numbers.
TEST(PlanBuilder, ConstantsOfOneNameAreSharedOnlyIfTheyAreEqual) {
  for (const std::int64_t elems : {3, 3000}) {
    const auto model = [&](float value) {
      ModelText text;
      text.input("float[" + std::to_string(elems) + "] x")
          .output("float[" + std::to_string(elems) + "] y");
      text.filled("c", {elems}, value).nodes("y = Add(x, c)");
      return text.text();
    };
    const auto constants = [](const PlanDraft& draft) {
      std::set<int> tensors;
      for (const proto::Phase& phase : draft.plan.phases())
        tensors.insert(phase.steps(0).inputs(1));
      return tensors;
    };
    const PlanDraft same = value_or_die(build(model(1), model(1)));
    EXPECT_EQ(constants(same).size(), 1U);
    const PlanDraft other = value_or_die(build(model(1), model(2)));
    const std::set<int> tensors = constants(other);
    ASSERT_EQ(tensors.size(), 2U);
    if (elems == 3) continue;
    // The weights file finds them by name.
    EXPECT_NE(other.plan.tensors(*tensors.begin()).name(),
              other.plan.tensors(*tensors.rbegin()).name());
  }
}

TEST(PlanBuilder, AMasterHasOneLowCopyAndNoCastStep) {
  // w is read twice, so are its casts.
  ModelText text;
  text.input("float[N,8] x")
      .input("int64[N] labels")
      .output("float[N,8] logits")
      .output("float loss")
      .weight("w", {8, 8});
  text.nodes(
      "h = MatMul(x, w)\nr = Relu(h)\nlogits = MatMul(r, w)\nloss = "
      "SoftmaxCrossEntropyLoss(logits, labels)");
  SessionOptions options;
  options.precision = "bf16";
  const auto draft = compile_training(text.text(), options);
  const proto::Plan& plan = draft->plan;
  ASSERT_EQ(plan.parameters_size(), 1);
  const proto::Parameter& w = plan.parameters(0);
  EXPECT_EQ(plan.tensors(w.master()).role(), proto::ROLE_MASTER);
  EXPECT_EQ(plan.tensors(w.master()).dtype(), static_cast<std::uint32_t>(DType::kFloat32));
  ASSERT_GE(w.low_copy(), 0);
  EXPECT_EQ(plan.tensors(w.low_copy()).dtype(), static_cast<std::uint32_t>(DType::kBFloat16));
  int low_copies = 0;
  for (const proto::Tensor& tensor : plan.tensors())
    low_copies += tensor.role() == proto::ROLE_LOW_COPY ? 1 : 0;
  EXPECT_EQ(low_copies, 1);
  for (const proto::Phase& phase : plan.phases()) {
    for (const proto::Step& step : phase.steps()) {
      EXPECT_FALSE(step.op() == "Cast" && step.inputs(0) == w.master()) << step.node();
    }
  }
  EXPECT_EQ(plan.training().precision(), "bf16");

  options.precision = "fp32";
  EXPECT_EQ(compile_training(text.text(), options)->plan.parameters(0).low_copy(), -1);
}

TEST(PlanBuilder, TrainingHasItsPhasesScalarsAndGradients) {
  const auto draft = compile_training(test::mlp_text(/*dropout=*/true));
  const proto::Plan& plan = draft->plan;
  ASSERT_EQ(plan.phases_size(), 2);
  EXPECT_EQ(plan.phases(1).kind(), proto::PHASE_BACKWARD);
  EXPECT_EQ(plan.parameters_size(), 4);
  for (const proto::Parameter& p : plan.parameters()) {
    EXPECT_EQ(plan.tensors(p.gradient()).role(), proto::ROLE_GRADIENT) << p.name();
    EXPECT_EQ(dims(plan.tensors(p.gradient()).dims()), dims(plan.tensors(p.master()).dims()));
    EXPECT_EQ(dims(p.logical_dims()), dims(plan.tensors(p.master()).dims()));
  }
  EXPECT_EQ(plan.tensors(plan.training().loss_gradient()).role(), proto::ROLE_INPUT);
  EXPECT_GE(plan.training().random_counter(), 0);
  EXPECT_EQ(plan.training().evaluate_loss(), -1);
  // What only the runtime sets is no port.
  EXPECT_EQ(plan.inputs_size(), 2);
  EXPECT_EQ(plan.outputs_size(), 2);
  // The forward phase ends with the loss: it holds no gradient.
  for (const std::string& op : ops(plan.phases(0)))
    EXPECT_EQ(op.find("Grad"), std::string::npos) << op;
}

TEST(PlanBuilder, RunningStatisticsAreStates) {
  const auto draft = compile_training(test::cnn_text());
  const proto::Plan& plan = draft->plan;
  ASSERT_EQ(plan.states_size(), 6);
  for (const proto::State& s : plan.states()) {
    EXPECT_EQ(plan.tensors(s.tensor()).role(), proto::ROLE_STATE) << s.name();
    EXPECT_EQ(plan.tensors(s.next()).role(), proto::ROLE_ACTIVATION) << s.name();
    EXPECT_NE(s.tensor(), s.next());
  }
}

TEST(PlanBuilder, TheEvaluatePhaseSharesInputsParametersAndStates) {
  SessionOptions options;
  options.evaluate = true;
  options.precision = "bf16";
  const auto draft = compile_training(test::cnn_text(), options);
  const proto::Plan& plan = draft->plan;
  ASSERT_EQ(plan.phases_size(), 3);
  ASSERT_EQ(plan.phases(2).kind(), proto::PHASE_EVALUATE);
  int masters = 0, states = 0;
  for (const proto::Tensor& tensor : plan.tensors()) {
    masters += tensor.role() == proto::ROLE_MASTER ? 1 : 0;
    states += tensor.role() == proto::ROLE_STATE ? 1 : 0;
  }
  EXPECT_EQ(masters, plan.parameters_size());
  EXPECT_EQ(states, plan.states_size());
  std::set<int> read;
  for (const proto::Step& step : plan.phases(2).steps()) {
    for (const int input : step.inputs()) {
      if (input < 0) continue;
      read.insert(input);
      EXPECT_NE(plan.tensors(input).role(), proto::ROLE_LOW_COPY) << "evaluation is FP32";
    }
  }
  for (const proto::Parameter& p : plan.parameters())
    EXPECT_TRUE(read.count(p.master()) > 0) << p.name();
  for (const proto::State& s : plan.states()) EXPECT_TRUE(read.count(s.tensor()) > 0) << s.name();
  EXPECT_TRUE(read.count(plan.inputs(0).tensor()) > 0);
  EXPECT_EQ(plan.inputs(0).evaluate_tensor(), plan.inputs(0).tensor());
  for (const proto::Port& output : plan.outputs()) {
    EXPECT_GE(output.evaluate_tensor(), 0);
    EXPECT_NE(output.evaluate_tensor(), output.tensor());
  }
  EXPECT_EQ(plan.training().evaluate_loss(), plan.outputs(1).evaluate_tensor());
}

TEST(PlanBuilder, LogicalDimsAreTheModels) {
  SessionOptions options;
  options.pad_multiple = 8;
  const auto draft = compile_training(test::cnn_text(), options);
  const proto::Plan& plan = draft->plan;
  // Between conv1 and conv2 lies a Sigmoid, where the padding ends.
  const std::map<std::string, std::vector<std::int64_t>> physical = {
      {"conv1_weight", {8, 3, 3, 3}},
      {"conv2_weight", {16, 5, 3, 3}},
      {"conv3_weight", {16, 16, 3, 3}},
      {"bn2_weight", {16}}};
  const std::map<std::string, std::vector<std::int64_t>> logical = {
      {"conv1_weight", {5, 3, 3, 3}},
      {"conv2_weight", {11, 5, 3, 3}},
      {"conv3_weight", {11, 11, 3, 3}},
      {"bn2_weight", {11}}};
  std::size_t found = 0;
  for (const proto::Parameter& p : plan.parameters()) {
    if (physical.count(p.name()) == 0) continue;
    ++found;
    EXPECT_EQ(dims(p.logical_dims()), logical.at(p.name())) << p.name();
    EXPECT_EQ(dims(plan.tensors(p.master()).dims()), physical.at(p.name())) << p.name();
    EXPECT_EQ(dims(plan.tensors(p.gradient()).dims()), physical.at(p.name())) << p.name();
  }
  EXPECT_EQ(found, physical.size());
}

// d loss / d b1 and d loss / d b2 are one value of the graph.
TEST(PlanBuilder, ParametersWithOneGradientEachGetIt) {
  ModelText text;
  text.input("float[N,3] x")
      .input("int64[N] labels")
      .output("float loss")
      .weight("b1", {3})
      .weight("b2", {3});
  text.nodes("s = Add(x, b1)\nt = Add(s, b2)\nloss = SoftmaxCrossEntropyLoss(t, labels)");
  const auto session = value_or_die(test::Session::open(text.text(), {}));
  session->steps(1);
  ASSERT_EQ(session->plan().parameters_size(), 2);
  const auto a = session->tensor(session->plan().parameters(0).gradient());
  EXPECT_EQ(a, session->tensor(session->plan().parameters(1).gradient()));
  EXPECT_NE(a, std::vector<float>(3, 0.0F));
}

// A normalisation of the input has no gradient for it, a frozen scale none either; the kernels
// write them all the same.
TEST(PlanBuilder, ResultsThatNobodyReadsHaveABufferWhereTheKernelNeedsOne) {
  ModelText text;
  text.input("float[N,3,4] x")
      .input("int64[N] labels")
      .output("float[N,3] logits")
      .output("float loss");
  text.filled("bn_scale", {3}, 1)
      .weight("bn_bias", {3})
      .filled("bn_mean", {3}, 0)
      .filled("bn_var", {3}, 1);
  text.filled("ln_scale", {4}, 1).weight("ln_bias", {4}).weight("w", {12, 3});
  text.nodes(R"(
    b = BatchNormalization(x, bn_scale, bn_bias, bn_mean, bn_var)
    n = LayerNormalization(b, ln_scale, ln_bias)
    f = Flatten(n)
    logits = MatMul(f, w)
    loss = SoftmaxCrossEntropyLoss(logits, labels))");
  for (const std::vector<std::string>& freeze : {std::vector<std::string>{},
                                                 {"bn_scale", "bn_bias", "ln_scale"},
                                                 {"bn_scale", "ln_scale"},
                                                 {"ln_bias"}}) {
    for (const std::string precision : {"fp32", "bf16"}) {
      SessionOptions options;
      options.freeze = freeze;
      options.precision = precision;
      const auto session = value_or_die(test::Session::open(text.text(), options));
      const auto metrics = session->steps(3);
      EXPECT_LT(metrics.back().loss, 10);
      EXPECT_EQ(session->plan().parameters_size(), static_cast<int>(5 - freeze.size()));
    }
  }
}

// Of forward and backward: evaluating is no part of a step.
TEST(PlanBuilder, TheSummaryCountsTheWorkOfAStep) {
  ModelText text;
  text.input("float[2,6] x").input("float[6,4] w").output("float[2,4] y");
  text.nodes(
      "a = Cast <to = 16> (x)\nb = Cast <to = 16> (w)\nz = MatMul(a, b)\ny = Cast <to = 1> (z)");
  constexpr double kProduct = 2.0 * 2 * 4 * 6, kElements = 12 + 24 + 8;
  const PlanDraft draft = value_or_die(build(text.text(), text.text()));
  const proto::Summary& summary = draft.plan.summary();
  EXPECT_GE(summary.flops(), kProduct);
  EXPECT_LE(summary.flops(), kProduct + kElements);
  EXPECT_GE(summary.low_flops(), kProduct);
  EXPECT_LE(summary.low_flops(), summary.flops());
  EXPECT_EQ(summary.casts(), 3U);

  // Both phases of training, which all but for the weights grow with the batch.
  SessionOptions options;
  const auto work = [&](std::int64_t batch) {
    options.batch_size = batch;
    return compile_training(test::mlp_text(), options)->plan.summary().flops();
  };
  EXPECT_GT(work(32), 1.8 * work(16));
  EXPECT_LE(work(32), 2 * work(16));
}

TEST(PlanBuilder, SymbolicShapesAreRefusedWithAHint) {
  ModelText text;
  text.input("float[batch,6] x").output("float[batch,6] y").nodes("y = Relu(x)");
  EXPECT_THAT(build(text.text()),
              FailsWith(StatusCode::kUnimplemented,
                        AllOf(HasSubstr("'x'"), HasSubstr("static shape"), HasSubstr("--dim"))));
}

TEST(PlanBuilder, AnUnknownOperatorIsNamed) {
  const std::string text =
      "<ir_version: 8, opset_import: [\"\": 17, \"my.domain\": 1]>\ng (float[2] x) => (float[2] y) "
      "{ y = my.domain.Frobnicate(x) }";
  EXPECT_THAT(build(text), FailsWith(StatusCode::kUnimplemented,
                                     AllOf(HasSubstr("Frobnicate"), HasSubstr("my.domain"))));
}

}  // namespace
}  // namespace mezzo
