// FusedElementwise: random programs against the reference, and programs of one operation against
// the operator's own row.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/element_program.h"
#include "tests/kernels/kernel_harness.h"

namespace mezzo::kernels {
namespace {

// Operations whose results stay in proportion, so that errors do not grow along a program.
struct TameOp {
  const char* call;
  int arity;
};
constexpr TameOp kTame[] = {
    {"Add", 2},
    {"Sub", 2},
    {"Mul", 2},
    {"Max", 2},
    {"Min", 2},
    {"Relu", 1},
    {"Neg", 1},
    {"Abs", 1},
    {"Sigmoid", 1},
    {"Tanh", 1},
    {"Erf", 1},
    {"HardSigmoid", 1},
    {"Gelu", 1},
    {"Softplus", 1},
    {"Swish[alpha=0.5]", 1},
    {"Sin", 1},
    {"AtLeast", 2},
    {"AtMost", 2},
    {"ReluGrad", 2},
    {"TanhGrad", 2},
    {"SigmoidGrad", 2},
    {"GeluGrad", 2},
    {"Where", 3},
    {"DropoutGrad[ratio=0.25]", 2},
    {"LeakyRelu[alpha=0.25]", 1},
    {"Gelu[approximate=tanh]", 1},
    {"PRelu", 2},
    {"AtLeastGrad", 3},
};

std::string draw_source(Engine& engine, std::int64_t operands, int results) {
  const std::int64_t kind = draw(engine, 0, 5);
  if (kind == 0) return std::to_string(static_cast<double>(draw(engine, -8, 8)) / 8.0);
  // Mostly the last result, so that all of the program matters.
  if (results > 0 && kind < 5) {
    const auto back = draw(engine, 0, 3) == 0 ? draw(engine, 0, std::min(results - 1, 2)) : 0;
    return "t" + std::to_string(results - 1 - back);
  }
  return "x" + std::to_string(draw(engine, 0, operands - 1));
}

std::string draw_program(Engine& engine, std::int64_t operands) {
  const auto count = static_cast<int>(draw(engine, 1, 7));
  std::string text;
  for (int i = 0; i < count; ++i) {
    const TameOp& op = kTame[draw(engine, 0, std::ssize(kTame) - 1)];
    text += (i + 1 == count ? "y = " : "t" + std::to_string(i) + " = ") + std::string(op.call);
    for (int k = 0; k < op.arity; ++k) {
      text += (k == 0 ? "(" : ", ") + draw_source(engine, operands, i);
    }
    text += i + 1 == count ? ")" : "); ";
  }
  return text;
}

std::vector<std::int64_t> draw_shape(Engine& engine) {
  if (draw(engine, 0, 9) == 0) return {draw(engine, 30, 70), draw(engine, 900, 1100)};
  return draw_dims(engine, static_cast<std::size_t>(draw(engine, 0, 4)), 12);
}

// Dims that broadcast to `dims`.
std::vector<std::int64_t> draw_part(Engine& engine, const std::vector<std::int64_t>& dims) {
  std::vector<std::int64_t> part = dims;
  if (draw(engine, 0, 1) == 0) return part;
  for (std::int64_t& dim : part) {
    if (draw(engine, 0, 1) == 0) dim = 1;
  }
  const auto drop = draw(engine, 0, static_cast<std::int64_t>(part.size()));
  for (std::int64_t i = 0; i < drop && !part.empty() && part.front() == 1; ++i) {
    part.erase(part.begin());
  }
  return part;
}

TEST(FusedElementwise, RandomPrograms) {
  Engine engine(71);
  for (int round = 0; round < 400; ++round) {
    KernelCase test;
    test.request.op = "FusedElementwise";
    const auto operands = draw(engine, 1, 5);
    test.request.attributes.set("program", draw_program(engine, operands));
    const auto dims = draw_shape(engine);
    const Layout layout = draw(engine, 0, 3) == 0 ? Layout::kChannelsLast : Layout::kRowMajor;
    for (std::int64_t k = 0; k < operands; ++k) {
      const DType dtype = draw(engine, 0, 7) == 0 ? DType::kBool : draw_float(engine);
      auto part = k == 0 ? dims : draw_part(engine, dims);
      const bool whole = part.size() == dims.size();
      test.request.inputs.push_back(
          tensor(dtype, std::move(part), whole ? layout : Layout::kRowMajor));
      TensorDesc& desc = test.request.inputs.back();
      // Several dims of a lower rank lie in another order than channels-last ones.
      const auto wide = std::count_if(desc.dims.begin(), desc.dims.end(),
                                      [](std::int64_t dim) { return dim != 1; });
      if (layout == Layout::kChannelsLast && !whole && wide > 1) desc = tensor(dtype, dims, layout);
      test.operands.push_back(dtype == DType::kBool
                                  ? draw_integers(engine, test.request.inputs.back(), 0, 1)
                                  : draw_numbers(engine, test.request.inputs.back(), 1.0));
    }
    test.request.outputs = {tensor(draw_float(engine), dims, layout)};
    test.depth = 60;
    test.cancels = 4.0;
    SCOPED_TRACE(test.request.attributes.get_string("program", ""));
    ASSERT_NO_FATAL_FAILURE(check_kernel(test));
    if (HasFailure()) return;
  }
}

// In float32 the program "y = op(x0, x1)" gives the bits of the operator.
TEST(FusedElementwise, OneOperationIsTheOperator) {
  Engine engine(72);
  int tested = 0;
  for (int i = 0; i < kElementOps; ++i) {
    const auto op = static_cast<ElementOp>(i);
    if (!may_be_fused(op)) continue;
    ElementProgram program;
    program.statements.push_back({op, 0.5, 0.25, {}});
    if (op == ElementOp::kIsInf) program.statements[0].beta = 1.0;
    if (op == ElementOp::kDropoutGrad) program.statements[0].alpha = 4.0 / 3.0;
    const ElementName name = element_name(program.statements[0]);
    const auto arity = static_cast<std::size_t>(element_op_arity(op));
    KernelRequest request;
    request.op = name.name;
    for (const auto& [attribute, value] : name.attributes) {
      if (value.find_first_not_of("0123456789.") != std::string::npos) {
        request.attributes.set(std::string(attribute), value);
      } else if (attribute.starts_with("detect")) {
        request.attributes.set(std::string(attribute), std::int64_t{value == "1" ? 1 : 0});
      } else {
        request.attributes.set(std::string(attribute), std::stod(value));
      }
    }
    std::vector<Numbers> operands;
    for (std::size_t k = 0; k < arity; ++k) {
      program.statements[0].sources.push_back(ElementSource::operand(static_cast<int>(k)));
      const bool truth =
          (op == ElementOp::kWhere && k == 0) || (op == ElementOp::kDropoutGrad && k == 1);
      request.inputs.push_back(tensor(truth ? DType::kBool : DType::kFloat32, {3, 41}));
      operands.push_back(truth ? draw_integers(engine, request.inputs.back(), 0, 1)
                               : draw_numbers(engine, request.inputs.back(), 3.0, true));
    }
    request.outputs = {tensor(DType::kFloat32, {3, 41})};
    KernelRequest fused = request;
    fused.op = "FusedElementwise";
    fused.attributes = {};
    fused.attributes.set("program", format_element_program(program));
    SCOPED_TRACE(format_element_program(program));
    const std::string_view text = name.name;
    const bool is_part = text.starts_with("AtLeast") || text.starts_with("AtMost");
    if (is_part || text == "Cast") continue;  // no operators; OwnCastsRound tests casts
    const bool truth = op == ElementOp::kIsNan || op == ElementOp::kIsInf ||
                       (op >= ElementOp::kEqual && op <= ElementOp::kGreaterOrEqual);
    if (truth) request.outputs[0].dtype = fused.outputs[0].dtype = DType::kBool;
    const auto apart = run_row(request, operands), together = run_row(fused, operands);
    ASSERT_EQ(apart.size(), 1U);
    ASSERT_EQ(together.size(), 1U);
    for (std::size_t e = 0; e < apart[0].size(); ++e) {
      if (std::isnan(apart[0][e]) && std::isnan(together[0][e])) continue;
      ASSERT_EQ(apart[0][e], together[0][e]) << "element " << e;
    }
    ++tested;
  }
  EXPECT_GT(tested, 60);
}

KernelCase unary_program(const char* program, DType from, DType to, Numbers x) {
  KernelCase test;
  test.request.op = "FusedElementwise";
  test.request.attributes.set("program", std::string(program));
  const auto count = static_cast<std::int64_t>(x.size());
  test.request.inputs = {tensor(from, {count})};
  test.request.outputs = {tensor(to, {count})};
  test.operands = {std::move(x)};
  return test;
}

// 1 + 2^-12 is no float16, nor is 2049 one, or 257 a bfloat16.
TEST(FusedElementwise, OwnCastsRound) {
  const auto results = [](const char* program, Numbers x) {
    const KernelCase test = unary_program(program, DType::kFloat32, DType::kFloat32, std::move(x));
    check_kernel(test);
    return run_row(test.request, test.operands).at(0);
  };
  EXPECT_EQ(results("t0 = Cast[to=float16](x0); y = Sub(t0, 1)", {1.000244140625, 2049, 70000}),
            (Numbers{0, 2047, HUGE_VAL}));
  EXPECT_EQ(results("y = Cast[to=bfloat16](x0)", {257, 3, -513}), (Numbers{256, 3, -512}));
  EXPECT_EQ(results("t0 = Add(x0, 1); y = Sub(t0, 1)", {0.000244140625}),
            (Numbers{0.000244140625}));
  EXPECT_EQ(results("t0 = Cast[to=bool](x0); y = Mul(t0, 5)", {0, 2, NAN, -0.0}),
            (Numbers{0, 5, 5, 0}));
}

// What lies between operations keeps the range of float32.
TEST(FusedElementwise, BetweenOperationsNothingOverflows) {
  const KernelCase test = unary_program("t0 = Mul(x0, x0); y = Mul(t0, 0.001)", DType::kFloat16,
                                        DType::kFloat16, {300, -400});
  check_kernel(test);
  EXPECT_EQ(run_row(test.request, test.operands).at(0), (Numbers{90, 160}));
}

TEST(FusedElementwise, ReadsIntegersAndWritesTruth) {
  KernelCase test = unary_program("t0 = Mul(x0, 0.5); y = Greater(t0, 1)", DType::kInt32,
                                  DType::kBool, {1, 2, 3, -7});
  check_kernel(test);
  EXPECT_EQ(run_row(test.request, test.operands).at(0), (Numbers{0, 0, 1, 0}));
}

TEST(FusedElementwise, MalformedRequests) {
  KernelCase test = unary_program("y = Add(x0, x1)", DType::kFloat32, DType::kFloat32, {1, 2, 3});
  EXPECT_EQ(row_status(test.request, test.operands).code(), StatusCode::kInvalidArgument);
  test = unary_program("y = Relu(x0)", DType::kFloat32, DType::kFloat32, {1, 2, 3});
  test.request.outputs[0].dims = {4};
  EXPECT_EQ(row_status(test.request, test.operands).code(), StatusCode::kInvalidArgument);
  test = unary_program("y = Relu(x0)", DType::kFloat32, DType::kInt32, {1, 2, 3});
  EXPECT_EQ(row_status(test.request, test.operands).code(), StatusCode::kInvalidArgument);
  test.request.attributes = {};
  EXPECT_EQ(row_status(test.request, test.operands).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace mezzo::kernels
