// Sums of many tensors, casts and dropout against the reference.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/kernel_harness.h"

namespace mezzo::kernels {
namespace {

// Small ones of any rank, and now and then one that is large enough for threads.
std::vector<std::int64_t> any_dims(Engine& engine) {
  if (draw(engine, 0, 5) == 0) return {draw(engine, 30, 70), draw(engine, 900, 1100)};
  return draw_dims(engine, static_cast<std::size_t>(draw(engine, 0, 4)), 20);
}

TEST(AddN, SumsInOrder) {
  Engine engine(10);
  for (int round = 0; round < 30; ++round) {
    KernelCase test;
    test.request.op = "AddN";
    const auto dims = any_dims(engine);
    const Layout layout = draw(engine, 0, 3) == 0 ? Layout::kChannelsLast : Layout::kRowMajor;
    const std::int64_t count = draw(engine, 1, 6);
    for (std::int64_t i = 0; i < count; ++i) {
      test.request.inputs.push_back(tensor(draw_float(engine), dims, layout));
      test.operands.push_back(draw_numbers(engine, test.request.inputs.back(), 1.0));
    }
    test.request.outputs = {tensor(draw_float(engine), dims, layout)};
    test.cancels = 1.0;
    ASSERT_NO_FATAL_FAILURE(check_kernel(test));
    if (HasFailure()) return;
  }
}

TEST(AddN, SumsAndMeansOfEveryType) {
  Engine engine(13);
  for (int round = 0; round < 60; ++round) {
    KernelCase test;
    const char* ops[] = {"AddN", "Sum", "Mean"};
    test.request.op = ops[round % 3];
    const bool real = round % 3 == 2 || draw(engine, 0, 1) == 0;
    const DType integer = draw_integer_type(engine);
    const bool wide = draw(engine, 0, 1) == 0;
    const auto dims = any_dims(engine);
    const std::int64_t count = draw(engine, 1, 5);
    for (std::int64_t i = 0; i < count; ++i) {
      const DType dtype = !real ? integer : wide ? DType::kFloat64 : draw_float(engine);
      const bool single = test.request.op != "AddN" && i > 0 && draw(engine, 0, 2) == 0;
      test.request.inputs.push_back(tensor(dtype, single ? std::vector<std::int64_t>{} : dims));
      const TensorDesc& x = test.request.inputs.back();
      test.operands.push_back(real ? draw_numbers(engine, x, 1.0)
                                   : draw_integers(engine, x, 0, 100));
    }
    const DType out = !real ? integer : wide ? DType::kFloat64 : draw_float(engine);
    test.request.outputs = {tensor(out, dims)};
    test.exact = !real;
    test.accum = wide ? DType::kFloat64 : DType::kFloat32;
    test.cancels = 1.0;
    ASSERT_NO_FATAL_FAILURE(check_kernel(test));
    if (HasFailure()) return;
  }
}

TEST(Cast, EqualsTheReferenceInBits) {
  Engine engine(11);
  constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBFloat16, DType::kFloat64,
                              DType::kBool,    DType::kUInt8,   DType::kInt8,     DType::kUInt16,
                              DType::kInt16,   DType::kUInt32,  DType::kInt32,    DType::kUInt64,
                              DType::kInt64};
  for (const DType from : kTypes) {
    for (const DType to : kTypes) {
      KernelCase test;
      test.request.op = "Cast";
      test.exact = true;
      const auto dims = std::vector<std::int64_t>{draw(engine, 30, 40), draw(engine, 1000, 1100)};
      test.request.inputs = {tensor(from, dims)};
      test.request.outputs = {tensor(to, dims)};
      const TensorDesc& x = test.request.inputs[0];
      if (is_floating(from)) {
        test.operands = {draw_numbers(engine, x, 100.0, true)};
        // NaN's bits are left open.
        for (double& number : test.operands[0]) {
          if (std::isnan(number) && is_floating(to)) number = 1.0;
        }
      } else {
        const int bits = from == DType::kBool ? 1 : std::min(dtype_bits(from) - 1, 53);
        const std::int64_t most = (std::int64_t{1} << bits) - 1;
        test.operands = {draw_integers(engine, x, is_signed_type(from) ? -most : 0, most)};
        // Few digits as well: ties of 16-bit floats are among them.
        for (double& number : test.operands[0]) {
          if (draw(engine, 0, 1) == 0) number = static_cast<double>(draw(engine, 0, 1));
        }
      }
      ASSERT_NO_FATAL_FAILURE(check_kernel(test));
      if (HasFailure()) return;
    }
  }
}

TEST(Dropout, DrawsTheReferencesNumbers) {
  Engine engine(12);
  for (int round = 0; round < 16; ++round) {
    KernelCase test;
    test.request.op = "Dropout";
    const auto dims = any_dims(engine);
    test.request.inputs = {tensor(draw_float(engine), dims), tensor(DType::kInt64, {})};
    test.request.outputs = {tensor(draw_float(engine), dims),
                            round % 4 == 0 ? TensorDesc() : tensor(DType::kBool, dims)};
    const double ratios[] = {0.0, 0.1, 0.5, 1.0};
    test.request.attributes.set("ratio", ratios[round % 4]);
    test.request.attributes.set("seed", draw(engine, -1000000000000, 1000000000000));
    test.operands = {draw_numbers(engine, test.request.inputs[0], 1.0, true),
                     {static_cast<double>(draw(engine, 0, 1LL << 40))}};
    ASSERT_NO_FATAL_FAILURE(check_kernel(test));

    KernelCase grad;
    grad.request.op = "DropoutGrad";
    grad.request.attributes.set("ratio", ratios[round % 4]);
    grad.request.inputs = {tensor(draw_float(engine), dims), tensor(DType::kBool, dims)};
    grad.request.outputs = {tensor(draw_float(engine), dims)};
    grad.operands = {draw_numbers(engine, grad.request.inputs[0], 1.0, true),
                     draw_integers(engine, grad.request.inputs[1], 0, 1)};
    ASSERT_NO_FATAL_FAILURE(check_kernel(grad));
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace mezzo::kernels
