// What the options do when they are given rightly: help, configuration files, repeated options,
// results on standard output, progress on standard error.

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli_runner.h"

namespace mezzo::test {
namespace {

namespace fs = std::filesystem;
using Arguments = std::vector<std::string>;
using nlohmann::json;

class Options : public CliTest {
 protected:
  Arguments train(const Arguments& more = {}) const {
    Arguments all = {"train", "classifier.onnxtxt", "--data", "data.npz", "--batch-size",
                     "4",     "--no-shuffle"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  CommandResult expect_success(const Arguments& arguments) const {
    CommandResult result = mezzo(arguments);
    EXPECT_EQ(result.status, 0) << result.err;
    return result;
  }
  std::vector<json> metrics(const std::string& folder) const {
    std::vector<json> rows;
    std::istringstream lines(read_text(file(folder + "/metrics.jsonl")));
    for (std::string line; std::getline(lines, line);) rows.push_back(json::parse(line));
    return rows;
  }
  std::string weights(const std::string& folder) const {
    return read_text(file(folder + "/checkpoint/model.safetensors"));
  }
};

constexpr const char* kCommandNames[] = {"convert", "train",  "compile", "run",
                                         "inspect", "report", "bench",   "opt"};

TEST_F(Options, HelpOfEveryCommand) {
  const CommandResult all = expect_success({"--help"});
  EXPECT_EQ(all.err, "");
  for (const char* command : kCommandNames) {
    SCOPED_TRACE(command);
    EXPECT_NE(all.out.find(command), std::string::npos);
    const CommandResult one = expect_success({command, "--help"});
    EXPECT_EQ(one.err, "");
    EXPECT_NE(one.out.find(std::string("Usage: mezzo ") + command), std::string::npos) << one.out;
    EXPECT_NE(one.out.find(std::string("\n  mezzo ") + command), std::string::npos) << "no example";
    // No option goes unexplained: its line, or the next one, has a description.
    std::istringstream lines(one.out);
    for (std::string line, next; std::getline(lines, line);) {
      if (line.rfind("  -", 0) != 0) continue;
      if (line.size() > 34 && line.find_last_not_of(' ') >= 34) continue;
      ASSERT_TRUE(std::getline(lines, next));
      EXPECT_EQ(next.find_first_not_of(' '), 34U) << line;
    }
  }
  EXPECT_EQ(expect_success({"--version"}).out.rfind("mezzo ", 0), 0U);
}

TEST_F(Options, TrainHelpNamesWhatTheDesignNames) {
  const std::string help = expect_success({"train", "--help"}).out;
  for (const char* option : {"--data",
                             "--batch-size",
                             "--no-shuffle",
                             "--steps",
                             "--epochs",
                             "--loss-output",
                             "--freeze",
                             "--train",
                             "--optimizer",
                             "--lr",
                             "--momentum",
                             "--weight-decay",
                             "--betas",
                             "--eps",
                             "--clip-norm",
                             "--accumulate",
                             "--group",
                             "--no-decay-norms-biases",
                             "--ema-decay",
                             "--max-skips",
                             "--schedule",
                             "--warmup-steps",
                             "--precision",
                             "--loss-scale",
                             "--loss-scale-init",
                             "--loss-scale-growth",
                             "--loss-scale-backoff",
                             "--loss-scale-growth-interval",
                             "--loss-scale-min",
                             "--loss-scale-max",
                             "--save-gradients",
                             "--seed",
                             "--device",
                             "--resume",
                             "--config",
                             "--out",
                             "--pin",
                             "--fp32",
                             "--pad-channels",
                             "--assign",
                             "--target",
                             "--json"}) {
    EXPECT_NE(help.find(option), std::string::npos) << option;
  }
}

TEST_F(Options, ConfigurationFile) {
  write_text(file("run.json"),
             R"({"steps": 5, "lr": 0.25, "optimizer": "adam", "no-shuffle": true, "json": false,
                                   "freeze": ["^b$"], "out": "from file", "loss-scale": "static:8", "precision": "fp16"})");
  expect_success({"train", "classifier.onnxtxt", "--data", "data.npz", "--batch-size", "4",
                  "--config", "run.json"});
  const auto rows = metrics("from file");
  ASSERT_EQ(rows.size(), 5U);
  EXPECT_EQ(rows[0]["lr"], 0.25);
  EXPECT_EQ(rows[0]["loss_scale"], 8.0);
  expect_success(train({"--steps", "5", "--lr", "0.25", "--optimizer", "adam", "--freeze", "^b$",
                        "--out", "typed", "--loss-scale", "static:8", "--precision", "fp16"}));
  EXPECT_EQ(weights("typed"), weights("from file"));
  EXPECT_FALSE(weights("typed").empty());
}

TEST_F(Options, TheCommandLineGoesBeforeTheConfigurationFile) {
  write_text(file("run.json"), R"({"steps": 5, "lr": 0.25, "data": "none.npz", "batch-size": 4})");
  expect_success({"train", "classifier.onnxtxt", "--config=run.json", "--data", "data.npz",
                  "--lr=0.5", "--epochs", "2", "--out", "run"});
  const auto rows = metrics("run");
  EXPECT_EQ(rows.size(), 8U);  // two epochs of 16 samples, not five steps
  EXPECT_EQ(rows[0]["lr"], 0.5);
}

// One value each time, whatever it looks like.
TEST_F(Options, RepeatedPatterns) {
  const CommandResult dash =
      expect_success({"convert", "--pin", "product", "--pin", "^scores$", "classifier.onnxtxt",
                      "-o", "m.onnx", "--json", "r.json", "--precision", "fp16"});
  const json report = json::parse(read_text(file("r.json")));
  int pinned = 0;
  for (const json& node : report["nodes"])
    pinned += node["cause"].get<std::string>().rfind("--pin", 0) == 0 ? 1 : 0;
  EXPECT_EQ(pinned, 2) << dash.out;
  // Beginning with a dash, with a blank, in brackets (which CLI11 would split), with a comma.
  for (const char* pattern : {"-nothing", "-x|w", "no thing", "[a,b]{1,2}", "a,b"}) {
    SCOPED_TRACE(pattern);
    const CommandResult result = mezzo(train({"--steps", "1", "--freeze", pattern}));
    if (result.status == 0) continue;  // it matched something
    EXPECT_NE(result.err.find("--freeze '" + std::string(pattern) + "': matches no initializer"),
              std::string::npos)
        << result.err;
  }
  expect_success(train({"--steps", "1", "--freeze", "^w$", "--out", "frozen"}));
  expect_success(train({"--steps", "1", "--freeze", "^w$", "--train", "w", "--out", "both"}));
  EXPECT_NE(weights("frozen"), weights("both"));
}

TEST_F(Options, LaterValuesOverruleEarlierOnes) {
  expect_success(train({"--steps", "9", "--lr", "0.1", "--steps", "2", "--out", "run"}));
  EXPECT_EQ(metrics("run").size(), 2U);
}

TEST_F(Options, Epochs) {
  expect_success(train({"--epochs", "3", "--out", "run"}));
  EXPECT_EQ(metrics("run").size(), 12U);
  expect_success(train({"--out", "once"}));
  EXPECT_EQ(metrics("once").size(), 4U);
  expect_success(train({"--epochs", "3", "--accumulate", "2", "--out", "accumulated"}));
  EXPECT_EQ(metrics("accumulated").size(), 6U);
}

TEST_F(Options, StaticLossScaleAndNone) {
  expect_success(train(
      {"--steps", "3", "--precision", "fp16", "--loss-scale", "static:1024", "--out", "static"}));
  for (const json& row : metrics("static")) EXPECT_EQ(row["loss_scale"], 1024.0);
  expect_success(train({"--steps", "3", "--precision", "fp16", "--out", "dynamic"}));
  EXPECT_EQ(metrics("dynamic")[0]["loss_scale"], 65536.0);
  expect_success(train({"--steps", "3", "--precision", "bf16", "--out", "off"}));
  EXPECT_EQ(metrics("off")[0]["loss_scale"], 1.0);
  expect_success(train({"--steps", "3", "--precision", "fp16", "--loss-scale-max", "none",
                        "--loss-scale-init", "131072", "--out", "high"}));
  EXPECT_EQ(metrics("high")[0]["loss_scale"], 131072.0);
}

// --fp32 with any precision is the FP32 run.
TEST_F(Options, ForcedFp32) {
  expect_success(train({"--steps", "4", "--lr", "0.1", "--precision", "fp32", "--out", "fp32"}));
  expect_success(
      train({"--steps", "4", "--lr", "0.1", "--precision", "fp16", "--fp32", "--out", "forced"}));
  expect_success(train({"--steps", "4", "--lr", "0.1", "--precision", "fp16", "--out", "fp16"}));
  EXPECT_EQ(weights("forced"), weights("fp32"));
  EXPECT_NE(weights("fp16"), weights("fp32"));
}

TEST_F(Options, SummaryForMachines) {
  const CommandResult result =
      expect_success(train({"--steps", "3", "--json", "--eval-data", "data.npz", "--out", "run"}));
  const json summary = json::parse(result.out);  // nothing else is on standard output
  EXPECT_EQ(summary["steps"], 3);
  EXPECT_EQ(summary["trained"], json({"b", "w"}));
  EXPECT_TRUE(summary["final_loss"].is_number());
  EXPECT_TRUE(summary["eval_accuracy"].is_number());
  EXPECT_EQ(json::parse(read_text(file("run/summary.json"))), summary);
}

TEST_F(Options, ProgressInAPipeIsPlainLines) {
  const CommandResult result =
      expect_success(train({"--steps", "40", "--precision", "fp16", "--out", "run"}));
  EXPECT_NE(result.err.find("step 40/40"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("scale 65536"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("samples/s"), std::string::npos);
  EXPECT_EQ(result.err.find('\r'), std::string::npos);
  EXPECT_EQ(result.err.find('\x1b'), std::string::npos);
  EXPECT_EQ(result.out.find("step 40/40"), std::string::npos);
}

TEST_F(Options, ProgressOnATerminalIsABar) {
  if (std::system("command -v script >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "needs script(1) from util-linux or bsdutils";
  std::string command = std::string(MEZZO_PROGRAM);
  for (const std::string& argument :
       train({"--steps", "40", "--precision", "fp16", "--out", "run"}))
    command += " " + argument;
  const CommandResult result = run_command(
      {"script", "-qec", "stty cols 120; TERM=xterm " + command, "/dev/null"}, file(""));
  ASSERT_EQ(result.status, 0) << result.out;
  EXPECT_NE(result.out.find("\r["), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("====]"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("step 40/40"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("scale 65536"), std::string::npos) << result.out;
}

// Named and unnamed dimensions take their sizes from the arrays.
TEST_F(Options, RunSizesWhatTheModelLeavesOpen) {
  expect_success({"run", "classifier.onnxtxt", "--input", "data.npz", "--output", "y.npz"});
  expect_success(
      {"run", "classifier.onnxtxt", "--input", "data.npz", "--output", "z.npz", "--dim", "N=16"});
  EXPECT_EQ(read_text(file("y.npz")), read_text(file("z.npz")));
  expect_refusal(
      {"run", "classifier.onnxtxt", "--input", "data.npz", "--output", "w.npz", "--dim", "N=8"}, 1,
      {"'N'", "16", "8"});
}

TEST_F(Options, TrainSizesWhatTheModelLeavesOpen) {
  write_text(file("open.onnxtxt"), R"(<ir_version: 8, opset_import: ["" : 17]>
net (float[N,C] x) => (float loss)
<float w = {0.5}>
{
  y = Mul(x, w)
  loss = ReduceMean<keepdims = 0>(y)
})");
  const Arguments command = {"train", "open.onnxtxt", "--data", "data.npz", "--batch-size",
                             "4",     "--steps",      "2"};
  expect_success(command);
  Arguments other = command;
  other.insert(other.end(), {"--dim", "C=7"});
  expect_refusal(other, 1, {"'x'", "'C'", "4", "7"});
}

TEST_F(Options, APlanGivesWhatItsModelGives) {
  expect_success({"compile", "classifier.onnxtxt", "-o", "m.plan", "--batch-size", "16"});
  expect_success({"run", "m.plan", "--input", "data.npz", "--output", "y.npz"});
  expect_success({"run", "classifier.onnxtxt", "--input", "data.npz", "--output", "z.npz"});
  EXPECT_EQ(read_text(file("y.npz")), read_text(file("z.npz")));
}

// A model-local function runs and trains as its body would, were it written out.
TEST_F(Options, LocalFunctionsAreSeenThrough) {
  write_text(file("functions.onnxtxt"),
             R"(<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
net (float[N,4] x, int64[N] labels) => (float[N,3] scores, float loss)
<float[4,3] w = {0.1, -0.2, 0.3, 0.2, 0.1, -0.1, -0.3, 0.2, 0.1, 0.3, -0.1, 0.2}, float[3] b = {0.0, 0.1, -0.1}>
{
  scores = local.linear(x, w, b)
  loss = SoftmaxCrossEntropyLoss<reduction = "mean">(scores, labels)
}
<domain: "local", opset_import: ["" : 17]>
linear (v, k, c) => (r) {
  product = MatMul(v, k)
  r = Add(product, c)
}
)");
  for (const char* name : {"functions", "classifier"}) {
    const std::string model = std::string(name) + ".onnxtxt";
    expect_success({"run", model, "--input", "data.npz", "--output", std::string(name) + ".npz"});
    expect_success({"train", model, "--data", "data.npz", "--batch-size", "4", "--no-shuffle",
                    "--steps", "5", "--lr", "0.1", "--out", name});
  }
  EXPECT_EQ(read_text(file("functions.npz")), read_text(file("classifier.npz")));
  EXPECT_EQ(weights("functions"), weights("classifier"));
}

TEST_F(Options, ConvertSaysThatAnOpsetIsNewerThanItKnows) {
  write_model("new.onnxtxt", "(float[2,2] x) => (float[2,2] y) { y = MatMul(x, x) }", 999);
  const CommandResult result = expect_success({"convert", "new.onnxtxt", "-o", "m.onnx", "-q"});
  EXPECT_NE(result.err.find("warning: opset 999 is newer than"), std::string::npos) << result.err;
}

TEST_F(Options, ConvertWritesAllItsFiles) {
  const CommandResult quiet = expect_success({"convert", "classifier.onnxtxt", "-o", "m.onnx", "-q",
                                              "--report", "r.html", "--json", "r.json"});
  EXPECT_EQ(quiet.out, "");
  EXPECT_EQ(quiet.err, "");
  for (const char* name : {"m.onnx", "r.html", "r.json"})
    EXPECT_TRUE(fs::exists(file(name))) << name;
  // The input may be the output.
  expect_success({"convert", "m.onnx", "-o", "m.onnx", "--precision", "fp16"});
}

TEST_F(Options, ListOfOperatorsNeedsNoModel) {
  const CommandResult text = expect_success({"train", "--list-ops"});
  EXPECT_NE(text.out.find("Relu "), std::string::npos);
  EXPECT_NE(text.out.find("by a rule of its own"), std::string::npos);
  const json list = json::parse(expect_success({"train", "--list-ops", "--json"}).out);
  std::map<std::string, json> ops;
  for (const json& row : list.at("ops"))
    ops[row.at("domain").get<std::string>() + "." + row.at("op").get<std::string>()] = row;
  EXPECT_EQ(ops.at("ai.onnx.Relu").at("gradient"), "rule");
  EXPECT_EQ(ops.at("ai.onnx.GroupNormalization").at("gradient"), "decomposed");
  EXPECT_EQ(ops.at("ai.onnx.Loop").at("gradient"), "unrolled");
  EXPECT_EQ(ops.at("ai.onnx.ArgMax").at("gradient"), "not");
  EXPECT_EQ(ops.at("ai.onnx.ArgMax").at("reason"), "its results are not floating-point numbers");
  EXPECT_EQ(ops.at("ai.onnx.Relu").count("reason"), 0U);
}

}  // namespace
}  // namespace mezzo::test
