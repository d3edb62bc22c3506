// Subgraphs: captures, names, lifetimes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/ir/graph.h"
#include "compiler/ir/verifier.h"
#include "graph_maker.h"

namespace mezzo {
namespace {

using ::mezzo::testing::add_op;
using ::mezzo::testing::add_subgraph;
using ::mezzo::testing::floats;
using ::mezzo::testing::names_of;
using ::mezzo::testing::node_names;
using ::testing::ElementsAre;

class Subgraph : public ::testing::Test {
 protected:
  Subgraph() {
    x_ = graph_->add_input("x", floats({2}));
    a_ = add_op(*graph_, "Op", {x_}, "a");
    y_ = add_op(*graph_, "If", {x_}, "y");
    then_ = &add_subgraph(y_->producer(), "then_branch");
    t_ = add_op(*then_, "Op", {a_, a_}, "t");
    then_->add_output(t_);
    else_ = &add_subgraph(y_->producer(), "else_branch");
    else_->add_output(a_);
    graph_->add_output(y_);
  }
  void expect_verifies() const {
    const Status status = verify(*graph_);
    EXPECT_TRUE(status.ok()) << status.message();
  }

  std::unique_ptr<Graph> graph_ = std::make_unique<Graph>("main");
  Value *x_, *a_, *y_, *t_;
  Graph *then_, *else_;
};

TEST_F(Subgraph, CapturesAreUses) {
  expect_verifies();
  EXPECT_EQ(a_->uses().size(), 2U);
  EXPECT_EQ(a_->uses()[0].node, t_->producer());
  EXPECT_THAT(a_->inner_outputs(), ElementsAre(else_));
  EXPECT_FALSE(a_->is_graph_output());
  EXPECT_EQ(then_->find_visible("a"), a_);
  EXPECT_EQ(then_->find("a"), nullptr);
  EXPECT_EQ(then_->enclosing(), graph_.get());
  std::vector<std::string> order;
  for_each_graph(*graph_, [&](Graph& graph) { order.push_back(graph.name); });
  EXPECT_THAT(order, ElementsAre("main", "then_branch", "else_branch"));
}

TEST_F(Subgraph, ReplacingReachesCapturesAndInnerOutputs) {
  Value* cast = add_op(*graph_, "Cast", {a_}, "cast", y_->producer());
  graph_->replace_uses(a_, cast);
  EXPECT_EQ(t_->producer()->operand(1), cast);
  EXPECT_EQ(else_->outputs()[0], cast);
  EXPECT_EQ(cast->producer()->operand(0), a_);
  EXPECT_EQ(a_->uses().size(), 1U);
  EXPECT_EQ(a_->name(), "a");
  expect_verifies();
}

// The branches of the If would use its own result otherwise.
TEST_F(Subgraph, ReplacingSpareTheSubgraphsOfTheNewProducer) {
  Value* other = add_op(*graph_, "Op", {a_}, "other");
  graph_->replace_uses(a_, y_);
  EXPECT_EQ(t_->producer()->operand(0), a_);
  EXPECT_EQ(else_->outputs()[0], a_);
  EXPECT_EQ(other->producer()->operand(0), y_);
  expect_verifies();
}

TEST_F(Subgraph, CapturesKeepNodesAlive) {
  EXPECT_EQ(graph_->remove_dead_nodes(true), 0U);
  add_op(*then_, "Op", {add_op(*graph_, "Op", {x_}, "only_dead", y_->producer())}, "dead");
  EXPECT_EQ(graph_->remove_dead_nodes(true), 2U);
  EXPECT_EQ(graph_->find("only_dead"), nullptr);
  expect_verifies();
}

TEST_F(Subgraph, ErasingTheNodeFreesCaptures) {
  graph_->set_output(0, x_);
  graph_->erase(y_->producer());
  EXPECT_FALSE(a_->has_uses());
  expect_verifies();
}

TEST_F(Subgraph, ReplacingTheAttributeFreesCaptures) {
  y_->producer()->set_attribute("then_branch", std::make_shared<Graph>("empty"));
  EXPECT_TRUE(a_->uses().empty());
  EXPECT_EQ(y_->producer()->subgraphs()[0]->parent(), y_->producer());
  y_->producer()->erase_attribute("else_branch");
  EXPECT_FALSE(a_->has_uses());
}

TEST_F(Subgraph, SortCountsCaptures) {
  graph_->move_before(a_->producer(), nullptr);
  EXPECT_FALSE(verify(*graph_).ok());
  ASSERT_TRUE(graph_->sort_topologically());
  EXPECT_THAT(node_names(*graph_), ElementsAre("n_a", "n_y"));
  expect_verifies();
  t_->producer()->set_operand(0, y_);
  EXPECT_FALSE(graph_->sort_topologically());
}

TEST_F(Subgraph, SortOrdersInnerGraphsToo) {
  Value* u = add_op(*then_, "Op", {a_}, "u");
  t_->producer()->set_operand(0, u);
  ASSERT_TRUE(graph_->sort_topologically());
  EXPECT_THAT(node_names(*then_), ElementsAre("n_u", "n_t"));
  expect_verifies();
}

TEST_F(Subgraph, UniqueNamesAvoidGraphsAroundWithinAndBeside) {
  EXPECT_EQ(then_->unique_name("a"), "a_1");
  EXPECT_EQ(graph_->unique_name("t"), "t_1");
  EXPECT_EQ(else_->unique_name("t"), "t_1");
  // Files may use one name in both branches: an explicit free name is taken exactly.
  EXPECT_EQ(add_op(*else_, "Op", {a_}, "t")->name(), "t");
  expect_verifies();
}

TEST_F(Subgraph, NamesFollowAGraphThatIsAttachedLater) {
  auto inner = std::make_shared<Graph>("inner");
  auto* nested = add_op(*inner, "If", {}, "nested");
  add_subgraph(nested->producer(), "deep")
      .add_initializer("deepest", Tensor::scalar(DType::kBool, 1));
  EXPECT_EQ(graph_->unique_name("deepest"), "deepest");
  y_->producer()->set_attribute("then_branch", inner);
  EXPECT_EQ(graph_->unique_name("deepest"), "deepest_1");
  EXPECT_EQ(inner->unique_name("x"), "x_1");
  EXPECT_EQ(graph_->unique_name("t"), "t");  // its graph is gone
  inner->set_parent(nullptr);
  EXPECT_EQ(graph_->unique_name("deepest"), "deepest");
  EXPECT_EQ(inner->unique_name("deepest"), "deepest_1");
}

TEST_F(Subgraph, AGraphHeldBeyondItsParentIsCutLoose) {
  const auto held = std::get<Attribute::GraphRef>(y_->producer()->attribute("then_branch")->value);
  const auto other = std::get<Attribute::GraphRef>(y_->producer()->attribute("else_branch")->value);
  graph_.reset();
  EXPECT_EQ(held->parent(), nullptr);
  EXPECT_EQ(held->nodes().front()->operand(0), nullptr);
  EXPECT_TRUE(other->outputs().empty());
  EXPECT_TRUE(verify(*held).ok());
}

TEST_F(Subgraph, DeepNestsAndManyBranchesTearDown) {
  Graph* graph = graph_.get();
  Value* captured = x_;
  for (int depth = 0; depth < 50; ++depth) {
    for (int i = 0; i < 20; ++i) add_op(*graph, "Op", {captured, x_, a_}, "v");
    captured = graph->nodes().back()->result();
    graph = &add_subgraph(add_op(*graph, "If", {}, "if")->producer(), "deeper");
  }
  expect_verifies();
  EXPECT_GT(x_->uses().size(), 1000U);
}

}  // namespace
}  // namespace mezzo
