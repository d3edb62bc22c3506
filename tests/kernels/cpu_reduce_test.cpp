// Reductions, softmax and cross-entropy against the reference.
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

// Random axes in the attributes, and the dims of the result.
Dims draw_reduction(Engine& engine, const Dims& dims, KernelRequest& request) {
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
  request.attributes.set("axes", axes);
  request.attributes.set("keepdims", std::int64_t{keepdims ? 1 : 0});
  return kept;
}

KernelCase float_reduction(Engine& engine, const std::string& op, DType in, DType out) {
  KernelCase test;
  test.request.op = op;
  const Dims dims = reduce_dims(engine);
  const Dims kept = draw_reduction(engine, dims, test.request);
  test.request.inputs = {tensor(in, dims)};
  test.request.outputs = {tensor(out, kept)};
  const bool orders = op == "ReduceMax" || op == "ReduceMin";
  const bool specials = orders && draw(engine, 0, 1) == 0;
  test.operands = {draw_numbers(engine, test.request.inputs[0], 1.0, specials)};
  for (double& x : test.operands[0]) {
    // Products near 1, or they leave the range at once; sums with a logarithm.
    if (op == "ReduceProd") x = x < 0.0 ? 1.0 - 0x1p-6 : -1.0 - 0x1p-6;
    if (op == "ReduceLogSum") x = std::fabs(x) + 1.0;
  }
  test.depth = product(dims) / std::max<std::int64_t>(product(kept), 1) + 4;
  test.cancels = 1.0;
  return test;
}

constexpr const char* kReductions[] = {"ReduceSum", "ReduceMean", "ReduceMax",
                                       "ReduceMin", "ReduceProd", "ReduceSumSquare",
                                       "ReduceL2",  "ReduceL1",   "ReduceLogSum"};

TEST(Reduce, EveryKindOverRandomAxes) {
  Engine engine(21);
  for (const char* op : kReductions) {
    for (int round = 0; round < 30; ++round) {
      const KernelCase test = float_reduction(engine, op, draw_float(engine), draw_float(engine));
      ASSERT_NO_FATAL_FAILURE(check_kernel(test));
      if (HasFailure()) return;
    }
  }
}

TEST(Reduce, Doubles) {
  Engine engine(23);
  for (const char* op : kReductions) {
    for (int round = 0; round < 12; ++round) {
      const DType out = round % 3 == 0 ? draw_float(engine) : DType::kFloat64;
      KernelCase test = float_reduction(engine, op, DType::kFloat64, out);
      test.accum = DType::kFloat64;
      ASSERT_NO_FATAL_FAILURE(check_kernel(test));
      if (HasFailure()) return;
    }
  }
}

TEST(Reduce, IntegersAndTruthValuesAreExact) {
  Engine engine(24);
  for (const char* op : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd",
                         "ReduceSumSquare", "ReduceL1"}) {
    for (int round = 0; round < 16; ++round) {
      KernelCase test;
      test.exact = true;
      test.request.op = op;
      const std::string name = op;
      DType dtype = draw_integer_type(engine);
      if (name == "ReduceMean" && dtype_bits(dtype) == 64) dtype = DType::kInt32;
      const bool truth = (name == "ReduceMax" || name == "ReduceMin") && round % 4 == 0;
      if (truth) dtype = DType::kBool;
      const Dims dims = reduce_dims(engine);
      const Dims kept = draw_reduction(engine, dims, test.request);
      test.request.inputs = {tensor(dtype, dims)};
      test.request.outputs = {tensor(dtype, kept)};
      test.operands = {draw_integers(engine, test.request.inputs[0],
                                     is_signed_type(dtype) ? -100 : 0, truth ? 1 : 100)};
      ASSERT_NO_FATAL_FAILURE(check_kernel(test));
      if (HasFailure()) return;
    }
  }
}

// Lines along an axis: rank 1 to 3, the axis anywhere.
TensorDesc draw_lines(Engine& engine, DType dtype, KernelRequest& request) {
  Dims dims = {draw(engine, 1, 5), draw(engine, 1, 1300)};
  if (draw(engine, 0, 1) == 1) std::swap(dims[0], dims[1]);
  if (draw(engine, 0, 2) == 0) dims.push_back(draw(engine, 1, 30));
  request.attributes.set("axis", draw(engine, -static_cast<std::int64_t>(dims.size()),
                                      static_cast<std::int64_t>(dims.size()) - 1));
  return tensor(dtype, dims);
}

TEST(ArgExtreme, FirstAndLastOfEveryType) {
  Engine engine(25);
  for (int round = 0; round < 80; ++round) {
    KernelCase test;
    test.exact = true;
    test.request.op = round % 2 == 0 ? "ArgMax" : "ArgMin";
    const DType dtype = round % 4 == 0   ? draw_integer_type(engine)
                        : round % 5 == 0 ? DType::kFloat64
                                         : draw_float(engine);
    const TensorDesc x = draw_lines(engine, dtype, test.request);
    test.request.inputs = {x};
    TensorDesc y = x;
    y.dtype = DType::kInt64;
    const std::int64_t axis = test.request.attributes.get_int("axis", 0);
    y.dims[static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int64_t>(x.dims.size())
                                             : axis)] = 1;
    test.request.outputs = {y};
    test.request.attributes.set("select_last_index", draw(engine, 0, 1));
    // Few different numbers, so that many are equal; now and then NaN.
    test.operands = {draw_integers(engine, x, is_signed_type(dtype) ? -3 : 0, 40)};
    for (double& number : test.operands[0]) {
      if (is_floating(dtype) && round % 8 == 1 && draw(engine, 0, 900) == 0) number = NAN;
    }
    ASSERT_NO_FATAL_FAILURE(check_kernel(test));
    if (HasFailure()) return;
  }
}

TEST(Scan, EveryTypeAndDirection) {
  Engine engine(26);
  for (int round = 0; round < 80; ++round) {
    KernelCase test;
    test.request.op = round % 2 == 0 ? "CumSum" : "CumProd";
    const bool real = round % 3 != 0;
    const DType dtype = !real            ? draw_integer_type(engine)
                        : round % 5 == 0 ? DType::kFloat64
                                         : draw_float(engine);
    test.request.inputs = {draw_lines(engine, dtype, test.request)};
    test.request.outputs = test.request.inputs;
    test.request.attributes.set("exclusive", draw(engine, 0, 1));
    test.request.attributes.set("reverse", draw(engine, 0, 1));
    // Joined in double, whatever the order, and rounded: the same bits. Doubles themselves show it.
    test.exact = dtype != DType::kFloat64;
    test.accum = DType::kFloat64;
    test.depth = 1300;
    test.cancels = 1.0;
    const TensorDesc& x = test.request.inputs[0];
    test.operands = {real ? draw_numbers(engine, x, 1.0)
                          : draw_integers(engine, x, is_signed_type(dtype) ? -9 : 0, 9)};
    ASSERT_NO_FATAL_FAILURE(check_kernel(test));
    if (HasFailure()) return;
  }
}

TEST(Reduce, SumToGivesBiasGradients) {
  Engine engine(22);
  for (int round = 0; round < 60; ++round) {
    KernelCase test;
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
    ASSERT_NO_FATAL_FAILURE(check_kernel(test));
    if (HasFailure()) return;
  }
}

// 70,000 ones and a half: a float32 accumulator that takes one at a time would stop adding halves
// near 2^24; sums of equal signs show drift that random signs hide.
TEST(Reduce, LongSumsKeepTheirDigits) {
  for (const Dims& dims : {Dims{1 << 22, 1}, Dims{1, 1 << 22}, Dims{1 << 19, 8}}) {
    KernelRequest request;
    request.op = "SumTo";
    request.inputs = {tensor(DType::kFloat32, dims)};
    const Dims to = dims[1] == 8 ? Dims{8} : Dims{1};
    request.outputs = {tensor(DType::kFloat32, to)};
    const Numbers x(1 << 22, static_cast<double>(0.1F));
    const double expected = static_cast<double>(0.1F) * static_cast<double>((1 << 22) / to[0]);
    const auto results = run_row(request, {x});
    ASSERT_EQ(results.size(), 1U);
    for (const double sum : results[0]) EXPECT_NEAR(sum / expected, 1.0, 3e-6);
  }
}

TEST(Reduce, PoolsAndConvBiasInBothLayouts) {
  Engine engine(23);
  for (const char* op : {"GlobalAveragePool", "GlobalAveragePoolGrad", "ConvGradBias"}) {
    for (int round = 0; round < 16; ++round) {
      KernelCase test;
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
      ASSERT_NO_FATAL_FAILURE(check_kernel(test));
      if (HasFailure()) return;
    }
  }
}

TEST(Softmax, ForwardAndGradientOverAnyAxis) {
  Engine engine(24);
  for (const char* op : {"Softmax", "LogSoftmax", "SoftmaxGrad", "LogSoftmaxGrad"}) {
    for (int round = 0; round < 40; ++round) {
      KernelCase test;
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
      ASSERT_NO_FATAL_FAILURE(check_kernel(test));
      if (HasFailure()) return;
    }
  }
}

// Masked attention: rows with -infinity, and numbers that would overflow exp.
TEST(Softmax, MasksAndLargeScores) {
  Engine engine(25);
  KernelCase test;
  test.request.op = "Softmax";
  test.request.inputs = {tensor(DType::kFloat32, {40, 77})};
  test.request.outputs = test.request.inputs;
  test.operands = {draw_numbers(engine, test.request.inputs[0], 200.0)};
  for (std::size_t i = 0; i < test.operands[0].size(); i += 3) test.operands[0][i] = -INFINITY;
  for (std::size_t i = 0; i < 77; ++i) test.operands[0][i] = -INFINITY;  // NaN, as in PyTorch
  test.operands[0][100] = NAN;
  test.operands[0][200] = 3e38;
  test.depth = 200;
  check_kernel(test);
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

TEST(CrossEntropy, LossAndGradient) {
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

    KernelCase loss;
    loss.request.op = "SoftmaxCrossEntropyLoss";
    loss.request.attributes.set("reduction", std::string(reduction));
    if (ignores) loss.request.attributes.set("ignore_index", std::int64_t{-100});
    loss.request.inputs = {tensor(draw_float(engine), shape.scores), labels, weights};
    loss.request.outputs = {
        tensor(draw_float(engine), each ? shape.labels : Dims{}),
        draw(engine, 0, 3) == 0 ? TensorDesc() : tensor(draw_float(engine), shape.scores),
        draw(engine, 0, 1) == 0 ? TensorDesc() : tensor(DType::kFloat32, shape.labels)};
    loss.operands = {draw_numbers(engine, loss.request.inputs[0], 3.0), label_numbers,
                     weight_numbers};
    loss.depth = shape.scores[1] + 300;
    loss.cancels = 1.0;
    ASSERT_NO_FATAL_FAILURE(check_kernel(loss));

    KernelCase grad;
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
    ASSERT_NO_FATAL_FAILURE(check_kernel(grad));
    // From the scores: whatever is taken from them, so that they need not be the true sums.
    grad.request.inputs.resize(5);
    grad.request.inputs[3] = weights;
    grad.request.inputs[4] = tensor(DType::kFloat32, shape.labels);
    grad.operands[1] = draw_numbers(engine, grad.request.inputs[1], 3.0);
    grad.operands.resize(5);
    grad.operands[4] = draw_numbers(engine, grad.request.inputs[4], 1.0);
    for (double& sum : grad.operands[4]) sum = std::fabs(sum) + 8.0;
    ASSERT_NO_FATAL_FAILURE(check_kernel(grad));
    if (HasFailure()) return;
  }
}

TEST(CrossEntropy, NamesAWrongLabel) {
  KernelRequest request;
  request.op = "SoftmaxCrossEntropyLoss";
  request.inputs = {tensor(DType::kFloat32, {3, 4}), tensor(DType::kInt64, {3})};
  request.outputs = {tensor(DType::kFloat32, {})};
  const Status status = row_status(request, {Numbers(12, 0.5), {0, 4, 1}});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("label 4 at position 1, expected 0 to 3"), std::string::npos)
      << status.message();
}

}  // namespace
}  // namespace mezzo::kernels
