// Plans of cuDNN graphs: kept, refused in words, and by which engines they are computed.
#include "kernels/cuda/dnn_graph.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

#include "tests/cuda_on_cpu/kernels/device_run.h"

namespace mezzo::kernels::cuda::dnn {
namespace {

constexpr std::int64_t kChannels = 16, kSide = 4;

// y[1,1,4,4] = conv(x[1,16,4,4], w[1,16,1,1]): sums of 16 products.
Graph convolution(DType operand, DType result) {
  Graph graph;
  const Dims x = {1, kChannels, kSide, kSide}, w = {1, kChannels, 1, 1}, y = {1, 1, kSide, kSide};
  graph.add({operand, x, {kChannels * kSide * kSide, kSide * kSide, kSide, 1}});
  graph.add({operand, w, {kChannels, 1, 1, 1}});
  graph.add({result, y, {kSide * kSide, kSide * kSide, kSide, 1}});
  Node node;
  node.op = Op::kConv;
  node.operands = {0, 1};
  node.results = {2};
  node.pads_begin = node.pads_end = {0, 0};
  node.strides = node.dilations = {1, 1};
  graph.nodes.push_back(node);
  return graph;
}

// The graph above on numbers that TF32 would round.
class Buffers {
 public:
  Buffers() {
    for (float** at : {&x_, &w_, &y_}) {
      EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(at), kBytes), cudaSuccess);
    }
    std::vector<float> numbers(kChannels * kSide * kSide);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      numbers[i] = 1.0F + static_cast<float>(i) * 1e-4F;
    }
    for (float* at : {x_, w_}) cudaMemcpy(at, numbers.data(), kBytes, cudaMemcpyHostToDevice);
  }
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;
  ~Buffers() {
    for (float* at : {x_, w_, y_}) cudaFree(at);
    cudaFree(workspace_);
  }

  Status run(const Plan& plan, std::ptrdiff_t shift = 0) {
    if (workspace_ == nullptr) cudaMalloc(&workspace_, plan.workspace_bytes());
    void* const buffers[] = {reinterpret_cast<std::byte*>(x_) + shift, w_, y_};
    const Status status = plan.execute(nullptr, buffers, workspace_);
    cudaDeviceSynchronize();
    return status;
  }
  float first_result() const {
    float value = 0;
    cudaMemcpy(&value, y_, sizeof value, cudaMemcpyDeviceToHost);
    return value;
  }
  static double expected() {
    double sum = 0;
    for (std::int64_t c = 0; c < kChannels; ++c) {
      const double x = 1.0F + static_cast<float>(c * kSide * kSide) * 1e-4F;
      const double w = 1.0F + static_cast<float>(c) * 1e-4F;
      sum += x * w;
    }
    return sum;
  }

 private:
  static constexpr std::size_t kBytes = kChannels * kSide * kSide * sizeof(float);
  float *x_ = nullptr, *w_ = nullptr, *y_ = nullptr;
  void* workspace_ = nullptr;
};

Context fresh_context() {
  Context context = test_context();
  context.dnn = nullptr;
  context.allow_tf32 = false;
  return context;
}

TEST(DnnGraph, EqualGraphsShareAPlan) {
  Context context = fresh_context();
  const auto first = prepare_plan(context, convolution(DType::kFloat32, DType::kFloat32));
  const auto second = prepare_plan(context, convolution(DType::kFloat32, DType::kFloat32));
  const auto other = prepare_plan(context, convolution(DType::kFloat16, DType::kFloat16));
  ASSERT_TRUE(first.ok() && second.ok() && other.ok());
  EXPECT_EQ(*first, *second);
  EXPECT_NE(*first, *other);
}

TEST(DnnGraph, EverythingThatTellsGraphsApartIsInTheKey) {
  const Graph graph = convolution(DType::kFloat32, DType::kFloat32);
  Graph other = graph;
  other.tensors[2].strides[3] = 2;
  EXPECT_NE(other.key(), graph.key());
  other = graph;
  other.nodes[0].pads_end[1] = 1;
  EXPECT_NE(other.key(), graph.key());
  other = graph;
  other.nodes[0].scalar = 0.5;
  EXPECT_NE(other.key(), graph.key());
  other = graph;
  other.exact_in_tf32 = true;
  EXPECT_NE(other.key(), graph.key());
}

TEST(DnnGraph, RefusalsCarryTheLibrarysWords) {
  Context context = fresh_context();
  const auto plan = prepare_plan(context, convolution(DType::kFloat16, DType::kFloat32));
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.status().code(), StatusCode::kUnimplemented);
  EXPECT_NE(plan.status().message().find("another type than its operands"), std::string::npos)
      << plan.status().message();
}

// The stand-in offers an engine of other bits in every run first, then one of TF32.
TEST(DnnGraph, Tf32OnlyOnRequest) {
  Buffers buffers;
  Context context = fresh_context();
  const auto exact = prepare_plan(context, convolution(DType::kFloat32, DType::kFloat32));
  ASSERT_TRUE(exact.ok());
  ASSERT_TRUE(buffers.run(**exact).ok());
  EXPECT_NEAR(buffers.first_result(), Buffers::expected(), 1e-5);

  context.allow_tf32 = true;
  const auto rounded = prepare_plan(context, convolution(DType::kFloat32, DType::kFloat32));
  ASSERT_TRUE(rounded.ok());
  EXPECT_NE((*exact)->engine(), (*rounded)->engine());
  ASSERT_TRUE(buffers.run(**rounded).ok());
  const float first = buffers.first_result();
  EXPECT_NEAR(first, Buffers::expected(), 2e-2);
  EXPECT_GT(std::abs(first - Buffers::expected()), 1e-5);
  ASSERT_TRUE(buffers.run(**rounded).ok());
  EXPECT_EQ(buffers.first_result(), first);
}

TEST(DnnGraph, BuffersMustBeAligned) {
  Buffers buffers;
  Context context = fresh_context();
  const auto plan = prepare_plan(context, convolution(DType::kFloat32, DType::kFloat32));
  ASSERT_TRUE(plan.ok());
  const Status status = buffers.run(**plan, sizeof(float));
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_NE(status.message().find("cuDNN"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace mezzo::kernels::cuda::dnn
