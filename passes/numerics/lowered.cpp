#include "passes/numerics/lowered.h"

#include <algorithm>

#include "compiler/ir/clone.h"
#include "compiler/ops/constants.h"
#include "passes/pass.h"
#include "passes/precision/assignment.h"
#include "passes/precision/insert_casts.h"

namespace mezzo::numerics {
namespace {

using passes::is_fp32;

bool lower_than_fp32(const Value* a, const Value* b) {
  return is_fp32(a) && b != nullptr && is_low(b->dtype());
}

// FP32 that a cast made of the low type.
bool came_low(const Value* b) {
  const Node* cast = b == nullptr ? nullptr : b->producer();
  return cast != nullptr && cast->is("Cast") && is_fp32(b) && cast->operand(0) != nullptr &&
         is_low(cast->operand(0)->dtype());
}

class Reader {
 public:
  Reader(const ModelMatch& match, Lowering& out) : match_(match), out_(out) {}

  void read(const Graph& a) {
    for (const auto& node : a.nodes()) {
      const auto found = match_.b_of.find(node.get());
      if (found == match_.b_of.end()) continue;
      read_node(*node, *found->second);
      for (const Graph* inner : node->subgraphs()) read(*inner);
    }
  }

 private:
  void read_node(const Node& a, const Node& b) {
    LoweredNode lowered;
    lowered.node = &a;
    lowered.slots.possible = true;
    for (std::size_t i = 0; i < a.operand_count(); ++i) {
      const bool low = lower_than_fp32(a.operand(i), b.operand(i));
      lowered.slots.operands.push_back(low);
      if (low) note(b.operand(i)->dtype());
      if (low) note_constant(*a.operand(i), *b.operand(i), i, lowered);
      if (is_fp32(a.operand(i)) && !constant_of(a.operand(i)) && came_low(b.operand(i)) &&
          !made_low(*a.operand(i))) {
        lowered.rounded.push_back(i);
        note(b.operand(i)->producer()->operand(0)->dtype());
      }
    }
    for (std::size_t i = 0; i < a.results().size(); ++i) {
      const bool low = lower_than_fp32(a.result(i), b.result(i));
      lowered.slots.results.push_back(low);
      if (low) note(b.result(i)->dtype());
    }
    read_inner(a, b, lowered);
    const auto any = [](const std::vector<bool>& flags) {
      return std::find(flags.begin(), flags.end(), true) != flags.end();
    };
    if (any(lowered.slots.operands) || any(lowered.slots.results) || !lowered.rounded.empty() ||
        !lowered.inner.empty())
      out_.nodes.push_back(std::move(lowered));
  }

  // The value's own maker gives it low, so that whoever reads it finds it rounded anyway.
  bool made_low(const Value& a) const {
    if (a.producer() == nullptr) return false;
    const auto maker = match_.b_of.find(a.producer());
    if (maker == match_.b_of.end()) return false;
    return lower_than_fp32(&a, maker->second->result(a.result_index()));
  }

  static void read_inner(const Node& a, const Node& b, LoweredNode& lowered) {
    const std::vector<Graph*> of_a = a.subgraphs(), of_b = b.subgraphs();
    for (std::size_t g = 0; g < of_a.size() && g < of_b.size(); ++g) {
      LoweredNode::Inner inner;
      inner.graph = of_a[g];
      bool any = false;
      const auto read = [&](const std::vector<Value*>& from, const std::vector<Value*>& to,
                            std::vector<bool>& flags) {
        for (std::size_t i = 0; i < from.size() && i < to.size(); ++i) {
          flags.push_back(lower_than_fp32(from[i], to[i]));
          any = any || flags.back();
        }
      };
      read(of_a[g]->inputs(), of_b[g]->inputs(), inner.inputs);
      read(of_a[g]->outputs(), of_b[g]->outputs(), inner.outputs);
      if (any) lowered.inner.push_back(std::move(inner));
    }
  }

  void note(DType dtype) {
    if (out_.low == DType::kNone) out_.low = dtype;
  }

  static void note_constant(const Value& a, const Value& b, std::size_t operand,
                            LoweredNode& lowered) {
    const TensorRef data_a = constant_of(&a), data_b = constant_of(&b);
    if (!data_a || !data_b || data_a->dims() != data_b->dims()) return;
    if (Tensor::cast_of(data_a, data_b->dtype(), false)->copy_bytes() == data_b->copy_bytes())
      return;
    lowered.constants.push_back({operand, Tensor::cast_of(data_b, DType::kFloat32, false)});
  }

  const ModelMatch& match_;
  Lowering& out_;
};

struct TypeCounts {
  std::size_t fp32 = 0, low = 0;
};
TypeCounts count_types(const Model& model) {
  TypeCounts counts;
  for_each_graph(*model.graph, [&](const Graph& graph) {
    for (const auto& node : graph.nodes()) {
      for (const Value* result : node->results()) {
        counts.fp32 += is_fp32(result) ? 1 : 0;
        counts.low += result != nullptr && is_low(result->dtype()) ? 1 : 0;
      }
    }
  });
  return counts;
}

// Nodes of both in the same order.
std::unordered_map<const Node*, Node*> nodes_of_copy(const Graph& original, Graph& copy) {
  std::vector<const Node*> from;
  std::vector<Node*> to;
  for_each_graph(const_cast<Graph&>(original), [&](const Graph& graph) {
    for (const auto& node : graph.nodes()) from.push_back(node.get());
  });
  for_each_graph(copy, [&](Graph& graph) {
    for (const auto& node : graph.nodes()) to.push_back(node.get());
  });
  std::unordered_map<const Node*, Node*> map;
  for (std::size_t i = 0; i < from.size(); ++i) map.emplace(from[i], to[i]);
  return map;
}

bool stands_in_kept(const Node& node, const std::unordered_set<const Node*>& kept) {
  for (const Node* around = &node; around != nullptr; around = around->graph()->parent()) {
    if (kept.count(around) > 0) return true;
  }
  return false;
}

// Puts a cast there and one back before operand `index`.
void round_operand(Node& node, std::size_t index, DType low) {
  Graph& graph = *node.graph();
  Value* value = node.operand(index);
  for (const DType to : {low, DType::kFloat32}) {
    Value* operands[] = {value};
    const std::string names[] = {graph.unique_name(value->name() + "_rounded")};
    Node* cast = graph.add_node("Cast", "", operands, names, &node);
    cast->name = "cast/" + cast->result()->name();
    cast->set_attribute("to", static_cast<std::int64_t>(to));
    cast->result()->type = value->type;
    cast->result()->type.tensor.dtype = to;
    value = cast->result();
  }
  node.set_operand(index, value);
}

}  // namespace

StatusOr<Lowering> read_lowering(const Model& a, const Model& b, const ModelMatch& match) {
  const TypeCounts of_a = count_types(a), of_b = count_types(b);
  if (of_a.low > of_a.fp32 || (of_a.low > 0 && of_b.low == 0)) {
    return invalid_argument(
        "the first model runs in 16 bits itself, so that it cannot say what is right. Hint: give "
        "the FP32 model first");
  }
  Lowering out;
  Reader(match, out).read(*a.graph);
  return out;
}

StatusOr<std::unique_ptr<Model>> lower_all_but(const Model& a, const Lowering& lowering,
                                               const std::unordered_set<std::size_t>& kept) {
  std::unique_ptr<Model> copy = clone_model(a);
  if (lowering.low == DType::kNone) return copy;
  const auto node_of = nodes_of_copy(*a.graph, *copy->graph);
  std::unordered_set<const Node*> kept_nodes;
  for (const std::size_t index : kept) kept_nodes.insert(lowering.nodes[index].node);
  auto assignment = std::make_shared<passes::Assignment>();
  std::vector<std::pair<Node*, std::size_t>> rounded;
  for (const LoweredNode& lowered : lowering.nodes) {
    if (stands_in_kept(*lowered.node, kept_nodes)) continue;
    Node* node = node_of.at(lowered.node);
    assignment->nodes[node] = {true, lowered.slots};
    for (const std::size_t index : lowered.rounded) rounded.emplace_back(node, index);
    for (const LoweredNode::Inner& inner : lowered.inner) {
      const std::vector<Graph*> from = lowered.node->subgraphs(), to = node->subgraphs();
      const auto at =
          static_cast<std::size_t>(std::find(from.begin(), from.end(), inner.graph) - from.begin());
      assignment->graphs[to[at]] = {inner.inputs, inner.outputs};
    }
    for (const LoweredNode::Given& given : lowered.constants) {
      Graph& graph = *node->graph();
      const std::string name = graph.unique_name(node->operand(given.operand)->name() + "_given");
      node->set_operand(given.operand, graph.add_initializer(name, given.values));
    }
  }
  for (const auto& [node, index] : rounded) round_operand(*node, index, lowering.low);
  passes::PassContext ctx;
  ctx.policy.low = lowering.low;
  ctx.assignment = std::move(assignment);
  MEZZO_RETURN_IF_ERROR(passes::insert_casts(*copy, ctx).status());
  return copy;
}

}  // namespace mezzo::numerics
