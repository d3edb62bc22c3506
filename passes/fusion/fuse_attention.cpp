// 1. What takes a gradient is found: a bias or mask that does cannot be inside the operator.
// 2. For every Softmax that attention_pattern.h recognises: masks become additions (0, or what
//    hides), several are added up first; matrices of one head get a dimension for it. Transposes
//    that bring heads in front of tokens, and back, are left out: kernels take either.
// 3. What only the pattern read is erased.

#include "passes/fusion/fuse_attention.h"

#include <algorithm>
#include <set>
#include <unordered_set>
#include <vector>

#include "compiler/ir/builder.h"
#include "compiler/ops/constants.h"
#include "compiler/ops/op_def.h"
#include "kernels/attention_shape.h"
#include "passes/autodiff/activity.h"
#include "passes/autodiff/select_parameters.h"
#include "passes/cleanup/match.h"
#include "passes/fusion/attention_pattern.h"

namespace mezzo::passes {
namespace {

using Dims = std::vector<std::int64_t>;
// Bits of tokens_first.
using kernels::attention::kKeysSo;
using kernels::attention::kQueriesSo;
using kernels::attention::kResultSo;
using kernels::attention::kValuesSo;

Dims exchange_heads() { return {0, 2, 1, 3}; }

// The library's kernels take heads of multiples of 8, up to 256.
constexpr std::int64_t kMultiple = 8, kLargestHead = 256;
// On the CPU, scores of a head from which on blocks of queries are no slower than the whole, by
// measurement of forward and backward in FP32, BF16 and FP16: heads of 64, 512 tokens take 0.88 to
// 0.95 of the time, 256 tokens up to 1.32; with half of them hidden 0.53 to 0.59 and 0.74 to 1.06.
constexpr double kLeastScores = 512.0 * 512.0, kLeastCausalScores = 256.0 * 256.0;

// Values that depend on what will be trained.
StatusOr<ValueSet> active_values(const Model& model, const PassContext& ctx) {
  if (!ctx.training) return ValueSet();
  std::set<std::string> states;
  for (const auto& [statistic, output] : ctx.training->states) states.insert(output);
  MEZZO_ASSIGN_OR_RETURN(const Value* const loss,
                         find_loss(*model.graph, ctx.training_options.loss_output, states));
  MEZZO_ASSIGN_OR_RETURN(
      const auto choices,
      select_parameters(*model.graph, *loss, ctx.training_options, ctx.computed_constants));
  ValueSet trained;
  for (const ParameterChoice& choice : choices) {
    if (choice.trained) trained.insert(choice.value);
  }
  return depends_on(*model.graph, trained);
}

// Is one operator faster there?
bool pays(const AttentionMatch& match, const PassContext& ctx) {
  const Dims q = *static_dims(match.q), v = *static_dims(match.v);
  if (ctx.device == DeviceKind::kCuda) {
    const auto fits = [](std::int64_t size) {
      return size % kMultiple == 0 && size <= kLargestHead;
    };
    return !ctx.policy.force_fp32 && fits(q.back()) && fits(v.back());
  }
  const double scores = static_cast<double>(q.end()[-2]) * static_cast<double>(v.end()[-2]);
  return scores >= (match.causal ? kLeastCausalScores : kLeastScores);
}

// [N,X,Y] as [N,1,X,Y]; what has fewer dimensions broadcasts as it is.
Value* with_head(Builder& builder, Value* value) {
  const Dims dims = *static_dims(value);
  if (dims.size() != 3) return value;
  return builder.op("Reshape", {value, builder.ints({dims[0], 1, dims[1], dims[2]})});
}

// All terms as one that is added; null if there is none.
Value* added_up(Builder& builder, const AttentionMatch& match) {
  Value* sum = nullptr;
  for (const ScoreTerm& term : match.terms) {
    Value* bias = term.bias;
    if (bias == nullptr) {
      Value* zero = builder.scalar(DType::kFloat32, 0.0);
      Value* hidden = builder.scalar(DType::kFloat32, term.hidden);
      bias = builder.op("Where", {term.condition, term.hides_where_true ? hidden : zero,
                                  term.hides_where_true ? zero : hidden});
    }
    sum = sum == nullptr ? bias : builder.op("Add", {bias, sum});
  }
  return sum;
}

// What a Transpose reads, if `value` is its result by this permutation; else null.
Value* before_transpose(Value* value, const Dims& perm) {
  Node* node = producer_if(value, "Transpose");
  return node != nullptr && node->ints_attribute("perm") == perm ? node->operand(0) : nullptr;
}

// The Transpose to tokens first that alone reads the pattern's result, if there is one.
Node* transpose_behind(const Node& last) {
  Node* node = only_user(last.result(), "Transpose");
  return node != nullptr && node->ints_attribute("perm") == exchange_heads() ? node : nullptr;
}

// q, k and v as the operator takes them, and how they lie.
struct Operands {
  Value *q, *k, *v;
  std::int64_t tokens_first = 0;
};

Operands operands_of(Builder& builder, const AttentionMatch& match) {
  Operands operands = {match.q, match.k, match.v, 0};
  const bool one_head = static_dims(match.q)->size() == 3;
  const auto take = [&](Value*& value, const Dims& perm, std::int64_t bit) {
    Value* before = one_head ? nullptr : before_transpose(value, perm);
    if (before == nullptr) return false;
    value = before;
    operands.tokens_first |= bit;
    return true;
  };
  take(operands.q, exchange_heads(), kQueriesSo);
  take(operands.v, exchange_heads(), kValuesSo);
  if (take(operands.k, match.k_transposed ? Dims{0, 2, 3, 1} : exchange_heads(), kKeysSo) ||
      !match.k_transposed)
    return operands;
  operands.k =
      builder.op("Transpose", {match.k}, {{"perm", one_head ? Dims{0, 2, 1} : Dims{0, 1, 3, 2}}});
  return operands;
}

// Returns what stands for the pattern's result, or for that of the Transpose behind it.
StatusOr<Value*> replace(Graph& graph, const Model& model, const AttentionMatch& match) {
  Node* last = match.last;
  Node* behind = transpose_behind(*last);
  Builder builder(graph, type_inference(model), last);
  builder.set_scope(last->name.empty() ? "attention" : last->name);
  const bool one_head = static_dims(match.q)->size() == 3;
  Value* bias = added_up(builder, match);
  const Operands operands = operands_of(builder, match);
  const std::int64_t tokens_first =
      operands.tokens_first | (behind != nullptr ? std::int64_t{kResultSo} : 0);
  const auto in_heads = [&](Value* value) {
    return one_head && value != nullptr ? with_head(builder, value) : value;
  };
  std::vector<Builder::NamedValue> attributes = {{"scale", static_cast<float>(match.scale)}};
  if (match.causal) attributes.emplace_back("causal", std::int64_t{1});
  if (tokens_first != 0) attributes.emplace_back("tokens_first", tokens_first);
  Value* y = builder.mezzo_op(
      "ScaledDotProductAttention",
      {in_heads(operands.q), in_heads(operands.k), in_heads(operands.v), in_heads(bias)},
      std::move(attributes));
  Node* attention = y->producer();
  attention->metadata = match.softmax->metadata;
  if (one_head) y = builder.op("Reshape", {y, builder.ints(*static_dims(last->result()))});
  MEZZO_RETURN_IF_ERROR(builder.status());
  graph.replace_uses((behind != nullptr ? behind : last)->result(), y);
  if (!last->name.empty()) attention->name = last->name;
  return y;
}

}  // namespace

StatusOr<bool> fuse_attention(Model& model, PassContext& ctx) {
  if (!ctx.for_runtime) return false;
  Graph& graph = *model.graph;
  const auto is_softmax = [](const auto& node) { return node->is("Softmax"); };
  if (std::ranges::none_of(graph.nodes(), is_softmax)) return false;
  MEZZO_ASSIGN_OR_RETURN(ValueSet active, active_values(model, ctx));
  bool changed = false;
  for (Node* node : graph.node_list()) {
    if (!node->is("Softmax")) continue;
    const auto match = match_attention(*node, active);
    if (!match || !pays(*match, ctx)) continue;
    const bool is_active = active.count(match->last->result()) > 0;
    MEZZO_ASSIGN_OR_RETURN(const Value* const y, replace(graph, model, *match));
    if (is_active) active.insert(y);
    ctx.stats.add("attentions-fused", 1);
    changed = true;
  }
  if (changed) graph.remove_dead_nodes(/*unused_initializers_too=*/false);
  return changed;
}

}  // namespace mezzo::passes
