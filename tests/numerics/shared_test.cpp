// Over the acceptance data: in every case about the range, a conversion that looks at nothing is
// compared with its original; the nodes blamed hold the culprit, and the model that is converted
// with the policy made of them is right without calibration.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "compiler/onnx/import.h"
#include "compiler/support/json_util.h"
#include "passes/numerics/compare.h"
#include "passes/numerics/output_error.h"
#include "passes/numerics/prepare.h"
#include "passes/precision/policy_file.h"
#include "tests/numerics/numeric_case.h"
#include "tests/support/shared_data.h"
#include "tests/support/status_test.h"
#include "tools/mezzo/compare_fix.h"
#include "tools/mezzo/convert_model.h"
#include "tools/mezzo/value_io.h"

#include <nlohmann/json.hpp>

namespace mezzo::test {
namespace {

namespace fs = std::filesystem;

// Nodes of which at least one must be blamed. Cases that are not here come out right even so.
const std::map<std::string, std::string> kCulprits = {
    {"g15_topk_roundtrip", "topk_v"},
    {"g38_const_over_range", "mul_a"},
    {"g40_eps_1e12", "add_se"},
    {"g42_rms_pow_overflow", "pow_q"},
    {"g44_reducesum_wide", "reducesum_s"},
    {"g45_manual_softmax_exp", "exp_e"},
    {"g49_matmul_overflow", "matmul_s"},
    {"g50_position_ids", "matmul_an"},
    {"g52_loss_sce_sum", "softmaxcrossentropyloss_loss"}};

std::vector<std::string> range_cases() {
  const auto shared = shared_folder();
  std::vector<std::string> cases;
  if (!shared) return cases;
  for (const auto& entry : fs::directory_iterator(*shared / "cases")) {
    const auto info = read_json((entry.path() / "case.json").string());
    if (info.ok() && info->value("kind", "").starts_with("range/"))
      cases.push_back(entry.path().filename().string());
  }
  std::sort(cases.begin(), cases.end());
  return cases;
}

TEST(SharedRangeCases, AreThere) {
  if (!shared_folder()) GTEST_SKIP() << kNoSharedFolder;
  std::vector<std::string> known;
  for (const auto& [name, culprit] : kCulprits) known.push_back(name);
  EXPECT_THAT(range_cases(), testing::IsSupersetOf(known));
}

class SharedRange : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    folder_ = *shared_folder() / "cases" / GetParam();
    path_ = (folder_ / "model.onnx").string();
    a_ = value_or_die(load_model(path_));
    ASSERT_THAT(numerics::prepare(*a_), IsOk());
    const auto info = value_or_die(read_json((folder_ / "case.json").string()));
    tolerance_ = std::max(2e-2, info["checks"].value("tol", 0.0));
    inputs_ = read("inputs.npz", a_->graph->inputs());
  }

  std::vector<RuntimeValue> read(const char* file, const std::vector<Value*>& values) const {
    std::vector<cli::GraphPort> ports;
    for (const Value* value : values) ports.push_back({value->name(), value->type, false});
    const auto files = value_or_die(cli::InputFiles::open((folder_ / file).string()));
    return value_or_die(files.read(ports));
  }

  std::unique_ptr<Model> convert(const passes::PrecisionPolicy& policy) const {
    auto made = value_or_die(cli::convert_model(path_, policy, {}, {}));
    EXPECT_THAT(numerics::prepare(*made.model), IsOk());
    return std::move(made.model);
  }

  // The worst error of an output beside those that the case expects.
  double error_of(const Model& model) const {
    const auto expected = read("expected.npz", a_->graph->outputs());
    const auto outputs = observe(model, inputs_, nullptr);
    double worst = 0;
    for (std::size_t i = 0; i < outputs.size(); ++i)
      worst = std::max(worst, numerics::difference(expected[i], outputs[i]).error);
    return worst;
  }

  fs::path folder_;
  std::string path_;
  std::unique_ptr<Model> a_;
  std::vector<RuntimeValue> inputs_;
  double tolerance_ = 0;
};

TEST_P(SharedRange, TheCulpritIsBlamedAndThePolicyMendsIt) {
  EXPECT_LE(error_of(*a_), 1e-4) << "the original itself";
  const auto b = convert(naive_policy());
  const auto match = value_or_die(numerics::match_models(*a_, *b));
  const auto lowering = value_or_die(numerics::read_lowering(*a_, *b, match));
  numerics::CompareOptions compare;
  compare.tolerance = tolerance_;
  const auto found = value_or_die(numerics::compare_models(*a_, *b, match, inputs_, compare));
  const auto culprit = kCulprits.find(GetParam());
  ASSERT_EQ(found.output_error() > tolerance_, culprit != kCulprits.end())
      << numerics::error_text(found.output_error());
  if (culprit == kCulprits.end()) return;
  ASSERT_NE(found.first_departure(tolerance_), nullptr);

  numerics::BlameOptions options;
  options.tolerance = tolerance_;
  const auto blame =
      value_or_die(numerics::find_blame(*a_, lowering, inputs_, found.outputs_of_a, options));
  ASSERT_EQ(blame.outcome, numerics::Blame::Outcome::kFound);
  EXPECT_TRUE(blame.minimal);
  std::vector<std::string> names;
  for (const numerics::BlamedNode& node : blame.nodes)
    names.push_back(display_name(*node.lowered->node));
  EXPECT_THAT(names, testing::Contains(culprit->second));

  // On top of the policy that went wrong, and of the default one.
  passes::PrecisionPolicy fp16;
  for (const passes::PrecisionPolicy& base : {naive_policy(), fp16}) {
    const cli::Fix fix =
        value_or_die(cli::make_fix(path_, *a_, base, blame, inputs_, found.outputs_of_a, options));
    EXPECT_TRUE(fix.enough);
    const auto policy = value_or_die(passes::parse_policy(fix.json, "fix.json")).resolve();
    EXPECT_LE(error_of(*convert(policy)), tolerance_);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, SharedRange, testing::ValuesIn(range_cases()));
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(SharedRange);

}  // namespace
}  // namespace mezzo::test
