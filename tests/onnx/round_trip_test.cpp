// Import followed by export gives the same model back: every model of the acceptance data.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <vector>

#include "compiler/ir/verifier.h"
#include "compiler/onnx/export.h"
#include "compiler/onnx/import.h"
#include "model_files.h"
#include "tests/support/shared_data.h"
#include "tests/support/status_test.h"

namespace mezzo {
namespace {

namespace fs = std::filesystem;
using test::IsOk;

std::vector<fs::path> shared_models(const fs::path& shared) {
  std::vector<fs::path> models;
  const auto options = fs::directory_options::follow_directory_symlink;
  for (const auto& entry : fs::recursive_directory_iterator(shared, options)) {
    if (entry.is_regular_file() && entry.path().extension() == ".onnx")
      models.push_back(entry.path());
  }
  std::sort(models.begin(), models.end());
  return models;
}

std::string read_slice(const fs::path& path, std::size_t offset, std::size_t length) {
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset));
  std::string bytes(length, '\0');
  file.read(bytes.data(), static_cast<std::streamsize>(length));
  EXPECT_TRUE(file) << path;
  return bytes;
}

// Makes raw data of external data, so that two models can be compared wherever their data lie.
// Returns how many tensors were external.
int embed_external(onnx::GraphProto& graph, const fs::path& folder) {
  int count = 0;
  for (auto& tensor : *graph.mutable_initializer()) {
    if (tensor.data_location() != onnx::TensorProto::EXTERNAL) continue;
    std::map<std::string, std::string> keys;
    for (const auto& pair : tensor.external_data()) keys[pair.key()] = pair.value();
    tensor.set_raw_data(read_slice(folder / keys["location"], std::stoull("0" + keys["offset"]),
                                   std::stoull(keys["length"])));
    tensor.clear_external_data();
    tensor.clear_data_location();
    ++count;
  }
  return count;
}

TEST(RoundTrip, EveryModelOfTheAcceptanceData) {
  const auto shared = test::shared_folder();
  if (!shared) GTEST_SKIP() << test::kNoSharedFolder;
  const test::TempDir out;
  int models = 0;
  int external_tensors = 0;
  for (const fs::path& path : shared_models(*shared)) {
    SCOPED_TRACE(path.string());
    std::vector<std::string> warnings;
    auto model = import_model(path.string(), {&warnings});
    ASSERT_THAT(model, IsOk());
    EXPECT_THAT(verify(**model), IsOk());
    for (const std::string& warning : warnings) std::cout << "  " << warning << "\n";
    const std::string copy = out.file("copy.onnx");
    ASSERT_THAT(export_model(**model, copy), IsOk());

    onnx::ModelProto expected = test::read_proto(path.string());
    onnx::ModelProto actual = test::read_proto(copy);
    const int external = embed_external(*expected.mutable_graph(), path.parent_path());
    EXPECT_EQ(embed_external(*actual.mutable_graph(), out.path()), external);
    EXPECT_TRUE(test::same_proto(expected, actual));
    external_tensors += external;
    ++models;
  }
  std::cout << models << " models, " << external_tensors << " tensors of them in external data\n";
  EXPECT_GT(models, 0);
}

TEST(RoundTrip, SameModelGivesSameBytes) {
  const test::TempDir dir;
  test::write_proto(dir.file("in.onnx"), test::proto_from_text(test::kSmallModel));
  const auto model = test::value_or_die(import_model(dir.file("in.onnx")));
  const auto again = test::value_or_die(load_model(dir.file("in.onnx")));
  ASSERT_THAT(export_model(*model, dir.file("a.onnx")), IsOk());
  ASSERT_THAT(export_model(*again, dir.file("b.onnx")), IsOk());
  EXPECT_EQ(test::read_text(dir.file("a.onnx")), test::read_text(dir.file("b.onnx")));
  EXPECT_EQ(dir.entries(), 3U) << "temporary files are left behind";
}

TEST(RoundTrip, ExportOverTheImportedFile) {
  const test::TempDir dir;
  const onnx::ModelProto proto = test::proto_from_text(test::kSmallModel);
  test::write_proto(dir.file("m.onnx"), proto);
  const auto model = test::value_or_die(import_model(dir.file("m.onnx")));
  ASSERT_THAT(export_model(*model, dir.file("m.onnx")), IsOk());
  EXPECT_TRUE(test::same_proto(proto, test::read_proto(dir.file("m.onnx"))));
}

}  // namespace
}  // namespace mezzo
