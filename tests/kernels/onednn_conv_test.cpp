// The oneDNN convolutions against the reference, over seeded random shapes: groups, depthwise,
// dilations, strides, uneven pads, 1 to 3 spatial dimensions, both layouts, all dtype mixtures.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "tests/kernels/layer_harness.h"

namespace mezzo::kernels {
namespace {

using Dims = std::vector<std::int64_t>;

// A convolution from x to y; w with M C/group K...
struct Shape {
  Dims x, w, y;
  Attributes attributes;
  std::int64_t group = 1;
};

Shape random_shape(Random& random) {
  const std::int64_t spatial = pick(random, 1, 3);
  Shape shape;
  std::int64_t c = pick(random, 1, 20);
  std::int64_t m = pick(random, 1, 20);
  switch (pick(random, 0, 4)) {
    case 0:  // groups
      shape.group = pick(random, 2, 4);
      c = shape.group * pick(random, 1, 9);
      m = shape.group * pick(random, 1, 9);
      break;
    case 1:  // depthwise
      shape.group = c;
      m = c;
      break;
    case 2:  // whole vectors
      c = 16 * pick(random, 1, 3);
      m = 16 * pick(random, 1, 3);
      break;
    default: break;
  }
  Dims kernel, strides, dilations, pads_begin, pads_end;
  shape.x = {pick(random, 1, 3), c};
  shape.w = {m, c / shape.group};
  shape.y = {shape.x[0], m};
  for (std::int64_t i = 0; i < spatial; ++i) {
    kernel.push_back(pick(random, 1, spatial == 3 ? 3 : 5));
    strides.push_back(pick(random, 1, 3));
    dilations.push_back(pick(random, 0, 3) == 0 ? 2 : 1);
    const std::int64_t extent = (kernel.back() - 1) * dilations.back() + 1;
    pads_begin.push_back(pick(random, 0, extent - 1));
    pads_end.push_back(pick(random, 0, extent - 1));
    const std::int64_t size = pick(random, extent, extent + (spatial == 3 ? 6 : 14));
    shape.x.push_back(size);
    shape.w.push_back(kernel.back());
    shape.y.push_back((size + pads_begin.back() + pads_end.back() - extent) / strides.back() + 1);
  }
  Dims pads = pads_begin;
  pads.insert(pads.end(), pads_end.begin(), pads_end.end());
  shape.attributes.set("kernel_shape", kernel);
  shape.attributes.set("strides", strides);
  shape.attributes.set("dilations", dilations);
  shape.attributes.set("pads", pads);
  shape.attributes.set("group", shape.group);
  return shape;
}

// Operand and result dtypes: mostly one low type with a low or float32 result.
std::vector<DType> pick_dtypes(Random& random, std::size_t operands) {
  if (pick(random, 0, 3) == 0) {
    std::vector<DType> any;
    for (std::size_t i = 0; i <= operands; ++i) any.push_back(pick_dtype(random));
    return any;
  }
  const DType dtype = pick_dtype(random);
  std::vector<DType> dtypes(operands, dtype);
  dtypes.push_back(pick(random, 0, 1) != 0 ? DType::kFloat32 : dtype);
  return dtypes;
}

void compare(Random& random, KernelRequest request, std::int64_t depth) {
  request.threads = static_cast<int>(pick(random, 1, 2));
  std::vector<Values> operands;
  for (const TensorDesc& desc : request.inputs) operands.push_back(random_values(random, desc));
  const Outcome expected = run_reference(request, operands);
  const Values slack = sum_slack(magnitudes(request, operands), depth);
  for (const Outcome& got :
       {run_layer(request, operands), run_layer_on_constants(request, operands)}) {
    if (got.results.empty()) return;
    expect_close(got.results[0], expected.results[0], request.outputs[0].dtype, slack,
                 describe(request) + "\n  by " + got.implementation);
  }
}

std::int64_t product(const Dims& dims, std::size_t from) {
  std::int64_t result = 1;
  for (std::size_t i = from; i < dims.size(); ++i) result *= dims[i];
  return result;
}

class ConvCase {
 public:
  explicit ConvCase(int seed) : random_(static_cast<std::uint64_t>(seed) + 1000) {}
  void forward();
  void grad_input();
  void grad_weight();
  void transpose();

 private:
  Random random_;
  Shape shape_ = random_shape(random_);
  std::vector<DType> dtypes_ = pick_dtypes(random_, 2);
  Layout layout_ = pick_layout(random_);
  Layout weight_layout_ = pick_layout(random_);
};

void ConvCase::forward() {
  KernelRequest request{"Conv", shape_.attributes, {}, {}};
  request.inputs = {{dtypes_[0], shape_.x, layout_}, {dtypes_[1], shape_.w, weight_layout_}};
  if (pick(random_, 0, 1) != 0) request.inputs.push_back({dtypes_[0], {shape_.y[1]}});
  request.outputs = {{dtypes_[2], shape_.y, layout_}};
  compare(random_, request, product(shape_.w, 1));
}

void ConvCase::grad_input() {
  KernelRequest request{"ConvGradInput", shape_.attributes, {}, {}};
  request.inputs = {{dtypes_[0], shape_.y, layout_}, {dtypes_[1], shape_.w, weight_layout_}};
  request.outputs = {{dtypes_[2], shape_.x, layout_}};
  compare(random_, request, product(shape_.w, 2) * shape_.w[0] / shape_.group);
}

void ConvCase::grad_weight() {
  KernelRequest request{"ConvGradWeight", shape_.attributes, {}, {}};
  request.inputs = {{dtypes_[0], shape_.y, layout_}, {dtypes_[1], shape_.x, layout_}};
  request.outputs = {{dtypes_[2], shape_.w, weight_layout_}};
  compare(random_, request, shape_.y[0] * product(shape_.y, 2));
}

void ConvCase::transpose() {
  // From y to x: what does not fit the strides is output_padding.
  Dims output_padding;
  const Dims strides = shape_.attributes.get_ints("strides");
  const Dims pads = shape_.attributes.get_ints("pads");
  const Dims dilations = shape_.attributes.get_ints("dilations");
  for (std::size_t i = 0; i < strides.size(); ++i) {
    const std::int64_t covered = strides[i] * (shape_.y[i + 2] - 1) +
                                 (shape_.w[i + 2] - 1) * dilations[i] + 1 - pads[i] -
                                 pads[i + strides.size()];
    output_padding.push_back(shape_.x[i + 2] - covered);
  }
  shape_.attributes.set("output_padding", output_padding);
  KernelRequest request{"ConvTranspose", shape_.attributes, {}, {}};
  request.inputs = {{dtypes_[0], shape_.y, layout_}, {dtypes_[1], shape_.w}};
  if (pick(random_, 0, 1) != 0) request.inputs.push_back({dtypes_[1], {shape_.x[1]}});
  request.outputs = {{dtypes_[2], shape_.x, layout_}};
  compare(random_, request, product(shape_.w, 2) * shape_.w[0] / shape_.group);
}

TEST(OnednnConv, Forward) { for_seeds(60, &ConvCase::forward); }
TEST(OnednnConv, GradInput) { for_seeds(60, &ConvCase::grad_input); }
TEST(OnednnConv, GradWeight) { for_seeds(60, &ConvCase::grad_weight); }
TEST(OnednnConv, Transpose) { for_seeds(60, &ConvCase::transpose); }

KernelRequest small_conv(DType operand, DType result) {
  KernelRequest request{"Conv", {}, {}, {}};
  request.inputs = {{operand, {1, 16, 4, 4}}, {operand, {8, 16, 1, 1}}};
  request.outputs = {{result, {1, 8, 4, 4}}};
  return request;
}

// 16 products of 100 x 50 exceed 65504; one float32 rounding then gives infinity, as on a GPU.
TEST(OnednnConvRange, Float16OverflowsToInfinity) {
  const std::vector<Values> operands = {Values(256, 100), Values(128, 50)};
  const auto run = [&](DType result) {
    return run_layer(small_conv(DType::kFloat16, result), operands).results[0];
  };
  EXPECT_EQ(run(DType::kFloat16), Values(128, INFINITY));
  EXPECT_EQ(run(DType::kFloat32), Values(128, 80000));
}

// 4096 + 15 ones: a float16 or bfloat16 accumulator would stay at 4096.
TEST(OnednnConvRange, AccumulatesInFloat32) {
  std::vector<Values> operands = {Values(256, 1), Values(128, 1)};
  for (std::size_t i = 0; i < 8; ++i) operands[1][16 * i] = 4096;
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    const Outcome got = run_layer(small_conv(dtype, DType::kFloat32), operands);
    EXPECT_EQ(got.results[0], Values(128, 4111)) << dtype_name(dtype);
  }
}

// A NaN reaches exactly the results whose windows hold it.
TEST(OnednnConvRange, NanStaysInItsWindow) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    std::vector<Values> operands = {Values(256, 1), Values(128, 1)};
    operands[0][5] = NAN;
    const Values y = run_layer(small_conv(dtype, dtype), operands).results[0];
    for (std::size_t i = 0; i < y.size(); ++i) {
      EXPECT_EQ(std::isnan(y[i]), i % 16 == 5) << i << " " << dtype_name(dtype);
    }
  }
}

TEST(OnednnConvRefusal, NamesWhatDoesNotFit) {
  KernelRequest request = small_conv(DType::kFloat32, DType::kFloat32);
  request.outputs[0].dims = {1, 8, 4, 5};
  const KernelEntry* row = kernel_rows("Conv", Backend::kCpu).front();
  auto kernel = row->prepare(request);
  ASSERT_FALSE(kernel.ok());
  EXPECT_EQ(kernel.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(kernel.status().message().find("[1,8,4,5]"), std::string::npos);

  request = small_conv(DType::kFloat64, DType::kFloat32);
  kernel = row->prepare(request);
  ASSERT_FALSE(kernel.ok());
  EXPECT_EQ(kernel.status().code(), StatusCode::kUnimplemented);
  EXPECT_NE(kernel.status().message().find("double"), std::string::npos);
}

TEST(OnednnConvRepeat, SameBitsEachTime) {
  Random random(7);
  KernelRequest request{"ConvGradWeight", {}, {}, {}};
  request.inputs = {{DType::kBFloat16, {4, 32, 16, 16}, Layout::kChannelsLast},
                    {DType::kBFloat16, {4, 32, 16, 16}, Layout::kChannelsLast}};
  request.outputs = {{DType::kFloat32, {32, 32, 1, 1}}};
  request.threads = 2;
  const std::vector<Values> operands = {random_values(random, request.inputs[0]),
                                        random_values(random, request.inputs[1])};
  std::map<std::string, Values> first;  // of every row that the harness comes to
  for (int i = 0; i < 6; ++i) {
    const Outcome got = run_layer(request, operands);
    EXPECT_EQ(first.emplace(got.implementation, got.results[0]).first->second, got.results[0]);
  }
}

}  // namespace
}  // namespace mezzo::kernels
