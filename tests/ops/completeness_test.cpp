// No field of the catalogue is left to chance: every operator is there, its fields agree with each
// other, with ONNX's schemas and with the kernel table, and its padding rule is true.
#include <cmath>
#include <map>
#include <set>
#include <string>

#include "compiler/ops/op_def.h"
#include "kernels/kernel.h"
#include "onnx/defs/schema.h"
#include "tests/ops/samples.h"
#include "tests/support/status_test.h"

namespace mezzo::test {
namespace {

std::string name_of(const OpDef& op) {
  return (op.domain.empty() ? "" : std::string(op.domain) + ".") + std::string(op.name);
}

// The newest schema of every operator of ONNX's own domain.
std::map<std::string, onnx::OpSchema> onnx_schemas() {
  std::map<std::string, onnx::OpSchema> schemas;
  for (const onnx::OpSchema& schema : onnx::OpSchemaRegistry::get_all_schemas()) {
    if (schema.domain().empty()) schemas.emplace(schema.Name(), schema);
  }
  return schemas;
}

bool executable(const OpDef& op) { return op.no_kernel.empty(); }

TEST(Completeness, EveryOnnxOperatorIsThere) {
  const auto schemas = onnx_schemas();
  EXPECT_GE(schemas.size(), 190U);
  for (const auto& [name, schema] : schemas) EXPECT_NE(find_op(name, ""), nullptr) << name;
}

TEST(Completeness, NoOperatorIsInvented) {
  const auto schemas = onnx_schemas();
  for (const OpDef* op : all_ops()) {
    if (op->domain.empty()) {
      EXPECT_TRUE(schemas.count(std::string(op->name)) > 0) << op->name;
    }
  }
}

TEST(Completeness, NamesAreUniqueAndFound) {
  std::set<std::string> seen;
  for (const OpDef* op : all_ops()) {
    EXPECT_TRUE(seen.insert(name_of(*op)).second) << name_of(*op) << " is listed twice";
    EXPECT_EQ(find_op(op->name, op->domain), op);
  }
  EXPECT_EQ(find_op("Relu", "ai.onnx"), find_op("Relu", ""));
  EXPECT_EQ(find_op("Relu", "com.example"), nullptr);
  EXPECT_EQ(find_op("NoSuchOperator", ""), nullptr);
}

TEST(Completeness, EitherAGradientOrAReason) {
  for (const OpDef* op : all_ops()) {
    EXPECT_NE(op->gradient != nullptr, !op->not_differentiable.empty()) << name_of(*op);
    // A rule that cannot run cannot be checked.
    if (op->gradient != nullptr) {
      EXPECT_TRUE(executable(*op)) << name_of(*op);
    }
  }
}

TEST(Completeness, OursHaveTypeRules) {
  for (const OpDef* op : all_ops()) {
    if (op->domain == kMezzoDomain) {
      EXPECT_NE(op->infer_types, kFromSchema) << name_of(*op);
    }
    // The schema's rule for Range refuses operands of one dimension that ONNX's own function bodies
    // give it.
    if (op->domain.empty() && op->name != "Range") {
      EXPECT_EQ(op->infer_types, kFromSchema) << name_of(*op);
    }
  }
}

TEST(Completeness, FieldsAgree) {
  for (const OpDef* op : all_ops()) {
    SCOPED_TRACE(name_of(*op));
    if (op->padding == PadRule::kContraction) {
      EXPECT_EQ(op->precision, PrecisionCategory::kAllow);
    }
    if (op->padding == PadRule::kNormalization) {
      EXPECT_EQ(op->pin, PinKind::kNormalization);
    }
    if (op->precision == PrecisionCategory::kClear) {
      EXPECT_NE(op->padding, PadRule::kBreaksZero);
    }
    if (op->pin == PinKind::kSoftmax || op->pin == PinKind::kLoss) {
      EXPECT_EQ(op->precision, PrecisionCategory::kDeny);
      EXPECT_EQ(op->padding, PadRule::kUnpadded);
    }
  }
}

// How many operands or results bits may name; 32 for variadic ones.
std::size_t limit_of(const std::vector<onnx::OpSchema::FormalParameter>& list) {
  const bool variadic = !list.empty() && list.back().GetOption() == onnx::OpSchema::Variadic;
  return variadic ? 32 : list.size();
}

TEST(Completeness, BitsNameOperandsThatExist) {
  for (const auto& [name, schema] : onnx_schemas()) {
    const OpDef* op = find_op(name, "");
    ASSERT_NE(op, nullptr) << name;
    const auto fits = [](std::uint32_t bits, std::size_t limit) {
      return bits == 0xffffffffU || limit >= 32 || bits >> limit == 0;
    };
    EXPECT_TRUE(fits(op->fp32_operands, limit_of(schema.inputs()))) << name;
    EXPECT_TRUE(fits(op->fp32_results, limit_of(schema.outputs()))) << name;
    EXPECT_TRUE(fits(op->no_gradient_operands, limit_of(schema.inputs()))) << name;
  }
}

TEST(Completeness, FunctionBodiesExistWhereTheyArePromised) {
  for (const auto& [name, schema] : onnx_schemas()) {
    const OpDef* op = find_op(name, "");
    ASSERT_NE(op, nullptr) << name;
    const bool promised = op->not_differentiable.find("function body") != std::string_view::npos ||
                          op->no_kernel.find("function body") != std::string_view::npos;
    if (promised) {
      EXPECT_TRUE(schema.HasFunction() || schema.HasContextDependentFunction()) << name;
    }
  }
}

// no_kernel must be given up when somebody writes the kernel.
TEST(Completeness, KernelsAreWhereTheCatalogueSays) {
  for (const OpDef* op : all_ops()) {
    if (op->lower != kLowerAsIs || op->domain == "com.microsoft") continue;
    const bool found = !kernels::kernel_rows(op->name, kernels::Backend::kReference).empty();
    EXPECT_EQ(found, executable(*op))
        << name_of(*op) << (found ? " has a kernel" : " has no kernel");
  }
}

TEST(Completeness, EveryExecutableOperatorHasASampleThatRuns) {
  std::set<std::string> sampled;
  int seed = 0;
  for (const OpSample& sample : all_samples()) {
    SCOPED_TRACE(to_string(sample));
    const OpDef* op = find_op(sample.op, sample.domain);
    ASSERT_NE(op, nullptr);
    sampled.insert(name_of(*op));
    auto built = build_sample(sample, ++seed);
    ASSERT_THAT(built, IsOk());
    EXPECT_THAT(interpret(*built->model.graph, built->inputs), IsOk());
  }
  for (const OpDef* op : all_ops()) {
    if (executable(*op)) {
      EXPECT_TRUE(sampled.count(name_of(*op)) > 0) << name_of(*op) << " has no sample";
    }
  }
}

TEST(Completeness, OperatorsWithoutKernelSayWhy) {
  for (const OpDef* op : all_ops()) {
    if (executable(*op)) continue;
    Graph graph;
    Node* node = graph.add_node(op->name, op->domain, {}, std::vector<std::string>{"y"});
    node->name = "n";
    const auto lowered = lower(*node);
    EXPECT_THAT(lowered, FailsWith(StatusCode::kUnimplemented,
                                   testing::HasSubstr(std::string(op->no_kernel))));
    EXPECT_THAT(lowered.status().message(), testing::HasSubstr("node 'n' (" + name_of(*op) + ")"));
  }
}

bool is_zero(const Buffer& buffer) {
  for (const double value : buffer.to_doubles()) {
    if (!(value == 0.0)) return false;  // NaN is not zero
  }
  return true;
}

// kKeepsZero: zeros in, zeros out. kZeroTimesAny: one zero operand suffices. In gradients the
// incoming dy is the operand that matters.
TEST(Completeness, PaddingRulesAreTrue) {
  int seed = 0;
  for (const OpSample& sample : all_samples()) {
    const OpDef* op = find_op(sample.op, sample.domain);
    ASSERT_NE(op, nullptr);
    const bool keeps = op->padding == PadRule::kKeepsZero;
    const bool times = op->padding == PadRule::kZeroTimesAny;
    if (!keeps && !times) continue;
    SCOPED_TRACE(to_string(sample));
    auto built = build_sample(sample, ++seed);
    ASSERT_THAT(built, IsOk());
    const bool first_only = times || op->name.find("Grad") != std::string_view::npos;
    const bool of_integers = !is_floating(built->node->result()->dtype());
    for (Value* input : built->model.graph->inputs()) {
      if (first_only && input != built->node->operand(0)) continue;
      Buffer& buffer = built->inputs.at(input);
      if (is_floating(input->dtype()) || of_integers)
        buffer = Buffer::of(input->dtype(), buffer.desc.dims);
    }
    ASSERT_THAT(interpret(*built->model.graph, built->inputs), IsOk());
    EXPECT_TRUE(is_zero(built->inputs.at(built->node->result())));
  }
}

// The converse, for functions of one operand: no rule is stricter than it need be.
TEST(Completeness, BreaksZeroIsTrue) {
  int seed = 0;
  for (const OpSample& sample : all_samples()) {
    const OpDef* op = find_op(sample.op, sample.domain);
    if (op == nullptr || op->padding != PadRule::kBreaksZero || sample.operands.size() != 1)
      continue;
    if (sample.op == "Clip" || sample.op == "Shrink") continue;  // depends on their limits
    SCOPED_TRACE(to_string(sample));
    auto built = build_sample(sample, ++seed);
    ASSERT_THAT(built, IsOk());
    Buffer& x = built->inputs.at(built->node->operand(0));
    if (!is_floating(x.desc.dtype)) continue;
    std::fill(x.values(), x.values() + x.desc.elems(), 0.0);
    ASSERT_THAT(interpret(*built->model.graph, built->inputs), IsOk());
    EXPECT_FALSE(is_zero(built->inputs.at(built->node->result())));
  }
}

// The categories of well-known operators.
TEST(Completeness, CategoriesOfWellKnownOperators) {
  const std::map<PrecisionCategory, std::vector<const char*>> expected = {
      {PrecisionCategory::kAllow,
       {"MatMul", "Gemm", "Conv", "ConvTranspose", "Einsum", "Attention", "LSTM", "GRU", "RNN"}},
      {PrecisionCategory::kInfer, {"Relu", "Add", "Mul", "Concat", "MaxPool"}},
      {PrecisionCategory::kClear, {"Reshape", "Slice", "Gather", "Transpose", "Identity"}},
      {PrecisionCategory::kDeny,
       {"Softmax", "LogSoftmax", "Exp", "Log", "Pow", "ReduceSum", "CumSum",
        "SoftmaxCrossEntropyLoss"}}};
  for (const auto& [category, names] : expected) {
    for (const char* name : names) EXPECT_EQ(find_op(name, "")->precision, category) << name;
  }
  for (const char* name : {"LayerNormalization", "RMSNormalization", "BatchNormalization",
                           "GroupNormalization", "InstanceNormalization"}) {
    EXPECT_EQ(find_op(name, "")->pin, PinKind::kNormalization) << name;
  }
  EXPECT_EQ(find_op("Gather", "")->pin, PinKind::kEmbedding);
  EXPECT_EQ(find_op("GatherGrad", kMezzoDomain)->pin, PinKind::kEmbedding);
  EXPECT_EQ(category_name(PrecisionCategory::kAllow), "allow");
  EXPECT_EQ(pin_name(PinKind::kSoftmax), "softmax");
}

}  // namespace
}  // namespace mezzo::test
