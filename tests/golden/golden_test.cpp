// Ten steps of small models against PyTorch; make_golden.py records the runs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "golden_run.h"
#include "training_session.h"

namespace mezzo {
namespace {

using test::floats_of;
using test::Session;
using test::SessionOptions;
using test::value_or_die;

class Golden : public testing::TestWithParam<std::string> {
 protected:
  Golden()
      : folder_("./" + GetParam() + "/"),
        expected_(test::read_json_file(folder_ + "expected.json")) {}

  void SetUp() override {
    ASSERT_EQ(expected_.value("magic", ""), "mezzo-golden");
    ASSERT_EQ(expected_.value("version", 0), 1);
  }

  SessionOptions options(const std::string& setup, const std::string& precision) const {
    SessionOptions options;
    options.precision = precision;
    options.batch_size = expected_["batch_size"];
    options.trainer.threads = 2;
    runtime::OptimizerGroup& group = options.trainer.optimizer;
    group.kind = value_or_die(runtime::parse_optimizer(setup));
    group.lr = setup == "sgd" ? 0.05 : 0.005;
    group.momentum = setup == "sgd" ? 0.9 : 0;
    group.weight_decay = setup == "sgd" ? 0.01 : 0.05;
    group.eps = 1e-6;
    options.trainer.schedule.base_lr = group.lr;
    options.trainer.loss_scale.mode = runtime::LossScaleMode::kOff;
    if (precision == "fp16") {
      options.trainer.loss_scale.mode = runtime::LossScaleMode::kStatic;
      options.trainer.loss_scale.init_scale = 1024;
    }
    return options;
  }
  StatusOr<std::unique_ptr<Session>> open(const SessionOptions& options,
                                          const std::string& data = {}) const {
    return Session::open_files(folder_ + "model.onnx", data.empty() ? folder_ + "data.npz" : data,
                               options);
  }
  std::vector<double> recorded(const std::string& setup, const std::string& run,
                               const char* what) const {
    return expected_["setups"][setup][run][what].get<std::vector<double>>();
  }

  const std::string folder_;
  const nlohmann::json expected_;
};

// Relative to the loss, or to a tenth of the first one where the model has learned its data.
double distance(double got, double want, double first) {
  return std::abs(got - want) / std::max(want, 0.1 * first);
}

TEST_P(Golden, LossesInFp32) {
  for (const std::string setup : {"sgd", "adamw"}) {
    const auto session = value_or_die(open(options(setup, "fp32")));
    const std::vector<double> want = recorded(setup, "fp32", "loss");
    const auto got = session->steps(static_cast<int>(want.size()));
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_LE(distance(static_cast<double>(got[i].loss), want[i], want[0]), 2e-5)
          << setup << " step " << i + 1;
    }
  }
}

// How far low precision may be is taken from how far PyTorch's own is.
TEST_P(Golden, LossesInLowPrecision) {
  for (const std::string setup : {"sgd", "adamw"}) {
    const std::vector<double> fp32 = recorded(setup, "fp32", "loss"),
                              bf16 = recorded(setup, "bf16", "loss");
    double spread = 0;
    for (std::size_t i = 0; i < fp32.size(); ++i)
      spread = std::max(spread, distance(bf16[i], fp32[i], fp32[0]));
    for (const std::string precision : {"bf16", "fp16"}) {
      const double limit =
          precision == "bf16" ? std::max(4 * spread, 0x1p-8) : std::max(spread, 0x1p-10);
      const auto session = value_or_die(open(options(setup, precision)));
      int low = 0;
      for (const proto::Tensor& tensor : session->plan().tensors())
        low += is_low(static_cast<DType>(tensor.dtype())) ? 1 : 0;
      EXPECT_GT(low, 5) << "it should run in " << precision;
      const auto got = session->steps(static_cast<int>(fp32.size()));
      for (std::size_t i = 0; i < fp32.size(); ++i) {
        EXPECT_FALSE(got[i].skipped);
        EXPECT_LE(distance(static_cast<double>(got[i].loss), fp32[i], fp32[0]), limit)
            << setup << " " << precision << " step " << i + 1;
      }
    }
  }
}

TEST_P(Golden, FirstGradientsAndLogits) {
  const auto recorded = value_or_die(runtime::NpzFile::open(folder_ + "gradients.npz"));
  for (const auto& [precision, digits] :
       {std::pair("fp32", 0x1p-18F), std::pair("bf16", 0x1p-6F), std::pair("fp16", 0x1p-9F)}) {
    SessionOptions chosen = options("sgd", precision);
    chosen.trainer.save_gradients_step = 1;
    const auto session = value_or_die(open(chosen));
    session->steps(1);
    const auto saved = value_or_die(runtime::NpzFile::open(session->file("gradients_1.npz")));
    EXPECT_EQ(saved.names().size(), recorded.names().size())
        << "all parameters are trained, and nothing else";
    for (const std::string& name : recorded.names()) {
      const std::vector<float> want = floats_of(recorded, name), got = floats_of(saved, name);
      ASSERT_EQ(got.size(), want.size()) << name;
      double off = 0, size = 0;
      for (std::size_t i = 0; i < want.size(); ++i) {
        off += std::pow(static_cast<double>(got[i] - want[i]), 2);
        size += std::pow(static_cast<double>(want[i]), 2);
      }
      EXPECT_GT(size, 0) << name;
      EXPECT_LE(std::sqrt(off / size), static_cast<double>(digits)) << name << " in " << precision;
    }
    if (std::string(precision) != "fp32") continue;
    const auto logits =
        floats_of(value_or_die(runtime::NpzFile::open(folder_ + "logits.npz")), "logits");
    const std::vector<float> got = session->tensor(session->plan().outputs(0).tensor());
    ASSERT_EQ(got.size(), logits.size());
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], logits[i], 1e-5F);
  }
}

// Loss scale, its growth at the end of float32's range, and skipped steps, as GradScaler's.
TEST_P(Golden, LossScaleAndSkippedSteps) {
  if (!expected_["setups"]["sgd"].contains("scaled")) GTEST_SKIP() << "recorded for the mlp alone";
  // The recorded run had its second batch multiplied by 64.
  const auto data = value_or_die(runtime::NpzFile::open(folder_ + "data.npz"));
  std::vector<float> x = floats_of(data, "x");
  const std::size_t batch = x.size() / 3;
  for (std::size_t i = batch; i < 2 * batch; ++i) x[i] *= 64;
  const test::TempDir dir;
  auto writer = value_or_die(runtime::NpzWriter::create(dir.file("large.npz")));
  const runtime::ArrayData labels = value_or_die(data.read("labels"));
  ASSERT_TRUE(
      writer.add("x", DType::kFloat32, data.find("x")->shape, std::as_bytes(std::span(x))).ok());
  ASSERT_TRUE(writer.add("labels", DType::kInt64, data.find("labels")->shape, labels.bytes).ok());
  ASSERT_TRUE(writer.commit().ok());

  SessionOptions chosen = options("sgd", "fp32");
  runtime::LossScalerOptions& scale = chosen.trainer.loss_scale;
  scale.mode = runtime::LossScaleMode::kDynamic;
  scale.init_scale = 0x1p127;
  scale.max_scale = std::numeric_limits<double>::infinity();
  scale.growth_interval = 2;
  const auto session = value_or_die(open(chosen, dir.file("large.npz")));
  const std::vector<double> losses = recorded("sgd", "scaled", "loss"),
                            scales = recorded("sgd", "scaled", "loss_scale");
  const auto skipped = expected_["setups"]["sgd"]["scaled"]["skipped"].get<std::vector<bool>>();
  const auto got = session->steps(static_cast<int>(losses.size()));
  for (std::size_t i = 0; i < losses.size(); ++i) {
    EXPECT_EQ(static_cast<double>(got[i].loss_scale), scales[i]) << "step " << i + 1;
    EXPECT_EQ(got[i].skipped, skipped[i]) << "step " << i + 1;
    EXPECT_NEAR(static_cast<double>(got[i].loss), losses[i], 1e-4 * losses[i]) << "step " << i + 1;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Golden,
                         testing::Values("mlp", "conv_bn_silu", "transformer_block"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace mezzo
