// Normalisations against the reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/kernels/kernel_harness.h"

namespace mezzo::kernels {
namespace {

using Dims = std::vector<std::int64_t>;

std::int64_t product(const Dims& dims) {
  std::int64_t elems = 1;
  for (const std::int64_t dim : dims) elems *= dim;
  return elems;
}

TEST(Norm, LayerNormalization) {
  Engine engine(27);
  for (int round = 0; round < 40; ++round) {
    KernelCase test;
    test.request.op = "LayerNormalization";
    Dims dims = {draw(engine, 1, 6), draw(engine, 1, 7), draw(engine, 1, 90)};
    if (round % 4 == 0) dims = {draw(engine, 50, 70), draw(engine, 700, 800)};
    if (round % 8 == 1) dims = {3, 9000};
    const auto rank = static_cast<std::int64_t>(dims.size());
    const std::int64_t axis = draw(engine, 0, rank - 1);
    test.request.attributes.set("axis", draw(engine, 0, 1) == 1 ? axis : axis - rank);
    test.request.attributes.set("epsilon", 1e-4);
    const Dims inner(dims.begin() + axis, dims.end());
    Dims statistics = dims;
    std::fill(statistics.begin() + axis, statistics.end(), 1);
    const bool biased = draw(engine, 0, 2) > 0;
    const bool saves = draw(engine, 0, 2) > 0;
    test.request.inputs = {tensor(draw_float(engine), dims), tensor(draw_float(engine), inner),
                           biased ? tensor(draw_float(engine), inner) : TensorDesc()};
    test.request.outputs = {tensor(draw_float(engine), dims),
                            saves ? tensor(DType::kFloat32, statistics) : TensorDesc(),
                            saves ? tensor(DType::kFloat32, statistics) : TensorDesc()};
    for (const TensorDesc& desc : test.request.inputs) {
      test.operands.push_back(desc.present() ? draw_numbers(engine, desc, 2.0) : Numbers());
    }
    test.depth = product(inner) + 16;
    test.cancels = 1.0;
    ASSERT_NO_FATAL_FAILURE(check_kernel(test));
    if (HasFailure()) return;
  }
}

// A mean far larger than the deviation: one-pass formulas would cancel.
TEST(Norm, LargeMeansDoNotCancel) {
  Engine engine(28);
  KernelRequest request;
  request.op = "LayerNormalization";
  request.inputs = {tensor(DType::kFloat32, {4, 5000}), tensor(DType::kFloat32, {5000})};
  request.outputs = {tensor(DType::kFloat32, {4, 5000}), tensor(DType::kFloat32, {4, 1}),
                     tensor(DType::kFloat32, {4, 1})};
  KernelCase test{request, {draw_numbers(engine, request.inputs[0], 1.0), Numbers(5000, 1.0)}};
  for (double& x : test.operands[0]) x = static_cast<double>(static_cast<float>(x + 1000.0));
  test.depth = 2000;  // half a last place of 1000 beside a deviation of 1
  test.cancels = 1.0;
  check_kernel(test);
}

TEST(Norm, LayerNormalizationGrad) {
  Engine engine(29);
  for (int round = 0; round < 40; ++round) {
    KernelCase test;
    test.request.op = "LayerNormalizationGrad";
    Dims dims = {draw(engine, 1, 6), draw(engine, 1, 7), draw(engine, 1, 90)};
    if (round % 4 == 0) dims = {draw(engine, 100, 200), draw(engine, 500, 600)};
    const auto rank = static_cast<std::int64_t>(dims.size());
    const std::int64_t axis = draw(engine, 0, rank - 1);
    test.request.attributes.set("axis", axis);
    const Dims inner(dims.begin() + axis, dims.end());
    Dims statistics = dims;
    std::fill(statistics.begin() + axis, statistics.end(), 1);
    test.request.inputs = {tensor(draw_float(engine), dims), tensor(draw_float(engine), dims),
                           tensor(draw_float(engine), inner), tensor(DType::kFloat32, statistics),
                           tensor(DType::kFloat32, statistics)};
    test.request.outputs = {tensor(draw_float(engine), dims), tensor(draw_float(engine), inner),
                            tensor(draw_float(engine), inner)};
    if (round % 5 == 0) test.request.outputs[draw(engine, 0, 2)] = TensorDesc();
    for (const TensorDesc& desc : test.request.inputs) {
      test.operands.push_back(draw_numbers(engine, desc, 1.0));
    }
    for (double& r : test.operands[4]) r = std::fabs(r) + 0.5;
    test.depth = product(dims) / 2 + 32;
    test.cancels = 1.0;
    ASSERT_NO_FATAL_FAILURE(check_kernel(test));
    if (HasFailure()) return;
  }
}

TEST(Norm, RMSNormalizationGrad) {
  Engine engine(31);
  for (int round = 0; round < 40; ++round) {
    KernelCase test;
    test.request.op = "RMSNormalizationGrad";
    Dims dims = {draw(engine, 1, 6), draw(engine, 1, 7), draw(engine, 1, 90)};
    if (round % 4 == 0) dims = {draw(engine, 100, 200), draw(engine, 500, 600)};
    const std::int64_t axis = draw(engine, 0, static_cast<std::int64_t>(dims.size()) - 1);
    test.request.attributes.set("axis", axis);
    test.request.attributes.set("epsilon", 1e-3);
    test.request.threads = 1 + round % 3;
    const Dims inner(dims.begin() + axis, dims.end());
    test.request.inputs = {tensor(draw_float(engine), dims), tensor(draw_float(engine), dims),
                           tensor(draw_float(engine), inner)};
    test.request.outputs = {tensor(draw_float(engine), dims), tensor(draw_float(engine), inner)};
    if (round % 5 == 0) test.request.outputs[draw(engine, 0, 1)] = TensorDesc();
    for (const TensorDesc& desc : test.request.inputs) {
      test.operands.push_back(draw_numbers(engine, desc, 1.0));
    }
    test.depth = product(dims) / 2 + 32;
    test.cancels = 1.0;
    ASSERT_NO_FATAL_FAILURE(check_kernel(test));
    if (HasFailure()) return;
  }
}

// Few pixels, many pixels, and more channels than fit into one tile.
Dims norm_dims(Engine& engine, int round) {
  switch (round % 5) {
    case 0: return {draw(engine, 2, 4), draw(engine, 1, 40), draw(engine, 12, 20), 20};
    case 1: return {draw(engine, 2, 40), draw(engine, 1, 70), draw(engine, 1, 4), 3};
    case 2: return {draw(engine, 2, 9), draw(engine, 500, 700), 3, 3};
    case 3: return {draw(engine, 2, 300), draw(engine, 1, 90)};
    default: return {draw(engine, 1, 3), draw(engine, 1, 9), 1, draw(engine, 600, 5000)};
  }
}

TEST(Norm, BatchNormalization) {
  Engine engine(30);
  for (int round = 0; round < 60; ++round) {
    KernelCase test;
    test.request.op = "BatchNormalization";
    const Dims dims = norm_dims(engine, round);
    const Layout layout = draw(engine, 0, 1) == 1 ? Layout::kChannelsLast : Layout::kRowMajor;
    const Dims channels = {dims[1]};
    const bool training = draw(engine, 0, 2) > 0;
    test.request.attributes.set("training_mode", std::int64_t{training ? 1 : 0});
    test.request.attributes.set("epsilon", 1e-3);
    test.request.attributes.set("momentum", 0.8);
    test.request.attributes.set("unbiased_running_var", std::int64_t{round % 2});
    test.request.inputs = {tensor(draw_float(engine), dims, layout)};
    test.request.outputs = {tensor(draw_float(engine), dims, layout)};
    for (int i = 0; i < 4; ++i) {
      test.request.inputs.push_back(tensor(DType::kFloat32, channels));
      const bool wanted = training && draw(engine, 0, 4) > 0;
      test.request.outputs.push_back(wanted ? tensor(DType::kFloat32, channels) : TensorDesc());
    }
    for (const TensorDesc& desc : test.request.inputs) {
      test.operands.push_back(draw_numbers(engine, desc, 1.0));
    }
    for (double& x : test.operands[0]) x += 3.0;
    test.operands[0] = [&] {  // as the dtype holds them
      KernelRequest identity;
      identity.op = "Identity";
      identity.inputs = identity.outputs = {test.request.inputs[0]};
      return run_row(identity, {test.operands[0]})[0];
    }();
    for (double& var : test.operands[4]) var = std::fabs(var) + 0.1;
    test.depth = product(dims) / std::max<std::int64_t>(dims[1], 1) + 64;
    test.cancels = 1.0;
    ASSERT_NO_FATAL_FAILURE(check_kernel(test));
    if (HasFailure()) return;
  }
}

TEST(Norm, BatchNormalizationGrad) {
  Engine engine(31);
  for (int round = 0; round < 60; ++round) {
    KernelCase test;
    test.request.op = "BatchNormalizationGrad";
    const Dims dims = norm_dims(engine, round);
    const Layout layout = draw(engine, 0, 1) == 1 ? Layout::kChannelsLast : Layout::kRowMajor;
    const Dims channels = {dims[1]};
    test.request.inputs = {tensor(draw_float(engine), dims, layout),
                           tensor(draw_float(engine), dims, layout),
                           tensor(DType::kFloat32, channels), tensor(DType::kFloat32, channels),
                           tensor(DType::kFloat32, channels)};
    test.request.outputs = {tensor(draw_float(engine), dims, layout),
                            tensor(DType::kFloat32, channels), tensor(DType::kFloat32, channels)};
    if (round % 6 == 0) test.request.outputs[draw(engine, 0, 2)] = TensorDesc();
    for (const TensorDesc& desc : test.request.inputs) {
      test.operands.push_back(draw_numbers(engine, desc, 1.0));
    }
    for (double& r : test.operands[4]) r = std::fabs(r) + 0.5;
    test.depth = product(dims) / std::max<std::int64_t>(dims[1], 1) + 32;
    test.cancels = 1.0;
    ASSERT_NO_FATAL_FAILURE(check_kernel(test));
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace mezzo::kernels
