// The oneDNN matrix products against the reference, over seeded random shapes: vectors, broadcast
// batches, transposes, alpha and beta, empty operands, all dtype mixtures.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/kernels/layer_harness.h"

namespace mezzo::kernels {
namespace {

using Dims = std::vector<std::int64_t>;

void compare(Random& random, KernelRequest request, std::int64_t depth) {
  request.threads = static_cast<int>(pick(random, 1, 2));
  std::vector<Values> operands;
  for (const TensorDesc& desc : request.inputs) {
    operands.push_back(desc.present() ? random_values(random, desc) : Values());
  }
  const Outcome expected = run_reference(request, operands);
  const Values slack = sum_slack(magnitudes(request, operands), depth);
  for (const Outcome& got :
       {run_layer(request, operands), run_layer_on_constants(request, operands)}) {
    if (got.results.empty()) return;
    expect_close(got.results[0], expected.results[0], request.outputs[0].dtype, slack,
                 describe(request) + "\n  by " + got.implementation);
  }
}

std::vector<DType> pick_dtypes(Random& random) {
  const DType dtype = pick_dtype(random);
  switch (pick(random, 0, 3)) {
    case 0: return {pick_dtype(random), pick_dtype(random), pick_dtype(random)};
    case 1: return {dtype, dtype, DType::kFloat32};
    default: return {dtype, dtype, dtype};
  }
}

std::int64_t pick_size(Random& random) {
  constexpr std::int64_t kSizes[] = {1, 2, 3, 7, 16, 17, 31, 48, 64, 65, 100};
  return kSizes[pick(random, 0, std::size(kSizes) - 1)];
}

// Batch dims of both operands and the result; with `equal_ranks`, as many for a as for b.
struct Batches {
  Dims a, b, y;
};

Batches pick_batches(Random& random, bool equal_ranks) {
  Batches batches;
  const std::int64_t count = pick(random, 0, 3);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t size = pick(random, 1, 4);
    const std::int64_t kind = pick(random, 0, 4);
    batches.a.push_back(kind == 0 ? 1 : size);
    batches.b.push_back(kind == 1 ? 1 : size);
    batches.y.push_back(size);
  }
  if (equal_ranks) return batches;
  Dims& shorter = pick(random, 0, 1) != 0 ? batches.a : batches.b;
  const auto dropped = static_cast<std::ptrdiff_t>(pick(random, 0, count));
  // A dropped dimension counts as 1, so the result takes the other's.
  shorter.erase(shorter.begin(), shorter.begin() + dropped);
  const Dims& longer = &shorter == &batches.a ? batches.b : batches.a;
  std::copy(longer.begin(), longer.begin() + dropped, batches.y.begin());
  return batches;
}

Dims with(Dims batches, std::int64_t rows, std::int64_t columns) {
  batches.push_back(rows);
  batches.push_back(columns);
  return batches;
}

class MatMulCase {
 public:
  explicit MatMulCase(int seed) : random_(static_cast<std::uint64_t>(seed) + 2000) {}
  void numpy();
  void transposed();
  void gemm();

 private:
  Random random_;
  std::int64_t m_ = pick_size(random_);
  std::int64_t k_ = pick_size(random_);
  std::int64_t n_ = pick_size(random_);
  std::vector<DType> dtypes_ = pick_dtypes(random_);
};

void MatMulCase::numpy() {
  const Batches batches = pick_batches(random_, /*equal_ranks=*/false);
  Dims a = with(batches.a, m_, k_);
  Dims b = with(batches.b, k_, n_);
  Dims y = with(batches.y, m_, n_);
  const std::int64_t vectors = pick(random_, 0, 9);  // 0: a, 1: b, 2: both
  if (vectors == 0 || vectors == 2) {
    a = {k_};
    y = with(batches.b, m_, n_);
    y.erase(y.end() - 2);
  }
  if (vectors == 1 || vectors == 2) {
    b = {k_};
    y = vectors == 1 ? with(batches.a, m_, n_) : Dims{n_};
    y.pop_back();
  }
  KernelRequest request{"MatMul", {}, {{dtypes_[0], a}, {dtypes_[1], b}}, {{dtypes_[2], y}}};
  compare(random_, request, k_);
}

void MatMulCase::transposed() {
  const Batches batches = pick_batches(random_, /*equal_ranks=*/true);
  const bool trans_a = pick(random_, 0, 1) != 0;
  const bool trans_b = pick(random_, 0, 1) != 0;
  KernelRequest request{"MatMulT", {}, {}, {}};
  request.attributes.set("trans_a", std::int64_t{trans_a});
  request.attributes.set("trans_b", std::int64_t{trans_b});
  if (pick(random_, 0, 1) != 0) request.attributes.set("alpha", -0.125);
  request.inputs = {{dtypes_[0], trans_a ? with(batches.a, k_, m_) : with(batches.a, m_, k_)},
                    {dtypes_[1], trans_b ? with(batches.b, n_, k_) : with(batches.b, k_, n_)}};
  request.outputs = {{dtypes_[2], with(batches.y, m_, n_)}};
  compare(random_, request, k_);
}

void MatMulCase::gemm() {
  const bool trans_a = pick(random_, 0, 1) != 0;
  const bool trans_b = pick(random_, 0, 1) != 0;
  KernelRequest request{"Gemm", {}, {}, {}};
  request.attributes.set("transA", std::int64_t{trans_a});
  request.attributes.set("transB", std::int64_t{trans_b});
  if (pick(random_, 0, 2) == 0) request.attributes.set("alpha", 1.5);
  if (pick(random_, 0, 2) == 0) request.attributes.set("beta", -0.75);
  request.inputs = {{dtypes_[0], trans_a ? Dims{k_, m_} : Dims{m_, k_}},
                    {dtypes_[1], trans_b ? Dims{n_, k_} : Dims{k_, n_}}};
  const Dims kinds[] = {{n_}, {1, n_}, {m_, 1}, {m_, n_}, {1, 1}, {1}, {}};
  const std::int64_t kind = pick(random_, 0, 8);
  if (kind < 7) request.inputs.push_back({dtypes_[pick(random_, 0, 2)], kinds[kind]});
  if (kind == 7) request.inputs.push_back({});  // left out
  request.outputs = {{dtypes_[2], {m_, n_}}};
  compare(random_, request, k_);
}

TEST(OnednnMatMul, Numpy) { for_seeds(100, &MatMulCase::numpy); }
TEST(OnednnMatMul, Transposed) { for_seeds(100, &MatMulCase::transposed); }
TEST(OnednnMatMul, Gemm) { for_seeds(100, &MatMulCase::gemm); }

KernelRequest matmul(DType operand, DType result, Dims a, Dims b, Dims y) {
  return {
      "MatMul", {}, {{operand, std::move(a)}, {operand, std::move(b)}}, {{result, std::move(y)}}};
}

TEST(OnednnMatMulEmpty, NoDepthGivesZero) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    const Outcome got = run_layer(matmul(dtype, dtype, {3, 0}, {0, 5}, {3, 5}), {{}, {}});
    ASSERT_EQ(got.results.size(), 1U);
    EXPECT_EQ(got.results[0], Values(15, 0));
  }
}

TEST(OnednnMatMulEmpty, NoRowsColumnsOrBatches) {
  const auto run = [](Dims a, Dims b, Dims y) {
    const KernelRequest request = matmul(DType::kBFloat16, DType::kFloat32, a, b, y);
    const Outcome got = run_layer(request, {Values(), Values()});
    return got.results.size() == 1 && got.results[0].empty();
  };
  EXPECT_TRUE(run({0, 4}, {4, 5}, {0, 5}));
  EXPECT_TRUE(run({3, 4}, {4, 0}, {3, 0}));
  EXPECT_TRUE(run({0, 3, 4}, {4, 5}, {0, 3, 5}));
}

TEST(OnednnMatMulRange, Float16OverflowsToInfinity) {
  const std::vector<Values> operands = {Values(3 * 16, 100), Values(16 * 5, -50)};
  const Dims a = {3, 16}, b = {16, 5}, y = {3, 5};
  const auto run = [&](DType result) {
    return run_layer(matmul(DType::kFloat16, result, a, b, y), operands).results[0];
  };
  EXPECT_EQ(run(DType::kFloat16), Values(15, -INFINITY));
  EXPECT_EQ(run(DType::kFloat32), Values(15, -80000));
}

// The step from 65504 to infinity is at 65520, as IEEE 754 rounds.
TEST(OnednnMatMulRange, Float16RoundsOnceAtTheLimit) {
  const auto run = [](double addend) {
    const KernelRequest request = matmul(DType::kFloat16, DType::kFloat16, {1, 2}, {2, 1}, {1, 1});
    return run_layer(request, {{65504, addend}, {1, 1}}).results[0][0];
  };
  EXPECT_EQ(run(15.9921875), 65504);
  EXPECT_EQ(run(16), INFINITY);
}

// Float32 stays float32: 1 + 2^-20 has no place in bfloat16 or TF32.
TEST(OnednnMatMulRange, Float32OperandsKeepTheirDigits) {
  const double value = 1 + 0x1p-20;
  const KernelRequest request =
      matmul(DType::kFloat32, DType::kFloat32, {32, 64}, {64, 32}, {32, 32});
  Values b(64 * 32, 0);
  for (std::size_t i = 0; i < 32; ++i) b[i * 32 + i] = 1;
  EXPECT_EQ(run_layer(request, {Values(32 * 64, value), b}).results[0], Values(32 * 32, value));
}

// Odd depths are filled up inside the library; what is filled up must not meet infinity or NaN.
TEST(OnednnMatMulRange, NanAndInfinityStayInTheirRow) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    for (const std::int64_t depth : {1, 3, 17, 33}) {
      const KernelRequest request = matmul(dtype, dtype, {4, depth}, {depth, 19}, {4, 19});
      std::vector<Values> operands = {Values(static_cast<std::size_t>(4 * depth), 1),
                                      Values(static_cast<std::size_t>(depth * 19), 1)};
      operands[0][static_cast<std::size_t>(1 * depth + depth - 1)] = NAN;
      operands[0][static_cast<std::size_t>(2 * depth + depth - 1)] = INFINITY;
      const Values y = run_layer(request, operands).results[0];
      for (std::size_t i = 0; i < y.size(); ++i) {
        EXPECT_EQ(std::isnan(y[i]), i / 19 == 1) << dtype_name(dtype) << " depth " << depth;
        EXPECT_EQ(std::isinf(y[i]), i / 19 == 2) << dtype_name(dtype) << " depth " << depth;
      }
    }
  }
}

TEST(OnednnMatMulRefusal, SaysWhatDoesNotMultiply) {
  const KernelEntry* row = kernel_rows("MatMul", Backend::kCpu).front();
  auto kernel = row->prepare(matmul(DType::kFloat32, DType::kFloat32, {3, 4}, {5, 6}, {3, 6}));
  ASSERT_FALSE(kernel.ok());
  EXPECT_EQ(kernel.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(kernel.status().message().find("[3,4] and [5,6]"), std::string::npos);
}

}  // namespace
}  // namespace mezzo::kernels
