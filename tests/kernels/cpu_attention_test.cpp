// Scaled-dot-product attention in blocks beside the reference, which goes query by query.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/kernels/attention_case.h"

namespace mezzo::kernels {
namespace {

using Dims = std::vector<std::int64_t>;

struct Sizes {
  std::int64_t batch, groups, shared, queries, keys, size, v_size;
};

Sizes draw_sizes(Engine& engine, int round) {
  Sizes s = {draw(engine, 1, 2),  draw(engine, 1, 3),  draw(engine, 1, 2), draw(engine, 1, 40),
             draw(engine, 1, 50), draw(engine, 1, 20), draw(engine, 1, 20)};
  if (round % 4 == 1) s.queries = draw(engine, 60, 200);  // several blocks
  if (round % 4 == 2) s.keys = draw(engine, 60, 200);
  if (round % 4 == 3) s.queries = s.keys = draw(engine, 120, 140);
  return s;
}

Dims draw_bias_dims(Engine& engine, const Sizes& s) {
  Dims dims = {s.batch, s.groups * s.shared, s.queries, s.keys};
  for (std::int64_t& dim : dims) dim = draw(engine, 0, 2) == 0 ? 1 : dim;
  dims.erase(dims.begin(), dims.begin() + draw(engine, 0, 2));
  return dims;
}

KernelCase forward_case(Engine& engine, int round) {
  const Sizes s = draw_sizes(engine, round);
  const DType dtype = draw_float(engine);
  KernelCase test;
  KernelRequest& request = test.request;
  request.op = "ScaledDotProductAttention";
  request.threads = 1 + round % 3;
  if (round % 2 == 0) request.attributes.set("scale", 0.3);
  if (round % 3 == 0) request.attributes.set("causal", std::int64_t{1});
  const std::int64_t heads = s.groups * s.shared;
  const std::int64_t tokens_first = round % 3 == 1 ? 15 : round % 3 == 2 ? draw(engine, 0, 15) : 0;
  if (tokens_first != 0) request.attributes.set("tokens_first", tokens_first);
  const auto lying = [&](std::int64_t bit, Dims dims) {
    if ((tokens_first & bit) != 0) std::swap(dims[1], dims[2]);
    return tensor(dtype, dims);
  };
  request.inputs = {lying(1, {s.batch, heads, s.queries, s.size}),
                    lying(2, {s.batch, s.groups, s.keys, s.size}),
                    lying(4, {s.batch, s.groups, s.keys, s.v_size})};
  if (round % 5 < 3)
    request.inputs.push_back(tensor(draw_float(engine), draw_bias_dims(engine, s)));
  request.outputs = {lying(8, {s.batch, heads, s.queries, s.v_size}),
                     tensor(DType::kFloat32, {s.batch, heads, s.queries})};
  for (const TensorDesc& desc : request.inputs)
    test.operands.push_back(draw_numbers(engine, desc, 1.0));
  if (request.inputs.size() > 3 && round % 2 == 0) {  // a mask
    for (double& value : test.operands[3])
      value = draw(engine, 0, 2) == 0 ? -std::numeric_limits<double>::infinity() : 0.0;
  }
  // Probabilities are rounded to the dtype on their way.
  test.depth = dtype == DType::kFloat32 ? s.keys + s.size + 32 : 4;
  test.accum = dtype;
  test.cancels = 1.0;
  return test;
}

TEST(CpuAttention, Forward) {
  Engine engine(71);
  for (int round = 0; round < 60; ++round) {
    const KernelCase test = forward_case(engine, round);
    ASSERT_NO_FATAL_FAILURE(check_kernel(test));
    if (HasFailure()) return;
  }
}

TEST(CpuAttention, Gradient) {
  Engine engine(72);
  for (int round = 0; round < 60; ++round) {
    const KernelCase test = attention_gradient_case(engine, forward_case(engine, round));
    ASSERT_NO_FATAL_FAILURE(check_kernel(test));
    if (HasFailure()) return;
  }
}

// Nothing is seen by the first queries, or by any: zeros, and -infinity for their sum.
TEST(CpuAttention, QueriesThatSeeNothing) {
  KernelRequest request;
  request.op = "ScaledDotProductAttention";
  request.attributes.set("causal", std::int64_t{1});
  request.inputs = {tensor(DType::kFloat32, {1, 1, 70, 2}), tensor(DType::kFloat32, {1, 1, 3, 2}),
                    tensor(DType::kFloat32, {1, 1, 3, 1})};
  request.outputs = {tensor(DType::kFloat32, {1, 1, 70, 1}), tensor(DType::kFloat32, {1, 1, 70})};
  const std::vector<Numbers> results =
      run_row(request, {Numbers(140, 1.0), Numbers(6, 1.0), Numbers(3, 5.0)});
  for (std::size_t t = 0; t < 70; ++t) {
    EXPECT_EQ(results[0][t], t < 67 ? 0.0 : 5.0) << t;
    EXPECT_EQ(std::isinf(results[1][t]), t < 67) << t;
  }
}

}  // namespace
}  // namespace mezzo::kernels
