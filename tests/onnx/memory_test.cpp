// Importing, inferring and exporting take memory for the graph, not for its weights.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>

#include "compiler/onnx/check.h"
#include "compiler/onnx/export.h"
#include "compiler/onnx/import.h"
#include "compiler/onnx/wire.h"
#include "model_files.h"
#include "tests/support/sanitizers.h"
#include "tests/support/status_test.h"

namespace mezzo {
namespace {

using test::IsOk;

constexpr std::size_t kMiB = std::size_t{1} << 20;

// A number of /proc/self/status, in bytes.
std::size_t status_bytes(const std::string& key) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key + ":")) return std::stoull(line.substr(key.size() + 1)) * 1024;
  }
  return 0;
}

// Memory of the process that is no mapped file: what copies of weights would take.
std::size_t own_bytes() { return status_bytes("RssAnon"); }

void reset_peak() { std::ofstream("/proc/self/clear_refs") << "5"; }

bool is_instrumented() {
#if MEZZO_WITH_ASAN
  return true;
#else
  return false;
#endif
}

// A model of `count` weights of 25 MB each, written without holding it in memory.
void write_large_model(const std::string& path, int count) {
  onnx::ModelProto proto = test::proto_from_text(test::kSmallModel);
  for (int i = 0; i < count; ++i) {
    auto& tensor = *proto.mutable_graph()->add_initializer();
    tensor.set_name("weight" + std::to_string(i));
    tensor.set_data_type(onnx::TensorProto::FLOAT);
    tensor.add_dims(2500);
    tensor.add_dims(2500);
    tensor.set_raw_data(std::string(25000000, static_cast<char>(i)));
  }
  test::write_proto(path, proto);
}

class Memory : public testing::Test {
 protected:
  void SetUp() override {
    if (is_instrumented()) GTEST_SKIP() << "sanitizers keep memory of their own";
    if (status_bytes("RssAnon") == 0) GTEST_SKIP() << "no /proc/self/status here";
    write_large_model(dir_.file("large.onnx"), 8);
  }
  test::TempDir dir_;
};

TEST_F(Memory, ImportDoesNotReadWeights) {
  reset_peak();
  const std::size_t before = status_bytes("VmRSS");
  const std::size_t own_before = own_bytes();
  const auto model = test::value_or_die(import_model(dir_.file("large.onnx")));
  // The kernel may map 2 MiB of the file for every byte between two weights that is looked at.
  EXPECT_LT(status_bytes("VmHWM") - before, 24 * kMiB) << "of 200 MB";
  EXPECT_LT(own_bytes() - std::min(own_bytes(), own_before), 2 * kMiB);
  EXPECT_EQ(model->graph->initializers().size(), 10U);
}

TEST_F(Memory, InferenceAndCheckerDoNotCopyWeights) {
  const auto model = test::value_or_die(import_model(dir_.file("large.onnx")));
  reset_peak();
  const std::size_t before = status_bytes("VmRSS");
  ASSERT_THAT(infer_all_types(*model), IsOk());
  ASSERT_THAT(check_model(*model), IsOk());
  EXPECT_LT(status_bytes("VmHWM") - before, 8 * kMiB) << "of 200 MB";
}

TEST_F(Memory, ExportStreams) {
  const auto model = test::value_or_die(import_model(dir_.file("large.onnx")));
  reset_peak();
  const std::size_t before = own_bytes(), all_before = status_bytes("VmRSS");
  for (Value* value : std::vector<Value*>(model->graph->initializers())) {
    if (value->dtype() != DType::kFloat32 || value->constant()->elems() < 1000) continue;
    model->graph->replace_constant(value,
                                   Tensor::cast_of(value->constant(), DType::kFloat16, true));
  }
  ASSERT_THAT(export_model(*model, dir_.file("half.onnx")), IsOk());
  ASSERT_THAT(
      export_model(*model, dir_.file("outside.onnx"), {.external_data = ExternalData::kAlways}),
      IsOk());
  EXPECT_LT(own_bytes() - std::min(own_bytes(), before), 8 * kMiB);
  // Pages of the weights are given back as they have been read.
  EXPECT_LT(status_bytes("VmHWM") - all_before, 32 * kMiB) << "of 200 MB, read twice";
  EXPECT_GT(std::filesystem::file_size(dir_.file("half.onnx")), 100000000U);
  EXPECT_LT(std::filesystem::file_size(dir_.file("outside.onnx")), 10000U);
}

constexpr std::uint64_t kHugeBytes = std::uint64_t{3} << 30;

// Beyond 2 GiB a model cannot be one message for protobuf. The weights are holes in sparse files.
TEST_F(Memory, ModelsBeyondTwoGibibytes) {
  onnx::ModelProto proto = test::proto_from_text(test::kSmallModel);
  auto& tensor = *proto.mutable_graph()->add_initializer();
  tensor.set_name("w");
  tensor.set_data_type(onnx::TensorProto::FLOAT);
  tensor.add_dims(kHugeBytes / 4);
  tensor.set_data_location(onnx::TensorProto::EXTERNAL);
  auto& location = *tensor.add_external_data();
  location.set_key("location");
  location.set_value("w.bin");
  test::write_proto(dir_.file("m.onnx"), proto);
  test::write_text(dir_.file("w.bin"), "");
  ASSERT_EQ(::truncate(dir_.file("w.bin").c_str(), kHugeBytes), 0);
  const auto model = test::value_or_die(import_model(dir_.file("m.onnx")));
  const Status status =
      export_model(*model, dir_.file("one.onnx"), {.external_data = ExternalData::kNever});
  EXPECT_THAT(status, test::Rejects("one.onnx: expected a model file of at most 2.0 GiB, got 3"));
  EXPECT_THAT(status, test::Rejects("Hint: store large tensors as external data"));
}

TEST_F(Memory, ReadsRawDataBeyondTwoGibibytes) {
  onnx::ModelProto proto = test::proto_from_text(test::kSmallModel);
  proto.mutable_graph()->clear_initializer();
  for (const char* name : {"scale", "shape"}) {
    auto& tensor = *proto.mutable_graph()->add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(onnx::TensorProto::FLOAT);
    tensor.add_dims(kHugeBytes / 4);
    tensor.set_raw_data(encode_marker(name[1] == 'c' ? 0 : 1));
  }
  const std::string skeleton = proto.SerializeAsString();
  const std::uint64_t sizes[] = {kHugeBytes, kHugeBytes};
  const auto plan = test::value_or_die(Expansion::plan(skeleton, sizes));
  std::ofstream file(dir_.file("m.onnx"), std::ios::binary);
  ASSERT_THAT(plan.write(
                  [&](std::span<const std::byte> bytes) {
                    file.write(reinterpret_cast<const char*>(bytes.data()),
                               static_cast<std::streamsize>(bytes.size()));
                    return ok_status();
                  },
                  [&](std::uint64_t) {
                    file.seekp(kHugeBytes, std::ios::cur);
                    return ok_status();
                  }),
              IsOk());
  file.close();
  const auto model = test::value_or_die(import_model(dir_.file("m.onnx")));
  const TensorRef last = model->graph->find("shape")->constant();
  EXPECT_EQ(last->stored_bytes().size(), kHugeBytes);
  EXPECT_GT(std::get<Tensor::FileSlice>(last->storage()).offset, kHugeBytes);
}

}  // namespace
}  // namespace mezzo
