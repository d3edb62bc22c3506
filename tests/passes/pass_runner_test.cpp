// The runner with passes that misbehave on purpose: what it catches, says and leaves behind.
#include "passes/pass_runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <map>

#include "compiler/ir/verifier.h"
#include "compiler/onnx/export.h"
#include "compiler/onnx/import.h"
#include "passes/precision/policy_file.h"
#include "passes/reproducer.h"
#include "tests/passes/pass_case.h"
#include "tests/support/status_test.h"
#include "tests/support/temp_dir.h"

namespace mezzo::passes {
namespace {

using test::FailsWith;
using test::IsOk;
using test::Rejects;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kModel = R"(
<ir_version: 10, opset_import: ["" : 21]>
g (float[2,2] x) => (float[2,2] y)
<float[2,2] w = {1, 2, 3, 4}>
{
  [mm] h = MatMul (x, w)
  [relu] y = Relu (h)
})";

Node* relu_of(Model& model) {
  for (const auto& node : model.graph->nodes()) {
    if (node->is("Relu")) return node.get();
  }
  return nullptr;
}

StatusOr<bool> lies(Model& model, PassContext&) {
  model.graph->change_op(relu_of(model), "Neg");
  return false;
}
// Leaves a constant whose type contradicts its data.
StatusOr<bool> breaks(Model& model, PassContext&) {
  model.graph->find("w")->type.tensor.dtype = DType::kFloat16;
  return true;
}
StatusOr<bool> refuses(Model&, PassContext&) { return invalid_argument("relu is not welcome"); }
// Fails only if the MatMul has become low, which needs an assignment and its options.
StatusOr<bool> fails_on_low(Model& model, PassContext& ctx) {
  if (model.graph->find("h")->dtype() == ctx.policy.low) return internal_error("h is low");
  return false;
}
// Needs what assign-precision leaves in the context.
StatusOr<bool> fails_on_assignment(Model&, PassContext& ctx) {
  if (ctx.assignment) return internal_error("there is an assignment");
  return false;
}
// Fails because of what an earlier pass noted in the context: the graph alone does not show it.
StatusOr<bool> notes(Model& model, PassContext& ctx) {
  model.graph->change_op(relu_of(model), "Abs");
  ctx.computed_constants.insert("w");
  return true;
}
StatusOr<bool> fails_on_note(Model&, PassContext& ctx) {
  if (ctx.computed_constants.count("w") > 0) return internal_error("w is noted");
  return false;
}

const PassInfo kLies{"lies", lies, ""}, kBreaks{"breaks", breaks, ""},
    kRefuses{"refuses", refuses, ""},
    kFailsOnLow{"fails-on-low", fails_on_low, "", Condition::kMixed},
    kFailsOnAssignment{"fails-on-assignment", fails_on_assignment, "", Condition::kAssigned},
    kNotes{"notes", notes, ""}, kFailsOnNote{"fails-on-note", fails_on_note, ""};

const PassInfo* pass_named(std::string_view name) {
  for (const PassInfo* pass :
       {&kLies, &kBreaks, &kRefuses, &kFailsOnLow, &kFailsOnAssignment, &kNotes, &kFailsOnNote}) {
    if (pass->name == name) return pass;
  }
  return find_pass(name);
}

std::unique_ptr<Model> small_model() { return test::value_or_die(import_text(kModel)); }

// Does what the RUN line says with the file, as `mezzo opt` does, but knows the passes of this
// test.
Status rerun(const std::string& text_path, const std::string& model_path) {
  const std::string text = test::read_text(text_path);
  const std::string first = text.substr(0, text.find('\n'));
  const std::string run = "# RUN: mezzo opt ";
  if (!first.starts_with(run)) return invalid_argument("no RUN line: " + first);
  MEZZO_ASSIGN_OR_RETURN(const cli::OptOptions options,
                         test::parse_options(first.substr(run.size())));
  MEZZO_ASSIGN_OR_RETURN(const auto model, load_model(model_path));
  MEZZO_ASSIGN_OR_RETURN(PassContext ctx, options.to_context());
  std::vector<const PassInfo*> passes;
  std::istringstream names(options.passes);
  for (std::string name; std::getline(names, name, ',');) passes.push_back(pass_named(name));
  return run_passes(*model, ctx, passes);
}

class PassRunner : public testing::Test {
 protected:
  Status run(Model& model, std::initializer_list<std::string_view> names) {
    std::vector<const PassInfo*> passes;
    for (const std::string_view name : names) passes.push_back(pass_named(name));
    RunnerOptions options;
    options.repro_to = dir_.file("repro");
    return run_passes(model, ctx_, passes, options, &runs_);
  }
  std::string repro() const { return dir_.file("repro") + "/repro.onnxtxt"; }

  test::TempDir dir_;
  PassContext ctx_;
  std::vector<PassRun> runs_;
};

TEST_F(PassRunner, CatchesAPassThatSaysItChangedNothing) {
  const auto model = small_model();
  EXPECT_THAT(run(*model, {"lies"}),
              FailsWith(StatusCode::kInternal, HasSubstr("it says it changed nothing")));
  // The reproducer holds the graph before the pass, with its weights, and fails alike.
  EXPECT_THAT(test::read_text(repro()), AllOf(HasSubstr("Relu"), HasSubstr("{1,2,3,4}")));
  EXPECT_THAT(rerun(repro(), repro()),
              FailsWith(StatusCode::kInternal, HasSubstr("it says it changed nothing")));
}

TEST_F(PassRunner, CatchesABrokenGraph) {
  const auto model = small_model();
  const Status status = run(*model, {"breaks"});
  EXPECT_THAT(status, FailsWith(StatusCode::kInternal,
                                AllOf(HasSubstr("pass 'breaks'"), HasSubstr("'w'"))));
  EXPECT_THAT(status.message(), HasSubstr("to see it again: mezzo opt --passes=breaks"));
  EXPECT_THAT(rerun(repro(), repro()), FailsWith(StatusCode::kInternal, HasSubstr("'w'")));
}

TEST_F(PassRunner, TheUsersFaultLeavesNoReproducer) {
  const auto model = small_model();
  EXPECT_THAT(run(*model, {"refuses"}), Rejects("relu is not welcome"));
  EXPECT_FALSE(std::filesystem::exists(repro()));
}

TEST_F(PassRunner, ReproducerStartsBeforeTheFailingPass) {
  const auto model = small_model();
  ctx_.policy.low = DType::kBFloat16;
  ctx_.policy.pins = {"^no (such|node)$"};
  EXPECT_FALSE(run(*model, {"infer-shapes", "assign-precision", "fails-on-assignment"}).ok());
  const std::string text = test::read_text(repro());
  EXPECT_THAT(
      text,
      HasSubstr("--passes=infer-shapes,assign-precision,fails-on-assignment --precision=bf16"));
  EXPECT_THAT(text, HasSubstr("--pin='^no (such|node)$'"));
  EXPECT_THAT(rerun(repro(), repro()),
              FailsWith(StatusCode::kInternal, HasSubstr("there is an assignment")));
}

// What no option says goes into a file; the options are not repeated there.
TEST_F(PassRunner, ReproducerKeepsTheWholePolicy) {
  const auto model = small_model();
  PrecisionPolicy policy = test::value_or_die(parse_policy(R"({
          "io": "low", "target": "h100", "assign": "propagate", "pad_channels": 16,
          "pins": {"embedding": "low", "normalization": "fp32-statistics", "softmax": "free",
                   "loss": "free", "output_layer": "fp32", "residual_sum": "free"},
          "categories": {"allow": "free", "infer": "low", "clear": "fp32", "deny": "low"},
          "range_check": "off",
          "thresholds": {"mask": -2, "activation": 3, "smallest_constant": 4, "min_flops": 5},
          "rules": [{"name": "r", "op": "Exp", "set": "low"}]})",
                                                           "p"))
                               .resolve();
  policy.pins = {"^no node$"};
  ctx_.policy = policy;
  EXPECT_FALSE(run(*model, {"infer-shapes", "breaks"}).ok());
  const std::string text = test::read_text(repro());
  EXPECT_THAT(text, AllOf(HasSubstr(" --target=h100"), HasSubstr(" --pin='^no node$'"),
                          HasSubstr(" --policy=")));
  PrecisionPolicy again =
      test::value_or_die(read_policy(dir_.file("repro") + "/repro-policy.json")).resolve();
  EXPECT_TRUE(again.pins.empty());
  EXPECT_EQ(again.target, "cpu");
  ASSERT_EQ(again.rules.size(), 1u);
  EXPECT_EQ(again.rules[0].name, "r");
  // The rest is all there: with the options it is the same policy.
  again.low = policy.low;
  again.target = policy.target;
  again.io = policy.io;
  again.assign = policy.assign;
  again.pad_channels = policy.pad_channels;
  again.pins = policy.pins;
  EXPECT_EQ(policy_json(again), policy_json(policy));
}

TEST_F(PassRunner, ReproducerFallsBackToAllPasses) {
  const auto model = small_model();
  EXPECT_FALSE(run(*model, {"infer-shapes", "notes", "dce", "fails-on-note"}).ok());
  const std::string text = test::read_text(repro());
  EXPECT_THAT(text, HasSubstr("--passes=infer-shapes,notes,dce,fails-on-note"));
  EXPECT_THAT(text, HasSubstr("Relu"));  // the graph before the first pass
  EXPECT_THAT(rerun(repro(), repro()), FailsWith(StatusCode::kInternal, HasSubstr("w is noted")));
}

TEST_F(PassRunner, ReproducerKeepsTheTypesThatPassesMade) {
  const auto model = small_model();
  EXPECT_FALSE(
      run(*model, {"infer-shapes", "assign-precision", "insert-casts", "fails-on-low"}).ok());
  EXPECT_THAT(rerun(repro(), repro()), FailsWith(StatusCode::kInternal, HasSubstr("h is low")));
}

TEST_F(PassRunner, ReproducerIsBinaryWhereTextCannotHoldTheModel) {
  const auto model = small_model();
  relu_of(*model)->set_attribute("odd-name", std::int64_t{1});
  const Status status = run(*model, {"breaks"});
  const std::string binary = dir_.file("repro") + "/repro.onnx";
  EXPECT_THAT(status.message(),
              HasSubstr("to see it again: mezzo opt --passes=breaks --precision=fp16 " + binary));
  EXPECT_THAT(test::read_text(repro()), HasSubstr("# The model is in repro.onnx"));
  EXPECT_THAT(rerun(repro(), binary), FailsWith(StatusCode::kInternal, HasSubstr("'w'")));
}

TEST_F(PassRunner, ReproducerIsBinaryWhereWeightsAreLarge) {
  const auto model = small_model();
  const std::vector<float> values(100'000, 0.5F);
  Value* large = model->graph->add_initializer("large", Tensor::from_floats({100'000}, values));
  model->graph->add_output(large);
  EXPECT_FALSE(run(*model, {"breaks"}).ok());
  EXPECT_LT(std::filesystem::file_size(repro()), 10'000u);
  EXPECT_THAT(rerun(repro(), dir_.file("repro") + "/repro.onnx"),
              FailsWith(StatusCode::kInternal, HasSubstr("'w'")));
}

TEST_F(PassRunner, NothingIsWrittenWithoutAFolder) {
  const auto model = small_model();
  EXPECT_THAT(run_passes(*model, ctx_, {&kBreaks}),
              FailsWith(StatusCode::kInternal, HasSubstr("give --dump-to")));
}

TEST_F(PassRunner, ABrokenModelIsSeenBeforeTheFirstPass) {
  const auto model = small_model();
  model->graph->find("w")->type.tensor.dtype = DType::kFloat16;
  EXPECT_THAT(run(*model, {"dce"}),
              FailsWith(StatusCode::kInternal, HasSubstr("before the first pass")));
}

TEST_F(PassRunner, ConditionsMustHold) {
  const auto model = small_model();
  EXPECT_THAT(
      run(*model, {"assign-precision"}),
      Rejects("pass 'assign-precision' needs a graph that is typed. Hint: run 'infer-shapes'"));
  EXPECT_THAT(run(*model, {"infer-shapes", "insert-casts"}),
              Rejects("needs a graph that is assigned"));
  // An assignment speaks of the graph as it was.
  EXPECT_THAT(run(*model, {"infer-shapes", "assign-precision", "notes", "insert-casts"}),
              Rejects("needs a graph that is assigned"));
  // It is used up by insert-casts, also where that changes nothing.
  ctx_.policy.force_fp32 = true;
  EXPECT_THAT(run(*model, {"infer-shapes", "assign-precision", "insert-casts", "insert-casts"}),
              Rejects("needs a graph that is assigned"));
}

TEST_F(PassRunner, SaysWhatEveryPassTook) {
  const auto model = small_model();
  ASSERT_THAT(run(*model, {"infer-shapes", "dce"}), IsOk());
  ASSERT_EQ(runs_.size(), 2u);
  EXPECT_EQ(runs_[0].name, "infer-shapes");
  EXPECT_TRUE(runs_[0].changed);
  EXPECT_FALSE(runs_[1].changed);
  EXPECT_GE(runs_[0].ms, 0);
}

TEST_F(PassRunner, DumpsAfterEveryPass) {
  const auto model = small_model();
  RunnerOptions options;
  options.dump_to = dir_.file("dump/deep");
  ASSERT_THAT(run_passes(*model, ctx_, {find_pass("infer-shapes"), &kNotes}, options), IsOk());
  const auto text = [&](const std::string& name) {
    return test::read_text(options.dump_to + "/" + name);
  };
  EXPECT_THAT(text("0000.start.onnxtxt"), HasSubstr("Relu"));
  EXPECT_THAT(text("0001.after-infer-shapes.onnxtxt"), HasSubstr("Relu"));
  EXPECT_THAT(text("0002.after-notes.onnxtxt"), AllOf(HasSubstr("Abs"), Not(HasSubstr("Relu"))));
  EXPECT_THAT(import_text(text("0002.after-notes.onnxtxt")), IsOk());
}

TEST_F(PassRunner, StopsAndPrintsWhereAsked) {
  const auto model = small_model();
  RunnerOptions options;
  options.stop_after = 1;
  options.print_after = "^infer";
  std::string printed;
  options.print = [&](const std::string& text) { printed += text; };
  ASSERT_THAT(run_passes(*model, ctx_, {find_pass("infer-shapes"), &kBreaks}, options), IsOk());
  EXPECT_THAT(printed, AllOf(HasSubstr("# after infer-shapes"), HasSubstr("MatMul")));
  EXPECT_THAT(import_text(printed), IsOk());
  options.print_after = "[";
  EXPECT_THAT(run_passes(*model, ctx_, {}, options), Rejects("--print-after"));
}

TEST(CommandOptions, GiveTheContextBack) {
  PassContext ctx;
  ctx.policy.low = DType::kBFloat16;
  ctx.policy.assign = AssignMethod::kPropagate;
  ctx.policy.io = IoTypes::kLow;
  ctx.policy.target = "a100";
  ctx.policy.pad_channels = 16;
  ctx.policy.pins = {"a b", "^(x|y)$"};
  ctx.policy.deny_ops = {"Relu"};
  ctx.policy.allow_ops = {"Softmax"};
  ctx.padding = {16, true};
  ctx.for_runtime = true;
  ctx.device = DeviceKind::kCuda;
  ctx.training_options = {"loss", {"^bn"}, {"w$"}, {}};
  ctx.symbol_values = {{"batch", 4}};
  const auto options = test::value_or_die(test::parse_options(command_options(ctx)));
  const PassContext again = test::value_or_die(options.to_context());
  EXPECT_EQ(again.policy.describe(), ctx.policy.describe());
  EXPECT_EQ(again.padding.multiple, 16);
  EXPECT_TRUE(again.for_runtime);
  EXPECT_EQ(again.device, DeviceKind::kCuda);
  EXPECT_EQ(again.training_options.loss_output, "loss");
  EXPECT_EQ(again.training_options.freeze, ctx.training_options.freeze);
  EXPECT_EQ(again.training_options.train, ctx.training_options.train);
  EXPECT_EQ(again.symbol_values, ctx.symbol_values);
}

TEST(ParsePasses, NamesWhatIsMeant) {
  EXPECT_EQ(test::value_or_die(parse_passes("dce,fold-casts")).size(), 2u);
  EXPECT_THAT(parse_passes("dce,fold-cast"),
              Rejects("no pass is named 'fold-cast'. Did you mean 'fold-casts'?"));
}

// Every pipeline fulfils its own conditions, whatever is switched on.
TEST(Pipelines, GiveWhatTheirPassesNeed) {
  for (const bool pad : {false, true}) {
    PassContext ctx;
    ctx.padding.multiple = pad ? 8 : 0;
    for (const auto& pipeline : {convert_pipeline(ctx), training_pipeline(ctx),
                                 inference_pipeline(ctx), run_pipeline(ctx)}) {
      std::vector<Condition> held = {Condition::kNone};
      for (const PassInfo* pass : pipeline) {
        ASSERT_NE(pass, nullptr);
        EXPECT_THAT(held, testing::Contains(pass->precondition)) << pass->name;
        held.push_back(pass->postcondition);
      }
    }
  }
}

}  // namespace
}  // namespace mezzo::passes
