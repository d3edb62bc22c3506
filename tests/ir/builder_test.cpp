#include "compiler/ir/builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/ir/verifier.h"
#include "graph_maker.h"

namespace mezzo {
namespace {

using ::mezzo::testing::add_op;
using ::mezzo::testing::floats;
using ::mezzo::testing::node_names;
using ::testing::ElementsAre;

TEST(Builder, NamesByScopeAndInsertsInOrder) {
  Graph graph;
  Value* x = graph.add_input("x", floats({2}));
  Value* last = add_op(graph, "Op", {x}, "last");
  Builder builder(graph, nullptr, last->producer());
  Value* relu = builder.op("Relu", {x});
  builder.set_scope("grad/conv1");
  Node* split = builder.node("Split", {relu, nullptr}, 2, {{"axis", std::int64_t{1}}});
  Value* own = builder.mezzo_op("SoftmaxGrad", {split->result(0), nullptr, split->result(1)});
  EXPECT_THAT(node_names(graph),
              ElementsAre("Relu", "grad/conv1/Split", "grad/conv1/SoftmaxGrad", "n_last"));
  EXPECT_EQ(split->result(1)->name(), "grad/conv1/Split_1");
  EXPECT_EQ(split->operand_count(), 1U);
  EXPECT_EQ(split->int_attribute("axis", 0), 1);
  EXPECT_TRUE(own->producer()->is("SoftmaxGrad", kMezzoDomain));
  EXPECT_EQ(own->producer()->operand_count(), 3U);
  EXPECT_EQ(builder.op("Split", {relu})->producer()->name, "grad/conv1/Split_2");
  EXPECT_EQ(builder.insertion_point(), last->producer());
  EXPECT_TRUE(verify(graph).ok());
}

TEST(Builder, MakesConstants) {
  Graph graph;
  Builder builder(graph, nullptr);
  builder.set_scope("s");
  const Value* axes = builder.ints({1, 2});
  EXPECT_EQ(axes->name(), "s/constant");
  EXPECT_TRUE(axes->is_fixed());
  EXPECT_THAT(axes->constant()->to_ints(), ElementsAre(1, 2));
  const Value* half = builder.scalar(DType::kFloat16, 0.5);
  EXPECT_EQ(half->name(), "s/constant_1");
  EXPECT_EQ(to_string(half->type), "float16[]");
  EXPECT_EQ(builder.constant(half->constant(), "scale")->name(), "s/scale");
}

TEST(Builder, InfersTypesAndKeepsTheFirstError) {
  Graph graph;
  Value* x = graph.add_input("x", floats({2}));
  Builder builder(graph, [](Node& node) {
    if (node.is("Bad")) return invalid_argument("no rule for " + node.name);
    node.result()->type = node.operand(0)->type;
    return ok_status();
  });
  EXPECT_EQ(builder.op("Relu", {x})->type, x->type);
  EXPECT_TRUE(builder.status().ok());
  builder.op("Bad", {x});
  builder.op("Bad", {x});
  EXPECT_EQ(builder.status().message(), "no rule for Bad");
  EXPECT_EQ(builder.op("Relu", {x})->type, x->type);
  EXPECT_EQ(builder.status().message(), "no rule for Bad");
}

}  // namespace
}  // namespace mezzo
