// `mezzo train --loss`: loss and first-step gradient are PyTorch's, in every precision. The values
// are recorded by make_loss_cases.py.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>

#include "cli_runner.h"
#include "runtime/io/npz.h"

namespace mezzo::test {
namespace {

using Json = nlohmann::json;
using Dims = std::vector<std::int64_t>;

const Json& cases() {
  static const Json all = Json::parse(std::ifstream(MEZZO_LOSS_CASES));
  return all;
}

std::string dims_text(const std::string& type, Dims dims) {
  std::string text = type + "[N";
  for (std::size_t i = 1; i < dims.size(); ++i) text += "," + std::to_string(dims[i]);
  return text + "]";
}

// The model of a case, in ONNX's text syntax.
std::string model_text(const Json& test) {
  const std::string form = test["form"];
  const Dims x = test["data"]["x"]["shape"];
  const auto rows = test["w"].size(), columns = test["w"][0].size();
  std::string weight = "float[" + std::to_string(rows) + "," + std::to_string(columns) + "] w = {";
  for (std::size_t i = 0; i < rows * columns; ++i)
    weight += (i > 0 ? "," : "") + std::to_string(test["w"][i / columns][i % columns].get<float>());
  weight += "}";
  const std::string c = std::to_string(columns);
  const std::string in = "(" + dims_text("float", x) + " x";
  const std::string sequence = ",C]";
  if (form == "pair") {
    return in + ", " + dims_text("float", x) + " other) => (float[N," + c + "] a, float[N," + c +
           "] b) <" + weight + "> { a = MatMul(x, w) b = MatMul(other, w) }";
  }
  if (form == "image") {  // a convolution of one place
    return in + ") => (float[N," + c + ",H,W] scores) <" + weight +
           ", int64[2] turn = {1, 0}> { t = Transpose<perm = [1, 0]>(w) one = Constant<value_ints "
           "= "
           "[2, 3]>() k = Unsqueeze(t, one) scores = Conv(x, k) }";
  }
  const std::string rank = x.size() == 3 ? "[N,T," : "[N,";
  if (form == "flat_sequence") {
    return in + ") => (float[M," + c + "] scores) <" + weight + ", int64[2] shape = {-1, " + c +
           "}> { h = MatMul(x, w) scores = Reshape(h, shape) }";
  }
  if (form == "squeezed_sigmoid") {
    return in + ") => (float[N] scores) <" + weight +
           ", int64[1] last = {-1}> { h = MatMul(x, w) s = Sigmoid(h) scores = Squeeze(s, last) }";
  }
  std::string end = "scores = Identity(h)";
  if (form == "softmax") end = "scores = Softmax(h)";
  if (form == "log_softmax" || form == "sequence_log") end = "scores = LogSoftmax<axis = -1>(h)";
  if (form == "sigmoid") end = "scores = Sigmoid(h)";
  return in + ") => (float" + rank + c + "] scores) <" + weight + "> { h = MatMul(x, w) " + end +
         " }";
}

class Loss : public CliTest, public ::testing::WithParamInterface<std::size_t> {
 protected:
  void write_arrays(const Json& test) const {
    auto writer = runtime::NpzWriter::create(file("data.npz"));
    ASSERT_TRUE(writer.ok());
    for (const auto& [name, array] : test["data"].items()) {
      const Dims shape = array["shape"];
      if (array["integer"]) {
        const std::vector<std::int64_t> values = array["values"];
        ASSERT_TRUE(writer->add(name, DType::kInt64, shape, std::as_bytes(std::span(values))).ok());
      } else {
        const std::vector<float> values = array["values"];
        ASSERT_TRUE(
            writer->add(name, DType::kFloat32, shape, std::as_bytes(std::span(values))).ok());
      }
    }
    ASSERT_TRUE(writer->commit().ok());
  }

  std::vector<float> gradient() const {
    auto arrays = runtime::NpzFile::open(file("run/gradients_1.npz"));
    if (!arrays.ok()) return {};
    auto data = arrays->read("w");
    if (!data.ok()) return {};
    std::vector<float> values(data->bytes.size() / sizeof(float));
    std::memcpy(values.data(), data->bytes.data(), data->bytes.size());
    return values;
  }

  // One step in a precision, against the recorded values. `loss_error` and `gradient_error` are
  // relative, the latter to the largest element.
  void check(const Json& test, const std::string& precision, double loss_error,
             double gradient_error) const {
    SCOPED_TRACE(precision);
    std::vector<std::string> command = {"train",
                                        "model.onnxtxt",
                                        "--data",
                                        "data.npz",
                                        "--batch-size",
                                        std::to_string(test["data"]["x"]["shape"][0].get<int>()),
                                        "--no-shuffle",
                                        "--steps",
                                        "1",
                                        "--save-gradients",
                                        "1",
                                        "--lr",
                                        "0",
                                        "--train",
                                        "^w$",
                                        "--precision",
                                        precision};
    for (const auto& word : test["arguments"]) command.push_back(word);
    if (precision == "fp16") command.insert(command.end(), {"--loss-scale", "static:256"});
    const CommandResult run = mezzo(command);
    ASSERT_EQ(run.status, 0) << run.err;
    std::ifstream metrics(file("run/metrics.jsonl"));
    std::string line;
    std::getline(metrics, line);
    const double loss = Json::parse(line)["loss"], expected = test["loss"];
    EXPECT_NEAR(loss, expected, loss_error * std::max(1.0, std::fabs(expected)));
    const std::vector<float> got = gradient(), want = test["gradient"];
    ASSERT_EQ(got.size(), want.size());
    float largest = 0;
    for (const float value : want) largest = std::max(largest, std::fabs(value));
    ASSERT_GT(largest, 0.0F);
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_NEAR(got[i], want[i], gradient_error * static_cast<double>(largest)) << i;
  }
};

TEST_P(Loss, IsPyTorchs) {
  const Json& test = cases().at(GetParam());
  write_model("model.onnxtxt", model_text(test));
  write_arrays(test);
  // Scores are exact in each type; what reaches the weight is rounded to 8 or 11 digits.
  check(test, "fp32", 2e-6, 1e-5);
  check(test, "bf16", 1e-5, std::ldexp(1, -7));
  check(test, "fp16", 1e-5, std::ldexp(1, -10));
}

// Held-out scores are counted against the targets, which the model itself knows nothing of.
TEST_F(CliTest, AttachedLossGivesAccuracy) {
  write_model("model.onnxtxt", R"((float[N,2] x) => (float[N,3] scores)
<float[2,3] w = {0.5, 0.25, -0.5, 0.25, -0.25, 0.75}> { h = MatMul(x, w) scores = Softmax(h) })");
  auto writer = runtime::NpzWriter::create(file("data.npz"));
  ASSERT_TRUE(writer.ok());
  const std::vector<float> x = {4, 0, -4, 4, 4, -4, -4, 0, 4, 0, -4, 4, 4, -4, -4, 0};
  const std::vector<std::int64_t> labels = {0, 2, 0, 2, 0, 2, 1, -100};  // one wrong, one ignored
  ASSERT_TRUE(writer->add("x", DType::kFloat32, Dims{8, 2}, std::as_bytes(std::span(x))).ok());
  ASSERT_TRUE(writer->add("labels", DType::kInt64, Dims{8}, std::as_bytes(std::span(labels))).ok());
  ASSERT_TRUE(writer->commit().ok());
  const CommandResult run = mezzo({"train", "model.onnxtxt", "--data", "data.npz", "--eval-data",
                                   "data.npz", "--batch-size", "4", "--steps", "1", "--lr", "0",
                                   "--loss", "cross-entropy", "--json"});
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_NE(run.err.find("note: output 'scores' is a Softmax"), std::string::npos) << run.err;
  const Json summary = Json::parse(run.out);
  EXPECT_NEAR(summary["eval_accuracy"].get<double>(), 6.0 / 7, 1e-6);
}

INSTANTIATE_TEST_SUITE_P(Case, Loss, ::testing::Range(std::size_t{0}, cases().size()),
                         [](const auto& info) {
                           return cases().at(info.param)["name"].template get<std::string>();
                         });

}  // namespace
}  // namespace mezzo::test
