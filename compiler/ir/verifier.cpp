#include "compiler/ir/verifier.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <tuple>
#include <vector>

namespace mezzo {
namespace {

std::string quoted(const Value& value) { return "value '" + value.name() + "'"; }

bool encloses(const Graph* outer, const Graph* graph) {
  while (graph && graph != outer) graph = graph->enclosing();
  return graph != nullptr;
}

Status check_uses(const Value& value, std::size_t found) {
  for (const Use& use : value.uses()) {
    if (use.node->operand(use.operand) != &value) {
      return internal_error(quoted(value) + ": a use is listed that " + describe(*use.node) +
                            " does not have");
    }
    if (found != value.uses().size() && !encloses(value.graph(), use.node->graph())) {
      return internal_error(quoted(value) + ": is used outside its graph by " +
                            describe(*use.node));
    }
  }
  if (found == value.uses().size()) return ok_status();
  return internal_error(quoted(value) + ": expected " + std::to_string(found) +
                        " listed uses, got " + std::to_string(value.uses().size()));
}

// What the verifier knows of values, by address. Entries never go: verification runs after every
// pass, so this is a plain table with linear probing.
class ValueTable {
 public:
  struct Entry {
    const Value* value = nullptr;  // null: free
    std::uint32_t uses = 0;        // found so far
    bool known = false;            // a value of the graph at hand or of one around it
    bool defined = false;          // before the place at hand
  };

  ValueTable() : entries_(std::size_t{1} << 10) {}

  void reserve(std::size_t more) {
    if ((count_ + more) * 2 <= entries_.size()) return;
    std::size_t size = entries_.size();
    while ((count_ + more) * 2 > size) size *= 2;
    for (const Entry& entry : std::exchange(entries_, std::vector<Entry>(size))) {
      if (entry.value != nullptr) entries_[slot(entry.value)] = entry;
    }
  }
  // REQUIRES: reserve() has made room.
  Entry& add(const Value* value) {
    Entry& entry = entries_[slot(value)];
    count_ += entry.value == nullptr ? 1 : 0;
    entry.value = value;
    return entry;
  }
  // Null for values that are not known, of which only the address may be looked at.
  Entry* find(const Value* value) {
    Entry& entry = entries_[slot(value)];
    return entry.value == value && entry.known ? &entry : nullptr;
  }

 private:
  std::size_t slot(const Value* value) const {
    const auto address = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(value));
    const std::size_t last = entries_.size() - 1;
    auto at = static_cast<std::size_t>((address * 0x9e3779b97f4a7c15U) >> 20) & last;
    while (entries_[at].value != nullptr && entries_[at].value != value) at = (at + 1) & last;
    return at;
  }

  std::vector<Entry> entries_;  // a power of two of them, at most half in use
  std::size_t count_ = 0;
};

// Walks graphs from outside in, in program order. A pointer is looked into only after it was found
// among the values of a graph that encloses the place, so dangling ones are reported, not followed.
class Verifier {
 public:
  Status check(const Graph& graph) {
    MEZZO_RETURN_IF_ERROR(enter(graph));
    for (const auto& node : graph.nodes()) {
      if (const Status status = check_node(*node, graph); !status.ok()) {
        return status.with_context(describe(*node));
      }
    }
    return check_outputs(graph);
  }

  // Forgets the values of `graph`, after having compared the uses found with those listed.
  Status leave(const Graph& graph) {
    for (const Value* value : graph.values()) {
      ValueTable::Entry& entry = *table_.find(value);
      MEZZO_RETURN_IF_ERROR(check_uses(*value, entry.uses));
      entry.known = entry.defined = false;
    }
    return ok_status();
  }

 private:
  Status enter(const Graph& graph);
  Status check_value(const Value& value, const Graph& graph);
  Status check_node(const Node& node, const Graph& graph);
  Status check_operands(const Node& node, const Graph& graph);
  Status check_results(const Node& node, const Graph& graph);
  Status check_subgraphs(const Node& node);
  Status check_outputs(const Graph& graph);

  bool is_known(const Value* value) { return table_.find(value) != nullptr; }
  bool is_defined(const Value* value) {
    const ValueTable::Entry* entry = table_.find(value);
    return entry != nullptr && entry->defined;
  }

  ValueTable table_;
};

Status Verifier::enter(const Graph& graph) {
  const std::vector<Value*> values = graph.values();
  table_.reserve(values.size());
  std::size_t inputs = 0;
  std::size_t initializers = 0;
  for (const Value* value : values) {
    if (const Status status = check_value(*value, graph); !status.ok()) {
      return status.with_context(quoted(*value));
    }
    inputs += value->is_graph_input() ? 1 : 0;
    initializers += value->is_initializer() ? 1 : 0;
    ValueTable::Entry& entry = table_.add(value);
    entry.known = true;
    entry.defined = value->producer() == nullptr;
  }
  if (inputs != graph.inputs().size() || initializers != graph.initializers().size()) {
    return internal_error("graph '" + graph.name + "': the lists of " +
                          std::to_string(graph.inputs().size()) + " inputs and " +
                          std::to_string(graph.initializers().size()) + " initializers name " +
                          "others than the values marked as such");
  }
  for (const Value* value : graph.inputs()) {
    if (!is_known(value) || value->graph() != &graph || !value->is_graph_input()) {
      return internal_error("graph '" + graph.name + "': an input is no value of the graph");
    }
  }
  return ok_status();
}

// The declared type of an input may be wider than its default's, but must not contradict it.
Status check_constant(const Type& type, DType dtype, const std::vector<std::int64_t>& dims) {
  const bool tensor = type.kind == Type::Kind::kTensor || type.kind == Type::Kind::kSparseTensor;
  if (type.kind == Type::Kind::kUnknown) return ok_status();
  bool fits = tensor && (type.tensor.dtype == dtype || type.tensor.dtype == DType::kNone);
  if (fits && type.tensor.shape) {
    fits = type.tensor.shape->size() == dims.size();
    for (std::size_t i = 0; fits && i < dims.size(); ++i) {
      const Dim& dim = (*type.tensor.shape)[i];
      fits = !dim.known() || dim.value == dims[i];
    }
  }
  if (fits) return ok_status();
  return internal_error("its type " + to_string(type) + " contradicts its constant of type " +
                        to_string(TensorType::of(dtype, dims)));
}

Status Verifier::check_value(const Value& value, const Graph& graph) {
  if (value.graph() != &graph) return internal_error("belongs to another graph");
  if (value.name().empty()) return internal_error("has no name");
  if (graph.find(value.name()) != &value) {
    return internal_error("another value of the graph has the same name");
  }
  const int origins =
      (value.producer() ? 1 : 0) + (value.is_graph_input() || value.is_initializer() ? 1 : 0);
  if (origins != 1) {
    return internal_error("expected either a producer or to be an input or constant");
  }
  if (const TensorRef& constant = value.constant()) {
    MEZZO_RETURN_IF_ERROR(check_constant(value.type, constant->dtype(), constant->dims()));
  }
  if (const auto& sparse = value.sparse_constant(); sparse && sparse->values) {
    MEZZO_RETURN_IF_ERROR(check_constant(value.type, sparse->values->dtype(), sparse->dims));
  }
  return ok_status();
}

Status Verifier::check_node(const Node& node, const Graph& graph) {
  if (node.graph() != &graph) return internal_error("lies in another graph than it says");
  if (node.op_type().empty()) return internal_error("has no op type");
  MEZZO_RETURN_IF_ERROR(check_operands(node, graph));
  MEZZO_RETURN_IF_ERROR(check_subgraphs(node));
  return check_results(node, graph);
}

Status Verifier::check_operands(const Node& node, const Graph& graph) {
  for (std::size_t i = 0; i < node.operand_count(); ++i) {
    const Value* value = node.operand(i);
    if (!value) continue;
    ValueTable::Entry* entry = table_.find(value);
    if (entry == nullptr) {
      return internal_error("operand " + std::to_string(i) +
                            ": is a value of no graph that encloses the node");
    }
    const auto wrong = [&](const char* what) {
      return internal_error("operand " + std::to_string(i) + " '" + value->name() + "': " + what);
    };
    if (!entry->defined) return wrong("is used before its definition");
    if (value->graph() != &graph) {
      const Value* seen = graph.find_visible(value->name());
      if (seen && seen != value) return wrong("an inner value of the same name hides it");
    }
    ++entry->uses;
  }
  return ok_status();
}

Status Verifier::check_subgraphs(const Node& node) {
  for (const Attribute& attribute : node.attributes()) {
    const auto* graph = std::get_if<Attribute::GraphRef>(&attribute.value);
    const auto* graphs = std::get_if<std::vector<Attribute::GraphRef>>(&attribute.value);
    if ((graph && !*graph) || (graphs && std::count(graphs->begin(), graphs->end(), nullptr) > 0)) {
      return internal_error("attribute '" + attribute.name + "' lacks its graph");
    }
  }
  for (const Graph* inner : node.subgraphs()) {
    if (inner->parent() != &node) {
      return internal_error("subgraph '" + inner->name + "' has another parent");
    }
    MEZZO_RETURN_IF_ERROR(check(*inner));
    MEZZO_RETURN_IF_ERROR(leave(*inner));
  }
  return ok_status();
}

Status Verifier::check_results(const Node& node, const Graph& graph) {
  for (std::size_t i = 0; i < node.results().size(); ++i) {
    const Value* value = node.result(i);
    if (!value) continue;
    ValueTable::Entry* entry = table_.find(value);
    if (entry == nullptr || value->graph() != &graph || value->producer() != &node ||
        value->result_index() != i) {
      return internal_error("result " + std::to_string(i) + ": the value does not name the node " +
                            "as its producer");
    }
    entry->defined = true;
  }
  return ok_status();
}

Status Verifier::check_outputs(const Graph& graph) {
  for (std::size_t i = 0; i < graph.outputs().size(); ++i) {
    const Value* value = graph.outputs()[i];
    const std::string place = "graph '" + graph.name + "', output " + std::to_string(i);
    if (!is_known(value)) return internal_error(place + ": is no value of the graph");
    if (!is_defined(value)) {
      return internal_error(place + " '" + value->name() + "': is not defined");
    }
    const auto& inner = value->inner_outputs();
    const bool marked = value->graph() == &graph
                            ? value->is_graph_output()
                            : std::find(inner.begin(), inner.end(), &graph) != inner.end();
    if (!marked) {
      return internal_error(place + " '" + value->name() + "': is not marked as output");
    }
  }
  return ok_status();
}

}  // namespace

Status verify(const Graph& graph) {
  Verifier verifier;
  MEZZO_RETURN_IF_ERROR(verifier.check(graph));
  return verifier.leave(graph);
}

// Graphs of training_info may use values of the main graph, so it stays entered until they are
// done.
Status verify(const Model& model) {
  Verifier verifier;
  if (model.graph) MEZZO_RETURN_IF_ERROR(verifier.check(*model.graph));
  for (const TrainingInfo& info : model.training_info) {
    for (const auto* graph : {info.initialization.get(), info.algorithm.get()}) {
      if (!graph) continue;
      MEZZO_RETURN_IF_ERROR(verifier.check(*graph).with_context("training_info"));
      MEZZO_RETURN_IF_ERROR(verifier.leave(*graph).with_context("training_info"));
    }
  }
  if (model.graph) MEZZO_RETURN_IF_ERROR(verifier.leave(*model.graph));

  std::set<std::tuple<std::string, std::string, std::string>> seen;
  for (const auto& function : model.functions) {
    const std::string where =
        "function '" + function->name + "' of domain '" + function->domain + "'";
    if (!seen.emplace(function->domain, function->name, function->overload).second) {
      return internal_error(where + ": exists twice");
    }
    if (!function->body) return internal_error(where + ": has no body");
    MEZZO_RETURN_IF_ERROR(verify(*function->body).with_context(where));
  }
  return ok_status();
}

}  // namespace mezzo
