// Resize, sampling and padding by repetition against the reference.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/kernels/kernel_harness.h"
#include "tests/support/status_test.h"

namespace mezzo::kernels {
namespace {

using mezzo::test::IsOk;
using mezzo::test::Rejects;
using testing::HasSubstr;

using Dims = std::vector<std::int64_t>;

std::string pick(Engine& engine, const std::vector<std::string>& names) {
  return names[static_cast<std::size_t>(
      draw(engine, 0, static_cast<std::int64_t>(names.size()) - 1))];
}

KernelCase case_of(Engine& engine, const char* op, const TensorDesc& x, const TensorDesc& y) {
  KernelCase test;
  test.request.op = op;
  test.request.inputs = {x};
  test.request.outputs = {y};
  test.operands = {draw_numbers(engine, x, 2.0)};
  return test;
}

Dims resized(Engine& engine, const Dims& dims) {
  Dims to = dims;
  for (std::size_t d = dims.size() > 2 ? 2 : 0; d < dims.size(); ++d) {
    if (draw(engine, 0, 3) > 0) to[d] = draw(engine, 1, 2 * dims[d] + 1);
  }
  return to;
}

TEST(Image, Resize) {
  Engine engine(61);
  for (int round = 0; round < 150; ++round) {
    Dims dims = {draw(engine, 1, 3), draw(engine, 1, 4), draw(engine, 1, 20), draw(engine, 1, 40)};
    if (round % 5 == 0) dims.push_back(draw(engine, 1, 9));
    if (round % 7 == 0) dims.erase(dims.begin(), dims.begin() + 2);
    const Dims to = resized(engine, dims);
    if (to == dims) continue;
    const DType dtype = draw_float(engine);
    const std::string mode = pick(engine, {"nearest", "linear", "cubic"});
    const Layout layout =
        dims.size() > 2 && draw(engine, 0, 2) == 0 ? Layout::kChannelsLast : Layout::kRowMajor;
    KernelCase test =
        case_of(engine, "Resize", tensor(dtype, dims, layout), tensor(dtype, to, layout));
    test.exact = mode == "nearest";
    test.depth = 64;
    test.cancels = 8.0;
    Attributes& attributes = test.request.attributes;
    attributes.set("mode", mode);
    attributes.set("sizes", to);
    attributes.set("nearest_mode",
                   pick(engine, {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}));
    attributes.set("coordinate_transformation_mode",
                   pick(engine, {"half_pixel", "align_corners", "asymmetric"}));
    attributes.set("antialias", draw(engine, 0, 1));
    attributes.set("exclude_outside", draw(engine, 0, 1));
    ASSERT_NO_FATAL_FAILURE(check_kernel(test)) << mode;
    if (HasFailure()) return;
  }
}

// A region whose end lies before its start turns the image round.
TEST(Image, ResizeOfMirroredRegions) {
  Engine engine(66);
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    KernelCase test = case_of(engine, "Resize", tensor(DType::kFloat32, {2, 3, 9, 40}),
                              tensor(DType::kFloat32, {2, 3, 20, 50}));
    test.depth = 64;
    test.cancels = 8.0;
    Attributes& attributes = test.request.attributes;
    attributes.set("mode", std::string(mode));
    attributes.set("sizes", Dims{2, 3, 20, 50});
    attributes.set("coordinate_transformation_mode", std::string("tf_crop_and_resize"));
    attributes.set("roi", std::vector<double>{0, 0, 0.1, 1, 1, 1, 0.9, 0});
    check_kernel(test);
  }
}

TEST(Image, PadByRepetition) {
  Engine engine(62);
  for (int round = 0; round < 80; ++round) {
    Dims dims;
    for (std::int64_t rank = draw(engine, 1, 4); rank > 0; --rank) {
      dims.push_back(draw(engine, 1, 12));
    }
    Dims pads(2 * dims.size());
    Dims to = dims;
    for (std::size_t d = 0; d < dims.size(); ++d) {
      pads[d] = draw(engine, -(dims[d] - 1) / 2, 9);
      pads[dims.size() + d] = draw(engine, -(dims[d] - 1) / 2, 9);
      to[d] += pads[d] + pads[dims.size() + d];
    }
    const DType dtype = round % 3 == 0 ? DType::kInt64 : draw_float(engine);
    const Layout layout =
        dims.size() > 2 && draw(engine, 0, 2) == 0 ? Layout::kChannelsLast : Layout::kRowMajor;
    KernelCase test =
        case_of(engine, "Pad", tensor(dtype, dims, layout), tensor(dtype, to, layout));
    if (dtype == DType::kInt64) {
      test.operands = {draw_integers(engine, test.request.inputs[0], -1000, 1000)};
    }
    test.exact = true;
    test.request.attributes.set("pads", pads);
    test.request.attributes.set("mode", pick(engine, {"reflect", "edge", "wrap"}));
    ASSERT_NO_FATAL_FAILURE(check_kernel(test));
    if (HasFailure()) return;
  }
}

TEST(Image, PadWithAnOperand) {
  Engine engine(63);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kInt32, DType::kBool}) {
    KernelCase test = case_of(engine, "Pad", tensor(dtype, {5, 7}), tensor(dtype, {8, 10}));
    test.request.inputs.push_back(tensor(dtype, {}));
    test.operands = {draw_integers(engine, test.request.inputs[0], 0, 1), {1.0}};
    test.exact = true;
    test.request.attributes.set("pads", Dims{1, 0, 2, 3});
    check_kernel(test);
  }
}

TEST(Image, GridSample) {
  Engine engine(64);
  for (int round = 0; round < 60; ++round) {
    const std::size_t k = round % 4 == 0 ? 3 : 2;
    Dims x = {draw(engine, 1, 2), draw(engine, 1, 5)};
    Dims grid = {x[0]};
    Dims y = {x[0], x[1]};
    for (std::size_t d = 0; d < k; ++d) {
      x.push_back(draw(engine, 1, 9));
      grid.push_back(draw(engine, 1, k == 2 ? 40 : 12));
      y.push_back(grid.back());
    }
    grid.push_back(static_cast<std::int64_t>(k));
    const DType dtype = draw_float(engine);
    KernelCase test = case_of(engine, "GridSample", tensor(dtype, x), tensor(dtype, y));
    test.request.inputs.push_back(tensor(draw(engine, 0, 1) == 0 ? dtype : DType::kFloat32, grid));
    test.operands.push_back(draw_numbers(engine, test.request.inputs[1], 0.8));
    test.depth = 64;
    test.cancels = 8.0;
    test.request.attributes.set("mode", pick(engine, {"nearest", "linear", "cubic"}));
    test.request.attributes.set("padding_mode", pick(engine, {"zeros", "border", "reflection"}));
    test.request.attributes.set("align_corners", draw(engine, 0, 1));
    ASSERT_NO_FATAL_FAILURE(check_kernel(test));
    if (HasFailure()) return;
  }
}

TEST(Image, RoiAlign) {
  Engine engine(65);
  for (int round = 0; round < 60; ++round) {
    const Dims x = {draw(engine, 1, 3), draw(engine, 1, 9), draw(engine, 1, 20),
                    draw(engine, 1, 20)};
    const std::int64_t regions = draw(engine, 1, 6);
    const Dims y = {regions, x[1], draw(engine, 1, 7), draw(engine, 1, 7)};
    const DType dtype = draw_float(engine);
    KernelCase test = case_of(engine, "RoiAlign", tensor(dtype, x), tensor(dtype, y));
    test.request.inputs.push_back(tensor(DType::kFloat32, {regions, 4}));
    test.request.inputs.push_back(tensor(DType::kInt64, {regions}));
    Numbers corners;
    for (std::int64_t r = 0; r < regions; ++r) {
      const double left = static_cast<double>(draw(engine, -80, 300)) / 16.0;
      const double top = static_cast<double>(draw(engine, -80, 300)) / 16.0;
      corners.insert(corners.end(),
                     {left, top, left + static_cast<double>(draw(engine, 0, 400)) / 16.0,
                      top + static_cast<double>(draw(engine, 0, 400)) / 16.0});
    }
    test.operands.push_back(corners);
    test.operands.push_back(draw_integers(engine, test.request.inputs[2], 0, x[0] - 1));
    test.depth = 256;
    test.cancels = 8.0;
    Attributes& attributes = test.request.attributes;
    attributes.set("output_height", y[2]);
    attributes.set("output_width", y[3]);
    attributes.set("sampling_ratio", draw(engine, 0, 3));
    attributes.set("spatial_scale", draw(engine, 0, 1) == 0 ? 1.0 : 0.5);
    attributes.set("coordinate_transformation_mode",
                   pick(engine, {"half_pixel", "output_half_pixel"}));
    ASSERT_NO_FATAL_FAILURE(check_kernel(test));
    if (HasFailure()) return;
  }
}

TEST(Image, DeformConv) {
  Engine engine(67);
  for (int round = 0; round < 40; ++round) {
    const std::int64_t groups = draw(engine, 1, 2), offset_groups = draw(engine, 1, 2);
    const Dims x = {draw(engine, 1, 2), 2 * draw(engine, 1, 4), draw(engine, 4, 14),
                    draw(engine, 4, 14)};
    const Dims w = {2 * draw(engine, 1, 4), x[1] / groups, draw(engine, 1, 3), draw(engine, 1, 3)};
    Dims y = {x[0], w[0]};
    const Dims strides = {draw(engine, 1, 2), draw(engine, 1, 2)};
    const Dims pads = {draw(engine, 0, 1), draw(engine, 0, 1), draw(engine, 0, 1),
                       draw(engine, 0, 1)};
    for (std::size_t d = 0; d < 2; ++d) {
      y.push_back((x[2 + d] + pads[d] + pads[2 + d] - w[2 + d]) / strides[d] + 1);
    }
    const std::int64_t taps = offset_groups * w[2] * w[3];
    const DType dtype = draw_float(engine);
    KernelCase test = case_of(engine, "DeformConv", tensor(dtype, x), tensor(dtype, y));
    test.request.inputs.push_back(tensor(dtype, w));
    test.request.inputs.push_back(tensor(DType::kFloat32, {x[0], 2 * taps, y[2], y[3]}));
    test.request.inputs.push_back(tensor(dtype, {w[0]}));
    test.request.inputs.push_back(tensor(dtype, {x[0], taps, y[2], y[3]}));
    for (std::size_t i = 1; i < 5; ++i) {
      test.operands.push_back(draw_numbers(engine, test.request.inputs[i], 1.0));
    }
    if (round % 3 == 0) {
      test.request.inputs.resize(3);
      test.operands.resize(3);
    }
    test.depth = 8 * w[1] * w[2] * w[3];
    test.cancels = 8.0;
    Attributes& attributes = test.request.attributes;
    attributes.set("strides", strides);
    attributes.set("pads", pads);
    attributes.set("group", groups);
    attributes.set("offset_group", offset_groups);
    ASSERT_NO_FATAL_FAILURE(check_kernel(test));
    if (HasFailure()) return;
  }
}

TEST(Image, RegionsMustBeSensible) {
  KernelRequest request;
  request.op = "RoiAlign";
  request.inputs = {tensor(DType::kFloat32, {1, 1, 4, 4}), tensor(DType::kFloat32, {1, 4}),
                    tensor(DType::kInt64, {1})};
  request.outputs = {tensor(DType::kFloat32, {1, 1, 1, 1})};
  const Numbers x(16, 1.0);
  EXPECT_THAT(row_status(request, {x, {0, 0, 2, 2}, {0}}), IsOk());
  EXPECT_THAT(row_status(request, {x, {0, 0, 2, 2}, {1}}),
              Rejects("operand 2 'batch_indices': element 0 is 1, expected 0 to 0"));
  EXPECT_THAT(row_status(request, {x, {0, 0, 1e9, 2}, {0}}), Rejects("region 0 is not finite"));
  EXPECT_THAT(row_status(request, {x, {0, 0, std::nan(""), 2}, {0}}),
              Rejects("region 0 is not finite"));
}

// An infinity that interpolation does not touch stays out of the result.
TEST(Image, WeightZeroKeepsInfinityOut) {
  const double infinity = std::numeric_limits<double>::infinity();
  KernelRequest request;
  request.op = "Resize";
  request.inputs = {tensor(DType::kFloat32, {1, 1, 2, 2})};
  request.outputs = {tensor(DType::kFloat32, {1, 1, 3, 3})};
  request.attributes.set("mode", std::string("linear"));
  request.attributes.set("coordinate_transformation_mode", std::string("align_corners"));
  const std::vector<Numbers> y = run_row(request, {{infinity, 2.0, 3.0, 4.0}});
  EXPECT_EQ(y[0][0], infinity);
  EXPECT_EQ(y[0][2], 2.0);
  EXPECT_EQ(y[0][8], 4.0);
}

}  // namespace
}  // namespace mezzo::kernels
