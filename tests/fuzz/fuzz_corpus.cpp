// Gathers inputs to start from: fuzz_corpus OUT PATH...
//
// Every small file below a PATH goes to the folders OUT/TARGET of the targets that read its kind,
// named by its contents: models, also those in text form, as messages with their external data
// inside; text models; plans without their header; arrays; reports and policies.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>

#include "compiler/onnx/export.h"
#include "compiler/onnx/import.h"
#include "onnx/onnx_pb.h"

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostBytes = 100000;
constexpr std::size_t kPlanHeaderBytes = 24;  // runtime/exec/plan_file.h

class Corpus {
 public:
  explicit Corpus(fs::path root) : root_(std::move(root)) {}

  void add_file(const fs::path& path) {
    const std::string kind = path.extension();
    if (kind == ".onnx" || kind == ".onnxtxt") return add_model(path, kind == ".onnxtxt");
    std::error_code error;
    if (fs::file_size(path, error) > kMostBytes || error) return;
    const std::string contents = read(path);
    if (kind == ".npz" || kind == ".npy" || kind == ".safetensors") add("arrays", contents);
    if (kind == ".json") {
      add("report", contents);
      add("policy", contents);
    }
    if (kind == ".plan" && contents.size() > kPlanHeaderBytes) {
      add("plan", contents.substr(kPlanHeaderBytes));
    }
  }
  std::size_t size() const { return count_; }

 private:
  static std::string read(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  void add_model(const fs::path& path, bool is_text) {
    const auto model = mezzo::load_model(path);
    if (!model.ok()) return;
    onnx::ModelProto proto;
    std::uint64_t bytes = 0;
    for (const mezzo::Value* value : (*model)->graph->initializers()) {
      bytes += value->constant() ? value->constant()->byte_size() : 0;
    }
    if (bytes > kMostBytes || !mezzo::to_proto(**model, {}, proto).ok()) return;
    const std::string message = proto.SerializeAsString();
    add("load_model", message);
    add("convert", message);
    add("run", message);
    if (is_text) add("text", read(path));
  }

  void add(std::string_view target, const std::string& contents) {
    if (contents.size() > kMostBytes) return;
    fs::create_directories(root_ / target);
    const fs::path path = root_ / target / std::to_string(std::hash<std::string>{}(contents));
    std::ofstream(path, std::ios::binary) << contents;
    ++count_;
  }

  fs::path root_;
  std::size_t count_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: fuzz_corpus OUT PATH...\n");
    return 2;
  }
  Corpus corpus(argv[1]);
  for (int i = 2; i < argc; ++i) {
    std::error_code error;
    if (!fs::is_directory(argv[i], error)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(argv[i])) {
      if (entry.is_regular_file(error)) corpus.add_file(entry.path());
    }
  }
  std::printf("%zu inputs\n", corpus.size());
  return 0;
}
