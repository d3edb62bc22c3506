// Optimizers, parameter groups, schedules, moving averages and what a run does when its numbers are
// not finite, on the command line.

#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bad_input.h"
#include "runtime/io/npz.h"
#include "runtime/io/safetensors.h"
#include "tests/support/status_test.h"

namespace mezzo::test {
namespace {

using nlohmann::json;

// A classifier with a normalisation spelled out, and a table that is not trained.
constexpr const char* kModel = R"((float[N,4] x, int64[N] labels) => (float[N,3] scores, float loss)
<float[4] ln_weight = {1,1,1,1}, float[4] ln_bias = {0,0,0,0},
 float[4,5] body_weight = {0.1,0.2,-0.3,0.4,0.5,-0.6,0.7,0.8,0.9,-0.1,0.2,0.3,-0.4,0.5,0.6,0.7,-0.8,0.9,0.1,0.2},
 float[5] body_bias = {0,0,0,0,0},
 float[5,3] head_weight = {0.1,-0.2,0.3,0.4,0.5,-0.6,0.7,0.8,0.9,0.1,0.2,0.3,0.4,-0.5,0.6},
 float[1,3] head_bias = {0,0,0}, int64[2] shape = {0,-1}>
{ n = LayerNormalization(x, ln_weight, ln_bias)
  h = Gemm(n, body_weight, body_bias)
  a = Tanh(h)
  flat = Reshape(a, shape)
  scores = Gemm(flat, head_weight, head_bias)
  loss = SoftmaxCrossEntropyLoss<reduction = "mean">(scores, labels) })";

class Groups : public BadInput {
 protected:
  Groups() { write_model("net.onnxtxt", kModel); }
  Arguments train(const Arguments& more = {}) const {
    Arguments all = BadInput::train(more);
    all[1] = "net.onnxtxt";
    return all;
  }
  json run(const Arguments& more) const {
    const CommandResult result = mezzo(train(more));
    EXPECT_EQ(result.status, 0) << result.err;
    const auto out = std::find(more.begin(), more.end(), "--out");
    return json::parse(read_text(file((out == more.end() ? "run" : *(out + 1)) + "/summary.json")));
  }
  std::map<std::string, std::vector<float>> tensors(const std::string& path) const {
    std::map<std::string, std::vector<float>> result;
    const auto opened = value_or_die(runtime::SafetensorsFile::open(file(path)));
    for (const runtime::SafetensorsEntry& entry : opened.entries()) {
      std::vector<float> values(entry.bytes.size() / sizeof(float));
      if (!values.empty())
        std::memcpy(values.data(), entry.bytes.data(), values.size() * sizeof(float));
      result[entry.name] = values;
    }
    return result;
  }
};

// What looks like a constant and is not trained is told, and why; what the user froze is in the
// summary alone.
TEST_F(Groups, WhatIsNotTrainedIsTold) {
  write_model("scaled.onnxtxt",
              R"((float[N,4] x, int64[N] labels) => (float[N,3] scores, float loss)
<float[4,3] weight = {0.1,-0.2,0.3,0.4,0.5,-0.6,0.7,0.8,0.9,0.1,0.2,0.3}, float[1,3] bias = {0,0,0},
 float[1,3] keep = {1,0,1}, float[3] unused = {1,2,3}, float norm_eps = {1e-5}, float val_7 = {0.5}>
{ h = Gemm(x, weight, bias)
  k = Mul(h, keep)
  e = Add(k, norm_eps)
  scores = Mul(e, val_7)
  loss = SoftmaxCrossEntropyLoss<reduction = "mean">(scores, labels) })");
  Arguments arguments = train({"--freeze", "^bias$"});
  arguments[1] = "scaled.onnxtxt";
  const CommandResult result = mezzo(arguments);
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("  not trained: 'keep' (mask), 'norm_eps' (epsilon)\n"),
            std::string::npos)
      << result.out;
  const json expected = {{"bias", "--freeze"}, {"keep", "mask"}, {"norm_eps", "epsilon"}};
  EXPECT_EQ(json::parse(read_text(file("run/summary.json")))["untrained"], expected);
  const CommandResult whole = mezzo(train());
  EXPECT_EQ(whole.out.find("not trained"), std::string::npos) << whole.out;
}

TEST_F(Groups, FirstMatchWinsAndIsTold) {
  const CommandResult result =
      mezzo(train({"--optimizer", "adamw", "--lr", "0.01", "--weight-decay", "0.1", "--group",
                   "_bias$:weight-decay=0,lr-scale=2", "--group",
                   "^head_:optimizer=sgd,momentum=0.9,lr=0.5", "--group", "^ln_:frozen"}));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("'_bias$': adamw, lr 0.02, betas 0.9,0.999, eps 1e-08, weight decay 0"),
            std::string::npos)
      << result.out;
  EXPECT_NE(result.out.find("'^head_': sgd, lr 0.5, momentum 0.9, weight decay 0.1"),
            std::string::npos);
  EXPECT_NE(result.out.find("'^ln_': frozen"), std::string::npos);
  const json summary = json::parse(read_text(file("run/summary.json")));
  const json& groups = summary["groups"];
  ASSERT_EQ(groups.size(), 4U);
  EXPECT_EQ(groups[0]["name"], "");
  EXPECT_EQ(groups[0]["parameters"], json({"body_weight"}));
  EXPECT_EQ(groups[1]["parameters"], json({"ln_bias", "body_bias", "head_bias"}));
  EXPECT_EQ(groups[2]["parameters"], json({"head_weight"}));
  EXPECT_EQ(groups[2]["optimizer"], "sgd");
  EXPECT_EQ(groups[3]["parameters"], json({"ln_weight"}));
  EXPECT_EQ(groups[3]["frozen"], true);
  EXPECT_EQ(summary["optimizers"].size(), 2U);
  EXPECT_EQ(summary["optimizers"][1]["name"], "sgd");
  EXPECT_EQ(summary["optimizers"][1]["applied_steps"], 3);
  const auto trained = summary["trained"].get<std::vector<std::string>>();
  EXPECT_EQ(std::count(trained.begin(), trained.end(), "ln_weight"), 0) << "frozen";
  EXPECT_EQ(std::count(trained.begin(), trained.end(), "ln_bias"), 1) << "an earlier group has it";
}

TEST_F(Groups, AConfigurationFileTakesObjects) {
  write_text(file("run.json"), R"({"optimizer": "adam", "betas": "0.8,0.9", "group": [
    {"pattern": "^head_", "lr": 0.5, "betas": [0.7, 0.95], "weight_decay": 0.25},
    "^ln_:frozen=true"]})");
  const json groups = run({"--config", "run.json"})["groups"];
  ASSERT_EQ(groups.size(), 3U);
  EXPECT_EQ(groups[1]["settings"], "adam, lr 0.5, betas 0.7,0.95, eps 1e-08, weight decay 0.25");
  EXPECT_EQ(groups[2]["name"], "^ln_");
  write_text(file("bad.json"), R"({"group": [{"lr": 1}]})");
  expect_refusal(train({"--config", "bad.json"}), 2, {"option 'group'", "pattern"});
}

TEST_F(Groups, NormsAndBiasesCanGoWithoutDecay) {
  const json groups = run({"--weight-decay", "0.1", "--no-decay-norms-biases", "--group",
                           "^body_bias$:weight-decay=0.3"})["groups"];
  ASSERT_EQ(groups.size(), 3U);
  EXPECT_EQ(groups[0]["parameters"], json({"body_weight", "head_weight"}));
  EXPECT_EQ(groups[0]["weight_decay"], 0.1);
  EXPECT_EQ(groups[1]["name"], "norms and biases");
  // head_bias has two dimensions: its place in Gemm tells.
  EXPECT_EQ(groups[1]["parameters"], json({"ln_weight", "ln_bias", "head_bias"}));
  EXPECT_EQ(groups[1]["weight_decay"], 0.0);
  EXPECT_EQ(groups[2]["weight_decay"], 0.3) << "what a group sets is not undone";
}

TEST_F(Groups, WrongOnesAreRefused) {
  const auto refuse = [&](const std::string& group, int status, const Arguments& needles) {
    expect_refusal(train({"--group", group}), status, needles);
  };
  refuse("^head_", 2, {"--group: expected PATTERN:key=value"});
  refuse("^head_:", 2, {"PATTERN:key=value"});
  refuse("[:lr=1", 2, {"--group", "not a regular expression"});
  refuse("x:lrr=1", 2, {"unknown key 'lrr'", "Did you mean 'lr'?"});
  refuse("x:lr=abc", 2, {"key 'lr'", "expected a number, got 'abc'"});
  refuse("x:lr=1,lr=2", 2, {"'lr' is given twice"});
  refuse("x:lr=1,lr-scale=2", 2, {"exclude each other"});
  refuse("x:optimizer=adamm", 2, {"Did you mean 'adam"});
  refuse("x:betas=0.9", 2, {"key 'betas'", "expected two numbers"});
  refuse("x:betas=0.9,0.99", 2, {"--group 'x': key 'betas': sgd has none"});
  refuse("x:momentum=2", 2, {"--group 'x': momentum: expected a number in [0, 1), got 2"});
  refuse("x:lr=-1", 2, {"lr: expected"});
  refuse("^haed_weight$:lr=1", 1,
         {"--group '^haed_weight$': matches no parameter", "Did you mean 'head_weight'?"});
  refuse("^haed_:frozen", 1, {"--group '^haed_': matches no parameter"});
  refuse(".:frozen", 1, {"nothing to train"});
  expect_refusal(train({"--group", "head_:lr=1", "--group", "head_weight:lr=2"}), 1,
                 {"--group 'head_weight'", "'head_weight', is in groups given before it"});
  expect_refusal(train({"--freeze", "head_", "--group", "head_:lr=2"}), 1,
                 {"--group 'head_'", "is not trained"});
}

TEST_F(Groups, SettingsOfNoOptimizerInUseAreRefused) {
  expect_refusal(train({"--momentum", "2"}), 2, {"--momentum", "from 0 to below 1"});
  expect_refusal(train({"--optimizer", "adam", "--momentum", "0.9"}), 2,
                 {"--momentum: adam has none"});
  expect_refusal(train({"--betas", "0.9,0.99"}), 2, {"--betas: sgd has none"});
  expect_refusal(train({"--nesterov"}), 2, {"momentum: expected more than 0 with Nesterov"});
  expect_refusal(train({"--momentum", "0.5", "--nesterov", "--dampening", "0.1"}), 2,
                 {"dampening: expected 0 with Nesterov"});
  expect_refusal(train({"--lr-power", "2"}), 2, {"--lr-power", "constant has none", "polynomial"});
  expect_refusal(train({"--ema-decay", "1"}), 2, {"--ema-decay", "below 1"});
  expect_refusal(train({"--preset", "inference"}), 2, {"--preset inference", "only run"});
  expect_refusal(train({"--save-gradients", "4"}), 1, {"--save-gradients 4", "3 steps"});
  EXPECT_EQ(
      mezzo(train({"--optimizer", "adam", "--momentum", "0.9", "--group", "head_:optimizer=sgd"}))
          .status,
      0);
}

TEST_F(Groups, EveryOptimizerAndScheduleRuns) {
  for (const std::string optimizer : {"sgd", "adam", "adamw", "lamb", "adagrad"}) {
    for (const std::string schedule :
         {"constant", "linear", "polynomial", "cosine", "step", "one-cycle"}) {
      Arguments more = {"--optimizer", optimizer, "--schedule", schedule, "--lr", "0.01"};
      if (schedule == "step") more.insert(more.end(), {"--lr-step-size", "1"});
      SCOPED_TRACE(optimizer + " " + schedule);
      const json summary = run(more);
      EXPECT_TRUE(std::isfinite(summary["final_loss"].get<double>()));
    }
  }
  run({"--schedule", "linear", "--lr", "0.8", "--schedule-steps", "4", "--lr-end-factor", "0.5",
       "--out", "linear"});
  std::istringstream lines(read_text(file("linear/metrics.jsonl")));
  std::vector<double> rates;
  for (std::string line; std::getline(lines, line);) rates.push_back(json::parse(line)["lr"]);
  EXPECT_THAT(rates, testing::Pointwise(testing::DoubleNear(1e-12), {0.8, 0.7, 0.6}));
}

TEST_F(Groups, TheCheckpointIsTheWholeModel) {
  run({"--freeze", "^body_weight$", "--group", "^head_bias$:frozen", "--ema-decay", "0.5",
       "--eval-data", "data.npz"});
  const json summary = json::parse(read_text(file("run/summary.json")));
  EXPECT_TRUE(summary.contains("eval_loss"));
  EXPECT_TRUE(summary.contains("ema_eval_loss"));
  EXPECT_TRUE(summary.contains("ema_eval_accuracy"));
  const auto model = tensors("run/checkpoint/model.safetensors");
  const auto average = tensors("run/checkpoint/ema.safetensors");
  ASSERT_EQ(model.size(), 7U);
  EXPECT_EQ(average.size(), 7U);
  EXPECT_FLOAT_EQ(model.at("body_weight")[2], -0.3F);
  EXPECT_EQ(model.at("body_weight"), average.at("body_weight"));
  EXPECT_NE(model.at("head_weight"), average.at("head_weight"));
  EXPECT_EQ(model.at("head_bias"), (std::vector<float>{0, 0, 0}));
  const auto file_of_model =
      value_or_die(runtime::SafetensorsFile::open(file("run/checkpoint/model.safetensors")));
  EXPECT_EQ(file_of_model.find("shape")->dtype, DType::kInt64);
}

// convert --weights: what was trained, normalised by the running statistics.
TEST_F(Groups, TrainedWeightsGoBackIntoTheModel) {
  write_model("norm.onnxtxt",
              R"((float[N,4] x, int64[N] labels) => (float[N,3] scores, float loss)
<float[4] scale = {1,1,1,1}, float[4] shift = {0,0,0,0}, float[4] mean = {0,0,0,0},
 float[4] var = {1,1,1,1}, float[4,3] weight = {0.1,-0.2,0.3,0.4,0.5,-0.6,0.7,0.8,0.9,0.1,0.2,0.3},
 float ratio = {0.5}, bool drops = {1}>
{ n, new_mean, new_var = BatchNormalization<training_mode = 1>(x, scale, shift, mean, var)
  d = Dropout(n, ratio, drops)
  scores = MatMul(d, weight)
  loss = SoftmaxCrossEntropyLoss<reduction = "mean">(scores, labels) })");
  Arguments arguments = train({"--lr", "0.5", "--precision", "fp32", "--eval-data", "data.npz"});
  arguments[1] = "norm.onnxtxt";
  ASSERT_EQ(mezzo(arguments).status, 0);
  const CommandResult converted =
      mezzo(convert("norm.onnxtxt", {"--fp32", "--weights", "run/checkpoint"}));
  ASSERT_EQ(converted.status, 0) << converted.err;
  EXPECT_EQ(converted.err, "");
  ASSERT_EQ(mezzo({"run", "mixed.onnx", "--input", "data.npz", "--output", "y.npz"}).status, 0);
  const auto outputs = value_or_die(runtime::NpzFile::open(file("y.npz")));
  const runtime::ArrayData loss = value_or_die(outputs.read("loss"));
  float got = 0;
  std::memcpy(&got, loss.bytes.data(), sizeof got);
  const json summary = json::parse(read_text(file("run/summary.json")));
  EXPECT_NEAR(got, summary.at("eval_loss").get<double>(), 1e-5);

  // A loop's own initializer, which training moves out of the loop, and an input.
  write_model("loop.onnxtxt",
              R"((float[N,4] x, float[4] shift) => (float[N,4] y) <int64 trips = {2}, bool go = {1}>
{ z = Add(x, shift)
  y = Loop(trips, go, z) <body = b (int64 i, bool c, float[N,4] a) => (bool c2, float[N,4] a2)
      <float[4] scale = {1,2,3,4}> { c2 = Identity(c)
    a2 = Mul(a, scale) }> })");
  const CommandResult loop = mezzo(
      {"convert", "loop.onnxtxt", "-o", "loop.onnx", "--fp32", "--weights", "run/checkpoint"});
  ASSERT_EQ(loop.status, 0) << loop.err;
  EXPECT_EQ(loop.err, "");
  const auto learnt = tensors("run/checkpoint/model.safetensors");
  write_floats("ones.npz", "x", {1, 4}, {1, 1, 1, 1});
  ASSERT_EQ(mezzo({"run", "loop.onnx", "--input", "ones.npz", "--output", "z.npz"}).status, 0);
  const auto looped = value_or_die(runtime::NpzFile::open(file("z.npz")));
  const runtime::ArrayData y = value_or_die(looped.read("y"));
  std::vector<float> values(4);
  std::memcpy(values.data(), y.bytes.data(), y.bytes.size());
  for (std::size_t i = 0; i < 4; ++i) {
    const float scale = learnt.at("scale")[i];
    EXPECT_NEAR(values[i], (1 + learnt.at("shift")[i]) * scale * scale, 1e-5);
  }

  expect_refusal(convert("classifier.onnxtxt", {"--weights", "run/checkpoint"}), 1,
                 {"none of its tensors has the name of an initializer"});
  write_model("wide.onnxtxt", R"((float[N,4] x) => (float[N,2] y)
<float[4,2] weight = {1,2,3,4,5,6,7,8}> { y = MatMul(x, weight) })");
  expect_refusal(convert("wide.onnxtxt", {"--weights", "run/checkpoint/model.safetensors"}), 1,
                 {"'weight': expected float[4,2] as in the model, got float[4,3]"});
  expect_refusal(convert("norm.onnxtxt", {"--weights", "nowhere"}), 1, {"nowhere"});
}

// Saved in the middle and resumed: the files of the uninterrupted run, byte for byte.
TEST_F(Groups, ResumesBitForBit) {
  const Arguments common = {"--optimizer",
                            "lamb",
                            "--lr",
                            "0.01",
                            "--schedule",
                            "polynomial",
                            "--lr-power",
                            "2",
                            "--ema-decay",
                            "0.9",
                            "--weight-decay",
                            "0.1",
                            "--no-decay-norms-biases",
                            "--group",
                            "^head_:optimizer=adagrad,lr=0.1",
                            "--group",
                            "^ln_:frozen",
                            "--schedule-steps",
                            "6"};
  const auto with = [&](Arguments more) {
    more.insert(more.begin(), common.begin(), common.end());
    Arguments all = train(more);
    return all;
  };
  ASSERT_EQ(mezzo(with({"--steps", "6", "--out", "whole"})).status, 0);
  ASSERT_EQ(mezzo(with({"--steps", "3", "--out", "half"})).status, 0);
  const CommandResult resumed =
      mezzo(with({"--steps", "6", "--out", "half", "--resume", "half/checkpoint"}));
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  for (const char* name :
       {"model.safetensors", "ema.safetensors", "optimizer.safetensors", "state.json"}) {
    EXPECT_EQ(read_text(file(std::string("whole/checkpoint/") + name)),
              read_text(file(std::string("half/checkpoint/") + name)))
        << name;
  }
  expect_refusal(
      with({"--steps", "9", "--out", "next", "--resume", "half/checkpoint", "--clip-norm", "1"}), 1,
      {"other options", "--clip-norm: its default then, 1 now"});
  expect_refusal(with({"--steps", "9", "--out", "next", "--resume", "half/checkpoint", "--group",
                       "body_:lr=1"}),
                 1, {"other options", "--group"});
  expect_refusal(with({"--steps", "9", "--out", "next", "--resume", "half/checkpoint",
                       "--save-gradients", "5"}),
                 1, {"--save-gradients 5", "6 steps already"});
}

// A rate that lets the weights explode: without a loss scale the run ends with an error that says
// at which step, and the weights of before are kept.
TEST_F(Groups, ALossThatIsNotFiniteEndsTheRun) {
  write_model("square.onnxtxt", R"((float[N,4] x, int64[N] labels) => (float loss)
<float[4] w = {1,2,3,4}>
{ y = Mul(x, w)  q = Mul(y, y)  r = Mul(q, q)
  l = Cast<to = 1>(labels)  z = Mul(l, l)  m = ReduceMean<keepdims = 0>(z)
  e = ReduceMean<keepdims = 0>(r)  loss = Add(e, m) })");
  Arguments diverging = {
      "train", "square.onnxtxt", "--data", "data.npz", "--batch-size", "4", "--steps",
      "40",    "--lr",           "100",    "--out",    "run"};
  const CommandResult result = mezzo(diverging);
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.err.find("square.onnxtxt: step "), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("Hint: lower --lr"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("run/checkpoint has the weights of before"), std::string::npos);
  const std::vector<float> kept = tensors("run/checkpoint/model.safetensors").at("w");
  for (const float w : kept) EXPECT_TRUE(std::isfinite(w));
  // From the first step on: nothing is left behind.
  diverging[9] = "0.1";
  write_model("inf.onnxtxt", R"((float[N,4] x, int64[N] labels) => (float loss)
<float[4] w = {1,2,3,4}, float big = {1e38}>
{ y = Mul(x, w)  q = Mul(y, y)  b = Mul(q, big)  s = ReduceSum<keepdims = 0>(b)
  l = Cast<to = 1>(labels)  z = ReduceMean<keepdims = 0>(l)  t = Mul(s, big)  loss = Add(t, z) })");
  diverging[1] = "inf.onnxtxt";
  diverging[11] = "never";
  diverging.push_back("--json");  // else what is trained is printed first
  expect_refusal(diverging, 1, {"step 1: the loss is "});
  diverging.insert(diverging.end(), {"--on-overflow", "skip", "--max-skips", "5"});
  const CommandResult skipping = mezzo(diverging);
  EXPECT_EQ(skipping.status, 1);
  EXPECT_NE(skipping.err.find("5 steps in a row skipped without a loss scale"), std::string::npos)
      << skipping.err;
}

}  // namespace
}  // namespace mezzo::test
