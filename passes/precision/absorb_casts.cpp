#include "passes/precision/absorb_casts.h"

#include "compiler/ops/op_def.h"
#include "passes/cleanup/match.h"
#include "passes/precision/reads_any_type.h"

namespace mezzo::passes {
namespace {

// That gives FP32 from low operands. Kernels of attention want one type throughout.
bool is_contraction(const Node& node) {
  const OpDef* def = find_op(node);
  return def != nullptr && def->precision == PrecisionCategory::kAllow &&
         !def->name.starts_with("ScaledDotProductAttention");
}

bool is_cast(const Node& node, bool to_fp32) {
  if (!node.is("Cast") || node.operand(0) == nullptr) return false;
  const DType from = node.operand(0)->dtype(), to = node.result()->dtype();
  return to_fp32 ? is_low(from) && to == DType::kFloat32 : from == DType::kFloat32 && is_low(to);
}

class Absorber {
 public:
  Absorber(Graph& graph, PassContext& ctx) : graph_(graph), ctx_(ctx) {}

  bool run() {
    for (Node* node : graph_.node_list()) {
      if (is_cast(*node, /*to_fp32=*/true)) {
        if (!into_producer(*node, is_contraction)) into_readers(*node);
      } else if (is_cast(*node, /*to_fp32=*/false)) {
        into_producer(*node, reads_any_type);
      }
    }
    return changed_;
  }

 private:
  // The producer writes the cast's type, if the cast is the only reader of what it writes now.
  template <typename Predicate>
  bool into_producer(Node& cast, const Predicate& may) {
    Value* inner = cast.operand(0);
    Node* producer = inner->producer();
    if (producer == nullptr || !may(*producer) || !has_one_reader(*inner)) return false;
    Value* result = cast.result();
    inner->type.tensor.dtype = result->dtype();
    graph_.replace_uses(result, inner);
    graph_.erase(&cast);
    done();
    return true;
  }

  // All readers that can read the low value directly do.
  void into_readers(Node& cast) {
    Value* low = cast.operand(0);
    if (low->is_initializer()) return;
    const std::vector<Use> uses = cast.result()->uses();
    for (const Use& use : uses) {
      if (use.node->graph() == &graph_ && reads_any_type(*use.node))
        use.node->set_operand(use.operand, low);
    }
    if (cast.result()->has_uses()) {
      changed_ = changed_ || cast.result()->uses().size() != uses.size();
      return;
    }
    graph_.erase(&cast);
    done();
  }

  void done() {
    ctx_.stats.add("casts-absorbed", 1);
    changed_ = true;
  }

  Graph& graph_;
  PassContext& ctx_;
  bool changed_ = false;
};

}  // namespace

StatusOr<bool> absorb_casts(Model& model, PassContext& ctx) {
  if (!ctx.for_runtime) return false;
  return Absorber(*model.graph, ctx).run();
}

}  // namespace mezzo::passes
