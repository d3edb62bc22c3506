// Every element type in every field that may hold it: decoded to the right bytes, written back to
// the same field.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "compiler/onnx/export.h"
#include "compiler/onnx/import.h"
#include "model_files.h"
#include "tests/support/status_test.h"

namespace mezzo {
namespace {

using test::IsOk;

struct FieldCase {
  DType dtype;
  std::int64_t elems;
  void (*fill)(onnx::TensorProto&);
  std::vector<std::uint8_t> bytes;
};

template <auto Add, typename... T>
void add_all(onnx::TensorProto& tensor, T... values) {
  ((tensor.*Add)(values), ...);
}

void int32s(onnx::TensorProto& tensor, std::initializer_list<std::int32_t> values) {
  for (const auto value : values) tensor.add_int32_data(value);
}

const FieldCase kFieldCases[] = {
    {DType::kFloat32,
     2,
     [](auto& t) { t.add_float_data(1.0F), t.add_float_data(-2.0F); },
     {0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0}},
    {DType::kComplex64,
     1,
     [](auto& t) { t.add_float_data(1.0F), t.add_float_data(-2.0F); },
     {0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0}},
    {DType::kFloat64, 1, [](auto& t) { t.add_double_data(1.0); }, {0, 0, 0, 0, 0, 0, 0xf0, 0x3f}},
    {DType::kComplex128,
     1,
     [](auto& t) { t.add_double_data(1.0), t.add_double_data(0.0); },
     {0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0, 0, 0, 0, 0, 0, 0, 0}},
    {DType::kInt64,
     1,
     [](auto& t) { t.add_int64_data(-2); },
     {0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}},
    {DType::kUInt64,
     1,
     [](auto& t) { t.add_uint64_data(0x0102030405060708); },
     {8, 7, 6, 5, 4, 3, 2, 1}},
    {DType::kUInt32, 1, [](auto& t) { t.add_uint64_data(0xfffffffe); }, {0xfe, 0xff, 0xff, 0xff}},
    {DType::kInt32, 1, [](auto& t) { int32s(t, {-2}); }, {0xfe, 0xff, 0xff, 0xff}},
    {DType::kInt16,
     2,
     [](auto& t) {
       int32s(t, {-2, 258});
     },
     {0xfe, 0xff, 2, 1}},
    {DType::kUInt16,
     2,
     [](auto& t) {
       int32s(t, {65534, 258});
     },
     {0xfe, 0xff, 2, 1}},
    {DType::kFloat16, 1, [](auto& t) { int32s(t, {0x3c00}); }, {0, 0x3c}},
    {DType::kBFloat16, 1, [](auto& t) { int32s(t, {0xbf80}); }, {0x80, 0xbf}},
    {DType::kInt8,
     2,
     [](auto& t) {
       int32s(t, {-2, 127});
     },
     {0xfe, 127}},
    {DType::kUInt8,
     2,
     [](auto& t) {
       int32s(t, {254, 127});
     },
     {0xfe, 127}},
    {DType::kBool,
     2,
     [](auto& t) {
       int32s(t, {1, 0});
     },
     {1, 0}},
    {DType::kFloat8E4M3FN, 1, [](auto& t) { int32s(t, {0x7e}); }, {0x7e}},
    {DType::kFloat8E4M3FNUZ, 1, [](auto& t) { int32s(t, {0x80}); }, {0x80}},
    {DType::kFloat8E5M2, 1, [](auto& t) { int32s(t, {0xfc}); }, {0xfc}},
    {DType::kFloat8E5M2FNUZ, 1, [](auto& t) { int32s(t, {1}); }, {1}},
    {DType::kFloat8E8M0, 1, [](auto& t) { int32s(t, {255}); }, {255}},
    {DType::kUInt4,
     3,
     [](auto& t) {
       int32s(t, {0x21, 0x03});
     },
     {0x21, 0x03}},
    {DType::kInt4,
     3,
     [](auto& t) {
       int32s(t, {0xf1, 0x07});
     },
     {0xf1, 0x07}},
    {DType::kFloat4E2M1, 2, [](auto& t) { int32s(t, {0x72}); }, {0x72}},
    {DType::kUInt2,
     5,
     [](auto& t) {
       int32s(t, {0xe4, 0x01});
     },
     {0xe4, 0x01}},
    {DType::kInt2, 4, [](auto& t) { int32s(t, {0xe4}); }, {0xe4}},
    // Four elements in three bytes: 1 | 2<<6 | 3<<12 | 0x3f<<18.
    {DType::kFloat6E2M3,
     4,
     [](auto& t) {
       int32s(t, {1, 2, 3, 0x3f});
     },
     {0x81, 0x30, 0xfc}},
    {DType::kFloat6E3M2,
     3,
     [](auto& t) {
       int32s(t, {0x3f, 0, 0x2a});
     },
     {0x3f, 0xa0, 0x02}},
};

class TensorFields : public testing::TestWithParam<FieldCase> {
 protected:
  onnx::ModelProto model() const {
    onnx::ModelProto proto = test::proto_from_text(test::kSmallModel);
    auto& tensor = *proto.mutable_graph()->add_initializer();
    tensor.set_name("tensor");
    tensor.set_data_type(static_cast<int>(GetParam().dtype));
    tensor.add_dims(GetParam().elems);
    return proto;
  }
  static onnx::TensorProto& tensor_of(onnx::ModelProto& proto) {
    return *proto.mutable_graph()->mutable_initializer()->rbegin();
  }
  std::string raw_bytes() const { return {GetParam().bytes.begin(), GetParam().bytes.end()}; }
};

TEST_P(TensorFields, TypedIsDecodedAndStaysTyped) {
  onnx::ModelProto proto = model();
  GetParam().fill(tensor_of(proto));
  const auto imported = test::value_or_die(import_proto(proto));
  const TensorRef tensor = imported->graph->find("tensor")->constant();
  EXPECT_EQ(tensor->dtype(), GetParam().dtype);
  const std::vector<std::byte> bytes = tensor->copy_bytes();
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), raw_bytes());
  onnx::ModelProto back;
  ASSERT_THAT(to_proto(*imported, {}, back), IsOk());
  EXPECT_TRUE(test::same_proto(proto, back));
}

TEST_P(TensorFields, RawStaysRaw) {
  const test::TempDir dir;
  onnx::ModelProto proto = model();
  tensor_of(proto).set_raw_data(raw_bytes());
  test::write_proto(dir.file("raw.onnx"), proto);
  const auto imported = test::value_or_die(import_model(dir.file("raw.onnx")));
  ASSERT_THAT(export_model(*imported, dir.file("back.onnx")), IsOk());
  EXPECT_TRUE(test::same_proto(proto, test::read_proto(dir.file("back.onnx"))));
}

TEST_P(TensorFields, WrongCountsAreRefused) {
  onnx::ModelProto proto = model();
  GetParam().fill(tensor_of(proto));
  tensor_of(proto).set_dims(0, GetParam().elems + 9);
  EXPECT_THAT(import_proto(proto), test::Rejects("initializer 'tensor': expected "));
  proto = model();
  tensor_of(proto).set_raw_data(raw_bytes() + "x");
  EXPECT_THAT(import_proto(proto), test::Rejects("initializer 'tensor': "));
  proto = model();
  EXPECT_THAT(import_proto(proto), test::Rejects("got 0"));
}

INSTANTIATE_TEST_SUITE_P(AllTypes, TensorFields, testing::ValuesIn(kFieldCases),
                         [](const auto& info) {
                           return std::string(dtype_name(info.param.dtype));
                         });

TEST(TensorFieldsCover, EveryElementType) {
  for (int i = 1; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const bool covered = std::any_of(std::begin(kFieldCases), std::end(kFieldCases),
                                     [&](const FieldCase& c) { return c.dtype == dtype; });
    EXPECT_TRUE(covered || dtype == DType::kString) << dtype_name(dtype);
  }
}

TEST(TensorFieldsOther, StringsAreKept) {
  const auto proto = test::proto_from_text(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g () => (string[3] y) <string[3] s = {"a", "", "\"c\""}> { y = Identity(s) })");
  const auto model = test::value_or_die(import_proto(proto));
  ASSERT_NE(model->graph->find("s")->constant()->strings(), nullptr);
  EXPECT_EQ(model->graph->find("s")->constant()->strings()->at(2), "\"c\"");
  onnx::ModelProto back;
  ASSERT_THAT(to_proto(*model, {}, back), IsOk());
  EXPECT_TRUE(test::same_proto(proto, back));
}

TEST(TensorFieldsOther, ValuesOutOfRangeAreRefused) {
  const auto import_int32 = [](DType dtype, std::int32_t value) {
    onnx::ModelProto proto = test::proto_from_text(test::kSmallModel);
    auto& tensor = *proto.mutable_graph()->add_initializer();
    tensor.set_name("tensor");
    tensor.set_data_type(static_cast<int>(dtype));
    tensor.add_int32_data(value);
    return import_proto(proto).status();
  };
  EXPECT_THAT(import_int32(DType::kInt8, 256), test::Rejects("expected -128 to 255, got 256"));
  EXPECT_THAT(import_int32(DType::kFloat16, 70000), test::Rejects("got 70000"));
  EXPECT_THAT(import_int32(DType::kFloat6E2M3, 64), test::Rejects("expected 0 to 63, got 64"));
  EXPECT_THAT(import_int32(DType::kFloat16, -1), IsOk());  // the bits of a NaN, sign-extended
}

}  // namespace
}  // namespace mezzo
