// Rows of a device for layers: the shapes at which their kernels change the way they go (rows that
// are held and rows that are not, packs of channels, sums in parts), and operators that the CPU
// leaves to the reference kernels.
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
Layout any_layout(Engine& engine) {
  return draw(engine, 0, 1) == 0 ? Layout::kRowMajor : Layout::kChannelsLast;
}

KernelCase case_of(Engine& engine, const char* op, std::vector<TensorDesc> inputs,
                   std::vector<TensorDesc> outputs, std::int64_t depth) {
  KernelCase test;
  test.request.op = op;
  for (const TensorDesc& input : inputs) {
    test.operands.push_back(input.present() ? draw_numbers(engine, input, 1.0) : Numbers());
  }
  test.request.inputs = std::move(inputs);
  test.request.outputs = std::move(outputs);
  test.depth = depth;
  test.cancels = 1.0;
  return test;
}

Dims with_ones_from(Dims dims, std::size_t axis) {
  std::fill(dims.begin() + static_cast<std::ptrdiff_t>(axis), dims.end(), 1);
  return dims;
}

// Rows of one warp, of a block, and longer than a block holds; multiples of a pack and others.
constexpr std::int64_t kLengths[] = {1, 8, 31, 248, 264, 1000, 4104, 5001, 8200, 9001};

TEST(LayerRows, LinesOfEveryLength) {
  Engine engine(101);
  for (const char* op :
       {"Softmax", "LogSoftmax", "SoftmaxGrad", "LogSoftmaxGrad", "LpNormalization", "Hardmax"}) {
    for (const std::int64_t length : kLengths) {
      const Dims dims = {length > 2000 ? 2 : 7, length};
      std::vector<TensorDesc> inputs = {tensor(any_float(engine), dims)};
      if (std::string(op).ends_with("Grad")) inputs.push_back(tensor(any_float(engine), dims));
      KernelCase test = case_of(engine, op, inputs, {tensor(any_float(engine), dims)}, length + 64);
      for (double& y : test.operands.back()) {
        if (std::string(op) == "LogSoftmaxGrad") y = -std::fabs(y);
      }
      if (std::string(op) == "LpNormalization") {
        test.request.attributes.set("p", draw(engine, 1, 2));
        std::fill_n(test.operands[0].begin(), length, 0.0);  // a line of zeros stays one
      }
      if (std::string(op) == "Hardmax" && length > 20) {
        for (std::size_t i = 0; i < test.operands[0].size(); i += 5) test.operands[0][i] = 4.0;
        test.operands[0][17] = NAN;  // beyond every number
      }
      ASSERT_NO_FATAL_FAILURE(check_kernel(test));
    }
  }
}

// Lines whose elements are not neighbours: taken by one thread, or by several in turn.
TEST(LayerRows, LinesAcrossRows) {
  Engine engine(102);
  for (const char* op : {"Softmax", "SoftmaxGrad", "LpNormalization", "Hardmax"}) {
    for (const Dims& dims : {Dims{2, 40, 37}, Dims{3, 300, 5}, Dims{1, 1000, 2}, Dims{300, 3, 2}}) {
      std::vector<TensorDesc> inputs = {tensor(any_float(engine), dims)};
      if (std::string(op).ends_with("Grad")) inputs.push_back(tensor(any_float(engine), dims));
      KernelCase test =
          case_of(engine, op, inputs, {tensor(any_float(engine), dims)}, dims[1] + 64);
      test.request.attributes.set("axis", std::int64_t{1});
      if (std::string(op) == "Hardmax") test.operands[0][4] = NAN;
      ASSERT_NO_FATAL_FAILURE(check_kernel(test));
    }
  }
}

// -infinity adds nothing, whichever thread meets it; NaN and infinity spoil their line alone.
TEST(LayerRows, MaskedLines) {
  Engine engine(103);
  for (const char* op : {"Softmax", "LogSoftmax"}) {
    for (const std::int64_t length : {16, 77, 1024, 9001}) {
      for (const std::int64_t inner : {1, 3}) {
        const TensorDesc x = tensor(DType::kFloat32, {6, length, inner});
        KernelCase test = case_of(engine, op, {x}, {x}, length + 64);
        test.request.attributes.set("axis", std::int64_t{1});
        Numbers& numbers = test.operands[0];
        const auto line = static_cast<std::size_t>(length * inner);
        for (std::size_t i = 0; i < 2 * line; ++i) {
          if (i % line > 3 || i / line == 0) numbers[i] = -INFINITY;
        }
        for (std::size_t i = 2 * line; i < 3 * line; ++i) numbers[i] = -INFINITY;
        numbers[2 * line + 5] = NAN;  // where a thread sees nothing else but -infinity
        numbers[3 * line] = INFINITY;
        numbers[4 * line + 1] = NAN;
        ASSERT_NO_FATAL_FAILURE(check_kernel(test));
      }
    }
  }
}

struct Loss {
  Dims scores;
  Layout layout = Layout::kRowMajor;
};

TEST(LayerRows, Losses) {
  Engine engine(104);
  const Loss losses[] = {{{5000, 3}},
                         {{9, 8}},
                         {{3, 9001}},
                         {{2, 8200}},
                         {{2, 7, 50, 51}},
                         {{3, 5, 8}, Layout::kChannelsLast},
                         {{2, 16, 4, 4}, Layout::kChannelsLast}};
  for (const Loss& shape : losses) {
    for (const char* reduction : {"mean", "sum", "none"}) {
      Dims label_dims = shape.scores;
      label_dims.erase(label_dims.begin() + 1);
      const TensorDesc labels =
          tensor(draw(engine, 0, 1) == 1 ? DType::kInt64 : DType::kInt32, label_dims);
      const TensorDesc scores = tensor(any_float(engine), shape.scores, shape.layout);
      const TensorDesc loss =
          tensor(any_float(engine), std::string(reduction) == "none" ? label_dims : Dims{});
      const TensorDesc weights =
          draw(engine, 0, 1) == 0 ? TensorDesc() : tensor(draw_float(engine), {shape.scores[1]});
      const auto finish = [&](KernelCase test, std::size_t at) {
        test.request.attributes.set("reduction", std::string(reduction));
        test.request.attributes.set("ignore_index", std::int64_t{-1});
        test.operands[at] = draw_integers(engine, labels, -1, shape.scores[1] - 1);
        for (double& weight : test.operands[at + 1]) weight = std::fabs(weight) + 0.25;
        if (at == 1 && test.request.outputs.size() == 1) return test;
        for (double& p : test.operands[at - 1]) p = at == 2 ? -std::fabs(p) : p;
        return test;
      };
      const std::int64_t depth = shape.scores[1] + 400;
      ASSERT_NO_FATAL_FAILURE(check_kernel(
          finish(case_of(engine, "SoftmaxCrossEntropyLoss", {scores, labels, weights},
                         {loss, draw(engine, 0, 2) == 0 ? TensorDesc() : scores}, depth),
                 1)));
      ASSERT_NO_FATAL_FAILURE(check_kernel(finish(
          case_of(engine, "NegativeLogLikelihoodLoss", {scores, labels, weights}, {loss}, depth),
          1)));
      ASSERT_NO_FATAL_FAILURE(check_kernel(
          finish(case_of(engine, "SoftmaxCrossEntropyLossGrad", {loss, scores, labels, weights},
                         {tensor(any_float(engine), shape.scores, shape.layout)}, depth),
                 2)));
      if (HasFailure()) return;
    }
  }
}

TEST(LayerRows, LossesNameAWrongLabel) {
  for (const char* op : {"NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"}) {
    KernelRequest request;
    request.op = op;
    request.attributes.set("ignore_index", std::int64_t{-7});
    request.inputs = {tensor(DType::kFloat32, {2, 4, 3}), tensor(DType::kInt32, {2, 3})};
    request.outputs = {tensor(DType::kFloat32, {})};
    const Status status = row_status(request, {Numbers(24, 0.5), {0, -7, 1, 2, -1, 3}});
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("label -1 at position 1, pixel 1, expected 0 to 3 or -7"),
              std::string::npos)
        << status.message();
  }
}

// No label counts: the mean of nothing is NaN, its gradient 0. And no positions at all.
TEST(LayerRows, LossesOfNothing) {
  KernelRequest request;
  request.op = "SoftmaxCrossEntropyLossGrad";
  request.attributes.set("ignore_index", std::int64_t{2});
  request.inputs = {tensor(DType::kFloat32, {}), tensor(DType::kFloat32, {3, 4}),
                    tensor(DType::kInt64, {3})};
  request.outputs = {tensor(DType::kFloat32, {3, 4})};
  check_kernel({request, {{1.0}, Numbers(12, -1.0), {2, 2, 2}}});
  request.op = "SoftmaxCrossEntropyLoss";
  request.inputs = {tensor(DType::kFloat32, {0, 4}), tensor(DType::kInt64, {0})};
  request.outputs = {tensor(DType::kFloat32, {})};
  check_kernel({request, {{}, {}}});
}

TEST(LayerRows, NormalisedRows) {
  Engine engine(105);
  for (const std::int64_t length : kLengths) {
    for (const char* op : {"LayerNormalization", "RMSNormalization"}) {
      const Dims dims = {length > 2000 ? 3 : 9, length};
      const bool layer = std::string(op).starts_with("Layer");
      std::vector<TensorDesc> inputs = {tensor(any_float(engine), dims),
                                        tensor(any_float(engine), {length})};
      std::vector<TensorDesc> outputs = {tensor(any_float(engine), dims)};
      if (layer) {
        inputs.push_back(tensor(any_float(engine), {length}));
        outputs.push_back(tensor(any_float(engine), {dims[0], 1}));
        outputs.push_back(tensor(any_float(engine), {dims[0], 1}));
      }
      ASSERT_NO_FATAL_FAILURE(check_kernel(case_of(engine, op, inputs, outputs, length + 16)));
    }
  }
}

// scale and bias broadcast to the row, each in its own way.
TEST(LayerRows, NormalisedRowsWithBroadcastFactors) {
  Engine engine(106);
  for (const Dims& scale : {Dims{}, Dims{1}, Dims{5}, Dims{4, 1}, Dims{1, 5}}) {
    for (const Dims& bias : {Dims{4, 5}, Dims{4, 1}, Dims{5}}) {
      const TensorDesc x = tensor(draw_float(engine), {3, 4, 5});
      KernelCase test =
          case_of(engine, "LayerNormalization",
                  {x, tensor(DType::kFloat32, scale), tensor(DType::kFloat16, bias)}, {x}, 64);
      test.request.attributes.set("axis", std::int64_t{1});
      ASSERT_NO_FATAL_FAILURE(check_kernel(test));
      test.request.op = "RMSNormalization";
      test.request.inputs.pop_back();
      test.operands.pop_back();
      ASSERT_NO_FATAL_FAILURE(check_kernel(test));
    }
  }
}

// So many rows that a team has several, and none at all.
TEST(LayerRows, GradientsOfNormalisedRows) {
  Engine engine(107);
  for (const std::int64_t length : kLengths) {
    for (const bool layer : {true, false}) {
      const std::int64_t rows = length > 2000 ? 18 : length == 1 ? 0 : 70;
      const Dims dims = {rows, length};
      std::vector<TensorDesc> inputs = {tensor(any_float(engine), dims),
                                        tensor(any_float(engine), dims),
                                        tensor(any_float(engine), {length})};
      std::vector<TensorDesc> outputs = {tensor(any_float(engine), dims),
                                         tensor(any_float(engine), {length})};
      if (layer) {
        inputs.push_back(tensor(DType::kFloat32, with_ones_from(dims, 1)));
        inputs.push_back(tensor(DType::kFloat32, with_ones_from(dims, 1)));
        outputs.push_back(tensor(any_float(engine), {length}));
      }
      KernelCase test = case_of(engine, layer ? "LayerNormalizationGrad" : "RMSNormalizationGrad",
                                inputs, outputs, rows + length + 64);
      if (layer) {
        for (double& r : test.operands[4]) r = std::fabs(r) + 0.5;
      }
      ASSERT_NO_FATAL_FAILURE(check_kernel(test));
    }
  }
}

TEST(LayerRows, NormalisedGroups) {
  Engine engine(108);
  for (const Dims& dims : {Dims{2, 12, 5, 7}, Dims{3, 8, 16}, Dims{1, 4, 50, 60}, Dims{2, 6}}) {
    for (const std::int64_t groups : {2, 4}) {
      if (dims[1] % groups != 0) continue;
      for (const std::int64_t factors : {groups, dims[1]}) {
        const TensorDesc x = tensor(any_float(engine), dims);
        KernelCase test = case_of(
            engine, "GroupNormalization",
            {x, tensor(draw_float(engine), {factors}), tensor(draw_float(engine), {factors})},
            {tensor(any_float(engine), dims)}, 3000);
        test.request.attributes.set("num_groups", groups);
        ASSERT_NO_FATAL_FAILURE(check_kernel(test));
      }
    }
    const Dims channels = {dims[1]};
    if (dims.size() < 3) continue;
    ASSERT_NO_FATAL_FAILURE(
        check_kernel(case_of(engine, "InstanceNormalization",
                             {tensor(any_float(engine), dims), tensor(draw_float(engine), channels),
                              tensor(draw_float(engine), channels)},
                             {tensor(any_float(engine), dims)}, 3000)));
  }
}

TEST(LayerRows, NormalisedSets) {
  Engine engine(109);
  for (const Dims& axes : {Dims{}, Dims{0}, Dims{1}, Dims{-1, 1}, Dims{0, 2, 3}}) {
    const Dims dims = {2, 3, 20, 33};
    KernelCase test = case_of(engine, "MeanVarianceNormalization",
                              {tensor(any_float(engine), dims, any_layout(engine))},
                              {tensor(any_float(engine), dims, any_layout(engine))}, 4000);
    if (!axes.empty()) test.request.attributes.set("axes", axes);
    ASSERT_NO_FATAL_FAILURE(check_kernel(test));
    KernelCase lrn = case_of(engine, "LRN", {test.request.inputs[0]},
                             {tensor(any_float(engine), dims, test.request.inputs[0].layout)}, 64);
    lrn.request.attributes.set("size", draw(engine, 1, 7));
    lrn.request.attributes.set("alpha", 0.5);
    ASSERT_NO_FATAL_FAILURE(check_kernel(lrn));
  }
}

}  // namespace
}  // namespace mezzo::kernels
