#include "tests/kernels/reference_gradient_cases.h"

#include <random>

namespace mezzo::kernels::test {

Tensor random_tensor(const Dims& dims, bool positive) {
  static std::mt19937 engine(11);
  Tensor tensor(DType::kFloat64, dims, {});
  std::uniform_int_distribution<int> steps(20, 128);
  for (std::int64_t i = 0; i < tensor.elems(); ++i) {
    const double magnitude = steps(engine) / 64.0 + 0.003 + 1e-4 * static_cast<double>(i % 50);
    const bool negative = !positive && (engine() & 1U) != 0;
    tensor.set(i, negative ? -magnitude : magnitude);
  }
  return tensor;
}

namespace {

Tensor scaled(Tensor tensor, double factor) {
  for (std::int64_t i = 0; i < tensor.elems(); ++i) tensor.set(i, tensor.at(i) * factor);
  return tensor;
}

void add_elementwise(std::vector<GradientCase>& cases) {
  struct Row {
    std::string op;
    std::string saved;  // what the gradient reads: x0 or y0
    std::vector<AttributeValue> attributes = {};
    bool positive = false;
    double scale = 1.0;
  };
  const std::vector<Row> rows = {
      {"Relu", "y0"},
      {"Sigmoid", "y0"},
      {"Tanh", "y0"},
      {"Exp", "y0"},
      {"Sqrt", "y0", {}, true},
      {"Reciprocal", "y0"},
      {"Gelu", "x0"},
      {"Gelu", "x0", {{"approximate", "none"}}},
      {"Gelu", "x0", {{"approximate", "tanh"}}},
      {"Swish", "x0"},
      {"Swish", "x0", {{"alpha", 1.7}}},
      {"Erf", "x0"},
      {"Softplus", "x0"},
      {"HardSwish", "x0"},
      {"HardSwish", "x0", {}, false, 4.0},  // reaches both flat ends
      {"HardSigmoid", "x0"},
      {"HardSigmoid", "x0", {{"alpha", 0.4}, {"beta", 0.4}}},
      {"LeakyRelu", "x0"},
      {"LeakyRelu", "x0", {{"alpha", 0.3}}},
      {"Elu", "x0"},
      {"Elu", "x0", {{"alpha", 0.6}}},
      {"Log", "x0", {}, true},
      {"Abs", "x0"},
      {"Sin", "x0"},
      {"Cos", "x0"},
  };
  for (const Row& row : rows) {
    cases.push_back({row.op,
                     row.op,
                     row.attributes,
                     {scaled(random_tensor({3, 5}, row.positive), row.scale)},
                     {{3, 5}},
                     {{row.op + "Grad", "dy " + row.saved, "x0"}}});
  }
  const Tensor low = f64({}, {-0.9}), high = f64({}, {1.1});
  cases.push_back({"Clip, both",
                   "Clip",
                   {},
                   {random_tensor({4, 4}), low, high},
                   {{4, 4}},
                   {{"ClipGrad", "dy x0 x1 x2", "x0"}}});
  cases.push_back({"Clip, low",
                   "Clip",
                   {},
                   {random_tensor({4, 4}), low},
                   {{4, 4}},
                   {{"ClipGrad", "dy x0 x1", "x0"}}});
  cases.push_back({"Clip, high",
                   "Clip",
                   {},
                   {random_tensor({4, 4}), {}, high},
                   {{4, 4}},
                   {{"ClipGrad", "dy x0 - x2", "x0"}}});
  cases.push_back({"Pow, scalar",
                   "Pow",
                   {},
                   {random_tensor({2, 3}), f64({}, {3.0})},
                   {{2, 3}},
                   {{"PowGrad", "dy x0 x1", "x0"}}});
  cases.push_back({"Pow, broadcast",
                   "Pow",
                   {},
                   {random_tensor({2, 3}, true), f64({3}, {-1.5, 0.0, 0.5})},
                   {{2, 3}},
                   {{"PowGrad", "dy x0 x1", "x0"}}});
}

// The gradients of broadcasting ops are SumTo of something; Expand shows it alone.
void add_broadcast(std::vector<GradientCase>& cases) {
  for (const Dims& dims : {Dims{2, 1, 3}, Dims{3}, Dims{}, Dims{4, 1}, Dims{2, 4, 3}}) {
    cases.push_back({"Expand " + std::to_string(dims.size()),
                     "Expand",
                     {},
                     {random_tensor(dims)},
                     {{2, 4, 3}},
                     {{"SumTo", "dy", "x0"}}});
  }
}

void add_contractions(std::vector<GradientCase>& cases) {
  const auto trans = [](std::int64_t a, std::int64_t b) {
    return std::vector<AttributeValue>{{"trans_a", a}, {"trans_b", b}};
  };
  cases.push_back(
      {"MatMul",
       "MatMul",
       {},
       {random_tensor({2, 3, 4}), random_tensor({2, 4, 2})},
       {{2, 3, 2}},
       {{"MatMulT", "dy x1", "x0", trans(0, 1)}, {"MatMulT", "x0 dy", "x1", trans(1, 0)}}});
  cases.push_back({"Gemm",
                   "Gemm",
                   {{"transB", 1}},
                   {random_tensor({3, 4}), random_tensor({2, 4})},
                   {{3, 2}},
                   {{"Gemm", "dy x1", "x0", {{"transB", 0}}},
                    {"Gemm", "dy x0", "x1", {{"transA", 1}, {"transB", 0}}}}});
  struct Row {
    std::string title;
    Dims x, w, y;
    std::vector<AttributeValue> attributes;
  };
  const std::vector<Row> rows = {
      {"plain", {2, 2, 4, 3}, {3, 2, 3, 2}, {2, 3, 2, 2}, {}},
      {"one axis", {2, 2, 5}, {3, 2, 2}, {2, 3, 6}, {{"pads", Ints{1, 1}}}},
      {"three axes", {1, 2, 3, 2, 3}, {2, 2, 2, 2, 2}, {1, 2, 2, 1, 2}, {}},
      {"strides that leave a rest",
       {1, 2, 6, 5},
       {2, 2, 3, 2},
       {1, 2, 2, 2},
       {{"strides", Ints{2, 2}}}},
      {"dilations, asymmetric pads",
       {1, 2, 4, 4},
       {2, 2, 2, 3},
       {1, 2, 5, 3},
       {{"dilations", Ints{2, 1}}, {"pads", Ints{1, 0, 2, 1}}}},
      {"groups", {2, 4, 3, 3}, {6, 2, 2, 2}, {2, 6, 2, 2}, {{"group", 2}}},
      {"depthwise, strided",
       {1, 3, 5, 5},
       {3, 1, 3, 3},
       {1, 3, 3, 3},
       {{"group", 3}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}}},
  };
  for (const Row& row : rows) {
    cases.push_back({"Conv, " + row.title,
                     "Conv",
                     row.attributes,
                     {random_tensor(row.x), random_tensor(row.w), random_tensor({row.w[0]})},
                     {row.y},
                     {{"ConvGradInput", "dy x1", "x0"},
                      {"ConvGradWeight", "dy x0", "x1"},
                      {"ConvGradBias", "dy", "x2"}}});
  }
  // A transposed convolution's own gradient to x is the convolution.
  cases.push_back({"ConvTranspose",
                   "ConvTranspose",
                   {{"strides", Ints{2, 2}}, {"group", 2}},
                   {random_tensor({1, 2, 2, 3}), random_tensor({2, 2, 3, 2})},
                   {{1, 4, 5, 6}},
                   {{"Conv", "dy x1", "x0"}, {"ConvGradWeight", "x0 dy", "x1"}}});
}

void add_norms(std::vector<GradientCase>& cases) {
  for (const Dims& dims : {Dims{3, 2, 2, 3}, Dims{6, 2}, Dims{3, 2, 4}}) {
    cases.push_back({"BatchNormalization",
                     "BatchNormalization",
                     {{"training_mode", 1}, {"epsilon", 1e-3}},
                     {random_tensor(dims), random_tensor({2}), random_tensor({2}),
                      random_tensor({2}), random_tensor({2}, true)},
                     {dims, {2}, {2}, {2}, {2}},
                     {{"BatchNormalizationGrad", "dy x0 x1 y3 y4", "x0 x1 x2"},
                      {"BatchNormalizationGrad", "dy x0 x1 y3 y4", "- x1 -"},
                      {"BatchNormalizationGrad", "dy x0 x1 y3 y4", "x0 - x2"}}});
  }
  struct Row {
    std::int64_t axis;
    Dims scale, statistics;
  };
  for (const Row& row :
       {Row{-1, {4}, {3, 2, 1}}, Row{1, {2, 4}, {3, 1, 1}}, Row{0, {3, 2, 4}, {1, 1, 1}}}) {
    cases.push_back({"LayerNormalization " + std::to_string(row.axis),
                     "LayerNormalization",
                     {{"axis", row.axis}, {"epsilon", 1e-3}},
                     {random_tensor({3, 2, 4}), random_tensor(row.scale), random_tensor(row.scale)},
                     {{3, 2, 4}, row.statistics, row.statistics},
                     {{"LayerNormalizationGrad", "dy x0 x1 y1 y2", "x0 x1 x2"},
                      {"LayerNormalizationGrad", "dy x0 x1 y1 y2", "x0 x1"}}});
  }
  for (const std::int64_t axis : {-1, 0, 1}) {
    for (const std::string op : {"Softmax", "LogSoftmax"}) {
      cases.push_back({op + " " + std::to_string(axis),
                       op,
                       {{"axis", axis}},
                       {random_tensor({2, 3, 4})},
                       {{2, 3, 4}},
                       {{op + "Grad", "dy y0", "x0"}}});
    }
  }
}

void add_losses(std::vector<GradientCase>& cases) {
  const Tensor labels = i64({4}, {0, 2, 1, 2}), maps = i64({2, 2, 1}, {0, 1, 2, 2});
  for (const std::string reduction : {"mean", "sum", "none"}) {
    for (const int ignored : {0, 1}) {
      for (const int weighted : {0, 1}) {
        for (const int planes : {0, 1}) {
          std::vector<AttributeValue> attributes = {{"reduction", reduction}};
          if (ignored != 0) attributes.push_back({"ignore_index", 2});
          const Tensor& l = planes != 0 ? maps : labels;
          const Dims dims = planes != 0 ? Dims{2, 3, 2, 1} : Dims{4, 3};
          std::vector<Tensor> operands = {random_tensor(dims), l};
          if (weighted != 0) operands.push_back(random_tensor({3}, true));
          cases.push_back({"SoftmaxCrossEntropyLoss " + reduction,
                           "SoftmaxCrossEntropyLoss",
                           attributes,
                           operands,
                           {reduction == "none" ? l.desc().dims : Dims{}, dims},
                           {{"SoftmaxCrossEntropyLossGrad",
                             weighted != 0 ? "dy y1 x1 x2" : "dy y1 x1", "x0"}}});
        }
      }
    }
  }
}

void add_pools(std::vector<GradientCase>& cases) {
  const auto ints = [](const char* name, Ints values) { return AttributeValue{name, values}; };
  struct Row {
    std::string title;
    Dims x, y;
    std::vector<AttributeValue> attributes;
  };
  const std::vector<Row> rows = {
      {"plain",
       {2, 2, 4, 4},
       {2, 2, 2, 2},
       {ints("kernel_shape", {2, 2}), ints("strides", {2, 2})}},
      {"overlapping", {1, 2, 4, 3}, {1, 2, 2, 2}, {ints("kernel_shape", {3, 2})}},
      {"pads",
       {1, 1, 4, 4},
       {1, 1, 3, 4},
       {ints("kernel_shape", {3, 2}), ints("strides", {2, 1}), ints("pads", {1, 1, 2, 0})}},
      {"ceil_mode",
       {1, 1, 5, 4},
       {1, 1, 3, 2},
       {ints("kernel_shape", {2, 2}), ints("strides", {2, 2}), {"ceil_mode", 1}}},
      {"dilations",
       {1, 1, 5, 6},
       {1, 1, 3, 2},
       {ints("kernel_shape", {2, 3}), ints("dilations", {2, 2})}},
      {"one axis", {2, 1, 6}, {2, 1, 3}, {ints("kernel_shape", {2}), ints("strides", {2})}},
      {"three axes", {1, 1, 3, 3, 2}, {1, 1, 2, 2, 1}, {ints("kernel_shape", {2, 2, 2})}},
  };
  for (const Row& row : rows) {
    cases.push_back({"MaxPool, " + row.title,
                     "MaxPool",
                     row.attributes,
                     {random_tensor(row.x)},
                     {row.y, row.y},
                     {{"MaxPoolGrad", "dy y1", "x0"}},
                     {DType::kFloat64, DType::kInt64}});
    for (const std::int64_t include : {0, 1}) {
      std::vector<AttributeValue> attributes = row.attributes;
      attributes.push_back({"count_include_pad", include});
      cases.push_back({"AveragePool, " + row.title,
                       "AveragePool",
                       attributes,
                       {random_tensor(row.x)},
                       {row.y},
                       {{"AveragePoolGrad", "dy", "x0"}}});
    }
  }
  cases.push_back({"GlobalAveragePool",
                   "GlobalAveragePool",
                   {},
                   {random_tensor({2, 3, 3, 2})},
                   {{2, 3, 1, 1}},
                   {{"GlobalAveragePoolGrad", "dy", "x0"}}});
}

void add_movement(std::vector<GradientCase>& cases) {
  cases.push_back({"Slice",
                   "Slice",
                   {{"starts", Ints{1, -1}},
                    {"ends", Ints{3, -100}},
                    {"axes", Ints{0, 2}},
                    {"steps", Ints{1, -2}}},
                   {random_tensor({4, 2, 5})},
                   {{2, 2, 3}},
                   {{"SliceGrad", "dy", "x0"}}});
  for (const std::int64_t axis : {0, 1, -1}) {
    const Dims dims = axis == 0   ? Dims{2, 2, 4, 2}
                      : axis == 1 ? Dims{3, 2, 2, 2}
                                  : Dims{3, 4, 2, 2};
    cases.push_back({"Gather " + std::to_string(axis),
                     "Gather",
                     {{"axis", axis}},
                     {random_tensor({3, 4, 2}), i64({2, 2}, {0, 1, -1, 0})},
                     {dims},
                     {{"GatherGrad", "dy x1", "x0"}}});
  }
  cases.push_back({"Dropout",
                   "Dropout",
                   {{"ratio", 0.4}, {"seed", 5}},
                   {random_tensor({3, 7}), i64({}, {9})},
                   {{3, 7}, {3, 7}},
                   {{"DropoutGrad", "dy y1", "x0"}},
                   {DType::kFloat64, DType::kBool}});
}

}  // namespace

namespace {

// x I = x: what the derivative is multiplied with is then dy.
void add_epilogues(std::vector<GradientCase>& cases) {
  for (const char* activation : {"relu", "gelu_tanh"}) {
    cases.push_back(
        {std::string("MatMulActivation, ") + activation,
         "MatMulActivation",
         {{"activation", std::string(activation)}},
         {random_tensor({4, 3}), Tensor(DType::kFloat64, {3, 3}, {1, 0, 0, 0, 1, 0, 0, 0, 1})},
         {{4, 3}},
         {{"MatMulActivationGrad", "dy x1 x0", "x0"}}});
  }
}

}  // namespace

std::vector<GradientCase> gradient_cases() {
  std::vector<GradientCase> cases;
  add_elementwise(cases);
  add_broadcast(cases);
  add_contractions(cases);
  add_norms(cases);
  add_losses(cases);
  add_pools(cases);
  add_movement(cases);
  add_layer_cases(cases);
  add_epilogues(cases);
  return cases;
}

}  // namespace mezzo::kernels::test
