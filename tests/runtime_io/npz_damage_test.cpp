// Damaged and hostile archives: an error each time, never a crash, never memory without measure.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "runtime/io/npy.h"
#include "runtime/io/npz.h"
#include "tests/support/status_test.h"
#include "tests/support/temp_dir.h"

namespace mezzo::runtime {
namespace {

using test::FailsWith;
using test::Rejects;
using test::TempDir;
using testing::_;
using testing::HasSubstr;

// Opens and reads every array; the first error, or ok.
Status read_all(const std::string& path) {
  const auto file = NpzFile::open(path);
  if (!file.ok()) return file.status();
  for (const ArrayInfo& array : file->arrays()) {
    const auto data = file->read(array.name);
    if (!data.ok()) return data.status();
  }
  return ok_status();
}

Status read_all_of(const std::string& contents) {
  const TempDir dir;
  test::write_text(dir.file("x.npz"), contents);
  return read_all(dir.file("x.npz"));
}

class Damage : public testing::TestWithParam<const char*> {};

TEST_P(Damage, CutOffAnywhere) {
  const std::string whole = test::read_text(GetParam());
  const TempDir dir;
  ASSERT_TRUE(read_all(GetParam()).ok());
  for (std::size_t length = 0; length < whole.size(); length += 1 + length / 97) {
    test::write_text(dir.file("x.npz"), whole.substr(0, length));
    EXPECT_FALSE(read_all(dir.file("x.npz")).ok()) << "cut to " << length;
  }
}

// Flips every bit of the parts that hold structure, one at a time. A flip in a field that nobody
// needs (dates) may pass; no flip may crash, and one in the data must be found by the checksum.
TEST_P(Damage, FlippedBits) {
  const std::string whole = test::read_text(GetParam());
  const TempDir dir;
  for (std::size_t at = 0; at < whole.size(); at += whole.size() / 500 + 1) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << (at % 8)));
    test::write_text(dir.file("x.npz"), damaged);
    (void)read_all(dir.file("x.npz"));
  }
}

INSTANTIATE_TEST_SUITE_P(Npz, Damage,
                         testing::Values("data/stored.npz", "data/deflated.npz",
                                         "data/written.npz"));

TEST(NpzDamage, ChecksumsFindAFlippedElement) {
  std::string whole = test::read_text("data/written.npz");
  const std::size_t at = whole.find("\x93NUMPY");
  ASSERT_NE(at, std::string::npos);
  const std::size_t header = 10 + static_cast<unsigned char>(whole[at + 8]);
  whole[at + header + 1] ^= 1;
  EXPECT_THAT(read_all_of(whole), Rejects("array 'weights': the checksum does not fit"));
}

// Sets a number in the n-th (from 0) directory entry.
template <typename Number>
std::string with_directory_field(std::string archive, int entry, std::size_t offset, Number value) {
  std::size_t at = archive.find("PK\x01\x02");
  for (int i = 0; i < entry; ++i) at = archive.find("PK\x01\x02", at + 1);
  std::memcpy(archive.data() + at + offset, &value, sizeof(value));
  return archive;
}

TEST(NpzDamage, HostileDirectories) {
  const std::string whole = test::read_text("data/written.npz");
  EXPECT_THAT(read_all_of(with_directory_field(whole, 0, 42, std::uint32_t{0xfffffff0})),
              Rejects("has no header where the directory says"));
  EXPECT_THAT(read_all_of(with_directory_field(whole, 0, 20, std::uint32_t{0x7fffffff})),
              Rejects("reaches beyond the file"));
  EXPECT_THAT(read_all_of(with_directory_field(whole, 0, 24, std::uint32_t{0x7fffffff})),
              Rejects("states a size it cannot have"));
  EXPECT_THAT(read_all_of(with_directory_field(whole, 0, 8, std::uint16_t{1})),
              FailsWith(StatusCode::kUnimplemented, HasSubstr("encrypted")));
  EXPECT_THAT(read_all_of(with_directory_field(whole, 1, 42, std::uint32_t{0})),
              Rejects("overlap"));
  EXPECT_THAT(read_all_of(with_directory_field(whole, 0, 42, std::uint32_t{0xffffffff})),
              Rejects("ZIP64 record"));
  EXPECT_THAT(read_all_of(with_directory_field(whole, 0, 28, std::uint16_t{0xffff})),
              Rejects("directory is damaged"));
}

TEST(NpzDamage, DeflatedSizesCannotAskForMemoryWithoutMeasure) {
  const std::string whole = test::read_text("data/deflated.npz");
  EXPECT_THAT(read_all_of(with_directory_field(whole, 0, 24, std::uint32_t{0xf0000000})),
              Rejects("states a size it cannot have"));
  // A size that deflate could give, but that the contents do not have.
  EXPECT_THAT(read_all_of(with_directory_field(whole, 0, 24, std::uint32_t{200})),
              testing::Not(test::IsOk()));
}

TEST(NpzDamage, RepeatedNames) {
  std::string whole = test::read_text("data/stored.npz");
  std::size_t at = whole.rfind("u1.npy");
  whole[at] = 'i';  // i1.npy is there already
  EXPECT_THAT(read_all_of(whole), Rejects("holds 'i1.npy' twice"));
}

StatusOr<NpyHeader> header_of(const std::string& dict, int version = 1) {
  std::string text = "\x93NUMPY";
  text += static_cast<char>(version);
  text += '\0';
  text += static_cast<char>(dict.size() & 0xff);
  text += static_cast<char>(dict.size() >> 8);
  if (version > 1) text.append(2, '\0');
  text += dict;
  return read_npy_header(std::as_bytes(std::span(text)), "f");
}

TEST(NpyHeader, AcceptsWhatNumpyWrites) {
  const auto header =
      header_of("{'descr': '<f4', 'fortran_order': True, 'shape': (3, 4), }     \n");
  ASSERT_TRUE(header.ok()) << header.status().message();
  EXPECT_TRUE(header->fortran_order);
  EXPECT_EQ(header->data_bytes, 48U);
  const auto python2 = header_of("{\"shape\": (3L,), \"fortran_order\": True, \"descr\": \"|u1\"}");
  ASSERT_TRUE(python2.ok()) << python2.status().message();
  EXPECT_FALSE(python2->fortran_order);  // it makes no difference for one dimension
}

TEST(NpyHeader, RefusesEverythingElse) {
  const std::vector<std::string> broken = {
      "",
      "{",
      "{}",
      "[]",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4)",
      "{'descr': '<f4', 'fortran_order': False}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), 'x': 1}",
      "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (3, 4)}",
      "{'descr': '<f4', 'fortran_order': 0, 'shape': (3, 4)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (-3, 4)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (3 4)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4)} x",
      "{'descr: '<f4', 'fortran_order': False, 'shape': (3, 4)}"};
  for (const std::string& dict : broken) {
    EXPECT_THAT(header_of(dict), FailsWith(StatusCode::kInvalidArgument, _)) << dict;
  }
  std::string shape;
  for (int i = 0; i < 65; ++i) shape += "1, ";
  EXPECT_THAT(header_of("{'descr': '<f4', 'fortran_order': False, 'shape': (" + shape + ")}"),
              Rejects("not numpy's"));
}

TEST(NpyHeader, SizesDoNotOverflow) {
  EXPECT_THAT(header_of("{'descr': '<f8', 'fortran_order': False, 'shape': "
                        "(4294967296, 4294967296, 4294967296)}"),
              Rejects("its shape is too large"));
  EXPECT_THAT(
      header_of("{'descr': '<f8', 'fortran_order': False, 'shape': (2305843009213693952,)}"),
      Rejects("its shape is too large"));
  EXPECT_THAT(header_of("{'descr': '<f8', 'fortran_order': False, 'shape': "
                        "(4294967296, 4294967296, 0)}"),
              test::IsOk());
  EXPECT_THAT(header_of("{}", 9), FailsWith(StatusCode::kUnimplemented, HasSubstr("version 9")));
}

}  // namespace
}  // namespace mezzo::runtime
