#include "kernels/element_program.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>

#include "kernels/philox.h"

namespace mezzo::kernels {
namespace {

enum class Use : std::uint8_t {
  kFused,   // also in programs as text
  kSingle,  // not: rare, or for integers
};

struct OpRow {
  std::string_view name;
  ElementOp op;
  int arity;
  Use use = Use::kFused;
  std::string_view alpha_name = "";
  double alpha = 0.0;
  std::string_view beta_name = "";
  double beta = 0.0;
};

using enum ElementOp;
using enum Use;

// Defaults of attributes, which are float32 in ONNX.
constexpr double kFifth = 0.2F;
constexpr double kHundredth = 0.01F;

constexpr OpRow kRows[] = {
    {"Identity", kIdentity, 1, kSingle},
    {"Relu", kRelu, 1},
    {"Sigmoid", kSigmoid, 1},
    {"Tanh", kTanh, 1},
    {"Erf", kErf, 1},
    {"Exp", kExp, 1},
    {"Log", kLog, 1},
    {"Sqrt", kSqrt, 1},
    {"Reciprocal", kReciprocal, 1},
    {"Neg", kNeg, 1},
    {"Abs", kAbs, 1},
    {"Softplus", kSoftplus, 1},
    {"HardSigmoid", kHardSigmoid, 1, kFused, "alpha", kFifth, "beta", 0.5},
    {"HardSwish", kHardSwish, 1},
    {"LeakyRelu", kLeakyRelu, 1, kFused, "alpha", kHundredth},
    {"Elu", kElu, 1, kFused, "alpha", 1.0},
    {"Sin", kSin, 1},
    {"Cos", kCos, 1},
    {"Gelu", kGelu, 1},
    {"Swish", kSwish, 1, kFused, "alpha", 1.0},
    {"Floor", kFloor, 1},
    {"Ceil", kCeil, 1},
    {"Round", kRound, 1},
    {"Sign", kSign, 1},
    {"Tan", kTan, 1, kSingle},
    {"Asin", kAsin, 1, kSingle},
    {"Acos", kAcos, 1, kSingle},
    {"Atan", kAtan, 1, kSingle},
    {"Sinh", kSinh, 1, kSingle},
    {"Cosh", kCosh, 1, kSingle},
    {"Asinh", kAsinh, 1, kSingle},
    {"Acosh", kAcosh, 1, kSingle},
    {"Atanh", kAtanh, 1, kSingle},
    {"Selu", kSelu, 1, kFused, "alpha", 1.67326319217681884765625, "gamma",
     1.05070102214813232421875},
    {"Celu", kCelu, 1, kSingle, "alpha", 1.0},
    {"Mish", kMish, 1},
    {"Softsign", kSoftsign, 1},
    {"ThresholdedRelu", kThresholdedRelu, 1, kFused, "alpha", 1.0},
    {"Shrink", kShrink, 1, kFused, "lambd", 0.5, "bias", 0.0},
    {"IsNaN", kIsNan, 1},
    {"IsInf", kIsInf, 1, kFused, "detect_negative", 1.0, "detect_positive", 1.0},
    {"Not", kNot, 1, kSingle},
    {"BitwiseNot", kBitNot, 1, kSingle},
    {"Add", kAdd, 2},
    {"Sub", kSub, 2},
    {"Mul", kMul, 2},
    {"Div", kDiv, 2},
    {"Pow", kPow, 2},
    {"Max", kMax, 2},
    {"Min", kMin, 2},
    {"Mod", kMod, 2, kSingle},
    {"PRelu", kPRelu, 2},
    {"Equal", kEqual, 2},
    {"Less", kLess, 2},
    {"Greater", kGreater, 2},
    {"LessOrEqual", kLessOrEqual, 2},
    {"GreaterOrEqual", kGreaterOrEqual, 2},
    {"And", kAnd, 2, kSingle},
    {"Or", kOr, 2, kSingle},
    {"Xor", kXor, 2, kSingle},
    {"BitwiseAnd", kBitAnd, 2, kSingle},
    {"BitwiseOr", kBitOr, 2, kSingle},
    {"BitwiseXor", kBitXor, 2, kSingle},
    {"AtLeast", kAtLeast, 2},
    {"AtMost", kAtMost, 2},
    {"ReluGrad", kReluGrad, 2},
    {"SigmoidGrad", kSigmoidGrad, 2},
    {"TanhGrad", kTanhGrad, 2},
    {"ExpGrad", kExpGrad, 2},
    {"SqrtGrad", kSqrtGrad, 2},
    {"ReciprocalGrad", kReciprocalGrad, 2},
    {"GeluGrad", kGeluGrad, 2},
    {"SwishGrad", kSwishGrad, 2, kFused, "alpha", 1.0},
    {"ErfGrad", kErfGrad, 2},
    {"SoftplusGrad", kSoftplusGrad, 2},
    {"HardSwishGrad", kHardSwishGrad, 2},
    {"HardSigmoidGrad", kHardSigmoidGrad, 2, kFused, "alpha", kFifth, "beta", 0.5},
    {"LeakyReluGrad", kLeakyReluGrad, 2, kFused, "alpha", kHundredth},
    {"EluGrad", kEluGrad, 2, kFused, "alpha", 1.0},
    {"LogGrad", kLogGrad, 2},
    {"AbsGrad", kAbsGrad, 2},
    {"SinGrad", kSinGrad, 2},
    {"CosGrad", kCosGrad, 2},
    {"DropoutGrad", kDropoutGrad, 2, kFused, "ratio", 0.5},
    {"Where", kWhere, 3},
    {"PowGrad", kPowGrad, 3},
    {"AtLeastGrad", kAtLeastGrad, 3},
    {"AtMostGrad", kAtMostGrad, 3},
};

// Operations that are an operator with a word in an attribute.
struct Variant {
  ElementOp op;
  ElementOp base;
  std::string_view attribute, word;
  int arity;
  Use use;
};
constexpr Variant kVariants[] = {
    {kGeluTanh, kGelu, "approximate", "tanh", 1, kFused},
    {kGeluTanhGrad, kGeluGrad, "approximate", "tanh", 2, kFused},
    {kToHalf, kIdentity, "to", "float16", 1, kFused},
    {kToBrain, kIdentity, "to", "bfloat16", 1, kFused},
    {kIsTrue, kIdentity, "to", "bool", 1, kFused},
    {kFMod, kMod, "", "", 2, kSingle},
    {kShiftLeft, kIdentity, "", "", 2, kSingle},
    {kShiftRight, kIdentity, "", "", 2, kSingle},
};

const OpRow* find_row(std::string_view name) {
  const auto* row = std::find_if(std::begin(kRows), std::end(kRows),
                                 [&](const OpRow& each) { return each.name == name; });
  return row == std::end(kRows) ? nullptr : row;
}
const OpRow* find_row(ElementOp op) {
  const auto* row = std::find_if(std::begin(kRows), std::end(kRows),
                                 [&](const OpRow& each) { return each.op == op; });
  return row == std::end(kRows) ? nullptr : row;
}
const Variant* find_variant(ElementOp op) {
  const auto* row = std::find_if(std::begin(kVariants), std::end(kVariants),
                                 [&](const Variant& each) { return each.op == op; });
  return row == std::end(kVariants) ? nullptr : row;
}

ElementSource bound(const std::vector<ElementSource>& sources, const std::vector<bool>& is_present,
                    std::size_t i, double otherwise) {
  return i < sources.size() && is_present[i] ? sources[i] : ElementSource::constant(otherwise);
}

ElementSource last(const ElementProgram& program) {
  return ElementSource::result(static_cast<int>(program.statements.size()) - 1);
}

void append(ElementProgram& program, ElementOp op, std::vector<ElementSource> sources) {
  program.statements.push_back({op, 0.0, 0.0, std::move(sources)});
}

// `to` is the dtype's name.
StatusOr<ElementStatement> cast_operation(const Attributes& attributes) {
  const std::string word = attributes.get_string("to", "");
  for (const Variant& variant : kVariants) {
    if (variant.base == kIdentity && variant.attribute == "to" && variant.word == word) {
      return ElementStatement{variant.op, 0.0, 0.0, {}};
    }
  }
  return unimplemented("Cast: attribute 'to' is '" + word +
                       "', expected 'float16', 'bfloat16' or 'bool'");
}

}  // namespace

int element_op_arity(ElementOp op) {
  if (const Variant* variant = find_variant(op)) return variant->arity;
  const OpRow* row = find_row(op);
  return row == nullptr ? 1 : row->arity;
}

bool may_be_fused(ElementOp op) {
  if (const Variant* variant = find_variant(op)) return variant->use == kFused;
  const OpRow* row = find_row(op);
  return row != nullptr && row->use == kFused;
}

std::string shortest_text(double number) {
  char room[32];
  const auto single = static_cast<float>(number);
  const auto end = std::to_chars(std::begin(room), std::end(room), single).ptr;
  return {std::begin(room), end};
}

ElementName element_name(const ElementStatement& statement) {
  ElementName result;
  const Variant* variant = find_variant(statement.op);
  const OpRow* row = find_row(variant == nullptr ? statement.op : variant->base);
  result.name = row->op == kIdentity ? "Cast" : row->name;
  if (variant != nullptr) result.attributes.emplace_back(variant->attribute, variant->word);
  const double alpha = row->op == kDropoutGrad ? statement.beta : statement.alpha;
  if (!row->alpha_name.empty() && alpha != row->alpha) {
    result.attributes.emplace_back(row->alpha_name, shortest_text(alpha));
  }
  if (!row->beta_name.empty() && statement.beta != row->beta) {
    result.attributes.emplace_back(row->beta_name, shortest_text(statement.beta));
  }
  return result;
}

StatusOr<ElementStatement> element_operation(std::string_view op, const Attributes& attributes) {
  if (op == "Cast") return cast_operation(attributes);
  const OpRow* row = find_row(op);
  if (row == nullptr) return unimplemented(std::string(op) + ": not one elementwise operation");
  ElementStatement statement{row->op, row->alpha, row->beta, {}};
  if (!row->alpha_name.empty()) {
    statement.alpha = attributes.get_float(row->alpha_name, row->alpha);
  }
  if (!row->beta_name.empty()) statement.beta = attributes.get_float(row->beta_name, row->beta);
  if (row->op == kDropoutGrad) {
    if (!(statement.alpha >= 0.0 && statement.alpha <= 1.0)) {
      return invalid_argument(std::string(op) + ": attribute 'ratio' is " +
                              std::to_string(statement.alpha) + ", expected 0 to 1");
    }
    statement.beta = statement.alpha;
    statement.alpha = dropout_scale(statement.beta);
  }
  if (row->op == kMod && attributes.get_int("fmod", 0) != 0) statement.op = kFMod;
  if (row->op == kGelu || row->op == kGeluGrad) {
    const std::string kind = attributes.get_string("approximate", "none");
    if (kind != "none" && kind != "tanh") {
      return invalid_argument(std::string(op) + ": attribute 'approximate' is '" + kind +
                              "', expected 'none' or 'tanh'");
    }
    if (kind == "tanh") statement.op = row->op == kGelu ? kGeluTanh : kGeluTanhGrad;
  }
  return statement;
}

Status append_operation(std::string_view op, const Attributes& attributes,
                        const std::vector<ElementSource>& sources,
                        const std::vector<bool>& is_present, ElementProgram& program) {
  const double infinity = HUGE_VAL;
  if (op == "Clip") {
    ElementSource x = sources.at(0);
    if (sources.size() > 1 && is_present[1]) {
      append(program, kAtLeast, {x, sources[1]});
      x = last(program);
    }
    if (sources.size() > 2 && is_present[2]) {
      append(program, kAtMost, {x, sources[2]});
      x = last(program);
    }
    if (x.kind == ElementSource::Kind::kOperand) append(program, kIdentity, {x});
    return ok_status();
  }
  if (op == "ClipGrad") {
    append(program, kAtLeastGrad,
           {sources.at(0), sources.at(1), bound(sources, is_present, 2, -infinity)});
    append(program, kAtMostGrad,
           {last(program), sources[1], bound(sources, is_present, 3, infinity)});
    return ok_status();
  }
  if (op == "AddN" || op == "Sum" || op == "Mean") {
    ElementSource sum = sources.at(0);
    for (std::size_t i = 1; i < sources.size(); ++i) {
      append(program, kAdd, {sum, sources[i]});
      sum = last(program);
    }
    if (op == "Mean" && sources.size() > 1) {
      append(program, kDiv, {sum, ElementSource::constant(static_cast<double>(sources.size()))});
    } else if (sources.size() == 1) {
      append(program, kIdentity, {sum});
    }
    return ok_status();
  }
  MEZZO_ASSIGN_OR_RETURN(ElementStatement statement, element_operation(op, attributes));
  if (static_cast<std::size_t>(element_op_arity(statement.op)) != sources.size()) {
    return invalid_argument(std::string(op) + ": expected " +
                            std::to_string(element_op_arity(statement.op)) + " operands, got " +
                            std::to_string(sources.size()));
  }
  statement.sources = sources;
  program.statements.push_back(std::move(statement));
  return ok_status();
}

}  // namespace mezzo::kernels
