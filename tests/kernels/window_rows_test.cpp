// Rows of a device for what works by windows and by channels: batch normalisation, pools,
// convolutions, sampling. Shapes at which their kernels change the way they go.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/kernels/kernel_harness.h"

namespace mezzo::kernels {
namespace {

using Dims = std::vector<std::int64_t>;

DType any_float(Engine& engine) {
  return draw(engine, 0, 4) == 0 ? DType::kFloat64 : draw_float(engine);
}

KernelCase case_of(Engine& engine, const std::string& op, std::vector<TensorDesc> inputs,
                   std::vector<TensorDesc> outputs, std::int64_t depth) {
  KernelCase test;
  test.request.op = op;
  for (const TensorDesc& input : inputs) {
    test.operands.push_back(is_floating(input.dtype) ? draw_numbers(engine, input, 1.0)
                                                     : draw_integers(engine, input, 0, 100));
  }
  test.request.inputs = std::move(inputs);
  test.request.outputs = std::move(outputs);
  test.depth = depth;
  test.cancels = 1.0;
  return test;
}

struct Activations {
  Dims dims;
  Layout layout = Layout::kRowMajor;
};

// One part and several, planes of whole packs and others, more channels than one tile has.
const Activations kActivations[] = {
    {{3, 5, 8, 9}},
    {{2, 3, 7, 7}},
    {{40, 2, 30, 40}},
    {{5, 3, 61, 41}},
    {{9, 24}},
    {{900, 80}},
    {{2, 300, 3, 3}, Layout::kChannelsLast},
    {{3, 64, 20, 30}, Layout::kChannelsLast},
    {{3, 7, 60, 50}, Layout::kChannelsLast},
    {{2, 520, 8, 9}, Layout::kChannelsLast},
};

TEST(WindowRows, BatchNormalization) {
  Engine engine(201);
  for (const Activations& shape : kActivations) {
    for (const bool training : {false, true}) {
      const TensorDesc x = tensor(any_float(engine), shape.dims, shape.layout);
      const auto vector = [&] { return tensor(any_float(engine), {shape.dims[1]}); };
      KernelCase test =
          case_of(engine, "BatchNormalization", {x, vector(), vector(), vector(), vector()},
                  {tensor(any_float(engine), shape.dims, shape.layout)}, 2000);
      for (double& variance : test.operands[4]) variance = std::fabs(variance) + 0.1;
      if (training) {
        // Means far from zero: sums of squares would cancel.
        for (double& number : test.operands[0]) number = number / 64 + 16;
        for (int i = 0; i < 4; ++i) test.request.outputs.push_back(vector());
        if (draw(engine, 0, 2) == 0) test.request.outputs[draw(engine, 1, 4)] = TensorDesc();
        test.request.attributes.set("training_mode", std::int64_t{1});
        test.request.attributes.set("unbiased_running_var", draw(engine, 0, 1));
        test.request.attributes.set("momentum", 0.75);
        test.request.inputs[0].dtype = DType::kFloat32;
        for (double& number : test.operands[0]) number = static_cast<float>(number);
        test.depth = 20000;
      }
      ASSERT_NO_FATAL_FAILURE(check_kernel(test));
      if (HasFailure()) return;
    }
  }
}

TEST(WindowRows, BatchNormalizationGradAndBias) {
  Engine engine(202);
  for (const Activations& shape : kActivations) {
    const auto activations = [&] { return tensor(any_float(engine), shape.dims, shape.layout); };
    const auto vector = [&] { return tensor(any_float(engine), {shape.dims[1]}); };
    KernelCase test = case_of(engine, "BatchNormalizationGrad",
                              {activations(), activations(), vector(), vector(), vector()},
                              {activations(), vector(), vector()}, 4000);
    for (double& r : test.operands[4]) r = std::fabs(r) + 0.5;
    ASSERT_NO_FATAL_FAILURE(check_kernel(test));
    ASSERT_NO_FATAL_FAILURE(
        check_kernel(case_of(engine, "ConvGradBias", {activations()}, {vector()}, 4000)));
    if (HasFailure()) return;
  }
}

struct PoolShape {
  Dims large, small, kernel, strides, dilations, pads;
  std::int64_t ceil = 0;

  void write(Attributes& attributes) const {
    attributes.set("kernel_shape", kernel);
    attributes.set("strides", strides);
    attributes.set("dilations", dilations);
    attributes.set("pads", pads);
    attributes.set("ceil_mode", ceil);
  }
};

const PoolShape kPools[] = {
    {{2, 16, 13}, {2, 16, 6}, {3}, {2}, {1}, {0, 0}},
    {{2, 8, 9, 12}, {2, 8, 5, 6}, {3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}},
    {{1, 5, 11, 10}, {1, 5, 4, 6}, {2, 3}, {3, 2}, {2, 1}, {0, 1, 1, 2}},
    {{2, 24, 6, 7, 5}, {2, 24, 3, 4, 3}, {2, 3, 2}, {2, 2, 2}, {1, 1, 1}, {0, 1, 0, 0, 1, 1}},
    {{1, 8, 7, 7}, {1, 8, 4, 4}, {2, 2}, {2, 2}, {1, 1}, {0, 0, 0, 0}, 1},
};

TEST(WindowRows, PoolsAndTheirGradients) {
  Engine engine(203);
  for (const PoolShape& shape : kPools) {
    for (const Layout layout : {Layout::kRowMajor, Layout::kChannelsLast}) {
      const auto large = [&] { return tensor(any_float(engine), shape.large, layout); };
      const auto small = [&] { return tensor(any_float(engine), shape.small, layout); };
      const auto check = [&](KernelCase test) {
        shape.write(test.request.attributes);
        if (test.request.op.starts_with("Average")) {
          test.request.attributes.set("count_include_pad", draw(engine, 0, 1));
        }
        if (test.request.op.starts_with("Lp")) {
          test.request.attributes.set("p", draw(engine, 1, 3));
        }
        check_kernel(test);
        return test;
      };
      const TensorDesc indices = tensor(DType::kInt64, shape.small, layout);
      KernelCase pool = case_of(engine, "MaxPool", {large()}, {small(), indices}, 4);
      for (double& x : pool.operands[0]) x = draw(engine, 0, 3) == 0 ? 0.5 : x;  // equal maxima
      pool = check(pool);
      KernelCase grad = case_of(engine, "MaxPoolGrad", {small(), indices}, {large()}, 32);
      grad.operands[1] = run_row(pool.request, pool.operands)[1];
      check(grad);
      pool.request.attributes.set("storage_order", std::int64_t{1});
      check_kernel(pool);
      grad.request.attributes = {};  // its windows unknown
      check_kernel(grad);
      check(case_of(engine, "AveragePool", {large()}, {small()}, 32));
      check(case_of(engine, "AveragePoolGrad", {small()}, {large()}, 32));
      check(case_of(engine, "LpPool", {large()}, {small()}, 64));
      KernelCase lp = case_of(engine, "LpPoolGrad", {small(), large(), small()}, {large()}, 64);
      for (double& y : lp.operands[2]) y = std::fabs(y) + 1;  // norms
      lp.operands[1][3] = 0.0;
      check(lp);
      if (HasFailure()) return;
    }
  }
}

TEST(WindowRows, MaxPoolOfIntegers) {
  Engine engine(204);
  for (const DType dtype : {DType::kInt8, DType::kUInt8, DType::kInt32, DType::kInt64,
                            DType::kUInt16, DType::kUInt64}) {
    KernelCase test = case_of(engine, "MaxPool", {tensor(dtype, {2, 3, 9})},
                              {tensor(dtype, {2, 3, 4}), tensor(DType::kInt64, {2, 3, 4})}, 4);
    kPools[0].write(test.request.attributes);
    if (is_signed_type(dtype)) {
      test.operands[0] = draw_integers(engine, test.request.inputs[0], -100, -90);
    }
    check_kernel(test);
    // The first window lies in the padding alone.
    test.request.attributes.set("pads", Dims{3, 0});
    test.request.attributes.set("kernel_shape", Dims{3});
    test.request.attributes.set("strides", Dims{3});
    check_kernel(test);
  }
}

TEST(WindowRows, MaxPoolGradNamesAWrongIndex) {
  KernelRequest request;
  request.op = "MaxPoolGrad";
  request.inputs = {tensor(DType::kFloat32, {1, 2, 2}), tensor(DType::kInt64, {1, 2, 2})};
  request.outputs = {tensor(DType::kFloat32, {1, 2, 4})};
  request.attributes.set("kernel_shape", Dims{2});
  request.attributes.set("strides", Dims{2});
  EXPECT_TRUE(row_status(request, {Numbers(4, 1.0), {0, 3, 4, -1}}).ok());
  for (const double wrong : {8.0, -2.0}) {
    const Status status = row_status(request, {Numbers(4, 1.0), {0, 3, wrong, 7}});
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("element 2"), std::string::npos) << status.message();
  }
}

struct ConvShape {
  Dims x, w, y;
  std::int64_t groups = 1;
  Dims strides, dilations, pads;
};

// Tiles that are full and tiles that are not, few rows (groups of their own), weights whose sums
// are cut into parts, one and three dims.
const ConvShape kConvs[] = {
    {{2, 3, 9}, {5, 3, 3}, {2, 5, 9}, 1, {1}, {1}, {1, 1}},
    {{2, 70, 6, 5}, {66, 70, 1, 1}, {2, 66, 6, 5}, 1, {1, 1}, {1, 1}, {0, 0, 0, 0}},
    {{1, 4, 50, 60}, {6, 2, 3, 3}, {1, 6, 25, 30}, 2, {2, 2}, {1, 1}, {1, 1, 1, 1}},
    {{2, 9, 12, 11}, {9, 1, 3, 3}, {2, 9, 12, 11}, 9, {1, 1}, {1, 1}, {1, 1, 1, 1}},
    {{1, 3, 13, 12}, {10, 3, 3, 2}, {1, 10, 5, 12}, 1, {2, 1}, {2, 3}, {0, 1, 1, 2}},
    {{1, 2, 5, 6, 7},
     {3, 2, 2, 3, 2},
     {1, 3, 4, 6, 3},
     1,
     {1, 1, 2},
     {1, 1, 1},
     {0, 1, 0, 0, 1, 0}},
};

TEST(WindowRows, Convolutions) {
  Engine engine(205);
  for (const ConvShape& shape : kConvs) {
    for (int round = 0; round < 4; ++round) {
      const auto layout = [&] {
        return draw(engine, 0, 1) == 0 ? Layout::kRowMajor : Layout::kChannelsLast;
      };
      const auto x = [&] { return tensor(any_float(engine), shape.x, layout()); };
      const auto y = [&] { return tensor(any_float(engine), shape.y, layout()); };
      const auto w = [&] { return tensor(any_float(engine), shape.w); };
      const auto vector = [&](std::int64_t size) { return tensor(any_float(engine), {size}); };
      const auto check = [&](KernelCase test) {
        test.request.attributes.set("group", shape.groups);
        test.request.attributes.set("strides", shape.strides);
        test.request.attributes.set("dilations", shape.dilations);
        test.request.attributes.set("pads", shape.pads);
        test.request.attributes.set("kernel_shape", Dims(shape.w.begin() + 2, shape.w.end()));
        check_kernel(test);
      };
      std::int64_t depth = 8;
      for (std::size_t i = 1; i < shape.w.size(); ++i) depth += shape.w[i];
      depth *= 8;
      std::vector<TensorDesc> inputs = {x(), w()};
      if (round % 2 == 0) inputs.push_back(vector(shape.w[0]));
      check(case_of(engine, "Conv", inputs, {y()}, depth));
      check(case_of(engine, "ConvGradInput", {y(), w()}, {x()}, depth));
      check(case_of(engine, "ConvGradWeight", {y(), x()}, {w()}, 400));
      KernelCase transpose = case_of(engine, "ConvTranspose", {y(), w()}, {x()}, depth);
      if (round % 2 == 0) {
        transpose.request.inputs.push_back(vector(shape.x[1]));
        transpose.operands.push_back(draw_numbers(engine, transpose.request.inputs[2], 1.0));
      }
      Dims padding;
      for (std::size_t i = 0; i < shape.strides.size(); ++i) {
        const std::int64_t reach = (shape.w[i + 2] - 1) * shape.dilations[i] + 1;
        padding.push_back(shape.x[i + 2] + shape.pads[i] + shape.pads[shape.strides.size() + i] -
                          reach - shape.strides[i] * (shape.y[i + 2] - 1));
      }
      transpose.request.attributes.set("output_padding", padding);
      check(transpose);
      if (HasFailure()) return;
    }
  }
}

TEST(WindowRows, MaxUnpool) {
  Engine engine(206);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64, DType::kUInt8}) {
    KernelCase test = case_of(engine, "MaxUnpool",
                              {tensor(dtype, {2, 3, 4, 5}), tensor(DType::kInt64, {2, 3, 4, 5})},
                              {tensor(dtype, {2, 3, 9, 10})}, 4);
    test.exact = true;
    test.request.attributes.set("kernel_shape", Dims{2, 2});
    test.request.attributes.set("strides", Dims{2, 2});
    // Places in the pooled [2, 3, 8, 10], several elements for some.
    test.operands[1] = draw_integers(engine, test.request.inputs[1], 0, 300);
    check_kernel(test);
    test.operands[1][7] = 480;
    const Status status = row_status(test.request, test.operands);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("element 7 is 480, expected 0 to 479"), std::string::npos)
        << status.message();
  }
}

TEST(WindowRows, Resize) {
  Engine engine(207);
  for (const char* op : {"Resize", "ResizeGrad"}) {
    for (const char* mode : {"nearest", "linear", "cubic"}) {
      for (const Layout layout : {Layout::kRowMajor, Layout::kChannelsLast}) {
        const std::int64_t channels = layout == Layout::kRowMajor ? 3 : 16;  // packs of channels
        const Dims x = {2, channels, 5, 9, 4}, y = {2, channels, 8, 4, 7};
        const bool gradient = std::string(op) == "ResizeGrad";
        KernelCase test = case_of(engine, op, {tensor(any_float(engine), gradient ? y : x, layout)},
                                  {tensor(any_float(engine), gradient ? x : y, layout)}, 256);
        test.request.attributes.set("mode", std::string(mode));
        test.request.attributes.set("antialias", draw(engine, 0, 1));
        check_kernel(test);
      }
    }
  }
  for (const DType dtype : {DType::kInt8, DType::kInt32, DType::kUInt16}) {
    KernelCase test =
        case_of(engine, "Resize", {tensor(dtype, {1, 2, 6, 7})}, {tensor(dtype, {1, 2, 9, 4})}, 4);
    test.request.attributes.set("mode", std::string("linear"));
    check_kernel(test);
    test.request.attributes.set("mode", std::string("nearest"));
    test.request.attributes.set("coordinate_transformation_mode",
                                std::string("tf_crop_and_resize"));
    test.request.attributes.set("extrapolation_value", 7.0);
    test.request.attributes.set("roi", std::vector<double>{0, 0, -0.5, 0.25, 1, 1, 0.75, 1.5});
    check_kernel(test);
  }
}

TEST(WindowRows, GridSampleGrad) {
  Engine engine(208);
  for (int round = 0; round < 18; ++round) {
    const bool deep = round % 3 == 0;
    const std::int64_t channels = round % 2 == 0 ? 3 : 40;
    const Dims x = deep ? Dims{2, channels, 3, 4, 5} : Dims{2, channels, 6, 5};
    const Dims grid = deep ? Dims{2, 2, 3, 7, 3} : Dims{2, 5, 9, 2};
    Dims y = {2, channels};
    y.insert(y.end(), grid.begin() + 1, grid.end() - 1);
    KernelCase test = case_of(
        engine, "GridSampleGrad",
        {tensor(any_float(engine), y), tensor(any_float(engine), x), tensor(DType::kFloat32, grid)},
        {tensor(any_float(engine), x), tensor(any_float(engine), grid)}, 256);
    test.cancels = 4.0;
    if (round % 5 == 0) test.request.outputs[draw(engine, 0, 1)] = TensorDesc();
    const char* modes[] = {"nearest", "linear", "cubic"};
    const char* paddings[] = {"zeros", "border", "reflection"};
    test.request.attributes.set("mode", std::string(modes[draw(engine, 0, 2)]));
    test.request.attributes.set("padding_mode", std::string(paddings[draw(engine, 0, 2)]));
    test.request.attributes.set("align_corners", draw(engine, 0, 1));
    ASSERT_NO_FATAL_FAILURE(check_kernel(test));
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace mezzo::kernels
