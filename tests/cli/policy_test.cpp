// Policy files and presets on the command line.
#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli_runner.h"
#include "tests/support/status_test.h"
#include "tools/mezzo/compare_presets.h"

namespace mezzo::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class Policy : public CliTest {
 protected:
  Policy() {
    write_model("blocks.onnxtxt",
                R"((float[2,4] x) => (float[2,4] y)
<float[4,4] w = {1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7}, float[4] one = {1,1,1,1}, float[4] zero = {0,0,0,0}>
{
  ["/stem/mm"] a = MatMul (x, w)
  ["/stem/norm"] n = LayerNormalization (a, one, zero)
  ["/aspp/mm"] b = MatMul (n, w)
  ["/head/mm"] y = MatMul (b, w)
})");
  }

  void write_policy(std::string_view name, std::string_view text) const {
    std::ofstream(file(name)) << text;
  }

  std::string bytes(std::string_view name) const {
    std::ifstream in(file(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  // "rule: cause" of a node.
  static std::string reason(const json& report, const std::string& node) {
    for (const json& decision : report["nodes"]) {
      if (decision["name"] == node) {
        return decision["rule"].get<std::string>() + ": " + decision["cause"].get<std::string>();
      }
    }
    return "no such node";
  }

  json convert(std::vector<std::string> options) const {
    std::vector<std::string> arguments = {"convert", "blocks.onnxtxt", "-o",          "out.onnx",
                                          "--json",  "out.json",       "--precision", "fp16"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    const CommandResult result = mezzo(arguments);
    EXPECT_EQ(result.status, 0) << result.err;
    return json::parse(bytes("out.json"), nullptr, false);
  }
};

TEST_F(Policy, AFileDecidesAndOptionsGoBeforeIt) {
  write_policy("p.json", R"({"extends": "inference",
      "rules": [{"name": "ASPP", "node": "^/aspp/", "set": "fp32"}]})");
  const json report = convert({"--policy", "p.json", "--pin", "^/head/"});
  EXPECT_EQ(reason(report, "/aspp/mm"), "pin: p.json: rules[0] (ASPP)");
  EXPECT_EQ(reason(report, "/head/mm"), "pin: --pin ^/head/");
  EXPECT_EQ(reason(report, "/stem/mm"), "category: allow: MatMul accumulates in FP32");
  EXPECT_THAT(reason(report, "/stem/norm"), StartsWith("cut: infer"));
  EXPECT_EQ(report["policy"][0]["value"], "p.json");
}

TEST_F(Policy, APresetIsNamedInTheReportAndComparedWithTheDefault) {
  const json report = convert({"--preset", "apex-o2", "--report", "out.html"});
  EXPECT_EQ(report["policy"][0]["value"], "apex-o2");
  ASSERT_EQ(report["comparison"].size(), 3u);
  EXPECT_EQ(report["comparison"][0]["policy"], "apex-o2");
  EXPECT_TRUE(report["comparison"][0]["chosen"]);
  EXPECT_EQ(report["comparison"][1]["policy"], "default");
  EXPECT_EQ(report["comparison"][2]["policy"], "inference");
  // The chosen row is what the report itself says, and the others are not the same.
  EXPECT_EQ(report["comparison"][0]["casts"], report["totals"]["casts"]);
  EXPECT_EQ(report["comparison"][0]["predicted_us"], report["cost"]["objective_us"]);
  EXPECT_EQ(report["comparison"][0]["weight_bytes"], report["bytes"]["weights_after"]);
  EXPECT_GT(report["comparison"][1]["casts"], report["comparison"][0]["casts"]);
}

TEST_F(Policy, AllPresetsAreCompared) {
  const CommandResult result =
      mezzo({"report", "blocks.onnxtxt", "--precision", "fp16", "--compare-presets"});
  ASSERT_EQ(result.status, 0) << result.err;
  for (const char* row : {"\ndefault (this) ", "\ninference ", "\napex-o1 ", "\napex-o2 ",
                          "\nkeras-mixed_float16 ", "\ntorch-amp "}) {
    EXPECT_THAT(result.out, HasSubstr(row));
  }
  EXPECT_THAT(result.out, Not(HasSubstr("bfloat16")));  // the same as the one in FP16
}

TEST_F(Policy, PresetsAreComparedWhereItIsAskedFor) {
  EXPECT_EQ(convert({})["comparison"].size(), 0u);  // it would convert the model three times
  EXPECT_EQ(convert({"--report", "out.html"})["comparison"].size(), 2u);
  EXPECT_EQ(convert({"--compare-presets"})["comparison"].size(), 6u);
  // All would keep everything in FP32.
  EXPECT_EQ(convert({"--compare-presets", "--fp32"})["comparison"].size(), 0u);
}

// No row bears the name of the chosen one and says something else.
TEST_F(Policy, PresetsAreComparedUnderTheSameOptions) {
  const json report =
      convert({"--assign", "propagate", "--deny-op", "MatMul", "--report", "out.html"});
  ASSERT_EQ(report["comparison"].size(), 2u);
  EXPECT_EQ(report["comparison"][0]["policy"], "default");
  EXPECT_TRUE(report["comparison"][0]["chosen"]);
  EXPECT_EQ(report["comparison"][1]["policy"], "inference");
  // What a preset says itself is no option.
  const json other = convert({"--preset", "torch-amp", "--report", "out.html"});
  ASSERT_EQ(other["comparison"].size(), 3u);
  EXPECT_EQ(other["comparison"][1]["policy"], "default");
}

TEST_F(Policy, APresetThatCannotBeComparedIsAWarning) {
  Report report;
  cli::PolicyOptions options;
  const passes::PrecisionPolicy chosen = value_or_die(options.to_policy());
  ASSERT_THAT(cli::compare_presets(file("gone.onnx"), options, chosen,
                                   cli::Compared::kDefaultAndInference, report),
              IsOk());
  ASSERT_EQ(report.records.comparison.size(), 1u);
  EXPECT_TRUE(report.records.comparison[0].chosen);
  EXPECT_THAT(report.records.warnings,
              testing::ElementsAre(AllOf(StartsWith("preset 'inference' is not compared: "),
                                         HasSubstr("gone.onnx"))));
}

// What is printed is a policy file, and gives the same model.
TEST_F(Policy, PrintedPolicyGivesTheSameModel) {
  write_policy("p.json", R"({"rules": [{"op": "LayerNormalization", "set": "infer"}]})");
  const std::vector<std::vector<std::string>> cases = {
      {},
      {"--policy", "p.json", "--target", "v100"},
      {"--preset", "torch-amp", "--pin", "^/head/", "--io", "low"},
      {"--preset", "apex-o2", "--deny-op", "LayerNormalization", "--assign", "propagate"},
      {"--preset", "inference", "--precision", "bf16", "--pad-channels", "8"},
      {"--allow-op", "LayerNormalization", "--target", "h100"},
      {"--fp32"}};
  for (const auto& options : cases) {
    std::vector<std::string> print = {"convert", "--print-policy"};
    print.insert(print.end(), options.begin(), options.end());
    const CommandResult printed = mezzo(print);
    ASSERT_EQ(printed.status, 0) << printed.err;
    EXPECT_TRUE(json::accept(printed.out)) << printed.out;
    write_policy("printed.json", printed.out);

    std::vector<std::string> direct = {"convert", "blocks.onnxtxt", "-o", "direct.onnx", "-q"};
    direct.insert(direct.end(), options.begin(), options.end());
    ASSERT_EQ(mezzo(direct).status, 0);
    ASSERT_EQ(
        mezzo({"convert", "blocks.onnxtxt", "-o", "again.onnx", "-q", "--policy", "printed.json"})
            .status,
        0);
    EXPECT_EQ(bytes("direct.onnx"), bytes("again.onnx")) << printed.out;
    // And printing it again changes nothing.
    EXPECT_EQ(mezzo({"convert", "--policy", "printed.json", "--print-policy"}).out, printed.out);
  }
}

TEST_F(Policy, TrainingTakesOneAsWell) {
  write_policy("p.json", R"({"precision": "fp16", "rules": [{"op": "Gemm", "set": "fp32"}]})");
  const CommandResult result =
      mezzo({"train", "classifier.onnxtxt", "--data", "data.npz", "--batch-size", "8", "--steps",
             "3", "--policy", "p.json", "--out", "run"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("in fp16"));
  const CommandResult kept = mezzo({"compile", "classifier.onnxtxt", "-o", "m.plan", "--policy",
                                    "p.json", "--batch-size", "8", "--explain"});
  ASSERT_EQ(kept.status, 0) << kept.err;
}

TEST_F(Policy, OfAnOperatorNearlyWrittenRightIsWarned) {
  write_policy("p.json", R"({"rules": [{"op": "LayerNormalisation", "set": "low"},
                                        {"op": "Zebra", "domain": "my.ops", "set": "low"}]})");
  const CommandResult result =
      mezzo({"convert", "blocks.onnxtxt", "-o", "out.onnx", "--policy", "p.json"});
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.err, AllOf(HasSubstr("p.json: rules[0]: no operator of this model is "
                                          "'LayerNormalisation'. Did you mean "
                                          "'LayerNormalization'?"),
                                Not(HasSubstr("Zebra"))));
}

TEST_F(Policy, FaultsOfTheFileAreItsFault) {
  write_policy("p.json", R"({"rules": [{"op": "Exp", "set": "fp32"}, {"opp": "Exp"}]})");
  const std::vector<std::string> head = {"convert", "blocks.onnxtxt", "-o", "out.onnx"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), head.begin(), head.end());
    return more;
  };
  expect_refusal(with({"--policy", "p.json"}), 1,
                 {"p.json: rules[1].opp: unknown key. Did you mean 'op'?"});
  expect_refusal(with({"--policy", "none.json"}), 1, {"none.json"});
  expect_refusal({"convert", "--print-policy", "--policy", "p.json"}, 1, {"rules[1].opp"});
  expect_refusal({"train", "classifier.onnxtxt", "--data", "data.npz", "--batch-size", "8",
                  "--policy", "p.json", "--out", "run"},
                 1, {"rules[1].opp"});
  write_policy("list.json", "[1]");
  expect_refusal(with({"--policy", "list.json"}), 1, {"list.json: expected a JSON object"});
  write_policy("calibration.json", R"({"calibration": {"samples": 8}})");
  expect_refusal(with({"--policy", "calibration.json"}), 1, {"calibration.samples: unknown key"});
  write_policy("deep.json", std::string(100000, '['));
  expect_refusal(with({"--policy", "deep.json"}), 1, {"brackets in one another"});
}

TEST_F(Policy, FaultsOfTheCommandLineAreUsage) {
  write_policy("p.json", "{}");
  expect_refusal({"convert", "blocks.onnxtxt", "-o", "out.onnx", "--preset", "apex-02"}, 2,
                 {"--preset: expected one of", "Did you mean 'apex-o2'?"});
  expect_refusal(
      {"convert", "blocks.onnxtxt", "-o", "out.onnx", "--preset", "default", "--policy", "p.json"},
      2, {"cannot be given together"});
  expect_refusal({"convert", "--preset", "inference"}, 2, {"'model' is missing"});
  expect_refusal({"convert", "blocks.onnxtxt", "--preset", "inference"}, 2,
                 {"--output is missing"});
}

}  // namespace
}  // namespace mezzo::test
