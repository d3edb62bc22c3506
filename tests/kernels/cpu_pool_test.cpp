// Pools and their gradients against the reference.
#include <gtest/gtest.h>

#include "tests/kernels/kernel_harness.h"

namespace mezzo::kernels {
namespace {

using Dims = std::vector<std::int64_t>;

struct PoolCase {
  KernelRequest request;  // attributes and operator only
  Dims large;
  Dims small;
};

// Windows of 1 to 3 dims that fit, with the pooled dims by ONNX's formula.
PoolCase draw_pool(Engine& engine, const char* op) {
  PoolCase test;
  test.request.op = op;
  const auto rank = static_cast<std::size_t>(draw(engine, 1, 3));
  test.large = {draw(engine, 1, 3), draw(engine, 1, 40)};
  test.small = test.large;
  Dims kernel, strides, dilations, begins, ends;
  const bool ceil = draw(engine, 0, 1) == 1;
  const bool average = test.request.op.starts_with("Average");
  for (std::size_t i = 0; i < rank; ++i) {
    kernel.push_back(draw(engine, 1, 3));
    strides.push_back(draw(engine, 1, 3));
    dilations.push_back(average ? 1 : draw(engine, 1, 2));
    begins.push_back(draw(engine, 0, kernel[i] - 1));
    ends.push_back(draw(engine, 0, kernel[i] - 1));
    const std::int64_t reach = (kernel[i] - 1) * dilations[i] + 1;
    const std::int64_t in = reach + draw(engine, 0, rank == 1 ? 700 : 12);
    const std::int64_t slack = in + begins[i] + ends[i] - reach;
    std::int64_t out = slack / strides[i] + 1;
    if (ceil && slack % strides[i] != 0 && out * strides[i] < in + begins[i]) ++out;
    test.large.push_back(in);
    test.small.push_back(out);
  }
  begins.insert(begins.end(), ends.begin(), ends.end());
  test.request.attributes.set("kernel_shape", kernel);
  test.request.attributes.set("strides", strides);
  test.request.attributes.set("pads", begins);
  test.request.attributes.set("ceil_mode", std::int64_t{ceil ? 1 : 0});
  if (!average) test.request.attributes.set("dilations", dilations);
  if (average) test.request.attributes.set("count_include_pad", draw(engine, 0, 1));
  return test;
}

TEST(Pool, MaxPoolAndItsGradient) {
  Engine engine(48);
  for (int round = 0; round < 120; ++round) {
    const PoolCase pool = draw_pool(engine, "MaxPool");
    const Layout layout = round % 2 == 0 ? Layout::kRowMajor : Layout::kChannelsLast;
    KernelCase test{pool.request, {}};
    test.request.inputs = {tensor(draw_float(engine), pool.large, layout)};
    test.request.outputs = {
        tensor(draw_float(engine), pool.small, layout),
        round / 2 % 3 == 0 ? TensorDesc() : tensor(DType::kInt64, pool.small, layout)};
    test.operands = {draw_numbers(engine, test.request.inputs[0], 1.0, round % 3 == 0)};
    for (double& x : test.operands[0]) {
      if (draw(engine, 0, 3) == 0) x = 0.5;  // equal values: the first counts
    }
    ASSERT_NO_FATAL_FAILURE(check_kernel(test));
    if (HasFailure()) return;
    if (!test.request.outputs[1].present()) continue;

    KernelCase grad;
    grad.request.op = "MaxPoolGrad";
    grad.request.inputs = {tensor(draw_float(engine), pool.small, layout), test.request.outputs[1]};
    grad.request.outputs = {tensor(draw_float(engine), pool.large, layout)};
    grad.operands = {draw_numbers(engine, grad.request.inputs[0], 1.0),
                     run_row(test.request, test.operands)[1]};
    grad.depth = 32;
    grad.cancels = 1.0;
    ASSERT_NO_FATAL_FAILURE(check_kernel(grad));
    if (HasFailure()) return;
  }
}

// Windows of more taps than are looked at together, and of more rows.
TEST(Pool, MaxPoolOfWideWindows) {
  Engine engine(49);
  for (const Dims& kernel : {Dims{3, 50}, Dims{70, 2}, Dims{9, 9}}) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      KernelCase test;
      test.request.op = "MaxPool";
      test.request.attributes.set("kernel_shape", kernel);
      test.request.attributes.set("strides", Dims{1, 1});
      test.request.inputs = {
          tensor(dtype, {2, 19, kernel[0] + 3, kernel[1] + 2}, Layout::kChannelsLast)};
      test.request.outputs = {tensor(dtype, {2, 19, 4, 3}, Layout::kChannelsLast)};
      test.operands = {draw_numbers(engine, test.request.inputs[0], 1.0)};
      ASSERT_NO_FATAL_FAILURE(check_kernel(test));
      if (HasFailure()) return;
    }
  }
}

TEST(Pool, MaxPoolGradNamesAWrongIndex) {
  KernelRequest request;
  request.op = "MaxPoolGrad";
  request.inputs = {tensor(DType::kFloat32, {1, 2, 2}), tensor(DType::kInt64, {1, 2, 2})};
  request.outputs = {tensor(DType::kFloat32, {1, 2, 4})};
  EXPECT_TRUE(row_status(request, {Numbers(4, 1.0), {0, 3, 4, -1}}).ok());
  for (const double wrong : {8.0, -2.0, 1.0}) {  // outside, and in another channel
    const Status status = row_status(request, {Numbers(4, 1.0), {0, 3, wrong, 7}});
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("element 2"), std::string::npos) << status.message();
  }
}

TEST(Pool, AveragePoolAndItsGradient) {
  Engine engine(49);
  for (int round = 0; round < 120; ++round) {
    const PoolCase pool = draw_pool(engine, round % 2 == 0 ? "AveragePool" : "AveragePoolGrad");
    const Layout layout = round % 4 < 2 ? Layout::kRowMajor : Layout::kChannelsLast;
    KernelCase test{pool.request, {}};
    const TensorDesc large = tensor(draw_float(engine), pool.large, layout);
    const TensorDesc small = tensor(draw_float(engine), pool.small, layout);
    test.request.inputs = {round % 2 == 0 ? large : small};
    test.request.outputs = {round % 2 == 0 ? small : large};
    test.operands = {draw_numbers(engine, test.request.inputs[0], 1.0)};
    test.depth = 32;
    test.cancels = 1.0;
    ASSERT_NO_FATAL_FAILURE(check_kernel(test));
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace mezzo::kernels
