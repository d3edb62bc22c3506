#include "runtime/io/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/support/status_test.h"
#include "tests/support/temp_dir.h"

namespace mezzo::runtime {
namespace {

using test::FailsWith;
using test::IsOk;
using test::Rejects;
using test::TempDir;
using test::value_or_die;
using testing::ElementsAre;
using testing::HasSubstr;

std::string file_of(const std::string& header, std::size_t data_bytes) {
  const std::uint64_t length = header.size();
  std::string text(8, '\0');
  std::memcpy(text.data(), &length, 8);
  return text + header + std::string(data_bytes, '\x01');
}

StatusOr<SafetensorsFile> open_text(const std::string& contents) {
  const TempDir dir;
  test::write_text(dir.file("m.safetensors"), contents);
  return SafetensorsFile::open(dir.file("m.safetensors"));
}

StatusOr<SafetensorsFile> open_header(const std::string& header, std::size_t data_bytes) {
  return open_text(file_of(header, data_bytes));
}

void write_sample(const std::string& path) {
  const std::vector<SafetensorsDecl> decls = {{"fc.weight", DType::kFloat32, {2, 3}},
                                              {"scale", DType::kFloat32, {}},
                                              {"none", DType::kFloat32, {0, 7}},
                                              {"low", DType::kBFloat16, {3}},
                                              {"mask \"é\"", DType::kBool, {1}}};
  auto writer = value_or_die(SafetensorsWriter::create(path, decls, {{"step", "12"}}));
  const std::vector<float> weight = {1, 2, 3, 4, 5, 6}, scale = {7};
  const std::vector<std::uint16_t> low = {0x3f80, 0x4000, 0x4040};
  const std::vector<std::uint8_t> mask = {1};
  ASSERT_THAT(writer.write(std::as_bytes(std::span(weight)).first(10)), IsOk());
  ASSERT_THAT(writer.write(std::as_bytes(std::span(weight)).subspan(10)), IsOk());
  ASSERT_THAT(writer.write(std::as_bytes(std::span(scale))), IsOk());
  ASSERT_THAT(writer.write(std::as_bytes(std::span(low))), IsOk());
  ASSERT_THAT(writer.write(std::as_bytes(std::span(mask))), IsOk());
  ASSERT_THAT(writer.commit(), IsOk());
}

TEST(Safetensors, WritesWhatItReads) {
  const TempDir dir;
  write_sample(dir.file("m"));
  const auto file = value_or_die(SafetensorsFile::open(dir.file("m")));
  ASSERT_EQ(file.entries().size(), 5U);
  EXPECT_EQ(file.metadata().at("step"), "12");
  const SafetensorsEntry* weight = file.find("fc.weight");
  ASSERT_NE(weight, nullptr);
  EXPECT_THAT(weight->shape, ElementsAre(2, 3));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(weight->bytes.data()) % 64, 0U);
  float last = 0;
  std::memcpy(&last, weight->bytes.data() + 20, 4);
  EXPECT_EQ(last, 6.0F);
  EXPECT_EQ(file.find("low")->dtype, DType::kBFloat16);
  EXPECT_TRUE(file.find("none")->bytes.empty());
  EXPECT_EQ(file.find("mask \"é\"")->bytes.size(), 1U);
  EXPECT_EQ(file.find("other"), nullptr);
}

TEST(Safetensors, HeaderIsTheFormatsOwn) {
  const TempDir dir;
  write_sample(dir.file("m"));
  const std::string text = test::read_text(dir.file("m"));
  std::uint64_t length = 0;
  std::memcpy(&length, text.data(), 8);
  EXPECT_EQ((8 + length) % 64, 0U);
  const std::string header = text.substr(8, length);
  EXPECT_TRUE(header.starts_with(
      R"({"__metadata__":{"step":"12"},"fc.weight":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"))
      << header;
  EXPECT_EQ(text.size(), 8 + length + 24 + 4 + 6 + 1);
}

TEST(Safetensors, GetFloatsChecksTypeAndShape) {
  const TempDir dir;
  write_sample(dir.file("m"));
  const auto file = value_or_die(SafetensorsFile::open(dir.file("m")));
  const std::vector<std::int64_t> dims = {2, 3}, turned = {3, 2}, three = {3};
  EXPECT_THAT(file.get_floats("fc.weight", dims), IsOk());
  EXPECT_THAT(file.get_floats("fc.wieght", dims), Rejects("Did you mean 'fc.weight'?"));
  EXPECT_THAT(file.get_floats("fc.weight", turned), Rejects("expected float[3,2], got float[2,3]"));
  EXPECT_THAT(file.get_floats("low", three), Rejects("expected float[3], got bfloat16[3]"));
}

TEST(Safetensors, WriterChecksItsUse) {
  const TempDir dir;
  const std::vector<SafetensorsDecl> twice = {{"a", DType::kFloat32, {1}},
                                              {"a", DType::kFloat32, {1}}};
  EXPECT_THAT(SafetensorsWriter::create(dir.file("m"), twice), Rejects("the name is taken"));
  const std::vector<SafetensorsDecl> meta = {{"__metadata__", DType::kFloat32, {1}}};
  EXPECT_THAT(SafetensorsWriter::create(dir.file("m"), meta), Rejects("the name is taken"));
  const std::vector<SafetensorsDecl> huge = {
      {"a", DType::kFloat32, {std::int64_t{1} << 40, std::int64_t{1} << 40}}};
  EXPECT_THAT(SafetensorsWriter::create(dir.file("m"), huge), Rejects("is too large"));
  const std::vector<SafetensorsDecl> text = {{"a", DType::kString, {1}}};
  EXPECT_THAT(SafetensorsWriter::create(dir.file("m"), text),
              FailsWith(StatusCode::kUnimplemented, HasSubstr("no type string")));
  const std::vector<SafetensorsDecl> one = {{"a", DType::kFloat32, {1}}};
  {
    auto writer = value_or_die(SafetensorsWriter::create(dir.file("m"), one));
    EXPECT_EQ(writer.commit().code(), StatusCode::kInternal);
    const std::vector<float> two = {1, 2};
    EXPECT_EQ(writer.write(std::as_bytes(std::span(two))).code(), StatusCode::kInternal);
  }
  EXPECT_EQ(dir.entries(), 0U);
}

TEST(SafetensorsDamage, HostileHeaders) {
  EXPECT_THAT(open_text(""), Rejects("under 8 bytes"));
  EXPECT_THAT(open_text(std::string(8, '\xff')), Rejects("its header is said to have"));
  EXPECT_THAT(open_header("[]", 0), Rejects("not a JSON object"));
  EXPECT_THAT(open_header("{", 0), Rejects("not valid JSON"));
  EXPECT_THAT(open_header(R"({"a":1})", 0), Rejects("tensor 'a'"));
  EXPECT_THAT(open_header(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                          R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                          4),
              Rejects("occurs twice"));
  EXPECT_THAT(open_header(R"({"a":{"shape":[1],"data_offsets":[0,4]}})", 4),
              Rejects("key 'dtype' is missing"));
  EXPECT_THAT(open_header(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4),
              Rejects("expected sizes of at least 0"));
  EXPECT_THAT(open_header(R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", 4),
              Rejects("expected sizes"));
  EXPECT_THAT(open_header(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4),
              Rejects("expected two sizes"));
  EXPECT_THAT(open_header(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4),
              Rejects("bytes 4 to 0"));
  EXPECT_THAT(open_header(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})", 4),
              Rejects("may be truncated"));
  EXPECT_THAT(open_header(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4),
              Rejects("expected the bytes of F32[2], got 4"));
  EXPECT_THAT(
      open_header(R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})",
                  0),
      Rejects("expected the bytes of"));  // 2^64 elements would wrap to 0
  EXPECT_THAT(open_header(R"({"a":{"dtype":"F4","shape":[1],"data_offsets":[0,4]}})", 4),
              FailsWith(StatusCode::kUnimplemented, HasSubstr("element type 'F4'")));
  EXPECT_THAT(open_header(R"({"__metadata__":{"x":1}})", 0), Rejects("expected a string"));
}

TEST(SafetensorsDamage, GapsAndOverlaps) {
  const std::string a = R"("a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]})";
  EXPECT_THAT(open_header("{" + a + "}", 4), IsOk());
  EXPECT_THAT(open_header("{" + a + "}", 5), Rejects("belong to none"));
  EXPECT_THAT(open_header("{" + a + R"(,"b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})", 6),
              Rejects("tensor 'b' overlaps another"));
  EXPECT_THAT(open_header("{" + a + R"(,"b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 4),
              Rejects("tensor 'b' overlaps another"));
  EXPECT_THAT(open_header("{" + a + R"(,"b":{"dtype":"U8","shape":[1],"data_offsets":[5,6]}})", 6),
              Rejects("tensor 'b' leaves a gap"));
}

TEST(SafetensorsDamage, CutOrFlippedAnywhere) {
  const TempDir dir;
  write_sample(dir.file("m"));
  const std::string whole = test::read_text(dir.file("m"));
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_FALSE(open_text(whole.substr(0, length)).ok()) << length;
  }
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << (at % 7)));
    (void)open_text(damaged);  // no crash; the format itself has no checksum
  }
}

}  // namespace
}  // namespace mezzo::runtime
