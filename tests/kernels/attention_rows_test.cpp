// Rows of libraries for scaled-dot-product attention: sizes and dtypes that these take, which the
// random cases of cpu_attention_test.cpp seldom are.
#include <gtest/gtest.h>

#include <limits>

#include "tests/kernels/attention_case.h"

namespace mezzo::kernels {
namespace {

using Dims = std::vector<std::int64_t>;

struct Sizes {
  std::int64_t batch = 2, heads = 4, groups = 2, queries = 7, keys = 9, size = 8, v_size = 16;
};

struct Mask {
  Dims dims;  // none: no bias
  DType dtype = DType::kFloat32;
  bool hides = false;  // some keys, and all of them from a few queries
};

// Probabilities are rounded to the dtype on their way.
KernelCase attention_case(Engine& engine, DType dtype, const Sizes& s, bool causal,
                          const Mask& mask) {
  KernelCase test;
  KernelRequest& request = test.request;
  request.op = "ScaledDotProductAttention";
  request.attributes.set("causal", std::int64_t{causal ? 1 : 0});
  request.inputs = {tensor(dtype, {s.batch, s.heads, s.queries, s.size}),
                    tensor(dtype, {s.batch, s.groups, s.keys, s.size}),
                    tensor(dtype, {s.batch, s.groups, s.keys, s.v_size})};
  if (!mask.dims.empty()) request.inputs.push_back(tensor(mask.dtype, mask.dims));
  request.outputs = {tensor(dtype, {s.batch, s.heads, s.queries, s.v_size}),
                     tensor(DType::kFloat32, {s.batch, s.heads, s.queries})};
  for (const TensorDesc& desc : request.inputs)
    test.operands.push_back(draw_numbers(engine, desc, 1.0));
  if (mask.hides) {
    constexpr double kHides = -std::numeric_limits<double>::infinity();
    for (double& value : test.operands[3]) {
      if (draw(engine, 0, 2) == 0) value = kHides;
    }
    // Nothing is left of the first row, and two keys of the last.
    Numbers& bias = test.operands[3];
    for (std::size_t key = 0; key < static_cast<std::size_t>(s.keys); ++key) {
      bias[key] = kHides;
      bias[bias.size() - 1 - key] = key < 2 ? 0.0 : kHides;
    }
  }
  test.depth = 4;
  test.accum = dtype;
  test.cancels = 1.0;
  return test;
}

void check_both(Engine& engine, const Sizes& sizes, bool causal, const Mask& mask) {
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    const KernelCase test = attention_case(engine, dtype, sizes, causal, mask);
    ASSERT_NO_FATAL_FAILURE(check_kernel(test));
    ASSERT_NO_FATAL_FAILURE(check_kernel(attention_gradient_case(engine, test)));
  }
}

TEST(AttentionRows, HeadsShareKeys) {
  Engine engine(81);
  for (const std::int64_t groups : {1, 2, 4}) {
    ASSERT_NO_FATAL_FAILURE(check_both(engine, {.groups = groups}, false, {}));
  }
}

TEST(AttentionRows, CausalUpToTheLastKey) {
  Engine engine(82);
  ASSERT_NO_FATAL_FAILURE(check_both(engine, {.queries = 9}, true, {}));
  ASSERT_NO_FATAL_FAILURE(check_both(engine, {.queries = 4, .size = 16, .v_size = 8}, true, {}));
}

TEST(AttentionRows, BiasOfEveryShape) {
  Engine engine(83);
  for (const Dims& dims :
       {Dims{2, 4, 7, 9}, Dims{2, 1, 7, 9}, Dims{4, 7, 9}, Dims{2, 1, 1, 9}, Dims{7, 9}, Dims{9}}) {
    ASSERT_NO_FATAL_FAILURE(check_both(engine, {}, false, {dims}));
    ASSERT_NO_FATAL_FAILURE(check_both(engine, {}, false, {dims, DType::kFloat16}));
  }
}

TEST(AttentionRows, QueriesThatTheBiasLeavesNothing) {
  Engine engine(84);
  for (const Dims& dims : {Dims{2, 4, 7, 9}, Dims{2, 1, 7, 9}, Dims{2, 1, 1, 9}}) {
    ASSERT_NO_FATAL_FAILURE(check_both(engine, {}, false, {dims, DType::kFloat32, true}));
  }
  const Sizes square = {.queries = 9};
  ASSERT_NO_FATAL_FAILURE(check_both(engine, square, true, {{2, 1, 9, 9}, DType::kFloat32, true}));
}

// Which key is the first that a query sees is found by many threads together.
TEST(AttentionRows, QueriesThatSeeTwoKeys) {
  Engine engine(85);
  const Sizes sizes = {.batch = 1, .heads = 2, .groups = 2, .queries = 16, .keys = 130};
  const Mask mask{{1, 2, 16, 130}, DType::kFloat32, false};
  for (const bool causal : {false, true}) {
    KernelCase test = attention_case(engine, DType::kFloat16, sizes, causal, mask);
    Numbers& bias = test.operands[3];
    for (std::size_t i = 0; i < bias.size(); ++i) {
      const std::size_t query = i / 130, key = i % 130;
      const bool sees = query % 3 != 0 && (key == query * 37 % 130 || key == 129);
      bias[i] = sees ? 0.0 : -std::numeric_limits<double>::infinity();
    }
    ASSERT_NO_FATAL_FAILURE(check_kernel(test));
    ASSERT_NO_FATAL_FAILURE(check_kernel(attention_gradient_case(engine, test)));
  }
}

}  // namespace
}  // namespace mezzo::kernels
