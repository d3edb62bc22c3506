// Reductions, softmax and cross-entropy against the reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/kernels/cpu_harness.h"

namespace mezzo::kernels {
namespace {

using Dims = std::vector<std::int64_t>;

std::int64_t product(const Dims& dims) {
  std::int64_t elems = 1;
  for (const std::int64_t dim : dims) elems *= dim;
  return elems;
}

// Shapes of all proportions: long rows, long columns, many dims, large ones for threads.
Dims reduce_dims(Engine& engine) {
  switch (draw(engine, 0, 7)) {
    case 0: return {draw(engine, 2000, 3000), draw(engine, 1, 40)};
    case 1: return {draw(engine, 1, 40), draw(engine, 2000, 3000)};
    case 2: return {draw(engine, 1, 8), draw(engine, 1, 70), draw(engine, 20, 300)};
    case 3: return {draw(engine, 100, 200), draw(engine, 500, 1100)};
    case 4: return {draw(engine, 40000, 70000)};
    default: {
      Dims dims;
      for (std::int64_t i = draw(engine, 0, 5); i > 0; --i) dims.push_back(draw(engine, 1, 7));
      return dims;
    }
  }
}

TEST(CpuReduce, EveryKindOverRandomAxes) {
  Engine engine(21);
  for (const char* op : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd",
                         "ReduceSumSquare", "ReduceL2"}) {
    for (int round = 0; round < 30; ++round) {
      CpuCase test;
      test.request.op = op;
      const Dims dims = reduce_dims(engine);
      Dims axes;
      Dims kept;
      const bool keepdims = draw(engine, 0, 1) == 1;
      for (std::size_t i = 0; i < dims.size(); ++i) {
        if (draw(engine, 0, 1) == 1) {
          axes.push_back(static_cast<std::int64_t>(i) -
                         (draw(engine, 0, 1) == 1 ? static_cast<std::int64_t>(dims.size()) : 0));
          if (keepdims) kept.push_back(1);
        } else {
          kept.push_back(dims[i]);
        }
      }
      if (axes.empty()) kept = keepdims ? Dims(dims.size(), 1) : Dims{};
      test.request.attributes.set("axes", axes);
      test.request.attributes.set("keepdims", std::int64_t{keepdims ? 1 : 0});
      test.request.inputs = {tensor(draw_float(engine), dims)};
      test.request.outputs = {tensor(draw_float(engine), kept)};
      const bool orders = std::string(op) == "ReduceMax" || std::string(op) == "ReduceMin";
      test.operands = {draw_numbers(engine, test.request.inputs[0], 1.0, orders && round % 2 == 0)};
      if (std::string(op) == "ReduceProd") {  // near 1, or it leaves the range at once
        for (double& x : test.operands[0]) x = x < 0.0 ? 1.0 - 0x1p-6 : -1.0 - 0x1p-6;
      }
      test.depth = product(dims) / std::max<std::int64_t>(product(kept), 1) + 2;
      test.cancels = 1.0;
      ASSERT_NO_FATAL_FAILURE(check_cpu(test));
      if (HasFailure()) return;
    }
  }
}

TEST(CpuReduce, SumToGivesBiasGradients) {
  Engine engine(22);
  for (int round = 0; round < 60; ++round) {
    CpuCase test;
    test.request.op = "SumTo";
    const Dims dims = reduce_dims(engine);
    Dims to(dims.begin() + draw(engine, 0, static_cast<std::int64_t>(dims.size())), dims.end());
    for (std::int64_t& dim : to) {
      if (draw(engine, 0, 2) == 0) dim = 1;
    }
    test.request.inputs = {tensor(draw_float(engine), dims)};
    test.request.outputs = {tensor(draw_float(engine), to)};
    test.operands = {draw_numbers(engine, test.request.inputs[0], 1.0)};
    test.depth = product(dims) / std::max<std::int64_t>(product(to), 1) + 2;
    test.cancels = 1.0;
    ASSERT_NO_FATAL_FAILURE(check_cpu(test));
    if (HasFailure()) return;
  }
}

// 70,000 ones and a half: a float32 accumulator that takes one at a time would stop adding halves
// near 2^24; sums of equal signs show drift that random signs hide.
TEST(CpuReduce, LongSumsKeepTheirDigits) {
  for (const Dims& dims : {Dims{1 << 22, 1}, Dims{1, 1 << 22}, Dims{1 << 19, 8}}) {
    KernelRequest request;
    request.op = "SumTo";
    request.inputs = {tensor(DType::kFloat32, dims)};
    const Dims to = dims[1] == 8 ? Dims{8} : Dims{1};
    request.outputs = {tensor(DType::kFloat32, to)};
    const Numbers x(1 << 22, static_cast<double>(0.1F));
    const double expected = static_cast<double>(0.1F) * static_cast<double>((1 << 22) / to[0]);
    const auto results = run_cpu(request, {x});
    ASSERT_EQ(results.size(), 1U);
    for (const double sum : results[0]) EXPECT_NEAR(sum / expected, 1.0, 3e-6);
  }
}

TEST(CpuReduce, PoolsAndConvBiasInBothLayouts) {
  Engine engine(23);
  for (const char* op : {"GlobalAveragePool", "GlobalAveragePoolGrad", "ConvGradBias"}) {
    for (int round = 0; round < 16; ++round) {
      CpuCase test;
      test.request.op = op;
      const Layout layout = round % 2 == 0 ? Layout::kRowMajor : Layout::kChannelsLast;
      const Dims dims = {draw(engine, 1, 5), draw(engine, 1, 70), draw(engine, 1, 15),
                         draw(engine, 1, 15)};
      const Dims small = {dims[0], dims[1], 1, 1};
      const TensorDesc large_desc = tensor(draw_float(engine), dims, layout);
      TensorDesc small_desc = tensor(draw_float(engine), small, layout);
      if (test.request.op == "ConvGradBias") small_desc = tensor(draw_float(engine), {dims[1]});
      const bool grows = test.request.op == "GlobalAveragePoolGrad";
      test.request.inputs = {grows ? small_desc : large_desc};
      test.request.outputs = {grows ? large_desc : small_desc};
      test.operands = {draw_numbers(engine, test.request.inputs[0], 1.0)};
      test.depth = product(dims) / dims[1];
      test.cancels = 1.0;
      ASSERT_NO_FATAL_FAILURE(check_cpu(test));
      if (HasFailure()) return;
    }
  }
}

TEST(CpuSoftmax, ForwardAndGradientOverAnyAxis) {
  Engine engine(24);
  for (const char* op : {"Softmax", "LogSoftmax", "SoftmaxGrad", "LogSoftmaxGrad"}) {
    for (int round = 0; round < 40; ++round) {
      CpuCase test;
      test.request.op = op;
      Dims dims = draw_dims(engine, static_cast<std::size_t>(draw(engine, 1, 4)), 12);
      if (round % 4 == 0) dims = {draw(engine, 30, 40), draw(engine, 900, 1200)};
      if (round % 4 == 1) dims = {draw(engine, 2, 4), draw(engine, 20, 60), draw(engine, 150, 300)};
      const auto rank = static_cast<std::int64_t>(dims.size());
      const std::int64_t axis = draw(engine, -rank, rank - 1);
      test.request.attributes.set("axis", axis);
      const Layout layout = draw(engine, 0, 3) == 0 ? Layout::kChannelsLast : Layout::kRowMajor;
      test.request.inputs = {tensor(draw_float(engine), dims, layout)};
      test.operands = {draw_numbers(engine, test.request.inputs[0], 4.0)};
      if (test.request.op.ends_with("Grad")) {
        test.request.inputs.push_back(tensor(draw_float(engine), dims, layout));
        test.operands.push_back(draw_numbers(engine, test.request.inputs[1], 0.3));
        for (double& y : test.operands[1]) y = -std::fabs(y);  // log probabilities do not grow
      }
      test.request.outputs = {tensor(draw_float(engine), dims, layout)};
      test.depth = dims[static_cast<std::size_t>(axis < 0 ? axis + rank : axis)] + 40;
      test.cancels = test.request.op == "Softmax" ? 0.0 : 1.0;
      ASSERT_NO_FATAL_FAILURE(check_cpu(test));
      if (HasFailure()) return;
    }
  }
}

// Masked attention: rows with -infinity, and numbers that would overflow exp.
TEST(CpuSoftmax, MasksAndLargeScores) {
  Engine engine(25);
  CpuCase test;
  test.request.op = "Softmax";
  test.request.inputs = {tensor(DType::kFloat32, {40, 77})};
  test.request.outputs = test.request.inputs;
  test.operands = {draw_numbers(engine, test.request.inputs[0], 200.0)};
  for (std::size_t i = 0; i < test.operands[0].size(); i += 3) test.operands[0][i] = -INFINITY;
  for (std::size_t i = 0; i < 77; ++i) test.operands[0][i] = -INFINITY;  // NaN, as in PyTorch
  test.operands[0][100] = NAN;
  test.operands[0][200] = 3e38;
  test.depth = 200;
  check_cpu(test);
}

struct Labelled {
  Dims scores;
  Dims labels;
};

Labelled labelled_dims(Engine& engine, int round) {
  if (round % 3 == 0) return {{200, draw(engine, 200, 300)}, {200}};
  if (round % 3 == 1) return {{draw(engine, 1, 9), draw(engine, 1, 20)}, {}};
  return {{2, draw(engine, 1, 12), draw(engine, 1, 20), draw(engine, 1, 9)}, {}};
}

TEST(CpuCrossEntropy, LossAndGradient) {
  Engine engine(26);
  for (int round = 0; round < 48; ++round) {
    const char* reductions[] = {"mean", "sum", "none"};
    Labelled shape = labelled_dims(engine, round);
    shape.labels = shape.scores;
    shape.labels.erase(shape.labels.begin() + 1);
    const char* reduction = reductions[round / 3 % 3];
    const bool each = round / 3 % 3 == 2;
    const bool weighted = draw(engine, 0, 1) == 1;
    const bool ignores = draw(engine, 0, 1) == 1;
    const DType label_type = draw(engine, 0, 1) == 1 ? DType::kInt64 : DType::kInt32;
    const TensorDesc labels = tensor(label_type, shape.labels);
    Numbers label_numbers = draw_integers(engine, labels, 0, shape.scores[1] - 1);
    if (ignores) {
      for (double& label : label_numbers) label = draw(engine, 0, 3) == 0 ? -100 : label;
    }
    const TensorDesc weights =
        weighted ? tensor(draw_float(engine), {shape.scores[1]}) : TensorDesc();
    Numbers weight_numbers = weighted ? draw_numbers(engine, weights, 1.0) : Numbers();
    for (double& weight : weight_numbers) weight = std::fabs(weight) + 0.125;

    CpuCase loss;
    loss.request.op = "SoftmaxCrossEntropyLoss";
    loss.request.attributes.set("reduction", std::string(reduction));
    if (ignores) loss.request.attributes.set("ignore_index", std::int64_t{-100});
    loss.request.inputs = {tensor(draw_float(engine), shape.scores), labels, weights};
    loss.request.outputs = {
        tensor(draw_float(engine), each ? shape.labels : Dims{}),
        draw(engine, 0, 3) == 0 ? TensorDesc() : tensor(draw_float(engine), shape.scores)};
    loss.operands = {draw_numbers(engine, loss.request.inputs[0], 3.0), label_numbers,
                     weight_numbers};
    loss.depth = shape.scores[1] + 300;
    loss.cancels = 1.0;
    ASSERT_NO_FATAL_FAILURE(check_cpu(loss));

    CpuCase grad;
    grad.request.op = "SoftmaxCrossEntropyLossGrad";
    grad.request.attributes = loss.request.attributes;
    grad.request.inputs = {tensor(draw_float(engine), each ? shape.labels : Dims{}),
                           tensor(draw_float(engine), shape.scores), labels, weights};
    grad.request.outputs = {tensor(draw_float(engine), shape.scores)};
    grad.operands = {draw_numbers(engine, grad.request.inputs[0], 1.0),
                     draw_numbers(engine, grad.request.inputs[1], 2.0), label_numbers,
                     weight_numbers};
    for (double& p : grad.operands[1]) p = -std::fabs(p);
    grad.depth = 64;
    grad.cancels = 1.0;
    ASSERT_NO_FATAL_FAILURE(check_cpu(grad));
    if (HasFailure()) return;
  }
}

TEST(CpuCrossEntropy, NamesAWrongLabel) {
  KernelRequest request;
  request.op = "SoftmaxCrossEntropyLoss";
  request.inputs = {tensor(DType::kFloat32, {3, 4}), tensor(DType::kInt64, {3})};
  request.outputs = {tensor(DType::kFloat32, {})};
  const Status status = cpu_status(request, {Numbers(12, 0.5), {0, 4, 1}});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("label 4 at position 1, expected 0 to 3"), std::string::npos)
      << status.message();
}

}  // namespace
}  // namespace mezzo::kernels
