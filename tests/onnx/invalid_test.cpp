// Models that are wrong: each gives one line that says where and what.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "compiler/onnx/import.h"
#include "model_files.h"
#include "tests/support/status_test.h"

namespace mezzo {
namespace {

using test::Rejects;
using testing::AllOf;
using testing::HasSubstr;

// The body of a main graph with inputs `float[2] x, bool c` and output y.
Status import_body(const std::string& body, const std::string& initializers = "") {
  return import_text(
             "<ir_version: 8, opset_import: [\"\" : 17]>\n g (float[2] x, bool c) => "
             "(float[2] y) <" +
                 initializers + "> {" + body + "}",
             "m.onnxtxt")
      .status();
}

TEST(Invalid, OperandThatNothingDefines) {
  EXPECT_THAT(import_body("[add] y = Add(x, w)"),
              Rejects("m.onnxtxt: node 'add' (Add), operand 1 'w': expected the name of a value"));
  EXPECT_THAT(import_body("y = Relu(later_and_never)"), Rejects("node producing 'y' (Relu)"));
}

TEST(Invalid, OutputThatNothingDefines) {
  EXPECT_THAT(import_body("z = Relu(x)"), Rejects("graph output 'y'"));
}

TEST(Invalid, NamesUsedTwice) {
  EXPECT_THAT(
      import_body("y = Relu(x) y = Neg(x)"),
      Rejects("node producing 'y' (Neg): expected a new name, got 'y', which is a result of "
              "node producing 'y' (Relu)"));
  EXPECT_THAT(import_body("y, y = Split(x)"), Rejects("expected a new name"));
  EXPECT_THAT(import_body("x = Relu(x) y = Neg(x)"), Rejects("'x'"));
  EXPECT_THAT(import_body("y = Relu(w) w = Neg(x)", "float[2] w = {1,2}"),
              Rejects("result 0 'w': expected a name that is not in use"));
  EXPECT_THAT(import_body("y = Relu(x)", "float w = {1}, float w = {2}"),
              Rejects("initializer 'w'"));
}

TEST(Invalid, Shadowing) {
  EXPECT_THAT(
      import_body("w = Neg(x) y = If(c) <then_branch: graph = a () => (w) { w = Relu(x) }, "
                  "else_branch: graph = b () => (v) { v = Relu(x) }>"),
      Rejects("'w': expected a name that is not in use, got one of a value of an enclosing"));
}

TEST(Invalid, CyclesAndCapturesOfOwnResults) {
  EXPECT_THAT(import_body("y = Relu(a) a = Neg(b) b = Neg(a)"), Rejects("without cycles"));
  EXPECT_THAT(import_body("y = If(c) <then_branch: graph = a () => (w) { w = Relu(y) }, "
                          "else_branch: graph = b () => (v) { v = Relu(x) }>"),
              Rejects("without cycles"));
}

TEST(Invalid, DefaultsThatContradictTheirInput) {
  onnx::ModelProto proto = test::proto_from_text(
      "<ir_version: 8, opset_import: [\"\" : 17]>"
      "g (float[2] x, float[2] w = {1, 2}) => (float[2] y) { y = Add(x, w) }");
  auto& type = *proto.mutable_graph()->mutable_input(1)->mutable_type()->mutable_tensor_type();
  type.mutable_shape()->mutable_dim(0)->set_dim_value(3);
  EXPECT_THAT(import_proto(proto),
              Rejects("initializer 'w': expected an initializer of the input's "
                      "type float[3], got float[2]"));
  type.mutable_shape()->add_dim();
  EXPECT_THAT(import_proto(proto), Rejects("float[3,?]"));
}

TEST(Invalid, DimsOfConstants) {
  const auto with_dims = [](std::initializer_list<std::int64_t> dims) {
    onnx::ModelProto proto = test::proto_from_text(test::kSmallModel);
    auto& tensor = *proto.mutable_graph()->mutable_initializer(0);
    tensor.clear_dims();
    for (const auto dim : dims) tensor.add_dims(dim);
    return import_proto(proto).status();
  };
  EXPECT_THAT(with_dims({-4}), Rejects("initializer 'scale': expected dims of at least 0"));
  EXPECT_THAT(with_dims({std::int64_t{1} << 40, std::int64_t{1} << 40}), Rejects("2^63"));
  EXPECT_THAT(with_dims({std::int64_t{1} << 61}), Rejects("2^63"));
  EXPECT_THAT(with_dims({0, std::int64_t{1} << 40, std::int64_t{1} << 40}), Rejects("2^63"));
  EXPECT_THAT(with_dims({5}), Rejects("expected 5 entries in float_data, got 4"));
}

TEST(Invalid, ConstantsInTwoOrNoPlaces) {
  onnx::ModelProto proto = test::proto_from_text(test::kSmallModel);
  auto& tensor = *proto.mutable_graph()->mutable_initializer(0);
  tensor.set_raw_data(std::string(16, '\0'));
  EXPECT_THAT(import_proto(proto), Rejects("raw_data and a typed field"));
  tensor.clear_raw_data();
  tensor.add_int32_data(1);
  EXPECT_THAT(import_proto(proto), Rejects("expected the data of dtype float in field float_data"));
  tensor.set_data_type(0);
  EXPECT_THAT(import_proto(proto), Rejects("expected a data_type"));
  tensor.set_data_type(99);
  EXPECT_THAT(import_proto(proto), test::FailsWith(StatusCode::kUnimplemented, HasSubstr("99")));
  tensor.set_data_type(onnx::TensorProto::STRING);
  tensor.set_raw_data("x");
  EXPECT_THAT(import_proto(proto), Rejects("expected strings in string_data"));
}

TEST(Invalid, SparseTensors) {
  onnx::ModelProto proto = test::proto_from_text(test::kSmallModel);
  auto& sparse = *proto.mutable_graph()->add_sparse_initializer();
  EXPECT_THAT(import_proto(proto), Rejects("sparse initializer: expected a name"));
  sparse.mutable_values()->set_name("s");
  sparse.mutable_values()->set_data_type(onnx::TensorProto::FLOAT);
  sparse.mutable_values()->add_dims(1);
  sparse.mutable_values()->add_float_data(1);
  EXPECT_THAT(import_proto(proto), Rejects("sparse initializer 's': expected indices"));
  sparse.mutable_indices()->set_data_type(onnx::TensorProto::INT64);
  sparse.mutable_indices()->add_dims(0);
  EXPECT_THAT(import_proto(proto), Rejects("expected int64 indices of shape [1] or [1,0]"));
}

TEST(Invalid, AttributesWithoutValueOrWithOneName) {
  onnx::ModelProto proto = test::proto_from_text(test::kSmallModel);
  auto& node = *proto.mutable_graph()->mutable_node(0);
  node.add_attribute()->set_name("a");
  EXPECT_THAT(import_proto(proto),
              Rejects("node 'mul' (Mul): attribute 'a': expected an attribute with a type"));
  node.mutable_attribute(0)->set_i(1);  // the type follows from the field, as in old files
  EXPECT_THAT(import_proto(proto), test::IsOk());
  *node.add_attribute() = node.attribute(0);
  EXPECT_THAT(import_proto(proto), Rejects("distinct names"));
}

TEST(Invalid, FilesThatAreNoModels) {
  const test::TempDir dir;
  const auto fails = [&](const std::string& content) {
    test::write_text(dir.file("bad.onnx"), content);
    return load_model(dir.file("bad.onnx")).status();
  };
  EXPECT_THAT(fails(""), Rejects("bad.onnx: expected an ONNX model, got an empty file"));
  EXPECT_THAT(fails("PK\x03\x04zip archive"), Rejects("bad.onnx: expected an ONNX model: not a"));
  EXPECT_THAT(fails("\x08\x08"), Rejects("got a message without a graph"));
  EXPECT_THAT(fails("<ir_version: 8, opset_import: [\"\" : 17]> g ("), Rejects("ONNX text syntax"));
  EXPECT_THAT(fails("<ir_version: 99999999999999999999999>"), Rejects("ONNX text syntax"));
  EXPECT_THAT(load_model(dir.path()), Rejects("got a folder"));
  EXPECT_THAT(load_model(dir.file("missing.onnx")), Rejects("No such file"));
  EXPECT_THAT(import_model(dir.file("missing.onnx")), Rejects("missing.onnx"));
}

TEST(Invalid, ErrorsAreOneLine) {
  const std::string message = import_body("y = Relu(x").message();
  EXPECT_THAT(message, AllOf(HasSubstr("line: 2"), testing::Not(HasSubstr("\n"))));
}

TEST(Invalid, DeeplyNestedText) {
  const std::string open(100000, '(');
  EXPECT_THAT(import_text("<ir_version: 8> g (seq" + open), Rejects("nested at most"));
  std::string types = "<ir_version: 8, opset_import: [\"\" : 17]> g (";
  for (int i = 0; i < 5000; ++i) types += "seq(";
  EXPECT_THAT(import_text(types), Rejects("nested at most"));
}

// Functions f0 to fN, each with this body, where NEXT stands for a call of the next; the last one
// is a Relu.
Status import_functions(int count, const std::string& body) {
  const std::string head = "<domain: \"local\", opset_import: [\"\" : 17, \"local\" : 1]>\n";
  std::string text =
      "<ir_version: 8, opset_import: [\"\" : 17, \"local\" : 1]>\n"
      "g (float[2] x) => (float[2] y) { y = local.f0(x) }\n";
  for (int i = 0; i < count; ++i) {
    std::string named = body;
    for (std::size_t at = 0; (at = named.find("NEXT")) != std::string::npos;) {
      named.replace(at, 4, "local.f" + std::to_string(i + 1));
    }
    text += head + "f" + std::to_string(i) + " (a) => (b) {" + named + "}\n";
  }
  text += head + "f" + std::to_string(count) + " (a) => (b) { b = Relu(a) }\n";
  return import_text(text, "m.onnxtxt").status();
}

// The default of an input must be what the input says it is, whatever kind of type that is.
TEST(Invalid, DefaultsOfAnotherType) {
  onnx::ModelProto proto = test::proto_from_text(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[2] x, float[2] w) => (float[2] y) <float[2] w = {1, 2}> { y = Relu(x) })");
  EXPECT_THAT(import_proto(proto), test::IsOk());
  auto& type = *proto.mutable_graph()->mutable_input(1)->mutable_type();
  const onnx::TypeProto_Tensor dense = type.tensor_type();
  type.mutable_sparse_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
  type.mutable_sparse_tensor_type()->mutable_shape()->add_dim()->set_dim_value(3);
  EXPECT_THAT(import_proto(proto), Rejects("expected an initializer of the input's type"));
  *type.mutable_sequence_type()->mutable_elem_type()->mutable_tensor_type() = dense;
  EXPECT_THAT(import_proto(proto), Rejects("expected an initializer of the input's type"));
}

TEST(Invalid, FunctionsOfOneName) {
  const std::string function =
      "<domain: \"local\", opset_import: [\"\" : 17]>\n f (a) => (b) { b = Relu(a) }\n";
  const std::string main =
      "<ir_version: 8, opset_import: [\"\" : 17, \"local\" : 1]>\n"
      "g (float[2] x) => (float[2] y) { y = local.f(x) }\n";
  EXPECT_THAT(import_text(main + function), test::IsOk());
  EXPECT_THAT(import_text(main + function + function),
              Rejects("function 'local.f': expected functions with distinct names"));
}

// A kilobyte of text must not cost hours of inference.
TEST(Invalid, FunctionsThatExpandWithoutEnd) {
  EXPECT_THAT(import_functions(10, "c = NEXT(a) d = NEXT(a) b = Add(c, d)"), test::IsOk());
  EXPECT_THAT(import_functions(40, "c = NEXT(a) d = NEXT(a) b = Add(c, d)"),
              Rejects("at most 1048576 nodes with every call replaced by its function"));
  EXPECT_THAT(import_functions(90, "b = NEXT(a)"), test::IsOk());
  EXPECT_THAT(import_functions(200, "b = NEXT(a)"), Rejects("nested at most 100 deep"));
  EXPECT_THAT(import_functions(5, "b = local.f2(a)"),
              Rejects("'b' (local.f2): expected functions that do not call themselves"));
  EXPECT_THAT(import_functions(5, "c = NEXT(a) b = local.f0(c)"), Rejects("call themselves"));
}

}  // namespace
}  // namespace mezzo
