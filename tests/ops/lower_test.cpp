// What nodes become for the runtime. That the lowered forms compute the right thing is checked by
// running every sample (completeness_test, gradient_test); here are the forms themselves.
#include "compiler/ops/op_def.h"
#include "tests/ops/samples.h"
#include "tests/support/status_test.h"

namespace mezzo::test {
namespace {

using testing::HasSubstr;
using Ints = std::vector<std::int64_t>;

struct Lowered {
  BuiltSample built;
  LoweredOp op;
};

Lowered lowered(const OpSample& sample) {
  Lowered result{value_or_die(build_sample(sample, 1)), {}};
  result.op = value_or_die(lower(*result.built.node));
  return result;
}

Status lowering_error(const OpSample& sample) {
  BuiltSample built = value_or_die(build_sample(sample, 1));
  return lower(*built.node).status();
}

const Attribute::Value& attribute(const Lowered& lowered, std::string_view name) {
  for (const Attribute& attribute : lowered.op.attributes) {
    if (attribute.name == name) return attribute.value;
  }
  static const Attribute::Value none;
  return none;
}

Ints ints_in(const Lowered& lowered, std::string_view name) {
  const auto* values = std::get_if<Ints>(&attribute(lowered, name));
  return values ? *values : Ints{-99};
}

TEST(Lower, ReshapesAreAliases) {
  for (const OpSample& sample : {OpSample{.op = "Reshape", .operands = {f({2, 6}), ints({3, 4})}},
                                 OpSample{.op = "Identity", .operands = {f({2})}},
                                 OpSample{.op = "Flatten", .operands = {f({2, 3})}},
                                 OpSample{.op = "Squeeze", .operands = {f({1, 2})}},
                                 OpSample{.op = "Unsqueeze", .operands = {f({2}), ints({0})}},
                                 OpSample{.op = "Dropout", .operands = {f({2})}},
                                 OpSample{.op = "Expand", .operands = {f({2}), ints({2})}}}) {
    const Lowered got = lowered(sample);
    EXPECT_TRUE(got.op.alias) << sample.op;
    EXPECT_EQ(got.op.operands.size(), 1U) << sample.op;
  }
}

TEST(Lower, AReshapeKeepsTheNumberOfElements) {
  const Status status = lowering_error({.op = "Reshape", .operands = {f({4}), ints({7})}});
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("expected 7 elements for the result float[7], got 4"));
}

TEST(Lower, ConstantOperandsBecomeAttributes) {
  const Lowered slice = lowered({.op = "Slice", .operands = {f({4, 5}), ints({1}), ints({3})}});
  EXPECT_EQ(slice.op.operands.size(), 1U);
  EXPECT_EQ(ints_in(slice, "starts"), Ints{1});
  EXPECT_EQ(ints_in(slice, "ends"), Ints{3});
  EXPECT_EQ(ints_in(slice, "axes"), Ints{0});
  EXPECT_EQ(ints_in(slice, "steps"), Ints{1});
}

TEST(Lower, OlderFormsWithAttributesWork) {
  OpSample sample{.op = "Slice", .operands = {f({4, 5})}, .result_dims = {2, 5}};
  sample.attributes = {{"starts", Ints{1}}, {"ends", Ints{3}}};
  Graph graph;
  Value* x = graph.add_input("x", TensorType::of(DType::kFloat32, {4, 5}));
  Builder builder(graph, nullptr);
  Node* slice = builder.node("Slice", {x}, 1, sample.attributes);
  const LoweredOp op = value_or_die(lower(*slice));
  EXPECT_EQ(op.attributes.size(), 4U);
}

TEST(Lower, AutoPadIsResolved) {
  const auto conv = [](const char* mode, std::int64_t size, std::int64_t stride) {
    return lowered({.op = "Conv",
                    .operands = {f({1, 1, size}), f({1, 1, 4})},
                    .attributes = {{"auto_pad", std::string(mode)}, {"strides", Ints{stride}}}});
  };
  EXPECT_EQ(ints_in(conv("SAME_UPPER", 6, 1), "pads"), (Ints{1, 2}));
  EXPECT_EQ(ints_in(conv("SAME_LOWER", 6, 1), "pads"), (Ints{2, 1}));
  EXPECT_EQ(ints_in(conv("SAME_UPPER", 6, 4), "pads"), (Ints{1, 1}));
  EXPECT_EQ(ints_in(conv("VALID", 6, 1), "pads"), (Ints{0, 0}));
  EXPECT_EQ(ints_in(conv("VALID", 6, 1), "kernel_shape"), Ints{4});
  EXPECT_EQ(attribute(conv("VALID", 6, 1), "auto_pad").index(), 0U);
}

TEST(Lower, OutputShapeOfConvTransposeBecomesPads) {
  const Lowered got = lowered({.op = "ConvTranspose",
                               .operands = {f({1, 1, 3}), f({1, 1, 3})},
                               .attributes = {{"strides", Ints{2}}, {"output_shape", Ints{6}}}});
  EXPECT_EQ(ints_in(got, "pads"), (Ints{1, 0}));  // the odd one at the begin, unless SAME_UPPER
}

TEST(Lower, ReductionsNameTheirAxes) {
  EXPECT_EQ(
      ints_in(lowered({.op = "ReduceMean", .operands = {f({2, 3, 4}), ints({-1, 1})}}), "axes"),
      (Ints{1, 2}));
  EXPECT_EQ(ints_in(lowered({.op = "ReduceMean", .operands = {f({2, 3})}}), "axes"), (Ints{0, 1}));
  EXPECT_TRUE(lowered({.op = "ReduceSum",
                       .operands = {f({2, 3})},
                       .attributes = {{"noop_with_empty_axes", std::int64_t{1}}}})
                  .op.alias);
  EXPECT_EQ(ints_in(lowered({.op = "GlobalMaxPool", .operands = {f({1, 2, 3, 4})}}), "axes"),
            (Ints{2, 3}));
}

TEST(Lower, PadsAreSpelledOutForEveryDimension) {
  const Lowered got = lowered(
      {.op = "Pad", .operands = {f({2, 3}), ints({1, 2}), constant({}, {0.5}), ints({-1})}});
  EXPECT_EQ(ints_in(got, "pads"), (Ints{0, 1, 0, 2}));
  EXPECT_EQ(std::get<float>(attribute(got, "value")), 0.5F);
}

TEST(Lower, TrainingFormOfBatchNormalization) {
  OpSample sample{.op = "BatchNormalizationTrain",
                  .operands = {f({2, 3}), f({3}), f({3}), f({3}), f({3})},
                  .results = 5,
                  .domain = "ai.mezzo"};
  const Lowered got = lowered(sample);
  EXPECT_EQ(got.op.kernel, "BatchNormalization");
  EXPECT_EQ(std::get<std::int64_t>(attribute(got, "training_mode")), 1);
}

TEST(Lower, RefusalsNameNodeAndReason) {
  const OperandSample moving = integers({1}, {1});
  EXPECT_THAT(lowering_error({.op = "Slice", .operands = {f({4}), moving, moving}}),
              FailsWith(StatusCode::kUnimplemented, HasSubstr("operand 1 'operand1'")));
  EXPECT_THAT(lowering_error({.op = "Resize", .operands = {f({4}), absent(), f({1})}}),
              FailsWith(StatusCode::kUnimplemented, HasSubstr("operand 2 'operand2'")));
  EXPECT_THAT(
      lowering_error({.op = "Dropout",
                      .operands = {f({2}), constant({}, {0.5}), integers({}, {1}, DType::kBool)}}),
      FailsWith(StatusCode::kUnimplemented, HasSubstr("a constant for training_mode")));
  EXPECT_THAT(lowering_error({.op = "Max", .operands = {f({2}), f({2}), f({2})}}),
              FailsWith(StatusCode::kUnimplemented, HasSubstr("two operands")));
}

// Attributes come from files: absurd ones must not overflow or crash.
TEST(Lower, AbsurdWindowsAreRejected) {
  const std::int64_t huge = std::int64_t{1} << 62;
  for (const auto& [name, value] : std::vector<Builder::NamedValue>{{"strides", Ints{0}},
                                                                    {"strides", Ints{-1}},
                                                                    {"strides", Ints{1, 1, 1}},
                                                                    {"dilations", Ints{huge}},
                                                                    {"kernel_shape", Ints{}},
                                                                    {"pads", Ints{huge, huge}},
                                                                    {"pads", Ints{0}}}) {
    Graph graph;
    Value* x = graph.add_input("x", TensorType::of(DType::kFloat32, {1, 1, 5}));
    Builder builder(graph, nullptr);
    Node* pool = builder.node("MaxPool", {x}, 1, {{"kernel_shape", Ints{2}}});
    pool->set_attribute(name, value);
    EXPECT_THAT(lower(*pool).status(), Rejects("attribute ")) << name;
  }
}

TEST(Flops, CountsMultiplyAdds) {
  const auto count = [](const OpSample& sample) {
    const BuiltSample built = value_or_die(build_sample(sample, 1));
    return flops(*built.node);
  };
  EXPECT_EQ(count({.op = "MatMul", .operands = {f({5, 2, 3}), f({3, 4})}}), 2.0 * 5 * 2 * 3 * 4);
  EXPECT_EQ(count({.op = "Gemm",
                   .operands = {f({3, 2}), f({3, 4})},
                   .attributes = {{"transA", std::int64_t{1}}}}),
            2.0 * 2 * 3 * 4);
  const OpSample conv{.op = "Conv",
                      .operands = {f({2, 4, 6, 6}), f({8, 2, 3, 3})},
                      .attributes = {{"group", std::int64_t{2}}}};
  EXPECT_EQ(count(conv), 2.0 * (2 * 8 * 4 * 4) * (2 * 3 * 3));
  EXPECT_EQ(count({.op = "ConvGradWeight",
                   .operands = {f({2, 8, 4, 4}), f({2, 4, 6, 6})},
                   .attributes = {{"group", std::int64_t{2}}},
                   .domain = "ai.mezzo",
                   .result_dims = {8, 2, 3, 3}}),
            count(conv));
  EXPECT_EQ(count({.op = "Add", .operands = {f({2, 3}), f({3})}}), 6.0);
  EXPECT_EQ(count({.op = "Transpose", .operands = {f({2, 3})}}), 0.0);
  EXPECT_EQ(
      count({.op = "Attention", .operands = {f({1, 2, 3, 8}), f({1, 2, 5, 8}), f({1, 2, 5, 8})}}),
      2.0 * 2 * (1 * 2 * 3 * 5 * 8));
  EXPECT_EQ(count({.op = "Einsum",
                   .operands = {f({2, 3, 4}), f({2, 4, 5})},
                   .attributes = {{"equation", std::string("bij, bjk -> bik")}}}),
            2.0 * 2 * 3 * 4 * 5);
}

}  // namespace
}  // namespace mezzo::test
