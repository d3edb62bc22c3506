// What must hold of every pass, on random graphs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/ir/clone.h"
#include "compiler/ir/verifier.h"
#include "compiler/onnx/check.h"
#include "compiler/onnx/export.h"
#include "compiler/onnx/import.h"
#include "passes/pass_runner.h"
#include "passes/pipeline.h"
#include "tests/property/cast_checks.h"
#include "tests/property/execute.h"
#include "tests/property/random_model.h"
#include "tests/support/status_test.h"

namespace mezzo {
namespace {

using passes::PassContext;
using test::IsOk;

constexpr std::uint64_t kSeeds = 150;

class EverySeed : public testing::TestWithParam<std::uint64_t> {};
// A few seeds per case keep the number of tests low and tell which group of graphs fails.
class Passes : public EverySeed {};

Status run(Model& model, PassContext& ctx, const std::string& names,
           std::vector<passes::PassRun>* runs = nullptr) {
  MEZZO_ASSIGN_OR_RETURN(const auto chosen, passes::parse_passes(names));
  return passes::run_passes(model, ctx, chosen, {}, runs);
}

std::string text_of(const Model& model) {
  return test::value_or_die(to_text(model, Weights::kEmbedded));
}

template <typename Body>
void for_each_seed(std::uint64_t first, const test::RandomModelOptions& options, const Body& body) {
  for (std::uint64_t seed = first; seed < first + 10; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto model = test::random_model(seed, options);
    ASSERT_THAT(verify(*model), IsOk());
    body(*model, seed);
    if (testing::Test::HasFatalFailure()) return;
  }
}

test::RandomModelOptions with_branches() {
  test::RandomModelOptions options;
  options.branches = true;
  return options;
}

TEST_P(Passes, RandomModelsAreValid) {
  for_each_seed(GetParam(), with_branches(),
                [](Model& model, std::uint64_t) { EXPECT_THAT(check_model(model), IsOk()); });
}

TEST_P(Passes, TextIsReadBack) {
  for_each_seed(GetParam(), with_branches(), [](Model& model, std::uint64_t) {
    refresh_value_info(*model.graph, /*list_all=*/true);
    const std::string text = text_of(model);
    const auto again = test::value_or_die(import_text(text));
    EXPECT_EQ(text_of(*again), text);
  });
}

// Passes that clean up find nothing more to do.
TEST_P(Passes, CleaningUpTwiceIsCleaningUpOnce) {
  for (const char* name : {"normalise", "fold-constants", "recognise", "dce", "fold-casts",
                           "hoist-casts", "fuse-transposes", "inference-form", "decompose"}) {
    SCOPED_TRACE(name);
    for_each_seed(GetParam(), with_branches(), [&](Model& model, std::uint64_t) {
      PassContext ctx;
      std::vector<passes::PassRun> runs;
      ASSERT_THAT(run(model, ctx, std::string("infer-shapes,") + name + "," + name, &runs), IsOk());
      EXPECT_FALSE(runs[2].changed) << text_of(model);
    });
  }
}

// Passes that keep meaning: the outputs stay what they were, to FP32 rounding.
TEST_P(Passes, KeepTheMeaning) {
  for (const char* names :
       {"normalise", "fold-constants", "fold-constants,recognise", "fuse-transposes", "decompose",
        "dce", "inference-form", "fuse-elementwise",
        "fold-constants,decompose,normalise,fold-constants,recognise,fuse-transposes,dce,"
        "fuse-elementwise"}) {
    SCOPED_TRACE(names);
    for_each_seed(GetParam(), {}, [&](Model& model, std::uint64_t seed) {
      const test::Results before = test::value_or_die(test::execute(*model.graph, seed));
      PassContext ctx;
      ctx.for_runtime = true;
      ASSERT_THAT(run(model, ctx, std::string("infer-shapes,") + names), IsOk());
      const auto after = test::execute(*model.graph, seed);
      ASSERT_THAT(after, IsOk());
      EXPECT_LT(test::difference(before, *after), 1e-4) << text_of(model);
    });
  }
}

// Nodes that were left apart stay so.
TEST_P(Passes, FusingTwiceIsFusingOnce) {
  std::int64_t fused = 0;
  for_each_seed(GetParam(), with_branches(), [&](Model& model, std::uint64_t) {
    PassContext ctx;
    ctx.for_runtime = true;
    std::vector<passes::PassRun> runs;
    ASSERT_THAT(run(model, ctx, "infer-shapes,fuse-elementwise,fuse-elementwise", &runs), IsOk());
    EXPECT_FALSE(runs[2].changed) << text_of(model);
    const auto& counts = ctx.stats.counts();
    if (const auto found = counts.find("elementwise-fused"); found != counts.end())
      fused += found->second;
  });
  EXPECT_GT(fused, 0);
}

TEST_P(Passes, PaddingKeepsTheMeaning) {
  int padded = 0;
  for_each_seed(GetParam(), {}, [&](Model& model, std::uint64_t seed) {
    const test::Results before = test::value_or_die(test::execute(*model.graph, seed));
    for (const bool training : {false, true}) {
      const auto copy = clone_model(model);
      PassContext ctx;
      ctx.for_runtime = true;
      ctx.padding = {8, true};
      ASSERT_THAT(run(*copy, ctx,
                      training ? "infer-shapes,fold-constants,normalise,recognise,pad-channels,dce"
                               : "infer-shapes,pad-channels"),
                  IsOk());
      padded += static_cast<int>(ctx.stats.counts().count("contractions-padded"));
      const auto after = test::execute(*copy->graph, seed);
      ASSERT_THAT(after, IsOk());
      EXPECT_LT(test::difference(before, *after), 1e-4) << text_of(*copy);
      if (!training) {
        EXPECT_THAT(check_model(*copy), IsOk());
      }
    }
  });
  EXPECT_GT(padded, 5);
}

PassContext context(DType low, passes::AssignMethod assign, passes::IoTypes io) {
  PassContext ctx;
  ctx.policy.low = low;
  ctx.policy.assign = assign;
  ctx.policy.io = io;
  ctx.policy.target = "a100";
  return ctx;
}

// The whole conversion, with every policy: valid for ONNX, public names and types kept, pins in
// FP32, no useless casts, numbers near those of FP32, each pass verified (the runner does that).
TEST_P(Passes, ConversionIsSound) {
  using passes::AssignMethod, passes::IoTypes;
  for (const DType low : {DType::kFloat16, DType::kBFloat16}) {
    for (const AssignMethod assign : {AssignMethod::kCut, AssignMethod::kPropagate}) {
      for (const IoTypes io : {IoTypes::kKeep, IoTypes::kLow}) {
        for_each_seed(GetParam(), with_branches(), [&](Model& model, std::uint64_t) {
          const auto original = clone_model(model);
          PassContext ctx = context(low, assign, io);
          ASSERT_THAT(passes::run_passes(model, ctx, passes::convert_pipeline(ctx)), IsOk());
          refresh_value_info(*model.graph);
          EXPECT_THAT(check_model(model), IsOk()) << text_of(model);
          test::expect_pins_in_fp32(*model.graph);
          test::expect_no_useless_casts(*model.graph);
          for (std::size_t i = 0; i < model.graph->outputs().size(); ++i) {
            EXPECT_EQ(model.graph->outputs()[i]->name(), original->graph->outputs()[i]->name());
            EXPECT_TRUE(io == IoTypes::kLow ||
                        model.graph->outputs()[i]->dtype() == DType::kFloat32);
          }
          for (std::size_t i = 0; i < model.graph->inputs().size(); ++i) {
            EXPECT_EQ(model.graph->inputs()[i]->name(), original->graph->inputs()[i]->name());
            EXPECT_TRUE(io == IoTypes::kLow ||
                        model.graph->inputs()[i]->dtype() == DType::kFloat32);
          }
          EXPECT_LE(ctx.records.cost.method == "cut" ? ctx.records.cost.objective_us
                                                     : ctx.records.cost.alternative_us,
                    (ctx.records.cost.method == "cut" ? ctx.records.cost.alternative_us
                                                      : ctx.records.cost.objective_us) +
                        1e-3);
          const std::string text = text_of(model);
          EXPECT_EQ(text_of(*test::value_or_die(import_text(text))), text);
        });
      }
    }
  }
}

TEST_P(Passes, ConversionKeepsNumbersNear) {
  using passes::AssignMethod, passes::IoTypes;
  for (const DType low : {DType::kFloat16, DType::kBFloat16}) {
    for (const AssignMethod assign : {AssignMethod::kCut, AssignMethod::kPropagate}) {
      for_each_seed(GetParam(), {}, [&](Model& model, std::uint64_t seed) {
        const test::Results before = test::value_or_die(test::execute(*model.graph, seed));
        PassContext ctx = context(low, assign, IoTypes::kKeep);
        ASSERT_THAT(passes::run_passes(model, ctx, passes::convert_pipeline(ctx)), IsOk());
        const auto after = test::execute(*model.graph, seed);
        ASSERT_THAT(after, IsOk());
        EXPECT_LT(test::difference(before, *after), low == DType::kFloat16 ? 0.02 : 0.16)
            << text_of(model);
      });
    }
  }
}

// The same on the way to our runtime, where kernels take mixed types.
TEST_P(Passes, RuntimeFormKeepsNumbersNear) {
  for (const DType low : {DType::kFloat16, DType::kBFloat16}) {
    for_each_seed(GetParam(), {}, [&](Model& model, std::uint64_t seed) {
      const test::Results before = test::value_or_die(test::execute(*model.graph, seed));
      PassContext ctx = context(low, passes::AssignMethod::kCut, passes::IoTypes::kKeep);
      ctx.for_runtime = true;
      ASSERT_THAT(passes::run_passes(model, ctx, passes::run_pipeline(ctx)), IsOk());
      test::expect_no_useless_casts(*model.graph);
      const auto after = test::execute(*model.graph, seed);
      ASSERT_THAT(after, IsOk());
      EXPECT_LT(test::difference(before, *after), low == DType::kFloat16 ? 0.02 : 0.16)
          << text_of(model);
    });
  }
}

// Where nothing may be low, nothing changes.
TEST_P(Passes, ForcedFp32ChangesNothing) {
  for_each_seed(GetParam(), with_branches(), [&](Model& model, std::uint64_t) {
    PassContext ctx;
    ctx.policy.force_fp32 = true;
    ASSERT_THAT(run(model, ctx, "infer-shapes"), IsOk());
    const std::string before = text_of(model);
    ASSERT_THAT(run(model, ctx, "infer-shapes,assign-precision,insert-casts"), IsOk());
    EXPECT_EQ(text_of(model), before);
  });
}

// The same model twice gives the same text: nothing depends on addresses.
TEST_P(Passes, AreReproducible) {
  for_each_seed(GetParam(), with_branches(), [&](Model& model, std::uint64_t seed) {
    const auto again = test::random_model(seed, with_branches());
    for (Model* m : {&model, again.get()}) {
      PassContext ctx =
          context(DType::kFloat16, passes::AssignMethod::kCut, passes::IoTypes::kKeep);
      ASSERT_THAT(passes::run_passes(*m, ctx, passes::convert_pipeline(ctx)), IsOk());
    }
    EXPECT_EQ(text_of(model), text_of(*again));
  });
}

std::vector<std::uint64_t> first_seeds() {
  std::vector<std::uint64_t> seeds;
  for (std::uint64_t seed = 0; seed < kSeeds; seed += 10) seeds.push_back(seed);
  return seeds;
}
INSTANTIATE_TEST_SUITE_P(Seeds, Passes, testing::ValuesIn(first_seeds()),
                         [](const auto& info) { return "from" + std::to_string(info.param); });

}  // namespace
}  // namespace mezzo
