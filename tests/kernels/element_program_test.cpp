// Programs of elementwise operations: their text, and their form as steps of a machine.
#include "kernels/element_program.h"

#include <gtest/gtest.h>

#include <cmath>

namespace mezzo::kernels {
namespace {

TEST(ElementProgram, TextReadsBack) {
  for (const char* text : {
           "y = Relu(x0)",
           "t0 = Add(x0, x1); y = Gelu[approximate=tanh](t0)",
           "t0 = HardSigmoid[alpha=0.1,beta=0.25](x2); t1 = Mul(t0, -0.5); y = Where(x0, t1, t0)",
           "t0 = Cast[to=float16](x1); t1 = IsInf[detect_negative=0](t0); y = Cast[to=bool](t1)",
           "t0 = DropoutGrad[ratio=0.1](x0, x1); y = AtLeastGrad(t0, x2, -inf)",
           "y = Mul(x0, 1e-30)",
       }) {
    const auto program = parse_element_program(text, 3);
    ASSERT_TRUE(program.ok()) << text << ": " << program.status().message();
    EXPECT_EQ(format_element_program(*program), text);
  }
}

TEST(ElementProgram, AttributesHaveDefaults) {
  const auto program = parse_element_program("y = Selu(x0)", 1);
  ASSERT_TRUE(program.ok());
  EXPECT_FLOAT_EQ(static_cast<float>(program->statements[0].alpha), 1.6732632F);
  EXPECT_FLOAT_EQ(static_cast<float>(program->statements[0].beta), 1.050701F);
}

TEST(ElementProgram, RefusesWhatIsNoProgram) {
  for (const char* text : {
           "",
           "y",
           "y = ",
           "y = Relu",
           "y = Relu(",
           "y = Relu()",
           "y = Relu(x0) ",  // spaces may follow
           "y = Relu(x0);",
           "y = Relu(x0); z",
           "t0 = Relu(x0)",  // no result
           "t1 = Relu(x0); y = Neg(t1)",
           "t0 = Relu(x0); t0 = Neg(x0); y = Neg(t0)",
           "y = Relu(x2)",  // no such operand
           "y = Relu(x-1)",
           "y = Relu(x99999999999)",
           "y = Neg(t0)",  // not before its time
           "t0 = Neg(t0); y = Neg(t0)",
           "y = Add(x0)",
           "y = Relu(x0, x1)",
           "y = Add(x0, x0, x0, x0, x0, x0)",
           "y = MatMul(x0, x1)",
           "y = Tan(x0)",  // not for programs
           "y = BitwiseAnd(x0, x1)",
           "y = Gelu[approximate=exact](x0)",
           "y = Gelu[approximate](x0)",
           "y = Gelu[approximate=tanh(x0)",
           "y = DropoutGrad[ratio=2](x0, x1)",
           "y = Cast(x0)",
           "y = Cast[to=int32](x0)",
           "y = Mul(x0, one)",
           "y = Mul(x0, 1.0.0)",
       }) {
    const auto program = parse_element_program(text, 2);
    if (std::string_view(text).ends_with(") ")) {
      EXPECT_TRUE(program.ok()) << text;
      continue;
    }
    ASSERT_FALSE(program.ok()) << text;
    EXPECT_EQ(program.status().code(), StatusCode::kInvalidArgument) << text;
    EXPECT_NE(program.status().message().find("character"), std::string::npos) << text;
  }
}

TEST(ElementProgram, LengthIsLimited) {
  const auto chain = [](int count) {
    std::string text = "t0 = Neg(x0)";
    for (int i = 1; i < count; ++i) {
      text += "; " + (i + 1 == count ? std::string("y") : "t" + std::to_string(i)) + " = Neg(t" +
              std::to_string(i - 1) + ")";
    }
    return text;
  };
  EXPECT_TRUE(parse_element_program(chain(kMaxElementStatements), 1).ok());
  EXPECT_FALSE(parse_element_program(chain(kMaxElementStatements + 1), 1).ok());
}

// Runs the steps as the GPU's kernel does.
double run_steps(const std::vector<ElementStep>& steps, const std::vector<double>& x) {
  double a = 0.0, b = 0.0, c = 0.0;
  double kept[kElementRegisters] = {};
  for (const ElementStep& step : steps) {
    switch (step.source) {
      case ElementStep::Source::kNone: break;
      case ElementStep::Source::kOperand: b = x[step.index]; break;
      case ElementStep::Source::kNumber: b = step.number; break;
      case ElementStep::Source::kAccumulator: b = a; break;
      case ElementStep::Source::kRegister: b = kept[step.index]; break;
    }
    if (step.kind == ElementStep::Kind::kLoad) a = b;
    if (step.kind == ElementStep::Kind::kThird) c = b;
    if (step.kind == ElementStep::Kind::kApply) {
      const double left = step.swapped ? b : a, right = step.swapped ? a : b;
      with_formula(step.op, step.alpha, step.beta, [&](auto f) { a = f(left, right, c); });
    }
    if (step.save >= 0) kept[step.save] = a;
  }
  return a;
}

TEST(ElementSteps, KeepWhatIsNeededLater) {
  struct Case {
    const char* text;
    double expected;  // of x = 3, 5, 7
  };
  for (const Case& test : {
           Case{"y = Sub(x0, x1)", -2},
           Case{"t0 = Neg(x0); y = Sub(x1, t0)", 8},
           Case{"t0 = Neg(x0); y = Sub(t0, t0)", 0},
           Case{"t0 = Neg(x0); t1 = Neg(x1); y = Sub(t0, t1)", 2},
           Case{"t0 = Neg(x0); t1 = Add(t0, x1); t2 = Mul(t0, t1); y = Div(t2, t0)", 2},
           Case{"t0 = Greater(x1, x0); t1 = Neg(x2); y = Where(t0, t1, x0)", -7},
           Case{"t0 = Neg(x2); t1 = Add(x0, x1); y = Where(0, x0, t1)", 8},
           Case{"t0 = Neg(x2); y = Where(t0, t0, t0)", -7},
           Case{"t0 = Neg(x2); y = Where(0, x0, t0)", -7},
           Case{"t0 = Neg(x2); y = Where(1, t0, t0)", -7},
           Case{"t0 = Neg(x0); t1 = Neg(x1); t2 = Neg(x2); t3 = Mul(x0, x0); t4 = Add(t3, t2); "
                "t5 = Add(t4, t1); y = Add(t5, t0)",
                -6},
       }) {
    const auto program = parse_element_program(test.text, 3);
    ASSERT_TRUE(program.ok()) << program.status().message();
    const auto steps = element_steps(*program);
    ASSERT_TRUE(steps.ok()) << test.text << ": " << steps.status().message();
    EXPECT_EQ(run_steps(*steps, {3, 5, 7}), test.expected) << test.text;
  }
}

TEST(ElementSteps, RegistersAreLimited) {
  const auto program = parse_element_program(
      "t0 = Neg(x0); t1 = Abs(x0); t2 = Exp(x0); t3 = Sin(x0); t4 = Cos(x0); t5 = Add(t0, t1); "
      "t6 = Add(t2, t3); t7 = Add(t5, t6); y = Add(t7, t4)",
      1);
  ASSERT_TRUE(program.ok()) << program.status().message();
  EXPECT_EQ(element_steps(*program).status().code(), StatusCode::kUnimplemented);
}

// append_operation() spells out what takes several operations.
TEST(ElementProgram, OperatorsOfSeveralOperations) {
  const auto program_of = [](std::string_view op, std::vector<bool> present) {
    ElementProgram program;
    std::vector<ElementSource> sources;
    for (std::size_t i = 0; i < present.size(); ++i) {
      sources.push_back(ElementSource::operand(static_cast<int>(i)));
    }
    EXPECT_TRUE(append_operation(op, {}, sources, present, program).ok());
    return format_element_program(program);
  };
  EXPECT_EQ(program_of("Clip", {true, true, true}), "t0 = AtLeast(x0, x1); y = AtMost(t0, x2)");
  EXPECT_EQ(program_of("Clip", {true, false, true}), "y = AtMost(x0, x2)");
  EXPECT_EQ(program_of("ClipGrad", {true, true, false, true}),
            "t0 = AtLeastGrad(x0, x1, -inf); y = AtMostGrad(t0, x1, x3)");
  EXPECT_EQ(program_of("AddN", {true, true, true}), "t0 = Add(x0, x1); y = Add(t0, x2)");
  EXPECT_EQ(program_of("Mean", {true, true}), "t0 = Add(x0, x1); y = Div(t0, 2)");
}

}  // namespace
}  // namespace mezzo::kernels
