// The properties of conversion and memory planning on the acceptance models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "compiler/ir/clone.h"
#include "compiler/onnx/check.h"
#include "compiler/onnx/export.h"
#include "compiler/onnx/import.h"
#include "passes/pass_runner.h"
#include "passes/pipeline.h"
#include "tests/property/conversion_checks.h"
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

struct Mode {
  const char* name;
  DType low;
  passes::AssignMethod assign;
  passes::IoTypes io;
  const char* target;
  int pad;
};
constexpr Mode kModes[] = {
    {"fp16", DType::kFloat16, passes::AssignMethod::kCut, passes::IoTypes::kKeep, "a100", 0},
    {"fp16 propagate", DType::kFloat16, passes::AssignMethod::kPropagate, passes::IoTypes::kKeep,
     "a100", 0},
    {"fp16 io low", DType::kFloat16, passes::AssignMethod::kCut, passes::IoTypes::kLow, "a100", 0},
    {"fp16 cpu", DType::kFloat16, passes::AssignMethod::kCut, passes::IoTypes::kKeep, "cpu", 0},
    {"fp16 padded", DType::kFloat16, passes::AssignMethod::kCut, passes::IoTypes::kKeep, "a100", 8},
    {"bf16", DType::kBFloat16, passes::AssignMethod::kCut, passes::IoTypes::kKeep, "a100", 0},
    {"bf16 propagate", DType::kBFloat16, passes::AssignMethod::kPropagate, passes::IoTypes::kKeep,
     "a100", 0},
    {"bf16 io low", DType::kBFloat16, passes::AssignMethod::kPropagate, passes::IoTypes::kLow,
     "h100", 0},
};

void check_conversion(const fs::path& path, const Mode& mode) {
  const auto model = test::value_or_die(import_model(path.string()));
  const auto original = clone_model(*model);
  const bool was_valid = check_model(*model).ok(), was_fp32 = is_fp32(*model);
  passes::PassContext ctx;
  ctx.policy.low = mode.low;
  ctx.policy.assign = mode.assign;
  ctx.policy.io = mode.io;
  ctx.policy.target = mode.target;
  ctx.padding.multiple = mode.pad;
  const Status converted = passes::run_passes(*model, ctx, passes::convert_pipeline(ctx));
  if (!was_valid && converted.code() == StatusCode::kInvalidArgument) return;  // refused, rightly
  ASSERT_THAT(converted, IsOk());
  refresh_value_info(*model->graph);
  if (was_valid) {
    EXPECT_THAT(check_model(*model), IsOk());
  }
  test::expect_no_useless_casts(*original, *model);
  test::expect_no_weight_twice(*original, *model);
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
    for (const Mode& mode : kModes) {
      SCOPED_TRACE(path.string() + " " + mode.name);
      check_conversion(path, mode);
      ++count;
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
