// Sizes at which the CUDA rows of movement, reduction and indexing go other ways than with small
// ones: several chunks, more tiles than blocks, runs of equal indices across chunks; and operators
// of these families that the CPU leaves to the reference kernels.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/kernels/kernel_harness.h"

namespace mezzo::kernels {
namespace {

using Dims = std::vector<std::int64_t>;

KernelCase moved(Engine& engine, const char* op, const TensorDesc& x, const TensorDesc& y) {
  KernelCase test;
  test.request.op = op;
  test.exact = true;
  test.request.inputs = {x};
  test.request.outputs = {y};
  const bool real = is_floating(x.dtype);
  test.operands = {real ? draw_numbers(engine, x, 10.0)
                        : draw_integers(engine, x, 0, x.dtype == DType::kBool ? 1 : 100)};
  return test;
}

// Elements of every width; sides that are multiples of a word and others that are not.
TEST(LargeRows, TransposeInTiles) {
  Engine engine(1);
  for (const DType dtype : {DType::kUInt8, DType::kFloat16, DType::kFloat32, DType::kFloat64}) {
    for (const Dims& dims :
         {Dims{3, 256, 132}, Dims{2, 129, 67}, Dims{1, 8, 300}, Dims{5, 64, 8}}) {
      KernelCase test = moved(engine, "Transpose", tensor(dtype, dims),
                              tensor(dtype, {dims[0], dims[2], dims[1]}));
      test.request.attributes.set("perm", Dims{0, 2, 1});
      ASSERT_NO_FATAL_FAILURE(check_kernel(test));
      KernelCase other = moved(engine, "Transpose", tensor(dtype, dims),
                               tensor(dtype, {dims[2], dims[0], dims[1]}));
      other.request.attributes.set("perm", Dims{2, 0, 1});
      ASSERT_NO_FATAL_FAILURE(check_kernel(other));
      if (HasFailure()) return;
    }
  }
}

TEST(LargeRows, TransposeOfMoreTilesThanBlocks) {
  Engine engine(2);
  KernelCase test = moved(engine, "Transpose", tensor(DType::kFloat64, {2100, 9, 10}),
                          tensor(DType::kFloat64, {2100, 10, 9}));
  test.request.attributes.set("perm", Dims{0, 2, 1});
  check_kernel(test);
}

// A slice of a slice of memory that is not aligned to words.
TEST(LargeRows, TransposedSlicesAtOddPlaces) {
  Engine engine(3);
  const TensorDesc x = tensor(DType::kFloat16, {2, 67, 35, 3}, Layout::kChannelsLast);
  KernelCase test = moved(engine, "Slice", x, tensor(DType::kFloat16, {2, 65, 34, 3}));
  test.request.attributes.set("starts", Dims{1, 1});
  test.request.attributes.set("ends", Dims{66, 35});
  test.request.attributes.set("axes", Dims{1, 2});
  check_kernel(test);
}

TEST(LargeRows, RunsThatRepeatOneElement) {
  Engine engine(4);
  for (const DType dtype : {DType::kUInt8, DType::kFloat16, DType::kFloat32, DType::kInt64}) {
    for (const std::int64_t width : {16, 48, 50}) {
      check_kernel(
          moved(engine, "Expand", tensor(dtype, {5, 3, 1}), tensor(dtype, {2, 5, 3, width})));
    }
  }
}

TEST(LargeRows, PadInEveryMode) {
  Engine engine(5);
  for (const char* mode : {"constant", "reflect", "edge", "wrap"}) {
    for (int round = 0; round < 24; ++round) {
      Dims dims;
      for (std::int64_t i = draw(engine, 1, 4); i > 0; --i) dims.push_back(draw(engine, 3, 9));
      if (round % 4 == 0) dims.back() = 16;
      Dims begins, ends, padded;
      for (std::size_t d = 0; d < dims.size(); ++d) {
        const bool stays = draw(engine, 0, 2) == 0 || (round % 4 == 0 && d + 1 == dims.size());
        begins.push_back(stays ? 0 : draw(engine, -1, 25));
        ends.push_back(stays ? 0 : draw(engine, -1, 25));
        padded.push_back(dims[d] + begins[d] + ends[d]);
      }
      begins.insert(begins.end(), ends.begin(), ends.end());
      constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBool, DType::kInt64};
      const DType dtype = kTypes[round % 4];
      const Layout layout = round % 3 == 0 ? Layout::kChannelsLast : Layout::kRowMajor;
      KernelCase test =
          moved(engine, "Pad", tensor(dtype, dims, layout), tensor(dtype, padded, layout));
      test.request.attributes.set("pads", begins);
      test.request.attributes.set("mode", std::string(mode));
      if (round % 2 == 0) {
        const DType value = dtype == DType::kFloat16 && round % 3 == 0 ? DType::kFloat32 : dtype;
        test.request.inputs.push_back(tensor(value, {}));
        test.operands.push_back({1.0});
      }
      ASSERT_NO_FATAL_FAILURE(check_kernel(test));
      if (HasFailure()) return;
    }
  }
}

TEST(LargeRows, EmbeddingGradientOfManyTokens) {
  Engine engine(6);
  struct Size {
    std::int64_t outer, rows, inner, tokens, named;  // tokens name the first `named` rows
  };
  for (const Size& size : {Size{1, 5000, 20, 2500, 5000}, Size{1, 7, 36, 1500, 7},
                           Size{3, 50, 5, 700, 3}, Size{1, 2, 520, 300, 1}, Size{2, 9, 1, 64, 9}}) {
    KernelCase test;
    test.request.op = "GatherGrad";
    test.request.attributes.set("axis", std::int64_t{1});
    const TensorDesc indices = tensor(DType::kInt32, {size.tokens});
    test.request.inputs = {tensor(draw_float(engine), {size.outer, size.tokens, size.inner}),
                           indices};
    test.request.outputs = {tensor(draw_float(engine), {size.outer, size.rows, size.inner})};
    test.operands = {draw_numbers(engine, test.request.inputs[0], 1.0),
                     draw_integers(engine, indices, 0, size.named - 1)};
    test.depth = size.tokens;
    test.cancels = 1.0;
    ASSERT_NO_FATAL_FAILURE(check_kernel(test));
    if (HasFailure()) return;
  }
}

TEST(LargeRows, EmbeddingGradientInDoubles) {
  Engine engine(7);
  KernelCase test;
  test.request.op = "GatherGrad";
  const TensorDesc indices = tensor(DType::kInt64, {90});
  test.request.inputs = {tensor(DType::kFloat64, {90, 6}), indices};
  test.request.outputs = {tensor(DType::kFloat64, {4, 6})};
  test.operands = {draw_numbers(engine, test.request.inputs[0], 1.0),
                   draw_integers(engine, indices, -4, 3)};
  test.accum = DType::kFloat64;
  test.depth = 90;
  test.cancels = 1.0;
  check_kernel(test);
}

void check_reduction(Engine& engine, const char* op, DType dtype, const Dims& dims,
                     const Dims& axes, Layout layout = Layout::kRowMajor) {
  KernelCase test;
  test.request.op = op;
  test.request.attributes.set("axes", axes);
  Dims kept = dims;
  for (const std::int64_t axis : axes) kept[static_cast<std::size_t>(axis)] = 1;
  test.request.inputs = {tensor(dtype, dims, layout)};
  test.request.outputs = {tensor(dtype, kept, layout)};
  test.operands = {draw_numbers(engine, test.request.inputs[0], 1.0)};
  if (dtype == DType::kFloat64) test.accum = dtype;
  test.depth = 4;
  for (const std::int64_t axis : axes) test.depth += dims[static_cast<std::size_t>(axis)];
  test.cancels = 1.0;
  check_kernel(test);
}

// Lines and columns, in one chunk and in several, with more units than blocks.
TEST(LargeRows, Reductions) {
  Engine engine(8);
  for (const char* op : {"ReduceSum", "ReduceMax", "ReduceLogSumExp"}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
      check_reduction(engine, op, dtype, {3, 40000}, {1});         // chunks of lines
      check_reduction(engine, op, dtype, {9000, 70}, {0});         // chunks of columns
      check_reduction(engine, op, dtype, {2100, 3, 5}, {1});       // many columns' tiles
      check_reduction(engine, op, dtype, {50, 6, 7, 40}, {0, 2});  // groups in between
      check_reduction(engine, op, dtype, {4, 33, 9, 11}, {2, 3}, Layout::kChannelsLast);
      check_reduction(engine, op, dtype, {4, 33, 9, 11}, {1}, Layout::kChannelsLast);
      if (HasFailure()) return;
    }
  }
  check_reduction(engine, "ReduceSum", DType::kFloat16, {2200, 4200}, {1});  // a block per line
}

TEST(LargeRows, LogSumExpOfInfinities) {
  KernelCase test;
  test.request.op = "ReduceLogSumExp";
  test.request.attributes.set("axes", Dims{1});
  test.request.inputs = {tensor(DType::kFloat32, {4, 3})};
  test.request.outputs = {tensor(DType::kFloat32, {4, 1})};
  test.operands = {{-INFINITY, -INFINITY, -INFINITY, INFINITY, 1, 2, NAN, 1, 2, 1e30, 0, -1e30}};
  check_kernel(test);
}

TEST(LargeRows, LpPoolOfWholeImages) {
  Engine engine(9);
  for (const std::int64_t p : {1, 2, 3}) {
    for (const Layout layout : {Layout::kRowMajor, Layout::kChannelsLast}) {
      KernelCase test;
      test.request.op = "GlobalLpPool";
      test.request.attributes.set("p", p);
      test.request.inputs = {tensor(DType::kFloat32, {2, 7, 12, 31}, layout)};
      test.request.outputs = {tensor(DType::kFloat16, {2, 7, 1, 1}, layout)};
      test.operands = {draw_numbers(engine, test.request.inputs[0], 1.0)};
      test.depth = 400;
      check_kernel(test);
    }
  }
}

TEST(LargeRows, ScansLongerThanABlock) {
  Engine engine(10);
  for (const char* op : {"CumSum", "CumProd"}) {
    for (const Dims& dims : {Dims{2, 3000}, Dims{2100, 3}}) {
      KernelCase test;
      test.request.op = op;
      test.request.attributes.set("axis", std::int64_t{1});
      test.request.attributes.set("exclusive", draw(engine, 0, 1));
      test.request.attributes.set("reverse", draw(engine, 0, 1));
      test.request.inputs = {tensor(DType::kInt32, dims)};
      test.request.outputs = test.request.inputs;
      test.exact = true;
      test.operands = {draw_integers(engine, test.request.inputs[0], -9, 9)};
      check_kernel(test);
    }
  }
}

TEST(LargeRows, GradientOfRunningProducts) {
  Engine engine(11);
  for (int round = 0; round < 24; ++round) {
    KernelCase test;
    test.request.op = "CumProdGrad";
    const Dims dims = {draw(engine, 1, 6), draw(engine, 1, 9), draw(engine, 1, 7)};
    test.request.attributes.set("axis", draw(engine, -3, 2));
    test.request.attributes.set("exclusive", draw(engine, 0, 1));
    test.request.attributes.set("reverse", draw(engine, 0, 1));
    test.request.inputs = {tensor(DType::kFloat32, dims), tensor(DType::kFloat32, dims)};
    test.request.outputs = {tensor(DType::kFloat32, dims)};
    test.operands = {draw_numbers(engine, test.request.inputs[0], 1.0),
                     draw_numbers(engine, test.request.inputs[1], 1.0)};
    test.operands[1][0] = 0.0;
    test.depth = 30;
    test.cancels = 1.0;
    ASSERT_NO_FATAL_FAILURE(check_kernel(test));
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace mezzo::kernels
