// Every set of training artifacts in the acceptance data, and the one of models/: it trains, and
// the gradients of its first step are those that ONNX Runtime recorded.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli_runner.h"
#include "compiler/artifacts/accumulators.h"
#include "compiler/ir/graph.h"
#include "compiler/onnx/import.h"
#include "runtime/io/npz.h"
#include "tests/support/shared_data.h"
#include "tests/support/status_test.h"

namespace mezzo::test {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kSets = {"models/ort_artifacts",      "artifacts/bert",
                                        "artifacts/bert_dropout",    "artifacts/gpt",
                                        "artifacts/lenet",           "artifacts/mlp",
                                        "artifacts/mlp_cast_bf16",   "artifacts/mlp_cast_fp16",
                                        "artifacts/mlp_mse",         "artifacts/resnet8",
                                        "artifacts/resnet8_silu",    "zoo/grads/bert_tiny_loss",
                                        "zoo/grads/gpt2_tiny_loss",  "zoo/grads/resnet_tiny",
                                        "zoo/grads/resnet_tiny_loss"};

// Graph inputs that data must come for: neither parameters nor their gradients' frame.
std::vector<std::string> data_inputs(const std::string& model) {
  const auto loaded = value_or_die(load_model(model));
  std::vector<std::string> names;
  for (const Value* input : loaded->graph->inputs()) {
    const std::string& name = input->name();
    const bool frame = !parameter_of_buffer(name).empty() || name == "lazy_reset_grad" ||
                       name.find("running_") != std::string::npos ||
                       loaded->graph->find(name + "_grad.accumulation.buffer") != nullptr;
    if (!frame) names.push_back(name);
  }
  return names;
}

class SharedArtifacts : public CliTest, public testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override {
    if (GetParam().starts_with("models/")) {
      folder_ = fs::absolute(fs::path("../..") / GetParam());
      fs::copy_file(folder_ / "data.npz", file("samples.npz"));
      batch_size_ = 32;
      return;
    }
    const auto shared = shared_folder();
    if (!shared) GTEST_SKIP() << kNoSharedFolder;
    folder_ = *shared / GetParam();
    const std::vector<std::string> inputs = data_inputs((folder_ / "training_model.onnx").string());
    auto writer = value_or_die(runtime::NpzWriter::create(file("samples.npz")));
    fs::path batches = folder_ / "batches.npz";
    if (GetParam().find("mlp_cast") != std::string::npos)
      batches = *shared / "artifacts/mlp/batches.npz";
    if (fs::exists(batches)) {
      copy_batches(batches.string(), inputs, writer);
    } else {
      copy_inputs((folder_ / "training_model.inputs.npz").string(), inputs, writer);
    }
    ASSERT_THAT(writer.commit(), IsOk());
  }

  // bI_J is input J of batch I; three batches, one after the other.
  void copy_batches(const std::string& path, const std::vector<std::string>& inputs,
                    runtime::NpzWriter& writer) {
    const auto batches = value_or_die(runtime::NpzFile::open(path));
    for (std::size_t j = 0; j < inputs.size(); ++j) {
      std::vector<std::byte> bytes;
      std::vector<std::int64_t> shape;
      DType dtype = DType::kNone;
      for (int i = 0; i < 3; ++i) {
        const std::string name = "b" + std::to_string(i) + "_" + std::to_string(j);
        const runtime::ArrayInfo* info = value_or_die(batches.get(name));
        const auto data = value_or_die(batches.read(name));
        bytes.insert(bytes.end(), data.bytes.begin(), data.bytes.end());
        shape = info->shape;
        dtype = info->dtype;
      }
      batch_size_ = shape[0];
      shape[0] *= 3;
      ASSERT_THAT(writer.add(inputs[j], dtype, shape, bytes), IsOk());
    }
  }

  // One batch. Masks hold random integers there, and are to be 0 or 1.
  void copy_inputs(const std::string& path, const std::vector<std::string>& inputs,
                   runtime::NpzWriter& writer) {
    const auto arrays = value_or_die(runtime::NpzFile::open(path));
    for (const std::string& name : inputs) {
      const runtime::ArrayInfo* info = value_or_die(arrays.get(name));
      const auto data = value_or_die(arrays.read(name));
      std::vector<std::byte> bytes(data.bytes.begin(), data.bytes.end());
      if (name == "attention_mask") {
        for (std::size_t i = 0; i < bytes.size(); i += 8)
          bytes[i] = std::min(bytes[i], std::byte{1});
      }
      batch_size_ = info->shape[0];
      ASSERT_THAT(writer.add(name, info->dtype, info->shape, bytes), IsOk());
    }
  }

  // Ten steps, which must lower the loss.
  std::vector<double> train(const std::string& precision, const std::string& out) {
    const CommandResult result =
        mezzo({"train", folder_.string(), "--data", "samples.npz", "--batch-size",
               std::to_string(batch_size_), "--no-shuffle", "--steps", "10", "--lr", "0.003",
               "--save-gradients", "1", "--precision", precision, "--threads", "1", "--out", out});
    EXPECT_EQ(result.status, 0) << result.err;
    std::vector<double> losses;
    std::istringstream lines(read_text(file(out + "/metrics.jsonl")));
    for (std::string line; std::getline(lines, line);) {
      const auto step = nlohmann::json::parse(line);
      EXPECT_FALSE(step["skipped"].get<bool>()) << line;
      losses.push_back(step["loss"].is_number() ? step["loss"].get<double>() : NAN);
    }
    return losses;
  }

  fs::path folder_;
  std::int64_t batch_size_ = 0;
};

std::vector<float> floats_of(const runtime::NpzFile& file, const std::string& name) {
  const auto data = value_or_die(file.read(name));
  const auto* values = reinterpret_cast<const float*>(data.bytes.data());
  return {values, values + data.bytes.size() / sizeof(float)};
}

float largest(const std::vector<float>& values) {
  float most = 0;
  for (const float value : values) most = std::max(most, std::abs(value));
  return most;
}

TEST_P(SharedArtifacts, TrainInFp32) {
  const std::vector<double> losses = train("fp32", "run");
  ASSERT_EQ(losses.size(), 10U);
  EXPECT_LT(*std::min_element(losses.begin() + 1, losses.end()), losses[0]);
  fs::path recorded = folder_ / "step0_grads_ort.npz";
  if (!fs::exists(recorded)) recorded = folder_ / "first_gradients.npz";
  if (!fs::exists(recorded)) return;
  const auto want = value_or_die(runtime::NpzFile::open(recorded.string()));
  const auto got = value_or_die(runtime::NpzFile::open(file("run/gradients_1.npz")));
  EXPECT_EQ(got.names().size() + 1, want.names().size());
  float of_all = 0;
  for (const std::string& name : got.names())
    of_all = std::max(of_all, largest(floats_of(want, name)));
  for (const std::string& name : got.names()) {
    const std::vector<float> expected = floats_of(want, name), gradient = floats_of(got, name);
    ASSERT_EQ(gradient.size(), expected.size()) << name;
    std::vector<float> off(gradient.size());
    std::transform(gradient.begin(), gradient.end(), expected.begin(), off.begin(), std::minus<>());
    // Keys' biases, and those of convolutions before a normalisation, have no gradient: what is
    // recorded of them is rounding.
    const float rounding = 1e-6F * of_all;
    if (largest(expected) < rounding) {
      EXPECT_LT(largest(gradient), rounding) << name;
    } else {
      EXPECT_LE(largest(off), 1e-5F * largest(expected)) << name;
    }
  }
}

TEST_P(SharedArtifacts, TrainIn16Bits) {
  const double exact = train("fp32", "fp32").back();
  for (const std::string precision : {"bf16", "fp16"}) {
    const std::vector<double> losses = train(precision, precision);
    ASSERT_EQ(losses.size(), 10U) << precision;
    EXPECT_NEAR(losses.back(), exact, 0.02 * exact + 0.01) << precision;
  }
}

INSTANTIATE_TEST_SUITE_P(All, SharedArtifacts, testing::ValuesIn(kSets), [](const auto& info) {
  return info.param.substr(info.param.rfind('/') + 1);
});

}  // namespace
}  // namespace mezzo::test
