// Facts from ONNX's schemas that the precision passes ask for.
#include "compiler/ops/schema.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/status_test.h"

namespace mezzo::test {
namespace {

using testing::HasSubstr;

class SchemaTest : public testing::Test {
 protected:
  Value* input(const std::string& name, DType dtype, std::vector<std::int64_t> dims) {
    return graph_.add_input(name, TensorType::of(dtype, dims));
  }
  Node* node(std::string_view op, std::vector<Value*> operands) {
    const std::string names[] = {"y" + std::to_string(graph_.nodes().size())};
    return graph_.add_node(op, "", operands, names);
  }
  // With every FP32 operand, and the result, low.
  static std::string fault(const Node& node, DType low, std::int64_t opset) {
    std::vector<bool> operands;
    for (const Value* operand : node.operands())
      operands.push_back(operand != nullptr && operand->dtype() == DType::kFloat32);
    return function_body_fault(node, operands, {true}, low, opset);
  }

  Graph graph_{"g"};
};

TEST_F(SchemaTest, FunctionBodyMustTakeTheType) {
  Value* x = input("x", DType::kFloat32, {2, 3});
  Value* bound = input("bound", DType::kFloat32, {});
  const Node& clip = *node("Clip", {x, bound, bound});
  EXPECT_THAT(fault(clip, DType::kBFloat16, 13), HasSubstr("Where"));
  EXPECT_EQ(fault(clip, DType::kBFloat16, 16), "");
  EXPECT_EQ(fault(clip, DType::kFloat16, 13), "");
  const Node& low_only = *node("Clip", {x, bound});
  EXPECT_THAT(fault(low_only, DType::kBFloat16, 13), HasSubstr("Where"));
}

TEST_F(SchemaTest, FunctionsInFunctionsCount) {
  Value* scores = input("scores", DType::kFloat32, {4, 3});
  Value* labels = input("labels", DType::kInt64, {4});
  const Node& loss = *node("SoftmaxCrossEntropyLoss", {scores, labels});
  EXPECT_THAT(fault(loss, DType::kBFloat16, 13), HasSubstr("NegativeLogLikelihoodLoss"));
  EXPECT_EQ(fault(loss, DType::kFloat16, 13), "");
}

TEST_F(SchemaTest, FunctionBodyMustHoldWithAllItsTypes) {
  Value* x = input("x", DType::kFloat32, {2, 3});
  Value* scale = input("scale", DType::kFloat32, {3});
  const Node& norm = *node("RMSNormalization", {x, scale});
  EXPECT_EQ(function_body_fault(norm, {true, true}, {true}, DType::kFloat16, 23), "");
  EXPECT_NE(function_body_fault(norm, {true, false}, {true}, DType::kFloat16, 23), "");
  EXPECT_THAT(function_body_fault(norm, {true, false}, {false}, DType::kFloat16, 23),
              HasSubstr("Mul"));
}

TEST_F(SchemaTest, OperatorsWithoutABodyHaveNoFault) {
  Value* x = input("x", DType::kFloat32, {2, 2});
  EXPECT_EQ(fault(*node("MatMul", {x, x}), DType::kBFloat16, 13), "");
  EXPECT_EQ(fault(*node("NoSuchOperator", {x}), DType::kBFloat16, 13), "");
}

TEST_F(SchemaTest, TypeAttributes) {
  Value* x = input("x", DType::kFloat32, {2, 2});
  EXPECT_EQ(type_attribute(*node("Cast", {x}), 21).name, "to");
  const TypeAttribute random = type_attribute(*node("RandomNormal", {}), 21);
  EXPECT_EQ(random.name, "dtype");
  EXPECT_EQ(random.fallback, DType::kFloat32);
  const TypeAttribute eye = type_attribute(*node("EyeLike", {x}), 21);
  EXPECT_EQ(eye.name, "dtype");
  EXPECT_EQ(eye.fallback, DType::kNone);
  EXPECT_EQ(type_attribute(*node("HannWindow", {x}), 21).fallback, DType::kFloat32);
  EXPECT_EQ(type_attribute(*node("DequantizeLinear", {x}), 21).name, "");
  EXPECT_EQ(type_attribute(*node("DequantizeLinear", {x}), 23).name, "output_dtype");
  EXPECT_EQ(type_attribute(*node("Relu", {x}), 21).name, "");
}

}  // namespace
}  // namespace mezzo::test
