#include "compiler/ir/type.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "compiler/ir/graph.h"

namespace mezzo {
namespace {

Type wrap(Type::Kind kind, Type element) {
  Type type;
  type.kind = kind;
  type.element = std::make_shared<const Type>(std::move(element));
  return type;
}

TEST(Type, Texts) {
  EXPECT_EQ(to_string(TensorType()), "?");
  TensorType unranked;
  unranked.dtype = DType::kFloat16;
  EXPECT_EQ(to_string(unranked), "float16");
  EXPECT_EQ(to_string(TensorType::of(DType::kInt64, {})), "int64[]");
  EXPECT_EQ(to_string(TensorType(DType::kFloat32, {2, Dim(), Dim::symbolic("batch")})),
            "float[2,?,batch]");
  const Type tensor = TensorType::of(DType::kFloat32, {2});
  EXPECT_EQ(to_string(Type()), "?");
  EXPECT_EQ(to_string(wrap(Type::Kind::kSequence, tensor)), "seq(float[2])");
  EXPECT_EQ(to_string(wrap(Type::Kind::kOptional, wrap(Type::Kind::kSequence, tensor))),
            "optional(seq(float[2]))");
  Type map = wrap(Type::Kind::kMap, tensor);
  map.key = DType::kString;
  EXPECT_EQ(to_string(map), "map(string, float[2])");
}

TEST(Type, EqualityLooksInside) {
  const Type two = TensorType::of(DType::kFloat32, {2});
  const Type three = TensorType::of(DType::kFloat32, {3});
  EXPECT_EQ(wrap(Type::Kind::kSequence, two), wrap(Type::Kind::kSequence, two));
  EXPECT_FALSE(wrap(Type::Kind::kSequence, two) == wrap(Type::Kind::kSequence, three));
  EXPECT_FALSE(wrap(Type::Kind::kSequence, two) == wrap(Type::Kind::kOptional, two));
  Type empty;
  empty.kind = Type::Kind::kSequence;
  EXPECT_FALSE(wrap(Type::Kind::kSequence, two) == empty);
  EXPECT_EQ(two.dtype(), DType::kFloat32);
  EXPECT_EQ(empty.dtype(), DType::kNone);
}

TEST(Type, StaticShapes) {
  const TensorType fixed = TensorType::of(DType::kFloat32, {2, 3});
  EXPECT_TRUE(fixed.has_static_shape());
  EXPECT_EQ(fixed.elems(), 6);
  EXPECT_THAT(fixed.dims(), ::testing::ElementsAre(2, 3));
  EXPECT_EQ(TensorType::of(DType::kFloat32, {}).elems(), 1);
  EXPECT_FALSE(TensorType().has_static_shape());
  EXPECT_FALSE(TensorType(DType::kFloat32, {2, Dim::symbolic("n")}).has_static_shape());
  EXPECT_EQ(fixed.rank(), 2U);
  EXPECT_EQ(TensorType().rank(), std::nullopt);
}

TEST(Type, CountsOfElementsEndAtTheLargest) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(TensorType::of(DType::kFloat32, {kMost}).elems(), kMost);
  EXPECT_EQ(TensorType::of(DType::kFloat32, {kMost, 2}).elems(), kMost);
  EXPECT_EQ(TensorType::of(DType::kFloat32, {kMost, kMost, 3}).elems(), kMost);
  EXPECT_EQ(TensorType::of(DType::kFloat32, {kMost, kMost, 0}).elems(), 0);
  EXPECT_GE(dtype_bytes(DType::kFloat64, kMost), dtype_bytes(DType::kFloat64, kMost / 64));
  EXPECT_EQ(dtype_bytes(DType::kInt4, 3), 2U);
}

TEST(Model, OpsetsByEitherNameOfTheOnnxDomain) {
  Model model;
  EXPECT_EQ(model.opset(), 0);
  model.set_opset("ai.onnx", 17);
  EXPECT_EQ(model.opset(""), 17);
  model.set_opset("", 18);
  EXPECT_EQ(model.opset("ai.onnx"), 18);
  EXPECT_EQ(model.opsets.size(), 1U);
  model.set_opset("com.x", 1);
  EXPECT_EQ(model.opset("com.x"), 1);
}

}  // namespace
}  // namespace mezzo
