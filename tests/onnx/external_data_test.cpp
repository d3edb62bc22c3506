#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "compiler/ir/verifier.h"
#include "compiler/onnx/export.h"
#include "compiler/onnx/import.h"
#include "model_files.h"
#include "tests/support/status_test.h"

namespace mezzo {
namespace {

namespace fs = std::filesystem;
using test::IsOk;
using test::Rejects;

std::string pattern(std::size_t bytes, int seed) {
  std::string text(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i)
    text[i] = static_cast<char>(i * 7 + static_cast<std::size_t>(seed));
  return text;
}

std::string key_of(const onnx::TensorProto& tensor, const std::string& key) {
  for (const auto& pair : tensor.external_data()) {
    if (pair.key() == key) return pair.value();
  }
  return "";
}

class ExternalDataTest : public testing::Test {
 protected:
  ExternalDataTest() {
    fs::create_directories(dir_.file("model/sub"));
    test::write_text(dir_.file("model/weights.bin"), pattern(4096, 1) + pattern(4096, 2));
    test::write_text(dir_.file("model/sub/more.bin"), pattern(400, 3));
    test::write_text(dir_.file("outside.bin"), pattern(8192, 4));
  }

  using Keys = std::vector<std::pair<std::string, std::string>>;

  // A model whose initializer w is float[count] with these external_data keys.
  onnx::ModelProto model_with(const Keys& keys, std::int64_t count = 1024) const {
    onnx::ModelProto proto = test::proto_from_text(test::kSmallModel);
    add_tensor(proto, "w", keys, count);
    return proto;
  }
  static void add_tensor(onnx::ModelProto& proto, const std::string& name, const Keys& keys,
                         std::int64_t count) {
    auto& tensor = *proto.mutable_graph()->add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(onnx::TensorProto::FLOAT);
    tensor.add_dims(count);
    tensor.set_data_location(onnx::TensorProto::EXTERNAL);
    for (const auto& [key, value] : keys) {
      auto& pair = *tensor.add_external_data();
      pair.set_key(key);
      pair.set_value(value);
    }
  }
  StatusOr<std::unique_ptr<Model>> import(const onnx::ModelProto& proto) const {
    test::write_proto(dir_.file("model/m.onnx"), proto);
    return load_model(dir_.file("model/m.onnx"));
  }
  Status import_status(const Keys& keys, std::int64_t count = 1024) const {
    return import(model_with(keys, count)).status();
  }

  test::TempDir dir_;
};

std::string bytes_of(const Model& model, const std::string& name) {
  const auto bytes = model.graph->find(name)->constant()->copy_bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST_F(ExternalDataTest, IsReadFromItsPlace) {
  onnx::ModelProto proto = model_with(
      {{"location", "weights.bin"}, {"offset", "4096"}, {"length", "4096"}, {"checksum", "?"}});
  add_tensor(proto, "v", {{"location", "weights.bin"}}, 1024);  // offset 0, length from the dims
  add_tensor(proto, "u", {{"location", "./sub/more.bin"}, {"length", "400"}}, 100);
  add_tensor(proto, "none", {{"location", "weights.bin"}, {"offset", "8192"}}, 0);
  const auto model = test::value_or_die(import(proto));
  EXPECT_EQ(bytes_of(*model, "w"), pattern(4096, 2));
  EXPECT_EQ(bytes_of(*model, "v"), pattern(4096, 1));
  EXPECT_EQ(bytes_of(*model, "u"), pattern(400, 3));
  const auto slice = [&](const char* name) {
    return std::get<Tensor::FileSlice>(model->graph->find(name)->constant()->storage());
  };
  EXPECT_EQ(slice("w").file, slice("v").file) << "one file is mapped once";
  EXPECT_NE(slice("w").file, slice("u").file);
}

TEST_F(ExternalDataTest, ExportToAnotherFolderTakesTheDataAlong) {
  onnx::ModelProto proto = model_with(
      {{"location", "weights.bin"}, {"length", "4096"}, {"offset", "4096"}, {"extra", "kept"}});
  add_tensor(proto, "u", {{"location", "sub/more.bin"}}, 100);
  const auto model = test::value_or_die(import(proto));
  fs::create_directories(dir_.file("copy"));
  ASSERT_THAT(export_model(*model, dir_.file("copy/n.onnx")), IsOk());
  fs::remove_all(dir_.file("model"));
  const auto copy = test::value_or_die(load_model(dir_.file("copy/n.onnx")));
  EXPECT_EQ(bytes_of(*copy, "w"), pattern(4096, 2));
  EXPECT_EQ(bytes_of(*copy, "u"), pattern(400, 3));
  onnx::ModelProto written = test::read_proto(dir_.file("copy/n.onnx"));
  auto& tensor = *written.mutable_graph()->mutable_initializer(2);
  EXPECT_EQ(key_of(tensor, "location"), "n.onnx.data");
  EXPECT_EQ(key_of(tensor, "extra"), "kept");
  EXPECT_EQ(tensor.external_data(1).key(), "length") << "keys stay in their order";
  EXPECT_EQ(std::stoll(key_of(written.graph().initializer(3), "offset")) % 4096, 0);
  // But for location and offset it is the same model.
  *written.mutable_graph()->mutable_initializer(2)->mutable_external_data() =
      proto.graph().initializer(2).external_data();
  *written.mutable_graph()->mutable_initializer(3)->mutable_external_data() =
      proto.graph().initializer(3).external_data();
  EXPECT_TRUE(test::same_proto(proto, written));
}

TEST_F(ExternalDataTest, ModesOfExport) {
  onnx::ModelProto proto = model_with({{"location", "weights.bin"}});
  auto& raw = *proto.mutable_graph()->add_initializer();
  raw.set_name("raw");
  raw.set_data_type(onnx::TensorProto::FLOAT);
  raw.add_dims(40000);
  raw.set_raw_data(pattern(160000, 5));
  const auto model = test::value_or_die(import(proto));
  const auto places = [&](ExportOptions options) {
    EXPECT_THAT(export_model(*model, dir_.file("model/out.onnx"), options), IsOk());
    const auto again = test::value_or_die(load_model(dir_.file("model/out.onnx")));
    EXPECT_EQ(bytes_of(*again, "w"), pattern(4096, 1));
    EXPECT_EQ(bytes_of(*again, "raw"), pattern(160000, 5));
    std::string text;
    for (const Value* value : again->graph->initializers()) {
      switch (value->constant()->origin().field) {
        case Tensor::Field::kRaw: text += 'r'; break;
        case Tensor::Field::kTyped: text += 't'; break;
        case Tensor::Field::kExternal: text += 'x'; break;
      }
    }
    return text;
  };
  EXPECT_EQ(places({}), "ttxr");
  EXPECT_EQ(places({.external_data = ExternalData::kNever}), "ttrr");
  EXPECT_EQ(places({.external_data = ExternalData::kAlways}), "ttxx");
  EXPECT_EQ(places({.external_data = ExternalData::kAlways, .threshold_bytes = 1}), "xxxx");
  EXPECT_EQ(places({.external_data = ExternalData::kAlways, .threshold_bytes = 100000}), "ttrx");
  const onnx::ModelProto written = test::read_proto(dir_.file("model/out.onnx"));
  EXPECT_EQ(std::stoll(key_of(written.graph().initializer(3), "offset")) % 65536, 0);
}

TEST_F(ExternalDataTest, ExportMovesDataOutOfModelsThatAreTooLarge) {
  onnx::ModelProto proto = model_with({{"location", "weights.bin"}});
  auto& raw = *proto.mutable_graph()->add_initializer();
  raw.set_name("raw");
  raw.set_data_type(onnx::TensorProto::UINT8);
  raw.add_dims(20000);
  raw.set_raw_data(pattern(20000, 5));
  const auto model = test::value_or_die(import(proto));
  ExportOptions options{.max_model_bytes = 10000};
  ASSERT_THAT(export_model(*model, dir_.file("model/out.onnx"), options), IsOk());
  EXPECT_LT(fs::file_size(dir_.file("model/out.onnx")), 10000U);
  const auto copy = test::value_or_die(load_model(dir_.file("model/out.onnx")));
  EXPECT_EQ(bytes_of(*copy, "raw"), pattern(20000, 5));
  EXPECT_EQ(bytes_of(*copy, "w"), pattern(4096, 1));
  options.external_data = ExternalData::kNever;
  EXPECT_THAT(export_model(*model, dir_.file("model/out.onnx"), options),
              Rejects("out.onnx: expected a model file of at most 9.8 KiB, got"));
}

TEST_F(ExternalDataTest, TensorsInUseTwiceAreWrittenOnce) {
  const auto model = test::value_or_die(import(model_with({{"location", "weights.bin"}})));
  model->graph->add_initializer("again", model->graph->find("w")->constant());
  ASSERT_THAT(export_model(*model, dir_.file("model/out.onnx")), IsOk());
  EXPECT_EQ(fs::file_size(dir_.file("model/out.onnx.data")), 4096U);
  const auto copy = test::value_or_die(load_model(dir_.file("model/out.onnx")));
  EXPECT_EQ(bytes_of(*copy, "again"), pattern(4096, 1));
}

TEST_F(ExternalDataTest, CastsAndPaddingAreComputedOnTheWay) {
  const auto model = test::value_or_die(import(model_with({{"location", "weights.bin"}})));
  const TensorRef w = model->graph->find("w")->constant();
  model->graph->add_initializer("half", Tensor::cast_of(w, DType::kFloat16, true));
  model->graph->add_initializer("padded", Tensor::pad_of(w, {2000}));
  for (const auto mode : {ExternalData::kNever, ExternalData::kAlways}) {
    ASSERT_THAT(export_model(*model, dir_.file("model/out.onnx"), {.external_data = mode}), IsOk());
    const auto copy = test::value_or_die(load_model(dir_.file("model/out.onnx")));
    for (const char* name : {"w", "half", "padded"}) {
      EXPECT_EQ(bytes_of(*copy, name), bytes_of(*model, name)) << name;
    }
    EXPECT_EQ(bytes_of(*copy, "half").size(), 2048U);
  }
}

// Also with its notes, and padded: a weight stays where its source was.
TEST_F(ExternalDataTest, CastWeightsStayExternal) {
  onnx::ModelProto proto = model_with({{"location", "weights.bin"}});
  proto.mutable_graph()
      ->mutable_initializer(proto.graph().initializer_size() - 1)
      ->set_doc_string("a weight");
  const auto model = test::value_or_die(import(proto));
  Value* w = model->graph->find("w");
  model->graph->replace_constant(
      w, Tensor::pad_of(Tensor::cast_of(w->constant(), DType::kFloat16, false), {1032}));
  ASSERT_THAT(export_model(*model, dir_.file("low.onnx")), IsOk());
  const onnx::ModelProto low = test::read_proto(dir_.file("low.onnx"));
  const onnx::TensorProto& tensor = *low.graph().initializer().rbegin();
  EXPECT_EQ(tensor.name(), "w");
  EXPECT_EQ(tensor.doc_string(), "a weight");
  EXPECT_EQ(tensor.data_location(), onnx::TensorProto::EXTERNAL);
  EXPECT_EQ(key_of(tensor, "location"), "low.onnx.data");
  EXPECT_EQ(key_of(tensor, "length"), "2064");
  EXPECT_EQ(fs::file_size(dir_.file("low.onnx.data")), 2064U);
}

TEST_F(ExternalDataTest, LocationsOutsideTheFolderAreRefused) {
  EXPECT_THAT(import_status({{"location", dir_.file("outside.bin")}}),
              Rejects("expected a path relative to the model's folder"));
  EXPECT_THAT(import_status({{"location", "/etc/passwd"}}), Rejects("relative"));
  EXPECT_THAT(import_status({{"location", "../outside.bin"}}), Rejects("got '..'"));
  EXPECT_THAT(import_status({{"location", "sub/../../outside.bin"}}), Rejects("got '..'"));
  EXPECT_THAT(import_status({{"location", std::string("weights.bin\0x", 13)}}),
              Rejects("relative"));
  EXPECT_THAT(import_status({}), Rejects("expected a location, got none"));
  EXPECT_THAT(import_status({{"location", ""}}), Rejects("expected a location, got none"));
  EXPECT_THAT(import_status({{"location", "."}}), Rejects("inside the model's folder"));
  EXPECT_THAT(import_status({{"location", "sub"}}), Rejects("got a folder"));
  EXPECT_THAT(import_status({{"location", "missing.bin"}}),
              Rejects("m.onnx: initializer 'w': external data file 'missing.bin': No such file"));
  EXPECT_THAT(import_status({{"location", std::string(5000, 'x')}}), Rejects("too long"));
}

TEST_F(ExternalDataTest, LinksMayNotLeaveTheFolder) {
  fs::create_symlink("../outside.bin", dir_.file("model/link.bin"));
  fs::create_directory_symlink("..", dir_.file("model/up"));
  fs::create_symlink("weights.bin", dir_.file("model/inner.bin"));
  fs::create_symlink("loop.bin", dir_.file("model/loop.bin"));
  EXPECT_THAT(import_status({{"location", "link.bin"}}), Rejects("got a link that leaves it"));
  EXPECT_THAT(import_status({{"location", "up/outside.bin"}}),
              Rejects("got a link that leaves it"));
  EXPECT_THAT(import_status({{"location", "inner.bin"}}), IsOk());
  EXPECT_THAT(import_status({{"location", "loop.bin"}}), Rejects("loop.bin"));
  // A folder whose name begins like the model's is another one.
  fs::create_directories(dir_.file("model2"));
  test::write_text(dir_.file("model2/w.bin"), pattern(4096, 1));
  fs::create_symlink("../model2/w.bin", dir_.file("model/near.bin"));
  EXPECT_THAT(import_status({{"location", "near.bin"}}), Rejects("got a link that leaves it"));
}

TEST_F(ExternalDataTest, OffsetsAndLengthsAreChecked) {
  const auto with = [&](const std::string& offset, const std::string& length) {
    return import_status({{"location", "weights.bin"}, {"offset", offset}, {"length", length}});
  };
  EXPECT_THAT(with("4096", "4096"), IsOk());
  EXPECT_THAT(with("4097", "4096"), Rejects("4096 bytes at offset 4097"));
  EXPECT_THAT(with("18446744073709551615", "4096"), Rejects("offset 18446744073709551615"));
  EXPECT_THAT(with("18446744073709551616", "4096"), Rejects("expected a number as offset"));
  EXPECT_THAT(with("-1", "4096"), Rejects("expected a number as offset, got '-1'"));
  EXPECT_THAT(with("0", "-4096"), Rejects("expected a number as length"));
  EXPECT_THAT(with("0x10", "4096"), Rejects("expected a number as offset"));
  EXPECT_THAT(with("0", "4095"),
              Rejects("float[1024] in external data: expected 4096 bytes, got 4095"));
  EXPECT_THAT(with("0", "8192"), Rejects("expected 4096 bytes, got 8192"));
  EXPECT_THAT(import_status({{"location", "weights.bin"}}, 5000),
              Rejects("20000 bytes at offset 0"));
  EXPECT_THAT(import_status({{"location", "weights.bin"}}, std::int64_t{1} << 60),
              Rejects("initializer 'w'"));
}

TEST_F(ExternalDataTest, DataInTwoPlacesAreRefused) {
  onnx::ModelProto proto = model_with({{"location", "weights.bin"}});
  proto.mutable_graph()->mutable_initializer(2)->set_raw_data("x");
  EXPECT_THAT(import(proto), Rejects("expected data in one place"));
}

TEST_F(ExternalDataTest, ModelsInMemoryHaveNoFolder) {
  EXPECT_THAT(import_proto(model_with({{"location", "weights.bin"}})), Rejects("not from a file"));
}

TEST_F(ExternalDataTest, FailedExportLeavesNothingBehind) {
  const auto model = test::value_or_die(import(model_with({{"location", "weights.bin"}})));
  EXPECT_FALSE(export_model(*model, dir_.file("no_such_folder/out.onnx")).ok());
  fs::create_directories(dir_.file("taken/out.onnx"));
  EXPECT_FALSE(export_model(*model, dir_.file("taken/out.onnx")).ok());
  EXPECT_EQ(std::distance(fs::directory_iterator(dir_.file("taken")), fs::directory_iterator()), 1);
}

}  // namespace
}  // namespace mezzo
