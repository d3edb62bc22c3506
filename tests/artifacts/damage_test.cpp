// Whatever bytes a checkpoint has, reading it ends in a checkpoint or in a message.
#include <gtest/gtest.h>

#include <random>

#include "compiler/artifacts/ort_checkpoint.h"
#include "sample_checkpoint.h"
#include "tests/support/status_test.h"
#include "tests/support/temp_dir.h"

namespace mezzo::test {
namespace {

class Damage : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_THAT(save_ort_checkpoint(sample_checkpoint(), dir_.file("c")), IsOk());
    whole_ = read_text(dir_.file("c"));
  }

  // Reads it all, so that a sanitizer sees bytes that are not there.
  bool survives(const std::string& bytes) {
    write_text(dir_.file("damaged"), bytes);
    const auto checkpoint = load_ort_checkpoint(dir_.file("damaged"));
    if (!checkpoint.ok()) {
      EXPECT_NE(checkpoint.status().code(), StatusCode::kInternal);
      EXPECT_THAT(checkpoint.status().message(), testing::HasSubstr("damaged"));
      return false;
    }
    const auto read = [](const std::vector<CheckpointTensor>& list) {
      for (const CheckpointTensor& tensor : list)
        EXPECT_EQ(tensor.tensor->copy_bytes().size(), tensor.tensor->byte_size());
    };
    read(checkpoint->trained);
    read(checkpoint->frozen);
    for (const OrtOptimizerGroup& group : checkpoint->groups) {
      for (const OrtParameterState& state : group.parameters) read(state.momentums);
    }
    return true;
  }

  TempDir dir_;
  std::string whole_;
};

TEST_F(Damage, CutAnywhere) {
  for (std::size_t size = 0; size < whole_.size(); ++size) survives(whole_.substr(0, size));
  EXPECT_TRUE(survives(whole_));
}

TEST_F(Damage, BytesChanged) {
  std::mt19937 random(20240711);
  const auto below = [&](std::size_t limit) {
    return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random);
  };
  constexpr unsigned char kTelling[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
  int read = 0, refused = 0;
  for (int round = 0; round < 1200; ++round) {
    std::string bytes = whole_;
    for (std::size_t i = 0, count = 1 + below(4); i < count; ++i) {
      const std::size_t at = below(bytes.size());
      bytes[at] = static_cast<char>(below(2) == 0 ? kTelling[below(std::size(kTelling))]
                                                  : static_cast<unsigned char>(below(256)));
    }
    ++(survives(bytes) ? read : refused);
  }
  EXPECT_GT(read, 50);
  EXPECT_GT(refused, 50);
}

// Offsets that point at other things than they did.
TEST_F(Damage, WordsExchanged) {
  std::mt19937 random(7);
  for (int round = 0; round < 800; ++round) {
    std::string bytes = whole_;
    const std::size_t words = bytes.size() / 4;
    const auto word = [&] {
      return 4 * std::uniform_int_distribution<std::size_t>(0, words - 1)(random);
    };
    const std::size_t to = word(), from = word();
    std::copy_n(whole_.begin() + static_cast<std::ptrdiff_t>(from), 4,
                bytes.begin() + static_cast<std::ptrdiff_t>(to));
    survives(bytes);
  }
}

TEST_F(Damage, NoiseBehindTheMark) {
  std::mt19937 random(99);
  for (std::size_t size = 8; size < 300; ++size) {
    std::string bytes(size, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    bytes.replace(4, 4, "ODTC");
    survives(bytes);
  }
}

}  // namespace
}  // namespace mezzo::test
