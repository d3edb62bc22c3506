#include "passes/precision/save_low.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "compiler/ir/builder.h"
#include "compiler/ir/training_phases.h"
#include "compiler/report/format.h"
#include "compiler/support/dtype.h"
#include "passes/cleanup/match.h"
#include "passes/precision/storage_kinds.h"

namespace mezzo::passes {
namespace {

// Magnitudes do not grow, or grow as the number of terms.
constexpr std::string_view kKeepMagnitude[] = {"Relu",          "LeakyRelu",
                                               "PRelu",         "Elu",
                                               "Celu",          "Selu",
                                               "Gelu",          "Swish",
                                               "Mish",          "HardSwish",
                                               "Clip",          "Cast",
                                               "Add",           "Sub",
                                               "Sum",           "Max",
                                               "Min",           "ReduceMean",
                                               "MaxPool",       "AveragePool",
                                               "GlobalMaxPool", "GlobalAveragePool"};

bool keeps_magnitude(const Node& node) {
  const bool ours = node.domain().empty() || node.domain() == kMezzoDomain;
  return is_move(node) ||
         (ours && std::ranges::find(kKeepMagnitude, node.op_type()) != std::end(kKeepMagnitude));
}

// Lies between -1 and 1 whatever it reads.
bool is_bounded(const Node& node) {
  return is_one_of(node, {"Sigmoid", "HardSigmoid", "Tanh", "Softmax", "Softsign"});
}

class LowSaver {
 public:
  LowSaver(Graph& graph, PassContext& ctx)
      : graph_(graph),
        ctx_(ctx),
        fixed_(kept_in_fp32(ctx.records)),
        forward_(forward_nodes(graph, *ctx.training)) {}

  bool run() {
    for (Node* node : graph_.node_list()) {
      if (forward_.count(node) == 0) continue;
      if (fits_low(*node)) fitting_.insert(node);  // operands come first
      // Further results of nodes that compute are statistics.
      const std::size_t count = is_move(*node) ? node->results().size() : 1;
      for (std::size_t i = 0; i < count; ++i) {
        if (node->result(i) != nullptr) consider(*node->result(i));
      }
    }
    if (changed_) graph_.sort_topologically();  // a cast may stand behind its new readers
    return changed_;
  }

 private:
  void consider(Value& value) {
    if (!is_large_float(value) || value.is_graph_output() || !value.inner_outputs().empty()) return;
    std::vector<Use> later;
    for (const Use& use : value.uses()) {
      if (forward_.count(use.node) > 0 || use.node->is("Cast")) continue;
      if (!may_read_low(*use.node)) return;
      later.push_back(use);
    }
    if (later.empty()) return;
    Value* low = cast_of(value);
    if (low == nullptr && fits_low(value)) {
      low = add_cast(value);
      record(value, later);
    }
    if (low == nullptr) return;
    for (const Use& use : later) use.node->set_operand(use.operand, low);
    ctx_.stats.add("activations-saved-low", 1);
    changed_ = true;
  }

  bool may_read_low(const Node& node) const {
    return node.graph() == &graph_ && fixed_.count(display_name(node)) == 0 &&
           (is_normalisation(node) || is_elementwise(node));
  }

  // The one that contractions read.
  Value* cast_of(const Value& value) const {
    for (const Use& use : value.uses()) {
      if (use.node->graph() == &graph_ && use.node->is("Cast") &&
          use.node->result()->dtype() == ctx_.policy.low)
        return use.node->result();
    }
    return nullptr;
  }

  // As far as the graph tells: made by a normalisation, and not enlarged since.
  bool fits_low(const Node& node) const {
    return fixed_.count(display_name(node)) == 0 &&
           (is_normalisation(node) || is_bounded(node) || made_of_fitting(node));
  }
  bool fits_low(const Value& value) const { return fitting_.count(value.producer()) > 0; }

  bool made_of_fitting(const Node& node) const {
    if (node.is("Mul")) {
      const Value *a = node.operand(0), *b = node.operand(1);
      return a != nullptr && b != nullptr &&
             ((is_gate(*a) && fits_low(*b)) || (is_gate(*b) && fits_low(*a)));
    }
    if (!keeps_magnitude(node)) return false;
    return std::ranges::all_of(node.operands(), [&](const Value* operand) {
      return operand == nullptr || !is_floating(operand->dtype()) || is_parameter(node, *operand) ||
             fits_low(*operand);
    });
  }

  static bool is_gate(const Value& value) {
    return value.producer() != nullptr && is_bounded(*value.producer());
  }

  // Slopes and limits, not terms.
  static bool is_parameter(const Node& node, const Value& value) {
    return value.is_initializer() && is_one_of(node, {"PRelu", "Clip"}) &&
           node.operand(0) != &value;
  }

  Value* add_cast(Value& value) {
    Value* operands[] = {&value};
    const std::string names[] = {
        graph_.unique_name(value.name() + "_" + std::string(short_dtype(ctx_.policy.low)))};
    Node* cast = graph_.add_node("Cast", "", operands, names, graph_.next(value.producer()));
    cast->name = "cast/" + cast->result()->name();
    cast->set_attribute("to", static_cast<std::int64_t>(ctx_.policy.low));
    cast->result()->type = value.type;
    cast->result()->type.tensor.dtype = ctx_.policy.low;
    return cast->result();
  }

  void record(const Value& value, const std::vector<Use>& readers) {
    CastDecision cast;
    cast.value = value.name();
    cast.producer = display_name(*value.producer());
    for (const Use& use : readers) cast.consumers.push_back(display_name(*use.node));
    cast.from = value.dtype();
    cast.to = ctx_.policy.low;
    const std::int64_t elems = value.tensor_type().elems();
    cast.bytes = dtype_bytes(cast.from, elems) + dtype_bytes(cast.to, elems);
    cast.cause = "only gradients read it later";
    ctx_.records.casts.push_back(std::move(cast));
  }

  Graph& graph_;
  PassContext& ctx_;
  std::unordered_set<std::string> fixed_;  // nodes, by name
  std::unordered_set<const Node*> forward_;
  std::unordered_set<const Node*> fitting_;  // nodes whose results fit the low type's range
  bool changed_ = false;
};

}  // namespace

bool save_low(Graph& graph, PassContext& ctx) { return LowSaver(graph, ctx).run(); }

}  // namespace mezzo::passes
