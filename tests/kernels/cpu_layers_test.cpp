// Recurrent layers and the norms of groups, rows and neighbouring channels against the reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "compiler/support/text.h"
#include "tests/kernels/kernel_harness.h"
#include "tests/support/status_test.h"

namespace mezzo::kernels {
namespace {

using Dims = std::vector<std::int64_t>;

KernelRequest draw_layer(Engine& engine, const std::string& op, DType weights) {
  const std::int64_t gates = op == "LSTM" ? 4 : op == "GRU" ? 3 : 1;
  const std::int64_t t = draw(engine, 1, 5), b = draw(engine, 1, 6), i = draw(engine, 1, 40);
  const std::int64_t h = draw(engine, 1, 40), directions = draw(engine, 1, 2);
  const bool first = draw(engine, 0, 1) == 1;  // batch first
  const auto maybe = [&](Dims dims) {
    return draw(engine, 0, 1) == 0 ? TensorDesc() : tensor(weights, std::move(dims));
  };
  const auto ordered = [&](std::int64_t outer, std::int64_t inner) {
    return first ? Dims{inner, outer, h} : Dims{outer, inner, h};
  };
  KernelRequest request;
  request.op = op;
  request.inputs = {tensor(draw_float(engine), first ? Dims{b, t, i} : Dims{t, b, i}),
                    tensor(weights, {directions, gates * h, i}),
                    tensor(weights, {directions, gates * h, h}),
                    maybe({directions, 2 * gates * h}),
                    draw(engine, 0, 1) == 0 ? TensorDesc() : tensor(DType::kInt32, {b}),
                    maybe(ordered(directions, b))};
  request.outputs = {
      tensor(draw_float(engine), first ? Dims{b, t, directions, h} : Dims{t, directions, b, h}),
      maybe(ordered(directions, b))};
  if (op == "LSTM") {
    request.inputs.push_back(maybe(ordered(directions, b)));
    request.inputs.push_back(maybe({directions, 3 * h}));
    request.outputs.push_back(maybe(ordered(directions, b)));
    request.attributes.set("input_forget", draw(engine, 0, 1));
  }
  request.attributes.set("layout", std::int64_t{first});
  request.attributes.set("linear_before_reset", draw(engine, 0, 1));
  request.attributes.set("direction", std::string(directions == 2           ? "bidirectional"
                                                  : draw(engine, 0, 1) == 0 ? "reverse"
                                                                            : "forward"));
  if (draw(engine, 0, 2) == 0) request.attributes.set("clip", 0.7);
  if (draw(engine, 0, 1) == 0) {
    constexpr const char* kNames[] = {"Tanh",      "Sigmoid",    "Softsign", "HardSigmoid",
                                      "LeakyRelu", "ScaledTanh", "Elu",      "Affine"};
    std::string names;
    const std::int64_t each = op == "LSTM" ? 3 : op == "GRU" ? 2 : 1;
    for (std::int64_t k = 0; k < each * directions; ++k) {
      names += (names.empty() ? "" : ",") + std::string(kNames[draw(engine, 0, 7)]);
    }
    request.attributes.set("activations", names);
    request.attributes.set("activation_alpha", std::vector<double>{0.3});
  }
  return request;
}

std::vector<Numbers> layer_operands(Engine& engine, const KernelRequest& request) {
  const bool batch_first = request.attributes.get_int("layout", 0) == 1;
  const std::int64_t steps = request.inputs[0].dims[batch_first ? 1 : 0];
  std::vector<Numbers> operands;
  for (const TensorDesc& desc : request.inputs) {
    if (!desc.present()) {
      operands.emplace_back();
    } else if (desc.dtype == DType::kInt32) {
      operands.push_back(draw_integers(engine, desc, 0, steps));
    } else {
      operands.push_back(draw_numbers(engine, desc, 0.3));
    }
  }
  return operands;
}

void check_layer(Engine& engine, const KernelRequest& request) {
  KernelCase test;
  test.request = request;
  test.operands = layer_operands(engine, request);
  const bool batch_first = request.attributes.get_int("layout", 0) == 1;
  test.depth = 60 * request.inputs[0].dims[batch_first ? 1 : 0];
  test.cancels = 4.0;
  check_kernel(test);
}

TEST(Recurrent, EqualsTheReference) {
  Engine engine(85);
  for (int round = 0; round < 120; ++round) {
    const char* const ops[] = {"RNN", "GRU", "LSTM"};
    const KernelRequest request = draw_layer(engine, ops[round % 3], draw_float(engine));
    ASSERT_NO_FATAL_FAILURE(check_layer(engine, request));
    if (HasFailure()) return;
  }
}

TEST(Recurrent, TakesDoubles) {
  Engine engine(86);
  for (int round = 0; round < 12; ++round) {
    const char* const ops[] = {"RNN", "GRU", "LSTM"};
    KernelRequest request = draw_layer(engine, ops[round % 3], DType::kFloat64);
    request.inputs[0].dtype = request.outputs[0].dtype = DType::kFloat64;
    ASSERT_NO_FATAL_FAILURE(check_layer(engine, request));
    if (HasFailure()) return;
  }
}

TEST(Recurrent, KeepsConstantWeights) {
  Engine engine(90);
  for (int round = 0; round < 30; ++round) {
    const char* const ops[] = {"RNN", "GRU", "LSTM"};
    const KernelRequest request = draw_layer(engine, ops[round % 3], draw_float(engine));
    const std::vector<Numbers> operands = layer_operands(engine, request);
    expect_same_with_constants(request, operands, {1, 2});
    expect_same_with_constants(request, operands, {2});
    if (HasFailure()) return;
  }
}

TEST(Recurrent, RefusesSizesThatOverflow) {
  constexpr std::int64_t kLarge = std::int64_t{1} << 40;
  KernelRequest request;
  request.op = "RNN";
  request.inputs = {tensor(DType::kFloat32, {kLarge, 1, 0}),
                    tensor(DType::kFloat32, {1, kLarge, 0}),
                    tensor(DType::kFloat32, {1, kLarge, kLarge})};
  request.outputs = {};
  EXPECT_FALSE(prepare_kernel(request, Backend::kCpu).ok());
  request.inputs[2] = tensor(DType::kFloat32, {1, kLarge, 1});
  EXPECT_FALSE(prepare_kernel(request, Backend::kCpu).ok());
}

TEST(Recurrent, RejectsLengthsBeyondTheSequence) {
  KernelRequest request;
  request.op = "RNN";
  request.inputs = {tensor(DType::kFloat32, {2, 1, 1}), tensor(DType::kFloat32, {1, 1, 1}),
                    tensor(DType::kFloat32, {1, 1, 1}), TensorDesc(), tensor(DType::kInt32, {1})};
  request.outputs = {tensor(DType::kFloat32, {2, 1, 1, 1})};
  const std::vector<Numbers> operands = {{1, 2}, {1}, {1}, {}, {3}};
  const Status status = row_status(request, operands);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), testing::HasSubstr("'sequence_lens': element 0 is 3"));
}

// ---- norms

TEST(Norms, Groups) {
  Engine engine(87);
  for (int round = 0; round < 60; ++round) {
    const std::int64_t groups = draw(engine, 1, 4), each = draw(engine, 1, 4);
    const std::int64_t channels = groups * each;
    Dims dims = {draw(engine, 1, 3), channels, draw(engine, 1, 9)};
    if (draw(engine, 0, 1) == 1) dims.push_back(draw(engine, 1, round % 5 == 0 ? 900 : 9));
    KernelCase test;
    test.request.op = round % 2 == 0 ? "GroupNormalization" : "InstanceNormalization";
    const bool per_group = round % 2 == 0 && draw(engine, 0, 1) == 1;
    const Dims factors = {per_group ? groups : channels};
    if (round % 2 == 0) test.request.attributes.set("num_groups", groups);
    test.request.attributes.set("epsilon", 1e-2);
    test.request.inputs = {tensor(draw_float(engine), dims), tensor(draw_float(engine), factors),
                           tensor(draw_float(engine), factors)};
    test.request.outputs = {tensor(draw_float(engine), dims)};
    for (const TensorDesc& desc : test.request.inputs) {
      test.operands.push_back(draw_numbers(engine, desc, 2.0));
    }
    test.depth = each * dims[2] * (dims.size() > 3 ? dims[3] : 1) + 16;
    test.cancels = 1.0;
    ASSERT_NO_FATAL_FAILURE(check_kernel(test));
    if (HasFailure()) return;
  }
}

TEST(Norms, RootMeanSquares) {
  Engine engine(88);
  for (int round = 0; round < 40; ++round) {
    Dims dims = {draw(engine, 1, 6), draw(engine, 1, 7), draw(engine, 1, 90)};
    if (round % 8 == 1) dims = {3, 1, 9000};
    const std::int64_t axis = draw(engine, 1, 2);
    const Dims inner(dims.begin() + axis, dims.end());
    KernelCase test;
    test.request.op = "RMSNormalization";
    test.request.attributes.set("axis", draw(engine, 0, 1) == 1 ? axis : axis - 3);
    test.request.inputs = {tensor(draw_float(engine), dims), tensor(draw_float(engine), inner)};
    test.request.outputs = {tensor(draw_float(engine), dims)};
    for (const TensorDesc& desc : test.request.inputs) {
      test.operands.push_back(draw_numbers(engine, desc, 2.0));
    }
    test.depth = dims[1] * dims[2] + 16;
    ASSERT_NO_FATAL_FAILURE(check_kernel(test));
    if (HasFailure()) return;
  }
}

TEST(Norms, NeighbouringChannels) {
  Engine engine(89);
  for (int round = 0; round < 40; ++round) {
    Dims dims = {draw(engine, 1, 3), draw(engine, 1, 12), draw(engine, 1, 40), draw(engine, 1, 40)};
    if (round % 4 == 0) dims = {2, 7};
    KernelCase test;
    test.request.op = "LRN";
    test.request.attributes.set("size", draw(engine, 1, 9));
    test.request.attributes.set("alpha", 0.1);
    test.request.attributes.set("beta", round % 3 == 0 ? 0.5 : 0.75);
    test.request.attributes.set("bias", 1.5);
    test.request.inputs = {tensor(draw_float(engine), dims)};
    test.request.outputs = {tensor(draw_float(engine), dims)};
    test.operands = {draw_numbers(engine, test.request.inputs[0], 2.0)};
    test.depth = 32;
    ASSERT_NO_FATAL_FAILURE(check_kernel(test));
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace mezzo::kernels
