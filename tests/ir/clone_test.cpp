#include "compiler/ir/clone.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/ir/verifier.h"
#include "graph_maker.h"

namespace mezzo {
namespace {

using ::mezzo::testing::add_op;
using ::mezzo::testing::add_subgraph;
using ::mezzo::testing::floats;
using ::mezzo::testing::names_of;
using ::testing::ElementsAre;

class Clone : public ::testing::Test {
 protected:
  Clone() {
    model_.graph = std::make_unique<Graph>("main");
    Graph& graph = *model_.graph;
    x_ = graph.add_input("x", floats({2}));
    x_->doc_string = "pixels";
    graph.set_initializer(x_, Tensor::from_floats({2}, std::vector<float>{1, 2}));
    w_ = graph.add_initializer("w", Tensor::scalar(DType::kFloat32, 1));
    y_ = add_op(graph, "If", {x_, nullptr, w_}, "y");
    y_->type = floats({2});
    y_->producer()->metadata = {{"key", "value"}};
    inner_ = &add_subgraph(y_->producer(), "then_branch");
    inner_->add_output(add_op(*inner_, "Op", {w_}, "t"));
    graph.add_output(y_);
  }

  Model model_;
  Graph* inner_;
  Value *x_, *w_, *y_;
};

TEST_F(Clone, ModelEqualsAndIsIndependent) {
  model_.ir_version = 9;
  model_.opsets = {{"", 17}};
  TrainingInfo& info = model_.training_info.emplace_back();
  info.algorithm = std::make_unique<Graph>("algorithm");
  info.algorithm->add_output(add_op(*info.algorithm, "Op", {w_}, "step"));
  auto function = std::make_unique<Function>();
  function->name = "f";
  function->body = std::make_unique<Graph>("f");
  function->body->add_output(function->body->add_input("x", {}));
  function->attribute_defaults.push_back({"g", std::make_shared<Graph>("default"), "", "", {}});
  model_.functions.push_back(std::move(function));

  const std::unique_ptr<Model> copy = clone_model(model_);
  EXPECT_EQ(fingerprint(*copy), fingerprint(model_));
  EXPECT_TRUE(verify(*copy).ok());
  const Graph& graph = *copy->graph;
  EXPECT_EQ(graph.find("x")->doc_string, "pixels");
  EXPECT_TRUE(graph.find("x")->is_initializer() && graph.find("x")->is_graph_input());
  EXPECT_EQ(graph.find("w")->constant(), w_->constant());  // data is shared
  EXPECT_EQ(graph.find("w")->uses().size(), 3U);           // If, capture, training graph
  EXPECT_EQ(w_->uses().size(), 3U);
  EXPECT_EQ(graph.nodes().front()->metadata, y_->producer()->metadata);
  EXPECT_EQ(copy->opset(), 17);

  graph.nodes().front()->set_operand(2, nullptr);
  EXPECT_NE(fingerprint(*copy), fingerprint(model_));
  EXPECT_EQ(w_->uses().size(), 3U);
}

TEST_F(Clone, CapturesStayOrFollowTheMapping) {
  auto copy = clone(*inner_);
  EXPECT_EQ(copy->nodes().front()->operand(0), w_);
  EXPECT_EQ(w_->uses().size(), 3U);
  EXPECT_THAT(names_of(copy->outputs()), ElementsAre("t"));
  copy.reset();
  EXPECT_EQ(w_->uses().size(), 2U);

  ValueMapping mapping = {{w_, x_}};
  copy = clone(*inner_, &mapping);
  EXPECT_EQ(copy->nodes().front()->operand(0), x_);
  EXPECT_EQ(mapping.at(inner_->outputs()[0]), copy->outputs()[0]);
}

TEST_F(Clone, NodeBesideItsOriginalGetsNewNames) {
  ValueMapping mapping;
  Node* copy = clone_node(*model_.graph, *y_->producer(), mapping);
  EXPECT_EQ(copy->result()->name(), "y_1");
  EXPECT_EQ(copy->name, "y_1");
  EXPECT_EQ(copy->result()->type, y_->type);
  EXPECT_EQ(mapping.at(y_), copy->result());
  EXPECT_EQ(copy->operand(0), x_);
  EXPECT_EQ(copy->operand(1), nullptr);
  EXPECT_NE(copy->subgraphs()[0], inner_);
  EXPECT_EQ(copy->subgraphs()[0]->parent(), copy);
  EXPECT_EQ(w_->uses().size(), 4U);
  EXPECT_TRUE(verify(model_).ok());
}

TEST_F(Clone, InnerNamesDoNotHideWhatTheCopyCaptures) {
  Graph target("target");
  Value* t = target.add_input("t", floats({}));  // named as a value of the subgraph
  Value* x = target.add_input("x", floats({2}));
  ValueMapping mapping = {{w_, t}, {x_, x}};
  Node* copy = clone_node(target, *y_->producer(), mapping);
  EXPECT_EQ(copy->name, "n_y");
  EXPECT_EQ(copy->subgraphs()[0]->outputs()[0]->name(), "t_1");
  const Status status = verify(target);
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST_F(Clone, ThroughABuilderTakesItsScope) {
  Builder builder(*model_.graph, nullptr, y_->producer());
  builder.set_scope("again");
  ValueMapping mapping;
  const Node* copy = clone_node(builder, *y_->producer(), mapping);
  EXPECT_EQ(copy->name, "again/y");
  EXPECT_EQ(copy->subgraphs()[0]->outputs()[0]->name(), "again/t");
  EXPECT_EQ(model_.graph->nodes().front().get(), copy);
  EXPECT_TRUE(verify(model_).ok());
}

TEST_F(Clone, InlinesABody) {
  Graph body("body");
  Value* p = body.add_input("p", {});
  Value* c = body.add_initializer("c", Tensor::scalar(DType::kFloat32, 3));
  Value* m = add_op(body, "Mul", {p, c}, "m");
  body.add_output(m);
  ValueMapping mapping = {{p, x_}};
  clone_nodes(*model_.graph, body, "f/", mapping, y_->producer());
  const Value* copy = mapping.at(m);
  EXPECT_EQ(copy->name(), "f/m");
  EXPECT_EQ(copy->producer()->name, "f/n_m");
  EXPECT_EQ(copy->producer()->operand(0), x_);
  EXPECT_EQ(copy->producer()->operand(1)->name(), "f/c");
  EXPECT_EQ(model_.graph->nodes().front()->result(), copy);
  EXPECT_TRUE(verify(model_).ok());
}

}  // namespace
}  // namespace mezzo
