#include "tests/kernels/layout_case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <utility>

namespace mezzo::kernels {
namespace {

using Dims = std::vector<std::int64_t>;
using Ints = std::vector<std::int64_t>;
using Values = std::vector<double>;

const Dims kImage = {2, 5, 4, 3};

std::vector<LayoutCase> cases() {
  std::vector<LayoutCase> all;
  for (const char* op : {"Relu",      "Sigmoid",    "Tanh",
                         "Erf",       "Exp",        "Log",
                         "Sqrt",      "Reciprocal", "Neg",
                         "Abs",       "Softplus",   "HardSigmoid",
                         "HardSwish", "LeakyRelu",  "Elu",
                         "Sin",       "Cos",        "Gelu",
                         "Swish",     "Clip",       "Floor",
                         "Ceil",      "Round",      "Sign",
                         "Cast",      "Tan",        "Asin",
                         "Acos",      "Atan",       "Sinh",
                         "Cosh",      "Asinh",      "Acosh",
                         "Atanh",     "Mish",       "Softsign",
                         "Selu",      "Celu",       "ThresholdedRelu",
                         "Shrink",    "Softmax",    "LogSoftmax"}) {
    all.push_back({op, {kImage}, {kImage}, {}});
  }
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "PRelu"}) {
    for (const Dims& other : {kImage, Dims{2, 5, 1, 1}, Dims{5, 1, 1}, Dims{3}, Dims{}})
      all.push_back({op, {kImage, other}, {kImage}, {}});
  }
  const auto add = [&](LayoutCase test,
                       std::vector<std::pair<std::string, Attributes::Value>> values) {
    for (auto& [name, value] : values) test.attributes.set(name, std::move(value));
    all.push_back(std::move(test));
  };
  for (const std::int64_t axis : {1, 2}) add({"Softmax", {kImage}, {kImage}, {}}, {{"axis", axis}});
  add({"Concat", {{2, 2, 4, 3}, {2, 3, 4, 3}}, {kImage}, {}}, {{"axis", std::int64_t{1}}});
  add({"Split", {kImage}, {{2, 2, 4, 3}, {2, 3, 4, 3}}, {}}, {{"axis", std::int64_t{1}}});
  add({"Slice", {kImage}, {{2, 3, 4, 2}, {}}, {}},
      {{"starts", Ints{1, 2}}, {"ends", Ints{4, 0}}, {"axes", Ints{1, 3}}, {"steps", Ints{1, -1}}});
  all.back().outputs.resize(1);
  add({"Pad", {kImage}, {{2, 7, 4, 4}}, {}}, {{"pads", Ints{0, 1, 0, 0, 0, 1, 0, 1}}});
  for (const char* mode : {"reflect", "edge", "wrap"}) {
    add({"Pad", {kImage}, {{2, 7, 4, 4}}, {}},
        {{"pads", Ints{0, 1, 0, 0, 0, 1, 0, 1}}, {"mode", std::string(mode)}});
  }
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    add({"Resize", {kImage}, {{2, 5, 7, 2}}, {}}, {{"mode", std::string(mode)}});
  }
  for (const char* op : {"ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin"}) {
    add({op, {kImage}, {{2, 5, 1, 1}}, {}}, {{"axes", Ints{2, 3}}, {"keepdims", std::int64_t{1}}});
    add({op, {kImage}, {{2, 1, 4, 3}}, {}}, {{"axes", Ints{1}}, {"keepdims", std::int64_t{1}}});
  }
  for (const char* op : {"MaxPool", "AveragePool"}) {
    add({op, {kImage}, {kImage}, {}},
        {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{1, 1}}, {"pads", Ints{1, 1, 1, 1}}});
  }
  // One place or one channel: such a tensor lies alike in both layouts, and is said to be
  // row-major.
  const Dims place = {2, 5, 1, 1};
  const Dims channel = {2, 1, 4, 3};
  for (const char* op : {"MaxPool", "AveragePool"})
    add({op, {kImage}, {place}, {}}, {{"kernel_shape", Ints{4, 3}}});
  for (const char* mode : {"nearest", "linear"}) {
    for (const auto& [x, y] : {std::pair(kImage, Dims{2, 5, 8, 6}), std::pair(place, kImage),
                               std::pair(kImage, place)}) {
      add({"Resize", {x}, {y}, {}}, {{"mode", std::string(mode)}, {"sizes", y}});
    }
  }
  add({"Slice", {kImage}, {place}, {}},
      {{"starts", Ints{1, 2}}, {"ends", Ints{2, 3}}, {"axes", Ints{2, 3}}});
  add({"Pad", {place}, {kImage}, {}}, {{"pads", Ints{0, 0, 1, 2, 0, 0, 2, 0}}});
  add({"Concat", {channel, channel}, {{2, 2, 4, 3}}, {}}, {{"axis", std::int64_t{1}}});
  add({"Split", {{2, 2, 4, 3}}, {channel, channel}, {}}, {{"axis", std::int64_t{1}}});
  all.push_back({"GlobalAveragePool", {kImage}, {{2, 5, 1, 1}}, {}});
  all.push_back({"BatchNormalization", {kImage, {5}, {5}, {5}, {5}}, {kImage}, {}});
  all.push_back({"Where", {kImage, kImage, {5, 1, 1}}, {kImage}, {}});
  all.push_back(
      {"BatchNormalizationGrad", {kImage, kImage, {5}, {5}, {5}}, {kImage, {5}, {5}}, {}});
  all.push_back({"MaxPoolGrad", {{2, 5, 2, 1}, {2, 5, 2, 1}}, {kImage}, {}});
  add({"AveragePoolGrad", {kImage}, {kImage}, {}},
      {{"kernel_shape", Ints{3, 3}}, {"strides", Ints{1, 1}}, {"pads", Ints{1, 1, 1, 1}}});
  all.push_back({"GlobalAveragePoolGrad", {{2, 5, 1, 1}}, {kImage}, {}});
  all.push_back({"ConvGradBias", {kImage}, {{5}}, {}});
  for (const char* op :
       {"ReluGrad", "SigmoidGrad", "TanhGrad", "ExpGrad", "SqrtGrad", "ReciprocalGrad", "GeluGrad",
        "SwishGrad", "ErfGrad", "SoftplusGrad", "HardSwishGrad", "LogGrad", "AbsGrad", "SinGrad",
        "CosGrad", "HardSigmoidGrad", "EluGrad", "LeakyReluGrad", "ClipGrad"}) {
    all.push_back({op, {kImage, kImage}, {kImage}, {}});
  }
  all.push_back({"PowGrad", {kImage, kImage, {}}, {kImage}, {}});
  all.push_back({"AddN", {kImage, kImage, kImage}, {kImage}, {}});
  add({"FusedElementwise", {kImage, kImage, {5, 1, 1}}, {kImage}, {}},
      {{"program", std::string("t0 = Mul(x0, x2); t1 = Sigmoid(t0); y = Add(t1, x1)")}});
  for (const char* mode : {"nearest", "linear"}) {
    add({"ResizeGrad", {{2, 5, 8, 6}}, {kImage}, {}}, {{"mode", std::string(mode)}});
  }
  for (const Dims& dims : {Dims{1, 5, 1, 1}, Dims{2, 5, 1, 1}, Dims{2, 5, 4, 1}}) {
    all.push_back({"SumTo", {kImage}, {dims}, {}});
    all.push_back({"Expand", {dims}, {kImage}, {}});
  }
  add({"Conv", {kImage, {6, 5, 3, 3}, {6}}, {{2, 6, 4, 3}}, {}}, {{"pads", Ints{1, 1, 1, 1}}});
  add({"ConvTranspose", {kImage, {5, 6, 2, 2}}, {{2, 6, 5, 4}}, {}}, {{"strides", Ints{1, 1}}});
  return all;
}

}  // namespace

void check_layouts(DType dtype, double tolerance, const LayoutRun& run) {
  std::mt19937 random(5);
  std::uniform_real_distribution<double> draw(0.1, 0.9);  // the domain of nearly all operators
  for (const LayoutCase& test : cases()) {
    const LayoutUse use = layout_use(test.op);
    EXPECT_TRUE(use == LayoutUse::kKeeps || use == LayoutUse::kPrefers) << test.op;
    KernelRequest request;
    request.op = test.op;
    request.attributes = test.attributes;
    std::vector<Values> operands;
    for (const Dims& dims : test.inputs) {
      const bool condition = test.op == "Where" && operands.empty();
      const bool places = test.op == "MaxPoolGrad" && operands.size() == 1;
      const DType own = condition ? DType::kBool : places ? DType::kInt64 : dtype;
      request.inputs.push_back({own, dims});
      Values& values =
          operands.emplace_back(static_cast<std::size_t>(request.inputs.back().elems()));
      for (double& value : values) value = draw(random) + (test.op == "Acosh" ? 1.0 : 0.0);
      // Windows of two rows each, the maximum in the middle of the first.
      for (std::size_t k = 0; places && k < values.size(); ++k)
        values[k] = static_cast<double>(6 * k + 1);
    }
    for (const Dims& dims : test.outputs) request.outputs.push_back({dtype, dims});
    const std::vector<Values> expected = run(request, operands);
    for (std::size_t i = 0; i < request.inputs.size(); ++i) {
      const bool activation = use == LayoutUse::kKeeps || i == 0;
      if (activation && request.inputs[i].layout_matters())
        request.inputs[i].layout = Layout::kChannelsLast;
    }
    for (TensorDesc& desc : request.outputs) {
      if (desc.layout_matters()) desc.layout = Layout::kChannelsLast;
    }
    const std::vector<Values> got = run(request, operands);
    EXPECT_EQ(got.size(), expected.size()) << test.op;
    if (got.size() != expected.size()) continue;
    for (std::size_t o = 0; o < got.size(); ++o) {
      for (std::size_t k = 0; k < got[o].size(); ++k) {
        ASSERT_NEAR(got[o][k], expected[o][k], tolerance * std::max(1.0, std::abs(expected[o][k])))
            << test.op << ", result " << o << ", element " << k;
      }
    }
  }
}

std::vector<std::size_t> places_in_memory(const TensorDesc& desc) {
  std::vector<std::size_t> order(static_cast<std::size_t>(desc.elems()));
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (desc.layout == Layout::kRowMajor) return order;
  const auto channels = static_cast<std::size_t>(desc.dims[1]);
  std::size_t pixels = 1;
  for (std::size_t i = 2; i < desc.dims.size(); ++i)
    pixels *= static_cast<std::size_t>(desc.dims[i]);
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::size_t pixel = i % pixels, channel = i / pixels % channels;
    order[i] = (i / pixels / channels * pixels + pixel) * channels + channel;
  }
  return order;
}

}  // namespace mezzo::kernels
