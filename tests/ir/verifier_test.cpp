// Each broken invariant is found, and the message names the place.
#include "compiler/ir/verifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph_maker.h"

namespace mezzo {
namespace {

using ::mezzo::testing::add_op;
using ::mezzo::testing::add_subgraph;
using ::mezzo::testing::floats;
using ::testing::HasSubstr;

class Verifier : public ::testing::Test {
 protected:
  Verifier() {
    model_.graph = std::make_unique<Graph>("main");
    graph_ = model_.graph.get();
    x_ = graph_->add_input("x", floats({2}));
    w_ = graph_->add_initializer("w", Tensor::scalar(DType::kFloat32, 1));
    a_ = add_op(*graph_, "Op", {x_, w_}, "a");
    y_ = add_op(*graph_, "If", {a_}, "y");
    inner_ = &add_subgraph(y_->producer(), "then_branch");
    t_ = add_op(*inner_, "Op", {a_}, "t");
    inner_->add_output(t_);
    graph_->add_output(y_);
  }
  void expect_error(std::string_view message) const {
    const Status status = verify(model_);
    EXPECT_EQ(status.code(), StatusCode::kInternal);
    EXPECT_THAT(status.message(), HasSubstr(std::string(message)));
  }

  Model model_;
  Graph *graph_, *inner_;
  Value *x_, *w_, *a_, *y_, *t_;
};

TEST_F(Verifier, AcceptsWhatHolds) {
  const Status status = verify(model_);
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(verify(Model()).ok());
}

TEST_F(Verifier, UseBeforeDefinition) {
  graph_->move_before(y_->producer(), a_->producer());
  expect_error("node 'n_y' (If): operand 0 'a': is used before its definition");
}

TEST_F(Verifier, CaptureBeforeDefinition) {
  y_->producer()->set_operand(0, x_);
  graph_->move_before(y_->producer(), a_->producer());
  expect_error("node 'n_y' (If): node 'n_t' (Op): operand 0 'a': is used before its definition");
}

TEST_F(Verifier, OwnResultInSubgraph) {
  t_->producer()->set_operand(0, y_);
  expect_error("is used before its definition");
}

TEST_F(Verifier, InnerValueUsedOutside) {
  add_op(*graph_, "Op", {t_}, "z");
  expect_error("value 't': is used outside its graph by node 'n_z' (Op)");
}

TEST_F(Verifier, ValueOfAStrangerGraph) {
  Graph other;
  a_->producer()->set_operand(0, other.add_input("x", floats({2})));
  expect_error("is a value of no graph that encloses the node");
}

TEST_F(Verifier, ValueOfASiblingGraph) {
  Graph& sibling = add_subgraph(y_->producer(), "else_branch");
  add_op(sibling, "Op", {t_}, "u");
  expect_error("value 't': is used outside its graph by node 'n_u' (Op)");
}

TEST_F(Verifier, HiddenCapture) {
  inner_->add_initializer("a", Tensor::scalar(DType::kFloat32, 1));
  expect_error("operand 0 'a': an inner value of the same name hides it");
}

TEST_F(Verifier, ConstantOfAnotherType) {
  w_->type = floats({2});
  expect_error("value 'w': its type float[2] contradicts its constant of type float[]");
  w_->type = TensorType::of(DType::kFloat16, {});
  expect_error("contradicts");
}

TEST_F(Verifier, DefaultMayBeNarrowerThanTheInput) {
  graph_->set_initializer(x_, Tensor::from_floats({2}, std::vector<float>{1, 2}));
  x_->type = TensorType(DType::kFloat32, {Dim::symbolic("batch")});
  EXPECT_TRUE(verify(model_).ok());
  x_->type = TensorType();
  EXPECT_TRUE(verify(model_).ok());
  x_->type = TensorType(DType::kFloat32, {Dim::symbolic("batch"), 2});
  expect_error("value 'x': its type float[batch,2] contradicts");
}

TEST_F(Verifier, SharedSubgraph) {
  const auto shared =
      std::get<Attribute::GraphRef>(y_->producer()->attribute("then_branch")->value);
  Value* z = add_op(*graph_, "If", {x_}, "z");
  z->producer()->mutable_attributes().push_back({"then_branch", shared, "", "", {}});
  expect_error("node 'n_z' (If): subgraph 'then_branch' has another parent");
}

TEST_F(Verifier, AbsentSubgraph) {
  y_->producer()->set_attribute("else_branch", Attribute::GraphRef());
  expect_error("node 'n_y' (If): attribute 'else_branch' lacks its graph");
}

TEST_F(Verifier, OutputOfAnInnerValue) {
  graph_->add_output(t_);
  expect_error("graph 'main', output 1: is no value of the graph");
}

TEST_F(Verifier, Functions) {
  auto function = std::make_unique<Function>();
  function->domain = "local";
  function->name = "f";
  model_.functions.push_back(std::move(function));
  expect_error("function 'f' of domain 'local': has no body");
  model_.functions[0]->body = std::make_unique<Graph>();
  EXPECT_TRUE(verify(model_).ok());
  add_op(*model_.functions[0]->body, "Op", {x_}, "z");
  expect_error("value 'x': is used outside its graph by node 'n_z' (Op)");
  model_.functions[0]->body = std::make_unique<Graph>();
  auto twin = std::make_unique<Function>();
  twin->domain = "local";
  twin->name = "f";
  twin->body = std::make_unique<Graph>();
  model_.functions.push_back(std::move(twin));
  expect_error("function 'f' of domain 'local': exists twice");
  model_.functions[1]->overload = "2";
  EXPECT_TRUE(verify(model_).ok());
}

TEST_F(Verifier, TrainingGraphsMayUseTheMainGraph) {
  TrainingInfo& info = model_.training_info.emplace_back();
  info.algorithm = std::make_unique<Graph>("algorithm");
  Value* step = add_op(*info.algorithm, "Op", {w_, y_}, "step");
  info.algorithm->add_output(step);
  EXPECT_TRUE(verify(model_).ok());
  step->producer()->set_operand(0, t_);
  expect_error("value 't': is used outside its graph by node 'n_step' (Op)");
}

}  // namespace
}  // namespace mezzo
