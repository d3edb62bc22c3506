// Every pattern has an anchor, an op that is rare elsewhere (Erf, Tanh, Sigmoid, or the Div of a
// normalisation), and is checked outwards from it:
//
//   Gelu                 0.5 x (1 + erf(x / sqrt 2)), factors in any order
//   Gelu, tanh           0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
//   Swish                x sigmoid(x)
//   LayerNormalization   (x - mean) / sqrt(mean((x - mean)^2) + eps) [scale] [+ bias]
//   RMSNormalization     x / sqrt(mean(x^2) + eps) [scale], or times the reciprocal
//   LpNormalization      x / sqrt(sum(x^2) + eps), as in a cosine similarity
//   Softmax              exp(x - max x) / sum exp(x - max x), also without the max

#include "passes/cleanup/recognise.h"

#include <algorithm>
#include <unordered_set>

#include "compiler/ir/builder.h"
#include "compiler/ops/op_def.h"
#include "passes/cleanup/match.h"

namespace mezzo::passes {
namespace {

constexpr double kSqrtHalf = 0.7071067811865476, kSqrtTwo = 1.4142135623730951;
constexpr double kSqrtTwoOverPi = 0.7978845608028654, kCubic = 0.044715;

using MaybeMatch = std::optional<PatternMatch>;

// x^3 as Pow or as two products; the nodes are appended. Null if it is not that.
Value* cube_of(Value* value, std::vector<Node*>& nodes) {
  if (Node* pow = producer_if(value, "Pow"); pow != nullptr && is_scalar(pow->operand(1), 3)) {
    nodes.push_back(pow);
    return pow->operand(0);
  }
  Node* outer = producer_if(value, "Mul");
  if (outer == nullptr) return nullptr;
  for (std::size_t i = 0; i < 2; ++i) {
    Node* square = producer_if(outer->operand(i), "Mul");
    Value* x = outer->operand(1 - i);
    if (square != nullptr && square->operand(0) == x && square->operand(1) == x) {
      nodes.insert(nodes.end(), {square, outer});
      return x;
    }
  }
  return nullptr;
}

// From `one_plus` = 1 + f(x): the product with x and 0.5 in any order. Completes the match.
MaybeMatch close_gelu(Value* one_plus, Value* x, PatternMatch match) {
  Node* product = only_user(one_plus, "Mul");
  if (product == nullptr) return std::nullopt;
  Value* factor = other_operand(*product, one_plus);
  match.nodes.push_back(product);
  if (Node* half = producer_if(factor, "Mul"); half != nullptr && operand_beside(*half, 0.5) == x) {
    match.nodes.insert(match.nodes.begin(), half);
    return match;
  }
  Node* last = only_user(product->result(), "Mul");
  if (last == nullptr) return std::nullopt;
  match.nodes.push_back(last);
  Value* rest = other_operand(*last, product->result());
  const bool fits = (factor == x && is_scalar(rest, 0.5)) || (is_scalar(factor, 0.5) && rest == x);
  return fits ? MaybeMatch(std::move(match)) : std::nullopt;
}

MaybeMatch match_erf_gelu(Node& erf) {
  Value* x = nullptr;
  Node* scaled = nullptr;
  if (Node* div = producer_if(erf.operand(0), "Div");
      div != nullptr && is_scalar(div->operand(1), kSqrtTwo)) {
    scaled = div;
    x = div->operand(0);
  } else if (Node* mul = producer_if(erf.operand(0), "Mul")) {
    scaled = mul;
    x = operand_beside(*mul, kSqrtHalf);
  }
  Node* add = only_user(erf.result(), "Add");
  if (x == nullptr || add == nullptr || operand_beside(*add, 1) != erf.result())
    return std::nullopt;
  PatternMatch match;
  match.name = "Gelu";
  match.input = x;
  match.nodes = {scaled, &erf, add};
  return close_gelu(add->result(), x, std::move(match));
}

MaybeMatch match_tanh_gelu(Node& tanh) {
  PatternMatch match;
  match.name = "Gelu";
  match.tanh_approximation = true;
  Node* scaled = producer_if(tanh.operand(0), "Mul");
  Value* inner = scaled == nullptr ? nullptr : operand_beside(*scaled, kSqrtTwoOverPi);
  Node* sum = producer_if(inner, "Add");
  if (sum == nullptr) return std::nullopt;
  for (std::size_t i = 0; i < 2 && match.input == nullptr; ++i) {
    Node* cubic = producer_if(sum->operand(i), "Mul");
    Value* cube = cubic == nullptr ? nullptr : operand_beside(*cubic, kCubic);
    std::vector<Node*> nodes;
    Value* x = cube == nullptr ? nullptr : cube_of(cube, nodes);
    if (x == nullptr || x != sum->operand(1 - i)) continue;
    match.input = x;
    match.nodes = std::move(nodes);
    match.nodes.push_back(cubic);
  }
  Node* add = only_user(tanh.result(), "Add");
  if (match.input == nullptr || add == nullptr || operand_beside(*add, 1) != tanh.result())
    return std::nullopt;
  match.nodes.insert(match.nodes.end(), {sum, scaled, &tanh, add});
  Value* x = match.input;
  return close_gelu(add->result(), x, std::move(match));
}

MaybeMatch match_swish(Node& sigmoid) {
  Value* x = sigmoid.operand(0);
  Node* product = only_user(sigmoid.result(), "Mul");
  if (x == nullptr || product == nullptr || other_operand(*product, sigmoid.result()) != x)
    return std::nullopt;
  PatternMatch match;
  match.name = "Swish";
  match.input = x;
  match.nodes = {&sigmoid, product};
  return match;
}

// mean or sum (square of `base`) + eps under a square root; appends the nodes.
struct RootMeanSquare {
  Value* base = nullptr;
  std::int64_t axis = 0;
  double epsilon = 0;
  bool is_sum = false;
};
std::optional<RootMeanSquare> match_root_mean_square(Node& sqrt, std::vector<Node*>& nodes) {
  Node* add = producer_if(sqrt.operand(0), "Add");
  if (add == nullptr) return std::nullopt;
  RootMeanSquare found;
  Node* mean = nullptr;
  for (std::size_t i = 0; i < 2 && mean == nullptr; ++i) {
    const auto epsilon = constant_scalar(add->operand(i));
    mean = epsilon ? producer_if(add->operand(1 - i), "ReduceMean") : nullptr;
    if (epsilon && mean == nullptr) mean = producer_if(add->operand(1 - i), "ReduceSum");
    if (mean != nullptr) found.epsilon = *epsilon;
  }
  const auto axis = mean == nullptr ? std::nullopt : single_axis_from_end(*mean);
  if (!axis) return std::nullopt;
  found.axis = *axis;
  found.is_sum = mean->is("ReduceSum");
  Node* square = producer_if(mean->operand(0), "Pow");
  if (square != nullptr && is_scalar(square->operand(1), 2)) {
    found.base = square->operand(0);
  } else {
    square = producer_if(mean->operand(0), "Mul");
    if (square == nullptr || square->operand(0) != square->operand(1)) return std::nullopt;
    found.base = square->operand(0);
  }
  nodes.insert(nodes.end(), {square, mean, add, &sqrt});
  return found;
}

// x if `centred` is x - mean(x) over the axis; appends the nodes.
Value* uncentred(Value* centred, std::int64_t axis, std::vector<Node*>& nodes) {
  Node* sub = producer_if(centred, "Sub");
  Node* mean = sub == nullptr ? nullptr : producer_if(sub->operand(1), "ReduceMean");
  if (mean == nullptr || mean->operand(0) != sub->operand(0) || single_axis_from_end(*mean) != axis)
    return nullptr;
  nodes.insert(nodes.end(), {mean, sub});
  return sub->operand(0);
}

bool is_vector_of(const Value* value, const Value& x) {
  if (value == nullptr || !value->type.is_tensor() || !x.type.is_tensor() || !x.type.tensor.shape)
    return false;
  const auto& shape = value->type.tensor.shape;
  return shape && shape->size() == 1 && !x.type.tensor.shape->empty() &&
         (*shape)[0] == x.type.tensor.shape->back();
}

// [scale] and [+ bias] behind a normalisation over the last axis; neither may be a value of the
// pattern itself.
void take_affine(PatternMatch& match, bool with_bias) {
  if (match.axis != -1) return;
  const auto is_inner = [&](const Value* value) {
    return std::find(match.nodes.begin(), match.nodes.end(), value->producer()) !=
           match.nodes.end();
  };
  Node* mul = only_user(match.nodes.back()->result(), "Mul");
  Value* scale = mul == nullptr ? nullptr : other_operand(*mul, match.nodes.back()->result());
  if (!is_vector_of(scale, *match.input) || is_inner(scale)) return;
  match.scale = scale;
  match.nodes.push_back(mul);
  Node* add = with_bias ? only_user(mul->result(), "Add") : nullptr;
  Value* bias = add == nullptr ? nullptr : other_operand(*add, mul->result());
  if (!is_vector_of(bias, *match.input) || is_inner(bias)) return;
  match.bias = bias;
  match.nodes.push_back(add);
}

MaybeMatch match_norm(Node& sqrt) {
  PatternMatch match;
  const auto rms = match_root_mean_square(sqrt, match.nodes);
  if (!rms || sqrt.result() == nullptr || !has_one_reader(*sqrt.result())) return std::nullopt;
  match.axis = rms->axis;
  match.epsilon = static_cast<float>(rms->epsilon);
  Node* divide = sqrt.result()->uses()[0].node;
  Value* numerator = nullptr;
  if (divide->is("Div") && divide->operand(1) == sqrt.result() &&
      !is_scalar(divide->operand(0), 1)) {
    numerator = divide->operand(0);
    match.nodes.push_back(divide);
  } else if (divide->is("Reciprocal") ||
             (divide->is("Div") && divide->operand(1) == sqrt.result())) {  // 1 / root
    Node* product = only_user(divide->result(), "Mul");
    if (product == nullptr) return std::nullopt;
    numerator = other_operand(*product, divide->result());
    match.nodes.insert(match.nodes.end(), {divide, product});
  }
  if (rms->is_sum) {
    if (numerator != rms->base) return std::nullopt;
    match.name = "LpNormalization";
    match.input = rms->base;
    return match;
  }
  std::vector<Node*> centring;
  Value* x = uncentred(rms->base, rms->axis, centring);
  if (x != nullptr) {
    // Older exporters subtract the mean twice: once for the variance, once for the numerator.
    std::vector<Node*> second;
    if (numerator != rms->base && uncentred(numerator, rms->axis, second) != x) return std::nullopt;
    for (Node* node : second) {
      if (std::find(centring.begin(), centring.end(), node) == centring.end())
        centring.push_back(node);
    }
    match.name = "LayerNormalization";
    match.input = x;
    match.nodes.insert(match.nodes.begin(), centring.begin(), centring.end());
    take_affine(match, /*with_bias=*/true);
    return match;
  }
  if (numerator != rms->base) return std::nullopt;
  match.name = "RMSNormalization";
  match.input = rms->base;
  take_affine(match, /*with_bias=*/false);
  return match;
}

MaybeMatch match_softmax(Node& exp) {
  PatternMatch match;
  match.name = "Softmax";
  Node *sum = nullptr, *divide = nullptr;
  if (exp.result() == nullptr || exp.result()->uses().size() != 2 ||
      exp.result()->is_graph_output())
    return std::nullopt;
  for (const Use& use : exp.result()->uses()) {
    if (use.node->is("ReduceSum")) sum = use.node;
    if (use.node->is("Div") && use.operand == 0) divide = use.node;
  }
  if (sum == nullptr || divide == nullptr || divide->operand(1) != sum->result())
    return std::nullopt;
  const auto axis = single_axis_from_end(*sum);
  if (!axis) return std::nullopt;
  match.axis = *axis;
  match.input = exp.operand(0);
  if (Node* sub = producer_if(exp.operand(0), "Sub")) {
    Node* max = producer_if(sub->operand(1), "ReduceMax");
    if (max != nullptr && max->operand(0) == sub->operand(0) &&
        single_axis_from_end(*max) == axis) {
      match.input = sub->operand(0);
      match.nodes = {max, sub};
    }
  }
  match.nodes.insert(match.nodes.end(), {&exp, sum, divide});
  return match;
}

MaybeMatch match_at(Node& node) {
  if (node.is("Sqrt")) return match_norm(node);
  if (node.is("Exp")) return match_softmax(node);
  if (node.is("Erf")) return match_erf_gelu(node);
  if (node.is("Tanh")) return match_tanh_gelu(node);
  if (node.is("Sigmoid")) return match_swish(node);
  return std::nullopt;
}

// Nothing outside reads an inner value, and no node belongs to two matches.
bool is_closed(const PatternMatch& match, const std::unordered_set<const Node*>& taken) {
  const std::unordered_set<const Node*> inside(match.nodes.begin(), match.nodes.end());
  for (const Node* node : match.nodes) {
    if (taken.count(node) > 0 || node->graph() != match.nodes.back()->graph()) return false;
    if (node == match.nodes.back()) continue;
    for (const Value* result : node->results()) {
      if (result == nullptr) continue;
      if (result->is_graph_output() || !result->inner_outputs().empty()) return false;
      for (const Use& use : result->uses()) {
        if (inside.count(use.node) == 0) return false;
      }
    }
  }
  return true;
}

// The node that stands for a match; null where this form has none.
Value* replacement(Builder& builder, const PatternMatch& match) {
  Value* x = match.input;
  if (match.name == "Gelu") {
    return builder.mezzo_op(
        "Gelu", {x}, {{"approximate", std::string(match.tanh_approximation ? "tanh" : "none")}});
  }
  if (match.name == "Swish") return builder.mezzo_op("Swish", {x});
  if (match.name == "Softmax") return builder.op("Softmax", {x}, {{"axis", match.axis}});
  if (match.name == "LayerNormalization" && match.axis == -1 && match.scale != nullptr) {
    return builder
        .node("LayerNormalization", {x, match.scale, match.bias}, 1,
              {{"axis", std::int64_t{-1}}, {"epsilon", match.epsilon}}, kMezzoDomain)
        ->result();
  }
  if (match.name == "RMSNormalization" && match.axis == -1 && match.scale != nullptr) {
    return builder.op("RMSNormalization", {x, match.scale},
                      {{"axis", std::int64_t{-1}}, {"epsilon", match.epsilon}});
  }
  return nullptr;
}

}  // namespace

std::vector<PatternMatch> find_patterns(const Graph& graph) {
  std::vector<PatternMatch> matches;
  std::unordered_set<const Node*> taken;
  for (const auto& node : graph.nodes()) {
    MaybeMatch match = match_at(*node);
    if (!match || !is_closed(*match, taken)) continue;
    taken.insert(match->nodes.begin(), match->nodes.end());
    matches.push_back(std::move(*match));
  }
  return matches;
}

// Nodes that a file declares low round one by one, which one node for all of them would not.
static bool rounds_within(const PatternMatch& match) {
  return std::any_of(match.nodes.begin(), match.nodes.end(), [](const Node* node) {
    return node->result() != nullptr && is_low(node->result()->dtype());
  });
}

StatusOr<bool> recognise(Model& model, PassContext& ctx) {
  Graph& graph = *model.graph;
  bool changed = false;
  // One match may read what another one gives: results that are gone, and what stands for them.
  std::unordered_map<const Value*, Value*> replaced;
  for (PatternMatch& match : find_patterns(graph)) {
    if (rounds_within(match)) continue;
    for (Value** value : {&match.input, &match.scale, &match.bias}) {
      if (const auto found = replaced.find(*value); found != replaced.end()) *value = found->second;
    }
    Node* last = match.nodes.back();
    Builder builder(graph, type_inference(model), last);
    builder.set_scope(last->name.empty() ? match.name : last->name);
    Value* result = replacement(builder, match);
    MEZZO_RETURN_IF_ERROR(builder.status());
    if (result == nullptr) continue;
    replaced[last->result()] = result;
    graph.replace_uses(last->result(), result);
    // The result may have taken a public name; unnamed patterns are called by it.
    result->producer()->name = last->name.empty() ? result->name() : last->name;
    // Users before producers: the list is in graph order but for a detail, so go by what is unused.
    std::vector<Node*> left = match.nodes;
    while (!left.empty()) {
      const auto dead = std::find_if(left.rbegin(), left.rend(), [](const Node* node) {
        return std::none_of(node->results().begin(), node->results().end(),
                            [](const Value* r) { return r != nullptr && r->has_uses(); });
      });
      if (dead == left.rend())
        return internal_error("recognise: a node of a closed pattern is still used");
      graph.erase(*dead);
      left.erase(std::next(dead).base());
    }
    ctx.stats.add("recognised-" + match.name, 1);
    changed = true;
  }
  return changed;
}

}  // namespace mezzo::passes
