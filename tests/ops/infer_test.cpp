#include <memory>
#include <string>

#include "compiler/ops/contrib_types.h"
#include "compiler/ops/op_def.h"
#include "compiler/ops/schema.h"
#include "tests/support/status_test.h"

namespace mezzo::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class InferTest : public testing::Test {
 protected:
  InferTest() {
    model_.graph = std::make_unique<Graph>("g");
    set_opset(22);
  }

  void set_opset(std::int64_t opset) { model_.set_opset("", opset); }
  Value* input(const std::string& name, TensorType type) {
    return graph().add_input(name, std::move(type));
  }
  Graph& graph() { return *model_.graph; }

  Node* node(std::string_view op, std::vector<Value*> operands, std::size_t results = 1,
             std::string_view domain = "") {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < results; ++i) names.push_back("y" + std::to_string(i));
    Node* node = graph().add_node(op, domain, operands, names);
    node->name = "n";
    return node;
  }
  // The type of the first result after inference.
  std::string inferred(Node* node) {
    const Status status = infer_types(*node, &model_);
    return status.ok() ? to_string(node->result()->type) : status.message();
  }

  Model model_;
};

TensorType floats(std::vector<std::int64_t> dims) { return TensorType::of(DType::kFloat32, dims); }

TEST_F(InferTest, ShapesComeFromSchemas) {
  EXPECT_EQ(inferred(node("MatMul", {input("a", floats({2, 3})), input("b", floats({3, 4}))})),
            "float[2,4]");
}

TEST_F(InferTest, SymbolsFlow) {
  const TensorType batch(DType::kFloat32, {Dim::symbolic("batch"), Dim(3)});
  EXPECT_EQ(inferred(node("Relu", {input("x", batch)})), "float[batch,3]");
}

TEST_F(InferTest, ConstantsAreKnown) {
  Value* shape =
      graph().add_initializer("shape", Tensor::from_ints({2}, std::vector<std::int64_t>{3, -1}));
  EXPECT_EQ(inferred(node("Reshape", {input("x", floats({2, 6})), shape})), "float[3,4]");
}

TEST_F(InferTest, ConstantNodesAreKnown) {
  Node* constant = graph().add_node("Constant", "", {}, std::vector<std::string>{"shape"});
  constant->set_attribute("value_ints", std::vector<std::int64_t>{4, 3});
  ASSERT_THAT(infer_types(*constant, &model_), IsOk());
  Node* alias = graph().add_node("Identity", "", std::vector<Value*>{constant->result()},
                                 std::vector<std::string>{"s"});
  ASSERT_THAT(infer_types(*alias, &model_), IsOk());
  EXPECT_EQ(inferred(node("Reshape", {input("x", floats({2, 6})), alias->result()})), "float[4,3]");
}

TEST_F(InferTest, OverridableDefaultsAreNotTrusted) {
  Value* shape = input("shape", TensorType::of(DType::kInt64, {2}));
  graph().set_initializer(shape, Tensor::from_ints({2}, std::vector<std::int64_t>{3, 4}));
  EXPECT_EQ(inferred(node("Reshape", {input("x", floats({2, 6})), shape})), "float[?,?]");
}

TEST_F(InferTest, KnownDimsAreMerged) {
  Node* relu =
      node("Relu", {input("x", TensorType(DType::kFloat32, {Dim::symbolic("n"), Dim(3)}))});
  relu->result()->type = floats({8, 3});
  EXPECT_EQ(inferred(relu), "float[8,3]");
}

TEST_F(InferTest, LowResultsOfFp32OperandsStay) {
  Node* relu = node("Relu", {input("x", floats({2}))});
  relu->result()->type = TensorType::of(DType::kFloat16, {2});
  EXPECT_EQ(inferred(relu), "float16[2]");
}

TEST_F(InferTest, ContradictionsNameNodeAndOperands) {
  const Status status = infer_types(
      *node("MatMul", {input("a", floats({2, 3})), input("b", floats({4, 5}))}), &model_);
  EXPECT_THAT(status, FailsWith(StatusCode::kInvalidArgument,
                                AllOf(HasSubstr("node 'n' (MatMul): "), HasSubstr("float[2,3] 'a'"),
                                      HasSubstr("float[4,5] 'b'"))));
}

TEST_F(InferTest, ContradictionsWithKnownResultsGiveBoth) {
  Node* relu = node("Relu", {input("x", floats({2, 3}))});
  relu->result()->type = floats({2, 4});
  EXPECT_THAT(infer_types(*relu, &model_),
              Rejects("result 'y0': expected float[2,3], got float[2,4]"));
}

TEST_F(InferTest, UnknownOperandsAndOperatorsAreLeftAlone) {
  EXPECT_EQ(inferred(node("MatMul", {graph().add_input("u", Type()), input("b", floats({3, 4}))})),
            to_string(Type()));
  EXPECT_EQ(inferred(node("Mystery", {input("x", floats({1}))}, 1, "com.example")),
            to_string(Type()));
}

TEST_F(InferTest, NewerOperatorsAreReadByTheirNewestSchema) {
  set_opset(13);
  EXPECT_EQ(inferred(node("Gelu", {input("x", floats({2}))})), "float[2]");
}

TEST_F(InferTest, OpsetDecidesTheMeaning) {
  set_opset(12);  // axes are an attribute here
  Node* squeeze = node("Squeeze", {input("x", floats({1, 3, 1}))});
  squeeze->set_attribute("axes", std::vector<std::int64_t>{0});
  EXPECT_EQ(inferred(squeeze), "float[3,1]");
}

// if cond: y = relu(x) else: y = x + x, both from outside.
TEST_F(InferTest, SubgraphsAreInferredWithCaptures) {
  Value* x = input("x", floats({2, 3}));
  Node* choice = node("If", {input("cond", TensorType::of(DType::kBool, {}))});
  for (const char* branch : {"then_branch", "else_branch"}) {
    auto body = std::make_shared<Graph>(branch, choice);
    choice->set_attribute(branch, body);
    Node* inner = body->add_node("Add", "", std::vector<Value*>{x, x},
                                 std::vector<std::string>{std::string(branch) + "_y"});
    body->add_output(inner->result());
  }
  ASSERT_THAT(infer_types(model_), IsOk());
  EXPECT_EQ(to_string(choice->result()->type), "float[2,3]");
  EXPECT_EQ(to_string(choice->subgraphs()[0]->outputs()[0]->type), "float[2,3]");
}

TEST_F(InferTest, ErrorsInSubgraphsNameTheInnerNode) {
  Value* x = input("x", floats({2, 3}));
  Node* choice = node("If", {input("cond", TensorType::of(DType::kBool, {}))});
  for (const char* branch : {"then_branch", "else_branch"}) {
    auto body = std::make_shared<Graph>(branch, choice);
    choice->set_attribute(branch, body);
    Node* inner = body->add_node("MatMul", "", std::vector<Value*>{x, x},
                                 std::vector<std::string>{std::string(branch) + "_y"});
    inner->name = std::string(branch) + "_product";
    body->add_output(inner->result());
  }
  EXPECT_THAT(infer_types(model_), Rejects("node 'then_branch_product' (MatMul)"));
}

TEST_F(InferTest, OursHaveRules) {
  Node* product = node("MatMulT", {input("a", floats({4, 3, 2})), input("b", floats({1, 3, 5}))}, 1,
                       kMezzoDomain);
  product->set_attribute("trans_a", std::int64_t{1});
  EXPECT_EQ(inferred(product), "float[4,2,5]");
  product->erase_attribute("trans_a");
  EXPECT_THAT(inferred(product), HasSubstr("expected equal inner dimensions, got 2 and 3"));
}

TEST_F(InferTest, TrainingBatchNormalization) {
  std::vector<Value*> operands = {input("x", floats({2, 3, 4, 4}))};
  for (const char* name : {"scale", "bias", "mean", "var"})
    operands.push_back(input(name, floats({3})));
  Node* norm = node("BatchNormalizationTrain", operands, 5, kMezzoDomain);
  ASSERT_THAT(infer_types(*norm, &model_), IsOk());
  EXPECT_EQ(to_string(norm->result(0)->type), "float[2,3,4,4]");
  for (std::size_t i = 1; i < 5; ++i) EXPECT_EQ(to_string(norm->result(i)->type), "float[3]");
}

TEST_F(InferTest, GradientsKeepTheDimsTheyWereGiven) {
  Node* grad = node("GatherGrad",
                    {input("dy", floats({2, 3})), input("i", TensorType::of(DType::kInt64, {2}))},
                    1, kMezzoDomain);
  grad->result()->type = floats({10, 3});
  EXPECT_EQ(inferred(grad), "float[10,3]");
}

TEST(Schema, TypesByOpset) {
  Graph graph;
  Value* x = graph.add_input("x", floats({1, 1, 2, 2}));
  Value* w = graph.add_input("w", floats({1, 1, 2, 2}));
  const Node& conv =
      *graph.add_node("Conv", "", std::vector<Value*>{x, w}, std::vector<std::string>{"y"});
  EXPECT_EQ(operand_accepts(conv, 0, DType::kFloat16, 11), true);
  EXPECT_EQ(operand_accepts(conv, 0, DType::kBFloat16, 11), false);
  EXPECT_EQ(operand_accepts(conv, 0, DType::kBFloat16, 22), true);
  EXPECT_EQ(result_accepts(conv, 0, DType::kBFloat16, 22), true);
  EXPECT_EQ(operand_accepts(conv, 3, DType::kFloat32, 22), std::nullopt);
  EXPECT_EQ(operand_type_variable(conv, 1, 22), "T");
  EXPECT_EQ(result_type_variable(conv, 0, 22), "T");
  EXPECT_EQ(first_opset_accepting("Conv", "", DType::kBFloat16), 22);
  EXPECT_EQ(first_opset_accepting("MatMul", "", DType::kBFloat16), 13);
  EXPECT_EQ(first_opset_accepting("MatMul", "", DType::kString), 0);
  EXPECT_FALSE(has_schema("Conv", "com.example", 22));
  EXPECT_FALSE(has_schema("Gelu", "", 19));
  EXPECT_TRUE(has_schema("Gelu", "ai.onnx", 20));
}

TEST(Schema, FixedAndVariadicOperands) {
  Graph graph;
  const Node& resize = *graph.add_node("Resize", "", {}, std::vector<std::string>{"y"});
  EXPECT_EQ(operand_accepts(resize, 2, DType::kFloat16, 13), false);  // scales
  EXPECT_EQ(operand_type_variable(resize, 2, 13), "");
  const Node& concat = *graph.add_node("Concat", "", {}, std::vector<std::string>{"z"});
  EXPECT_EQ(operand_accepts(concat, 5, DType::kFloat16, 13), true);
  EXPECT_EQ(operand_type_variable(concat, 5, 13), "T");
  const Node& loop = *graph.add_node("Loop", "", {}, std::vector<std::string>{"l"});
  EXPECT_EQ(operand_type_variable(loop, 4, 21), "") << "each carried value has a type of its own";
  EXPECT_EQ(operand_accepts(loop, 4, DType::kFloat16, 21), true);
}

constexpr std::string_view kMicrosoft = "com.microsoft";

TEST_F(InferTest, ContribOperatorsHaveTypesThoughOnnxHasNoSchema) {
  Value* x = input("x", TensorType::of(DType::kFloat32, {2, 5, 16}));
  Node* gelu = node("FastGelu", {x, x}, 1, kMicrosoft);
  EXPECT_TRUE(has_schema("FastGelu", kMicrosoft, 1));
  EXPECT_EQ(operand_accepts(*gelu, 1, DType::kFloat16, 1), true);
  EXPECT_EQ(operand_accepts(*gelu, 1, DType::kBFloat16, 1), true);
  EXPECT_EQ(operand_type_variable(*gelu, 1, 1), "T");
  EXPECT_EQ(operand_accepts(*gelu, 2, DType::kFloat16, 1), std::nullopt) << "takes two";
  Node* conv = node("FusedConv", {x, x}, 1, kMicrosoft);
  EXPECT_EQ(operand_accepts(*conv, 0, DType::kFloat16, 1), true);
  EXPECT_EQ(operand_accepts(*conv, 0, DType::kBFloat16, 1), false);
  Node* norm = node("SkipLayerNormalization", {x, x, x}, 4, kMicrosoft);
  EXPECT_EQ(result_accepts(*norm, 0, DType::kFloat16, 1), true);
  EXPECT_EQ(result_accepts(*norm, 1, DType::kFloat16, 1), false) << "the mean is float";
  Node* concat = node("ConcatTraining", {x, x, x}, 1, kMicrosoft);
  EXPECT_EQ(operand_accepts(*concat, 2, DType::kFloat16, 1), true);
  EXPECT_FALSE(has_schema("NoSuchOperator", kMicrosoft, 1));
}

TEST_F(InferTest, ContribResultsFollowTheirOperands) {
  Value* x = input("x", TensorType::of(DType::kFloat32, {2, 5, 16}));
  Value* w = input("w", TensorType::of(DType::kFloat32, {16, 48}));
  EXPECT_EQ(inferred(node("QuickGelu", {x}, 1, kMicrosoft)), "float[2,5,16]");
  EXPECT_EQ(inferred(node("BiasSplitGelu", {x, x}, 1, kMicrosoft)), "float[2,5,8]");
  EXPECT_EQ(inferred(node("Attention", {x, w}, 1, kMicrosoft)), "float[2,5,16]");
  Node* bits = node("MatMulNBits", {x, nullptr, x}, 1, kMicrosoft);
  bits->set_attribute("N", std::int64_t{24});
  EXPECT_EQ(inferred(bits), "float[2,5,24]");
  Node* norm = node("SkipLayerNormalization", {x, x, x}, 4, kMicrosoft);
  EXPECT_EQ(inferred(norm), "float[2,5,16]");
  EXPECT_EQ(to_string(norm->result(1)->type), "float");
  EXPECT_EQ(to_string(norm->result(3)->type), "float[2,5,16]");
  EXPECT_EQ(inferred(node("FusedConv", {x, w}, 1, kMicrosoft)), "float") << "rank not told";
}

TEST_F(InferTest, AttentionIsAsWideAsItsValues) {
  Value* query = input("q", TensorType::of(DType::kFloat32, {2, 5, 16}));
  Value* flat = input("v", TensorType::of(DType::kFloat32, {2, 7, 24}));
  Value* split = input("s", TensorType::of(DType::kFloat32, {2, 4, 7, 6}));
  Value* packed = input("p", TensorType::of(DType::kFloat32, {2, 5, 4, 3, 6}));
  const auto attention = [&](std::string_view op, std::vector<Value*> operands) {
    Node* made = node(op, std::move(operands), 1, kMicrosoft);
    made->set_attribute("num_heads", std::int64_t{4});
    made->set_attribute("kv_num_heads", std::int64_t{2});
    return inferred(made);
  };
  EXPECT_EQ(attention("MultiHeadAttention", {query, query, flat}), "float[2,5,24]");
  EXPECT_EQ(attention("MultiHeadAttention", {query, query, split}), "float[2,5,24]");
  EXPECT_EQ(attention("MultiHeadAttention", {packed}), "float[2,5,24]");
  EXPECT_EQ(attention("GroupQueryAttention", {query, flat, flat}), "float[2,5,16]");
  EXPECT_EQ(attention("GroupQueryAttention", {query}), "float[2,5,8]") << "packed: 4 + 2 + 2 heads";
}

// Every operator of the domain that may run low says which operands do, or none of its types is
// low; a name in one table and not in the other is a slip.
TEST(ContribTables, Agree) {
  for (const OpDef* op : all_ops()) {
    if (op->domain != kMicrosoft || op->precision == PrecisionCategory::kDeny) continue;
    if (op->name == "MatMulFpQ4") continue;  // FP32 alone
    EXPECT_TRUE(has_schema(op->name, kMicrosoft, 1)) << op->name;
  }
  for (const auto rows : {contrib_signatures(), contrib_training_signatures()}) {
    for (const ContribSignature& row : rows)
      EXPECT_NE(find_op(row.name, kMicrosoft), nullptr) << row.name;
  }
}

// PyTorch and the runtimes leave out a window that begins behind the last element; the schemas
// before opset 22 count it.
TEST_F(InferTest, PoolsLeaveOutWindowsBehindTheEnd) {
  for (const std::int64_t opset : {12, 19, 22}) {
    set_opset(opset);
    Value* x = input("x" + std::to_string(opset), TensorType::of(DType::kFloat32, {1, 1, 5}));
    for (const char* op : {"MaxPool", "AveragePool"}) {
      Node* pool =
          graph().add_node(op, "", {{x}}, std::vector<std::string>{graph().unique_name("y")});
      pool->set_attribute("kernel_shape", std::vector<std::int64_t>{2});
      pool->set_attribute("strides", std::vector<std::int64_t>{2});
      pool->set_attribute("pads", std::vector<std::int64_t>{1, 1});
      pool->set_attribute("ceil_mode", std::int64_t{1});
      EXPECT_EQ(inferred(pool), "float[1,1,3]") << op << " of opset " << opset;
    }
  }
}

}  // namespace
}  // namespace mezzo::test
