// What the real cuDNN says to the requests of the cuDNN rows on the GPUs of a release. Since 9.8 it
// chooses engines and compiles them for a device that is only described to it, so this needs the
// library but no GPU; nothing is run. The stand-in's rules (cudnn/rules.cpp) repeat its answers.
//
// CMakeLists.txt has the real library found in the stand-in's place, and a libcuda that loads
// anything (driver/).
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "kernels/cuda/context.h"
#include "kernels/cuda/dnn_graph.h"
#include "kernels/cuda/dnn_rows.h"

namespace mezzo::kernels::cuda {
namespace {

using Dims = std::vector<std::int64_t>;
using Prepare = StatusOr<std::unique_ptr<Kernel>> (*)(const KernelRequest&);

constexpr DType kF32 = DType::kFloat32, kF16 = DType::kFloat16, kBf16 = DType::kBFloat16;
constexpr Layout kFirst = Layout::kRowMajor, kLast = Layout::kChannelsLast;

struct Gpu {
  int capability;  // 90: compute capability 9.0
  int multiprocessors;
  int shared_bytes;  // that a block may ask for
};

std::string properties(const Gpu& gpu) {
  return R"({"cudaDeviceId":0,"deviceVer":)" + std::to_string(gpu.capability * 10) +
         R"(,"driverVer":13000,"totalGlobalMem":80000000000,"maxGridSize":[2147483647,65535,65535],)"
         R"("maxBlockSize":[1024,1024,64],"regsPerBlock":65536,"multiProcessorCount":)" +
         std::to_string(gpu.multiprocessors) +
         R"(,"smClockRateKHz":1500000,"memClockRateKHz":3000000,"l2CacheSize":40000000,"warpSize":32,)"
         R"("maxSharedMemoryPerBlock":49152,"maxSharedMemoryPerBlockOptin":)" +
         std::to_string(gpu.shared_bytes) +
         R"(,"reservedSharedMemoryPerBlock":1024,"maxRegistersPerSM":65536,"pciDeviceId":0,)"
         R"("maxCtasPerSM":32,"maxThreadsPerBlock":1024,"maxThreadsPerSM":2048,"isTccDriver":0,)"
         R"("supportCoopLaunch":1,"deviceName":"a GPU"})";
}

class DnnLibrary : public ::testing::TestWithParam<Gpu> {
 protected:
  void SetUp() override {
    if (std::getenv("MEZZO_REAL_CUDNN") == nullptr) GTEST_SKIP() << "the real library is not here";
    context_.major = GetParam().capability / 10;
    context_.minor = GetParam().capability % 10;
    const Status status = dnn::use_described_device(context_, properties(GetParam()));
    ASSERT_TRUE(status.ok()) << status.message();
  }

  // All requests are put for one GPU; for the others a few, as the library compiles most of them.
  bool is_thorough() const { return GetParam().capability == 90; }

  void expect_taken(KernelRequest request, Prepare prepare, const std::string& what) {
    request.device = &context_;
    auto kernel = prepare(request);
    EXPECT_TRUE(kernel.ok()) << what << ": " << kernel.status().message();
    if (!kernel.ok()) return;
    EXPECT_EQ((*kernel)->implementation().substr(0, 6), "cudnn:");
  }

  void expect_refused(KernelRequest request, Prepare prepare, const std::string& why) {
    request.device = &context_;
    auto kernel = prepare(request);
    ASSERT_FALSE(kernel.ok());
    EXPECT_EQ(kernel.status().code(), StatusCode::kUnimplemented);
    EXPECT_NE(kernel.status().message().find(why), std::string::npos) << kernel.status().message();
  }

  Context context_;
};

struct Convolution {
  const char* name;
  Dims x, w, y, pads, strides, dilations;
  std::int64_t group = 1;
};

const Convolution kConvolutions[] = {
    {"3x3", {8, 64, 56, 56}, {128, 64, 3, 3}, {8, 128, 56, 56}, {1, 1, 1, 1}, {1, 1}, {1, 1}},
    {"first layer",
     {8, 3, 224, 224},
     {64, 3, 7, 7},
     {8, 64, 112, 112},
     {3, 3, 3, 3},
     {2, 2},
     {1, 1}},
    {"depthwise",
     {8, 64, 56, 56},
     {64, 1, 3, 3},
     {8, 64, 56, 56},
     {1, 1, 1, 1},
     {1, 1},
     {1, 1},
     64},
    {"uneven pads", {3, 5, 9, 7}, {7, 5, 3, 2}, {3, 7, 5, 7}, {1, 0, 2, 1}, {2, 1}, {1, 1}},
    {"dilated",
     {2, 64, 33, 33},
     {64, 64, 3, 3},
     {2, 64, 33, 33},
     {12, 12, 12, 12},
     {1, 1},
     {12, 12}},
    {"1 dimension", {4, 6, 20}, {10, 6, 3}, {4, 10, 20}, {1, 1}, {1}, {1}},
    {"3 dimensions",
     {2, 8, 6, 6, 6},
     {16, 8, 3, 3, 3},
     {2, 16, 6, 6, 6},
     {1, 1, 1, 1, 1, 1},
     {1, 1, 1},
     {1, 1, 1}},
};

KernelRequest window_of(const Convolution& c) {
  KernelRequest request;
  request.attributes.set("pads", c.pads);
  request.attributes.set("strides", c.strides);
  request.attributes.set("dilations", c.dilations);
  request.attributes.set("group", c.group);
  return request;
}

// Every convolution and gradient of a training, with float16 activations that have a float32
// result too, as the compiler likes them.
TEST_P(DnnLibrary, TakesConvolutions) {
  for (const Convolution& c : kConvolutions) {
    if (!is_thorough() && &c - kConvolutions > 2) break;
    for (const auto& [operand, result, layout] :
         {std::tuple{kF32, kF32, kFirst}, std::tuple{kF16, kF16, kFirst},
          std::tuple{kF16, kF16, kLast}, std::tuple{kF16, kF32, kFirst},
          std::tuple{kBf16, kF32, kLast}}) {
      if (operand == kBf16 && &c != kConvolutions) continue;
      if (!is_thorough() && (operand != kF16 || layout != kLast) && result != kF32) continue;
      const std::string what = std::string(c.name) +
                               (layout == kLast ? ", channels last, " : ", ") +
                               std::to_string(static_cast<int>(operand)) + " -> " +
                               std::to_string(static_cast<int>(result));
      const TensorDesc x{operand, c.x, layout}, w{operand, c.w}, y{operand, c.y, layout};
      KernelRequest request = window_of(c);
      request.inputs = {x, w, {operand, {c.y[1]}}};
      request.outputs = {{result, c.y, layout}};
      expect_taken(request, dnn::prepare_conv, what);
      request.inputs = {y, w};
      request.outputs = {{result, c.x, layout}};
      expect_taken(request, dnn::prepare_conv_grad_input, what + " dx");
      request.inputs = {y, x};
      request.outputs = {{result, c.w}};
      expect_taken(request, dnn::prepare_conv_grad_weight, what + " dw");
    }
  }
}

TEST_P(DnnLibrary, TakesNormalisations) {
  if (GetParam().capability < 80) GTEST_SKIP() << "cuDNN's normalisations need Ampere";
  for (const DType dtype : {kF16, kF32, kBf16}) {
    if (!is_thorough() && dtype != kF16) break;
    const TensorDesc x{dtype, {8, 64, 14, 14}, kLast};
    const TensorDesc channels{kF32, {64}};
    KernelRequest request;
    request.attributes.set("training_mode", std::int64_t{1});
    request.inputs = {x, channels, channels, channels, channels};
    request.outputs = {x, channels, channels, channels, channels};
    expect_taken(request, dnn::prepare_batch_norm, "batch");
    request.inputs = {x, x, channels, channels, channels};
    request.outputs = {x, channels, channels};
    expect_taken(request, dnn::prepare_batch_norm_grad, "batch gradient");
    for (const std::int64_t size : {768, 30}) {
      if (!is_thorough() && size != 768) break;
      const TensorDesc rows{dtype, {4, 128, size}};
      const TensorDesc line{kF32, {size}}, statistic{kF32, {4, 128, 1}};
      request.inputs = {rows, line, line};
      request.outputs = {rows, statistic, statistic};
      expect_taken(request, dnn::prepare_layer_norm, "rows");
      request.inputs = {rows, rows, line, statistic, statistic};
      request.outputs = {rows, line, line};
      expect_taken(request, dnn::prepare_layer_norm_grad, "row gradient");
    }
  }
}

KernelRequest attention(DType dtype, Dims q, Dims k, Dims bias, bool causal) {
  KernelRequest request;
  request.attributes.set("causal", std::int64_t{causal ? 1 : 0});
  const Dims lse = {q[0], q[1], q[2]};
  request.inputs = {{dtype, q}, {dtype, k}, {dtype, k}};
  if (!bias.empty()) request.inputs.push_back({kF32, std::move(bias)});
  request.outputs = {{dtype, q}, {kF32, lse}};
  return request;
}

// q, k, v and y lie as [B,T,H,D].
KernelRequest behind_tokens(KernelRequest request) {
  request.attributes.set("tokens_first", std::int64_t{15});
  const Dims& q = request.inputs[0].dims;
  request.outputs[1].dims = {q[0], q[2], q[1]};
  return request;
}

KernelRequest gradient_of(const KernelRequest& forward) {
  KernelRequest request = forward;
  if (request.inputs.size() < 4) request.inputs.emplace_back();
  request.inputs.insert(request.inputs.begin(), forward.outputs[0]);
  request.inputs.insert(request.inputs.end(), forward.outputs.begin(), forward.outputs.end());
  request.outputs = {forward.inputs[0], forward.inputs[1], forward.inputs[2]};
  return request;
}

TEST_P(DnnLibrary, TakesAttention) {
  if (GetParam().capability < 80) GTEST_SKIP() << "cuDNN's attention needs Ampere";
  const Dims q = {2, 8, 128, 64};
  const std::pair<const char*, KernelRequest> requests[] = {
      {"plain", attention(kF16, q, q, {}, false)},
      {"causal", attention(kBf16, q, q, {}, true)},
      {"shared heads", attention(kF16, q, {2, 2, 128, 64}, {}, true)},
      {"fewer queries", attention(kF16, {2, 8, 60, 64}, q, {}, true)},
      {"small", attention(kBf16, {2, 4, 7, 16}, {2, 4, 5, 16}, {}, false)},
      {"128", attention(kBf16, {2, 4, 64, 128}, {2, 4, 64, 128}, {}, true)},
      {"mask of keys", attention(kF16, q, q, {2, 1, 1, 128}, false)},
      {"bias", attention(kBf16, q, q, {8, 128, 128}, true)},
      {"heads behind tokens",
       behind_tokens(attention(kF16, {2, 128, 8, 64}, {2, 128, 2, 64}, {}, true))},
  };
  for (const auto& [name, request] : requests) {
    if (!is_thorough() && name != std::string("causal") && name != std::string("bias")) continue;
    expect_taken(request, dnn::prepare_attention, name);
    expect_taken(gradient_of(request), dnn::prepare_attention_grad,
                 std::string(name) + " gradient");
  }
}

TEST_P(DnnLibrary, RefusesInWords) {
  const Dims q = {2, 4, 32, 12};
  expect_refused(attention(kF16, q, q, {}, false), dnn::prepare_attention, "multiple of 8");
  const TensorDesc x{kF16, {8, 5, 14, 14}, kLast}, channels{kF32, {5}};
  KernelRequest request;
  request.attributes.set("training_mode", std::int64_t{1});
  request.inputs = {x, channels, channels, channels, channels};
  request.outputs = {x};
  expect_refused(request, dnn::prepare_batch_norm, "cuDNN: ");
}

// float32 stays float32 unless TF32 was asked for: other engines are chosen then.
TEST_P(DnnLibrary, KeepsFloat32FromTensorCores) {
  if (GetParam().capability < 80) GTEST_SKIP() << "no TF32 before Ampere";
  const Convolution& c = kConvolutions[0];
  KernelRequest request = window_of(c);
  request.inputs = {{kF32, c.x, kLast}, {kF32, c.w}};
  request.outputs = {{kF32, c.y, kLast}};
  request.device = &context_;
  const auto exact = dnn::prepare_conv(request);
  context_.allow_tf32 = true;
  const auto rounded = dnn::prepare_conv(request);
  ASSERT_TRUE(exact.ok() && rounded.ok());
  EXPECT_NE((*exact)->implementation(), (*rounded)->implementation());
}

// One GPU of each kind of Tensor Cores.
INSTANTIATE_TEST_SUITE_P(Gpus, DnnLibrary,
                         ::testing::Values(Gpu{75, 40, 65536}, Gpu{80, 108, 166912},
                                           Gpu{90, 132, 232448}, Gpu{100, 148, 232448},
                                           Gpu{120, 170, 101376}),
                         [](const auto& info) { return std::to_string(info.param.capability); });

}  // namespace
}  // namespace mezzo::kernels::cuda
