// Models whose external data are no ordinary files, and outputs that are in the way of inputs or do
// not fit on the disk.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>

#include "compiler/onnx/export.h"
#include "compiler/onnx/import.h"
#include "model_files.h"
#include "tests/support/status_test.h"

namespace mezzo {
namespace {

namespace fs = std::filesystem;
using test::IsOk;
using test::Rejects;

// No file of this process may grow beyond `bytes` while this lives: as on a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    old_handler_ = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, old_handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_ = {};
  void (*old_handler_)(int) = nullptr;
};

class FileSafetyTest : public testing::Test {
 protected:
  FileSafetyTest() {
    fs::create_directories(dir_.file("model/sub"));
    write_weights("model/weights.bin", 'w');
    write_weights("model/sub/more.bin", 'm');
  }

  void write_weights(const std::string& name, char fill) const {
    test::write_text(dir_.file(name), std::string(4096, fill));
  }

  // Writes a model with one initializer in the external file, and `raw_bytes` more inside.
  std::string write_model(const std::string& name, const std::string& location,
                          std::int64_t raw_bytes = 0) const {
    onnx::ModelProto proto = test::proto_from_text(test::kSmallModel);
    auto& tensor = *proto.mutable_graph()->add_initializer();
    tensor.set_name("w");
    tensor.set_data_type(onnx::TensorProto::FLOAT);
    tensor.add_dims(1024);
    tensor.set_data_location(onnx::TensorProto::EXTERNAL);
    auto& pair = *tensor.add_external_data();
    pair.set_key("location");
    pair.set_value(location);
    if (raw_bytes > 0) {
      auto& raw = *proto.mutable_graph()->add_initializer();
      raw.set_name("raw");
      raw.set_data_type(onnx::TensorProto::UINT8);
      raw.add_dims(raw_bytes);
      raw.set_raw_data(std::string(static_cast<std::size_t>(raw_bytes), 'r'));
    }
    test::write_proto(dir_.file(name), proto);
    return dir_.file(name);
  }

  Status import_status(const std::string& location) const {
    return load_model(write_model("model/m.onnx", location)).status();
  }

  std::unique_ptr<Model> load(const std::string& path) const {
    return test::value_or_die(load_model(path));
  }

  static char first_byte(const Model& model) {
    return static_cast<char>(model.graph->find("w")->constant()->stored_bytes()[0]);
  }

  test::TempDir dir_;
};

TEST_F(FileSafetyTest, WhatIsNoRegularFileIsRefusedWithoutWaiting) {
  ASSERT_EQ(::mkfifo(dir_.file("model/pipe.bin").c_str(), 0600), 0);
  EXPECT_THAT(import_status("pipe.bin"), Rejects("expected a regular file"));
  const int listener = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = {}};
  const std::string path = dir_.file("model/s.bin");
  if (path.copy(address.sun_path, sizeof address.sun_path - 1) == path.size() &&
      ::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    EXPECT_FALSE(import_status("s.bin").ok());
  }
  ::close(listener);
  EXPECT_THAT(import_status("sub"), Rejects("got a folder"));
  EXPECT_THAT(import_status("weights.bin/"), Rejects("Not a directory"));
  EXPECT_THAT(import_status("weights.bin/x"), Rejects("Not a directory"));
  fs::create_symlink("/dev/zero", dir_.file("model/zero.bin"));
  EXPECT_THAT(import_status("zero.bin"), Rejects("got a link that leaves it"));
  // A model file of these kinds is refused as well.
  EXPECT_THAT(load_model(dir_.file("model/pipe.bin")), Rejects("expected a regular file"));
  EXPECT_THAT(load_model("/dev/zero"), Rejects("expected a regular file"));
}

TEST_F(FileSafetyTest, WaysToWriteAPath) {
  EXPECT_THAT(import_status("sub/more.bin"), IsOk());
  EXPECT_THAT(import_status("./sub//./more.bin"), IsOk());
  EXPECT_THAT(import_status("sub/../weights.bin"), Rejects("got '..'"));
  EXPECT_THAT(import_status("sub/.."), Rejects("got '..'"));
  EXPECT_THAT(import_status(".."), Rejects("got '..'"));
  EXPECT_THAT(import_status("a/../../x"), Rejects("got '..'"));
  EXPECT_THAT(import_status("//weights.bin"), Rejects("relative"));
  EXPECT_THAT(import_status(dir_.file("model/weights.bin")), Rejects("relative"));
  EXPECT_THAT(import_status("..weights.bin"), Rejects("No such file"));
  EXPECT_THAT(import_status("~/weights.bin"), Rejects("No such file"));
  EXPECT_THAT(import_status("file:weights.bin"), Rejects("No such file"));
}

TEST_F(FileSafetyTest, LinksInsideTheFolderAreFollowed) {
  fs::create_directory_symlink("sub", dir_.file("model/near"));
  EXPECT_THAT(import_status("near/more.bin"), IsOk());
  fs::create_symlink(dir_.file("model/weights.bin"), dir_.file("model/absolute.bin"));
  EXPECT_THAT(import_status("absolute.bin"), IsOk());
  // The folder itself may be reached through a link.
  fs::create_directory_symlink("model", dir_.file("alias"));
  write_model("model/m.onnx", "near/more.bin");
  EXPECT_THAT(load_model(dir_.file("alias/m.onnx")), IsOk());
}

TEST_F(FileSafetyTest, OutputsDoNotReplaceDataThatOtherModelsRead) {
  const std::string input = write_model("model/in.onnx", "out.onnx.data");
  write_weights("model/out.onnx.data", 'o');
  auto model = load(input);
  EXPECT_THAT(export_model(*model, dir_.file("model/out.onnx")),
              Rejects("out.onnx.data: expected a place for the output"));
  EXPECT_THAT(export_model(*model, dir_.file("model/out.onnx.data")),
              Rejects("expected a place for the output"));
  EXPECT_THAT(export_model(*model, dir_.file("model/else.onnx")), IsOk());
  EXPECT_EQ(first_byte(*load(input)), 'o');
  // Without external data nothing is in the way.
  EXPECT_THAT(
      export_model(*model, dir_.file("model/out.onnx"), {.external_data = ExternalData::kNever}),
      IsOk());
  EXPECT_EQ(first_byte(*load(input)), 'o');
  // The model itself may be called like data.
  const std::string odd = write_model("model/odd.onnx.data", "weights.bin");
  EXPECT_THAT(export_model(*load(odd), dir_.file("model/odd.onnx")),
              Rejects("odd.onnx.data: expected a place for the output"));
}

TEST_F(FileSafetyTest, AModelMayBeReplacedByItself) {
  const std::string path = write_model("model/m.onnx", "m.onnx.data");
  write_weights("model/m.onnx.data", 'd');
  for (int round = 0; round < 2; ++round) {
    const auto model = load(path);
    ASSERT_THAT(export_model(*model, path), IsOk());
    EXPECT_EQ(first_byte(*model), 'd') << "the old file stays mapped";
    EXPECT_EQ(first_byte(*load(path)), 'd');
  }
}

TEST_F(FileSafetyTest, AFullDiskLeavesOldFilesAlone) {
  constexpr std::int64_t kRawBytes = 20000;  // all in the last piece that is written
  const std::string path = write_model("model/m.onnx", "m.onnx.data", kRawBytes);
  write_weights("model/m.onnx.data", 'd');
  const auto model = load(write_model("model/other.onnx", "weights.bin", kRawBytes));
  const std::string before = test::read_text(path);
  for (const rlim_t limit : {rlim_t{0}, rlim_t{4000}, rlim_t{8192}, rlim_t{20000}}) {
    const FileSizeLimit full(limit);
    const Status status = export_model(*model, path);
    EXPECT_THAT(status, Rejects("m.onnx")) << limit;
    EXPECT_THAT(status, Rejects("cannot be written")) << limit;
  }
  EXPECT_EQ(test::read_text(path), before);
  EXPECT_EQ(first_byte(*load(path)), 'd') << "data and model are replaced together";
  EXPECT_EQ(std::distance(fs::directory_iterator(dir_.file("model")), fs::directory_iterator()), 5)
      << "no temporary files";
  ASSERT_THAT(export_model(*model, path), IsOk());
  EXPECT_EQ(first_byte(*load(path)), 'w');
}

}  // namespace
}  // namespace mezzo
