// The oneDNN normalisations and average pools against the reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/kernels/layer_harness.h"

namespace mezzo::kernels {
namespace {

using Dims = std::vector<std::int64_t>;

// Results of sums over `depth` elements: relative to the largest magnitude of each result.
Values slack_of(const Values& expected, std::int64_t depth, double factor = 1) {
  double largest = 0;
  for (const double value : expected) largest = std::max(largest, std::abs(value));
  return sum_slack(Values(expected.size(), factor * largest), depth);
}

void compare(const KernelRequest& request, const std::vector<Values>& operands,
             std::int64_t depth) {
  const Outcome got = run_layer(request, operands);
  if (got.results.empty()) return;
  const Outcome expected = run_reference(request, operands);
  for (std::size_t i = 0; i < request.outputs.size(); ++i) {
    if (!request.outputs[i].present()) continue;
    expect_close(
        got.results[i], expected.results[i], request.outputs[i].dtype,
        slack_of(expected.results[i], depth),
        "\n  result " + std::to_string(i) + describe(request) + "\n  by " + got.implementation);
  }
}

Dims random_activation(Random& random) {
  Dims dims = {pick(random, 2, 4), pick(random, 1, 40)};
  const std::int64_t spatial = pick(random, 0, 3);
  for (std::int64_t i = 0; i < spatial; ++i) dims.push_back(pick(random, 1, 6));
  return dims;
}

std::int64_t elems(const Dims& dims) { return TensorDesc{DType::kFloat32, dims}.elems(); }

class NormCase {
 public:
  explicit NormCase(int seed) : random_(static_cast<std::uint64_t>(seed) + 3000) {}
  void batch_inference();
  void batch_training();
  void batch_gradient();
  void layer();
  void layer_gradient();

 private:
  std::vector<Values> values(const KernelRequest& request) {
    std::vector<Values> all;
    for (const TensorDesc& desc : request.inputs) {
      all.push_back(desc.present() ? random_values(random_, desc) : Values());
    }
    return all;
  }
  // A variance or inverse standard deviation.
  static void make_positive(Values& values) {
    for (double& value : values) value = std::abs(value) + 0.5;
  }

  // What the forward rows take: bfloat16 and many channels.
  bool take_forward_case() {
    direct_dtype_ = DType::kBFloat16;
    x_[1] += 63;
    return has_bf16();
  }

  Random random_;
  DType x_dtype_ = pick_dtype(random_);
  DType y_dtype_ = pick(random_, 0, 2) == 0 ? pick_dtype(random_) : x_dtype_;
  // What is not refused: see RefusesWhatOwnCodeDoesFaster.
  DType direct_dtype_ = pick(random_, 0, 1) != 0 && has_bf16() ? DType::kBFloat16 : DType::kFloat32;
  Dims x_ = random_activation(random_);
  Layout layout_ = x_.size() < 3 ? Layout::kRowMajor : Layout::kChannelsLast;
  int threads_ = static_cast<int>(pick(random_, 1, 2));
};

void NormCase::batch_inference() {
  if (!take_forward_case()) return;
  const TensorDesc per_channel{DType::kFloat32, {x_[1]}};
  KernelRequest request{"BatchNormalization", {}, {}, {{direct_dtype_, x_, layout_}}, threads_};
  request.inputs = {
      {direct_dtype_, x_, layout_}, per_channel, per_channel, per_channel, per_channel};
  std::vector<Values> operands = values(request);
  make_positive(operands[4]);
  compare(request, operands, 16);
}

void NormCase::batch_training() {
  if (!take_forward_case()) return;
  const TensorDesc per_channel{DType::kFloat32, {x_[1]}};
  KernelRequest request{"BatchNormalization", {}, {}, {}, threads_};
  request.attributes.set("training_mode", std::int64_t{1});
  request.attributes.set("momentum", 0.75);
  request.attributes.set("epsilon", 1e-3);
  request.attributes.set("unbiased_running_var", std::int64_t{pick(random_, 0, 1)});
  request.inputs = {
      {direct_dtype_, x_, layout_}, per_channel, per_channel, per_channel, per_channel};
  request.outputs = {
      {direct_dtype_, x_, layout_}, per_channel, per_channel, per_channel, per_channel};
  if (pick(random_, 0, 3) == 0) request.outputs[static_cast<std::size_t>(pick(random_, 1, 4))] = {};
  std::vector<Values> operands = values(request);
  make_positive(operands[4]);
  compare(request, operands, 4 * elems(x_) / x_[1]);
}

void NormCase::batch_gradient() {
  const TensorDesc per_channel{DType::kFloat32, {x_[1]}};
  KernelRequest request{"BatchNormalizationGrad", {}, {}, {}, threads_};
  request.inputs = {{direct_dtype_, x_, layout_},
                    {direct_dtype_, x_, layout_},
                    per_channel,
                    per_channel,
                    per_channel};
  request.outputs = {{direct_dtype_, x_, layout_}, per_channel, per_channel};
  std::vector<Values> operands = values(request);
  make_positive(operands[4]);
  compare(request, operands, 16 * elems(x_) / x_[1]);
}

void NormCase::layer() {
  const std::int64_t rank = static_cast<std::int64_t>(x_.size());
  const std::int64_t axis = pick(random_, 1, rank - 1);
  const Dims row(x_.begin() + axis, x_.end());
  Dims statistics(x_.begin(), x_.begin() + axis);
  statistics.resize(x_.size(), 1);
  if (elems(row) == 1) return;  // nothing to normalise
  KernelRequest request{"LayerNormalization", {}, {}, {}, threads_};
  request.attributes.set("axis", pick(random_, 0, 1) != 0 ? axis : axis - rank);
  request.inputs = {{x_dtype_, x_}, {DType::kFloat32, row}};
  if (pick(random_, 0, 2) != 0) request.inputs.push_back({DType::kFloat32, row});
  request.outputs = {{y_dtype_, x_}};
  if (pick(random_, 0, 2) != 0) {
    request.outputs.push_back({DType::kFloat32, statistics});
    request.outputs.push_back({DType::kFloat32, statistics});
  }
  compare(request, values(request), 16 * elems(row));
}

void NormCase::layer_gradient() {
  if (!has_bf16()) return;  // the row takes nothing else
  const std::int64_t rank = static_cast<std::int64_t>(x_.size());
  const std::int64_t axis = pick(random_, 1, rank - 1);
  const Dims row(x_.begin() + axis, x_.end());
  Dims statistics(x_.begin(), x_.begin() + axis);
  statistics.resize(x_.size(), 1);
  KernelRequest request{"LayerNormalizationGrad", {}, {}, {}, threads_};
  request.attributes.set("axis", axis);
  request.inputs = {{DType::kBFloat16, x_},
                    {DType::kBFloat16, x_},
                    {DType::kFloat32, row},
                    {DType::kFloat32, statistics},
                    {DType::kFloat32, statistics}};
  request.outputs = {{DType::kBFloat16, x_}, {DType::kFloat32, row}, {DType::kFloat32, row}};
  std::vector<Values> operands = values(request);
  make_positive(operands[4]);
  compare(request, operands, 16 * elems(x_));
}

TEST(OnednnNorm, BatchInference) { for_seeds(40, &NormCase::batch_inference); }
TEST(OnednnNorm, BatchTraining) { for_seeds(40, &NormCase::batch_training); }
TEST(OnednnNorm, BatchGradient) { for_seeds(40, &NormCase::batch_gradient); }
TEST(OnednnNorm, Layer) { for_seeds(40, &NormCase::layer); }
TEST(OnednnNorm, LayerGradient) { for_seeds(40, &NormCase::layer_gradient); }

struct PoolShape {
  Dims x, y;
  Attributes attributes;
};

PoolShape random_pool(Random& random) {
  PoolShape shape;
  shape.x = {pick(random, 1, 3), pick(random, 1, 40)};
  shape.y = shape.x;
  Dims kernel, strides, pads_begin, pads_end;
  const bool ceil_mode = pick(random, 0, 3) == 0;
  const bool include_pads = !ceil_mode && pick(random, 0, 1) != 0;
  for (std::int64_t i = pick(random, 1, 3); i > 0; --i) {
    kernel.push_back(pick(random, 1, 4));
    strides.push_back(pick(random, 1, 3));
    pads_begin.push_back(pick(random, 0, kernel.back() - 1));
    pads_end.push_back(pick(random, 0, kernel.back() - 1));
    const std::int64_t size = pick(random, 4, 9);
    const std::int64_t room = size + pads_begin.back() + pads_end.back() - kernel.back();
    std::int64_t count = room / strides.back() + 1;
    // ONNX leaves out a last window that would start in the end padding.
    if (ceil_mode && room % strides.back() != 0 &&
        count * strides.back() < size + pads_begin.back()) {
      ++count;
    }
    shape.x.push_back(size);
    shape.y.push_back(count);
  }
  Dims pads = pads_begin;
  pads.insert(pads.end(), pads_end.begin(), pads_end.end());
  shape.attributes.set("kernel_shape", kernel);
  shape.attributes.set("strides", strides);
  shape.attributes.set("pads", pads);
  shape.attributes.set("ceil_mode", std::int64_t{ceil_mode});
  shape.attributes.set("count_include_pad", std::int64_t{include_pads});
  return shape;
}

class PoolCase {
 public:
  explicit PoolCase(int seed) : random_(static_cast<std::uint64_t>(seed) + 4000) {}
  void average();
  void average_gradient();
  void global_average();
  void global_average_gradient();

 private:
  Random random_;
  PoolShape shape_ = random_pool(random_);
  DType from_ = pick_dtype(random_);
  DType to_ = pick(random_, 0, 2) == 0 ? pick_dtype(random_) : from_;
  DType direct_dtype_ = pick(random_, 0, 1) != 0 && has_bf16() ? DType::kBFloat16 : DType::kFloat32;
  Layout layout_ = pick_layout(random_);
  int threads_ = static_cast<int>(pick(random_, 1, 2));
};

void PoolCase::average() {
  const KernelRequest request{"AveragePool",
                              shape_.attributes,
                              {{from_, shape_.x, layout_}},
                              {{to_, shape_.y, layout_}},
                              threads_};
  compare(request, {random_values(random_, request.inputs[0])}, 64);
}

void PoolCase::average_gradient() {
  const KernelRequest request{"AveragePoolGrad",
                              shape_.attributes,
                              {{from_, shape_.y, layout_}},
                              {{to_, shape_.x, layout_}},
                              threads_};
  compare(request, {random_values(random_, request.inputs[0])}, 64);
}

void PoolCase::global_average() {
  Dims y = {shape_.x[0], shape_.x[1]};
  y.resize(shape_.x.size(), 1);
  const bool direct = layout_ == Layout::kChannelsLast || elems(shape_.x) > 128 * elems(y);
  if (direct) from_ = to_ = direct_dtype_;
  if (direct) layout_ = Layout::kChannelsLast;
  const KernelRequest request{
      "GlobalAveragePool", {}, {{from_, shape_.x, layout_}}, {{to_, y, layout_}}, threads_};
  compare(request, {random_values(random_, request.inputs[0])}, 256);
}

void PoolCase::global_average_gradient() {
  Dims y = {shape_.x[0], shape_.x[1]};
  y.resize(shape_.x.size(), 1);
  const KernelRequest request{"GlobalAveragePoolGrad",
                              {},
                              {{direct_dtype_, y, Layout::kChannelsLast}},
                              {{direct_dtype_, shape_.x, Layout::kChannelsLast}},
                              threads_};
  compare(request, {random_values(random_, request.inputs[0])}, 16);
}

TEST(OnednnPool, Average) { for_seeds(40, &PoolCase::average); }
TEST(OnednnPool, AverageGradient) { for_seeds(40, &PoolCase::average_gradient); }
TEST(OnednnPool, GlobalAverage) { for_seeds(40, &PoolCase::global_average); }
TEST(OnednnPool, GlobalAverageGradient) { for_seeds(40, &PoolCase::global_average_gradient); }

// Row-major or float16 batch normalisation would need reorders or casts; kernels/cpu takes it.
TEST(OnednnNormRefusal, RefusesWhatOwnCodeDoesFaster) {
  const auto prepare = [](DType dtype, Layout layout, std::int64_t channels = 64) {
    const TensorDesc x{dtype, {2, channels, 4, 4}, layout};
    const TensorDesc per_channel{DType::kFloat32, {channels}};
    const KernelRequest request{
        "BatchNormalization", {}, {x, per_channel, per_channel, per_channel, per_channel}, {x}};
    const auto kernel = prepare_kernel(request, Backend::kCpu);
    return kernel.ok() ? std::string((*kernel)->implementation()) : kernel.status().message();
  };
  const std::string many = prepare(DType::kBFloat16, Layout::kChannelsLast);
  EXPECT_EQ(many.starts_with("onednn:"), has_bf16()) << many;
  EXPECT_EQ(prepare(DType::kBFloat16, Layout::kChannelsLast, 16).substr(0, 3), "cpu");
  EXPECT_EQ(prepare(DType::kFloat32, Layout::kChannelsLast).substr(0, 3), "cpu");
  EXPECT_EQ(prepare(DType::kBFloat16, Layout::kRowMajor).substr(0, 3), "cpu");
  EXPECT_EQ(prepare(DType::kFloat16, Layout::kChannelsLast).substr(0, 3), "cpu");
}

TEST(OnednnNormRefusal, LayerGradientOutsideBfloat16) {
  const TensorDesc x{DType::kFloat32, {4, 8}};
  const TensorDesc row{DType::kFloat32, {8}};
  const TensorDesc statistics{DType::kFloat32, {4, 1}};
  const KernelRequest request{
      "LayerNormalizationGrad", {}, {x, x, row, statistics, statistics}, {x, row, row}};
  const auto kernel = kernel_rows(request.op, Backend::kCpu).front()->prepare(request);
  ASSERT_FALSE(kernel.ok());
  EXPECT_EQ(kernel.status().code(), StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace mezzo::kernels
