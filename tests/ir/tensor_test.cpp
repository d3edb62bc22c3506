#include "compiler/ir/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>

#include "compiler/support/mapped_file.h"

namespace mezzo {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::byte> bytes_of(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

std::vector<std::byte> streamed(const Tensor& tensor, std::size_t piece_bytes) {
  std::vector<std::byte> all;
  const auto elem = static_cast<std::size_t>(std::max(8, dtype_bits(tensor.dtype()))) / 8;
  const Status status = tensor.stream(
      [&](std::span<const std::byte> piece) {
        EXPECT_FALSE(piece.empty());
        EXPECT_LE(piece.size(), std::max(piece_bytes, elem));
        EXPECT_EQ(piece.size() % elem, 0U);
        all.insert(all.end(), piece.begin(), piece.end());
        return ok_status();
      },
      piece_bytes);
  EXPECT_TRUE(status.ok()) << status.message();
  return all;
}

TensorRef random_floats(std::vector<std::int64_t> dims, unsigned seed) {
  std::int64_t elems = 1;
  for (const std::int64_t dim : dims) elems *= dim;
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(elems));
  for (float& value : values) value = normal(random);
  return Tensor::from_floats(std::move(dims), values);
}

TEST(Tensor, SizesOfPackedAndOrdinaryTypes) {
  EXPECT_EQ(Tensor::from_bytes(DType::kInt4, {3}, bytes_of({0x21, 0x03}))->byte_size(), 2U);
  EXPECT_EQ(Tensor::from_ints({}, std::vector<std::int64_t>{5})->elems(), 1);
  EXPECT_EQ(Tensor::from_ints({2, 0}, {})->elems(), 0);
  const Tensor strings(DType::kString, {2}, std::vector<std::string>{"a", "b"});
  EXPECT_EQ(strings.byte_size(), 0U);
  EXPECT_EQ(strings.strings()->at(1), "b");
  EXPECT_THAT(strings.copy_bytes(), IsEmpty());
  EXPECT_FALSE(strings.stream([](auto) { return ok_status(); }).ok());
}

TEST(Tensor, EveryTensorHasAnIdOfItsOwn) {
  const TensorRef a = Tensor::scalar(DType::kFloat32, 1);
  const TensorRef b = Tensor::scalar(DType::kFloat32, 1);
  EXPECT_NE(a->id(), b->id());
  EXPECT_EQ(Tensor(*a).id(), a->id());
}

TEST(Tensor, UnpacksSmallIntegersFromTheLowBits) {
  const auto packed = [](DType dtype, std::int64_t elems, std::initializer_list<int> bytes) {
    return Tensor::from_bytes(dtype, {elems}, bytes_of(bytes));
  };
  EXPECT_THAT(packed(DType::kUInt4, 3, {0xf1, 0x08})->to_ints(), ElementsAre(1, 15, 8));
  EXPECT_THAT(packed(DType::kInt4, 3, {0xf1, 0x08})->to_ints(), ElementsAre(1, -1, -8));
  EXPECT_THAT(packed(DType::kUInt2, 5, {0xe4, 0x02})->to_ints(), ElementsAre(0, 1, 2, 3, 2));
  EXPECT_THAT(packed(DType::kInt2, 5, {0xe4, 0x02})->to_ints(), ElementsAre(0, 1, -2, -1, -2));
  EXPECT_THAT(packed(DType::kInt4, 2, {0x8f})->to_doubles(), ElementsAre(-1, -8));
}

TEST(Tensor, ReadsEveryIntegerType) {
  const auto read = [](DType dtype, std::vector<std::byte> bytes) {
    const auto elems = static_cast<std::int64_t>(bytes.size() * 8) / dtype_bits(dtype);
    return Tensor::from_bytes(dtype, {elems}, std::move(bytes))->to_ints();
  };
  EXPECT_THAT(read(DType::kBool, bytes_of({0, 1, 7})), ElementsAre(0, 1, 1));
  EXPECT_THAT(read(DType::kInt8, bytes_of({0xff, 1})), ElementsAre(-1, 1));
  EXPECT_THAT(read(DType::kUInt8, bytes_of({0xff, 1})), ElementsAre(255, 1));
  EXPECT_THAT(read(DType::kInt16, bytes_of({0xfe, 0xff})), ElementsAre(-2));
  EXPECT_THAT(read(DType::kUInt16, bytes_of({0xfe, 0xff})), ElementsAre(65534));
  EXPECT_THAT(read(DType::kInt32, bytes_of({0xfe, 0xff, 0xff, 0xff})), ElementsAre(-2));
  EXPECT_THAT(read(DType::kUInt32, bytes_of({0xfe, 0xff, 0xff, 0xff})), ElementsAre(4294967294));
  EXPECT_THAT(read(DType::kInt64, bytes_of({0xfe, 255, 255, 255, 255, 255, 255, 255})),
              ElementsAre(-2));
  EXPECT_THAT(read(DType::kUInt64, bytes_of({1, 0, 0, 0, 0, 0, 0, 0})), ElementsAre(1));
  EXPECT_THAT(read(DType::kFloat8E5M2, bytes_of({1})), IsEmpty());
  EXPECT_THAT(Tensor::scalar(DType::kFloat32, 2)->to_ints(), IsEmpty());
}

TEST(Tensor, ScalarsRoundOnceAndSaturateIntegers) {
  EXPECT_THAT(Tensor::scalar(DType::kFloat16, 0.1)->to_doubles(), ElementsAre(0.0999755859375));
  EXPECT_THAT(Tensor::scalar(DType::kBFloat16, -1e-3)->to_doubles(), ElementsAre(-0x1.06p-10));
  EXPECT_THAT(Tensor::scalar(DType::kFloat64, 0.1)->to_doubles(), ElementsAre(0.1));
  EXPECT_THAT(Tensor::scalar(DType::kInt64, 1e300)->to_ints(),
              ElementsAre(std::numeric_limits<std::int64_t>::max()));
  EXPECT_THAT(Tensor::scalar(DType::kInt64, -7)->to_ints(), ElementsAre(-7));
  EXPECT_THAT(Tensor::scalar(DType::kUInt8, -3)->to_ints(), ElementsAre(0));
  EXPECT_THAT(Tensor::scalar(DType::kInt8, 127.4)->to_ints(), ElementsAre(127));
  EXPECT_THAT(Tensor::scalar(DType::kInt4, -20)->to_ints(), ElementsAre(-8));
  EXPECT_THAT(Tensor::scalar(DType::kUInt2, 3)->to_ints(), ElementsAre(3));
  EXPECT_THAT(Tensor::scalar(DType::kBool, 0.5)->to_ints(), ElementsAre(1));
  EXPECT_THAT(Tensor::scalar(DType::kInt32, std::nan(""))->to_ints(), ElementsAre(0));
}

TEST(Tensor, StreamingEqualsCopyingInPiecesOfAnySize) {
  const TensorRef source = random_floats({3, 5, 7}, 1);
  const std::vector<TensorRef> tensors = {
      source,
      Tensor::cast_of(source, DType::kFloat16, false),
      Tensor::cast_of(source, DType::kFloat64, false),
      Tensor::pad_of(source, {3, 5, 8}),
      Tensor::pad_of(source, {4, 8, 7}),
      Tensor::pad_of(Tensor::cast_of(source, DType::kBFloat16, true), {8, 5, 9}),
      Tensor::cast_of(Tensor::pad_of(source, {3, 6, 7}), DType::kFloat16, false),
  };
  for (const TensorRef& tensor : tensors) {
    const std::vector<std::byte> all = tensor->copy_bytes();
    EXPECT_EQ(all.size(), tensor->byte_size());
    for (const std::size_t piece : {1U, 2U, 3U, 8U, 13U, 100U, 4096U, 1U << 20}) {
      EXPECT_EQ(streamed(*tensor, piece), all) << "in pieces of " << piece;
    }
  }
}

// Against plain index arithmetic.
TEST(Tensor, PaddingPlacesTheSourceAtTheOrigin) {
  const std::vector<std::int64_t> from = {2, 3, 4, 5};
  const TensorRef source = random_floats(from, 2);
  const std::vector<double> values = source->to_doubles();
  for (int mask = 1; mask < 16; ++mask) {
    std::vector<std::int64_t> to = from;
    for (std::size_t i = 0; i < 4; ++i) to[i] += (mask >> i & 1) * static_cast<std::int64_t>(i + 1);
    const std::vector<double> padded = Tensor::pad_of(source, to)->to_doubles();
    std::size_t at = 0;
    for (std::int64_t a = 0; a < to[0]; ++a) {
      for (std::int64_t b = 0; b < to[1]; ++b) {
        for (std::int64_t c = 0; c < to[2]; ++c) {
          for (std::int64_t d = 0; d < to[3]; ++d, ++at) {
            const bool inside = a < from[0] && b < from[1] && c < from[2] && d < from[3];
            const std::int64_t index = ((a * from[1] + b) * from[2] + c) * from[3] + d;
            ASSERT_EQ(padded[at], inside ? values[static_cast<std::size_t>(index)] : 0);
          }
        }
      }
    }
    ASSERT_EQ(at, padded.size());
  }
}

TEST(Tensor, PaddingEdgeCases) {
  const TensorRef empty = Tensor::from_floats({0, 3}, {});
  EXPECT_THAT(Tensor::pad_of(empty, {1, 4})->to_doubles(), ElementsAre(0, 0, 0, 0));
  const TensorRef source = Tensor::from_ints({1, 1}, std::vector<std::int64_t>{7});
  EXPECT_THAT(Tensor::pad_of(source, {2, 2})->to_ints(), ElementsAre(7, 0, 0, 0));
  EXPECT_EQ(Tensor::pad_of(source, {1, 1}), source);
  EXPECT_THAT(
      Tensor(DType::kFloat32, {}, Tensor::PadOf{Tensor::scalar(DType::kFloat32, 3)}).to_doubles(),
      ElementsAre(3));
}

TEST(Tensor, StreamStopsAtTheFirstError) {
  const TensorRef source = random_floats({64}, 3);
  for (const TensorRef& tensor :
       {source, Tensor::cast_of(source, DType::kFloat16, false), Tensor::pad_of(source, {80})}) {
    int calls = 0;
    const Status status = tensor->stream(
        [&](std::span<const std::byte>) {
          return ++calls == 2 ? invalid_argument("disk full") : ok_status();
        },
        16);
    EXPECT_EQ(status.message(), "disk full");
    EXPECT_EQ(calls, 2);
  }
}

TEST(Tensor, ReadsSlicesOfAMappedFile) {
  const auto path = std::filesystem::temp_directory_path() /
                    ("mezzo_tensor_test_" + std::to_string(std::random_device{}()));
  const float data[] = {9, 1, 2, 3};
  std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(data), sizeof(data));
  auto file = MappedFile::open(path.string());
  ASSERT_TRUE(file.ok()) << file.status().message();
  const Tensor slice(DType::kFloat32, {3}, Tensor::FileSlice{*file, 4, 12});
  EXPECT_EQ(slice.stored_bytes().data(), (*file)->bytes().data() + 4);  // where it lies, no copy
  EXPECT_THAT(slice.to_doubles(), ElementsAre(1, 2, 3));
#ifdef NDEBUG  // debug builds assert at construction
  for (const auto& [offset, bytes] : {std::pair<std::size_t, std::size_t>(8, 12), {SIZE_MAX, 12}}) {
    const Tensor beyond(DType::kFloat32, {3}, Tensor::FileSlice{*file, offset, bytes});
    EXPECT_THAT(beyond.stored_bytes(), IsEmpty());
    EXPECT_THAT(beyond.to_doubles(), IsEmpty());
    EXPECT_FALSE(beyond.stream([](auto) { return ok_status(); }).ok());
  }
#endif
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace mezzo
