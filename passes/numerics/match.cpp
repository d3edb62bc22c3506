#include "passes/numerics/match.h"

#include <string>
#include <vector>

#include "compiler/support/text.h"

namespace mezzo::numerics {
namespace {

bool only_casts(const Node& node) {
  return (node.is("Cast") || node.is("Identity")) && node.operand(0) != nullptr &&
         node.result() != nullptr &&
         (node.is("Identity") ||
          (is_floating(node.operand(0)->dtype()) && is_floating(node.result()->dtype())));
}

class Matcher {
 public:
  void match_graphs(const Graph& a, const Graph& b) {
    match_by_name(a, b);
    match_along_casts(b);
    match_nodes(a, b);
    for (const auto& node : a.nodes()) {
      const auto found = match.b_of.find(node.get());
      if (found != match.b_of.end()) match_inside(*node, *found->second);
    }
  }

  ModelMatch match;

 private:
  void match_by_name(const Graph& a, const Graph& b) {
    for (const Value* value : b.values()) {
      if (value->is_fixed()) continue;
      const Value* same = a.find(value->name());
      if (same != nullptr && !same->is_fixed()) match.a_of[value] = same;
    }
    // Inputs of graphs inside nodes stand in an order; their names may have changed.
    for (std::size_t i = 0; i < a.inputs().size() && a.inputs().size() == b.inputs().size(); ++i)
      match.a_of[b.inputs()[i]] = a.inputs()[i];
  }

  void match_along_casts(const Graph& b) {
    const std::vector<Node*> nodes = b.node_list();
    // Forward: a cast of something known. Backward: what is cast to something known.
    for (const Node* node : nodes) {
      if (!only_casts(*node) || match.a_of.count(node->result()) > 0) continue;
      const auto known = match.a_of.find(node->operand(0));
      if (known != match.a_of.end()) match.a_of[node->result()] = known->second;
    }
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
      if (!only_casts(**node) || (*node)->operand(0)->is_fixed() ||
          match.a_of.count((*node)->operand(0)) > 0)
        continue;
      const auto known = match.a_of.find((*node)->result());
      if (known != match.a_of.end()) match.a_of[(*node)->operand(0)] = known->second;
    }
  }

  void match_nodes(const Graph& a, const Graph& b) {
    std::unordered_map<std::string, const Node*> by_name;
    std::unordered_map<const Value*, const Node*> by_result;
    for (const auto& node : a.nodes()) {
      if (!node->name.empty()) by_name.emplace(node->op_type() + " " + node->name, node.get());
      if (node->result() != nullptr) by_result.emplace(node->result(), node.get());
    }
    for (const auto& node : b.nodes()) {
      const Node* same = nullptr;
      if (const auto named = by_name.find(node->op_type() + " " + node->name);
          !node->name.empty() && named != by_name.end())
        same = named->second;
      if (const auto value = match.a_of.find(node->result());
          same == nullptr && value != match.a_of.end()) {
        const auto maker = by_result.find(value->second);
        if (maker != by_result.end() && maker->second->is(node->op_type(), node->domain()))
          same = maker->second;
      }
      if (same == nullptr || !match.b_of.emplace(same, node.get()).second) continue;
      for (std::size_t i = 0; i < node->results().size(); ++i) {
        if (node->result(i) != nullptr && same->result(i) != nullptr)
          match.a_of.emplace(node->result(i), same->result(i));
      }
    }
  }

  void match_inside(const Node& a, const Node& b) {
    for (const Attribute& attribute : a.attributes()) {
      const auto* inner_a = std::get_if<Attribute::GraphRef>(&attribute.value);
      const Attribute* other = b.attribute(attribute.name);
      const auto* inner_b =
          other == nullptr ? nullptr : std::get_if<Attribute::GraphRef>(&other->value);
      if (inner_a != nullptr && inner_b != nullptr) match_graphs(**inner_a, **inner_b);
    }
  }
};

std::vector<std::string> names_of(const std::vector<Value*>& values) {
  std::vector<std::string> names;
  for (const Value* value : values) names.push_back("'" + value->name() + "'");
  return names;
}

Status check_ports(const char* what, const std::vector<Value*>& a, const std::vector<Value*>& b) {
  const std::vector<std::string> names_a = names_of(a), names_b = names_of(b);
  if (names_a != names_b) {
    return invalid_argument(std::string("the models differ in their ") + what + ": " +
                            join(names_a, ", ") + " and " + join(names_b, ", "));
  }
  for (std::size_t i = 0; i < a.size(); ++i) {
    const bool tensors = a[i]->type.is_tensor() && b[i]->type.is_tensor();
    if (!tensors) continue;
    const auto rank_a = a[i]->tensor_type().rank(), rank_b = b[i]->tensor_type().rank();
    const bool number_a = is_floating(a[i]->dtype()), number_b = is_floating(b[i]->dtype());
    const bool known = a[i]->dtype() != DType::kNone && b[i]->dtype() != DType::kNone;
    if ((rank_a && rank_b && *rank_a != *rank_b) ||
        (known && a[i]->dtype() != b[i]->dtype() && !(number_a && number_b))) {
      return invalid_argument(std::string("the models differ in their ") + what + " " + names_a[i] +
                              ": " + to_string(a[i]->type) + " and " + to_string(b[i]->type));
    }
  }
  return ok_status();
}

}  // namespace

StatusOr<ModelMatch> match_models(const Model& a, const Model& b) {
  MEZZO_RETURN_IF_ERROR(check_ports("inputs", a.graph->inputs(), b.graph->inputs()));
  MEZZO_RETURN_IF_ERROR(check_ports("outputs", a.graph->outputs(), b.graph->outputs()));
  Matcher matcher;
  matcher.match_graphs(*a.graph, *b.graph);
  return std::move(matcher.match);
}

}  // namespace mezzo::numerics
