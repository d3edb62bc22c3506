// A file that is shortened while it is mapped. The damage is remembered by the process, so there is
// one test, of all that follows from it.
#include "compiler/support/mapping_guard.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>

#include "compiler/support/atomic_file.h"
#include "compiler/support/mapped_file.h"
#include "tests/support/status_test.h"
#include "tests/support/temp_dir.h"

namespace mezzo {
namespace {

constexpr std::size_t kPage = 4096;

int sum(std::span<const std::byte> bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), 0,
                         [](int total, std::byte byte) { return total + static_cast<int>(byte); });
}

TEST(MappingGuard, ShortenedFilesReadAsZerosAndNothingIsCommitted) {
  const test::TempDir dir;
  test::write_text(dir.file("a"), std::string(64 * kPage, '\1'));
  test::write_text(dir.file("b"), std::string(64 * kPage, '\1'));
  test::write_text(dir.file("old"), "old");
  const auto a = test::value_or_die(MappedFile::open(dir.file("a")));
  const auto b = test::value_or_die(MappedFile::open(dir.file("b")));
  guard_mappings();
  AtomicFile before = test::value_or_die(AtomicFile::create(dir.file("before")));
  EXPECT_THAT(before.commit(), test::IsOk());
  EXPECT_EQ(sum(a->bytes()), 64 * static_cast<int>(kPage));
  EXPECT_FALSE(mappings_damaged());

  std::filesystem::resize_file(dir.file("a"), 2 * kPage);
  EXPECT_EQ(sum(a->bytes()), 2 * static_cast<int>(kPage));
  EXPECT_TRUE(mappings_damaged());
  EXPECT_EQ(sum(b->bytes()), 64 * static_cast<int>(kPage)) << "other files are as they were";
  std::filesystem::resize_file(dir.file("b"), 0);
  EXPECT_EQ(sum(b->bytes().last(kPage)), 0);
  EXPECT_EQ(sum(b->bytes()), 0);

  EXPECT_THAT(write_file(dir.file("old"), "new"), test::Rejects("shortened by another program"));
  EXPECT_EQ(test::read_text(dir.file("old")), "old");
}

TEST(MappingGuardDeathTest, OtherFaultsStillEndTheProcess) {
  const auto touch_foreign_mapping = [] {
    const test::TempDir dir;
    test::write_text(dir.file("a"), std::string(kPage, '\1'));
    const auto a = test::value_or_die(MappedFile::open(dir.file("a")));
    guard_mappings();
    unwatch_mapping(a->bytes().data());
    std::filesystem::resize_file(dir.file("a"), 0);
    volatile const std::byte* first = a->bytes().data();
    return *first;
  };
  EXPECT_DEATH((void)touch_foreign_mapping(), "");
}

}  // namespace
}  // namespace mezzo
