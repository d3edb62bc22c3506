// What layout_use() promises: kernels that keep or prefer channels last give the same numbers
// there.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "kernels/kernel.h"
#include "tests/kernels/layout_case.h"

namespace mezzo::kernels {
namespace {

using Dims = std::vector<std::int64_t>;
using Ints = std::vector<std::int64_t>;
using Values = std::vector<double>;

// Runs on operands in row-major order, with the layout of the request; results likewise.
std::vector<Values> run(const KernelRequest& request, const std::vector<Values>& operands) {
  auto kernel = prepare_kernel(request, Backend::kCpu);
  EXPECT_TRUE(kernel.ok()) << request.op << ": " << kernel.status().message();
  if (!kernel.ok()) return {};
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<std::vector<Line>> memory;
  const auto allocate = [&](std::size_t bytes) {
    return static_cast<void*>(memory.emplace_back(bytes / sizeof(Line) + 1).data());
  };
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  for (std::size_t i = 0; i < request.inputs.size(); ++i) {
    const TensorDesc& desc = request.inputs[i];
    void* data = allocate(desc.bytes());
    const std::vector<std::size_t> at = places_in_memory(desc);
    for (std::size_t k = 0; k < at.size(); ++k) {
      if (desc.dtype == DType::kInt64) {
        static_cast<std::int64_t*>(data)[at[k]] = static_cast<std::int64_t>(operands[i][k]);
      } else if (desc.dtype == DType::kBool) {
        static_cast<std::uint8_t*>(data)[at[k]] = operands[i][k] > 0.5 ? 1 : 0;
      } else {
        static_cast<float*>(data)[at[k]] = static_cast<float>(operands[i][k]);
      }
    }
    inputs.push_back(data);
  }
  for (const TensorDesc& desc : request.outputs) outputs.push_back(allocate(desc.bytes()));
  const Status status = (*kernel)->run({inputs, outputs, allocate((*kernel)->workspace_bytes())});
  EXPECT_TRUE(status.ok()) << request.op << ": " << status.message();
  std::vector<Values> results;
  for (std::size_t o = 0; o < request.outputs.size(); ++o) {
    Values values;
    for (const std::size_t place : places_in_memory(request.outputs[o]))
      values.push_back(static_cast<const float*>(outputs[o])[place]);
    results.push_back(std::move(values));
  }
  return results;
}

TEST(LayoutUse, ChannelsLastGivesTheSameNumbers) { check_layouts(DType::kFloat32, 1e-5, run); }

TEST(LayoutUse, OthersTakeRowMajorAlone) {
  for (const char* op : {"MatMul", "Gather", "ScatterElements", "ScatterND", "TensorScatter",
                         "LayerNormalization", "SoftmaxCrossEntropyLossGrad", "NoSuchOperator"}) {
    EXPECT_EQ(layout_use(op), LayoutUse::kRowMajor) << op;
  }
  EXPECT_EQ(layout_use("Transpose"), LayoutUse::kMoves);
}

TEST(LayoutUse, WhetherLayoutMatters) {
  const auto matters = [](const Dims& dims) {
    return TensorDesc{DType::kFloat32, dims}.layout_matters();
  };
  EXPECT_TRUE(matters({1, 2, 3}));
  EXPECT_FALSE(matters({4, 2, 1}));
  EXPECT_FALSE(matters({4, 1, 3, 3}));
  EXPECT_FALSE(matters({4, 3}));
  EXPECT_FALSE(matters({}));
}

// Weights may lie channels last as well, whatever the activations do, in groups and without.
TEST(LayoutUse, WeightsOfConvolutionsInEitherLayout) {
  std::mt19937 random(6);
  std::uniform_real_distribution<double> draw(-0.9, 0.9);
  const Dims x = {2, 6, 4, 3}, y = {2, 4, 4, 3};
  for (const std::int64_t group : {1, 2}) {
    const Dims w = {4, 6 / group, 3, 3};
    const std::vector<LayoutCase> forms = {{"Conv", {x, w}, {y}, {}},
                                           {"ConvGradInput", {y, w}, {x}, {}},
                                           {"ConvGradWeight", {y, x}, {w}, {}},
                                           {"ConvTranspose", {y, w}, {x}, {}}};
    for (const LayoutCase& form : forms) {
      KernelRequest request;
      request.op = form.op;
      request.attributes.set("pads", Ints{1, 1, 1, 1});
      request.attributes.set("group", group);
      std::vector<Values> operands;
      for (const Dims& dims : form.inputs) {
        request.inputs.push_back({DType::kFloat32, dims});
        Values& values =
            operands.emplace_back(static_cast<std::size_t>(request.inputs.back().elems()));
        for (double& value : values) value = draw(random);
      }
      request.outputs.push_back({DType::kFloat32, form.outputs[0]});
      const std::vector<Values> expected = run(request, operands);
      for (int mask = 1; mask < 8; ++mask) {
        TensorDesc* descs[] = {&request.inputs[0], &request.inputs[1], &request.outputs[0]};
        for (int i = 0; i < 3; ++i)
          descs[i]->layout = (mask >> i & 1) != 0 ? Layout::kChannelsLast : Layout::kRowMajor;
        const std::vector<Values> got = run(request, operands);
        ASSERT_EQ(got.size(), 1U);
        for (std::size_t k = 0; k < got[0].size(); ++k)
          ASSERT_NEAR(got[0][k], expected[0][k], 2e-5F) << form.op << ", layouts " << mask;
      }
    }
  }
}

}  // namespace
}  // namespace mezzo::kernels
