// The reach of sums: reductions, and products of matrices.
#include <algorithm>
#include <iterator>
#include <string_view>

#include "passes/precision/reach_arithmetic.h"
#include "passes/precision/reach_operands.h"
#include "passes/precision/reach_rules.h"

namespace mezzo::passes {
namespace {

// A sum of how many elements nobody knows has no bounds but by its sign.
Reach summed(Reach reach, const Operands& in) {
  const std::optional<double> elems = summed_elems(in.node());
  if (elems) {
    reach.lowest = times(reach.lowest, *elems);
    reach.highest = times(reach.highest, *elems);
  } else {
    reach.lowest = reach.lowest < 0 ? -Reach::kUnknown : 0;
    reach.highest = reach.highest > 0 ? Reach::kUnknown : 0;
  }
  reach.scale = times(size(reach), elems.value_or(kAssumedSum));
  reach.never = 0;
  if (reach.cause == nullptr) reach.cause = in.node().result();
  return reach;
}

// What a contraction adds to its products, and zeros that a window reads beyond the edges.
Reach with_bias(Reach products, const Operands& in) {
  const Node& node = in.node();
  if (node.is("Conv") || node.is("ConvTranspose")) products = with_zero(products);
  if (node.is("Gemm") &&
      (node.float_attribute("alpha", 1) != 1 || node.float_attribute("beta", 1) != 1)) {
    products.lowest = -Reach::kUnknown;
    products.highest = Reach::kUnknown;
  } else if (in.count() > 2 && in.has(2)) {
    const Reach whole = node.is("Einsum") ? product(products, in[2]) : sum(products, in[2]);
    products.lowest = whole.lowest;
    products.highest = whole.highest;
  }
  return products;
}

}  // namespace

Reach reduce_sum(const Operands& in) { return summed(in[0], in); }
Reach reduce_sum_square(const Operands& in) { return summed(squared(in[0]), in); }

// The first result sums up one element (none, if `exclusive`), the last one all.
Reach cumulated_sum(const Operands& in) {
  Reach out = summed(in[0], in);
  const bool exclusive = in.node().int_attribute("exclusive", 0) != 0;
  out.lowest = std::min(out.lowest, exclusive ? 0 : in[0].lowest);
  out.highest = std::max(out.highest, exclusive ? 0 : in[0].highest);
  return out;
}

Reach reduce_l2(const Operands& in) { return root(summed(squared(in[0]), in), 0.5); }

Reach reduce_l1(const Operands& in) {
  Reach out = summed(in[0], in);
  out.highest = out.bound();
  out.lowest = 0;
  return out;
}

Reach reduce_prod(const Operands& in) {
  Reach out = in[0];
  const bool positive = out.lowest >= 0;
  out.highest = out.bound() > 1 ? Reach::kUnknown : out.bound();
  out.lowest = positive ? 0 : -out.highest;
  out.growth = Growth::kExponential;
  return out;
}

// Ordinary where both operands are: what a long sum of products comes to, only data can tell.
Reach contraction(const Operands& in) {
  const Node& node = in.node();
  const Reach &a = in[0], &b = in[1];
  if (summed_elems(node) == 1.0) return with_bias(product(a, b), in);  // outer
  if (const Value* factor = uniform_factor(node, in.analysis())) {
    const Value& other = factor == &in.value(0) ? in.value(1) : in.value(0);
    return with_bias(summed(product(in.analysis().of(other), in.analysis().of(*factor)), in), in);
  }
  Reach out;
  if (std::max(a.growth, b.growth) == Growth::kExponential) out.growth = Growth::kExponential;
  // Weights of about 1 / sqrt(K) and the like leave activations what they are.
  const double scale = times(a.scale, b.scale);
  if (scale > 1e4 || (scale > 0 && scale < 1e-4) || multiplies_sum(node, 0) ||
      multiplies_sum(node, 1))
    out.scale = scale;
  out.cause = a.scale > b.scale ? a.cause : b.cause;
  return out;
}

bool multiplies_sum(const Node& node, std::size_t operand) {
  const Value* value = node.operand(operand);
  if (operand > 1 || constant_of(node.operand(1 - operand))) return false;
  for (int depth = 8; depth > 0 && value != nullptr && value->producer() != nullptr; --depth) {
    const Node& producer = *value->producer();
    if (producer.is("ReduceSum")) return summed_elems(producer).has_value();
    constexpr std::string_view kMoves[] = {"Transpose", "Reshape",  "Squeeze",
                                           "Unsqueeze", "Identity", "Expand"};
    if (std::find(std::begin(kMoves), std::end(kMoves), producer.op_type()) == std::end(kMoves))
      return false;
    value = producer.operand(0);
  }
  return false;
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
