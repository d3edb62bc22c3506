#include "passes/precision/reach_rules.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <unordered_map>

#include "compiler/ops/constants.h"
#include "compiler/ops/op_def.h"
#include "passes/precision/reach_arithmetic.h"

namespace mezzo::passes {
namespace {

// A node with its operands' reach at hand.
class Operands {
 public:
  Operands(const Node& node, const ReachAnalysis& analysis) : node_(node), analysis_(analysis) {}

  const Node& node() const { return node_; }
  std::size_t count() const { return node_.operand_count(); }
  bool has(std::size_t i) const { return node_.operand(i) != nullptr; }
  const Value& value(std::size_t i) const { return *node_.operand(i); }
  const Reach& operator[](std::size_t i) const { return analysis_.of(value(i)); }
  const ReachAnalysis& analysis() const { return analysis_; }
  std::optional<double> scalar(std::size_t i) const { return constant_scalar(node_.operand(i)); }

 private:
  const Node& node_;
  const ReachAnalysis& analysis_;
};
using ReachRule = Reach (*)(const Operands&);

Reach copy(const Operands& in) { return in[0]; }

Reach add(const Operands& in) { return sum(in[0], in[1]); }

Reach sub(const Operands& in) {
  Reach out = sum(in[0], negated(in[1]));
  const Node* max = in.value(1).producer();
  if (max != nullptr && (max->is("ReduceMax") || max->is("Max")) &&
      max->operand(0) == &in.value(0)) {
    out.highest = 0;  // x - max(x)
  }
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

Reach pow(const Operands& in) {
  const auto exponent = in.scalar(1);
  if (!exponent) return exponential(in[0]);
  const double power = std::fabs(*exponent);
  Reach out = in[0];
  if (power == 0.5) {
    out = root(out);
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
Reach sqrt(const Operands& in) { return root(in[0]); }
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

// What is filled in far below all others ("never", for a MaxPool) is not meant to be computed with.
Reach pad(const Operands& in) {
  if (!in.has(2)) return in[0];
  return in[2].never > 0 ? in[0] : either(in[0], in[2]);
}

Reach zero_to_one(const Operands&) { return bounded(0, 1); }
Reach one_both_ways(const Operands&) { return bounded(-1, 1); }

Reach ordinary(const Operands&) { return {}; }

Reach summed(Reach reach, const Operands& in) {
  const double elems = summed_elems(in.node()).value_or(kAssumedSum);
  reach.lowest = times(reach.lowest, elems);
  reach.highest = times(reach.highest, elems);
  reach.scale = times(size(reach), elems);
  reach.never = 0;
  if (reach.cause == nullptr) reach.cause = in.node().result();
  return reach;
}

Reach reduce_sum(const Operands& in) { return summed(in[0], in); }
Reach reduce_sum_square(const Operands& in) { return summed(squared(in[0]), in); }

Reach reduce_l2(const Operands& in) { return root(summed(squared(in[0]), in)); }

Reach reduce_l1(const Operands& in) {
  Reach out = summed(in[0], in);
  out.highest = out.bound();
  out.lowest = 0;
  return out;
}

Reach reduce_prod(const Operands& in) {
  Reach out = in[0];
  if (out.bound() > 1) out.lowest = -Reach::kUnknown, out.highest = Reach::kUnknown;
  out.growth = Growth::kExponential;
  return out;
}

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

// Truth values are 0 and 1 whatever they were made of.
Reach cast(const Operands& in) {
  const Value* result = in.node().result();
  return result != nullptr && result->dtype() == DType::kBool ? bounded(0, 1) : in[0];
}

Reach mod(const Operands& in) {
  Reach out = joined_kind(in[0], in[1]);
  out.highest = std::min(in[0].bound(), in[1].bound());
  out.lowest = -out.highest;
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

// Ordinary where both operands are: what a long sum of products comes to, only data can tell.
Reach contraction(const Operands& in) {
  const Node& node = in.node();
  const Reach &a = in[0], &b = in[1];
  if (summed_elems(node) == 1.0) return product(a, b);  // an outer product
  if (const Value* factor = uniform_factor(node, in.analysis())) {
    const Value& other = factor == &in.value(0) ? in.value(1) : in.value(0);
    return summed(product(in.analysis().of(other), in.analysis().of(*factor)), in);
  }
  Reach out;
  if (std::max(a.growth, b.growth) == Growth::kExponential) out.growth = Growth::kExponential;
  // Weights of about 1 / sqrt(K) and the like leave activations what they are.
  const double scale = times(a.scale, b.scale);
  if (scale > 1e4 || (scale > 0 && scale < 1e-4)) out.scale = scale;
  out.cause = a.scale > b.scale ? a.cause : b.cause;
  return out;
}

const std::unordered_map<std::string_view, ReachRule>& rules() {
  static const auto* table = new std::unordered_map<std::string_view, ReachRule>{
      {"Add", add},
      {"Sub", sub},
      {"Mul", mul},
      {"Div", div},
      {"Pow", pow},
      {"Exp", exp},
      {"Sqrt", sqrt},
      {"Reciprocal", reciprocal},
      {"Neg", neg},
      {"Abs", abs},
      {"Relu", relu},
      {"Clip", clip},
      {"Max", max_or_min},
      {"Min", max_or_min},
      {"Sum", sum_of_all},
      {"Mean", concat},
      {"Where", where},
      {"Concat", concat},
      {"Pad", pad},
      {"Sigmoid", zero_to_one},
      {"HardSigmoid", zero_to_one},
      {"Softmax", zero_to_one},
      {"Hardmax", zero_to_one},
      {"EyeLike", zero_to_one},
      {"RandomUniformLike", ordinary},
      {"Tanh", one_both_ways},
      {"Erf", one_both_ways},
      {"Sin", one_both_ways},
      {"Cos", one_both_ways},
      {"Softsign", one_both_ways},
      {"Sign", one_both_ways},
      {"Log", ordinary},
      {"Softplus", ordinary},
      {"LogSoftmax", ordinary},
      {"ReduceLogSumExp", ordinary},
      {"ReduceLogSum", ordinary},
      {"ReduceSum", reduce_sum},
      {"CumSum", reduce_sum},
      {"ReduceL1", reduce_l1},
      {"ReduceL2", reduce_l2},
      {"ReduceSumSquare", reduce_sum_square},
      {"ReduceProd", reduce_prod},
      {"ReduceMean", copy},
      {"ReduceMax", copy},
      {"ReduceMin", copy},
      {"AveragePool", copy},
      {"GlobalAveragePool", copy},
      {"MaxPool", copy},
      {"GlobalMaxPool", copy},
      {"Cast", cast},
      {"CastLike", cast},
      {"Mod", mod},
      {"Floor", copy},
      {"Ceil", copy},
      {"Round", copy},
      {"LeakyRelu", copy},
      {"PRelu", copy},
      {"Resize", copy},
      {"Upsample", copy},
      {"ArgMax", arg},
      {"ArgMin", arg},
      {"OneHot", one_hot},
      {"Range", range},
      {"ConstantOfShape", constant_of_shape},
      {"MatMul", contraction},
      {"Gemm", contraction},
      {"Conv", contraction},
      {"ConvTranspose", contraction},
      {"Einsum", contraction},
  };
  return *table;
}

bool has_leading_operands(const Node& node, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (node.operand(i) == nullptr) return false;
  }
  return true;
}

// Operands that a rule reads without asking.
std::size_t operands_read(const Node& node, ReachRule rule) {
  if (rule == zero_to_one || rule == one_both_ways || rule == ordinary) return 0;
  if (rule == where || rule == one_hot) return 3;
  if (rule == add || rule == sub || rule == mul || rule == div || rule == mod || rule == pow ||
      rule == range || rule == contraction)
    return 2;
  if (rule == concat || rule == sum_of_all || rule == max_or_min) return node.operand_count();
  return rule == constant_of_shape ? 0 : 1;
}

}  // namespace

std::optional<Reach> reach_of_result(const Node& node, std::size_t index,
                                     const ReachAnalysis& analysis) {
  const OpDef* def = find_op(node);
  if (def == nullptr || !node.domain().empty()) return std::nullopt;
  const Operands in(node, analysis);
  if (const auto rule = rules().find(node.op_type()); rule != rules().end()) {
    if (index > 0 || !has_leading_operands(node, operands_read(node, rule->second)))
      return std::nullopt;
    return rule->second(in);
  }
  const bool same_type = node.operand(0) != nullptr && node.result(index) != nullptr &&
                         node.operand(0)->dtype() == node.result(index)->dtype();
  if (def->precision == PrecisionCategory::kClear && same_type) return in[0];
  return std::nullopt;
}

const Value* uniform_factor(const Node& node, const ReachAnalysis& analysis) {
  for (std::size_t i = 2; i-- > 0;) {
    const Value* operand = node.operand(i);
    if (operand == nullptr || operand->dtype() != DType::kFloat32) continue;
    const ConstantFacts& facts = analysis.constant(*operand);
    if (facts.known && facts.uniform && facts.elems > 1) return operand;
  }
  return nullptr;
}

}  // namespace mezzo::passes
