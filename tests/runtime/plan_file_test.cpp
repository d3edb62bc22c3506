// Plan and weights on disk: written, read, cut off, damaged, pointing elsewhere.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "model_text.h"
#include "runtime/exec/plan_file.h"
#include "tests/support/status_test.h"
#include "tests/support/temp_dir.h"
#include "training_session.h"

namespace mezzo {
namespace {

using test::IsOk;
using test::Rejects;
using test::value_or_die;

class PlanFile : public testing::Test {
 protected:
  PlanFile() {
    test::write_text(dir_.file("m.onnxtxt"), test::transformer_mlp_text());
    test::SessionOptions options;
    options.evaluate = true;
    compiled_ =
        value_or_die(cli::compile_model(dir_.file("m.onnxtxt"), test::compile_options(options)));
    EXPECT_THAT(cli::write_plan(*compiled_.draft, path_), IsOk());
    bytes_ = test::read_text(path_);
  }
  StatusOr<runtime::LoadedPlan> load_with(const std::string& bytes) {
    test::write_text(path_, bytes);
    return runtime::load_plan(path_);
  }
  // The plan with another weights file named in it.
  StatusOr<runtime::LoadedPlan> load_with_weights(const std::string& name) {
    proto::Plan plan = *compiled_.plan();
    plan.mutable_provenance()->set_weights_file(name);
    return load_with(runtime::plan_file_bytes(plan));
  }

  test::TempDir dir_;
  std::string path_ = dir_.file("m.plan");
  cli::Compiled compiled_;
  std::string bytes_;
};

TEST_F(PlanFile, IsReadBack) {
  const runtime::LoadedPlan loaded = value_or_die(runtime::load_plan(path_));
  proto::Plan expected = *compiled_.plan();
  expected.mutable_provenance()->set_weights_file("m.safetensors");
  EXPECT_EQ(loaded.plan->DebugString(), expected.DebugString());
  const runtime::WeightSource in_memory = cli::weights_of(compiled_.draft);
  int weights = 0;
  for (const proto::Tensor& tensor : loaded.plan->tensors()) {
    if (!tensor.in_weights_file()) continue;
    ++weights;
    const auto a = value_or_die(loaded.weights(tensor.name())),
               b = value_or_die(in_memory(tensor.name()));
    EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end())) << tensor.name();
  }
  EXPECT_GE(weights, 8);
}

TEST_F(PlanFile, CutAnywhereIsAnError) {
  for (std::size_t length = 0; length < bytes_.size(); length += length < 64 ? 1 : 37) {
    EXPECT_FALSE(load_with(bytes_.substr(0, length)).ok()) << length << " bytes";
  }
  EXPECT_THAT(load_with(bytes_.substr(0, 10)), Rejects("not a plan"));
  EXPECT_THAT(load_with(bytes_.substr(0, bytes_.size() - 1)), Rejects("cut off or damaged"));
  EXPECT_THAT(load_with(bytes_ + "x"), Rejects("cut off or damaged"));
  EXPECT_THAT(load_with(bytes_), IsOk());
}

TEST_F(PlanFile, EveryDamagedByteIsFound) {
  for (std::size_t i = 0; i < bytes_.size(); i += i < 64 ? 1 : 53) {
    std::string damaged = bytes_;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x20);
    EXPECT_FALSE(load_with(damaged).ok()) << "byte " << i;
  }
}

TEST_F(PlanFile, OtherFilesAreNoPlans) {
  EXPECT_THAT(runtime::load_plan(dir_.file("m.onnxtxt")), Rejects("not a plan"));
  EXPECT_THAT(runtime::load_plan(dir_.file("m.safetensors")), Rejects("not a plan"));
  EXPECT_THAT(load_with(""), Rejects("not a plan"));
  EXPECT_FALSE(runtime::load_plan(dir_.file("nothing.plan")).ok());
  EXPECT_FALSE(runtime::load_plan(dir_.path()).ok());
}

TEST_F(PlanFile, WeightsCannotLieElsewhere) {
  const test::TempDir other;
  std::filesystem::copy_file(dir_.file("m.safetensors"), other.file("m.safetensors"));
  const std::string up =
      "../" + std::filesystem::path(other.path()).filename().string() + "/m.safetensors";
  for (const std::string& name :
       {up, other.file("m.safetensors"), std::string(".."), std::string("."),
        std::string("a/../m.safetensors"), std::string("m.safetensors\0.x", 16)}) {
    EXPECT_THAT(load_with_weights(name), Rejects("not a plain file name")) << name;
  }
  EXPECT_THAT(load_with_weights("m.safetensors"), IsOk());
}

TEST_F(PlanFile, WeightsMissingOrDamaged) {
  EXPECT_FALSE(load_with_weights("nothing.safetensors").ok());
  EXPECT_FALSE(load_with_weights("m.plan").ok());
  const auto unnamed = load_with_weights("");
  ASSERT_THAT(unnamed, IsOk());
  EXPECT_THAT(runtime::Executor::create(unnamed->plan, unnamed->weights, {}),
              Rejects("names no weights file"));

  const std::string weights = test::read_text(dir_.file("m.safetensors"));
  for (std::size_t length = 0; length < weights.size(); length += 97) {
    test::write_text(dir_.file("m.safetensors"), weights.substr(0, length));
    EXPECT_FALSE(load_with(bytes_).ok()) << length << " bytes of weights";
  }
}

TEST_F(PlanFile, WeightsOfAnotherModel) {
  test::write_text(dir_.file("o.onnxtxt"), test::mlp_text());
  const auto other =
      value_or_die(cli::compile_model(dir_.file("o.onnxtxt"), test::compile_options({})));
  ASSERT_THAT(cli::write_plan(*other.draft, dir_.file("o.plan")), IsOk());
  const auto loaded = load_with_weights("o.safetensors");
  ASSERT_THAT(loaded, IsOk());
  EXPECT_FALSE(runtime::Executor::create(loaded->plan, loaded->weights, {}).ok());
}

}  // namespace
}  // namespace mezzo
