// The files in data/ are numpy's own; data/make_data.py made them.
#include "runtime/io/npz.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "compiler/support/half.h"
#include "tests/support/shared_data.h"
#include "tests/support/status_test.h"
#include "tests/support/temp_dir.h"

namespace mezzo::runtime {
namespace {

using test::FailsWith;
using test::IsOk;
using test::Rejects;
using test::TempDir;
using test::value_or_die;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

template <typename T>
std::vector<T> elements(const ArrayData& data) {
  std::vector<T> result(data.bytes.size() / sizeof(T));
  std::memcpy(result.data(), data.bytes.data(), data.bytes.size());
  return result;
}

class NumpyFile : public testing::TestWithParam<const char*> {};

template <typename T>
void expect_numbers(const NpzFile& file, const char* name, DType dtype) {
  SCOPED_TRACE(name);
  const ArrayInfo* array = file.find(name);
  ASSERT_NE(array, nullptr);
  EXPECT_EQ(array->dtype, dtype);
  EXPECT_THAT(array->shape, ElementsAre(2, 3));
  EXPECT_EQ(array->elems, 6U);
  EXPECT_EQ(array->bytes, 6 * sizeof(T));
  const ArrayData data = value_or_die(file.read(name));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data.bytes.data()) % sizeof(T), 0U);
  EXPECT_THAT(elements<T>(data), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST_P(NumpyFile, EveryElementType) {
  const NpzFile file = value_or_die(NpzFile::open(GetParam()));
  expect_numbers<std::uint8_t>(file, "u1", DType::kUInt8);
  expect_numbers<std::int8_t>(file, "i1", DType::kInt8);
  expect_numbers<std::uint16_t>(file, "u2", DType::kUInt16);
  expect_numbers<std::int16_t>(file, "i2", DType::kInt16);
  expect_numbers<std::uint32_t>(file, "u4", DType::kUInt32);
  expect_numbers<std::int32_t>(file, "i4", DType::kInt32);
  expect_numbers<std::uint64_t>(file, "u8", DType::kUInt64);
  expect_numbers<std::int64_t>(file, "i8", DType::kInt64);
  expect_numbers<float>(file, "f4", DType::kFloat32);
  expect_numbers<double>(file, "f8", DType::kFloat64);
  EXPECT_EQ(file.find("b1")->dtype, DType::kBool);
  EXPECT_THAT(elements<std::uint8_t>(value_or_die(file.read("b1"))), ElementsAre(0, 1, 0, 1, 0, 1));
  EXPECT_EQ(file.find("f2")->dtype, DType::kFloat16);
  const auto halves = elements<std::uint16_t>(value_or_die(file.read("f2")));
  EXPECT_EQ(f16_to_float(halves[5]), 5.0F);
}

TEST_P(NumpyFile, ScalarsEmptyArraysAndFortranOrder) {
  const NpzFile file = value_or_die(NpzFile::open(GetParam()));
  EXPECT_TRUE(file.find("scalar")->shape.empty());
  EXPECT_THAT(elements<float>(value_or_die(file.read("scalar"))), ElementsAre(2.5F));
  EXPECT_THAT(file.find("empty")->shape, ElementsAre(0, 4));
  EXPECT_TRUE(value_or_die(file.read("empty")).bytes.empty());
  std::vector<std::int32_t> counted(24);
  for (int i = 0; i < 24; ++i) counted[static_cast<std::size_t>(i)] = i;
  EXPECT_EQ(elements<std::int32_t>(value_or_die(file.read("fortran"))), counted);
  EXPECT_EQ(elements<float>(value_or_die(file.read("vector"))).back(), 1.0F);
  EXPECT_EQ(file.arrays().size(), 16U);
  EXPECT_EQ(file.find("vector.npy"), nullptr);
}

INSTANTIATE_TEST_SUITE_P(Npz, NumpyFile, testing::Values("data/stored.npz", "data/deflated.npz"));

TEST(Npz, StoredArraysAreNotCopied) {
  const NpzFile file = value_or_die(NpzFile::open("data/stored.npz"));
  const ArrayData first = value_or_die(file.read("vector", Alignment::kAny));
  const ArrayData second = value_or_die(file.read("vector", Alignment::kAny));
  EXPECT_EQ(first.bytes.data(), second.bytes.data());
}

TEST(Npz, DataOutlivesTheFile) {
  ArrayData data;
  {
    const NpzFile file = value_or_die(NpzFile::open("data/stored.npz"));
    data = value_or_die(file.read("vector", Alignment::kAny));
  }
  EXPECT_EQ(elements<float>(data).back(), 1.0F);
}

TEST(Npz, SingleArrayFiles) {
  for (const char* name : {"version2", "version3"}) {
    const NpzFile file = value_or_die(NpzFile::open("data/" + std::string(name) + ".npy"));
    expect_numbers<float>(file, name, DType::kFloat32);
  }
}

TEST(Npz, SaysWhichElementTypesItDoesNotRead) {
  const auto refuses = [](const char* name, const char* why) {
    EXPECT_THAT(NpzFile::open("data/" + std::string(name)),
                FailsWith(StatusCode::kUnimplemented, AllOf(HasSubstr(name), HasSubstr(why))));
  };
  refuses("objects.npz", "array 'x': element type '|O' (Python objects) is never read");
  refuses("big_endian.npy", "'>f4' is big-endian. Hint:");
  refuses("structured.npy", "structured elements");
  refuses("complex.npy", "'<c8' is not supported; bool, int8");
  refuses("text.npy", "Hint: save labels as int64");
  refuses("bzip2.npz", "zip compression 12");
}

TEST(Npz, NamesWhatIsThereWhenAnArrayIsMissing) {
  const NpzFile file = value_or_die(NpzFile::open("data/written.npz"));
  EXPECT_THAT(file.read("lables"), Rejects("data/written.npz: has no array 'lables'. Did you mean "
                                           "'labels'? It holds: weights, labels, mask, low"));
  EXPECT_THAT(NpzFile::open("data/none.npz"), Rejects("data/none.npz: cannot be read"));
  EXPECT_THAT(NpzFile::open("npz_test.cpp"), Rejects("not a valid npz (zip) file"));
}

template <typename T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

void write_sample(const std::string& path) {
  NpzWriter writer = value_or_die(NpzWriter::create(path));
  const std::vector<float> weights = {0, 0.5, 1, 1.5, 2, 2.5};
  const std::vector<std::int64_t> labels = {-1, std::int64_t{1} << 40};
  const std::vector<std::uint8_t> mask = {1};
  const std::vector<std::uint16_t> low = {float_to_bf16(1.0F), float_to_bf16(-2.5F)};
  const std::vector<std::int64_t> dims23 = {2, 3}, dims2 = {2}, scalar;
  ASSERT_THAT(writer.add("weights", DType::kFloat32, dims23, bytes_of(weights)), IsOk());
  ASSERT_THAT(writer.add("labels", DType::kInt64, dims2, bytes_of(labels)), IsOk());
  ASSERT_THAT(writer.add("mask", DType::kBool, scalar, bytes_of(mask)), IsOk());
  ASSERT_THAT(writer.add("low", DType::kBFloat16, dims2, bytes_of(low)), IsOk());
  EXPECT_THAT(writer.add("text", DType::kString, scalar, {}),
              FailsWith(StatusCode::kUnimplemented, HasSubstr("no element type string")));
  ASSERT_THAT(writer.commit(), IsOk());
}

TEST(NpzWriter, WritesTheBytesThatNumpyWasSeenToRead) {
  const TempDir dir;
  write_sample(dir.file("out.npz"));
  EXPECT_EQ(test::read_text(dir.file("out.npz")), test::read_text("data/written.npz"));
}

TEST(NpzWriter, ItsArraysAreMappedAlignedTo64) {
  const NpzFile file = value_or_die(NpzFile::open("data/written.npz"));
  EXPECT_THAT(file.names(), ElementsAre("weights", "labels", "mask", "low"));
  for (const ArrayInfo& array : file.arrays()) {
    const ArrayData data = value_or_die(file.read(array.name));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data.bytes.data()) % 64, 0U) << array.name;
  }
  EXPECT_EQ(file.find("low")->dtype, DType::kFloat32);
  EXPECT_THAT(elements<float>(value_or_die(file.read("low"))), ElementsAre(1.0F, -2.5F));
}

TEST(NpzWriter, ManyMembersNeedTheLargeDirectory) {
  const TempDir dir;
  constexpr int kCount = 70'000;  // over the 65535 of the plain end record
  NpzWriter writer = value_or_die(NpzWriter::create(dir.file("many.npz")));
  for (int i = 0; i < kCount; ++i) {
    const std::vector<std::int32_t> value = {i};
    ASSERT_THAT(writer.add("a" + std::to_string(i), DType::kInt32, {}, bytes_of(value)), IsOk());
  }
  ASSERT_THAT(writer.commit(), IsOk());
  const NpzFile file = value_or_die(NpzFile::open(dir.file("many.npz")));
  ASSERT_EQ(file.arrays().size(), static_cast<std::size_t>(kCount));
  EXPECT_THAT(elements<std::int32_t>(value_or_die(file.read("a69999"))), ElementsAre(69'999));
}

TEST(NpzWriter, LeavesNothingWithoutCommit) {
  const TempDir dir;
  {
    NpzWriter writer = value_or_die(NpzWriter::create(dir.file("out.npz")));
    const std::vector<float> values(100'000);
    const std::vector<std::int64_t> dims = {100'000};
    ASSERT_THAT(writer.add("x", DType::kFloat32, dims, bytes_of(values)), IsOk());
  }
  EXPECT_EQ(dir.entries(), 0U);
}

TEST(Npz, ReadsEveryArchiveOfTheAcceptanceData) {
  const auto shared = test::shared_folder();
  if (!shared) GTEST_SKIP() << test::kNoSharedFolder;
  int archives = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(*shared)) {
    if (entry.path().extension() != ".npz") continue;
    const auto file = NpzFile::open(entry.path().string());
    ASSERT_THAT(file, IsOk());
    for (const ArrayInfo& array : file->arrays()) {
      const auto data = file->read(array.name, Alignment::kAny);
      ASSERT_THAT(data, IsOk()) << entry.path() << " " << array.name;
      ASSERT_EQ(data->bytes.size(), array.bytes);
    }
    ++archives;
  }
  EXPECT_GT(archives, 100);
}

}  // namespace
}  // namespace mezzo::runtime
