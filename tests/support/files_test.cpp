#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "compiler/support/atomic_file.h"
#include "compiler/support/mapped_file.h"
#include "tests/support/status_test.h"
#include "tests/support/temp_dir.h"

namespace mezzo {
namespace {

namespace fs = std::filesystem;
using test::IsOk;
using test::read_text;
using test::Rejects;
using test::TempDir;
using test::value_or_die;
using test::write_text;

std::string text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.size()};
}

TEST(MappedFile, GivesTheBytes) {
  const TempDir dir;
  write_text(dir.file("a"), "hello");
  const auto file = value_or_die(MappedFile::open(dir.file("a")));
  EXPECT_EQ(text_of(*file), "hello");
  EXPECT_EQ(file->path(), dir.file("a"));
}

TEST(MappedFile, AnEmptyFileIsFine) {
  const TempDir dir;
  write_text(dir.file("a"), "");
  const auto file = value_or_die(MappedFile::open(dir.file("a")));
  EXPECT_EQ(file->size(), 0U);
  EXPECT_THAT(file->slice(0, 0), IsOk());
  EXPECT_THAT(file->slice(0, 1), Rejects("the file has 0"));
}

TEST(MappedFile, SaysWhatIsWrong) {
  const TempDir dir;
  EXPECT_THAT(MappedFile::open(dir.file("none")), Rejects("none: cannot be read: No such file"));
  EXPECT_THAT(MappedFile::open(dir.path()), Rejects("expected a file, got a folder"));
  EXPECT_THAT(MappedFile::open(""), Rejects("cannot be read"));
  ASSERT_EQ(::mkfifo(dir.file("pipe").c_str(), 0600), 0);
  EXPECT_THAT(MappedFile::open(dir.file("pipe")), Rejects("got a device or pipe"));
  EXPECT_THAT(MappedFile::open("/dev/zero"), Rejects("got a device or pipe"));
}

TEST(MappedFile, SlicesAreCheckedWithoutOverflow) {
  const TempDir dir;
  write_text(dir.file("a"), "0123456789");
  const auto file = value_or_die(MappedFile::open(dir.file("a")));
  EXPECT_EQ(value_or_die(file->slice(3, 4)).size(), 4U);
  EXPECT_THAT(file->slice(10, 0), IsOk());
  EXPECT_THAT(file->slice(7, 4), Rejects("truncated"));
  constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();
  EXPECT_THAT(file->slice(5, kMost - 2), Rejects("bytes at offset 5"));
  EXPECT_THAT(file->slice(kMost, 2), Rejects("bytes at offset"));
}

TEST(AtomicFile, AppearsAtCommitAlone) {
  const TempDir dir;
  {
    AtomicFile file = value_or_die(AtomicFile::create(dir.file("out")));
    ASSERT_THAT(file.write(std::string_view("12345")), IsOk());
    EXPECT_FALSE(fs::exists(dir.file("out")));
    ASSERT_THAT(file.write_zeros(3), IsOk());
    EXPECT_EQ(file.position(), 8U);
    ASSERT_THAT(file.write_at(1, std::as_bytes(std::span("ab", 2))), IsOk());
    ASSERT_THAT(file.write(std::string_view("!")), IsOk());
    ASSERT_THAT(file.commit(), IsOk());
  }
  EXPECT_EQ(read_text(dir.file("out")), std::string("1ab45\0\0\0!", 9));
  EXPECT_EQ(dir.entries(), 1U);
}

TEST(AtomicFile, LeavesNothingWithoutCommit) {
  const TempDir dir;
  write_text(dir.file("out"), "old");
  {
    AtomicFile file = value_or_die(AtomicFile::create(dir.file("out")));
    ASSERT_THAT(file.write(std::string_view("new")), IsOk());
    AtomicFile moved = std::move(file);
    EXPECT_EQ(dir.entries(), 2U);
  }
  EXPECT_EQ(read_text(dir.file("out")), "old");
  EXPECT_EQ(dir.entries(), 1U);
}

TEST(AtomicFile, WritesLargePieces) {
  const TempDir dir;
  std::string expected;
  AtomicFile file = value_or_die(AtomicFile::create(dir.file("out")));
  for (const std::size_t size : {10U, 70'000U, 65'535U, 1U, 200'000U, 65'536U, 3U}) {
    const std::string piece(size, static_cast<char>('a' + size % 26));
    ASSERT_THAT(file.write(piece), IsOk());
    expected += piece;
  }
  EXPECT_EQ(file.position(), expected.size());
  ASSERT_THAT(file.commit(), IsOk());
  EXPECT_EQ(read_text(dir.file("out")), expected);
}

TEST(AtomicFile, RefusesTargetsItCannotReplace) {
  const TempDir dir;
  EXPECT_THAT(AtomicFile::create(dir.file("no/such/out")), Rejects("does not exist"));
  EXPECT_THAT(AtomicFile::create(dir.path()), Rejects("cannot be written: Is a directory"));
  EXPECT_THAT(AtomicFile::create("/dev/null"), Rejects("it is a device or pipe"));
  EXPECT_THAT(AtomicFile::create(""), Rejects("empty"));
  write_text(dir.file("file"), "");
  EXPECT_THAT(AtomicFile::create(dir.file("file/out")), Rejects("cannot be written"));
}

TEST(AtomicFile, NeedsPermission) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write anywhere";
  const TempDir dir;
  fs::create_directory(dir.file("locked"));
  fs::permissions(dir.file("locked"), fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_THAT(AtomicFile::create(dir.file("locked/out")), Rejects("Permission denied"));
}

TEST(AtomicFile, KeepsPermissionsAndFollowsLinks) {
  const TempDir dir;
  write_text(dir.file("real"), "old");
  fs::permissions(dir.file("real"), fs::perms::owner_read | fs::perms::owner_write);
  fs::create_symlink("real", dir.file("link"));
  ASSERT_THAT(write_file(dir.file("link"), "new"), IsOk());
  EXPECT_TRUE(fs::is_symlink(dir.file("link")));
  EXPECT_EQ(read_text(dir.file("real")), "new");
  EXPECT_EQ(fs::status(dir.file("real")).permissions(),
            fs::perms::owner_read | fs::perms::owner_write);
}

TEST(AtomicFile, WritingAfterCommitIsOurMistake) {
  const TempDir dir;
  AtomicFile file = value_or_die(AtomicFile::create(dir.file("out")));
  ASSERT_THAT(file.commit(), IsOk());
  EXPECT_EQ(file.commit().code(), StatusCode::kInternal);
}

TEST(AtomicDirectory, AppearsAndReplacesWhole) {
  const TempDir dir;
  const std::string target = dir.file("ckpt");
  for (const std::string round : {"first", "second"}) {
    AtomicDirectory output = value_or_die(AtomicDirectory::create(target + "/"));
    ASSERT_THAT(write_file(output.file(round), round), IsOk());
    fs::create_directory(output.file("sub"));
    ASSERT_THAT(write_file(output.file("sub/x"), "x"), IsOk());
    EXPECT_FALSE(fs::exists(target + "/" + round));
    ASSERT_THAT(output.commit(), IsOk());
    EXPECT_EQ(read_text(target + "/" + round), round);
  }
  EXPECT_FALSE(fs::exists(target + "/first"));
  EXPECT_EQ(dir.entries(), 1U);
}

TEST(AtomicDirectory, LeavesTheOldOneWithoutCommit) {
  const TempDir dir;
  fs::create_directory(dir.file("ckpt"));
  write_text(dir.file("ckpt/a"), "old");
  {
    AtomicDirectory output = value_or_die(AtomicDirectory::create(dir.file("ckpt")));
    ASSERT_THAT(write_file(output.file("a"), "new"), IsOk());
  }
  EXPECT_EQ(read_text(dir.file("ckpt/a")), "old");
  EXPECT_EQ(dir.entries(), 1U);
}

TEST(AtomicDirectory, RefusesAFileAndAMissingParent) {
  const TempDir dir;
  write_text(dir.file("file"), "");
  EXPECT_THAT(AtomicDirectory::create(dir.file("file")), Rejects("Not a directory"));
  EXPECT_THAT(AtomicDirectory::create(dir.file("no/such")), Rejects("does not exist"));
}

}  // namespace
}  // namespace mezzo
