// Quantization against the reference: per tensor, per axis and in blocks.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/kernel_harness.h"

namespace mezzo::kernels {
namespace {

using Dims = std::vector<std::int64_t>;

constexpr DType kQuantized[] = {DType::kUInt8, DType::kInt8, DType::kUInt16, DType::kInt16};

// Draws the numbers' dims, sets axis and block_size, and gives the scale's dims.
struct Granularity {
  Dims x;
  Dims scale;
};
Granularity draw_granularity(Engine& engine, KernelRequest& request) {
  Granularity g;
  g.x = {draw(engine, 1, 6), 4 * draw(engine, 1, 40), draw(engine, 1, 70)};
  const std::int64_t axis = draw(engine, 0, 2);
  const auto place = static_cast<std::size_t>(axis);
  switch (draw(engine, 0, 2)) {
    case 0: break;
    case 1:
      request.attributes.set("axis", axis - (draw(engine, 0, 1) == 0 ? 3 : 0));
      g.scale = {g.x[place]};
      break;
    default: {
      const std::int64_t block = axis == 1 ? 4 : 1;
      request.attributes.set("axis", axis);
      request.attributes.set("block_size", block);
      g.scale = g.x;
      g.scale[place] /= block;
    }
  }
  return g;
}

Numbers draw_scales(Engine& engine, const TensorDesc& desc) {
  Numbers scales = draw_numbers(engine, desc, 0.1);
  for (double& scale : scales) scale = std::fabs(scale) + 0.0625;
  return scales;
}

TEST(Quantize, RoundsAndSaturatesAsTheReference) {
  Engine engine(31);
  for (int round = 0; round < 48; ++round) {
    KernelCase test;
    test.exact = true;
    test.request.op = "QuantizeLinear";
    const Granularity g = draw_granularity(engine, test.request);
    const DType out = kQuantized[round % 4];
    const DType in = round % 5 == 0 ? DType::kInt32 : draw_float(engine);
    test.request.inputs = {tensor(in, g.x), tensor(DType::kFloat32, g.scale)};
    if (round % 3 > 0) test.request.inputs.push_back(tensor(out, g.scale));
    test.request.outputs = {tensor(out, g.x)};
    const TensorDesc& x = test.request.inputs[0];
    test.operands = {in == DType::kInt32 ? draw_integers(engine, x, -300, 300)
                                         : draw_numbers(engine, x, 20.0, true),
                     draw_scales(engine, test.request.inputs[1])};
    // Scales of 0.5 make ties.
    if (round % 2 == 0) test.operands[1].assign(test.operands[1].size(), 0.5);
    if (round % 3 > 0)
      test.operands.push_back(draw_integers(engine, test.request.inputs[2], 0, 99));
    ASSERT_NO_FATAL_FAILURE(check_kernel(test));
    if (HasFailure()) return;
  }
}

TEST(Quantize, GivesNumbersBack) {
  Engine engine(32);
  for (int round = 0; round < 48; ++round) {
    KernelCase test;
    test.request.op = "DequantizeLinear";
    const Granularity g = draw_granularity(engine, test.request);
    const DType in = round % 5 == 0 ? DType::kInt32 : kQuantized[round % 4];
    test.request.inputs = {tensor(in, g.x), tensor(draw_float(engine), g.scale)};
    if (round % 3 > 0) test.request.inputs.push_back(tensor(in, g.scale));
    test.request.outputs = {tensor(draw_float(engine), g.x)};
    test.operands = {draw_integers(engine, test.request.inputs[0], 0, 127),
                     draw_scales(engine, test.request.inputs[1])};
    if (round % 3 > 0)
      test.operands.push_back(draw_integers(engine, test.request.inputs[2], 0, 99));
    test.depth = 1;
    ASSERT_NO_FATAL_FAILURE(check_kernel(test));
    if (HasFailure()) return;
  }
}

TEST(Quantize, ChoosesItsRange) {
  Engine engine(33);
  for (const double deviation : {0.0, 0.3, 40.0}) {
    for (const bool specials : {false, true}) {
      KernelCase test;
      test.exact = true;
      test.request.op = "DynamicQuantizeLinear";
      const Dims dims = {draw(engine, 1, 50), draw(engine, 1, 1000)};
      test.request.inputs = {tensor(DType::kFloat32, dims)};
      test.request.outputs = {tensor(DType::kUInt8, dims), tensor(DType::kFloat32, {}),
                              tensor(DType::kUInt8, {})};
      test.operands = {draw_numbers(engine, test.request.inputs[0], 1.0)};
      for (double& number : test.operands[0]) number *= deviation;
      for (double& number : test.operands[0]) number = static_cast<float>(number);
      if (specials) test.operands[0][0] = NAN;
      ASSERT_NO_FATAL_FAILURE(check_kernel(test));
      if (HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace mezzo::kernels
