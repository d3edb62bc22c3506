// 1. What takes a gradient is found: a bias or mask that does cannot be inside the operator.
// 2. For every Softmax that attention_pattern.h recognises: masks become additions (0, or what
//    hides), several are added up first; matrices of one head get a dimension for it.
// 3. What only the pattern read is erased.

#include "passes/cleanup/fuse_attention.h"

#include <set>
#include <unordered_set>
#include <vector>

#include "compiler/ir/builder.h"
#include "compiler/ops/constants.h"
#include "compiler/ops/op_def.h"
#include "passes/autodiff/activity.h"
#include "passes/autodiff/select_parameters.h"
#include "passes/cleanup/attention_pattern.h"

namespace mezzo::passes {
namespace {

using Dims = std::vector<std::int64_t>;

// The library's kernels take heads of multiples of 8, up to 256.
constexpr std::int64_t kMultiple = 8, kLargestHead = 256;

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

bool has_kernels(const AttentionMatch& match) {
  const std::int64_t size = static_dims(match.q)->back(), v_size = static_dims(match.v)->back();
  return size % kMultiple == 0 && v_size % kMultiple == 0 && size <= kLargestHead &&
         v_size <= kLargestHead;
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

StatusOr<Value*> replace(Graph& graph, const Model& model, const AttentionMatch& match) {
  Node* last = match.last;
  Builder builder(graph, type_inference(model), last);
  builder.set_scope(last->name.empty() ? "attention" : last->name);
  const bool one_head = static_dims(match.q)->size() == 3;
  Value *k = match.k, *bias = added_up(builder, match);
  if (match.k_transposed) {
    k = builder.op("Transpose", {k}, {{"perm", one_head ? Dims{0, 2, 1} : Dims{0, 1, 3, 2}}});
  }
  const auto in_heads = [&](Value* value) {
    return one_head && value != nullptr ? with_head(builder, value) : value;
  };
  std::vector<Builder::NamedValue> attributes = {{"scale", static_cast<float>(match.scale)}};
  if (match.causal) attributes.emplace_back("causal", std::int64_t{1});
  Value* y = builder.mezzo_op("ScaledDotProductAttention",
                              {in_heads(match.q), in_heads(k), in_heads(match.v), in_heads(bias)},
                              std::move(attributes));
  Node* attention = y->producer();
  attention->metadata = match.softmax->metadata;
  if (one_head) y = builder.op("Reshape", {y, builder.ints(*static_dims(last->result()))});
  MEZZO_RETURN_IF_ERROR(builder.status());
  graph.replace_uses(last->result(), y);
  if (!last->name.empty()) attention->name = last->name;
  return y;
}

}  // namespace

StatusOr<bool> fuse_attention(Model& model, PassContext& ctx) {
  if (!ctx.for_runtime || ctx.device != DeviceKind::kCuda || ctx.policy.force_fp32) return false;
  Graph& graph = *model.graph;
  MEZZO_ASSIGN_OR_RETURN(ValueSet active, active_values(model, ctx));
  bool changed = false;
  for (Node* node : graph.node_list()) {
    if (!node->is("Softmax")) continue;
    const auto match = match_attention(*node, active);
    if (!match || !has_kernels(*match)) continue;
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
