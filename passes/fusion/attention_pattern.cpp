// From the Softmax, its anchor, down to the product with v and up through what is done to the
// scores to the product of q and k. Forms that exporters and decompositions give:
//
//   scale     Mul or Div of the scores, of q or of k, before or behind a Transpose of it
//   k^T       Transpose, also as one of matrices between two Reshapes, or MatMulT; several in one
//   bias      Add, in any number
//   mask      Where with a constant for what is hidden, or Add of a constant of these
//   groups    keys and values repeated for the heads that share them (Expand or Tile of a new
//             dimension, Reshape)
//   guard     zeros behind the Softmax for rows that are NaN, or of which a bias hides everything
#include "passes/fusion/attention_pattern.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>

#include "compiler/ir/builder.h"
#include "compiler/ops/constants.h"
#include "passes/cleanup/match.h"

namespace mezzo::passes {
namespace {

using Dims = std::vector<std::int64_t>;

constexpr int kMostTerms = 6;
// A penalty of so much leaves nothing of any score: float32 rounds the sum to the penalty.
constexpr double kBeyondScores = -1e30;
// exp of so much less than a score that is seen is 0.
constexpr double kHidden = -1e4;
constexpr std::int64_t kMostMaskElems = std::int64_t{1} << 24;

bool is_float32(const Value* value) {
  return value != nullptr && value->type.is_tensor() && value->dtype() == DType::kFloat32;
}

// ---- q, k and v

using ActiveValues = std::unordered_set<const Value*>;

// x of x times a number or by one, which goes into `scale`; null for anything else, such as a
// factor that is learned.
Value* unscaled(const Value* value, const ActiveValues& active, double& scale) {
  Node* node = value->producer();
  if (!is_one_of(node, {"Mul", "Div"})) return nullptr;
  for (const std::size_t side : {1, 0}) {
    if (side == 0 && node->is("Div")) break;
    const auto number = constant_scalar(node->operand(side));
    Value* inner = node->operand(1 - side);
    if (!number || active.count(node->operand(side)) > 0 || !is_float32(inner) ||
        static_dims(inner) != static_dims(value))
      continue;
    scale *= node->is("Div") ? 1.0 / *number : *number;
    return inner;
  }
  return nullptr;
}

Value* without_scale(Value* value, const ActiveValues& active, double& scale) {
  while (Value* inner = unscaled(value, active, scale)) value = inner;
  return value;
}

// The matrices of which `value` holds the transposed ones, if it was made so; else null.
Value* untransposed(Value* value) {
  Node* node = value->producer();
  const auto dims = static_dims(value);
  if (node == nullptr || !dims) return nullptr;
  const std::size_t rank = dims->size();
  Dims exchanged(rank);
  std::iota(exchanged.begin(), exchanged.end(), 0);
  std::swap(exchanged[rank - 1], exchanged[rank - 2]);
  if (node->is("Transpose") && node->ints_attribute("perm") == exchanged) return node->operand(0);
  // [B,H,S,D] -> [BH,S,D] -> [BH,D,S] -> [B,H,D,S]
  if (!node->is("Reshape") || rank != 4) return nullptr;
  Node* inner = producer_if(node->operand(0), "Transpose");
  Node* outer = inner == nullptr ? nullptr : producer_if(inner->operand(0), "Reshape");
  if (outer == nullptr || inner->ints_attribute("perm") != Dims{0, 2, 1}) return nullptr;
  const Dims straight = {(*dims)[0], (*dims)[1], (*dims)[3], (*dims)[2]};
  const Dims merged = {(*dims)[0] * (*dims)[1], (*dims)[3], (*dims)[2]};
  const bool fits =
      static_dims(outer->operand(0)) == straight && static_dims(outer->result()) == merged;
  return fits ? outer->operand(0) : nullptr;
}

// Through a dimension of 1 that is added and taken away again.
Value* without_detour(Value* value) {
  for (;;) {
    Node* outer = producer_if(value, "Reshape");
    Node* inner = outer == nullptr ? nullptr : outer->operand(0)->producer();
    if (!is_one_of(inner, {"Unsqueeze", "Reshape"}) || inner->operand(0) == nullptr ||
        !static_dims(value) || static_dims(inner->operand(0)) != static_dims(value))
      return value;
    value = inner->operand(0);
  }
}

// x[B,G,S,D] where `value`[B,H,S,D] repeats each of its heads for H / G others; else null.
Value* unrepeated(Value* value) {
  const auto dims = static_dims(value);
  Node* reshape = producer_if(value, "Reshape");
  const auto repeated = reshape == nullptr ? std::nullopt : static_dims(reshape->operand(0));
  if (!dims || dims->size() != 4 || !repeated || repeated->size() != 5) return nullptr;
  const Dims& r = *repeated;
  if (r[0] != (*dims)[0] || r[1] * r[2] != (*dims)[1] || r[3] != (*dims)[2] || r[4] != (*dims)[3])
    return nullptr;
  Node* repeat = reshape->operand(0)->producer();
  if (!is_one_of(repeat, {"Expand", "Tile"}) ||
      static_dims(repeat->operand(0)) != Dims{r[0], r[1], 1, r[3], r[4]})
    return nullptr;
  Node* added = repeat->operand(0)->producer();
  if (!is_one_of(added, {"Unsqueeze", "Reshape"}) ||
      static_dims(added->operand(0)) != Dims{r[0], r[1], r[3], r[4]})
    return nullptr;
  return added->operand(0);
}

void take_keys(Value* value, const ActiveValues& active, AttentionMatch& match) {
  match.k = without_scale(value, active, match.scale);
  if (!match.k_transposed) return;
  if (Value* straight = untransposed(match.k)) {
    match.k = without_scale(straight, active, match.scale);
    match.k_transposed = false;
  }
}

void take_groups(AttentionMatch& match) {
  match.v = without_detour(match.v);
  if (match.k_transposed) return;
  match.k = without_detour(match.k);
  Value *k = unrepeated(match.k), *v = unrepeated(match.v);
  if (k == nullptr || v == nullptr || (*static_dims(k))[1] != (*static_dims(v))[1]) return;
  match.k = k;
  match.v = v;
}

// ---- masks

// The elements of a constant mask [.., T, S] with nothing in front: true where the key is hidden.
std::optional<std::vector<bool>> hidden_keys(const ScoreTerm& term, std::int64_t queries,
                                             std::int64_t keys) {
  const TensorRef constant = constant_of(term.bias != nullptr ? term.bias : term.condition);
  if (!constant || constant->elems() != queries * keys || constant->elems() > kMostMaskElems ||
      constant->dims().size() < 2 || constant->dims().back() != keys)
    return std::nullopt;
  const std::vector<double> values = constant->to_doubles();
  if (static_cast<std::int64_t>(values.size()) != queries * keys) return std::nullopt;
  std::vector<bool> hidden;
  hidden.reserve(values.size());
  for (const double value : values) {
    if (term.bias == nullptr) {
      hidden.push_back((value != 0.0) == term.hides_where_true);
    } else {
      if (value != 0.0 && !(value <= kHidden)) return std::nullopt;
      hidden.push_back(value != 0.0);
    }
  }
  return hidden;
}

bool is_causal(const ScoreTerm& term, std::int64_t queries, std::int64_t keys) {
  if (queries > keys) return false;
  const auto hidden = hidden_keys(term, queries, keys);
  if (!hidden) return false;
  for (std::int64_t t = 0; t < queries; ++t) {
    for (std::int64_t s = 0; s < keys; ++s) {
      if ((*hidden)[static_cast<std::size_t>(t * keys + s)] != (s > t + keys - queries))
        return false;
    }
  }
  return true;
}

// May the mask be written as something that is added? Where a query sees nothing at all, a small
// penalty would let the scores through that Where replaces.
bool is_addable(const ScoreTerm& term, std::int64_t queries, std::int64_t keys) {
  if (term.bias != nullptr || term.hidden <= kBeyondScores) return true;
  if (!(term.hidden <= kHidden)) return false;
  const auto hidden = hidden_keys(term, queries, keys);
  if (!hidden) return false;
  for (std::int64_t t = 0; t < queries; ++t) {
    bool sees = false;
    for (std::int64_t s = 0; s < keys; ++s)
      sees = sees || !(*hidden)[static_cast<std::size_t>(t * keys + s)];
    if (!sees) return false;
  }
  return true;
}

// ---- scores

bool broadcasts(const Value* value, const Dims& to) {
  const auto dims = static_dims(value);
  if (!dims || dims->size() > to.size()) return false;
  for (std::size_t i = 0; i < dims->size(); ++i) {
    const std::int64_t dim = (*dims)[dims->size() - 1 - i];
    if (dim != 1 && dim != to[to.size() - 1 - i]) return false;
  }
  return true;
}

class ScoreWalk {
 public:
  ScoreWalk(const ActiveValues& active, AttentionMatch& match) : active_(active), match_(match) {}

  // From what the Softmax reads up to the product of q and k.
  bool walk(Value* value) {
    while (is_float32(value) && static_dims(value) && has_one_reader(*value) &&
           value->producer() != nullptr) {
      Node* node = value->producer();
      if (node->is("MatMul") || node->is("MatMulT", kMezzoDomain)) return take_product(*node);
      if (node->is("Add")) return take_add(*node);
      if (node->is("Where")) return take_where(*node);
      if (node->is("Identity")) {
        value = node->operand(0);
        continue;
      }
      value = unscaled(value, active_, match_.scale);
      scaled_ = true;
    }
    return false;
  }

 private:
  bool add_term(ScoreTerm term) {
    const Value* value = term.bias != nullptr ? term.bias : term.condition;
    if (scaled_ || match_.terms.size() >= kMostTerms || active_.count(value) > 0) return false;
    match_.terms.push_back(term);
    return true;
  }

  bool take_add(Node& node) {
    const Dims dims = *static_dims(node.result());
    for (const std::size_t side : {0, 1}) {
      Value *scores = node.operand(side), *bias = node.operand(1 - side);
      if (scores == nullptr || static_dims(scores) != dims || !is_float32(bias) ||
          !broadcasts(bias, dims))
        continue;
      const AttentionMatch before = match_;
      const bool scaled = scaled_;
      if (add_term({.bias = bias}) && walk(scores)) return true;
      match_ = before;
      scaled_ = scaled;
    }
    return false;
  }

  bool take_where(Node& node) {
    const Dims dims = *static_dims(node.result());
    for (const std::size_t side : {1, 2}) {
      Value* scores = node.operand(side);
      const auto hidden = constant_scalar(node.operand(3 - side));
      if (!hidden || active_.count(node.operand(3 - side)) > 0 || scores == nullptr ||
          static_dims(scores) != dims || !broadcasts(node.operand(0), dims))
        continue;
      return add_term({.condition = node.operand(0),
                       .hides_where_true = side == 2,
                       .hidden = *hidden}) &&
             walk(scores);
    }
    return false;
  }

  bool take_product(Node& node) {
    if (node.is("MatMulT", kMezzoDomain)) {
      if (node.int_attribute("trans_a", 0) != 0) return false;
      match_.scale *= static_cast<double>(node.float_attribute("alpha", 1.0F));
    }
    match_.k_transposed = node.int_attribute("trans_b", 0) == 0;
    if (!is_float32(node.operand(0)) || !is_float32(node.operand(1))) return false;
    match_.q = without_scale(node.operand(0), active_, match_.scale);
    take_keys(node.operand(1), active_, match_);
    return true;
  }

  const ActiveValues& active_;
  AttentionMatch& match_;
  bool scaled_ = false;  // by a factor met so far: a term further up would have to be scaled, too
};

// ---- behind the Softmax

// Rows that are replaced by zeros behind the Softmax.
struct Guard {
  Value* probabilities = nullptr;  // what the product with v reads; null: something else reads, too
  Value* bias = nullptr;           // rows of which this is -infinity throughout; null: NaN, or none
};

bool is_zero(const Value* value) { return constant_scalar(value) == 0.0; }

bool is_never(const Value* condition) {
  const auto values = constant_ints(condition);
  return values && std::ranges::all_of(*values, [](std::int64_t value) { return value == 0; });
}

// b of ReduceMax(b) == -infinity along the last axis; else null.
Value* hidden_throughout(Value* condition) {
  Node* equal = producer_if(condition, "Equal");
  if (equal == nullptr) return nullptr;
  for (const std::size_t side : {0, 1}) {
    Node* most = producer_if(equal->operand(side), "ReduceMax");
    const auto number = constant_scalar(equal->operand(1 - side));
    if (most == nullptr || number != -std::numeric_limits<double>::infinity()) continue;
    if (single_axis_from_end(*most) == -1) return most->operand(0);
  }
  return nullptr;
}

// Where(IsNaN(p), 0, p), Where(b is -infinity throughout, 0, p), or p.
Guard guard_of(Value* probabilities) {
  if (probabilities->is_graph_output() || !probabilities->inner_outputs().empty()) return {};
  Node *is_nan = nullptr, *where = nullptr;
  for (const Use& use : probabilities->uses()) {
    if (use.node->is("IsNaN")) is_nan = use.node;
    if (use.node->is("Where") && use.operand == 2) where = use.node;
  }
  if (where == nullptr) return {has_one_reader(*probabilities) ? probabilities : nullptr, nullptr};
  if (!is_zero(where->operand(1)) || !has_one_reader(*where->result())) return {};
  Value* condition = where->operand(0);
  if (is_nan != nullptr) {
    const bool fits = probabilities->uses().size() == 2 && condition == is_nan->result() &&
                      has_one_reader(*condition);
    return {fits ? where->result() : nullptr, nullptr};
  }
  if (!has_one_reader(*probabilities)) return {};
  if (is_never(condition)) return {where->result(), nullptr};
  Value* bias = hidden_throughout(condition);
  return {bias != nullptr ? where->result() : nullptr, bias};
}

bool shapes_fit(const AttentionMatch& match) {
  const auto q = static_dims(match.q), k = static_dims(match.k), v = static_dims(match.v);
  if (!q || !k || !v || (q->size() != 4 && q->size() != 3) || k->size() != q->size() ||
      v->size() != q->size() || !is_float32(match.v) || !is_float32(match.last->result()))
    return false;
  const std::size_t rank = q->size();
  const std::int64_t keys = (*v)[rank - 2];
  Dims k_dims = *k;
  if (match.k_transposed) std::swap(k_dims[rank - 1], k_dims[rank - 2]);
  for (std::size_t i = 0; i + 2 < rank; ++i) {
    const bool is_heads = rank == 4 && i == 1;
    if (k_dims[i] != (*v)[i] ||
        (is_heads ? k_dims[i] < 1 || (*q)[i] % k_dims[i] != 0 : k_dims[i] != (*q)[i]))
      return false;
  }
  return k_dims[rank - 2] == keys && k_dims[rank - 1] == (*q)[rank - 1] &&
         match.last->result()->tensor_type().elems() > 0 && keys > 0 && k_dims[rank - 1] > 0;
}

}  // namespace

std::optional<AttentionMatch> match_attention(Node& softmax, const ActiveValues& active) {
  if (!softmax.is("Softmax") || !is_float32(softmax.operand(0))) return std::nullopt;
  const auto dims = static_dims(softmax.operand(0));
  if (!dims || dims->size() < 3) return std::nullopt;
  const auto rank = static_cast<std::int64_t>(dims->size());
  const std::int64_t axis = softmax.int_attribute("axis", -1);
  if (axis != -1 && axis != rank - 1) return std::nullopt;
  AttentionMatch match;
  match.softmax = &softmax;
  const Guard guard = guard_of(softmax.result());
  match.last = only_user(guard.probabilities, "MatMul");
  if (match.last == nullptr || match.last->operand(0) != guard.probabilities ||
      match.last->graph() != softmax.graph())
    return std::nullopt;
  match.v = match.last->operand(1);
  if (!ScoreWalk(active, match).walk(softmax.operand(0))) return std::nullopt;
  if (!std::isfinite(match.scale) || match.v == nullptr) return std::nullopt;
  const auto is_guarded = [&](const ScoreTerm& term) { return term.bias == guard.bias; };
  if (guard.bias != nullptr && std::ranges::none_of(match.terms, is_guarded)) return std::nullopt;
  take_groups(match);
  if (!shapes_fit(match)) return std::nullopt;
  const std::int64_t queries = dims->end()[-2], keys = dims->back();
  std::vector<ScoreTerm> others;
  for (const ScoreTerm& term : match.terms) {
    if (is_causal(term, queries, keys) && (term.bias != nullptr || term.hidden <= kHidden)) {
      match.causal = true;
    } else if (is_addable(term, queries, keys)) {
      others.push_back(term);
    } else {
      return std::nullopt;
    }
  }
  match.terms = std::move(others);
  return match;
}

}  // namespace mezzo::passes
