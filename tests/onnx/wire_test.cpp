#include "compiler/onnx/wire.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model_files.h"
#include "tests/support/status_test.h"

namespace mezzo {
namespace {

using test::IsOk;
using test::Rejects;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// Tensors on every path that wire.h walks.
onnx::ModelProto model_with_all_paths() {
  onnx::ModelProto model = test::proto_from_text(test::kSmallModel);
  int count = 0;
  const auto fill = [&](onnx::TensorProto& tensor) {
    ++count;
    tensor.set_raw_data(
        std::string(static_cast<std::size_t>(300 * count), static_cast<char>(count)));
    tensor.set_name("t" + std::to_string(count));
  };
  fill(*model.mutable_graph()->add_initializer());
  auto& sparse = *model.mutable_graph()->add_sparse_initializer();
  fill(*sparse.mutable_values());
  fill(*sparse.mutable_indices());
  auto& branch = *model.mutable_graph()->mutable_node(2)->mutable_attribute(0)->mutable_g();
  fill(*branch.add_initializer());
  auto& attributes = *branch.mutable_node(0)->mutable_attribute();
  fill(*attributes.Add()->mutable_t());
  fill(*attributes.Add()->add_tensors());
  fill(*attributes.Add()->mutable_sparse_tensor()->mutable_values());
  fill(*attributes.Add()->add_sparse_tensors()->mutable_indices());
  fill(*attributes.Add()->add_graphs()->add_initializer());
  fill(*model.mutable_functions(0)->mutable_node(0)->add_attribute()->mutable_t());
  fill(*model.mutable_functions(0)->add_attribute_proto()->mutable_t());
  fill(*model.add_training_info()->mutable_initialization()->add_initializer());
  fill(*model.mutable_training_info(0)->mutable_algorithm()->add_initializer());
  return model;
}
constexpr std::size_t kPaths = 13;

std::string expand(const StrippedModel& stripped, const std::string& original) {
  std::vector<std::uint64_t> sizes;
  for (const ByteRange& range : stripped.payloads) sizes.push_back(range.bytes);
  auto plan = Expansion::plan(stripped.skeleton, sizes);
  EXPECT_THAT(plan, IsOk());
  std::string out;
  const auto sink = [&](std::span<const std::byte> bytes) {
    out.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return ok_status();
  };
  EXPECT_THAT(plan->write(sink,
                          [&](std::uint64_t payload) {
                            const ByteRange range = stripped.payloads[payload];
                            return sink(bytes_of(original).subspan(range.offset, range.bytes));
                          }),
              IsOk());
  EXPECT_EQ(out.size(), plan->total_bytes());
  return out;
}

TEST(Wire, StripsEveryTensorAndPutsItBack) {
  const std::string original = model_with_all_paths().SerializeAsString();
  auto stripped = strip_payloads(bytes_of(original));
  ASSERT_THAT(stripped, IsOk());
  EXPECT_EQ(stripped->payloads.size(), kPaths);
  EXPECT_LT(stripped->skeleton.size(), original.size() - 300 * kPaths * (kPaths + 1) / 2 + 500);
  onnx::ModelProto skeleton;
  ASSERT_TRUE(skeleton.ParseFromString(stripped->skeleton));
  // What protobuf writes is byte for byte what it wrote before.
  StrippedModel rewritten = *stripped;
  rewritten.skeleton = skeleton.SerializeAsString();
  EXPECT_TRUE(expand(rewritten, original) == original);
  EXPECT_TRUE(expand(*stripped, original) == original);
}

TEST(Wire, FindsPayloadsWhereTheyLie) {
  onnx::ModelProto model;
  model.mutable_graph()->add_initializer()->set_raw_data("abcdefgh");
  const std::string original = model.SerializeAsString();
  auto stripped = strip_payloads(bytes_of(original));
  ASSERT_THAT(stripped, IsOk());
  ASSERT_EQ(stripped->payloads.size(), 1U);
  EXPECT_EQ(original.substr(stripped->payloads[0].offset, stripped->payloads[0].bytes), "abcdefgh");
}

TEST(Wire, KeepsUnknownFieldsAndGroups) {
  onnx::ModelProto model = test::proto_from_text(test::kSmallModel);
  auto& unknown =
      *model.mutable_graph()->GetReflection()->MutableUnknownFields(model.mutable_graph());
  unknown.AddVarint(900, 5);
  unknown.AddFixed32(901, 6);
  unknown.AddFixed64(902, 7);
  unknown.AddLengthDelimited(903, "text");
  unknown.AddGroup(904)->AddGroup(905)->AddVarint(1, 1);
  const std::string original = model.SerializeAsString();
  auto stripped = strip_payloads(bytes_of(original));
  ASSERT_THAT(stripped, IsOk());
  EXPECT_TRUE(expand(*stripped, original) == original);
}

TEST(Wire, RefusesMalformedMessages) {
  const auto strip = [](const std::string& text) {
    return strip_payloads(bytes_of(text)).status();
  };
  EXPECT_THAT(strip(std::string("\x08", 1)), Rejects("truncated number"));
  EXPECT_THAT(strip("\x3a\x05\x0a"), Rejects("a length of 5 where 1 bytes are left"));
  EXPECT_THAT(strip("\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), Rejects("a length of"));
  EXPECT_THAT(strip("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), Rejects("10 bytes"));
  EXPECT_THAT(strip("\x0f"), Rejects("wire type"));
  EXPECT_THAT(strip("\x0c"), Rejects("wire type"));  // the end of no group
  EXPECT_THAT(strip(std::string("\x00\x00", 2)), Rejects("tag"));
  EXPECT_THAT(strip("\x0b\x08\x01"), Rejects("unfinished group"));
  EXPECT_THAT(strip("\x0b\x14"), Rejects("unmatched end"));
  EXPECT_THAT(strip("\x09\x01\x02"), Rejects("truncated field"));
  EXPECT_THAT(strip("this is no model at all"), Rejects("not a protobuf message"));
}

TEST(Wire, LimitsNesting) {
  std::string groups(100000, '\x0b');
  EXPECT_THAT(strip_payloads(bytes_of(groups)), Rejects("deeper than 100"));
  // graph { node { attribute { graph { ...
  std::string nested;
  const auto wrap = [&](char tag) {
    std::string length;
    for (std::size_t rest = nested.size();; rest >>= 7) {
      const bool last = rest < 0x80;
      length.push_back(static_cast<char>((rest & 0x7f) | (last ? 0 : 0x80)));
      if (last) break;
    }
    nested = std::string(1, tag) + length + nested;
  };
  for (int i = 0; i < 50; ++i) {
    wrap('\x32');  // AttributeProto.g
    wrap('\x2a');  // NodeProto.attribute
    wrap('\x0a');  // GraphProto.node
  }
  wrap('\x3a');  // ModelProto.graph
  EXPECT_THAT(strip_payloads(bytes_of(nested)), Rejects("deeper than 100"));
}

TEST(Wire, PlansWithoutWriting) {
  onnx::ModelProto model;
  model.mutable_graph()->add_initializer()->set_raw_data(encode_marker(0));
  const std::string skeleton = model.SerializeAsString();
  const std::uint64_t huge[] = {std::uint64_t{5} << 40};
  auto plan = Expansion::plan(skeleton, huge);
  ASSERT_THAT(plan, IsOk());
  // Three nested length prefixes of 7 bytes and three tags beside the payload.
  EXPECT_EQ(plan->total_bytes(), huge[0] + 3 * 7 + 3);
  const std::uint64_t overflow[] = {~std::uint64_t{0} - 2};
  EXPECT_FALSE(Expansion::plan(skeleton, overflow).ok());
}

TEST(Wire, MarkersAreReadBack) {
  for (const std::uint64_t payload :
       {std::uint64_t{0}, std::uint64_t{255}, std::uint64_t{1} << 60}) {
    EXPECT_EQ(decode_marker(encode_marker(payload)), payload);
  }
  EXPECT_EQ(decode_marker("short"), std::nullopt);
}

}  // namespace
}  // namespace mezzo
