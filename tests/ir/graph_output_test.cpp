// Outputs keep their public names whatever replaces the value behind them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/ir/graph.h"
#include "compiler/ir/verifier.h"
#include "graph_maker.h"

namespace mezzo {
namespace {

using ::mezzo::testing::add_op;
using ::mezzo::testing::floats;
using ::mezzo::testing::names_of;
using ::testing::ElementsAre;

class GraphOutput : public ::testing::Test {
 protected:
  GraphOutput() {
    x_ = graph_.add_input("x", floats({2}));
    w_ = graph_.add_initializer("w", Tensor::scalar(DType::kFloat32, 1));
    y_ = add_op(graph_, "Relu", {x_}, "y");
    y_->type = floats({2});
    y_->doc_string = "the answer";
    z_ = add_op(graph_, "Op", {y_}, "z");
    graph_.add_output(y_);
  }
  void TearDown() override {
    const Status status = verify(graph_);
    EXPECT_TRUE(status.ok()) << status.message();
  }

  Graph graph_;
  Value* x_;
  Value* w_;
  Value* y_;
  Value* z_;
};

TEST_F(GraphOutput, KeepsTheDeclaredShapeButNotTheElementType) {
  Value* to = add_op(graph_, "Cast", {y_}, "cast");
  to->type = TensorType(DType::kFloat16, {});
  to->type.tensor.shape.reset();
  graph_.move_before(to->producer(), z_->producer());
  graph_.replace_uses(y_, to);
  EXPECT_EQ(to_string(graph_.outputs()[0]->type), "float16[2]");
}

TEST_F(GraphOutput, ExchangesNamesWithAPlainResult) {
  Value* to = add_op(graph_, "Cast", {y_}, "cast");
  graph_.replace_uses(y_, to);
  EXPECT_EQ(graph_.outputs()[0], to);
  EXPECT_EQ(to->name(), "y");
  EXPECT_EQ(to->doc_string, "the answer");
  EXPECT_EQ(y_->name(), "cast");
  EXPECT_EQ(graph_.find("y"), to);
  EXPECT_EQ(graph_.find("cast"), y_);
  EXPECT_FALSE(y_->is_graph_output());
  EXPECT_TRUE(to->is_graph_output());
  EXPECT_EQ(to->producer()->operand(0), y_);  // the replacing node keeps its operand
  EXPECT_EQ(z_->producer()->operand(0), to);
  ASSERT_TRUE(graph_.sort_topologically());
}

TEST_F(GraphOutput, InputBehindAnOutputGoesThroughIdentity) {
  graph_.replace_uses(y_, x_);
  const Value* output = graph_.outputs()[0];
  EXPECT_EQ(output->name(), "y");
  EXPECT_EQ(output->doc_string, "the answer");
  EXPECT_EQ(output->type, x_->type);
  ASSERT_TRUE(output->producer() && output->producer()->is("Identity"));
  EXPECT_EQ(output->producer()->operand(0), x_);
  EXPECT_EQ(x_->name(), "x");
  EXPECT_EQ(z_->producer()->operand(0), x_);
  EXPECT_FALSE(y_->has_uses());
  EXPECT_EQ(graph_.remove_dead_nodes(false), 2U);
}

TEST_F(GraphOutput, InitializerBehindAnOutputGoesThroughIdentity) {
  graph_.replace_uses(y_, w_);
  EXPECT_THAT(names_of(graph_.outputs()), ElementsAre("y"));
  EXPECT_TRUE(graph_.outputs()[0]->producer()->is("Identity"));
  EXPECT_EQ(w_->name(), "w");
}

TEST_F(GraphOutput, AnotherOutputKeepsItsNameToo) {
  graph_.add_output(z_);
  graph_.replace_uses(z_, y_);
  EXPECT_THAT(names_of(graph_.outputs()), ElementsAre("y", "z"));
  EXPECT_EQ(graph_.outputs()[0], y_);
  EXPECT_TRUE(graph_.outputs()[1]->producer()->is("Identity"));
  EXPECT_EQ(graph_.outputs()[1]->producer()->operand(0), y_);
}

TEST_F(GraphOutput, ReplacedInitializerYieldsItsName) {
  graph_.add_output(w_);
  Value* to = add_op(graph_, "Cast", {w_}, "cast");
  graph_.replace_uses(w_, to);
  EXPECT_THAT(names_of(graph_.outputs()), ElementsAre("y", "w"));
  EXPECT_EQ(graph_.outputs()[1], to);
  EXPECT_EQ(w_->name(), "cast");
}

TEST_F(GraphOutput, AnOutputThatIsAnInputStays) {
  graph_.add_output(x_);
  Value* to = add_op(graph_, "Cast", {x_}, "cast", y_->producer());
  graph_.replace_uses(x_, to);
  EXPECT_THAT(names_of(graph_.outputs()), ElementsAre("y", "x"));
  EXPECT_EQ(graph_.outputs()[1], x_);
  EXPECT_EQ(y_->producer()->operand(0), to);
}

TEST_F(GraphOutput, ListedTwiceMovesTwice) {
  graph_.add_output(y_);
  Value* to = add_op(graph_, "Cast", {y_}, "cast", z_->producer());
  graph_.replace_uses(y_, to);
  EXPECT_THAT(names_of(graph_.outputs()), ElementsAre("y", "y"));
  graph_.remove_output(1);
  EXPECT_TRUE(to->is_graph_output());
  graph_.set_output(0, z_);
  EXPECT_FALSE(to->is_graph_output());
  EXPECT_TRUE(z_->is_graph_output());
}

TEST_F(GraphOutput, OperandUsesAloneLeaveTheOutput) {
  Value* to = add_op(graph_, "Cast", {y_}, "cast", z_->producer());
  graph_.replace_operand_uses(y_, to);
  EXPECT_EQ(graph_.outputs()[0], y_);
  EXPECT_EQ(y_->name(), "y");
  EXPECT_EQ(z_->producer()->operand(0), to);
}

TEST_F(GraphOutput, ReplacingByItselfChangesNothing) {
  graph_.replace_uses(y_, y_);
  EXPECT_EQ(graph_.outputs()[0], y_);
  EXPECT_EQ(y_->uses().size(), 1U);
}

}  // namespace
}  // namespace mezzo
