// `mezzo report` and `mezzo inspect`, run as users do.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>

#include "runtime/train/checkpoint.h"
#include "tests/support/status_test.h"
#include "tests/support/temp_dir.h"

namespace mezzo {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr const char* kModel = R"(
<ir_version: 9, opset_import: ["" : 17], producer_name: "a test">
net (float[2,4] x, int64[2] labels) => (float loss, float[2,3] scores)
<float[4,3] weight = {1,2,3,4,5,6,7,8,9,10,11,12}, float[3] bias = {1,2,3},
 int64[1] unused = {7}, float[4,3] idle = {1,2,3,4,5,6,7,8,9,10,11,12}>
{
  [fc] h = MatMul (x, weight)
  [plus] scores = Add (h, bias)
  [loss_node] loss = SoftmaxCrossEntropyLoss (scores, labels)
}
)";

struct Result {
  int status = -1;
  std::string out, err;
};

class Cli : public testing::Test {
 protected:
  Cli() { test::write_text(model(), kModel); }

  std::string model() const { return dir_.file("net.onnxtxt"); }

  Result run(const std::string& arguments) const {
    Result result;
    const std::string command =
        std::string(MEZZO_PROGRAM) + " " + arguments + " 2>" + dir_.file("err");
    FILE* pipe = popen(command.c_str(), "r");
    if (pipe == nullptr) return result;
    std::array<char, 4096> buffer{};
    while (const std::size_t got = std::fread(buffer.data(), 1, buffer.size(), pipe)) {
      result.out.append(buffer.data(), got);
    }
    const int status = pclose(pipe);
    result.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    result.err = test::read_text(dir_.file("err"));
    return result;
  }

  // Exit status 1, nothing on standard output, one line on standard error.
  void expect_refused(const std::string& arguments, const std::string& why) const {
    const Result result = run(arguments);
    EXPECT_EQ(result.status, 1) << arguments;
    EXPECT_EQ(result.out, "") << arguments;
    EXPECT_THAT(result.err, StartsWith("error: ")) << arguments;
    EXPECT_THAT(result.err, HasSubstr(why)) << arguments;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }

  test::TempDir dir_;
};

TEST_F(Cli, ReportPrintsATable) {
  const Result result = run("report " + model() + " --precision fp16");
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("loss is pinned to FP32"));
  EXPECT_THAT(result.out, HasSubstr("MatMul"));
  EXPECT_THAT(result.out, HasSubstr("casts at run time:"));
}

TEST_F(Cli, ReportTakesThePolicyOfConvert) {
  EXPECT_THAT(run("report --precision fp16 --pin '^fc$' " + model()).out, HasSubstr("--pin"));
  EXPECT_THAT(run("report --fp32 " + model()).out, HasSubstr("0.0% of"));
}

TEST_F(Cli, ReportOfJsonIsTheReportOfTheModel) {
  const std::string html = dir_.file("a.html"), json = dir_.file("a.json"),
                    again = dir_.file("b.html");
  ASSERT_EQ(run("report --precision fp16 " + model() + " -o " + html + " --json " + json).status,
            0);
  ASSERT_EQ(run("report " + json + " -o " + again).status, 0);
  EXPECT_THAT(test::read_text(html), StartsWith("<!doctype html>"));
  EXPECT_EQ(test::read_text(html), test::read_text(again));
  EXPECT_THAT(run("inspect " + json).out, HasSubstr("loss is pinned to FP32"));
}

TEST_F(Cli, ReportWritesNoModel) {
  const std::size_t before = dir_.entries();
  ASSERT_EQ(run("report " + model()).status, 0);
  EXPECT_EQ(dir_.entries(), before + 1) << "standard error's file only";
}

TEST_F(Cli, InspectSaysWhatWouldBeTrainedAndWhy) {
  const Result result = run("inspect " + model());
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("opsets ai.onnx 17"));
  EXPECT_THAT(result.out, HasSubstr("float[2,4]"));
  EXPECT_THAT(result.out,
              testing::ContainsRegex("weight +float\\[4,3\\] +48 B +yes +the loss depends on it"));
  EXPECT_THAT(result.out, testing::ContainsRegex(
                              "idle +float\\[4,3\\] +48 B +no +the loss does not depend on it"));
  EXPECT_THAT(result.out, HasSubstr("minimises 'loss' and trains 2 initializers"));
}

TEST_F(Cli, InspectWithoutALossSaysSo) {
  test::write_text(model(), R"(<ir_version: 9, opset_import: ["" : 17]>
    net (float[2] x) => (float[2] y) { y = Relu (x) })");
  EXPECT_THAT(run("inspect " + model()).out, HasSubstr("the graph has no loss"));
}

TEST_F(Cli, InspectOfAPlan) {
  const std::string plan = dir_.file("net.plan");
  const Result compiled = run("compile --train --precision bf16 " + model() + " -o " + plan);
  ASSERT_EQ(compiled.status, 0) << compiled.err;
  const Result result = run("inspect " + plan);
  ASSERT_EQ(result.status, 0) << result.err;
  for (const char* part : {"made from net.onnxtxt", "activations",
                           "forward:", "backward:", "weight", "training in bf16, loss 'loss'"}) {
    EXPECT_THAT(result.out, HasSubstr(part));
  }
  EXPECT_THAT(run("report " + plan).out, HasSubstr("backward:"));
  EXPECT_THAT(run("inspect " + dir_.file("net.safetensors")).out, HasSubstr("weight"));
}

TEST_F(Cli, InspectOfArrays) {
  const Result result = run("inspect ../runtime_io/data/stored.npz");
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, StartsWith("npz: "));
  EXPECT_THAT(run("inspect --json ../runtime_io/data/stored.npz").out,
              HasSubstr("\"kind\": \"npz\""));
}

TEST_F(Cli, InspectOfACheckpoint) {
  std::vector<float> weight = {1, 2, 3, 4, 5, 6}, momentum(6);
  const runtime::PaddedTensor weights[] = {{"fc.weight", {2, 3}, {2, 3}, weight.data()}};
  const runtime::PaddedTensor moments[] = {
      {"fc.weight.momentum_buffer", {2, 3}, {2, 3}, momentum.data()}};
  runtime::TrainingState state;
  state.step = 12;
  state.applied_steps = 9;
  const std::string folder = dir_.file("checkpoint");
  ASSERT_THAT(runtime::save_checkpoint(folder, {weights, moments, {}, {}}, state), test::IsOk());
  const Result result = run("inspect " + folder);
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("step: 12 (9 applied, 3 skipped)"));
  EXPECT_THAT(result.out, HasSubstr("fc.weight.momentum_buffer"));
  EXPECT_THAT(result.out, testing::ContainsRegex("fc.weight +float +\\[2,3\\] +24 B"));
  std::string bytes = test::read_text(folder + "/model.safetensors");
  bytes.back() ^= 1;
  test::write_text(folder + "/model.safetensors", bytes);
  expect_refused("inspect " + folder, "model.safetensors");
}

TEST_F(Cli, DamagedPlansAreRefusedWhereverTheyEnd) {
  const std::string plan = dir_.file("net.plan");
  ASSERT_EQ(run("compile --train " + model() + " -o " + plan).status, 0);
  const std::string whole = test::read_text(plan);
  for (std::size_t length = 1; length < whole.size(); length += whole.size() / 12) {
    test::write_text(plan, whole.substr(0, length));
    expect_refused("inspect " + plan, "net.plan");
  }
}

TEST_F(Cli, WrongFilesAreRefused) {
  expect_refused("inspect " + dir_.file("missing.onnx"), "missing.onnx");
  expect_refused("inspect " + dir_.path(), "no checkpoint");
  for (const char* name : {"a.onnx", "a.plan", "a.json", "a.npz", "a.safetensors"}) {
    test::write_text(dir_.file(name), "");
    expect_refused("inspect " + dir_.file(name), name);
    test::write_text(dir_.file(name), "not what it says it is");
    expect_refused("inspect " + dir_.file(name), name);
    expect_refused("report " + dir_.file(name), name);
  }
}

TEST_F(Cli, AnUnwritableReportLeavesNothing) {
  expect_refused("report " + model() + " -o " + dir_.file("nowhere/r.html"), "nowhere");
  EXPECT_FALSE(std::filesystem::exists(dir_.file("nowhere")));
}

TEST_F(Cli, UsageErrorsExitWithTwo) {
  EXPECT_EQ(run("report").status, 2);
  EXPECT_EQ(run("inspect --sideways x").status, 2);
}

}  // namespace
}  // namespace mezzo
