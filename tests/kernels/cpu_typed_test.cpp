// Elementwise rows on doubles, integers and truth values against the reference.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/kernel_harness.h"

namespace mezzo::kernels {
namespace {

using Shape = std::vector<std::int64_t>;

// Two operands' dims and the result's: equal, broadcast in rows or columns, or a scalar.
struct Shapes {
  Shape a, b, y;
};
Shapes draw_shapes(Engine& engine) {
  const std::int64_t rows = draw(engine, 1, 40), columns = draw(engine, 1, 1200);
  switch (draw(engine, 0, 4)) {
    case 0: return {{rows, columns}, {columns}, {rows, columns}};
    case 1: return {{rows, 1}, {rows, columns}, {rows, columns}};
    case 2: return {{rows, columns}, {}, {rows, columns}};
    case 3: return {{3, 1, 5}, {4, 1}, {3, 4, 5}};
    default: return {{rows, columns}, {rows, columns}, {rows, columns}};
  }
}

// All values of small types, up to 2^52 of wide ones.
std::int64_t most_of(DType dtype) {
  const int bits = is_signed_type(dtype) ? dtype_bits(dtype) - 1 : dtype_bits(dtype);
  return (std::int64_t{1} << std::min(bits, 52)) - 1;
}

Numbers any_integers(Engine& engine, const TensorDesc& desc) {
  const std::int64_t most = most_of(desc.dtype);
  return draw_integers(engine, desc, is_signed_type(desc.dtype) ? -most - 1 : 0, most);
}

void run_exact(Engine& engine, const std::string& op, DType dtype, DType out,
               const Attributes& attributes, bool no_zero_divisor) {
  const Shapes shapes = draw_shapes(engine);
  KernelCase test;
  test.exact = true;
  test.request.op = op;
  test.request.attributes = attributes;
  test.request.inputs = {tensor(dtype, shapes.a), tensor(dtype, shapes.b)};
  test.request.outputs = {tensor(out, shapes.y)};
  for (const TensorDesc& desc : test.request.inputs) {
    test.operands.push_back(dtype == DType::kBool ? draw_integers(engine, desc, 0, 1)
                                                  : any_integers(engine, desc));
  }
  for (double& divisor : test.operands[1]) {
    if (no_zero_divisor && divisor == 0.0) divisor = is_signed_type(dtype) ? -1.0 : 1.0;
  }
  check_kernel(test);
}

TEST(Typed, IntegersAreExact) {
  Engine engine(21);
  for (const char* op :
       {"Add", "Sub", "Mul", "Div", "Mod", "Max", "Min", "Equal", "Less", "Greater", "LessOrEqual",
        "GreaterOrEqual", "BitwiseAnd", "BitwiseOr", "BitwiseXor"}) {
    for (int round = 0; round < 16; ++round) {
      const std::string name = op;
      const bool compares = name == "Equal" || name.starts_with("Less") || name.starts_with("Gre");
      Attributes attributes;
      if (name == "Mod") attributes.set("fmod", draw(engine, 0, 1));
      const DType dtype = draw_integer_type(engine);
      ASSERT_NO_FATAL_FAILURE(run_exact(engine, name, dtype, compares ? DType::kBool : dtype,
                                        attributes, name == "Div" || name == "Mod"));
      if (HasFailure()) return;
    }
  }
}

TEST(Typed, TruthValuesAreExact) {
  Engine engine(22);
  for (const char* op : {"And", "Or", "Xor", "Equal"}) {
    for (int round = 0; round < 6; ++round) {
      ASSERT_NO_FATAL_FAILURE(run_exact(engine, op, DType::kBool, DType::kBool, {}, false));
    }
  }
}

TEST(Typed, ShiftsByAnyNumberOfPlaces) {
  Engine engine(23);
  for (int round = 0; round < 24; ++round) {
    KernelCase test;
    test.exact = true;
    test.request.op = "BitShift";
    test.request.attributes.set("direction", std::string(round % 2 == 0 ? "LEFT" : "RIGHT"));
    const DType dtype = draw_integer_type(engine);
    const Shapes shapes = draw_shapes(engine);
    test.request.inputs = {tensor(dtype, shapes.a), tensor(dtype, shapes.b)};
    test.request.outputs = {tensor(dtype, shapes.y)};
    const std::int64_t least = is_signed_type(dtype) ? -3 : 0;
    test.operands = {any_integers(engine, test.request.inputs[0]),
                     draw_integers(engine, test.request.inputs[1], least, dtype_bits(dtype) + 2)};
    ASSERT_NO_FATAL_FAILURE(check_kernel(test));
    if (HasFailure()) return;
  }
}

TEST(Typed, UnaryOnIntegers) {
  Engine engine(24);
  for (const char* op : {"Neg", "Abs", "Sign", "Relu", "BitwiseNot"}) {
    for (int round = 0; round < 8; ++round) {
      KernelCase test;
      test.exact = true;
      test.request.op = op;
      const DType dtype = draw_integer_type(engine);
      const Shape dims = draw_shapes(engine).y;
      test.request.inputs = {tensor(dtype, dims)};
      test.request.outputs = {tensor(dtype, dims)};
      test.operands = {any_integers(engine, test.request.inputs[0])};
      ASSERT_NO_FATAL_FAILURE(check_kernel(test));
      if (HasFailure()) return;
    }
  }
}

TEST(Typed, DivisionByZeroIsReported) {
  for (const char* op : {"Div", "Mod"}) {
    KernelRequest request;
    request.op = op;
    request.inputs = {tensor(DType::kInt32, {3}), tensor(DType::kInt32, {3})};
    request.outputs = {tensor(DType::kInt32, {3})};
    const Status status = row_status(request, {{1, 2, 3}, {1, 0, 3}});
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("division of integers by zero"), std::string::npos);
    request.inputs[1] = tensor(DType::kInt32, {});
    request.inputs[0] = request.outputs[0] = tensor(DType::kInt32, {0});
    EXPECT_TRUE(row_status(request, {{}, {0}}).ok()) << "nothing is divided";
  }
}

TEST(Typed, PowOfEveryKind) {
  Engine engine(25);
  const DType bases[] = {DType::kInt32, DType::kInt64, DType::kFloat32, DType::kFloat16,
                         DType::kFloat64};
  for (int round = 0; round < 60; ++round) {
    KernelCase test;
    test.request.op = "Pow";
    const DType base = bases[round % 5];
    const DType exponent = round % 3 == 0   ? draw_float(engine)
                           : round % 7 == 0 ? DType::kFloat64
                                            : draw_integer_type(engine);
    test.exact = !is_floating(base);
    test.depth = 16;
    test.accum =
        base == DType::kFloat64 || exponent == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
    const Shapes shapes = draw_shapes(engine);
    test.request.inputs = {tensor(base, shapes.a), tensor(exponent, shapes.b)};
    test.request.outputs = {tensor(base, shapes.y)};
    test.operands.push_back(is_floating(base)
                                ? draw_numbers(engine, test.request.inputs[0], 1.5)
                                : draw_integers(engine, test.request.inputs[0], -9, 9));
    const std::int64_t least = is_floating(exponent) || is_signed_type(exponent) ? -2 : 0;
    test.operands.push_back(draw_integers(engine, test.request.inputs[1], least, 5));
    if (!is_floating(base) && is_floating(exponent)) {  // 0 to a negative power is infinite
      for (double& number : test.operands[0]) number = number == 0.0 ? 1.0 : number;
    }
    ASSERT_NO_FATAL_FAILURE(check_kernel(test));
    if (HasFailure()) return;
  }
}

// An exponent that float32 would round to an even number.
TEST(Typed, PowKeepsOddExponents) {
  KernelRequest request;
  request.op = "Pow";
  request.inputs = {tensor(DType::kFloat32, {2}), tensor(DType::kInt64, {})};
  request.outputs = {tensor(DType::kFloat32, {2})};
  EXPECT_EQ(run_row(request, {{-1.0, 1.0}, {16777217.0}})[0], (Numbers{-1.0, 1.0}));
}

TEST(Typed, DoublesKeepTheirDigits) {
  Engine engine(26);
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Max", "Min", "Mod", "PRelu"}) {
    for (int round = 0; round < 10; ++round) {
      KernelCase test;
      test.request.op = op;
      if (std::string(op) == "Mod") test.request.attributes.set("fmod", std::int64_t{1});
      const Shapes shapes = draw_shapes(engine);
      // Floats among them: all is computed in double.
      const DType other = round % 3 == 0 ? draw_float(engine) : DType::kFloat64;
      test.request.inputs = {tensor(DType::kFloat64, shapes.a), tensor(other, shapes.b)};
      test.request.outputs = {
          tensor(round % 4 == 0 ? draw_float(engine) : DType::kFloat64, shapes.y)};
      if (std::string(op) == "PRelu") test.request.inputs[0].dims = shapes.y;
      if (std::string(op) == "PRelu") test.request.inputs[1].dims = shapes.y;
      test.exact = true;
      for (const TensorDesc& desc : test.request.inputs) {
        test.operands.push_back(draw_numbers(engine, desc, 2.0));
      }
      ASSERT_NO_FATAL_FAILURE(check_kernel(test));
      if (HasFailure()) return;
    }
  }
}

TEST(Typed, FunctionsOfDoubles) {
  Engine engine(27);
  for (const char* op : {"Relu",     "Sigmoid",     "Tanh",       "Erf",       "Exp",
                         "Log",      "Sqrt",        "Reciprocal", "Neg",       "Abs",
                         "Softplus", "HardSigmoid", "HardSwish",  "LeakyRelu", "Elu",
                         "Selu",     "Celu",        "Mish",       "Softsign",  "ThresholdedRelu",
                         "Shrink",   "Gelu",        "Swish",      "Floor",     "Ceil",
                         "Round",    "Sign",        "Sin",        "Cos",       "Tan",
                         "Asin",     "Acos",        "Atan",       "Sinh",      "Cosh",
                         "Asinh",    "Acosh",       "Atanh"}) {
    KernelCase test;
    test.request.op = op;
    const Shape dims = draw_shapes(engine).y;
    test.request.inputs = {tensor(DType::kFloat64, dims)};
    test.request.outputs = {tensor(DType::kFloat64, dims)};
    test.operands = {draw_numbers(engine, test.request.inputs[0], 2.0, true)};
    test.accum = DType::kFloat64;
    test.depth = 16;
    ASSERT_NO_FATAL_FAILURE(check_kernel(test));
    if (HasFailure()) return;
  }
}

TEST(Typed, TestsAndChoicesOnEveryType) {
  Engine engine(28);
  const DType types[] = {DType::kFloat64,  DType::kFloat32, DType::kFloat16,
                         DType::kBFloat16, DType::kBool,    DType::kInt8,
                         DType::kInt16,    DType::kUInt32,  DType::kInt64};
  for (const DType dtype : types) {
    const Shapes shapes = draw_shapes(engine);
    KernelCase where;
    where.exact = true;
    where.request.op = "Where";
    where.request.inputs = {tensor(DType::kBool, shapes.y), tensor(dtype, shapes.a),
                            tensor(dtype, shapes.b)};
    where.request.outputs = {tensor(dtype, shapes.y)};
    where.operands.push_back(draw_integers(engine, where.request.inputs[0], 0, 1));
    for (int i = 1; i < 3; ++i) {
      const TensorDesc& desc = where.request.inputs[static_cast<std::size_t>(i)];
      where.operands.push_back(is_floating(dtype) ? draw_numbers(engine, desc, 1.0)
                                                  : draw_integers(engine, desc, 0, 1));
    }
    ASSERT_NO_FATAL_FAILURE(check_kernel(where));
    if (!is_floating(dtype)) continue;
    for (const char* op : {"IsNaN", "IsInf"}) {
      for (int round = 0; round < 4; ++round) {
        KernelCase test;
        test.exact = true;
        test.request.op = op;
        if (std::string(op) == "IsInf") {
          test.request.attributes.set("detect_negative", std::int64_t{round % 2});
          test.request.attributes.set("detect_positive", std::int64_t{round / 2});
        }
        test.request.inputs = {tensor(dtype, shapes.y)};
        test.request.outputs = {tensor(DType::kBool, shapes.y)};
        test.operands = {draw_numbers(engine, test.request.inputs[0], 1.0, true)};
        ASSERT_NO_FATAL_FAILURE(check_kernel(test));
      }
    }
  }
}

TEST(Typed, ClipOnIntegersAndDoubles) {
  Engine engine(29);
  for (int round = 0; round < 24; ++round) {
    KernelCase test;
    test.exact = true;
    test.request.op = "Clip";
    const DType dtype = round % 4 == 0 ? DType::kFloat64 : draw_integer_type(engine);
    const Shape dims = draw_shapes(engine).y;
    test.request.inputs = {tensor(dtype, dims)};
    test.operands = {dtype == DType::kFloat64 ? draw_numbers(engine, test.request.inputs[0], 30.0)
                                              : any_integers(engine, test.request.inputs[0])};
    for (const double bound : {3.0, 90.0}) {
      const bool there = draw(engine, 0, 2) > 0;
      test.request.inputs.push_back(there ? tensor(dtype, {}) : TensorDesc());
      test.operands.push_back(there ? Numbers{bound} : Numbers{});
    }
    test.request.outputs = {tensor(dtype, dims)};
    ASSERT_NO_FATAL_FAILURE(check_kernel(test));
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace mezzo::kernels
