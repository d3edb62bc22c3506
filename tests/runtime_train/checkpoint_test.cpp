#include "runtime/train/checkpoint.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/train/padded_copy.h"
#include "tests/support/status_test.h"
#include "tests/support/temp_dir.h"

namespace mezzo::runtime {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::FailsWith;
using test::IsOk;
using test::read_text;
using test::Rejects;
using test::TempDir;
using test::value_or_die;
using test::write_text;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

using Dims = std::vector<std::int64_t>;

TEST(PaddedCopy, CutsAndRestoresTheCorner) {
  const Dims logical = {2, 3, 1}, padded = {3, 4, 2};
  std::vector<float> whole(24, 0.0F), part(6);
  for (std::size_t i = 0; i < 2; ++i) {
    for (std::size_t j = 0; j < 3; ++j) whole[i * 8 + j * 2] = static_cast<float>(i * 3 + j + 1);
  }
  copy_without_padding(whole.data(), padded, part.data(), logical);
  EXPECT_THAT(part, ElementsAre(1, 2, 3, 4, 5, 6));
  std::vector<float> again(24, -1.0F);
  copy_with_padding(part.data(), logical, again.data(), padded);
  EXPECT_EQ(again, whole);
}

TEST(PaddedCopy, ScalarsAndEmptyTensors) {
  float from = 3, to = 0;
  copy_without_padding(&from, {}, &to, {});
  EXPECT_EQ(to, 3.0F);
  const Dims none = {0, 4}, padded = {2, 4};
  std::vector<float> whole(8, 5.0F);
  copy_without_padding(whole.data(), padded, nullptr, none);
  copy_with_padding(nullptr, none, whole.data(), padded);
  EXPECT_EQ(whole, std::vector<float>(8, 0.0F));
  EXPECT_THAT(check_padding("w", none, padded), IsOk());
  EXPECT_THAT(check_padding("w", padded, none), Rejects("tensor 'w': shape [2,4] is not a part"));
  EXPECT_THAT(check_padding("w", {}, padded), Not(IsOk()));
}

// Two weights, one of them padded from [2,3] to [4,8], and their momentum.
struct SampleRun {
  std::vector<float> weight = std::vector<float>(32, 0.0F);
  std::vector<float> bias = {0.5F, -0.5F};
  std::vector<float> momentum = {7, 8};
  std::vector<std::uint16_t> table = {1, 2, 3};
  std::vector<FixedTensor> fixed;
  TrainingState state;

  SampleRun() {
    for (std::size_t i = 0; i < 2; ++i) {
      for (std::size_t j = 0; j < 3; ++j) weight[i * 8 + j] = static_cast<float>(1 + i * 3 + j);
    }
    state.step = 12;
    state.applied_steps = 10;
    LossScalerOptions options;
    options.growth_interval = 3;
    state.loss_scaler = value_or_die(LossScaler::create(options));
    state.loss_scaler.update(true);
    state.rng_seed = 0xffffffffffffffffULL;
    state.rng_draws = 99;
    state.options_digest = "abc";
    state.data = std::make_shared<const json>(json{{"position", 384}});
  }
  std::vector<PaddedTensor> weights() {
    return {{"fc.weight", {2, 3}, {4, 8}, weight.data()}, {"fc.bias", {2}, {2}, bias.data()}};
  }
  std::vector<PaddedTensor> optimizer() {
    return {{"fc.bias.momentum_buffer", {2}, {2}, momentum.data()}};
  }
  Status save(const std::string& folder) {
    const auto w = weights(), o = optimizer();
    return save_checkpoint(folder, {w, o, {}, fixed}, state);
  }
};

TEST(Checkpoint, RestoresEverything) {
  const TempDir dir;
  SampleRun run;
  ASSERT_THAT(run.save(dir.file("checkpoint")), IsOk());
  EXPECT_EQ(dir.entries(), 1U);
  const Checkpoint loaded = value_or_die(load_checkpoint(dir.file("checkpoint")));
  EXPECT_EQ(loaded.state.step, 12);
  EXPECT_EQ(loaded.state.applied_steps, 10);
  EXPECT_EQ(loaded.state.loss_scaler.save(), run.state.loss_scaler.save());
  EXPECT_EQ(loaded.state.rng_seed, run.state.rng_seed);
  EXPECT_EQ(loaded.state.rng_draws, 99U);
  EXPECT_EQ(loaded.state.options_digest, "abc");
  EXPECT_EQ((*loaded.state.data)["position"], 384);
  EXPECT_TRUE(loaded.state.extra->empty());
  EXPECT_THAT(loaded.model.find("fc.weight")->shape, ElementsAre(2, 3));  // logical

  SampleRun fresh;
  const std::vector<float> expected = run.weight;
  std::fill(fresh.weight.begin(), fresh.weight.end(), -1.0F);
  fresh.bias = {0, 0};
  fresh.momentum = {0, 0};
  ASSERT_THAT(restore_tensors(loaded.model, fresh.weights()), IsOk());
  ASSERT_THAT(restore_tensors(loaded.optimizer, fresh.optimizer()), IsOk());
  EXPECT_EQ(fresh.weight, expected);  // padding included: zero
  EXPECT_EQ(fresh.bias, run.bias);
  EXPECT_EQ(fresh.momentum, run.momentum);
}

TEST(Checkpoint, ReplacesAnOlderOne) {
  const TempDir dir;
  SampleRun run;
  ASSERT_THAT(run.save(dir.file("checkpoint")), IsOk());
  const Checkpoint old = value_or_die(load_checkpoint(dir.file("checkpoint")));
  run.state.step = 13;
  run.bias[0] = 9;
  ASSERT_THAT(run.save(dir.file("checkpoint")), IsOk());
  EXPECT_EQ(value_or_die(load_checkpoint(dir.file("checkpoint"))).state.step, 13);
  EXPECT_EQ(dir.entries(), 1U);
  SampleRun fresh;  // the old one is still mapped and whole
  ASSERT_THAT(restore_tensors(old.model, fresh.weights()), IsOk());
  EXPECT_EQ(fresh.bias[0], 0.5F);
}

TEST(Checkpoint, LeavesForeignFoldersAlone) {
  const TempDir dir;
  fs::create_directory(dir.file("work"));
  write_text(dir.file("work/thesis.tex"), "precious");
  EXPECT_THAT(SampleRun().save(dir.file("work")),
              Rejects("holds 'thesis.tex', which is no part of a"));
  EXPECT_EQ(read_text(dir.file("work/thesis.tex")), "precious");
  EXPECT_EQ(dir.entries(), 1U);
  write_text(dir.file("file"), "");
  EXPECT_THAT(SampleRun().save(dir.file("file")), Rejects("Not a directory"));
  EXPECT_THAT(SampleRun().save(dir.file("no/such")), Rejects("does not exist"));
}

TEST(Checkpoint, RestoreChecksNamesAndShapesFirst) {
  const TempDir dir;
  SampleRun run;
  ASSERT_THAT(run.save(dir.file("c")), IsOk());
  const Checkpoint loaded = value_or_die(load_checkpoint(dir.file("c")));
  SampleRun other;
  std::fill(other.weight.begin(), other.weight.end(), 42.0F);
  auto tensors = other.weights();
  tensors[1].name = "fc.bais";
  EXPECT_THAT(restore_tensors(loaded.model, tensors), Rejects("Did you mean 'fc.bias'?"));
  tensors = other.weights();
  tensors[1].dims = tensors[1].padded_dims = {1};
  EXPECT_THAT(restore_tensors(loaded.model, tensors), Rejects("expected float[1], got float[2]"));
  tensors.pop_back();
  EXPECT_THAT(restore_tensors(loaded.model, tensors),
              Rejects("tensor 'fc.bias' is not part of this run"));
  EXPECT_EQ(other.weight, std::vector<float>(32, 42.0F));
}

TEST(Checkpoint, HoldsWhatIsNotTrainedAndComparesIt) {
  const TempDir dir;
  SampleRun run;
  run.fixed = {{"table", DType::kBFloat16, {3}, std::as_bytes(std::span(run.table))}};
  ASSERT_THAT(run.save(dir.file("c")), IsOk());
  const Checkpoint loaded = value_or_die(load_checkpoint(dir.file("c")));
  EXPECT_EQ(loaded.model.find("table")->dtype, DType::kBFloat16);
  EXPECT_THAT(restore_tensors(loaded.model, run.weights(), run.fixed), IsOk());
  EXPECT_THAT(restore_tensors(loaded.model, run.weights()),
              Rejects("tensor 'table' is not part of this run"));
  run.table[1] = 7;
  EXPECT_THAT(restore_tensors(loaded.model, run.weights(), run.fixed),
              Rejects("tensor 'table', which is not trained, differs from the model's"));
  // Older versions did not save them.
  SampleRun old;
  ASSERT_THAT(old.save(dir.file("old")), IsOk());
  const Checkpoint without = value_or_die(load_checkpoint(dir.file("old")));
  EXPECT_THAT(restore_tensors(without.model, old.weights(), run.fixed), IsOk());
}

TEST(Checkpoint, KeepsAveragesOptimizersAndOptions) {
  const TempDir dir;
  SampleRun run;
  run.state.optimizers = {{"adamw", 10}, {"sgd", 7}};
  run.state.options = {{"lr", "0.1"}, {"group", "^b:lr=1"}};
  std::vector<float> mean = {0.25F, -0.25F};
  const auto weights = run.weights();
  std::vector<PaddedTensor> average = weights;
  average[1].values = mean.data();
  ASSERT_THAT(save_checkpoint(dir.file("c"), {weights, {}, average, {}}, run.state), IsOk());
  const Checkpoint loaded = value_or_die(load_checkpoint(dir.file("c")));
  ASSERT_EQ(loaded.state.optimizers.size(), 2U);
  EXPECT_EQ(loaded.state.optimizers[1].name, "sgd");
  EXPECT_EQ(loaded.state.optimizers[1].applied_steps, 7);
  EXPECT_EQ(loaded.state.options, run.state.options);
  ASSERT_TRUE(loaded.average.has_value());
  mean = {0, 0};
  ASSERT_THAT(restore_tensors(*loaded.average, average), IsOk());
  EXPECT_THAT(mean, ElementsAre(0.25F, -0.25F));
  // Replaced by one without averages: the file goes.
  ASSERT_THAT(SampleRun().save(dir.file("c")), IsOk());
  EXPECT_FALSE(value_or_die(load_checkpoint(dir.file("c"))).average.has_value());
  EXPECT_FALSE(fs::exists(dir.file("c/ema.safetensors")));
}

// state.json with one change.
Status load_changed(const TempDir& dir, const std::function<void(json&)>& change) {
  SampleRun run;
  const std::string folder = dir.file("c");
  EXPECT_THAT(run.save(folder), IsOk());
  json state = json::parse(read_text(folder + "/state.json"));
  change(state);
  write_text(folder + "/state.json", state.dump());
  return load_checkpoint(folder).status();
}

TEST(Checkpoint, StateIsCheckedField) {
  const TempDir dir;
  for (const char* key : {"format", "format_version", "step", "applied_steps", "loss_scaler", "rng",
                          "options_digest", "data", "extra", "files"}) {
    EXPECT_THAT(load_changed(dir, [&](json& s) { s.erase(key); }),
                Rejects("state.json: key '" + std::string(key) + "' is missing"));
    EXPECT_THAT(load_changed(dir, [&](json& s) { s[key] = nullptr; }), Not(IsOk())) << key;
  }
  EXPECT_THAT(
      load_changed(dir, [](json& s) { s["format_version"] = 2; }),
      FailsWith(StatusCode::kUnimplemented, HasSubstr("version 2; version 1 is supported")));
  EXPECT_THAT(load_changed(dir, [](json& s) { s["format"] = "x"; }), Rejects("not the state of"));
  EXPECT_THAT(load_changed(dir, [](json& s) { s["step"] = 9; }), Rejects("do not fit each other"));
  EXPECT_THAT(load_changed(dir, [](json& s) { s["applied_steps"] = -1; }), Rejects("do not fit"));
  EXPECT_THAT(load_changed(dir,
                           [](json& s) {
                             s["optimizers"] = {{{"name", "a"}}};
                           }),
              Rejects("key 'applied_steps' is missing"));
  EXPECT_THAT(load_changed(dir,
                           [](json& s) {
                             s["optimizers"] = {{{"name", "a"}, {"applied_steps", 13}}};
                           }),
              Rejects("outside 0..12"));
  EXPECT_THAT(load_changed(dir, [](json& s) { s["options"]["lr"] = 1; }), Rejects("'options'"));
  // Written before these keys were.
  EXPECT_THAT(load_changed(dir,
                           [](json& s) {
                             s["loss_scaler"].erase("max_skips");
                             s["loss_scaler"].erase("skips_in_row");
                           }),
              IsOk());
  EXPECT_THAT(load_changed(dir, [](json& s) { s["loss_scaler"]["scale"] = 0; }),
              Rejects("key 'loss_scaler': key 'scale'"));
  EXPECT_THAT(load_changed(dir, [](json& s) { s["files"].erase("model.safetensors"); }),
              Rejects("its checksum is not the one"));
}

TEST(Checkpoint, FindsDamagedAndMissingFiles) {
  const TempDir dir;
  const std::string folder = dir.file("c");
  for (const char* name : {"model.safetensors", "optimizer.safetensors"}) {
    ASSERT_THAT(SampleRun().save(folder), IsOk());
    const std::string whole = read_text(folder + "/" + name);
    for (const std::size_t at : {std::size_t{0}, std::size_t{40}, whole.size() - 1}) {
      std::string damaged = whole;
      damaged[at] ^= 4;
      write_text(folder + "/" + name, damaged);
      EXPECT_THAT(load_checkpoint(folder), Rejects(std::string(name) + ": its checksum is not"));
    }
    write_text(folder + "/" + name, whole.substr(0, whole.size() / 2));
    EXPECT_THAT(load_checkpoint(folder), Rejects("its checksum is not"));
    fs::remove(folder + "/" + name);
    EXPECT_THAT(load_checkpoint(folder), Rejects("cannot be read"));
    ASSERT_THAT(SampleRun().save(folder), IsOk());
  }
  write_text(folder + "/state.json", "{");
  EXPECT_THAT(load_checkpoint(folder), Rejects("state.json: not valid JSON"));
  EXPECT_THAT(load_checkpoint(dir.file("none")), Rejects("none/state.json: cannot be read"));
}

TEST(Checkpoint, AFailedSaveLeavesNothing) {
  const TempDir dir;
  SampleRun run;
  auto weights = run.weights();
  weights[1].name = weights[0].name;
  EXPECT_THAT(save_checkpoint(dir.file("c"), {weights, {}, {}, {}}, run.state),
              Rejects("the name is taken"));
  EXPECT_EQ(dir.entries(), 0U);
}

}  // namespace
}  // namespace mezzo::runtime
