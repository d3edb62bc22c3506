// Policy files: what they say, what is refused and how, and that the published schema agrees with
// the parser.
#include "passes/precision/policy_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "tests/passes/json_schema.h"
#include "tests/support/status_test.h"
#include "tests/support/temp_dir.h"

namespace mezzo::passes {
namespace {

using nlohmann::json;
using test::FailsWith;
using test::IsOk;
using test::Rejects;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

StatusOr<PolicyFile> parse(std::string_view text) { return parse_policy(text, "policy.json"); }

json read_schema() {
  std::ifstream file(MEZZO_POLICY_SCHEMA);
  return json::parse(file);
}

TEST(PolicyFile, SaysEverything) {
  const PolicyFile file = test::value_or_die(parse(R"({
    "version": 1, "description": "all of it", "extends": "inference", "precision": "fp16",
    "io": "low", "target": "a100", "assign": "propagate", "pad_channels": 16,
    "pins": {"embedding": "free", "normalization": "free", "softmax": "free", "loss": "free",
             "output_layer": "fp32", "residual_sum": "fp32"},
    "categories": {"allow": "free", "infer": "low", "clear": "fp32", "deny": "free"},
    "thresholds": {"mask": -5000, "activation": 8, "smallest_constant": 1e-6, "min_flops": 1e6},
    "rules": [
      {"name": "ASPP", "node": "^/aspp/", "set": "fp32"},
      {"op": ["A", "B"], "domain": "my.ops", "metadata": {"layer": "^enc"}, "set": "allow",
       "operands": [0, 2], "results": [1]}
    ],
    "range_check": "off",
    "calibration": {"headroom": 4, "underflow": false, "sums": false}})"));
  const PrecisionPolicy policy = file.resolve();
  EXPECT_EQ(policy.name, "policy.json");
  EXPECT_EQ(policy.low, DType::kFloat16);
  EXPECT_FALSE(policy.force_fp32);
  EXPECT_EQ(policy.io, IoTypes::kLow);
  EXPECT_EQ(policy.target, "a100");
  EXPECT_EQ(policy.assign, AssignMethod::kPropagate);
  EXPECT_EQ(policy.pad_channels, 16);
  EXPECT_EQ(policy.embedding, Pin::kFree);
  EXPECT_EQ(policy.normalization, Pin::kFree);
  EXPECT_EQ(policy.softmax, Pin::kFree);
  EXPECT_EQ(policy.loss, Pin::kFree);
  EXPECT_EQ(policy.output_layer, Pin::kFp32);
  EXPECT_EQ(policy.residual_sum, Pin::kFp32);
  EXPECT_EQ(policy.allow, CategoryRun::kFree);
  EXPECT_EQ(policy.infer, CategoryRun::kLow);
  EXPECT_EQ(policy.clear, CategoryRun::kFp32);
  EXPECT_EQ(policy.deny, CategoryRun::kFree);
  EXPECT_EQ(policy.range_check, RangeChecks::kOff);
  EXPECT_EQ(policy.thresholds, (PolicyThresholds{-5000, 8, 1e-6, 1e6}));
  EXPECT_EQ(policy.calibration, (CalibrationThresholds{4, false, false}));
  ASSERT_EQ(policy.rules.size(), 3u);  // the first is that of `inference`
  EXPECT_EQ(policy.rules[0].origin, "inference: rules[0]");
  EXPECT_EQ(source_of(policy.rules[1]), "policy.json: rules[0] (ASPP)");
  EXPECT_EQ(policy.rules[1].node, "^/aspp/");
  EXPECT_EQ(policy.rules[1].effect, RuleEffect::kFp32);
  const PolicyRule& custom = policy.rules[2];
  EXPECT_THAT(custom.ops, ElementsAre("A", "B"));
  EXPECT_EQ(custom.domain, "my.ops");
  EXPECT_EQ(custom.metadata.at("layer"), "^enc");
  EXPECT_EQ(custom.effect, RuleEffect::kAllow);
  EXPECT_THAT(*custom.operands, ElementsAre(0, 2));
  EXPECT_THAT(*custom.results, ElementsAre(1));
}

// The preset `default` spells out what the code starts from.
TEST(PolicyFile, DefaultPresetIsTheDefault) {
  const PolicyFile file = test::value_or_die(find_preset("default"));
  PrecisionPolicy usual;
  usual.low = DType::kBFloat16;  // the default target has it
  EXPECT_EQ(policy_json(file.resolve()), policy_json(usual));
  EXPECT_EQ(policy_json(test::value_or_die(parse("{}")).resolve()), policy_json(usual));
}

TEST(PolicyFile, PrecisionFollowsTheTarget) {
  const auto low = [](std::string_view text) {
    return test::value_or_die(parse(text)).resolve().low;
  };
  EXPECT_EQ(low(R"({"target": "v100"})"), DType::kFloat16);
  EXPECT_EQ(low(R"({"target": "h100"})"), DType::kBFloat16);
  EXPECT_EQ(low(R"({"target": "v100", "precision": "bf16"})"), DType::kBFloat16);
  EXPECT_TRUE(test::value_or_die(parse(R"({"precision": "fp32"})")).resolve().force_fp32);
}

struct BadFile {
  const char* text;
  std::vector<const char*> message;
};
class BadPolicy : public testing::TestWithParam<BadFile> {};
TEST_P(BadPolicy, IsRefusedWhereItStands) {
  const StatusOr<PolicyFile> file = parse(GetParam().text);
  ASSERT_FALSE(file.ok()) << GetParam().text;
  for (const char* part : GetParam().message) EXPECT_THAT(file.status().message(), HasSubstr(part));
  EXPECT_EQ(file.status().message().rfind("policy.json: ", 0), 0u) << file.status().message();
}
INSTANTIATE_TEST_SUITE_P(
    PolicyFile, BadPolicy,
    testing::Values(
        BadFile{"", {"not valid JSON"}}, BadFile{"[]", {"expected a JSON object"}},
        BadFile{"{\"io\": \"keep\",}", {"not valid JSON"}},
        BadFile{R"({"io": "keep", "io": "low"})", {"'io' occurs twice"}},
        BadFile{R"({"pin": {}})", {"policy.json: pin: unknown key. Did you mean 'pins'?"}},
        BadFile{R"({"rules": [{"set": "fp32", "op": "A"}, {"set": "fp32", "op": "A"},
                               {"set": "fp32", "opp": "Exp"}]})",
                {"policy.json: rules[2].opp: unknown key. Did you mean 'op'?", "metadata"}},
        BadFile{R"({"pins": {"embeding": "low"}})", {"pins.embeding: unknown key", "'embedding'"}},
        BadFile{R"({"pins": {"loss": "low"}})", {"pins.loss: expected one of fp32, free, got"}},
        BadFile{R"({"pins": {"softmax": "fp23"}})", {"Did you mean 'fp32'?"}},
        BadFile{R"({"pins": []})", {"pins: expected an object, got []"}},
        BadFile{R"({"categories": {"deny": "no"}})", {"categories.deny: expected one of low"}},
        BadFile{R"({"precision": "fp8"})", {"precision: expected one of auto, fp16, bf16, fp32"}},
        BadFile{R"({"target": "a10"})", {"target: expected one of", "Did you mean 'a100'?"}},
        BadFile{R"({"io": true})", {"io: expected one of keep, low, got true"}},
        BadFile{R"({"pad_channels": 12})", {"pad_channels: expected 8, 16, 32, 64 or \"off\""}},
        BadFile{R"({"pad_channels": "8"})", {"pad_channels: expected"}},
        BadFile{R"({"version": 2})", {"version: expected 1"}},
        BadFile{R"({"version": "1"})", {"version: expected 1"}},
        BadFile{R"({"extends": "torch_amp"})", {"extends 'torch_amp'", "Did you mean 'torch-amp'"}},
        BadFile{R"({"extends": "../base.json"})", {"no such preset", "There are apex-o1"}},
        BadFile{R"({"extends": ""})", {"extends ''", "no such preset"}},
        BadFile{R"({"extends": 3})", {"extends: expected text"}},
        BadFile{R"({"thresholds": {"mask": 1}})",
                {"thresholds.mask: expected a number of at most"}},
        BadFile{R"({"thresholds": {"mask": 1e999}})", {"policy.json: "}},
        BadFile{R"({"thresholds": {"min_flops": -1}})", {"thresholds.min_flops: expected"}},
        BadFile{R"({"thresholds": {"min_flops": "1"}})", {"thresholds.min_flops: expected"}},
        BadFile{R"({"rules": {}})", {"rules: expected an array of rules"}},
        BadFile{R"({"rules": [1]})", {"rules[0]: expected an object"}},
        BadFile{R"({"rules": [{"op": "Exp"}]})", {"rules[0]: expected 'set'"}},
        BadFile{R"({"rules": [{"set": "low"}]})", {"rules[0]: expected 'op', 'domain', 'node'"}},
        BadFile{R"({"rules": [{"op": "Exp", "set": "allo"}]})", {"Did you mean 'allow'?"}},
        BadFile{R"({"rules": [{"op": [], "set": "low"}]})", {"rules[0].op: expected"}},
        BadFile{R"({"rules": [{"op": [1], "set": "low"}]})", {"rules[0].op[0]: expected text"}},
        BadFile{R"({"rules": [{"op": "", "set": "low"}]})", {"rules[0].op: expected no empty"}},
        BadFile{R"({"rules": [{"node": "[", "set": "low"}]})",
                {"rules[0].node: '[': not a regular expression"}},
        BadFile{R"({"rules": [{"node": "", "set": "low"}]})",
                {"rules[0].node: expected a regular"}},
        BadFile{R"({"rules": [{"metadata": {}, "set": "low"}]})", {"rules[0].metadata: expected"}},
        BadFile{R"({"rules": [{"metadata": {"a": 1}, "set": "low"}]})",
                {"rules[0].metadata.a: expected text"}},
        BadFile{R"({"rules": [{"op": "My", "set": "low", "operands": [-1]}]})",
                {"rules[0].operands: expected whole numbers from 0"}},
        BadFile{R"({"rules": [{"op": "My", "set": "low", "results": 0}]})",
                {"rules[0].results: expected an array"}},
        BadFile{R"({"rules": [{"node": "a", "set": "low", "results": [0]}]})",
                {"rules[0]: expected 'op' beside"}},
        BadFile{R"({"rules": [{"op": "My", "set": "fp32", "results": [0]}]})",
                {"rules[0]: expected no 'operands'"}},
        BadFile{R"({"rules": [{"op": "Gemm", "set": "low", "results": [0]}]})",
                {"'Gemm', whose schema says", "Hint"}},
        BadFile{R"({"calibration": {"percentile": 99}})",
                {"calibration.percentile: unknown key", "headroom"}},
        BadFile{R"({"calibration": {"headroom": 0.5}})",
                {"calibration.headroom: expected a number of at least 1"}},
        BadFile{R"({"calibration": {"sums": 1}})", {"calibration.sums: expected true or false"}},
        BadFile{R"({"calibration": 8})", {"calibration: expected an object"}},
        BadFile{R"({"rules": [[[[[[[[[1]]]]]]]]]})", {"at most 8 brackets in one another"}}));

TEST(PolicyFile, SizesAreLimited) {
  EXPECT_THAT(parse("{\"description\": \"" + std::string(2 << 20, 'x') + "\"}"),
              Rejects("expected at most 1.0 MiB of JSON, got 2.0 MiB"));
  std::string rules;
  for (int i = 0; i < 5000; ++i)
    rules += std::string(i == 0 ? "" : ",") + R"({"op":"A","set":"low"})";
  EXPECT_THAT(parse("{\"rules\": [" + rules + "]}"), Rejects("rules: expected at most 4096 rules"));
  EXPECT_THAT(parse(R"({"rules": [{"set": "fp32", "node": ")" + std::string(2000, 'x') + "\"}]}"),
              Rejects("rules[0].node: expected at most 1024 bytes of text"));
  EXPECT_THAT(parse(std::string(1000000, '[')), Rejects("brackets"));
}

TEST(PolicyFile, IsReadFromDisk) {
  const test::TempDir folder;
  const std::string path = folder.file("p.json");
  std::ofstream(path) << R"({"rules": [{"op": "Exp", "set": "infer"}]})";
  const PolicyFile file = test::value_or_die(read_policy(path));
  EXPECT_EQ(file.policy.rules.at(0).origin, path + ": rules[0]");
  EXPECT_THAT(read_policy(folder.file("none.json")),
              FailsWith(StatusCode::kInvalidArgument, HasSubstr("none.json")));
}

// --- printing ------------------------------------------------------------------------------------

TEST(PolicyJson, ReadsBackToTheSamePolicy) {
  for (const Preset& preset : presets()) {
    PrecisionPolicy policy = test::value_or_die(find_preset(preset.name)).resolve();
    const std::string first = policy_json(policy);
    const PrecisionPolicy again = test::value_or_die(parse(first)).resolve();
    EXPECT_EQ(policy_json(again), first) << preset.name;
  }
}

TEST(PolicyJson, OptionsBecomeRules) {
  PrecisionPolicy policy;
  policy.low = DType::kFloat16;
  policy.pins = {"^head \"x\"\\d"};
  policy.deny_ops = {"Add"};
  policy.allow_ops = {"Exp"};
  const PrecisionPolicy again = test::value_or_die(parse(policy_json(policy))).resolve();
  ASSERT_EQ(again.rules.size(), 3u);  // the one that goes first stands last
  EXPECT_EQ(again.rules[0].effect, RuleEffect::kLow);
  EXPECT_THAT(again.rules[0].ops, ElementsAre("Exp"));
  EXPECT_EQ(again.rules[1].effect, RuleEffect::kFp32);
  EXPECT_THAT(again.rules[1].ops, ElementsAre("Add"));
  EXPECT_EQ(again.rules[2].node, "^head \"x\"\\d");
  EXPECT_EQ(again.rules[2].name, "--pin ^head \"x\"\\d");
  EXPECT_EQ(policy_json(again), policy_json(policy));
}

// --- the schema ----------------------------------------------------------------------------------

const json& schema_at(const json& schema, const std::string& place) {
  if (place.empty()) return schema;
  if (place == "rules[]") return schema["properties"]["rules"]["items"];
  return schema["properties"][place];
}

TEST(PolicySchema, HasEveryKeyOfTheParserAndNoOther) {
  const json schema = read_schema();
  for (const auto& [place, keys] : policy_keys()) {
    const json& object = schema_at(schema, place);
    std::vector<std::string> described;
    for (const auto& [key, value] : object.at("properties").items()) {
      described.push_back(key);
      EXPECT_GE(value.at("description").get<std::string>().size(), 20u) << place << "." << key;
    }
    EXPECT_THAT(keys, testing::UnorderedElementsAreArray(described)) << place;
    EXPECT_EQ(object.at("additionalProperties"), false) << place;
  }
}

TEST(PolicySchema, NamesThePresets) {
  EXPECT_EQ(read_schema()["properties"]["extends"]["enum"].get<std::vector<std::string>>(),
            preset_names());
}

TEST(PolicySchema, TakesPresetsAndWhatIsPrinted) {
  const json schema = read_schema();
  for (const Preset& preset : presets()) {
    EXPECT_EQ(test::violation(schema, json::parse(preset.json)), "") << preset.name;
    const PrecisionPolicy policy = test::value_or_die(find_preset(preset.name)).resolve();
    EXPECT_EQ(test::violation(schema, json::parse(policy_json(policy))), "") << preset.name;
  }
}

// All places of a document, as pointers.
void all_places(const json& value, const json::json_pointer& at,
                std::vector<json::json_pointer>& out) {
  out.push_back(at);
  if (!value.is_structured()) return;
  for (const auto& [key, inner] : value.items()) {
    all_places(inner, value.is_array() ? at / static_cast<std::size_t>(std::stoul(key)) : at / key,
               out);
  }
}

// Documents changed at random: the parser and the schema refuse the same ones, and neither crashes.
TEST(PolicySchema, AgreesWithTheParserOnChangedFiles) {
  const json schema = read_schema();
  std::vector<json> seeds;
  for (const Preset& preset : presets()) seeds.push_back(json::parse(preset.json));
  seeds.push_back(json::parse(R"({"rules": [{"op": "My", "domain": "my.ops", "set": "allow",
      "operands": [0, 1], "results": [0]}, {"node": "a+", "metadata": {"k": "v"}, "set": "low"}]})"));
  const std::vector<json> values = {nullptr,
                                    true,
                                    0,
                                    1,
                                    -1,
                                    8,
                                    1.5,
                                    4096,
                                    "",
                                    "fp32",
                                    "low",
                                    "free",
                                    "allow",
                                    "deny",
                                    "infer",
                                    "off",
                                    "default",
                                    "inference",
                                    json::array(),
                                    json::object(),
                                    json::array({0}),
                                    json::array({"Exp"}),
                                    -20000.0};
  const std::vector<std::string> keys = {"op",   "set",     "node", "operands", "results",
                                         "pins", "deny",    "mask", "rules",    "extends",
                                         "name", "version", "io",   "domain",   "nonsense"};
  std::mt19937 random(7);
  const auto pick = [&](std::size_t count) { return random() % count; };
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    json document = seeds[pick(seeds.size())];
    for (std::size_t changes = 1 + pick(3); changes > 0; --changes) {
      std::vector<json::json_pointer> places;
      all_places(document, json::json_pointer(), places);
      json& place = document[places[pick(places.size())]];
      const std::size_t how = pick(3);
      if (how == 0) place = values[pick(values.size())];
      if (how == 1 && place.is_object())
        place[keys[pick(keys.size())]] = values[pick(values.size())];
      if (how == 2 && place.is_object() && !place.empty())
        place.erase(std::next(place.begin(), static_cast<std::ptrdiff_t>(pick(place.size()))));
    }
    const StatusOr<PolicyFile> parsed = parse(document.dump());
    const std::string violation = test::violation(schema, document);
    // What a schema cannot say: that an operator has a schema of its own.
    if (!parsed.ok() && parsed.status().message().find("whose schema says") != std::string::npos)
      continue;
    refused += parsed.ok() ? 0 : 1;
    ASSERT_EQ(parsed.ok(), violation.empty())
        << document.dump() << "\nparser: " << parsed.status().message()
        << "\nschema: " << violation;
  }
  EXPECT_GT(refused, 2000);
  EXPECT_LT(refused, 19000);
}

TEST(PolicyFile, BytesAtRandomAreRefusedOrRead) {
  std::mt19937 random(11);
  const std::string seed = policy_json(test::value_or_die(find_preset("apex-o2")).resolve());
  for (int round = 0; round < 20000; ++round) {
    std::string text = seed;
    for (std::size_t changes = 1 + random() % 6; changes > 0; --changes) {
      const std::size_t at = random() % text.size();
      const int how = static_cast<int>(random() % 3);
      if (how == 0) text[at] = static_cast<char>(random());
      if (how == 1) text.erase(at, random() % 20);
      if (how == 2) text.insert(at, text.substr(random() % text.size(), random() % 40));
      if (text.empty()) text = "{";
    }
    const StatusOr<PolicyFile> parsed = parse(text);
    if (parsed.ok()) continue;
    EXPECT_EQ(parsed.status().message().rfind("policy.json: ", 0), 0u);
  }
}

}  // namespace
}  // namespace mezzo::passes
