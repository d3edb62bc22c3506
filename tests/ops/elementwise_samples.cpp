#include "tests/ops/samples.h"

namespace mezzo::test {
namespace {

using Strings = std::initializer_list<const char*>;

// Each op with equal shapes, with both kinds of broadcasting, and with a scalar.
void add_binary(std::vector<OpSample>& samples, Strings ops, double low, double high) {
  for (const char* op : ops) {
    samples.push_back({.op = op, .operands = {f({2, 3}, low, high), f({2, 3}, low + 0.01, high)}});
    samples.push_back(
        {.op = op, .operands = {f({2, 3, 4}, low, high), f({3, 1}, low + 0.01, high)}});
    samples.push_back({.op = op, .operands = {f({4}, low, high), f({2, 1, 4}, low + 0.01, high)}});
    samples.push_back({.op = op, .operands = {f({2, 1}, low, high), f({1, 3}, low + 0.01, high)}});
    samples.push_back({.op = op, .operands = {f({3, 2}, low, high), f({}, low + 0.01, high)}});
  }
}

void add_unary(std::vector<OpSample>& samples, Strings ops, double low, double high) {
  for (const char* op : ops) {
    samples.push_back({.op = op, .operands = {f({7}, low, high)}});
    samples.push_back({.op = op, .operands = {f({2, 3, 2}, low, high)}});
  }
}

void add_activations(std::vector<OpSample>& samples) {
  for (const char* mode : {"none", "tanh"}) {
    samples.push_back({.op = "Gelu",
                       .operands = {f({2, 5})},
                       .attributes = {{"approximate", std::string(mode)}}});
  }
  for (const float alpha : {1.0F, 1.702F}) {
    samples.push_back({.op = "Swish", .operands = {f({2, 5})}, .attributes = {{"alpha", alpha}}});
    samples.push_back(
        {.op = "LeakyRelu", .operands = {f({9})}, .attributes = {{"alpha", 0.1F * alpha}}});
    samples.push_back({.op = "Elu", .operands = {f({9})}, .attributes = {{"alpha", alpha}}});
  }
  samples.push_back({.op = "LeakyRelu", .operands = {f({3, 3})}});
  samples.push_back({.op = "HardSigmoid",
                     .operands = {f({11}, -4.0, 4.0)},
                     .attributes = {{"alpha", 0.25F}, {"beta", 0.4F}}});
  samples.push_back({.op = "HardSigmoid", .operands = {f({11}, -4.0, 4.0)}});
  for (const char* op : {"Selu", "Celu", "ThresholdedRelu", "Shrink", "Mish", "Softsign"}) {
    samples.push_back({.op = op, .operands = {f({2, 7}, -3.0, 3.0)}});
  }
  samples.push_back({.op = "Shrink",
                     .operands = {integers({4}, {-3, 3, 1, -1})},
                     .attributes = {{"lambd", 1.5F}, {"bias", 2.0F}}});
  samples.push_back({.op = "PRelu", .operands = {f({2, 3, 4}), f({3, 1})}});
  samples.push_back({.op = "HardSwish", .operands = {f({13}, -4.3, 4.0)}});
}

void add_clip(std::vector<OpSample>& samples) {
  const OperandSample low = constant({}, {-0.7071});
  const OperandSample high = constant({}, {0.7071});
  samples.push_back({.op = "Clip", .operands = {f({2, 5}), low, high}});
  samples.push_back({.op = "Clip", .operands = {f({9}), absent(), high}});
  samples.push_back({.op = "Clip", .operands = {f({9}), low}});
  samples.push_back({.op = "Clip", .operands = {f({4})}});
}

void add_where_and_cast(std::vector<OpSample>& samples) {
  const OperandSample mask = integers({2, 3}, {1, 0, 1, 1, 0, 0}, DType::kBool);
  samples.push_back({.op = "Where", .operands = {mask, f({2, 3}), f({2, 3})}});
  samples.push_back({.op = "Where", .operands = {mask, f({}), f({4, 2, 3})}});
  samples.push_back({.op = "Where", .operands = {mask, f({3}), f({2, 1})}});
  samples.push_back({.op = "Cast", .operands = {f({5})}, .attributes = {{"to", std::int64_t{10}}}});
  samples.push_back({.op = "CastLike", .operands = {f({2, 2}), constant({1}, {1.0})}});
}

void add_logic(std::vector<OpSample>& samples) {
  for (const char* op : {"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"}) {
    samples.push_back({.op = op, .operands = {f({2, 3}), f({3})}});
  }
  const OperandSample a = integers({4}, {1, 0, 1, 0}, DType::kBool);
  const OperandSample b = integers({4}, {1, 1, 0, 0}, DType::kBool);
  for (const char* op : {"And", "Or", "Xor"}) samples.push_back({.op = op, .operands = {a, b}});
  samples.push_back({.op = "Not", .operands = {a}});
  for (const char* op : {"IsNaN", "IsInf"}) samples.push_back({.op = op, .operands = {f({5})}});
  const OperandSample x = integers({2, 2}, {12, -5, 0, 7}, DType::kInt16);
  const OperandSample y = integers({2}, {10, 3}, DType::kInt16);
  for (const char* op : {"BitwiseAnd", "BitwiseOr", "BitwiseXor"}) {
    samples.push_back({.op = op, .operands = {x, y}});
  }
  samples.push_back({.op = "BitwiseNot", .operands = {x}});
  for (const char* direction : {"LEFT", "RIGHT"}) {
    samples.push_back({.op = "BitShift",
                       .operands = {x, y},
                       .attributes = {{"direction", std::string(direction)}}});
  }
  samples.push_back({.op = "BitCast", .operands = {x}, .attributes = {{"to", std::int64_t{4}}}});
  samples.push_back({.op = "Mod", .operands = {integers({3}, {7, 8, -9}), integers({1}, {4})}});
}

}  // namespace

void add_elementwise_samples(std::vector<OpSample>& samples) {
  add_binary(samples, {"Add", "Sub", "Mul", "Max", "Min"}, -2.0, 2.0);
  add_binary(samples, {"Div"}, 0.5, 3.0);
  add_binary(samples, {"Pow"}, 0.3, 2.5);
  samples.push_back({.op = "Pow", .operands = {f({2, 3}), constant({}, {2.0})}});
  samples.push_back({.op = "Pow", .operands = {f({2, 3}), constant({}, {3.0})}});
  samples.push_back({.op = "Max", .operands = {f({4})}});
  samples.push_back({.op = "Sum", .operands = {f({4})}});
  samples.push_back({.op = "Sum", .operands = {f({2, 3}), f({3})}});
  samples.push_back({.op = "Sum", .operands = {f({2, 3}), f({2, 3}), f({2, 3})}});
  samples.push_back({.op = "Sum", .operands = {f({2, 3}), f({3}), f({4, 1, 1})}});
  samples.push_back({.op = "Mean", .operands = {f({4})}});
  samples.push_back({.op = "Mean", .operands = {f({2, 3}), f({2, 3})}});
  samples.push_back({.op = "Mean", .operands = {f({2, 3}), f({3}), f({4, 1, 1})}});
  add_unary(samples,
            {"Relu", "Sigmoid", "Tanh", "Erf", "Exp", "Neg", "Abs", "Softplus", "Sin", "Cos",
             "Sign", "Ceil", "Floor", "Round"},
            -2.0, 2.0);
  add_unary(samples, {"Sqrt", "Log", "Reciprocal"}, 0.3, 3.0);
  add_unary(samples, {"Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Asinh", "Atanh"}, -0.9, 0.9);
  add_unary(samples, {"Acosh"}, 1.1, 3.0);
  add_activations(samples);
  add_clip(samples);
  add_where_and_cast(samples);
  add_logic(samples);
}

}  // namespace mezzo::test
