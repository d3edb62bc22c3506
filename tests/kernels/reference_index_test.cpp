// Indices out of range, and results that are smaller than the request's bounds.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "tests/kernels/reference_harness.h"
#include "tests/support/status_test.h"

namespace mezzo::kernels::test {
namespace {

using mezzo::test::IsOk;
using mezzo::test::Rejects;
using testing::ElementsAre;

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();

TensorDesc desc(DType dtype, Dims dims) { return {dtype, std::move(dims), Layout::kRowMajor}; }

Status status_of(const std::string& op, const std::vector<Tensor>& inputs, const TensorDesc& result,
                 const std::vector<AttributeValue>& values = {}) {
  return run(op, attributes(values), inputs, {result}).status();
}

Tensor ints(const Dims& dims, const Ints& values, DType dtype = DType::kInt64) {
  Tensor tensor(desc(dtype, dims));
  for (std::size_t i = 0; i < values.size(); ++i) {
    tensor.set_integer(static_cast<std::int64_t>(i), values[i]);
  }
  return tensor;
}

TEST(Indices, OutOfRangeAreNamed) {
  const Tensor x = f64({3, 2}, {1, 2, 3, 4, 5, 6});
  const TensorDesc& whole = x.desc();
  for (const std::int64_t bad : {std::int64_t{3}, std::int64_t{-4}, kMax, kMin}) {
    const std::string is = "element 1 is " + std::to_string(bad) + ", expected -3 to 2";
    EXPECT_THAT(
        status_of("GatherElements", {x, ints({1, 2}, {0, bad})}, desc(DType::kFloat64, {1, 2})),
        Rejects("GatherElements, operand 1 'indices': " + is));
    EXPECT_THAT(status_of("GatherND", {x, ints({2, 1}, {0, bad})}, desc(DType::kFloat64, {2, 2})),
                Rejects("GatherND, operand 1 'indices': " + is));
    EXPECT_THAT(
        status_of("ScatterElements", {x, ints({1, 2}, {0, bad}), f64({1, 2}, {7, 8})}, whole),
        Rejects("ScatterElements, operand 1 'indices': " + is));
    EXPECT_THAT(
        status_of("ScatterND", {x, ints({2, 1}, {0, bad}), f64({2, 2}, {7, 8, 9, 0})}, whole),
        Rejects("ScatterND, operand 1 'indices': " + is));
  }
  EXPECT_THAT(status_of("MaxUnpool", {f64({1, 1, 2}, {1, 2}), ints({1, 1, 2}, {0, 4})},
                        desc(DType::kFloat64, {1, 1, 4}),
                        {{"kernel_shape", Ints{2}}, {"strides", Ints{2}}}),
              Rejects("element 1 is 4, expected 0 to 3"));
  EXPECT_THAT(status_of("ReverseSequence", {x, ints({2}, {1, 4})}, whole),
              Rejects("'sequence_lens': element 1 is 4, expected 0 to 3"));
  const Tensor cache = f64({1, 2, 2}, {1, 2, 3, 4});
  EXPECT_THAT(status_of("TensorScatter", {cache, f64({1, 1, 2}, {5, 6}), ints({1}, {2})},
                        cache.desc(), {{"axis", std::int64_t{1}}}),
              Rejects("'write_indices': element 0 is 2, expected 0 to 1"));
  EXPECT_THAT(status_of("Compress", {x, ints({7}, {0, 0, 0, 0, 0, 0, 1}, DType::kBool)},
                        desc(DType::kFloat64, {6})),
              Rejects("'condition': element 6 holds, the axis has size 6"));
}

TEST(Indices, MayBeNoneAtAll) {
  const Tensor x = f64({3, 2}, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(status_of("GatherElements", {x, ints({0, 2}, {})}, desc(DType::kFloat64, {0, 2})),
              IsOk());
  EXPECT_THAT(status_of("ScatterND", {x, ints({0, 1}, {}), f64({0, 2}, {})}, x.desc()), IsOk());
  EXPECT_THAT(
      status_of("GatherND", {f64({0, 2}, {}), ints({0, 1}, {})}, desc(DType::kFloat64, {0, 2})),
      IsOk());
  EXPECT_THAT(
      status_of("GatherND", {f64({0, 2}, {}), ints({1, 1}, {0})}, desc(DType::kFloat64, {1, 2})),
      Rejects("expected -0 to -1"));
}

TEST(Indices, ScatterAddsInEveryDtype) {
  for (const DType dtype : {DType::kInt8, DType::kUInt8, DType::kInt16, DType::kUInt16,
                            DType::kInt32, DType::kUInt32, DType::kInt64, DType::kUInt64}) {
    const auto y = run("ScatterElements", attributes({{"reduction", std::string("add")}}),
                       {ints({3}, {1, 2, 3}, dtype), ints({2}, {2, 2}), ints({2}, {10, 20}, dtype)},
                       {desc(dtype, {3})});
    ASSERT_THAT(y, IsOk());
    EXPECT_EQ((*y)[0].integer_at(2), 33);
  }
  // 2048 + 1 + 1 needs more than float16 has on the way.
  const Tensor big(DType::kFloat16, {1}, {2048});
  const auto y = run("ScatterElements", attributes({{"reduction", std::string("add")}}),
                     {big, i64({2}, {0, 0}), Tensor(DType::kFloat16, {2}, {1, 1})}, {big.desc()});
  ASSERT_THAT(y, IsOk());
  EXPECT_EQ((*y)[0].at(0), 2050.0);
}

// Runs with a bound and gives the dims that result `output` then has.
StatusOr<Dims> shrunk(const std::string& op, const std::vector<Tensor>& inputs,
                      const std::vector<TensorDesc>& bounds, std::size_t output, Tensor* first,
                      const std::vector<AttributeValue>& values = {}) {
  MEZZO_ASSIGN_OR_RETURN(const auto kernel,
                         prepare(make_request(op, attributes(values), inputs, bounds)));
  std::vector<Tensor> results;
  for (const TensorDesc& bound : bounds) results.emplace_back(bound);
  MEZZO_RETURN_IF_ERROR(run_prepared(*kernel, inputs, results));
  Dims dims = bounds[output].dims;
  kernel->shrink_result(output, dims);
  if (first != nullptr) *first = results[output];
  return dims;
}

TEST(SizesFromData, AreToldAfterTheRun) {
  const Tensor x = f64({2, 3}, {0, 5, 0, 7, 0, 9});
  Tensor y;
  auto dims = shrunk("NonZero", {x}, {desc(DType::kInt64, {2, 6})}, 0, &y);
  ASSERT_THAT(dims, IsOk());
  EXPECT_THAT(*dims, ElementsAre(2, 3));
  const auto* packed = static_cast<const std::int64_t*>(y.data());
  EXPECT_THAT(std::vector<std::int64_t>(packed, packed + 6), ElementsAre(0, 1, 1, 1, 0, 2));

  dims = shrunk("Compress", {x, ints({3}, {0, 1, 1}, DType::kBool)},
                {desc(DType::kFloat64, {2, 3})}, 0, &y, {{"axis", std::int64_t{1}}});
  ASSERT_THAT(dims, IsOk());
  EXPECT_THAT(*dims, ElementsAre(2, 2));
  EXPECT_EQ(y.at(2), 0.0);
  EXPECT_EQ(y.at(3), 9.0);

  const std::vector<TensorDesc> bounds = {desc(DType::kFloat64, {6}), desc(DType::kInt64, {6}),
                                          desc(DType::kInt64, {6}), desc(DType::kInt64, {6})};
  for (std::size_t output = 0; output < 4; ++output) {
    dims = shrunk("Unique", {x}, bounds, output, nullptr);
    ASSERT_THAT(dims, IsOk());
    EXPECT_THAT(*dims, ElementsAre(output == 2 ? 6 : 4));
  }
}

TEST(SizesFromData, KeepWithinTheBound) {
  const Tensor x = f64({3}, {1, 2, 3});
  EXPECT_THAT(status_of("NonZero", {x}, desc(DType::kInt64, {1, 2})),
              Rejects("NonZero: the data give 3 results, the request has room for 2"));
  EXPECT_THAT(status_of("Unique", {x}, desc(DType::kFloat64, {2})), Rejects("room for 2"));
  EXPECT_THAT(
      status_of("Compress", {x, ints({3}, {1, 1, 1}, DType::kBool)}, desc(DType::kFloat64, {2})),
      Rejects("room for 2"));
}

TEST(TopK, IsExactInEveryDtype) {
  for (const DType dtype : {DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64}) {
    const auto y = run("TopK", attributes({}), {ints({4}, {-3, 5, -128, 5}, dtype)},
                       {desc(dtype, {3}), desc(DType::kInt64, {3})});
    ASSERT_THAT(y, IsOk());
    EXPECT_EQ((*y)[1].integer_at(0), 1);
    EXPECT_EQ((*y)[1].integer_at(1), 3);
    EXPECT_EQ((*y)[0].integer_at(2), -3);
  }
  EXPECT_THAT(status_of("TopK", {f64({2}, {1, 2})}, desc(DType::kFloat64, {3})),
              Rejects("k is 3, the axis has size 2"));
}

TEST(Regions, MustBeSensible) {
  const Tensor x = f64({1, 1, 2, 2}, {1, 2, 3, 4});
  const TensorDesc y = desc(DType::kFloat64, {1, 1, 1, 1});
  EXPECT_THAT(status_of("RoiAlign", {x, f64({1, 4}, {0, 0, 1, 1}), i64({1}, {1})}, y),
              Rejects("element 0 is 1, expected 0 to 0"));
  EXPECT_THAT(status_of("RoiAlign", {x, f64({1, 4}, {0, 0, 1e12, 1}), i64({1}, {0})}, y),
              Rejects("region 0 is not finite or too large"));
  EXPECT_THAT(status_of("MaxRoiPool", {x, f64({1, 5}, {0, 0, 0, std::nan(""), 1})}, y,
                        {{"pooled_shape", Ints{1, 1}}}),
              Rejects("region 0 is not finite"));
  EXPECT_THAT(status_of("MaxRoiPool", {x, f64({1, 5}, {-1, 0, 0, 1, 1})}, y,
                        {{"pooled_shape", Ints{1, 1}}}),
              Rejects("element 0 is -1"));
}

TEST(Resize, RefusesWhatMakesNoSense) {
  const Tensor x = f64({1, 4}, {1, 2, 3, 4});
  const TensorDesc y = desc(DType::kFloat64, {1, 8});
  const auto resize = [&](const std::vector<AttributeValue>& values) {
    return status_of("Resize", {x}, y, values);
  };
  EXPECT_THAT(resize({{"mode", std::string("bilinear")}}), Rejects("'mode' is 'bilinear'"));
  EXPECT_THAT(resize({{"scales", std::vector<double>{1.0, 0.0}}}),
              Rejects("cannot be scaled by 0"));
  EXPECT_THAT(resize({{"scales", std::vector<double>{1.0, -2.0}}}), Rejects("cannot be scaled"));
  EXPECT_THAT(resize({{"scales", std::vector<double>{2.0}}}), Rejects("one entry per axis"));
  EXPECT_THAT(resize({{"axes", Ints{3}}, {"scales", std::vector<double>{2.0}}}),
              Rejects("'axes' names no dim"));
  EXPECT_THAT(resize({{"axes", Ints{0}}, {"scales", std::vector<double>{2.0}}}),
              Rejects("not resized changes its size"));
  EXPECT_THAT(resize({{"mode", std::string("linear")},
                      {"antialias", std::int64_t{1}},
                      {"scales", std::vector<double>{1.0, 1e-30}}}),
              Rejects("too small for antialias"));
  EXPECT_THAT(resize({{"coordinate_transformation_mode", std::string("tf_crop_and_resize")},
                      {"roi", std::vector<double>{0, std::nan(""), 1, 1}}}),
              Rejects("not finite"));
}

TEST(Pad, RefusesToRepeatNothing) {
  const Tensor none = f64({0}, {});
  EXPECT_THAT(status_of("Pad", {none}, desc(DType::kFloat64, {2}),
                        {{"pads", Ints{1, 1}}, {"mode", std::string("edge")}}),
              Rejects("has nothing to repeat"));
  EXPECT_THAT(status_of("Pad", {f64({2}, {1, 2})}, desc(DType::kFloat64, {2}),
                        {{"pads", Ints{0, 0}}, {"mode", std::string("mirror")}}),
              Rejects("expected constant, reflect, edge or wrap"));
}

}  // namespace
}  // namespace mezzo::kernels::test
