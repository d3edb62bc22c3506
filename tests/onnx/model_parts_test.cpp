// What ONNX can hold beside nodes and weights: kept, and where it has a meaning, found in the IR.
#include <gtest/gtest.h>

#include <string>

#include "compiler/ir/verifier.h"
#include "compiler/onnx/export.h"
#include "compiler/onnx/import.h"
#include "model_files.h"
#include "tests/support/status_test.h"

namespace mezzo {
namespace {

using test::IsOk;
using test::proto_from_text;

// Imports, verifies, and expects the same message back; returns the model for a closer look.
std::unique_ptr<Model> round_trip(const onnx::ModelProto& proto) {
  auto model = test::value_or_die(import_proto(proto));
  EXPECT_THAT(verify(*model), IsOk());
  onnx::ModelProto back;
  EXPECT_THAT(to_proto(*model, {}, back), IsOk());
  EXPECT_TRUE(test::same_proto(proto, back));
  return model;
}

onnx::ModelProto small_proto() { return proto_from_text(test::kSmallModel); }

void add_pair(google::protobuf::RepeatedPtrField<onnx::StringStringEntryProto>& pairs,
              const std::string& key, const std::string& value) {
  auto& pair = *pairs.Add();
  pair.set_key(key);
  pair.set_value(value);
}

TEST(ModelParts, SubgraphsSeeWhatIsAroundThem) {
  const auto model = round_trip(small_proto());
  const Graph& graph = *model->graph;
  const Node* branch = graph.find("y")->producer();
  ASSERT_EQ(branch->subgraphs().size(), 2U);
  const Graph& yes = *branch->subgraphs()[0];
  EXPECT_EQ(yes.parent(), branch);
  const Node& add = *yes.nodes().front();
  EXPECT_EQ(add.operand(0), graph.find("other"));
  EXPECT_EQ(add.operand(1), graph.find("scale"));
  EXPECT_EQ(graph.find("other")->uses().size(), 1U);
  EXPECT_EQ(graph.find("scaled")->uses().size(), 2U);
}

TEST(ModelParts, InnerResultMayBeNamedLikeTheNodesOwn) {
  round_trip(proto_from_text(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[2] x, bool flag) => (float[2] y) {
      y = If(flag) <then_branch: graph = a () => (y) { y = Relu(x) },
                    else_branch: graph = b () => (y) { y = Neg(x) }>
    })"));
}

TEST(ModelParts, FunctionsWithAttributeReferences) {
  const auto model = round_trip(small_proto());
  ASSERT_EQ(model->functions.size(), 1U);
  const Function& function = *model->functions[0];
  EXPECT_EQ(function.attribute_names, std::vector<std::string>{"factor"});
  const Attribute& attribute = function.body->nodes().front()->attributes()[0];
  EXPECT_EQ(attribute.ref_name, "factor");
  EXPECT_EQ(attribute.ref_kind, Attribute::Kind::kFloat);
  EXPECT_EQ(attribute.kind(), Attribute::Kind::kNone);
}

TEST(ModelParts, FunctionsWithDefaultsTypesAndNotes) {
  onnx::ModelProto proto = small_proto();
  auto& function = *proto.mutable_functions(0);
  function.set_overload("first");
  function.set_doc_string("doubles");
  proto.mutable_graph()->mutable_node(1)->set_overload("first");
  auto& attribute = *function.add_attribute_proto();
  attribute.set_name("other");
  attribute.set_type(onnx::AttributeProto::INTS);
  attribute.add_ints(3);
  auto& info = *function.add_value_info();
  info.set_name("c");
  info.mutable_type()->mutable_tensor_type()->set_elem_type(1);
  add_pair(*function.mutable_metadata_props(), "k", "v");
  const auto model = round_trip(proto);
  EXPECT_EQ(model->functions[0]->body->find("c")->dtype(), DType::kFloat32);
}

TEST(ModelParts, SequencesOptionalsMapsSparseAndOpaqueTypes) {
  const auto model = round_trip(proto_from_text(R"(
    <ir_version: 8, opset_import: ["" : 17, "custom" : 1]>
    g (seq(float[N,?]) s, optional(seq(int64[])) o, map(string, float[2]) m,
       sparse_tensor(float[3,4]) p, opaque(custom,thing) q, float[] r)
      => (optional(float[M]) y) {
      y = custom.Mix(s, o, m, p, q, r)
    })"));
  const Graph& graph = *model->graph;
  EXPECT_EQ(graph.find("s")->type.kind, Type::Kind::kSequence);
  EXPECT_EQ(graph.find("s")->type.element->tensor.shape->at(0).symbol, "N");
  EXPECT_EQ(graph.find("o")->type.element->kind, Type::Kind::kSequence);
  EXPECT_EQ(graph.find("m")->type.key, DType::kString);
  EXPECT_EQ(graph.find("p")->type.kind, Type::Kind::kSparseTensor);
  EXPECT_EQ(graph.find("q")->type.opaque_name, "thing");
  EXPECT_FALSE(graph.find("r")->tensor_type().shape.has_value());
}

TEST(ModelParts, DenotationsAndUnknownElementTypes) {
  onnx::ModelProto proto = small_proto();
  auto& type = *proto.mutable_graph()->mutable_input(0)->mutable_type();
  type.set_denotation("IMAGE");
  type.mutable_tensor_type()->mutable_shape()->mutable_dim(0)->set_denotation("DATA_BATCH");
  auto& info = *proto.mutable_graph()->add_value_info();
  info.set_name("other");
  info.mutable_type()->mutable_tensor_type()->set_elem_type(77);
  const auto model = round_trip(proto);
  EXPECT_EQ(static_cast<int>(model->graph->find("other")->dtype()), 77);
}

TEST(ModelParts, SparseInitializersAndAttributes) {
  onnx::ModelProto proto = small_proto();
  const auto fill = [](onnx::SparseTensorProto& sparse, const std::string& name) {
    sparse.mutable_values()->set_name(name);
    sparse.mutable_values()->set_data_type(onnx::TensorProto::FLOAT);
    sparse.mutable_values()->add_dims(2);
    sparse.mutable_values()->add_float_data(1);
    sparse.mutable_values()->add_float_data(2);
    sparse.mutable_indices()->set_name(name + "_indices");
    sparse.mutable_indices()->set_data_type(onnx::TensorProto::INT64);
    sparse.mutable_indices()->add_dims(2);
    sparse.mutable_indices()->add_dims(2);
    for (const int index : {0, 1, 3, 0}) sparse.mutable_indices()->add_int64_data(index);
    sparse.add_dims(4);
    sparse.add_dims(4);
  };
  fill(*proto.mutable_graph()->add_sparse_initializer(), "sparse");
  auto& attribute = *proto.mutable_graph()->mutable_node(0)->add_attribute();
  attribute.set_name("a");
  attribute.set_type(onnx::AttributeProto::SPARSE_TENSOR);
  fill(*attribute.mutable_sparse_tensor(), "inner");
  auto& list = *proto.mutable_graph()->mutable_node(0)->add_attribute();
  list.set_name("b");
  list.set_type(onnx::AttributeProto::SPARSE_TENSORS);
  fill(*list.add_sparse_tensors(), "");
  const auto model = round_trip(proto);
  const Value* value = model->graph->find("sparse");
  ASSERT_TRUE(value && value->sparse_constant());
  EXPECT_EQ(value->type.kind, Type::Kind::kSparseTensor);
  EXPECT_EQ(value->sparse_constant()->dims, (std::vector<std::int64_t>{4, 4}));
}

TEST(ModelParts, AllAttributeKinds) {
  onnx::ModelProto proto = small_proto();
  auto& node = *proto.mutable_graph()->mutable_node(1);
  const auto add = [&](const std::string& name, onnx::AttributeProto::AttributeType type) {
    auto& attribute = *node.add_attribute();
    attribute.set_name(name);
    attribute.set_type(type);
    attribute.set_doc_string("about " + name);
    return &attribute;
  };
  add("int", onnx::AttributeProto::INT)->set_i(-5);
  add("string", onnx::AttributeProto::STRING)->set_s(std::string("\0\xff", 2));
  auto& floats = *add("floats", onnx::AttributeProto::FLOATS);
  floats.add_floats(1.5F);
  add("empty", onnx::AttributeProto::INTS);
  add("strings", onnx::AttributeProto::STRINGS)->add_strings("s");
  add("type", onnx::AttributeProto::TYPE_PROTO)
      ->mutable_tp()
      ->mutable_tensor_type()
      ->set_elem_type(1);
  add("types", onnx::AttributeProto::TYPE_PROTOS)->add_type_protos()->mutable_sequence_type();
  auto& tensor = *add("tensor", onnx::AttributeProto::TENSOR)->mutable_t();
  tensor.set_data_type(onnx::TensorProto::INT64);
  tensor.add_int64_data(1);
  *add("tensors", onnx::AttributeProto::TENSORS)->add_tensors() = tensor;
  *add("graphs", onnx::AttributeProto::GRAPHS)->add_graphs() =
      proto.graph().node(2).attribute(1).g();
  const auto model = round_trip(proto);
  const Node* same = model->graph->find("other")->producer();
  EXPECT_EQ(same->int_attribute("int", 0), -5);
  EXPECT_TRUE(same->has_attribute("empty"));
  EXPECT_EQ(same->subgraphs().size(), 1U);
}

TEST(ModelParts, NotesAndMetadataOfEverything) {
  onnx::ModelProto proto = small_proto();
  add_pair(*proto.mutable_metadata_props(), "model", "1");
  auto& graph = *proto.mutable_graph();
  graph.set_doc_string("graph doc");
  add_pair(*graph.mutable_metadata_props(), "graph", "2");
  graph.mutable_node(0)->set_doc_string("node doc");
  add_pair(*graph.mutable_node(0)->mutable_metadata_props(), "node", "3");
  graph.mutable_input(0)->set_doc_string("input doc");
  add_pair(*graph.mutable_output(0)->mutable_metadata_props(), "output", "4");
  add_pair(*graph.mutable_value_info(0)->mutable_metadata_props(), "info", "5");
  auto& tensor = *graph.mutable_initializer(0);
  tensor.set_doc_string("tensor doc");
  add_pair(*tensor.mutable_metadata_props(), "tensor", "6");
  tensor.mutable_segment()->set_begin(1);
  tensor.mutable_segment()->set_end(2);
  auto& annotation = *graph.add_quantization_annotation();
  annotation.set_tensor_name("scale");
  add_pair(*annotation.mutable_quant_parameter_tensor_names(), "SCALE_TENSOR", "scale");
  auto& device = *proto.add_configuration();
  device.set_name("two");
  device.set_num_devices(2);
  graph.mutable_node(0)->add_device_configurations()->set_configuration_id("two");
  proto.set_domain("org.example");
  proto.set_producer_version("0.1");
  round_trip(proto);
}

TEST(ModelParts, InitializerAsInputAndAsOutput) {
  onnx::ModelProto proto = proto_from_text(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[2] x, float[2] w = {1, 2}) => (float[2] y, float[3] k, float[2] x)
    <float[3] k = {4, 5, 6}> { y = Add(x, w) })");
  auto& declared = *proto.mutable_graph()->mutable_input(1)->mutable_type()->mutable_tensor_type();
  declared.mutable_shape()->mutable_dim(0)->set_dim_param("N");
  const auto model = round_trip(proto);
  const Graph& graph = *model->graph;
  EXPECT_TRUE(graph.find("w")->is_graph_input() && graph.find("w")->is_initializer());
  EXPECT_FALSE(graph.find("w")->is_fixed());
  EXPECT_TRUE(graph.find("k")->is_fixed() && graph.find("k")->is_graph_output());
  EXPECT_TRUE(graph.find("x")->is_graph_input() && graph.find("x")->is_graph_output());
}

TEST(ModelParts, UnnamedNodesAndAbsentOperandsAndResults) {
  const auto model = round_trip(proto_from_text(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[1,2] x, float[1] hi) => (float[1,2] y, float[1,2] y) {
      a = Clip(x, "", hi)
      b = Clip(a, "", "")
      y, "" = Dropout(b)
    })"));
  const Graph& graph = *model->graph;
  EXPECT_EQ(graph.find("a")->producer()->operand(1), nullptr);
  EXPECT_EQ(graph.find("b")->producer()->operand_count(), 3U);
  EXPECT_EQ(graph.find("y")->producer()->results().size(), 2U);
  EXPECT_EQ(graph.outputs().size(), 2U);
}

TEST(ModelParts, StaleValueInfoIsKeptAsFound) {
  onnx::ModelProto proto = small_proto();
  auto& stale = *proto.mutable_graph()->add_value_info();
  stale.set_name("gone");
  stale.mutable_type()->mutable_tensor_type()->set_elem_type(7);
  auto& wrong = *proto.mutable_graph()->add_value_info();
  wrong.set_name("y");
  wrong.mutable_type()->mutable_tensor_type()->set_elem_type(7);
  const auto model = round_trip(proto);
  EXPECT_EQ(model->graph->find("y")->dtype(), DType::kFloat32) << "the output's own type counts";
  refresh_value_info(*model->graph);
  ASSERT_EQ(model->graph->value_info.size(), 2U);
  EXPECT_EQ(model->graph->value_info[0].name, "scaled");
  EXPECT_EQ(model->graph->value_info[1].type.dtype(), DType::kFloat32);
  model->graph->find("other")->type = TensorType::of(DType::kFloat16, {2});
  refresh_value_info(*model->graph, true);
  EXPECT_EQ(model->graph->value_info.size(), 3U);
}

TEST(ModelParts, TrainingInfoSeesTheMainGraph) {
  onnx::ModelProto proto = small_proto();
  auto& info = *proto.add_training_info();
  *info.mutable_initialization() = proto_from_text(R"(<ir_version: 8, opset_import: ["" : 17]>
        init () => (float[4] fresh) { fresh = RandomNormal<shape = [4]>() })")
                                       .graph();
  *info.mutable_algorithm() = proto_from_text(R"(<ir_version: 8, opset_import: ["" : 17]>
        step (float[4] label) => (float[4] new_scale, float[N,4] y)
        <float rate = {0.1}> { diff = Sub(scale, label)
          scaled_diff = Mul(diff, rate)
          new_scale = Sub(scale, scaled_diff) })")
                                  .graph();
  add_pair(*info.mutable_initialization_binding(), "scale", "fresh");
  add_pair(*info.mutable_update_binding(), "scale", "new_scale");
  const auto model = round_trip(proto);
  const Graph& algorithm = *model->training_info[0].algorithm;
  EXPECT_EQ(algorithm.find("diff")->producer()->operand(0), model->graph->find("scale"));
  EXPECT_EQ(algorithm.outputs()[1], model->graph->find("y"));
}

TEST(ModelParts, NodesOutOfOrderAreSortedWithAWarning) {
  onnx::ModelProto proto = small_proto();
  proto.mutable_graph()->mutable_node()->SwapElements(0, 2);  // the If comes first
  std::vector<std::string> warnings;
  const auto model = test::value_or_die(import_proto(proto, {}, {&warnings}));
  EXPECT_THAT(verify(*model), IsOk());
  EXPECT_EQ(model->graph->nodes().front()->name, "mul");
  ASSERT_EQ(warnings.size(), 1U);
  EXPECT_NE(warnings[0].find("topological order"), std::string::npos);
}

TEST(ModelParts, LaterVersionsGiveWarnings) {
  onnx::ModelProto proto = small_proto();
  proto.set_ir_version(999);
  proto.GetReflection()->MutableUnknownFields(&proto)->AddVarint(555, 1);
  std::vector<std::string> warnings;
  EXPECT_THAT(import_proto(proto, {}, {&warnings}), IsOk());
  ASSERT_EQ(warnings.size(), 2U);
  EXPECT_NE(warnings[0].find("onnx.ModelProto"), std::string::npos);
  EXPECT_NE(warnings[1].find("IR version 999"), std::string::npos);
}

}  // namespace
}  // namespace mezzo
