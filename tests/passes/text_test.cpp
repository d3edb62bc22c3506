// Every file tests/passes/<pass>/*.onnxtxt: the passes of its RUN line give exactly the text behind
// CHECK, and what they give is a valid model (where it holds no operators of ours).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "compiler/ir/builder.h"
#include "compiler/onnx/check.h"
#include "compiler/onnx/import.h"
#include "passes/pass_runner.h"
#include "tests/passes/pass_case.h"
#include "tests/support/status_test.h"

namespace mezzo {
namespace {

namespace fs = std::filesystem;

class PassText : public testing::TestWithParam<std::string> {};

TEST_P(PassText, GivesWhatTheFileExpects) {
  const test::PassCase c = test::value_or_die(test::read_case(GetParam()));
  const StatusOr<std::string> actual = test::run_case(c);
  if (!c.fails.empty()) {
    ASSERT_FALSE(actual.ok());
    EXPECT_NE(actual.status().code(), StatusCode::kInternal) << actual.status().message();
    EXPECT_THAT(actual.status().message(), testing::HasSubstr(c.fails));
    return;
  }
  ASSERT_THAT(actual, test::IsOk());
  EXPECT_EQ(test::without_trailing_blanks(*actual), test::without_trailing_blanks(c.expected))
      << "If this is right: tools/update_checks " << GetParam();
}

bool is_standard(const Graph& graph) {
  bool standard = true;
  for (const auto& node : graph.nodes()) standard = standard && node->domain() == "";
  return standard;
}

// What a pass makes of a model for export satisfies ONNX's checker, types included.
TEST_P(PassText, IsAValidModel) {
  const test::PassCase c = test::value_or_die(test::read_case(GetParam()));
  if (!c.fails.empty()) GTEST_SKIP() << "the passes refuse this model";
  const cli::OptOptions options = test::value_or_die(test::parse_options(c.command));
  const auto model = test::value_or_die(import_text(c.text));
  if (!check_model(*model).ok()) GTEST_SKIP() << "ONNX's checker does not like the model as it is";
  passes::PassContext ctx = test::value_or_die(options.to_context());
  ASSERT_THAT(test::run_named(*model, ctx, options.passes), test::IsOk());
  if (options.for_runtime || !is_standard(*model->graph))
    GTEST_SKIP() << "the graph holds operators of ours";
  EXPECT_THAT(check_model(*model, /*full=*/true), test::IsOk());
}

std::string case_name(const testing::TestParamInfo<std::string>& info) {
  const fs::path path(info.param);
  std::string name = path.parent_path().filename().string() + "_" + path.stem().string();
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Files, PassText, testing::ValuesIn(test::case_files(MEZZO_PASS_CASES)),
                         case_name);

// Every pass has a folder of its own with at least two cases (assign-precision shares one with
// insert-casts, as it changes no graph).
TEST(PassCases, CoverEveryPass) {
  for (const passes::PassInfo& pass : passes::all_passes()) {
    const std::string name(pass.name == "assign-precision" ? "insert-casts" : pass.name);
    const fs::path folder = fs::path(MEZZO_PASS_CASES) / name;
    ASSERT_TRUE(fs::is_directory(folder)) << folder;
    EXPECT_GE(test::case_files(folder.string()).size(), 2u) << folder;
    for (const std::string& file : test::case_files(folder.string())) {
      EXPECT_THAT(test::value_or_die(test::read_case(file)).command, testing::HasSubstr(pass.name))
          << file;
    }
  }
}

}  // namespace
}  // namespace mezzo
