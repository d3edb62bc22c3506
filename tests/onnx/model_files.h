// Models for tests: messages from text, files from messages, comparison field by field.
#pragma once

#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <string_view>

#include "onnx/defs/parser.h"
#include "onnx/onnx_pb.h"
#include "tests/support/temp_dir.h"

namespace mezzo::test {

// A message from ONNX text; the test fails if the text is wrong.
inline onnx::ModelProto proto_from_text(std::string_view text) {
  onnx::ModelProto proto;
  const auto status = onnx::OnnxParser::Parse(proto, text);
  EXPECT_TRUE(status.IsOK()) << status.ErrorMessage();
  return proto;
}

inline void write_proto(const std::string& path, const onnx::ModelProto& proto) {
  write_text(path, proto.SerializeAsString());
}

inline onnx::ModelProto read_proto(const std::string& path) {
  onnx::ModelProto proto;
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(proto.ParseFromIstream(&file)) << path;
  return proto;
}

// Success if both messages are the same but for absent fields that equal their default.
inline testing::AssertionResult same_proto(const google::protobuf::Message& expected,
                                           const google::protobuf::Message& actual) {
  using google::protobuf::util::MessageDifferencer;
  MessageDifferencer differencer;
  differencer.set_message_field_comparison(MessageDifferencer::EQUIVALENT);
  std::string difference;
  differencer.ReportDifferencesToString(&difference);
  if (differencer.Compare(expected, actual)) return testing::AssertionSuccess();
  return testing::AssertionFailure() << difference.substr(0, 2000);
}

// A small model that has a bit of everything: initializers, a subgraph, a function, attributes.
inline constexpr std::string_view kSmallModel = R"(
<ir_version: 8, opset_import: ["" : 17, "local" : 1], producer_name: "test", model_version: 3>
main (float[N,4] x, bool flag) => (float[N,4] y)
<float[4] scale = {1, 2, 3, 4}, int64[2] shape = {-1, 4}, float[N,4] scaled>
{
  [mul] scaled = Mul(x, scale)
  [same] other = local.twice<factor: float = 2.0>(scaled)
  [branch] y = If(flag) <
    then_branch: graph = yes () => (float[N,4] yes_out) { yes_out = Add(other, scale) },
    else_branch: graph = no () => (float[N,4] no_out) { no_out = Reshape(scaled, shape) }>
}
<domain: "local", opset_import: ["" : 17]>
twice <factor> (a) => (b) {
  c = Constant<value_float: float = @factor>()
  b = Mul(a, c)
}
)";

}  // namespace mezzo::test
