// mezzo bench: figures for both precisions, from given inputs or drawn ones, and what it refuses.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli_runner.h"

namespace mezzo::test {
namespace {

using nlohmann::json;

class Bench : public CliTest {
 protected:
  Bench() {
    write_model("linear.onnxtxt", R"((float[N,4] x) => (float[N,3] y)
<float[4,3] w = {0.1, -0.2, 0.3, 0.2, 0.1, -0.1, -0.3, 0.2, 0.1, 0.3, -0.1, 0.2}>
{
  y = MatMul(x, w)
})");
    write_floats("x.npz", "x", {2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  }
  json figures(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {"bench", "linear.onnxtxt", "--json", "figures.json"});
    const CommandResult result = mezzo(arguments);
    EXPECT_EQ(result.status, 0) << result.err;
    return json::parse(read_text(file("figures.json")));
  }
};

TEST_F(Bench, BothPrecisionsSideBySide) {
  const json all = figures({"--input", "x.npz", "--repeat", "7", "--threads", "1"});
  EXPECT_EQ(all["threads"], 1);
  ASSERT_EQ(all["results"].size(), 2U);
  const json& fp32 = all["results"][0];
  const json& bf16 = all["results"][1];
  EXPECT_EQ(fp32["precision"], "fp32");
  EXPECT_EQ(bf16["precision"], "bf16");
  for (const json& row : {fp32, bf16}) {
    EXPECT_EQ(row["runs"], 7);
    EXPECT_GT(row["min_ms"], 0.0);
    EXPECT_GE(row["median_ms"], row["min_ms"]);
    EXPECT_GT(row["memory_bytes"], 0);
  }
  EXPECT_EQ(fp32["relative_difference"], 0.0);
  EXPECT_GT(bf16["relative_difference"], 0.0);  // 0.1 is no bfloat16
  EXPECT_LT(bf16["relative_difference"], 0.01);
}

TEST_F(Bench, DrawnInputsAndOnePrecision) {
  const json all = figures({"--dim", "N=3", "--precision", "fp32", "--repeat", "5", "--profile"});
  ASSERT_EQ(all["results"].size(), 1U);
  ASSERT_EQ(all["results"][0]["steps"].size(), 1U);
  EXPECT_EQ(all["results"][0]["steps"][0]["op"], "MatMul");
}

TEST_F(Bench, TheTableAndTheProfile) {
  const CommandResult result =
      mezzo({"bench", "linear.onnxtxt", "--input", "x.npz", "--repeat", "5", "--profile"});
  EXPECT_EQ(result.status, 0) << result.err;
  for (const char* word : {"median ms", "fp32", "bf16", "speed-up", "MatMul", "bf16, one run:"})
    EXPECT_NE(result.out.find(word), std::string::npos) << word << "\n" << result.out;
}

// The interpreter runs what cannot become a plan.
TEST_F(Bench, ModelsWithControlFlow) {
  write_model("branches.onnxtxt", R"((float[2] x, bool c) => (float[2] y)
{
  y = If (c) <then_branch = g1 () => (float[2] a) { a = Exp(x) }, else_branch = g2 () => (float[2] b) { b = Neg(x) }>
})");
  const CommandResult result =
      mezzo({"bench", "branches.onnxtxt", "--repeat", "5", "--profile", "--precision", "fp32"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_NE(result.out.find("interpreter"), std::string::npos) << result.out;
}

TEST_F(Bench, RefusesWhatDoesNotFit) {
  write_floats("narrow.npz", "x", {2, 3}, {1, 2, 3, 4, 5, 6});
  expect_refusal({"bench", "linear.onnxtxt", "--input", "narrow.npz"}, 1,
                 {"narrow.npz", "'x'", "[N,4]", "[2,3]"});
  write_floats("other.npz", "z", {2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  expect_refusal({"bench", "linear.onnxtxt", "--input", "other.npz", "--dim", "N=2"}, 1,
                 {"other.npz", "'x'"});
  expect_refusal({"bench", "linear.onnxtxt"}, 1, {"--dim N="});
  expect_refusal({"bench", "linear.onnxtxt", "--repeat", "0"}, 2, {"--repeat"});
}

}  // namespace
}  // namespace mezzo::test
