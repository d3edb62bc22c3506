// What is written is read back; what ONNX Runtime wrote is read, and written again without loss.
#include "compiler/artifacts/ort_checkpoint.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "sample_checkpoint.h"
#include "tests/support/shared_data.h"
#include "tests/support/status_test.h"
#include "tests/support/temp_dir.h"

namespace mezzo::test {
namespace {

void expect_equal(const std::vector<CheckpointTensor>& got,
                  const std::vector<CheckpointTensor>& expected) {
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    SCOPED_TRACE(expected[i].name);
    EXPECT_EQ(got[i].name, expected[i].name);
    EXPECT_EQ(got[i].tensor->dtype(), expected[i].tensor->dtype());
    EXPECT_EQ(got[i].tensor->dims(), expected[i].tensor->dims());
    EXPECT_EQ(got[i].tensor->copy_bytes(), expected[i].tensor->copy_bytes());
  }
}

void expect_equal(const OrtCheckpoint& got, const OrtCheckpoint& expected) {
  EXPECT_EQ(got.version, expected.version);
  expect_equal(got.trained, expected.trained);
  expect_equal(got.frozen, expected.frozen);
  EXPECT_EQ(got.properties, expected.properties);
  ASSERT_EQ(got.groups.size(), expected.groups.size());
  for (std::size_t g = 0; g < got.groups.size(); ++g) {
    EXPECT_EQ(got.groups[g].name, expected.groups[g].name);
    EXPECT_EQ(got.groups[g].step, expected.groups[g].step);
    EXPECT_EQ(got.groups[g].initial_lr, expected.groups[g].initial_lr);
    ASSERT_EQ(got.groups[g].parameters.size(), expected.groups[g].parameters.size());
    for (std::size_t p = 0; p < got.groups[g].parameters.size(); ++p) {
      EXPECT_EQ(got.groups[g].parameters[p].parameter, expected.groups[g].parameters[p].parameter);
      expect_equal(got.groups[g].parameters[p].momentums,
                   expected.groups[g].parameters[p].momentums);
    }
  }
}

TEST(OrtCheckpoint, ComesBackAsItWasWritten) {
  const TempDir dir;
  const OrtCheckpoint checkpoint = sample_checkpoint();
  ASSERT_THAT(save_ort_checkpoint(checkpoint, dir.file("c")), IsOk());
  expect_equal(value_or_die(load_ort_checkpoint(dir.file("c"))), checkpoint);
  EXPECT_EQ(dir.entries(), 1U) << "temporary files are gone";
}

TEST(OrtCheckpoint, NothingInItIsFine) {
  const TempDir dir;
  OrtCheckpoint checkpoint;
  checkpoint.version = 1;
  ASSERT_THAT(save_ort_checkpoint(checkpoint, dir.file("c")), IsOk());
  expect_equal(value_or_die(load_ort_checkpoint(dir.file("c"))), checkpoint);
}

// The file that is read lies mapped while it is replaced.
TEST(OrtCheckpoint, MayReplaceTheFileItCameFrom) {
  const TempDir dir;
  ASSERT_THAT(save_ort_checkpoint(sample_checkpoint(), dir.file("c")), IsOk());
  OrtCheckpoint checkpoint = value_or_die(load_ort_checkpoint(dir.file("c")));
  checkpoint.trained[1] = floats("scale", {}, {2});
  ASSERT_THAT(save_ort_checkpoint(checkpoint, dir.file("c")), IsOk());
  expect_equal(value_or_die(load_ort_checkpoint(dir.file("c"))), checkpoint);
}

TEST(OrtCheckpoint, FindsBothKindsByName) {
  const OrtCheckpoint checkpoint = sample_checkpoint();
  EXPECT_EQ(checkpoint.find("scale"), &checkpoint.trained[1]);
  EXPECT_EQ(checkpoint.find("empty"), &checkpoint.frozen[1]);
  EXPECT_EQ(checkpoint.find("momentum0"), nullptr);
}

TEST(OrtCheckpoint, NamesWhatIsWrong) {
  const TempDir dir;
  EXPECT_THAT(load_ort_checkpoint(dir.file("none")), Rejects("none"));
  EXPECT_THAT(load_ort_checkpoint(dir.path()), Rejects("a folder; checkpoints are files since"));
  write_text(dir.file("text"), "not a checkpoint");
  EXPECT_THAT(load_ort_checkpoint(dir.file("text")), Rejects("expected the mark ODTC at byte 4"));
  write_text(dir.file("short"), "ODTC");
  EXPECT_THAT(load_ort_checkpoint(dir.file("short")), Rejects("expected the mark ODTC"));

  OrtCheckpoint checkpoint = sample_checkpoint();
  checkpoint.version = 3;
  ASSERT_THAT(save_ort_checkpoint(checkpoint, dir.file("new")), IsOk());
  EXPECT_THAT(load_ort_checkpoint(dir.file("new")),
              FailsWith(StatusCode::kUnimplemented, testing::HasSubstr("new: version 3")));

  checkpoint = sample_checkpoint();
  checkpoint.frozen[0].name = "scale";
  ASSERT_THAT(save_ort_checkpoint(checkpoint, dir.file("twice")), IsOk());
  EXPECT_THAT(load_ort_checkpoint(dir.file("twice")),
              Rejects("twice: parameter 'scale' is there twice"));

  checkpoint = sample_checkpoint();
  checkpoint.trained[0].name = "";
  ASSERT_THAT(save_ort_checkpoint(checkpoint, dir.file("nameless")), IsOk());
  EXPECT_THAT(load_ort_checkpoint(dir.file("nameless")), Rejects("a parameter has no name"));

  checkpoint = sample_checkpoint();
  for (const std::int64_t step : {std::int64_t{-1}, std::numeric_limits<std::int64_t>::max()}) {
    checkpoint.groups[0].step = step;
    ASSERT_THAT(save_ort_checkpoint(checkpoint, dir.file("step")), IsOk());
    EXPECT_THAT(
        load_ort_checkpoint(dir.file("step")),
        Rejects("optimizer group 'group0': expected a step from 0 to 1000000000000000, got " +
                std::to_string(step)));
  }

  EXPECT_THAT(save_ort_checkpoint(checkpoint, dir.file("no/such/folder")), Rejects("folder"));
}

// Sizes of 16 bytes each keep apart what is changed below.
TEST(OrtCheckpoint, HoldsSizesAgainstShapes) {
  const TempDir dir;
  OrtCheckpoint checkpoint;
  checkpoint.trained = {floats("w", {1111, 1}, std::vector<float>(1111))};
  ASSERT_THAT(save_ort_checkpoint(checkpoint, dir.file("c")), IsOk());
  std::string bytes = read_text(dir.file("c"));
  const std::int64_t dim = 1111;
  const std::size_t at = bytes.find(std::string(reinterpret_cast<const char*>(&dim), sizeof dim));
  ASSERT_NE(at, std::string::npos);
  const auto with_dim = [&](std::int64_t value) {
    std::memcpy(bytes.data() + at, &value, sizeof value);
    write_text(dir.file("changed"), bytes);
    return load_ort_checkpoint(dir.file("changed"));
  };
  EXPECT_THAT(with_dim(1110),
              Rejects("parameter 'w': expected the 4440 bytes of float[1110,1], got 4444"));
  EXPECT_THAT(with_dim(-1), Rejects("parameter 'w': impossible shape [-1,1]"));
  EXPECT_THAT(with_dim(std::int64_t{1} << 62), Rejects("impossible shape"));
}

TEST(OrtCheckpoint, ReadsWhatOnnxRuntimeWrote) {
  const auto shared = shared_folder();
  if (!shared) GTEST_SKIP() << kNoSharedFolder;
  int count = 0;
  for (const char* folder : {"artifacts", "zoo/grads"}) {
    for (const auto& entry : std::filesystem::directory_iterator(*shared / folder)) {
      const std::string path = (entry.path() / "checkpoint").string();
      if (!std::filesystem::exists(path)) continue;
      SCOPED_TRACE(path);
      const OrtCheckpoint checkpoint = value_or_die(load_ort_checkpoint(path));
      EXPECT_GE(checkpoint.trained.size(), 6U);
      EXPECT_TRUE(checkpoint.groups.empty());
      const TempDir dir;
      ASSERT_THAT(save_ort_checkpoint(checkpoint, dir.file("c")), IsOk());
      expect_equal(value_or_die(load_ort_checkpoint(dir.file("c"))), checkpoint);
      ++count;
    }
  }
  EXPECT_EQ(count, 14);
  const OrtCheckpoint mlp =
      value_or_die(load_ort_checkpoint((*shared / "artifacts/mlp/checkpoint").string()));
  ASSERT_NE(mlp.find("fc3.bias"), nullptr);
  const auto bias = mlp.find("fc3.bias")->tensor->to_doubles();
  ASSERT_EQ(bias.size(), 10U);
  EXPECT_FLOAT_EQ(static_cast<float>(bias[0]), -0.11700112F);
}

}  // namespace
}  // namespace mezzo::test
