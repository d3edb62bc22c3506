#include "runtime/train/data.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/support/status_test.h"
#include "tests/support/temp_dir.h"

namespace mezzo::runtime {
namespace {

using test::IsOk;
using test::Rejects;
using test::TempDir;
using test::value_or_die;
using testing::ElementsAre;

constexpr std::int64_t kSamples = 7;

// data.npz with x[7,2] float32 (x[i] = {i, 10 i}) and y[7] int32 (y[i] = i).
class DatasetTest : public testing::Test {
 protected:
  DatasetTest() {
    for (std::int64_t i = 0; i < kSamples; ++i) {
      x_.push_back(static_cast<float>(i));
      x_.push_back(static_cast<float>(10 * i));
      y_.push_back(static_cast<std::int32_t>(i));
    }
    write();
  }

  void write() {
    NpzWriter writer = value_or_die(NpzWriter::create(path()));
    const auto samples = static_cast<std::int64_t>(x_.size()) / 2;
    ASSERT_THAT(writer.add("x", DType::kFloat32, std::vector<std::int64_t>{samples, 2},
                           std::as_bytes(std::span(x_))),
                IsOk());
    ASSERT_THAT(writer.add("y", DType::kInt32,
                           std::vector<std::int64_t>{static_cast<std::int64_t>(y_.size())},
                           std::as_bytes(std::span(y_))),
                IsOk());
    ASSERT_THAT(writer.commit(), IsOk());
  }

  std::string path() const { return dir_.file("data.npz"); }

  static std::vector<InputExpectation> inputs() {
    return {{"x", DType::kFloat32, {-1, 2}}, {"y", DType::kInt64, {-1}}};
  }

  Dataset open(std::int64_t batch, bool shuffle, std::uint64_t seed = 0) {
    DatasetOptions options;
    options.batch_size = batch;
    options.shuffle = shuffle;
    options.seed = seed;
    return value_or_die(Dataset::open(path(), inputs(), options));
  }

  // The labels of the next batch, after checking that x belongs to them.
  static std::vector<std::int64_t> next(Dataset& dataset, std::int64_t batch) {
    std::vector<float> x(static_cast<std::size_t>(2 * batch), -1.0F);
    std::vector<std::int64_t> y(static_cast<std::size_t>(batch), -1);
    const std::vector<void*> buffers = {x.data(), y.data()};
    dataset.next(buffers);
    for (std::size_t i = 0; i < y.size(); ++i) {
      EXPECT_EQ(x[2 * i], static_cast<float>(y[i]));
      EXPECT_EQ(x[2 * i + 1], static_cast<float>(10 * y[i]));
    }
    return y;
  }

  TempDir dir_;
  std::vector<float> x_;
  std::vector<std::int32_t> y_;
};

TEST_F(DatasetTest, WrapsAroundInOrder) {
  Dataset dataset = open(3, false);
  EXPECT_EQ(dataset.samples(), 7);
  EXPECT_EQ(dataset.batches_per_epoch(), 3);
  EXPECT_THAT(dataset.batch_dims(0), ElementsAre(3, 2));
  EXPECT_THAT(next(dataset, 3), ElementsAre(0, 1, 2));
  EXPECT_THAT(next(dataset, 3), ElementsAre(3, 4, 5));
  EXPECT_THAT(next(dataset, 3), ElementsAre(6, 0, 1));
  EXPECT_EQ(dataset.position(), 9);
}

TEST_F(DatasetTest, ABatchMayHoldSeveralEpochs) {
  Dataset dataset = open(16, false);
  EXPECT_THAT(next(dataset, 16), ElementsAre(0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5, 6, 0, 1));
  EXPECT_EQ(dataset.batches_per_epoch(), 1);
}

TEST_F(DatasetTest, ShufflesEachEpochAnew) {
  Dataset dataset = open(7, true, 5);
  std::set<std::vector<std::int64_t>> orders;
  for (int epoch = 0; epoch < 4; ++epoch) {
    const auto order = next(dataset, 7);
    EXPECT_EQ(std::set<std::int64_t>(order.begin(), order.end()).size(), 7U);  // each once
    orders.insert(order);
  }
  EXPECT_EQ(orders.size(), 4U);
  Dataset same = open(7, true, 5), other = open(7, true, 6);
  EXPECT_TRUE(orders.contains(next(same, 7)));
  EXPECT_FALSE(orders.contains(next(other, 7)));
}

TEST_F(DatasetTest, ResumesWithTheSamplesThatWouldHaveCome) {
  for (const bool shuffle : {false, true}) {
    for (int batches = 0; batches < 8; ++batches) {
      Dataset dataset = open(3, shuffle, 9);
      for (int i = 0; i < batches; ++i) next(dataset, 3);
      Dataset resumed = open(3, shuffle, 9);
      ASSERT_THAT(resumed.load(nlohmann::json::parse(dataset.save().dump())), IsOk());
      EXPECT_EQ(resumed.position(), 3 * batches);
      for (int i = 0; i < 5; ++i) EXPECT_EQ(next(resumed, 3), next(dataset, 3));
    }
  }
}

TEST_F(DatasetTest, RefusesAForeignState) {
  Dataset dataset = open(3, true, 9);
  const nlohmann::json good = dataset.save();
  const auto with = [&](const char* key, nlohmann::json value) {
    nlohmann::json changed = good;
    changed[key] = std::move(value);
    return dataset.load(changed);
  };
  EXPECT_THAT(with("samples", 8), Rejects("written with 8 samples, the data now has 7"));
  EXPECT_THAT(with("seed", 10), Rejects("another order of samples"));
  EXPECT_THAT(with("shuffle", false), Rejects("another order of samples"));
  EXPECT_THAT(with("position", -1), Rejects("negative"));
  EXPECT_THAT(with("position", "x"), Rejects("expected an integer"));
  EXPECT_THAT(dataset.load(nlohmann::json::object()), Rejects("is missing"));
}

StatusOr<Dataset> try_open(const std::string& path, std::vector<InputExpectation> inputs,
                           DatasetOptions options = {}) {
  return Dataset::open(path, std::move(inputs), options);
}

TEST_F(DatasetTest, NamesMissingArrays) {
  EXPECT_THAT(try_open(path(), {{"X", DType::kFloat32, {-1, 2}}}),
              Rejects("has no array 'X'. Did you mean 'x'? It holds: x, y"));
  EXPECT_THAT(try_open(dir_.file("none.npz"), inputs()), Rejects("none.npz: cannot be read"));
}

TEST_F(DatasetTest, ChecksShapesAndTypes) {
  EXPECT_THAT(try_open(path(), {{"x", DType::kFloat32, {32, 3, 8, -1}}}),
              Rejects("array 'x': expected float[N,3,8,?] with N samples, got float[7,2]"));
  EXPECT_THAT(try_open(path(), {{"x", DType::kFloat32, {-1, 3}}}), Rejects("got float[7,2]"));
  EXPECT_THAT(try_open(path(), {{"x", DType::kInt64, {-1, 2}}}),
              Rejects("array 'x': expected int64, got float. Hint: cast it"));
  EXPECT_THAT(try_open(path(), {{"x", DType::kFloat32, {}}}),
              test::FailsWith(StatusCode::kUnimplemented, testing::HasSubstr("is a scalar")));
  EXPECT_THAT(try_open(path(), {}), Rejects("no input takes data"));
  DatasetOptions options;
  options.batch_size = 0;
  EXPECT_THAT(try_open(path(), inputs(), options), Rejects("--batch-size: expected at least 1"));
  EXPECT_THAT(try_open(path(), {{"x", DType::kFloat16, {-1, 2}}, {"y", DType::kFloat32, {-1}}}),
              IsOk());
}

TEST_F(DatasetTest, ChecksSampleCounts) {
  y_.push_back(7);
  write();
  EXPECT_THAT(try_open(path(), inputs()), Rejects("array 'y': has 8 samples, but 'x' has 7"));
  y_.clear();
  x_.clear();
  write();
  EXPECT_THAT(try_open(path(), inputs()), Rejects("array 'x': has no samples"));
}

TEST_F(DatasetTest, FindsWhatIsNoNumber) {
  x_[9] = std::nanf("");
  write();
  EXPECT_THAT(try_open(path(), inputs()),
              Rejects("data.npz: array 'x': the element at [4,1] is NaN. Hint: clean the data"));
  x_[4] = -std::numeric_limits<float>::infinity();
  write();
  EXPECT_THAT(try_open(path(), inputs()), Rejects("the element at [2,0] is infinite"));
  DatasetOptions options;
  options.check_values = false;
  EXPECT_THAT(try_open(path(), inputs(), options), IsOk());
  x_.assign(14, 0.0F);
  y_[3] = 300;
  write();
  EXPECT_THAT(try_open(path(), {{"y", DType::kUInt8, {-1}}}),
              Rejects("array 'y': the element at [3] is out of the input's range (uint8)"));
}

}  // namespace
}  // namespace mezzo::runtime
