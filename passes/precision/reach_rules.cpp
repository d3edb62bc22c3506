#include "passes/precision/reach_rules.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>

#include "compiler/ops/op_def.h"
#include "passes/precision/reach_arithmetic.h"
#include "passes/precision/reach_operands.h"

namespace mezzo::passes {
namespace {

using ReachRule = Reach (*)(const Operands&);

Reach copy(const Operands& in) { return in[0]; }

Reach add(const Operands& in) { return sum(in[0], in[1]); }

// Is `max` at least as large as every element of `value`?
bool is_above(const Value& max, const Value& value) {
  const Node* node = max.producer();
  if (node == nullptr) return false;
  if (node->is("ReduceMax")) return node->operand(0) == &value;
  const std::vector<Value*> operands = node->operands();
  return node->is("Max") && std::any_of(operands.begin(), operands.end(), [&](const Value* one) {
           const Node* inner = one == nullptr ? nullptr : one->producer();
           return one == &value ||
                  (inner != nullptr && inner->is("ReduceMax") && inner->operand(0) == &value);
         });
}

Reach sub(const Operands& in) {
  Reach out = sum(in[0], negated(in[1]));
  if (is_above(in.value(1), in.value(0))) out.highest = 0;  // x - max(x)
  return out;
}

Reach mul(const Operands& in) {
  return &in.value(0) == &in.value(1) ? squared(in[0]) : product(in[0], in[1]);
}

Reach div(const Operands& in) {
  const Reach &a = in[0], &b = in[1];
  Reach out = product(a, inverted(b));
  out.counts = joined_kind(a, b).counts;
  if (b.growth > Growth::kInverse) {
    out.growth = a.pure ? Growth::kInverse : Growth::kOrdinary;
  } else if (b.growth == Growth::kInverse) {
    out.growth = std::max(a.growth, Growth::kSquare);
  } else {
    out.growth = a.growth;
  }
  const ConstantFacts& divisor = in.analysis().constant(in.value(1));
  if (divisor.known && divisor.smallest_nonzero > 0) out.scale = size(a) / divisor.smallest_nonzero;
  return out;
}

// Any base with any exponent: only the sign is known.
Reach power_of_values(const Reach& base, const Reach& exponent) {
  Reach out;
  out.growth = Growth::kExponential;
  out.cause = base.cause != nullptr ? base.cause : exponent.cause;
  if (base.lowest >= 0) out.lowest = 0;
  return out;
}

Reach pow(const Operands& in) {
  const std::optional<double> exponent = in.scalar(1);
  if (!exponent || std::isnan(*exponent)) return power_of_values(in[0], in[1]);
  const double power = std::fabs(*exponent);
  if (power == 0) return bounded(1, 1);
  Reach out = in[0];
  if (power < 1) {
    out = root(out, power);
  } else if (power > 1) {
    out = squared(out);
    if (power != 2) {
      out.lowest = in[0].lowest >= 0 ? 0 : -Reach::kUnknown;
      out.highest = std::pow(in[0].bound(), power);
      out.scale = std::pow(in[0].scale, power);
    }
  }
  return *exponent < 0 ? inverted(out) : out;
}

Reach exp(const Operands& in) { return exponential(in[0]); }
Reach sqrt(const Operands& in) { return root(in[0], 0.5); }
Reach reciprocal(const Operands& in) { return inverted(in[0]); }
Reach neg(const Operands& in) { return negated(in[0]); }

Reach abs(const Operands& in) {
  Reach out = in[0];
  const double least = std::min(std::fabs(out.lowest), std::fabs(out.highest));
  const bool apart = out.lowest > 0 || out.highest < 0;
  out.highest = in[0].bound();
  out.lowest = apart ? least : 0;
  return out;
}

Reach softplus(const Operands& in) {  // max(x, 0) + log 2 at most
  Reach out = in[0];
  out.lowest = 0;
  out.highest = std::max(0.0, out.highest) + std::log(2.0);
  out.scale = std::max(out.scale, std::log(2.0));
  return out;
}

Reach relu(const Operands& in) {
  Reach out = in[0];
  out.lowest = std::max(0.0, out.lowest);
  out.highest = std::max(0.0, out.highest);
  return out;
}

Reach clip(const Operands& in) {
  const Node& node = in.node();
  const auto limit = [&](std::size_t operand, std::string_view attribute) {
    if (node.has_attribute(attribute))
      return std::optional<double>(node.float_attribute(attribute, 0));
    return in.has(operand) ? in.scalar(operand) : std::nullopt;
  };
  return limited(in[0], limit(1, "min"), limit(2, "max"));
}

Reach max_or_min(const Operands& in) {
  const bool is_max = in.node().is("Max");
  Reach out;
  std::optional<double> limit;
  bool first = true;
  for (std::size_t i = 0; i < in.count(); ++i) {
    const auto scalar = in.count() > 1 ? in.scalar(i) : std::nullopt;
    if (scalar && (is_max ? *scalar <= 0 : *scalar >= 0)) {  // a floor or ceiling
      limit = scalar;
      continue;
    }
    out = first ? in[i] : either(out, in[i]);
    first = false;
  }
  return is_max ? limited(out, limit, {}) : limited(out, {}, limit);
}

Reach sum_of_all(const Operands& in) {
  Reach out = in[0];
  for (std::size_t i = 1; i < in.count(); ++i) out = sum(out, in[i]);
  return out;
}

Reach where(const Operands& in) { return either(in[1], in[2]); }

Reach concat(const Operands& in) {
  Reach out = in[0];
  for (std::size_t i = 1; i < in.count(); ++i) out = either(out, in[i]);
  return out;
}

// Below zero times a slope.
Reach leaky(const Operands& in) {
  const double alpha = in.node().float_attribute("alpha", 0.01F);
  Reach below = in[0];
  below.lowest = std::min(0.0, below.lowest);
  below.highest = std::min(0.0, below.highest);
  below = product(below, in.node().is("PRelu") ? in[1] : bounded(alpha, alpha));
  Reach out = in[0];
  if (in[0].lowest < 0) {
    out.lowest = below.lowest;
    out.highest = in[0].highest > 0 ? std::max(out.highest, below.highest) : below.highest;
  }
  return out;
}

Reach average_pool(const Operands& in) {
  return in.node().int_attribute("count_include_pad", 0) != 0 ? with_zero(in[0]) : in[0];
}

// Cubic interpolation overshoots; what is filled in beyond the edges may be any number.
Reach resize(const Operands& in) {
  Reach out = in[0];
  if (in.node().string_attribute("mode", "nearest") == "cubic" ||
      in.node().has_attribute("extrapolation_value")) {
    out.lowest = -Reach::kUnknown;
    out.highest = Reach::kUnknown;
  }
  return out;
}

// What is filled in far below all others ("never", for a MaxPool) is not meant to be computed with.
Reach pad(const Operands& in) {
  if (!in.has(2)) return with_zero(in[0]);
  return in[2].never > 0 ? in[0] : either(in[0], in[2]);
}

Reach zero_to_one(const Operands&) { return bounded(0, 1); }
Reach one_both_ways(const Operands&) { return bounded(-1, 1); }

Reach ordinary(const Operands&) { return {}; }

// Position of the largest element, or indices along an axis: bounded by its extent.
Reach arg(const Operands& in) {
  Reach out;
  out.counts = true;
  out.lowest = 0;
  const auto& type = in.value(0).type;
  const auto rank = type.is_tensor() ? type.tensor.rank() : std::nullopt;
  if (!rank) return out;
  std::int64_t axis = in.node().int_attribute("axis", 0);
  if (axis < 0) axis += static_cast<std::int64_t>(*rank);
  if (axis < 0 || axis >= static_cast<std::int64_t>(*rank)) return out;
  const Dim& dim = (*type.tensor.shape)[static_cast<std::size_t>(axis)];
  if (dim.known()) out.highest = static_cast<double>(dim.value);
  out.scale = dim.known() ? out.highest : 1;
  return out;
}

// To a whole number next to it.
Reach rounded(const Operands& in) {
  Reach out = in[0];
  out.lowest = std::floor(out.lowest);
  out.highest = std::ceil(out.highest);
  return out;
}

// Truth values are 0 and 1 whatever they were made of.
Reach cast(const Operands& in) {
  const Value* result = in.node().result();
  if (result != nullptr && result->dtype() == DType::kBool) return bounded(0, 1);
  return result != nullptr && is_floating(result->dtype()) ? in[0] : rounded(in);
}

// Of integers, -1 mod 5 is 4; with fmod the sign and no more than the size of the dividend stays.
Reach mod(const Operands& in) {
  Reach out = joined_kind(in[0], in[1]);
  const bool shrinks =
      in.node().int_attribute("fmod", 0) != 0 || (in[0].lowest >= 0 && in[1].lowest >= 0);
  out.highest = shrinks ? std::min(in[0].bound(), in[1].bound()) : in[1].bound();
  out.lowest = in[0].lowest >= 0 && shrinks ? 0 : -out.highest;
  out.scale = std::min(in[0].scale, in[1].scale);
  return out;
}

Reach one_hot(const Operands& in) { return in[2]; }

Reach range(const Operands& in) {
  Reach out = either(in[0], in[1]);
  out.counts = true;
  out.cause = in.node().result();
  return out;
}

Reach constant_of_shape(const Operands& in) {
  const Attribute* fill = in.node().attribute("value");
  const auto* tensor = fill == nullptr ? nullptr : std::get_if<NamedTensor>(&fill->value);
  if (tensor == nullptr) return bounded(0, 0);
  const std::vector<double> values = tensor->tensor->to_doubles();
  if (values.size() != 1 || std::isnan(values[0])) return {};
  return bounded(values[0], values[0]);
}

struct RuleRow {
  std::string_view op;
  std::size_t operands_read;  // without asking whether they are there
  ReachRule rule;
};
constexpr std::size_t kAll = static_cast<std::size_t>(-1);

constexpr RuleRow kRules[] = {
    {"Abs", 1, abs},
    {"Add", 2, add},
    {"ArgMax", 1, arg},
    {"ArgMin", 1, arg},
    {"AveragePool", 1, average_pool},
    {"Cast", 1, cast},
    {"CastLike", 1, cast},
    {"Ceil", 1, rounded},
    {"Clip", 1, clip},
    {"Concat", kAll, concat},
    {"ConstantOfShape", 0, constant_of_shape},
    {"Conv", 2, contraction},
    {"ConvTranspose", 2, contraction},
    {"Cos", 0, one_both_ways},
    {"CumSum", 1, cumulated_sum},
    {"Div", 2, div},
    {"Einsum", 2, contraction},
    {"Erf", 0, one_both_ways},
    {"Exp", 1, exp},
    {"EyeLike", 0, zero_to_one},
    {"Floor", 1, rounded},
    {"Gemm", 2, contraction},
    {"GlobalAveragePool", 1, copy},
    {"GlobalMaxPool", 1, copy},
    {"HardSigmoid", 0, zero_to_one},
    {"Hardmax", 0, zero_to_one},
    {"LeakyRelu", 1, leaky},
    {"Log", 0, ordinary},
    {"LogSoftmax", 0, ordinary},
    {"MatMul", 2, contraction},
    {"Max", kAll, max_or_min},
    {"MaxPool", 1, copy},
    {"Mean", kAll, concat},
    {"Min", kAll, max_or_min},
    {"Mod", 2, mod},
    {"Mul", 2, mul},
    {"Neg", 1, neg},
    {"OneHot", 3, one_hot},
    {"PRelu", 2, leaky},
    {"Pad", 1, pad},
    {"Pow", 2, pow},
    {"RandomUniformLike", 0, ordinary},
    {"Range", 2, range},
    {"Reciprocal", 1, reciprocal},
    {"ReduceL1", 1, reduce_l1},
    {"ReduceL2", 1, reduce_l2},
    {"ReduceLogSum", 0, ordinary},
    {"ReduceLogSumExp", 0, ordinary},
    {"ReduceMax", 1, copy},
    {"ReduceMean", 1, copy},
    {"ReduceMin", 1, copy},
    {"ReduceProd", 1, reduce_prod},
    {"ReduceSum", 1, reduce_sum},
    {"ReduceSumSquare", 1, reduce_sum_square},
    {"Relu", 1, relu},
    {"Resize", 1, resize},
    {"Round", 1, rounded},
    {"Sigmoid", 0, zero_to_one},
    {"Sign", 0, one_both_ways},
    {"Sin", 0, one_both_ways},
    {"Softmax", 0, zero_to_one},
    {"Softplus", 1, softplus},
    {"Softsign", 0, one_both_ways},
    {"Sqrt", 1, sqrt},
    {"Sub", 2, sub},
    {"Sum", kAll, sum_of_all},
    {"Tanh", 0, one_both_ways},
    {"Upsample", 1, copy},
    {"Where", 3, where},
};
constexpr bool precedes(const RuleRow& a, const RuleRow& b) { return a.op < b.op; }
static_assert(std::is_sorted(std::begin(kRules), std::end(kRules), precedes));

const RuleRow* find_rule(std::string_view op) {
  const RuleRow* found =
      std::lower_bound(std::begin(kRules), std::end(kRules), RuleRow{op, 0, nullptr}, precedes);
  return found != std::end(kRules) && found->op == op ? found : nullptr;
}

bool has_leading_operands(const Node& node, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (node.operand(i) == nullptr) return false;
  }
  return true;
}

}  // namespace

std::optional<Reach> reach_of_result(const Node& node, std::size_t index,
                                     const ReachAnalysis& analysis) {
  const OpDef* def = find_op(node);
  if (def == nullptr || !node.domain().empty()) return std::nullopt;
  const Operands in(node, analysis);
  if (const RuleRow* row = find_rule(node.op_type())) {
    const std::size_t read = std::min(row->operands_read, node.operand_count());
    const bool enough = row->operands_read == kAll ? read > 0 : read == row->operands_read;
    if (index > 0 || !enough || !has_leading_operands(node, read)) return std::nullopt;
    return row->rule(in);
  }
  const bool same_type = node.operand(0) != nullptr && node.result(index) != nullptr &&
                         node.operand(0)->dtype() == node.result(index)->dtype();
  if (def->precision == PrecisionCategory::kClear && same_type) return in[0];
  return std::nullopt;
}

}  // namespace mezzo::passes
