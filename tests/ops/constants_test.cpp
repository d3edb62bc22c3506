// The one reader of constants, over every form that a file gives them.
#include "compiler/ops/constants.h"

#include <memory>
#include <string>
#include <vector>

#include "tests/support/status_test.h"

namespace mezzo::test {
namespace {

class ConstantsTest : public testing::Test {
 protected:
  Value* constant_node(std::string_view attribute, Attribute::Value value) {
    const std::string names[] = {"c" + std::to_string(graph_.node_count())};
    Node* node = graph_.add_node("Constant", "", {}, names);
    node->set_attribute(attribute, std::move(value));
    return node->result();
  }
  Value* identity(Value* of) {
    const std::string names[] = {"i" + std::to_string(graph_.node_count())};
    Value* operands[] = {of};
    return graph_.add_node("Identity", "", operands, names)->result();
  }
  static std::vector<double> read(const Value* value) {
    const TensorRef data = constant_of(value);
    return data ? data->to_doubles() : std::vector<double>{-999};
  }

  Graph graph_{"g"};
};

TensorRef ints(std::vector<std::int64_t> dims, std::vector<std::int64_t> values) {
  return Tensor::from_ints(std::move(dims), values);
}
TensorRef floats(std::vector<std::int64_t> dims, std::vector<float> values) {
  return Tensor::from_floats(std::move(dims), values);
}

TEST_F(ConstantsTest, ReadsEveryDenseFormOfTheConstantOperator) {
  EXPECT_EQ(read(constant_node("value", NamedTensor{"", floats({2}, {1, 2})})),
            (std::vector<double>{1, 2}));
  EXPECT_EQ(read(constant_node("value_float", 2.5F)), std::vector<double>{2.5});
  EXPECT_EQ(read(constant_node("value_int", std::int64_t{7})), std::vector<double>{7});
  EXPECT_EQ(read(constant_node("value_floats", std::vector<float>{3, 4})),
            (std::vector<double>{3, 4}));
  EXPECT_EQ(read(constant_node("value_ints", std::vector<std::int64_t>{5, 6})),
            (std::vector<double>{5, 6}));
}

TEST_F(ConstantsTest, GivesScalarsRankZeroAndListsRankOne) {
  EXPECT_TRUE(constant_of(constant_node("value_float", 2.5F))->dims().empty());
  EXPECT_EQ(constant_of(constant_node("value_floats", std::vector<float>{3, 4}))->dims(),
            std::vector<std::int64_t>{2});
}

TEST_F(ConstantsTest, AStringIsNoNumber) {
  EXPECT_EQ(constant_of(constant_node("value_string", std::string("a"))), nullptr);
}

TEST_F(ConstantsTest, SpellsOutSparseValuesByEitherKindOfIndex) {
  const auto linear = std::make_shared<const SparseTensor>(
      SparseTensor{floats({2}, {8, 9}), ints({2}, {1, 5}), "", {2, 3}, ""});
  const auto pairs = std::make_shared<const SparseTensor>(
      SparseTensor{floats({2}, {8, 9}), ints({2, 2}, {0, 1, 1, 2}), "", {2, 3}, ""});
  const std::vector<double> expected{0, 8, 0, 0, 0, 9};
  EXPECT_EQ(read(constant_node("sparse_value", linear)), expected);
  EXPECT_EQ(read(constant_node("sparse_value", pairs)), expected);
  EXPECT_EQ(constant_data(*constant_node("sparse_value", linear)), nullptr);
}

TEST_F(ConstantsTest, RefusesSparseValuesWhoseIndicesLeaveTheTensor) {
  for (const std::int64_t index : {-1, 6}) {
    EXPECT_EQ(constant_of(constant_node(
                  "sparse_value", std::make_shared<const SparseTensor>(SparseTensor{
                                      floats({1}, {8}), ints({1}, {index}), "", {2, 3}, ""}))),
              nullptr);
  }
  const auto huge = std::make_shared<const SparseTensor>(SparseTensor{
      floats({1}, {8}), ints({1}, {0}), "", {std::int64_t{1} << 40, std::int64_t{1} << 40}, ""});
  EXPECT_EQ(constant_of(constant_node("sparse_value", huge)), nullptr);
}

TEST_F(ConstantsTest, LooksThroughIdentityButStoresAtTheSource) {
  Value* weight = graph_.add_initializer("w", floats({1}, {3}));
  Value* copy = identity(identity(weight));
  EXPECT_EQ(read(copy), std::vector<double>{3});
  EXPECT_EQ(constant_data(*copy), nullptr);
  EXPECT_NE(constant_data(*weight), nullptr);
  EXPECT_EQ(constant_scalar(copy), 3.0);
}

TEST_F(ConstantsTest, ADefaultThatCallersMayOverrideIsNoConstant) {
  Value* input = graph_.add_input("x", TensorType::of(DType::kFloat32, {1}));
  graph_.set_initializer(input, floats({1}, {3}));
  EXPECT_EQ(constant_of(input), nullptr);
}

TEST_F(ConstantsTest, ReadsConstantsOfEnclosingGraphs) {
  Value* weight = graph_.add_initializer("w", floats({1}, {3}));
  Value* condition = graph_.add_input("c", TensorType::of(DType::kBool, {}));
  Value* operands[] = {condition};
  const std::string names[] = {"y"};
  Node* choice = graph_.add_node("If", "", operands, names);
  auto branch = std::make_shared<Graph>("branch");
  choice->set_attribute("then_branch", branch);
  Value* inner_operands[] = {weight};
  const std::string inner_names[] = {"inner"};
  Node* inner = branch->add_node("Identity", "", inner_operands, inner_names);
  EXPECT_EQ(read(inner->result()), std::vector<double>{3});
}

TEST_F(ConstantsTest, IntegersComeFromIntegerConstantsAlone) {
  EXPECT_EQ(constant_ints(constant_node("value_int", std::int64_t{7})),
            std::vector<std::int64_t>{7});
  EXPECT_EQ(constant_ints(constant_node("value_float", 7.0F)), std::nullopt);
}

}  // namespace
}  // namespace mezzo::test
