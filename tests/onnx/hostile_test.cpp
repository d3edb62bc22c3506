// Damaged files: whatever the bytes, the answer is an error or a model that verifies and can be
// written. Memory errors show under the sanitizers.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "compiler/ir/verifier.h"
#include "compiler/onnx/check.h"
#include "compiler/onnx/export.h"
#include "compiler/onnx/import.h"
#include "model_files.h"
#include "tests/support/status_test.h"

namespace mezzo {
namespace {

using test::IsOk;

class Hostile : public testing::Test {
 protected:
  // The small model with raw data and a training algorithm.
  std::string model_bytes() const {
    onnx::ModelProto proto = test::proto_from_text(test::kSmallModel);
    auto& tensor = *proto.mutable_graph()->mutable_initializer(0);
    tensor.clear_float_data();
    tensor.set_raw_data(std::string(16, '\x3f'));
    *proto.add_training_info()->mutable_algorithm() =
        test::proto_from_text(R"(<ir_version: 8, opset_import: ["" : 17]>
          step () => (float[4] z) { z = Neg(scale) })")
            .graph();
    return proto.SerializeAsString();
  }

  // True if the bytes were taken as a model.
  bool try_import(const std::string& bytes) const {
    test::write_text(dir_.file("m.onnx"), bytes);
    const auto model = load_model(dir_.file("m.onnx"));
    if (!model.ok()) {
      EXPECT_NE(model.status().code(), StatusCode::kInternal) << model.status().message();
      EXPECT_EQ(model.status().message().find('\n'), std::string::npos);
      return false;
    }
    EXPECT_THAT(verify(**model), IsOk());
    onnx::ModelProto back;
    EXPECT_THAT(to_proto(**model, {}, back), IsOk());
    EXPECT_THAT(import_proto(back), IsOk());
    EXPECT_THAT(to_text(**model), IsOk());
    return true;
  }

  test::TempDir dir_;
};

TEST_F(Hostile, TruncatedAtEveryByte) {
  const std::string bytes = model_bytes();
  ASSERT_TRUE(try_import(bytes));
  int taken = 0;
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    taken += try_import(bytes.substr(0, size));
  }
  // Only cuts between the model's own fields leave a message.
  EXPECT_LT(taken, 20);
}

TEST_F(Hostile, FlippedBits) {
  const std::string bytes = model_bytes();
  std::mt19937 random(7);
  int taken = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = bytes;
    for (int flips = 1 + static_cast<int>(random() % 3); flips > 0; --flips) {
      damaged[random() % damaged.size()] ^= static_cast<char>(1U << (random() % 8));
    }
    taken += try_import(damaged);
  }
  EXPECT_GT(taken, 0);
  EXPECT_LT(taken, 3000);
}

TEST_F(Hostile, ReplacedBytesAndLengths) {
  const std::string bytes = model_bytes();
  std::mt19937 random(11);
  for (int round = 0; round < 2000; ++round) {
    std::string damaged = bytes;
    const std::size_t at = random() % damaged.size();
    const std::size_t count = std::min<std::size_t>(1 + random() % 9, damaged.size() - at);
    for (std::size_t i = 0; i < count; ++i) {
      damaged[at + i] = random() % 2 ? '\xff' : static_cast<char>(random());
    }
    if (random() % 4 == 0) damaged.insert(at, bytes.substr(random() % bytes.size(), 40));
    try_import(damaged);
  }
}

TEST_F(Hostile, DamagedText) {
  const std::string text(test::kSmallModel);
  std::mt19937 random(13);
  const std::string_view tokens = "(){}<>[],:=@\"#\\0-.ez";
  for (int round = 0; round < 2000; ++round) {
    std::string damaged = text;
    for (int changes = 1 + static_cast<int>(random() % 3); changes > 0; --changes) {
      damaged[random() % damaged.size()] = tokens[random() % tokens.size()];
    }
    const auto model = import_text(damaged);
    if (model.ok()) {
      EXPECT_THAT(verify(**model), IsOk());
    }
  }
  for (std::size_t size = 0; size < text.size(); ++size) {
    const auto model = import_text(std::string_view(text).substr(0, size));
    if (model.ok()) {
      EXPECT_THAT(verify(**model), IsOk());
    }
  }
}

// ONNX's own code gets damaged models too: it must answer, not crash.
TEST_F(Hostile, InferenceAndCheckerOfDamagedModels) {
  const std::string bytes = model_bytes();
  std::mt19937 random(17);
  for (int round = 0; round < 1000; ++round) {
    std::string damaged = bytes;
    damaged[random() % damaged.size()] ^= static_cast<char>(1U << (random() % 8));
    test::write_text(dir_.file("m.onnx"), damaged);
    const auto model = load_model(dir_.file("m.onnx"));
    if (!model.ok()) continue;
    (void)check_model(**model);
    (void)infer_all_types(**model);
    EXPECT_THAT(verify(**model), IsOk());
  }
}

}  // namespace
}  // namespace mezzo
