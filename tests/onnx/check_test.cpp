#include "compiler/onnx/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "compiler/ir/verifier.h"
#include "compiler/onnx/export.h"
#include "compiler/onnx/import.h"
#include "compiler/ops/op_def.h"
#include "model_files.h"
#include "tests/support/shared_data.h"
#include "tests/support/status_test.h"

namespace mezzo {
namespace {

namespace fs = std::filesystem;
using test::FailsWith;
using test::IsOk;
using test::Rejects;
using testing::HasSubstr;

std::unique_ptr<Model> from_text(std::string_view text) {
  return test::value_or_die(import_text(text));
}

TEST(Check, AcceptsAndRefusesAsOnnxDoes) {
  EXPECT_THAT(check_model(*from_text(test::kSmallModel)), IsOk());
  EXPECT_THAT(check_model(*from_text(R"(<ir_version: 8, opset_import: ["" : 17]>
      g (float[2] x) => (float[2] y) { y = NoSuchOp(x) })")),
              Rejects("NoSuchOp"));
  EXPECT_THAT(check_model(*from_text(R"(<ir_version: 8, opset_import: ["" : 17]>
      g (float[2] x) => (float[2] y) { y = Relu(x, x) })")),
              Rejects("Relu"));
  const auto wrong_shape = from_text(R"(<ir_version: 8, opset_import: ["" : 17]>
      g (float[2,3] x, float[4,5] z) => (float[2,5] y) { y = MatMul(x, z) })");
  EXPECT_THAT(check_model(*wrong_shape, false), IsOk());
  EXPECT_THAT(check_model(*wrong_shape, true), Rejects("MatMul"));
}

TEST(Check, SeesShapesOfLargeWeights) {
  const auto with_weight = [](std::int64_t rows) {
    auto model = from_text(R"(<ir_version: 8, opset_import: ["" : 17]>
      g (float[2,64] x) => (float[2,64] y) { y = Relu(x) })");
    Graph& graph = *model->graph;
    const std::vector<float> values(static_cast<std::size_t>(rows * 64));
    Value* operands[] = {graph.find("x"),
                         graph.add_initializer("w", Tensor::from_floats({rows, 64}, values))};
    const std::string results[] = {"product"};
    graph.add_node("MatMul", "", operands, results, graph.nodes().front().get());
    graph.nodes().back()->set_operand(0, graph.find("product"));
    return model;
  };
  EXPECT_THAT(check_model(*with_weight(64)), IsOk());
  EXPECT_THAT(check_model(*with_weight(65)), Rejects("MatMul"));
}

TEST(InferTypes, FillsGraphsAndSubgraphs) {
  const auto model = from_text(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[N,4] x, bool c) => (y) <float[4] b = {1,2,3,4}> {
      a = Add(x, b)
      s = Shape(a)
      r = Reshape(a, s)
      y = If(c) <then_branch: graph = t () => (u) { v = Cast<to = 10>(r) u = Cast<to = 1>(v) },
                 else_branch: graph = e () => (w) { w = Relu(r) }>
    })");
  ASSERT_THAT(infer_all_types(*model), IsOk());
  const Graph& graph = *model->graph;
  EXPECT_EQ(to_string(graph.find("a")->type), "float[N,4]");
  EXPECT_EQ(to_string(graph.find("s")->type), "int64[2]");
  EXPECT_EQ(to_string(graph.find("r")->type), "float[N,4]") << "needs data propagation";
  EXPECT_EQ(to_string(graph.find("y")->type), "float[N,4]");
  const Graph& then_graph = *graph.find("y")->producer()->subgraphs()[0];
  EXPECT_EQ(to_string(then_graph.find("v")->type), "float16[N,4]");
  EXPECT_EQ(to_string(then_graph.find("u")->type), "float[N,4]");
}

TEST(InferTypes, LoopBodies) {
  const auto model = from_text(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (int64 n, bool c, float[2,3] x) => (float[2,3] y, z) {
      y, z = Loop(n, c, x) <body: graph = b (int64 i, bool go, float[2,3] h)
          => (bool go_on, float[2,3] h_out, scan) {
        go_on = Identity(go)
        h_out = Relu(h)
        scan = ReduceSum<keepdims = 0>(h_out) }>
    })");
  ASSERT_THAT(infer_all_types(*model), IsOk());
  const Graph& body = *model->graph->find("y")->producer()->subgraphs()[0];
  EXPECT_EQ(body.find("go_on")->dtype(), DType::kBool);
  EXPECT_EQ(body.find("scan")->dtype(), DType::kFloat32);
  EXPECT_EQ(model->graph->find("z")->dtype(), DType::kFloat32);
}

TEST(InferTypes, StaleNotesLoseAndForeignOpsKeepTheirs) {
  const auto model = from_text(R"(<ir_version: 8, opset_import: ["" : 17, "com.example" : 1]>
    g (float[2,3] x) => (float[9] y, float[7] k)
    <float16[9] a, float[5,6] b> {
      a = Relu(x)
      b = com.example.Secret(a)
      y = Neg(b)
      k = com.example.Secret(y)
    })");
  ASSERT_THAT(infer_all_types(*model), IsOk());
  EXPECT_EQ(to_string(model->graph->find("a")->type), "float[2,3]");
  EXPECT_EQ(to_string(model->graph->find("b")->type), "float[5,6]");
  EXPECT_EQ(to_string(model->graph->find("y")->type), "float[5,6]");
  EXPECT_EQ(to_string(model->graph->find("k")->type), "float[7]");
}

TEST(InferTypes, FunctionsOfTheModel) {
  const auto model = from_text(test::kSmallModel);
  ASSERT_THAT(infer_all_types(*model), IsOk());
  EXPECT_EQ(to_string(model->graph->find("other")->type), "float[N,4]");
}

TEST(InferTypes, OldDimensionsStayWhereInferenceKnowsNone) {
  const auto model = from_text(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[N,4] x, bool[N] mask) => (float[M,4] y) <float[M,4] a> {
      a = Compress<axis = 0>(x, mask)
      y = Relu(a)
    })");
  ASSERT_THAT(infer_all_types(*model), IsOk());
  EXPECT_EQ(to_string(model->graph->find("a")->type), "float[M,4]");
  EXPECT_EQ(to_string(model->graph->find("y")->type), "float[M,4]");
}

// Each graph by itself, as in models of thousands of subgraphs: what is captured, nested, given
// back unread, and carried around a loop.
TEST(InferTypes, GraphByGraph) {
  const auto model = from_text(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[N,4] x, bool c, int64 n) => (y, z) <float[4] b = {1,2,3,4}> {
      a = Add(x, b)
      y = If(c) <then_branch: graph = t () => (u) {
                   v = Cast<to = 10>(a)
                   k = If(c) <then_branch: graph = tt () => (p) { p = Neg(v) },
                              else_branch: graph = ee () => (q) { q = Abs(v) }>
                   u = Cast<to = 1>(k) },
                 else_branch: graph = e () => (w) { w = Add(a, b) }>
      z = Loop(n, c, y) <body: graph = l (int64 i, bool go, float[N,4] h) => (bool on, float[N,4] o) {
        on = Identity(go)
        o = Mul(h, y) }>
      late = Relu(z)
    })");
  ASSERT_THAT(infer_types(*model), IsOk());
  ASSERT_THAT(infer_all_types(*model, 0), IsOk());
  EXPECT_THAT(verify(*model), IsOk());
  const Graph& graph = *model->graph;
  EXPECT_EQ(graph.find("late")->dtype(), DType::kFloat32);  // a loop may change the shape
  const Graph& outer = *graph.find("y")->producer()->subgraphs()[0];
  EXPECT_EQ(to_string(outer.find("v")->type), "float16[N,4]");
  EXPECT_EQ(to_string(outer.find("u")->type), "float[N,4]");
  const Graph& inner = *outer.find("k")->producer()->subgraphs()[1];
  EXPECT_EQ(to_string(inner.find("q")->type), "float16[N,4]");
  const Graph& body = *graph.find("z")->producer()->subgraphs()[0];
  EXPECT_EQ(to_string(body.find("o")->type), "float[N,4]");
}

// Both ways find the same element types and ranks in every model of the acceptance data.
TEST(Acceptance, InferenceGraphByGraphFindsTheSame) {
  const auto shared = test::shared_folder();
  if (!shared) GTEST_SKIP() << test::kNoSharedFolder;
  for (const auto& entry : fs::recursive_directory_iterator(*shared)) {
    if (entry.path().extension() != ".onnx") continue;
    SCOPED_TRACE(entry.path().string());
    const auto whole = test::value_or_die(load_model(entry.path().string()));
    const auto parts = test::value_or_die(load_model(entry.path().string()));
    if (!infer_types(*whole).ok() || !infer_types(*parts).ok()) continue;
    ASSERT_THAT(infer_all_types(*whole), IsOk());
    ASSERT_THAT(infer_all_types(*parts, 0), IsOk());
    std::vector<const Graph*> graphs;
    for_each_graph(*whole->graph, [&](const Graph& graph) { graphs.push_back(&graph); });
    std::size_t at = 0;
    for_each_graph(*parts->graph, [&](const Graph& graph) {
      for (const Value* expected : graphs[at++]->values()) {
        const Value* value = graph.find(expected->name());
        ASSERT_NE(value, nullptr);
        EXPECT_EQ(value->dtype(), expected->dtype()) << value->name();
        EXPECT_EQ(value->type.kind, expected->type.kind) << value->name();
        if (!value->type.is_tensor()) continue;
        EXPECT_EQ(value->tensor_type().rank(), expected->tensor_type().rank()) << value->name();
      }
    });
  }
}

TEST(RaiseOpset, ChangesOpsAndKeepsTheRest) {
  auto model = from_text(R"(<ir_version: 8, opset_import: ["" : 12, "com.example" : 2],
                             producer_name: "p">
    g (float[N,4] x, bool c) => (float[N] y) <float[1000] big = {)" +
                         std::string("1") +
                         [] {
                           std::string list;
                           for (int i = 1; i < 1000; ++i) list += ",1";
                           return list;
                         }() +
                         R"(}> {
      [first] a = Squeeze<axes = [1]>(u)
      [second] u = ReduceSum<axes = [1]>(x)
      [foreign] f = com.example.Thing(big)
      [pick] y = If(c) <then_branch: graph = t () => (v) { v = Relu(a) },
                        else_branch: graph = e () => (w) { w = Neg(a) }>
    })");
  model->graph->doc_string = "graph doc";
  model->graph->metadata = {{"k", "v"}};
  model->graph->find("a")->producer()->metadata = {{"layer", "1"}};
  model->graph->find("y")->producer()->subgraphs()[0]->doc_string = "inner doc";
  const TensorRef big = model->graph->find("big")->constant();
  ASSERT_THAT(raise_opset(*model, 17), IsOk());
  EXPECT_THAT(verify(*model), IsOk());
  EXPECT_EQ(model->opset(), 17);
  EXPECT_EQ(model->opset("com.example"), 2);
  const Graph& graph = *model->graph;
  EXPECT_EQ(graph.find("big")->constant(), big) << "the tensor itself, not a copy";
  const Node* squeeze = graph.find("a")->producer();
  EXPECT_EQ(squeeze->operand_count(), 2U) << "axes became an operand in opset 13";
  EXPECT_EQ(squeeze->name, "first");
  EXPECT_EQ(squeeze->metadata, (StringPairs{{"layer", "1"}}));
  EXPECT_EQ(graph.doc_string, "graph doc");
  EXPECT_EQ(graph.metadata, (StringPairs{{"k", "v"}}));
  EXPECT_EQ(graph.find("y")->producer()->subgraphs()[0]->doc_string, "inner doc");
  EXPECT_EQ(to_string(graph.find("y")->type), "float[N]");
  EXPECT_THAT(check_model(*model, false), IsOk());
}

TEST(RaiseOpset, SaysWhatItCannotDo) {
  auto model = from_text(test::kSmallModel);
  EXPECT_THAT(raise_opset(*model, 17), IsOk());
  EXPECT_THAT(raise_opset(*model, 16), Rejects("expected an opset from 17"));
  EXPECT_THAT(raise_opset(*model, newest_opset() + 1), Rejects("got"));
  model->training_info.emplace_back();
  EXPECT_THAT(raise_opset(*model, 18),
              FailsWith(StatusCode::kUnimplemented, HasSubstr("training")));
  // twice() holds a Constant, which is another op from opset 19 on.
  model->training_info.clear();
  EXPECT_THAT(raise_opset(*model, 18), IsOk());
  EXPECT_THAT(raise_opset(*model, 22),
              FailsWith(StatusCode::kUnimplemented, HasSubstr("raising function 'twice'")));
  EXPECT_EQ(model->opset(), 18);
  EXPECT_EQ(model->functions[0]->opsets[0].version, 18);
  EXPECT_THAT(check_model(*model), IsOk());
}

TEST(RaiseOpset, LeavesOpsThatOnnxDoesNotKnow) {
  auto model = from_text(R"(<ir_version: 8, opset_import: ["" : 17]>
      g (float[2] x) => (float[2] y) { a = SomeGrad(x) y = Relu(a) })");
  ASSERT_THAT(raise_opset(*model, 22), IsOk());
  EXPECT_TRUE(model->graph->find("a")->producer()->is("SomeGrad"));
  EXPECT_EQ(model->opsets, (std::vector<OpsetImport>{{"", 22}}));
}

// Every model of the acceptance data: the checker's verdict on the file and on the model are one,
// types are found, and where ONNX can raise the opset the result is a model that it accepts.
TEST(Acceptance, CheckInferAndRaise) {
  const auto shared = test::shared_folder();
  if (!shared) GTEST_SKIP() << test::kNoSharedFolder;
  int models = 0, raised = 0, values = 0, typed = 0;
  for (const auto& entry : fs::recursive_directory_iterator(*shared)) {
    if (entry.path().extension() != ".onnx") continue;
    SCOPED_TRACE(entry.path().string());
    const auto model = test::value_or_die(load_model(entry.path().string()));
    ++models;
    const bool valid = check_model(*model, false).ok();
    EXPECT_THAT(infer_all_types(*model), IsOk());
    EXPECT_THAT(verify(*model), IsOk());
    for (const Value* value : model->graph->values()) {
      ++values;
      typed += value->type.kind != Type::Kind::kUnknown;
    }
    const std::int64_t target = std::max<std::int64_t>(model->opset(), 22);
    if (const Status status = raise_opset(*model, target); status.ok()) {
      ++raised;
      EXPECT_THAT(verify(*model), IsOk());
      if (valid) {
        EXPECT_THAT(check_model(*model, false), IsOk());
      }
    } else {
      std::cout << entry.path().filename().string() << ": " << status.message() << "\n";
    }
  }
  std::cout << models << " models, " << typed << " of " << values << " values typed, " << raised
            << " raised to opset 22\n";
  EXPECT_GT(typed, values * 9 / 10);
}

}  // namespace
}  // namespace mezzo
