// The properties of conversion and memory planning on the acceptance models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "compiler/onnx/check.h"
#include "compiler/onnx/export.h"
#include "compiler/onnx/import.h"
#include "passes/pass_runner.h"
#include "passes/pipeline.h"
#include "tests/property/cast_checks.h"
#include "tests/support/shared_data.h"
#include "tests/support/status_test.h"
#include "tools/mezzo/compile_model.h"

namespace mezzo {
namespace {

namespace fs = std::filesystem;
using test::IsOk;

std::vector<fs::path> models_below(const fs::path& folder) {
  std::vector<fs::path> models;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == ".onnx") models.push_back(entry.path());
  }
  std::sort(models.begin(), models.end());
  return models;
}

bool is_fp32(const Model& model) {
  bool low = false;
  for_each_graph(*model.graph, [&](Graph& graph) {
    for (const Value* value : graph.values()) low = low || is_low(value->dtype());
  });
  return !low;
}

void check_conversion(const fs::path& path, DType dtype, passes::AssignMethod assign) {
  const auto model = test::value_or_die(import_model(path.string()));
  const bool was_valid = check_model(*model).ok(), was_fp32 = is_fp32(*model);
  passes::PassContext ctx;
  ctx.policy.low = dtype;
  ctx.policy.assign = assign;
  ctx.policy.target = "a100";
  const Status converted = passes::run_passes(*model, ctx, passes::convert_pipeline(ctx));
  if (!was_valid && converted.code() == StatusCode::kInvalidArgument) return;  // refused, rightly
  ASSERT_THAT(converted, IsOk());
  refresh_value_info(*model->graph);
  if (was_valid) {
    EXPECT_THAT(check_model(*model), IsOk());
  }
  test::expect_no_useless_casts(*model->graph);
  if (was_fp32) test::expect_pins_in_fp32(*model->graph);
  // What conversion has done stands: casts fold no further.
  std::vector<passes::PassRun> runs;
  ASSERT_THAT(passes::run_passes(*model, ctx,
                                 test::value_or_die(passes::parse_passes("fold-casts,hoist-casts")),
                                 {}, &runs),
              IsOk());
  EXPECT_FALSE(runs[0].changed || runs[1].changed);
}

class SharedModels : public testing::TestWithParam<const char*> {};

TEST_P(SharedModels, ConvertSoundly) {
  const auto shared = test::shared_folder();
  if (!shared) GTEST_SKIP() << test::kNoSharedFolder;
  int count = 0;
  for (const fs::path& path : models_below(*shared / GetParam())) {
    for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
      for (const auto assign : {passes::AssignMethod::kCut, passes::AssignMethod::kPropagate}) {
        SCOPED_TRACE(path.string() + " " + std::string(dtype_name(dtype)) +
                     (assign == passes::AssignMethod::kCut ? " cut" : " propagate"));
        check_conversion(path, dtype, assign);
        ++count;
      }
    }
  }
  EXPECT_GT(count, 0);
}
INSTANTIATE_TEST_SUITE_P(Folders, SharedModels, testing::Values("refs", "zoo", "cases"),
                         [](const auto& info) { return std::string(info.param); });

// Memory of a training step: placed within a tenth of what no placement can do without.
class TrainingPlans : public testing::TestWithParam<const char*> {};

TEST_P(TrainingPlans, PeakIsNearTheLowerBound) {
  const auto shared = test::shared_folder();
  if (!shared) GTEST_SKIP() << test::kNoSharedFolder;
  for (const fs::path& path : models_below(*shared / "refs" / GetParam())) {
    for (const bool mixed : {false, true}) {
      SCOPED_TRACE(path.string() + (mixed ? " bf16" : " fp32"));
      cli::CompileOptions options;
      options.train = true;
      options.batch_size = 16;
      options.policy.low = DType::kBFloat16;
      options.policy.force_fp32 = !mixed;
      auto compiled = cli::compile_model(path.string(), options);
      if (!compiled.ok()) {  // exported for batches of one size
        options.batch_size = 0;
        compiled = cli::compile_model(path.string(), options);
      }
      ASSERT_THAT(compiled, IsOk());
      const Records& records = compiled->records;
      EXPECT_GE(records.planned_peak_bytes, records.live_bytes);
      EXPECT_LE(static_cast<double>(records.planned_peak_bytes),
                1.1 * static_cast<double>(records.live_bytes));
      EXPECT_GT(records.live_bytes, 0u);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Refs, TrainingPlans,
                         testing::Values("mlp", "lenet", "resnet8", "resnet8_silu", "bert", "gpt"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace mezzo
