// Seeded random edits: after each one the verifier must be content, and what the edit promises must
// hold.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "compiler/ir/clone.h"
#include "compiler/ir/graph.h"
#include "compiler/ir/verifier.h"
#include "graph_maker.h"

namespace mezzo {
namespace {

using ::mezzo::testing::add_subgraph;
using ::mezzo::testing::floats;
using ::mezzo::testing::names_of;

class RandomEditor {
 public:
  explicit RandomEditor(unsigned seed) : random_(seed), graph_(std::make_unique<Graph>("random")) {
    for (int i = 0; i < 3; ++i) graph_->add_input("in", floats({2}));
    for (int i = 0; i < 3; ++i) graph_->add_initializer("w", Tensor::scalar(DType::kFloat32, i));
    for (int i = 0; i < 10; ++i) add_node(*graph_);
    for (int i = 0; i < 3; ++i) graph_->add_output(pick(graph_->values()));
    public_names_ = names_of(graph_->outputs());
  }

  void step() {
    switch (below(9)) {
      case 0:
      case 1: return add_node(pick_graph());
      case 2: return add_if();
      case 3: return set_operand();
      case 4: return replace(&Graph::replace_uses);
      case 5: return replace(&Graph::replace_operand_uses);
      case 6: return erase_one();
      case 7: return move_and_sort();
      default: return rename_or_sweep();
    }
  }

  void check() const {
    const Status status = verify(*graph_);
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_EQ(names_of(graph_->outputs()), public_names_);
  }
  Graph& graph() { return *graph_; }

 private:
  std::size_t below(std::size_t limit) {
    return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random_);
  }
  template <typename T>
  T pick(const std::vector<T>& choice) {
    return choice[below(choice.size())];
  }
  Graph& pick_graph() {
    std::vector<Graph*> graphs;
    for_each_graph(*graph_, [&](Graph& graph) { graphs.push_back(&graph); });
    return *pick(graphs);
  }
  // Values that a node placed before `node` of `graph` may use (null: at the end).
  static std::vector<Value*> visible_before(const Graph& graph, const Node* node) {
    std::vector<Value*> visible;
    for (Value* value : graph.values()) {
      if (!value->producer()) visible.push_back(value);
    }
    for (const auto& earlier : graph.nodes()) {
      if (earlier.get() == node) break;
      for (Value* result : earlier->results()) {
        if (result) visible.push_back(result);
      }
    }
    if (graph.parent()) {
      const auto outer = visible_before(*graph.enclosing(), graph.parent());
      visible.insert(visible.end(), outer.begin(), outer.end());
    }
    return visible;
  }

  void add_node(Graph& graph) {
    Node* before = graph.node_count() > 0 && below(2) == 0 ? pick(graph.node_list()) : nullptr;
    const std::vector<Value*> visible = visible_before(graph, before);
    std::vector<Value*> operands(below(4));
    for (Value*& operand : operands) operand = below(8) == 0 ? nullptr : pick(visible);
    std::vector<std::string> results(1 + below(2));
    for (std::string& result : results) result = graph.unique_name("v");
    if (results.size() > 1 && below(3) == 0) results[0].clear();
    graph.add_node("Op", "test", operands, results, before);
  }

  void add_if() {
    Graph& outer = pick_graph();
    if (outer.parent() && outer.enclosing()->parent()) return;  // two levels are enough
    const std::vector<std::string> results = {outer.unique_name("if")};
    Node* before = outer.node_count() > 0 && below(2) == 0 ? pick(outer.node_list()) : nullptr;
    Node* node = outer.add_node("If", "", {}, results, before);
    for (const char* branch : {"then_branch", "else_branch"}) {
      Graph& inner = add_subgraph(node, branch);
      for (std::size_t i = below(4); i-- > 0;) add_node(inner);
      inner.add_output(pick(visible_before(inner, nullptr)));
    }
  }

  void set_operand() {
    Graph& graph = pick_graph();
    if (graph.node_count() == 0) return;
    Node* node = pick(graph.node_list());
    node->set_operand(below(5), below(6) == 0 ? nullptr : pick(visible_before(graph, node)));
    if (below(3) == 0) node->trim_operands(below(2));
  }

  // Position of the value's definition, such that smaller ones may replace larger ones.
  static std::ptrdiff_t order_of(const Value* value) {
    if (!value->producer()) return -1;
    const std::vector<Node*> nodes = value->graph()->node_list();
    return std::find(nodes.begin(), nodes.end(), value->producer()) - nodes.begin();
  }

  void replace(void (Graph::*how)(Value*, Value*)) {
    Graph& graph = pick_graph();
    if (graph.values().empty()) return;
    Value* from = pick(graph.values());
    std::vector<Value*> candidates = visible_before(graph, from->producer());
    if (!from->producer()) std::erase_if(candidates, [&](Value* v) { return v->producer(); });
    if (candidates.empty()) return;
    Value* to = pick(candidates);
    ASSERT_TRUE(to->graph() != &graph || order_of(to) <= order_of(from));
    (graph.*how)(from, to);
    if (from != to) {
      // All of `to`'s definition precedes `from`'s, so no use may be left.
      EXPECT_TRUE(from->uses().empty());
    }
  }

  void erase_one() {
    Graph& graph = pick_graph();
    for (Node* node : graph.node_list()) {
      const auto& results = node->results();
      if (below(2) == 0 || std::any_of(results.begin(), results.end(), [](Value* result) {
            return result && result->has_uses();
          })) {
        continue;
      }
      return graph.erase(node);
    }
  }

  void move_and_sort() {
    Graph& graph = pick_graph();
    const std::vector<Node*> nodes = graph.node_list();
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      graph.move_before(pick(nodes), below(4) == 0 ? nullptr : pick(nodes));
    }
    ASSERT_TRUE(graph.sort_topologically());
  }

  void rename_or_sweep() {
    Graph& graph = pick_graph();
    if (below(3) > 0) {
      const std::vector<Value*> values = graph.values();
      if (values.empty()) return;
      Value* value = pick(values);
      if (&graph == graph_.get() && value->is_graph_output()) return;  // a public name
      return graph.rename(value, graph.unique_name("renamed"));
    }
    const std::size_t before = graph_->node_count();
    const bool initializers_too = below(2) == 0;
    graph_->remove_dead_nodes(initializers_too);
    EXPECT_LE(graph_->node_count(), before);
    EXPECT_EQ(graph_->remove_dead_nodes(initializers_too), 0U);
  }

  std::mt19937 random_;
  std::unique_ptr<Graph> graph_;
  std::vector<std::string> public_names_;
};

class GraphEdits : public ::testing::TestWithParam<unsigned> {};

TEST_P(GraphEdits, KeepTheInvariants) {
  RandomEditor editor(GetParam());
  editor.check();
  for (int i = 0; i < 300 && !HasFatalFailure(); ++i) {
    SCOPED_TRACE("edit " + std::to_string(i));
    editor.step();
    editor.check();
  }
}

TEST_P(GraphEdits, CloneVerifiesAndOutlivesTheOriginal) {
  std::unique_ptr<Graph> copy;
  std::size_t nodes = 0;
  {
    RandomEditor editor(GetParam());
    for (int i = 0; i < 60; ++i) editor.step();
    copy = clone(editor.graph());
    nodes = editor.graph().node_count();
    EXPECT_EQ(names_of(copy->outputs()), names_of(editor.graph().outputs()));
  }
  EXPECT_EQ(copy->node_count(), nodes);
  const Status status = verify(*copy);
  EXPECT_TRUE(status.ok()) << status.message();
}

INSTANTIATE_TEST_SUITE_P(Seeds, GraphEdits, ::testing::Range(0U, 60U));

}  // namespace
}  // namespace mezzo
