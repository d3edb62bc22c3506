// Products of doubles, integers and 8-bit operands against the reference.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "compiler/support/text.h"
#include "tests/kernels/kernel_harness.h"
#include "tests/support/status_test.h"

namespace mezzo::kernels {
namespace {

using Dims = std::vector<std::int64_t>;

DType draw_byte(Engine& engine) { return draw(engine, 0, 1) == 0 ? DType::kInt8 : DType::kUInt8; }

// Whole numbers that every dtype holds and whose products and sums are exact.
Numbers whole_numbers(Engine& engine, const TensorDesc& desc) {
  const bool is_signed = desc.dtype == DType::kInt8;
  const bool is_byte = is_signed || desc.dtype == DType::kUInt8;
  if (is_byte) return draw_integers(engine, desc, is_signed ? -128 : 0, is_signed ? 127 : 255);
  return draw_integers(engine, desc, -99, 99);
}

// Fills in operands for all inputs that are not there yet, and compares bits.
void check_exactly(Engine& engine, KernelCase test) {
  for (std::size_t i = test.operands.size(); i < test.request.inputs.size(); ++i) {
    const TensorDesc& desc = test.request.inputs[i];
    test.operands.push_back(desc.present() ? whole_numbers(engine, desc) : Numbers());
  }
  test.exact = true;
  check_kernel(test);
}

DType draw_wide(Engine& engine) {
  constexpr DType kWide[] = {DType::kFloat64, DType::kInt32, DType::kInt64};
  return kWide[draw(engine, 0, 2)];
}

TEST(Products, MatMulOfDoublesAndIntegers) {
  Engine engine(81);
  for (int round = 0; round < 60; ++round) {
    const DType dtype = draw_wide(engine);
    const std::int64_t most = round % 10 == 0 ? 150 : 20;
    const std::int64_t m = draw(engine, 1, most), k = draw(engine, 0, most),
                       n = draw(engine, 1, most);
    const bool t = round % 3 == 0;  // MatMulT
    const bool trans_a = t && draw(engine, 0, 1) == 1, trans_b = t && draw(engine, 0, 1) == 1;
    Dims a = trans_a ? Dims{k, m} : Dims{m, k};
    Dims b = trans_b ? Dims{n, k} : Dims{k, n};
    Dims y = {m, n};
    if (!t && draw(engine, 0, 4) == 0) {
      a.erase(a.begin());
      y.erase(y.begin());
    }
    if (!t && draw(engine, 0, 4) == 0) {
      b.pop_back();
      y.pop_back();
    }
    const bool batched = a.size() == 2 && b.size() == 2 && draw(engine, 0, 1) == 1;
    if (batched) {
      const std::int64_t outer = draw(engine, 1, 3), inner = draw(engine, 1, 3);
      a.insert(a.begin(), {outer, 1});
      b.insert(b.begin(), {draw(engine, 0, 1) == 0 ? 1 : outer, inner});
      y.insert(y.begin(), {outer, inner});
    }
    KernelCase test;
    test.request.op = t ? "MatMulT" : "MatMul";
    if (t) {
      test.request.attributes.set("trans_a", std::int64_t{trans_a});
      test.request.attributes.set("trans_b", std::int64_t{trans_b});
      test.request.attributes.set("alpha", 3.0);
    }
    test.request.inputs = {tensor(dtype, a), tensor(dtype, b)};
    test.request.outputs = {tensor(dtype, y)};
    ASSERT_NO_FATAL_FAILURE(check_exactly(engine, test));
    if (HasFailure()) return;
  }
}

TEST(Products, GemmOfDoublesAndIntegers) {
  Engine engine(82);
  for (int round = 0; round < 40; ++round) {
    const DType dtype = draw_wide(engine);
    const std::int64_t m = draw(engine, 1, 40), k = draw(engine, 1, 40), n = draw(engine, 1, 40);
    const std::int64_t trans_a = draw(engine, 0, 1), trans_b = draw(engine, 0, 1);
    const Dims cs[] = {{m, n}, {n}, {m, 1}, {1}, {}};
    KernelCase test;
    test.request.op = "Gemm";
    test.request.attributes.set("transA", trans_a);
    test.request.attributes.set("transB", trans_b);
    // Halves truncate where the dtype is an integer.
    test.request.attributes.set("alpha", draw(engine, 0, 1) == 0 ? 1.0 : 2.5);
    test.request.attributes.set("beta", draw(engine, 0, 1) == 0 ? 1.0 : -0.5);
    test.request.inputs = {
        tensor(dtype, trans_a != 0 ? Dims{k, m} : Dims{m, k}),
        tensor(dtype, trans_b != 0 ? Dims{n, k} : Dims{k, n}),
        draw(engine, 0, 3) == 0 ? TensorDesc() : tensor(dtype, cs[draw(engine, 0, 4)])};
    test.request.outputs = {tensor(dtype, {m, n})};
    ASSERT_NO_FATAL_FAILURE(check_exactly(engine, test));
    if (HasFailure()) return;
  }
}

DType draw_low(Engine& engine) {
  return draw(engine, 0, 1) == 0 ? DType::kFloat16 : DType::kBFloat16;
}

// Operands of a product of the drawn sizes, batched or not, as MatMulT takes them.
struct DrawnProduct {
  std::int64_t m, k, n;
  TensorDesc a, b, y;
};
DrawnProduct draw_product(Engine& engine, bool batched, KernelRequest& request) {
  DrawnProduct product = {
      draw(engine, 1, 40), draw(engine, 1, 90), draw(engine, 1, 150), {}, {}, {}};
  const auto [m, k, n] = std::tie(product.m, product.k, product.n);
  const bool trans_a = draw(engine, 0, 1) == 1, trans_b = draw(engine, 0, 1) == 1;
  request.attributes.set("trans_a", std::int64_t{trans_a});
  request.attributes.set("trans_b", std::int64_t{trans_b});
  request.attributes.set("alpha", draw(engine, 0, 1) == 0 ? 1.0 : 0.5);
  Dims a = trans_a ? Dims{k, m} : Dims{m, k}, y = {m, n};
  if (batched) {
    a.insert(a.begin(), 3);
    y.insert(y.begin(), 3);
  }
  const DType operands = draw(engine, 0, 2) == 0 ? DType::kFloat32 : draw_low(engine);
  const DType result = draw(engine, 0, 1) == 0 ? operands : DType::kFloat32;
  product.a = tensor(operands, a);
  product.b = tensor(operands, trans_b ? Dims{n, k} : Dims{k, n});
  product.y = tensor(result, y);
  return product;
}

void check_product(Engine& engine, KernelCase& test, const DrawnProduct& product) {
  for (const TensorDesc& desc : test.request.inputs)
    test.operands.push_back(desc.present() ? draw_numbers(engine, desc, 1.0) : Numbers());
  test.depth = product.k + 20;
  test.cancels = 1.0;
  check_kernel(test);
}

TEST(Products, TakeOverBiasAndActivation) {
  Engine engine(85);
  constexpr const char* kActivations[] = {"none", "relu", "gelu_tanh"};
  for (int round = 0; round < 60; ++round) {
    KernelCase test;
    test.request.op = "MatMulActivation";
    const DrawnProduct product = draw_product(engine, round % 3 == 0, test.request);
    test.request.attributes.set("activation", std::string(kActivations[draw(engine, 0, 2)]));
    test.request.inputs = {
        product.a, product.b,
        draw(engine, 0, 3) == 0 ? TensorDesc() : tensor(draw_float(engine), {product.n})};
    test.request.outputs = {product.y};
    if (draw(engine, 0, 1) == 0)
      test.request.outputs.push_back(tensor(draw_float(engine), product.y.dims));
    ASSERT_NO_FATAL_FAILURE(check_product(engine, test, product));
    if (HasFailure()) return;
  }
}

TEST(Products, TakeOverDerivatives) {
  Engine engine(86);
  for (int round = 0; round < 40; ++round) {
    KernelCase test;
    test.request.op = "MatMulActivationGrad";
    const DrawnProduct product = draw_product(engine, round % 3 == 0, test.request);
    test.request.attributes.set("activation", std::string(round % 2 == 0 ? "relu" : "gelu_tanh"));
    test.request.inputs = {product.a, product.b, tensor(draw_float(engine), product.y.dims)};
    test.request.outputs = {product.y};
    ASSERT_NO_FATAL_FAILURE(check_product(engine, test, product));
    if (HasFailure()) return;
  }
}

TEST(Products, SumAnOperandBeside) {
  Engine engine(87);
  for (int round = 0; round < 40; ++round) {
    KernelCase test;
    test.request.op = "MatMulSums";
    const DrawnProduct product = draw_product(engine, false, test.request);
    const bool of_a = draw(engine, 0, 1) == 1;
    test.request.attributes.set("of", std::string(of_a ? "a" : "b"));
    test.request.inputs = {product.a, product.b};
    test.request.outputs = {product.y, tensor(draw_float(engine), {of_a ? product.m : product.n})};
    // Positive numbers, whose sums do not cancel.
    for (const TensorDesc& desc : test.request.inputs) {
      test.operands.push_back(draw_numbers(engine, desc, 1.0));
      for (double& x : test.operands.back()) x = std::fabs(x);
    }
    test.depth = product.k + 20;
    ASSERT_NO_FATAL_FAILURE(check_kernel(test));
    if (HasFailure()) return;
  }
}

// Zero points: none, one, one per line, one per line of every matrix.
TensorDesc draw_per_line(Engine& engine, DType dtype, std::int64_t matrices, std::int64_t lines) {
  switch (draw(engine, 0, 2)) {
    case 0: return tensor(dtype, {});
    case 1: return tensor(dtype, {lines});
    default: return tensor(dtype, {matrices, lines, 1});
  }
}

Numbers scales(Engine& engine, const TensorDesc& desc) {
  Numbers numbers = draw_numbers(engine, desc, 1.0);
  for (double& x : numbers) x = std::fabs(x) / 64.0 + 1.0 / 64.0;
  return numbers;
}

TEST(Products, QuantisedMatMul) {
  Engine engine(83);
  for (int round = 0; round < 60; ++round) {
    const std::int64_t m = draw(engine, 1, 40), k = draw(engine, 1, 90), n = draw(engine, 1, 40);
    const std::int64_t batch = draw(engine, 1, 3);
    const DType a = draw_byte(engine), b = draw_byte(engine), y = draw_byte(engine);
    const bool b_batched = draw(engine, 0, 1) == 1;
    const TensorDesc left = tensor(a, {batch, m, k});
    const TensorDesc right = tensor(b, b_batched ? Dims{batch, k, n} : Dims{k, n});
    const TensorDesc a_zero = draw_per_line(engine, a, batch, m);
    const TensorDesc b_zero = draw_per_line(engine, b, b_batched ? batch : 1, n);
    KernelCase test;
    if (round % 2 == 0) {
      test.request.op = "MatMulInteger";
      test.request.inputs = {left, right, draw(engine, 0, 2) == 0 ? TensorDesc() : a_zero,
                             draw(engine, 0, 2) == 0 ? TensorDesc() : b_zero};
      test.request.outputs = {tensor(DType::kInt32, {batch, m, n})};
    } else {
      test.request.op = "QLinearMatMul";
      const TensorDesc a_scale = draw_per_line(engine, draw_float(engine), batch, m);
      const TensorDesc b_scale =
          draw_per_line(engine, draw_float(engine), b_batched ? batch : 1, n);
      const TensorDesc y_scale = tensor(DType::kFloat32, {});
      test.request.inputs = {left, a_scale, a_zero, right, b_scale, b_zero, y_scale, tensor(y, {})};
      test.request.outputs = {tensor(y, {batch, m, n})};
      for (std::size_t i = 0; i < 8; ++i) {
        const TensorDesc& desc = test.request.inputs[i];
        test.operands.push_back(is_floating(desc.dtype) ? scales(engine, desc)
                                                        : whole_numbers(engine, desc));
      }
    }
    ASSERT_NO_FATAL_FAILURE(check_exactly(engine, test));
    if (HasFailure()) return;
  }
}

// Random windows over x[n, c, ..] with w[m, c / group, ..]; sets the attributes and gives y's dims.
struct DrawnConv {
  Dims x, w, y;
};
DrawnConv draw_conv(Engine& engine, Attributes& attributes) {
  const std::int64_t group = draw(engine, 1, 3);
  const std::int64_t c = draw(engine, 1, 3), m = draw(engine, 1, 5);
  const std::int64_t axes = draw(engine, 1, 3);
  DrawnConv conv;
  conv.x = {draw(engine, 1, 2), group * c};
  conv.w = {group * m, c};
  conv.y = {conv.x[0], group * m};
  Dims strides, dilations, begins, ends;
  for (std::int64_t i = 0; i < axes; ++i) {
    const std::int64_t kernel = draw(engine, 1, 3), dilation = draw(engine, 1, 2);
    const std::int64_t stride = draw(engine, 1, 3);
    const std::int64_t reach = (kernel - 1) * dilation + 1;
    const std::int64_t begin = draw(engine, 0, reach + 2), end = draw(engine, 0, 2);
    const std::int64_t size =
        draw(engine, std::max<std::int64_t>(1, reach - begin - end), axes == 1 ? 700 : 9);
    conv.x.push_back(size);
    conv.w.push_back(kernel);
    conv.y.push_back((size + begin + end - reach) / stride + 1);
    strides.push_back(stride);
    dilations.push_back(dilation);
    begins.push_back(begin);
    ends.push_back(end);
  }
  begins.insert(begins.end(), ends.begin(), ends.end());
  attributes.set("group", group);
  attributes.set("strides", strides);
  attributes.set("dilations", dilations);
  attributes.set("pads", begins);
  return conv;
}

TEST(Products, Convolutions) {
  Engine engine(84);
  for (int round = 0; round < 90; ++round) {
    KernelCase test;
    const DrawnConv conv = draw_conv(engine, test.request.attributes);
    const std::int64_t channels = conv.y[1];
    const DType x = draw_byte(engine), w = draw_byte(engine), y = draw_byte(engine);
    const Dims per_channel = draw(engine, 0, 1) == 0 ? Dims{} : Dims{channels};
    const bool biased = draw(engine, 0, 1) == 0;
    if (round % 3 == 0) {
      test.request.op = "Conv";
      test.request.inputs = {tensor(DType::kFloat64, conv.x), tensor(DType::kFloat64, conv.w),
                             biased ? tensor(DType::kFloat64, {channels}) : TensorDesc()};
      test.request.outputs = {tensor(DType::kFloat64, conv.y)};
    } else if (round % 3 == 1) {
      test.request.op = "ConvInteger";
      test.request.inputs = {tensor(x, conv.x), tensor(w, conv.w),
                             biased ? tensor(x, {}) : TensorDesc(), tensor(w, per_channel)};
      test.request.outputs = {tensor(DType::kInt32, conv.y)};
    } else {
      test.request.op = "QLinearConv";
      test.request.inputs = {tensor(x, conv.x),
                             tensor(DType::kFloat32, {}),
                             tensor(x, {}),
                             tensor(w, conv.w),
                             tensor(DType::kFloat32, per_channel),
                             tensor(w, per_channel),
                             tensor(DType::kFloat32, {}),
                             tensor(y, {}),
                             biased ? tensor(DType::kInt32, {channels}) : TensorDesc()};
      test.request.outputs = {tensor(y, conv.y)};
      for (const TensorDesc& desc : test.request.inputs) {
        test.operands.push_back(!desc.present()           ? Numbers()
                                : is_floating(desc.dtype) ? scales(engine, desc)
                                                          : whole_numbers(engine, desc));
      }
    }
    ASSERT_NO_FATAL_FAILURE(check_exactly(engine, test));
    if (HasFailure()) return;
  }
}

TEST(Products, KeepConstantBytes) {
  Engine engine(91);
  for (const bool has_zero : {false, true}) {
    KernelRequest request;
    request.op = "MatMulInteger";
    request.inputs = {tensor(DType::kUInt8, {2, 5, 37}), tensor(DType::kInt8, {37, 70}),
                      tensor(DType::kUInt8, {}),
                      has_zero ? tensor(DType::kInt8, {70}) : TensorDesc()};
    request.outputs = {tensor(DType::kInt32, {2, 5, 70})};
    std::vector<Numbers> operands;
    for (const TensorDesc& desc : request.inputs) {
      operands.push_back(desc.present() ? whole_numbers(engine, desc) : Numbers());
    }
    expect_same_with_constants(request, operands, {1, 3});
    expect_same_with_constants(request, operands, {1});
  }
}

}  // namespace
}  // namespace mezzo::kernels
