// Which nodes spell out a normalisation or a Softmax, for the precision passes, which keep them in
// FP32 together. Unlike find_patterns() this needs no form that a single node could replace: inner
// values may be read elsewhere, any axes and any order of scale and bias will do.
//
// Every group starts from a root (Sqrt, Pow with 0.5 or -0.5, ReduceL2), a sum or an exponential:
//
//   radicand   [+ epsilon | max epsilon] of mean or sum of squares, of E[x^2] - E[x]^2, or of a
//              constant (a variance)
//   root       [+ epsilon | max epsilon], or two roots multiplied (a cosine similarity)
//   quotient   of what was squared, of x - mean x, or of a product of these; by Div, or by Mul
//              with the reciprocal or the power -0.5
//   affine     [times a constant] [plus a constant]
//
//   sum        ReduceL1 of x, or ReduceSum of x, |x| or max(x, 0); then as a root, if it divides
//              what was summed
//
//   exp        of x or x - max x, then its sum; exp / sum (Softmax), log sum (LogSumExp) and what
//              is left when that is taken from x (LogSoftmax); log(1 + exp) (Softplus);
//              1 / (1 + exp) (Sigmoid)

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/ops/constants.h"
#include "passes/cleanup/match.h"
#include "passes/cleanup/recognise.h"

namespace mezzo::passes {
namespace {

constexpr int kMostNodes = 16;  // longer chains of epsilons, scales and shapes nobody writes

bool is_constant(const Value* value) { return value != nullptr && constant_of(value) != nullptr; }

// Operand 0, or the other one where that is a constant.
Value* varying(const Node& node) {
  return is_constant(node.operand(0)) && node.operand(1) != nullptr ? node.operand(1)
                                                                    : node.operand(0);
}

// The nodes of a group, and what the search has found out about it.
struct Group {
  std::vector<const Node*> nodes;
  Value* squared = nullptr;          // what the squares are of
  bool mean = false;                 // of squares, rather than their sum
  bool centred = false;              // squares of x - mean x
  bool of_constant = false;          // the radicand is a stored variance
  std::string_view axes = "";        // "last", "spatial", "other"
  std::vector<const Value*> summed;  // if any: the quotient must be of one of these

  void add(const Node* node) {
    if (std::find(nodes.begin(), nodes.end(), node) == nodes.end()) nodes.push_back(node);
  }
  bool holds(const Node* node) const {
    return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
  }
};

Value* squared_value(const Node* node) {
  if (node == nullptr) return nullptr;
  if (node->is("Mul") && node->operand(0) == node->operand(1)) return node->operand(0);
  if (node->is("Pow") && is_scalar(node->operand(1), 2)) return node->operand(0);
  return node->is("ReduceSumSquare") ? node->operand(0) : nullptr;
}

// "spatial": over all dimensions behind batch and channels, of which there are two or more.
std::string_view axes_of(const Node& reduction) {
  std::vector<std::int64_t> axes = reduction.ints_attribute("axes");
  if (reduction.operand(1) != nullptr) axes = constant_ints(reduction.operand(1)).value_or(axes);
  const Value* x = reduction.operand(0);
  const auto rank = x != nullptr && x->type.is_tensor() ? x->tensor_type().rank() : std::nullopt;
  if (!rank || axes.empty()) return "other";
  for (std::int64_t& axis : axes) axis += axis < 0 ? static_cast<std::int64_t>(*rank) : 0;
  const bool spatial = axes.size() > 1 && axes.size() + 2 == *rank &&
                       *std::min_element(axes.begin(), axes.end()) == 2;
  return spatial ? "spatial" : "other";
}

// x - mean x, or x - a stored mean.
bool add_centring(Group& group, Value* centred) {
  const Node* sub = producer_if(centred, "Sub");
  if (sub == nullptr) return false;
  const Node* mean = sub->operand(1) == nullptr ? nullptr : sub->operand(1)->producer();
  if (group.of_constant && is_constant(sub->operand(1))) {
    group.add(sub);
    return true;
  }
  if (!is_one_of(mean, {"ReduceMean", "GlobalAveragePool"}) || mean->operand(0) != sub->operand(0))
    return false;
  group.add(mean);
  group.add(sub);
  return true;
}

// From the radicand down to the squares. False if it is something else.
bool add_radicand(Group& group, Value* value) {
  bool reduced = false;
  for (int depth = 0; depth < kMostNodes && value != nullptr; ++depth) {
    if (is_constant(value)) return group.of_constant = group.squared == nullptr && !reduced;
    const Node* node = value->producer();
    if (node == nullptr) return false;
    if (Value* base = squared_value(node)) {
      group.add(node);
      group.squared = base;
      if (add_centring(group, base)) group.centred = true;
      return reduced || node->is("ReduceSumSquare");
    }
    if (is_one_of(node, {"ReduceMean", "ReduceSum", "GlobalAveragePool"})) {
      reduced = true;
      group.mean = group.mean || !node->is("ReduceSum");
      group.axes = node->is("GlobalAveragePool") ? "spatial" : axes_of(*node);
    } else if (node->is("Sub")) {  // E[x^2] - E[x]^2
      const Node* square = node->operand(1) == nullptr ? nullptr : node->operand(1)->producer();
      if (squared_value(square) == nullptr) return false;
      group.add(square);
      group.centred = true;
    } else if (is_one_of(node, {"Div", "Mul", "Add"})) {
      if (!is_constant(node->operand(0)) && !is_constant(node->operand(1))) return false;
      group.mean = group.mean || !node->is("Add");  // by a count
    } else if (!is_one_of(node, {"Clip", "Max", "Relu", "Abs", "Unsqueeze", "Squeeze", "Reshape",
                                 "Cast", "Identity"})) {
      return false;
    }
    group.add(node);
    value = varying(*node);
  }
  return false;
}

// The one user of a value that is one of these operators; null if there is none or several.
const Node* user_of(const Value* value, std::initializer_list<std::string_view> ops) {
  const Node* found = nullptr;
  for (const Use& use : value->uses()) {
    if (!is_one_of(use.node, ops) || use.node == found) continue;
    if (found != nullptr) return nullptr;
    found = use.node;
  }
  return found;
}

// [scale] [+ bias], both constant.
void add_affine(Group& group, const Value* value) {
  for (const std::string_view op : {"Mul", "Add"}) {
    const Node* node = value == nullptr ? nullptr : only_user(value, op);
    if (node == nullptr || !is_constant(other_operand(*node, value))) continue;
    group.add(node);
    value = node->result();
  }
}

// Groups are told by the reshaping around them: [N, C, H, W] -> [N, groups, ..] and back.
bool is_reshaped(const Group& group, const Value* quotient) {
  const Node* sub = producer_if(group.squared, "Sub");
  return sub != nullptr && producer_if(sub->operand(0), "Reshape") != nullptr &&
         only_user(quotient, "Reshape") != nullptr;
}

std::string name_of(const Group& group, const Value* quotient) {
  if (group.of_constant) return "BatchNormalization";
  if (!group.centred) return group.mean ? "RMSNormalization" : "LpNormalization";
  if (is_reshaped(group, quotient)) return "GroupNormalization";
  return group.axes == "spatial" ? "InstanceNormalization" : "LayerNormalization";
}

// From the root to the quotient; the name of the whole, "" if nothing is divided by the root.
std::string add_quotient(Group& group, const Value* divisor, bool inverse) {
  for (int depth = 0; depth < kMostNodes && divisor != nullptr; ++depth) {
    for (const Use& use : divisor->uses()) {
      const Node& node = *use.node;
      const bool divides = !inverse && node.is("Div") && use.operand == 1;
      if (!divides && !(inverse && node.is("Mul"))) continue;
      Value* numerator = node.operand(node.operand(0) == divisor ? 1 : 0);
      if (is_scalar(numerator, 1)) continue;
      const std::vector<const Value*>& summed = group.summed;
      if (!summed.empty() && std::find(summed.begin(), summed.end(), numerator) == summed.end())
        continue;
      group.add(&node);
      if (group.of_constant && !add_centring(group, numerator)) return "";
      if (!group.of_constant) add_centring(group, numerator);
      add_affine(group, node.result());
      return name_of(group, node.result());
    }
    const Node* next = inverse ? nullptr : user_of(divisor, {"Reciprocal"});
    if (next == nullptr && !inverse) {
      const Node* one_over = user_of(divisor, {"Div"});
      if (one_over != nullptr && is_scalar(one_over->operand(0), 1)) next = one_over;
    }
    if (next != nullptr) {
      inverse = true;
    } else {
      next = user_of(divisor, {"Add", "Clip", "Max", "Expand", "Unsqueeze", "Reshape", "Mul"});
    }
    if (next == nullptr || next->result() == nullptr) return "";
    group.add(next);
    divisor = next->result();
  }
  return "";
}

std::string match_root(const Node& root, Group& group) {
  bool inverse = false;
  if (root.is("ReduceL2")) {
    group.squared = root.operand(0);
  } else {
    if (root.is("Pow")) {
      const auto exponent = constant_scalar(root.operand(1));
      if (exponent != 0.5 && exponent != -0.5) return "";
      inverse = *exponent < 0;
    }
    if (!add_radicand(group, root.operand(0))) return "";
  }
  group.add(&root);
  if (root.result() == nullptr) return "";
  return add_quotient(group, root.result(), inverse);
}

std::string match_sum(const Node& sum, Group& group) {
  const Value* terms = sum.operand(0);
  if (terms == nullptr || sum.result() == nullptr) return "";
  group.summed = {terms};
  const Node* positive = terms->producer();
  if (is_one_of(positive, {"Abs", "Relu"})) group.summed.push_back(positive->operand(0));
  group.add(&sum);
  return add_quotient(group, sum.result(), /*inverse=*/false);
}

void add_shift(Group& group, const Node& exp) {  // x - max x
  const Node* sub = producer_if(exp.operand(0), "Sub");
  const Node* max = sub == nullptr ? nullptr : producer_if(sub->operand(1), "ReduceMax");
  if (max == nullptr || max->operand(0) != sub->operand(0)) return;
  group.add(max);
  group.add(sub);
}

std::string match_sum_of_exponentials(const Node& sum, const Value& exp, Group& group) {
  if (sum.result() == nullptr) return "";
  group.add(&sum);
  if (const Node* log = user_of(sum.result(), {"Log"})) {
    group.add(log);
    const Node* rest = log->result() == nullptr ? nullptr : user_of(log->result(), {"Sub"});
    if (rest == nullptr || rest->operand(1) != log->result()) return "ReduceLogSumExp";
    group.add(rest);
    return "LogSoftmax";
  }
  const Value* divisor = sum.result();
  const Node* inverse = user_of(divisor, {"Reciprocal"});
  if (inverse != nullptr) {
    group.add(inverse);
    divisor = inverse->result();
  }
  const Node* quotient =
      divisor == nullptr ? nullptr : user_of(divisor, {inverse == nullptr ? "Div" : "Mul"});
  if (quotient == nullptr || (quotient->operand(0) != &exp && quotient->operand(1) != &exp))
    return "";
  group.add(quotient);
  return "Softmax";
}

std::string match_exponential(const Node& exp, Group& group) {
  const Value* result = exp.result();
  if (result == nullptr) return "";
  group.add(&exp);
  add_shift(group, exp);
  if (const Node* sum = user_of(result, {"ReduceSum"}))
    return match_sum_of_exponentials(*sum, *result, group);
  const Node* plus_one = user_of(result, {"Add"});
  if (plus_one == nullptr || operand_beside(*plus_one, 1) != result) return "";
  group.add(plus_one);
  const Node* last = user_of(plus_one->result(), {"Log", "Reciprocal", "Div"});
  if (last == nullptr || (last->is("Div") && !is_scalar(last->operand(0), 1))) return "";
  group.add(last);
  return last->is("Log") ? "Softplus" : "Sigmoid";
}

}  // namespace

std::unordered_map<const Node*, std::string> pattern_groups(const Graph& graph) {
  std::unordered_map<const Node*, std::string> groups;
  for (const auto& node : graph.nodes()) {
    const bool is_root = is_one_of(node.get(), {"Sqrt", "Pow", "ReduceL2"});
    const bool is_sum = is_one_of(node.get(), {"ReduceL1", "ReduceSum"});
    if (!is_root && !is_sum && !node->is("Exp")) continue;
    Group group;
    const std::string name = is_root  ? match_root(*node, group)
                             : is_sum ? match_sum(*node, group)
                                      : match_exponential(*node, group);
    if (name.empty()) continue;
    for (const Node* member : group.nodes) {
      if (!is_one_of(member, {"Reshape", "Expand", "Unsqueeze", "Squeeze", "Cast"}))
        groups.emplace(member, name);
    }
  }
  for (const PatternMatch& match : find_patterns(graph)) {
    if (match.name == "Gelu" || match.name == "Swish") continue;  // safe in either precision
    for (const Node* node : match.nodes) groups.emplace(node, match.name);
  }
  return groups;
}

}  // namespace mezzo::passes
