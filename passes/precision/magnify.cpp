#include "passes/precision/magnify.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "compiler/ir/builder.h"
#include "compiler/support/text.h"
#include "passes/cleanup/match.h"

namespace mezzo::passes {
namespace {

constexpr int kDepth = 8, kBudget = 64;  // of searches along uses
constexpr double kLargeAngle = 8;        // rounded to 16 bits, it is off by 0.002 to 0.016

// Makes whole numbers of its operand.
bool steps(const Node& node) {
  if (is_one_of(node, {"Round", "Floor", "Ceil", "Mod"})) return true;
  const Value* result = node.result();
  return is_one_of(node, {"Cast", "CastLike"}) && result != nullptr &&
         result->dtype() != DType::kNone && !is_floating(result->dtype()) &&
         result->dtype() != DType::kBool;
}

// What magnifies rounding of its operand: a logarithm near 0 or 1, the inverse of a function with a
// limit near that limit, an exponential or angle of large size, and steps.
bool magnifies(const Node& node, const ReachAnalysis& reach) {
  if (is_one_of(node, {"Exp", "Sin", "Cos", "Tan"}))
    return node.operand(0) == nullptr || reach.of(*node.operand(0)).bound() > kLargeAngle;
  return is_one_of(node, {"Log", "Atanh", "Acosh", "Asin", "Acos"}) || steps(node);
}

bool moves(const Node& node) {
  return is_one_of(node, {"Concat", "Unsqueeze", "Squeeze", "Reshape", "Transpose", "Expand",
                          "Identity", "Slice", "Split"});
}

// The node that magnifies what `node` rounds: read directly, through scaling and shifting by
// constants, or as part of a ratio. Null if there is none, or none among the first `budget` nodes
// looked at.
const Node* magnified_by(const Node& node, const ReachAnalysis& reach, int depth, int& budget) {
  if (magnifies(node, reach)) return &node;
  if (depth == 0 || --budget < 0 || node.result() == nullptr) return nullptr;
  const bool scales = is_one_of(node, {"Add", "Sub", "Mul", "Div", "Max", "Min"}) &&
                      (constant_of(node.operand(0)) || constant_of(node.operand(1)));
  if (!scales && !is_one_of(node, {"Sigmoid", "Tanh", "Div", "Clip", "Neg", "Abs", "Relu", "Concat",
                                   "Unsqueeze", "Squeeze", "Reshape", "Transpose", "Expand"}))
    return nullptr;
  for (const Use& use : node.result()->uses()) {
    if (reads_coordinates(*use.node, use.operand)) return use.node;
    if (const Node* found = magnified_by(*use.node, reach, depth - 1, budget)) return found;
  }
  return nullptr;
}

// The one constant number that a Mul, Div, Add or Sub computes with; nullopt for other nodes.
std::optional<double> number_beside(const Node& node, const Value& value,
                                    const ReachAnalysis& reach) {
  const Value* other = node.operand(node.operand(0) == &value ? 1 : 0);
  if (other == nullptr || !is_one_of(node, {"Mul", "Div", "Add", "Sub"})) return std::nullopt;
  const ConstantFacts& facts = reach.constant(*other);
  if (!facts.known || !facts.uniform) return std::nullopt;
  return facts.lowest;
}

// Follows what a contraction gives to where its rounding shows.
class ContractionUses {
 public:
  explicit ContractionUses(const ReachAnalysis& reach) : reach_(reach) {}

  // The sine or cosine that reads `value` times constants, if that makes the angle large.
  const Node* large_angle(const Value& value, double factor, int depth = kDepth) {
    for (const Use& use : value.uses()) {
      if (depth == 0 || --budget_ < 0) return nullptr;
      const Node& node = *use.node;
      if (is_one_of(node, {"Sin", "Cos", "Tan"})) {
        if (factor > kLargeAngle) return &node;
        continue;
      }
      if (node.result() == nullptr) continue;
      double times = factor;
      const std::optional<double> number = number_beside(node, value, reach_);
      if (number && node.is("Mul")) times *= std::fabs(*number);
      if (number && node.is("Div") && use.operand == 0 && *number != 0) times /= std::fabs(*number);
      if (!number && !moves(node) && !is_one_of(node, {"Add", "Sub", "Neg"})) continue;
      if (const Node* found = large_angle(*node.result(), times, depth - 1)) return found;
    }
    return nullptr;
  }

  // The sum in which squares and `value`, of the other sign, cancel.
  const Node* cancels(const Value& value, bool negative, int depth = kDepth) {
    for (const Use& use : value.uses()) {
      if (depth == 0 || --budget_ < 0) return nullptr;
      const Node& node = *use.node;
      bool sign = negative != (node.is("Neg") || (node.is("Sub") && use.operand == 1));
      if (is_one_of(node, {"Add", "Sub"}) && use.operand < 2 &&
          opposes(node, 1 - use.operand, sign))
        return &node;
      const std::optional<double> number = number_beside(node, value, reach_);
      if (is_one_of(node, {"Mul", "Div"})) {
        if (!number || (node.is("Div") && use.operand == 1)) continue;
        sign = sign != (*number < 0);
      } else if (!moves(node) && !is_one_of(node, {"Neg", "Add", "Sub"})) {
        continue;
      }
      if (node.result() == nullptr) continue;
      if (const Node* found = cancels(*node.result(), sign, depth - 1)) return found;
    }
    return nullptr;
  }

  // Is this operand of a sum made of squares, with the sign that `negative` has not?
  bool opposes(const Node& node, std::size_t operand, bool negative) const {
    const Value* other = node.operand(operand);
    if (other == nullptr) return false;
    const Reach& reach = reach_.of(*other);
    if (reach.growth != Growth::kSquare) return false;
    const bool subtracted = node.is("Sub") && operand == 1;
    return reach.lowest >= 0 ? negative != subtracted
                             : reach.highest <= 0 && negative == subtracted;
  }

 private:
  const ReachAnalysis& reach_;
  int budget_ = kBudget;
};

// "'sin' (Sin)", or how else to find it.
std::string named(const Node& node) {
  return (node.name.empty() ? display_name(node) : "'" + node.name + "'") + " (" + node.op_type() +
         ")";
}

std::string contraction_cause(const Node& node, const ReachAnalysis& reach) {
  if (node.result() == nullptr) return {};
  ContractionUses uses(reach);
  double largest = 1;  // what the weights make of an activation of 1
  for (std::size_t i = 0; i < std::min<std::size_t>(2, node.operand_count()); ++i) {
    if (node.operand(i) != nullptr)
      largest = std::max(largest, reach.constant(*node.operand(i)).largest());
  }
  if (const Node* sine = uses.large_angle(*node.result(), largest))
    return named(*sine) + " reads this as an angle that constants make large";
  const double alpha = static_cast<double>(node.float_attribute("alpha", 1));
  const bool onto_squares =
      node.is("Gemm") && node.operand_count() > 2 && uses.opposes(node, 2, alpha < 0);
  const Node* sum = onto_squares ? &node : uses.cancels(*node.result(), alpha < 0);
  if (sum == nullptr) return {};
  return named(*sum) + " takes this from sums of squares, which cancel";
}

// The nodes of a mean of products less a product of means: E[xy] - E[x] E[y]. Both are of the size
// of xy, their difference may be a small part of it.
class MomentMatcher {
 public:
  explicit MomentMatcher(const ReachAnalysis& reach) : reach_(reach) {}

  // Empty if `sub` is something else.
  std::vector<const Node*> match(const Node& sub) {
    nodes_ = {&sub};
    const bool found =
        sub.is("Sub") && is_mean_of_products(sub.operand(0)) && is_product_of_means(sub.operand(1));
    return found ? nodes_ : std::vector<const Node*>();
  }

 private:
  // The node behind moves and factors.
  const Node* source(const Value* value) {
    for (int depth = kDepth; depth > 0 && value != nullptr; --depth) {
      const Node* node = value->producer();
      if (node == nullptr) return nullptr;
      const Value* inner = node->operand(0);
      if (is_one_of(node, {"Mul", "Div"})) {
        if (inner != nullptr && reach_.constant(*inner).known) inner = node->operand(1);
        if (inner == nullptr || !number_beside(*node, *inner, reach_)) return node;
      } else if (!moves(*node)) {
        return node;
      }
      nodes_.push_back(node);
      value = inner;
    }
    return nullptr;
  }

  // Also products with constant windows, which weigh what they add.
  bool is_mean(const Node* node) {
    if (node == nullptr) return false;
    bool mean = is_one_of(node, {"ReduceMean", "ReduceSum", "GlobalAveragePool", "AveragePool"});
    if (is_one_of(node, {"Conv", "MatMul", "Gemm"}) && node->operand(1) != nullptr) {
      const ConstantFacts& window = reach_.constant(*node->operand(1));
      mean = window.known && window.lowest >= 0 && window.highest > 0;
    }
    if (mean) nodes_.push_back(node);
    return mean;
  }

  bool is_mean_of_products(const Value* value) {
    const Node* mean = source(value);
    if (!is_mean(mean)) return false;
    const Node* product = source(mean->operand(0));
    return is_product(product);
  }

  bool is_product(const Node* node) {
    if (node == nullptr) return false;
    const bool square = node->is("Pow") && is_scalar(node->operand(1), 2);
    const bool of_two =
        node->is("Mul") && !constant_of(node->operand(0)) && !constant_of(node->operand(1));
    if (square || of_two) nodes_.push_back(node);
    return square || of_two;
  }

  bool is_product_of_means(const Value* value) {
    const Node* product = source(value);
    return is_product(product) && is_mean(source(product->operand(0))) &&
           (product->is("Pow") || is_mean(source(product->operand(1))));
  }

  const ReachAnalysis& reach_;
  std::vector<const Node*> nodes_;
};

}  // namespace

bool reads_coordinates(const Node& node, std::size_t operand) {
  if (is_one_of(node, {"GridSample", "RoiAlign", "MaxRoiPool"})) return operand == 1;
  return node.is("NonMaxSuppression") && operand == 0;
}

MomentDifferences::MomentDifferences(const Model& model, const ReachAnalysis& reach) {
  MomentMatcher matcher(reach);
  for_each_graph(*model.graph, [&](const Graph& graph) {
    for (const auto& node : graph.nodes()) {
      if (!node->is("Sub")) continue;
      for (const Node* part : matcher.match(*node)) differences_.emplace(part, node.get());
    }
  });
}

std::string MomentDifferences::cause(const Node& node) const {
  const auto found = differences_.find(&node);
  if (found == differences_.end()) return {};
  return found->second == &node
             ? "takes a product of means from a mean of products, which cancel"
             : named(*found->second) +
                   " takes a product of means from a mean of products, which cancel";
}

std::string magnified_cause(const Node& node, PrecisionCategory category,
                            const ReachAnalysis& reach) {
  int budget = kBudget;
  const Node* last = magnified_by(node, reach, kDepth, budget);
  if (last == &node)
    return node.op_type() + (steps(node) ? " turns rounding of its operand into whole steps"
                                         : " magnifies rounding of its operand");
  if (last != nullptr) return named(*last) + " magnifies what is rounded here";
  return category == PrecisionCategory::kAllow ? contraction_cause(node, reach) : "";
}

}  // namespace mezzo::passes
