// Training artifacts of ONNX Runtime as users bring them: a small set of our own.
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "cli_runner.h"
#include "compiler/artifacts/ort_checkpoint.h"
#include "runtime/io/npz.h"
#include "tests/support/status_test.h"

namespace mezzo::test {
namespace {

constexpr const char* kTrainingGraph = R"(
<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
g (float[4,3] x, float[4,2] target, float[2,3] w, float[2] b, float[2] offset,
   float[2,3] "w_grad.accumulation.buffer", float[2] "b_grad.accumulation.buffer", bool[1] lazy_reset_grad)
  => (float loss, bool[1] "w_grad.accumulation.out", bool[1] "b_grad.accumulation.out")
<float loss_grad = {1}, float[1] two = {2}, float[1] n = {8}, int64[2] shape = {4,2}, int64[1] rows = {0}>
{
  y = Gemm <transB = 1> (x, w, b)
  shifted = Add (y, offset)
  difference = Sub (shifted, target)
  square = Mul (difference, difference)
  loss = ReduceMean <keepdims = 0> (square)
  scaled = com.microsoft.Scale <scale_down = 1> (loss_grad, n)
  square_grad = Expand (scaled, shape)
  twice = Mul (difference, two)
  y_grad = Mul (square_grad, twice)
  w_grad = Gemm <transA = 1, beta = 0.0> (y_grad, x)
  b_grad = ReduceSum <keepdims = 0> (y_grad, rows)
  "w_grad.accumulation.out" = com.microsoft.InPlaceAccumulatorV2 ("w_grad.accumulation.buffer", w_grad, lazy_reset_grad)
  "b_grad.accumulation.out" = com.microsoft.InPlaceAccumulatorV2 ("b_grad.accumulation.buffer", b_grad, lazy_reset_grad)
})";

std::string optimizer_graph(const std::string& node) {
  return R"(<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
g (float[1] lr, int64[1] step, seq(float[]) p, seq(float[]) g, seq(float[]) m, seq(float[]) v) => (bool[1] done)
{ [up] done = com.microsoft.)" +
         node + " }";
}

class ArtifactsTest : public CliTest {
 protected:
  ArtifactsTest() {
    write_text(file("training.onnxtxt"), kTrainingGraph);
    set_optimizer(
        "AdamWOptimizer <weight_decay = 0.1, epsilon = 0.01, adam_mode = 1> "
        "(lr, step, p, g, m, v)");
    OrtCheckpoint checkpoint;
    checkpoint.trained = {tensor("w", {2, 3}, {1, -2, 0.5F, 0.25F, 3, -1}),
                          tensor("b", {2}, {0.5F, -0.5F})};
    checkpoint.frozen = {tensor("offset", {2}, {0.125F, 0.25F})};
    checkpoint.properties = {{"epoch", std::int64_t{7}}};
    save(checkpoint);
    write_samples();
  }

  static CheckpointTensor tensor(const std::string& name, const std::vector<std::int64_t>& dims,
                                 const std::vector<float>& values) {
    return {name, Tensor::from_floats(dims, values)};
  }
  void set_optimizer(const std::string& node) {
    write_text(file("optimizer.onnxtxt"), optimizer_graph(node));
  }
  void save(const OrtCheckpoint& checkpoint) {
    ASSERT_THAT(save_ort_checkpoint(checkpoint, file("checkpoint")), IsOk());
  }
  OrtCheckpoint load(const std::string& name) {
    return value_or_die(load_ort_checkpoint(file(name)));
  }

  // Two batches.
  void write_samples() {
    std::vector<float> x, target;
    for (int i = 0; i < 24; ++i) x.push_back(std::sin(static_cast<float>(i) * 1.7F));
    for (int i = 0; i < 16; ++i) target.push_back(std::cos(static_cast<float>(i) * 0.9F));
    auto writer = value_or_die(runtime::NpzWriter::create(file("samples.npz")));
    const std::int64_t x_dims[] = {8, 3}, target_dims[] = {8, 2};
    ASSERT_THAT(writer.add("x", DType::kFloat32, x_dims, std::as_bytes(std::span(x))), IsOk());
    ASSERT_THAT(
        writer.add("target", DType::kFloat32, target_dims, std::as_bytes(std::span(target))),
        IsOk());
    ASSERT_THAT(writer.commit(), IsOk());
  }

  CommandResult train(const std::string& out, const std::vector<std::string>& more) {
    std::vector<std::string> arguments = {
        "train", "training.onnxtxt",  "--data",           "samples.npz", "--batch-size",
        "4",     "--no-shuffle",      "--precision",      "fp32",        "--out",
        out,     "--optimizer-model", "optimizer.onnxtxt"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return mezzo(arguments);
  }

  // Trains one step; then every weight must be step(weight, gradient).
  void expect_step(const std::vector<std::string>& more,
                   const std::function<double(double, double)>& step) {
    std::vector<std::string> arguments = {"--steps", "1", "--save-gradients", "1"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const CommandResult result = train("run", arguments);
    ASSERT_EQ(result.status, 0) << result.err;
    const auto gradients = value_or_die(runtime::NpzFile::open(file("run/gradients_1.npz")));
    const OrtCheckpoint before = load("checkpoint"), after = load("run/ort_checkpoint");
    for (const std::string name : {"w", "b"}) {
      const auto data = value_or_die(gradients.read(name));
      const auto* g = reinterpret_cast<const float*>(data.bytes.data());
      const std::vector<double> from = before.find(name)->tensor->to_doubles(),
                                to = after.find(name)->tensor->to_doubles();
      for (std::size_t i = 0; i < from.size(); ++i)
        EXPECT_NEAR(to[i], step(from[i], static_cast<double>(g[i])), 2e-7) << name << " " << i;
    }
  }
};

// 2 / 8 of the differences, in numbers.
TEST_F(ArtifactsTest, GradientsAreThoseOfTheGraph) {
  ASSERT_EQ(train("run", {"--steps", "1", "--save-gradients", "1"}).status, 0);
  const auto samples = value_or_die(runtime::NpzFile::open(file("samples.npz")));
  const auto x_data = value_or_die(samples.read("x")),
             t_data = value_or_die(samples.read("target"));
  const auto* x = reinterpret_cast<const float*>(x_data.bytes.data());
  const auto* target = reinterpret_cast<const float*>(t_data.bytes.data());
  const OrtCheckpoint start = load("checkpoint");
  const auto w = start.find("w")->tensor->to_doubles(), b = start.find("b")->tensor->to_doubles(),
             offset = start.find("offset")->tensor->to_doubles();
  std::vector<double> dw(6), db(2);
  for (std::size_t n = 0; n < 4; ++n) {
    for (std::size_t k = 0; k < 2; ++k) {
      double y = b[k] + offset[k] - static_cast<double>(target[2 * n + k]);
      for (std::size_t i = 0; i < 3; ++i) y += static_cast<double>(x[3 * n + i]) * w[3 * k + i];
      db[k] += y / 4;
      for (std::size_t i = 0; i < 3; ++i)
        dw[3 * k + i] += y / 4 * static_cast<double>(x[3 * n + i]);
    }
  }
  const auto gradients = value_or_die(runtime::NpzFile::open(file("run/gradients_1.npz")));
  EXPECT_EQ(gradients.names().size(), 2U);
  for (const auto& [name, expected] : {std::pair("w", dw), std::pair("b", db)}) {
    const auto data = value_or_die(gradients.read(name));
    const auto* g = reinterpret_cast<const float*>(data.bytes.data());
    for (std::size_t i = 0; i < expected.size(); ++i)
      EXPECT_NEAR(static_cast<double>(g[i]), expected[i], 1e-6) << name << " " << i;
  }
}

// t = 1: m = 0.1 g, v = 0.001 g g.
TEST_F(ArtifactsTest, HuggingFacesAdamW) {
  expect_step({"--lr", "0.05"}, [](double w, double g) {
    const double rate = 0.05 * std::sqrt(0.001) / 0.1;
    w -= rate * 0.1 * g / (std::sqrt(0.001) * std::abs(g) + 0.01);
    return w - 0.05 * 0.1 * w;
  });
}

TEST_F(ArtifactsTest, PyTorchsAdamW) {
  set_optimizer("AdamWOptimizer <weight_decay = 0.1, epsilon = 0.01> (lr, step, p, g, m, v)");
  expect_step({"--lr", "0.05"}, [](double w, double g) {
    return w - 0.05 * 0.1 * w - 0.05 * g / (std::abs(g) + 0.01);
  });
}

TEST_F(ArtifactsTest, AdamWWithoutBiasCorrection) {
  set_optimizer(
      "AdamWOptimizer <weight_decay = 0.0, epsilon = 0.01, correct_bias = 0> "
      "(lr, step, p, g, m, v)");
  expect_step({"--lr", "0.05"}, [](double w, double g) {
    return w - 0.05 * 0.1 * g / (std::sqrt(0.001) * std::abs(g) + 0.01);
  });
}

TEST_F(ArtifactsTest, PlainSgd) {
  set_optimizer("SGDOptimizerV2 (lr, p, g)");
  expect_step({"--lr", "0.05"}, [](double w, double g) { return w - 0.05 * g; });
}

// What the command line says goes before what the artifacts say; the rate is 1e-3 by itself.
TEST_F(ArtifactsTest, OptionsOverruleTheOptimizerModel) {
  expect_step({"--weight-decay", "0", "--eps", "0.5", "--adamw-form", "pytorch"},
              [](double w, double g) { return w - 0.001 * g / (std::abs(g) + 0.5); });
  expect_step({"--optimizer", "sgd", "--momentum", "0.5"},
              [](double w, double g) { return w - 0.001 * g; });
}

TEST_F(ArtifactsTest, CheckpointKeepsWhatIsNotTrained) {
  ASSERT_EQ(train("run", {"--steps", "3", "--export-checkpoint", "back"}).status, 0);
  const OrtCheckpoint back = load("back");
  EXPECT_EQ(back.find("offset")->tensor->to_doubles(), (std::vector<double>{0.125, 0.25}));
  EXPECT_EQ(back.properties, load("checkpoint").properties);
  ASSERT_EQ(back.groups.size(), 1U);
  EXPECT_EQ(back.groups[0].name, "group0");
  EXPECT_EQ(back.groups[0].step, 3);
  ASSERT_EQ(back.groups[0].parameters.size(), 2U);
  EXPECT_EQ(back.groups[0].parameters[0].parameter, "w");
  EXPECT_EQ(back.groups[0].parameters[0].momentums[1].name, "momentum1");
  EXPECT_EQ(back.groups[0].parameters[0].momentums[1].tensor->dims(),
            (std::vector<std::int64_t>{2, 3}));
}

// Where the export goes is proved before training, and is no setting that a resumed run must share.
TEST_F(ArtifactsTest, PlaceOfTheExport) {
  const CommandResult lost = train("lost", {"--steps", "2", "--export-checkpoint", "no/where"});
  EXPECT_EQ(lost.status, 1);
  EXPECT_THAT(lost.err, testing::HasSubstr("--export-checkpoint no/where: cannot be written"));
  EXPECT_FALSE(std::filesystem::exists(file("lost/checkpoint")));
  ASSERT_EQ(train("run", {"--steps", "2", "--export-checkpoint", "run/here"}).status, 0);
  EXPECT_EQ(load("run/here").groups[0].step, 2);
  const CommandResult more = train("run", {"--steps", "4", "--resume", "run/checkpoint"});
  ASSERT_EQ(more.status, 0) << more.err;
  EXPECT_EQ(load("run/ort_checkpoint").groups[0].step, 4);
}

// Two steps and two from the checkpoint they left are four: weights, moments and count.
TEST_F(ArtifactsTest, ContinuesFromItsOwnCheckpoint) {
  ASSERT_EQ(train("four", {"--steps", "4"}).status, 0);
  ASSERT_EQ(train("two", {"--steps", "2"}).status, 0);
  const CommandResult more = train("again", {"--steps", "2", "--checkpoint", "two/ort_checkpoint"});
  ASSERT_EQ(more.status, 0) << more.err;
  const OrtCheckpoint whole = load("four/ort_checkpoint"), halves = load("again/ort_checkpoint");
  EXPECT_EQ(halves.groups[0].step, 4);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(halves.trained[i].tensor->copy_bytes(), whole.trained[i].tensor->copy_bytes());
    for (std::size_t m = 0; m < 2; ++m) {
      EXPECT_EQ(halves.groups[0].parameters[i].momentums[m].tensor->copy_bytes(),
                whole.groups[0].parameters[i].momentums[m].tensor->copy_bytes());
    }
  }
}

// Gradients come out unscaled, whatever goes in at the loss.
TEST_F(ArtifactsTest, TheLossScaleGoesInAtTheLoss) {
  ASSERT_EQ(train("plain", {"--steps", "1", "--save-gradients", "1"}).status, 0);
  ASSERT_EQ(train("scaled", {"--steps", "1", "--save-gradients", "1", "--loss-scale", "static:4096",
                             "--accumulate", "2"})
                .status,
            0);
  ASSERT_EQ(train("both", {"--steps", "1", "--save-gradients", "1", "--accumulate", "2"}).status,
            0);
  const auto gradient = [&](const std::string& folder) {
    const auto gradients = value_or_die(runtime::NpzFile::open(file(folder + "/gradients_1.npz")));
    const auto data = value_or_die(gradients.read("w"));
    const auto* g = reinterpret_cast<const float*>(data.bytes.data());
    return std::vector<float>(g, g + 6);
  };
  EXPECT_EQ(gradient("scaled"), gradient("both"));
  EXPECT_NE(gradient("plain"), gradient("both"));
}

TEST_F(ArtifactsTest, FrozenParametersKeepTheirState) {
  ASSERT_EQ(train("run", {"--steps", "2", "--freeze", "^b$"}).status, 0);
  const OrtCheckpoint back = load("run/ort_checkpoint"), start = load("checkpoint");
  EXPECT_EQ(back.find("b")->tensor->copy_bytes(), start.find("b")->tensor->copy_bytes());
  EXPECT_NE(back.find("w")->tensor->copy_bytes(), start.find("w")->tensor->copy_bytes());
  ASSERT_EQ(back.groups[0].parameters.size(), 2U) << "ONNX Runtime wants the state of all";
  EXPECT_EQ(back.groups[0].parameters[1].momentums[0].tensor->to_doubles(),
            (std::vector<double>{0, 0}));
}

TEST_F(ArtifactsTest, EvaluatesTheForwardPart) {
  ASSERT_EQ(train("run", {"--steps", "1", "--eval-data", "samples.npz", "--lr", "0"}).status, 0);
  const auto summary = nlohmann::json::parse(read_text(file("run/summary.json")));
  EXPECT_GT(summary["eval_loss"].get<double>(), 0.1);
}

TEST_F(ArtifactsTest, NamesWhatIsMissingOrContradicts) {
  const std::vector<std::string> command = {"train",       "training.onnxtxt", "--data",
                                            "samples.npz", "--batch-size",     "4"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> arguments = command;
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  expect_refusal(with({"--checkpoint", "nowhere"}), 1, {"nowhere"});
  expect_refusal(with({"--checkpoint", "samples.npz"}), 1, {"samples.npz", "ODTC"});
  expect_refusal(with({"--optimizer-model", "nowhere.onnx"}), 1, {"nowhere.onnx"});
  expect_refusal(with({"--optimizer-model", "training.onnxtxt"}), 1,
                 {"training.onnxtxt", "(Gemm)", "not an optimizer"});
  expect_refusal(with({"--loss", "mse"}), 1, {"training.onnxtxt", "--loss"});
  expect_refusal(with({"--train", "offset"}), 1, {"--train 'offset'", "no parameter"});
  expect_refusal(with({"--freeze", "."}), 1, {"nothing to train"});
  expect_refusal({"train", "classifier.onnxtxt", "--data", "data.npz", "--batch-size", "4",
                  "--checkpoint", "checkpoint"},
                 1, {"classifier.onnxtxt", "no backward pass"});

  OrtCheckpoint checkpoint = load("checkpoint");
  checkpoint.trained.pop_back();
  save(checkpoint);
  expect_refusal(command, 1, {"training.onnxtxt", "parameter 'b'", "missing in checkpoint"});
  checkpoint.trained.push_back(tensor("b", {3}, {1, 2, 3}));
  save(checkpoint);
  expect_refusal(command, 1, {"graph input 'b': expected float[2], got float[3] in checkpoint"});

  checkpoint.trained[1] = tensor("b", {2}, {1, 2});
  OrtOptimizerGroup group;
  group.step = 1;
  group.parameters = {{"w", {tensor("momentum0", {2, 3}, std::vector<float>(6))}}};
  checkpoint.groups = {group};
  save(checkpoint);
  expect_refusal(with({"--optimizer-model", "optimizer.onnxtxt"}), 1,
                 {"checkpoint: ", "'momentum1' of 'w' is missing"});
}

TEST_F(ArtifactsTest, InspectListsTheCheckpoint) {
  const CommandResult text = mezzo({"inspect", "checkpoint"});
  ASSERT_EQ(text.status, 0) << text.err;
  for (const char* part : {"checkpoint of ONNX Runtime", "epoch: 7", "[2,3]", "offset"})
    EXPECT_NE(text.out.find(part), std::string::npos) << part << "\n" << text.out;
  ASSERT_EQ(train("run", {"--steps", "2"}).status, 0);
  const CommandResult after = mezzo({"inspect", "run/ort_checkpoint"});
  EXPECT_NE(after.out.find("2 steps applied"), std::string::npos) << after.out << after.err;
}

// Recurrent layers as the training graph has them give the gradients that differentiation gives.
class RecurrentArtifactsTest : public CliTest {
 protected:
  // `operands` of the layer behind x, w, r, b; the gradient's node in `gradient`.
  void expect_same_gradients(const std::string& forward, const std::string& training,
                             const std::string& gradient, std::int64_t gates) {
    const std::string h = "3", rows = std::to_string(gates * 3), both = std::to_string(gates * 6);
    const std::string parameters = "float[1," + rows + ",2] w, float[1," + rows +
                                   ",3] r, float[1," + both + "] b, float[1,4,3] h0";
    const std::string open = "<ir_version: 8, opset_import: [\"\" : 17, \"com.microsoft\" : 1]>\n";
    const auto zeros = [](std::int64_t count) {
      std::string text = "{0";
      for (std::int64_t i = 1; i < count; ++i) text += "," + std::to_string(i % 7 * 0.1 - 0.3);
      return text + "}";
    };
    const std::string head = "forward (float[4,5,2] samples) => (float loss)";
    write_text(file("forward.onnxtxt"),
               open + head + " <float[1," + rows + ",2] w = " + zeros(gates * 6) + ", float[1," +
                   rows + ",3] r = " + zeros(gates * 9) + ", float[1," + both +
                   "] b = " + zeros(gates * 6) + ", float[1,4,3] h0 = " + zeros(12) + "> {\n" +
                   "x = Transpose <perm = [1,0,2]> (samples)\n" + forward +
                   "\nsquare = Mul (y, y)\nloss = ReduceSum <keepdims = 0> (square)\n}");
    std::string frame, done, accumulators;
    for (const std::string name : {"w", "r", "b", "h0"}) {
      const std::string dims = name == "w"   ? "[1," + rows + ",2]"
                               : name == "r" ? "[1," + rows + ",3]"
                               : name == "b" ? "[1," + both + "]"
                                             : "[1,4,3]";
      frame += ", float" + dims + " \"" + name + "_grad.accumulation.buffer\"";
      done += ", bool[1] " + name + "_done";
      accumulators += name + "_done = com.microsoft.InPlaceAccumulatorV2 (\"" + name +
                      "_grad.accumulation.buffer\", " + name + "_grad)\n";
    }
    write_text(file("training.onnxtxt"),
               open + "g (float[4,5,2] samples, " + parameters + frame + ") => (float loss" + done +
                   ") <float loss_grad = {1}, float two = {2}, int64[4] shape = {5,1,4,3}> {\n" +
                   "x = Transpose <perm = [1,0,2]> (samples)\n" + training +
                   "\nsquare = Mul (y, y)\nloss = ReduceSum <keepdims = 0> (square)\n" +
                   "start = Expand (loss_grad, shape)\ntwice = Mul (y, two)\n" +
                   "y_grad = Mul (start, twice)\n" + gradient + "\n" + accumulators + "}");
    write_floats("samples.npz", "samples", {4, 5, 2}, numbers(40));
    OrtCheckpoint checkpoint;
    const auto add = [&](const std::string& name, std::vector<std::int64_t> dims,
                         std::int64_t count) {
      std::vector<float> values = {0};
      for (std::int64_t i = 1; i < count; ++i)
        values.push_back(static_cast<float>(std::stod(std::to_string(i % 7 * 0.1 - 0.3))));
      checkpoint.trained.push_back({name, Tensor::from_floats(dims, values)});
    };
    add("w", {1, gates * 3, 2}, gates * 6);
    add("r", {1, gates * 3, 3}, gates * 9);
    add("b", {1, gates * 6}, gates * 6);
    add("h0", {1, 4, 3}, 12);
    ASSERT_THAT(save_ort_checkpoint(checkpoint, file("checkpoint")), IsOk());
    for (const std::string model : {"forward", "training"}) {
      const CommandResult result = mezzo(
          {"train", model + ".onnxtxt", "--data", "samples.npz", "--batch-size", "4", "--steps",
           "1", "--precision", "fp32", "--save-gradients", "1", "--out", model + "_run"});
      ASSERT_EQ(result.status, 0) << result.err;
    }
    const auto want = value_or_die(runtime::NpzFile::open(file("forward_run/gradients_1.npz")));
    const auto got = value_or_die(runtime::NpzFile::open(file("training_run/gradients_1.npz")));
    EXPECT_EQ(got.names().size(), 4U);
    for (const std::string& name : want.names()) {
      const auto expected = value_or_die(want.read(name)), actual = value_or_die(got.read(name));
      ASSERT_EQ(actual.bytes.size(), expected.bytes.size()) << name;
      const auto* e = reinterpret_cast<const float*>(expected.bytes.data());
      const auto* a = reinterpret_cast<const float*>(actual.bytes.data());
      float largest = 0;
      for (std::size_t i = 0; i < expected.bytes.size() / sizeof(float); ++i) {
        EXPECT_NEAR(a[i], e[i], 1e-5F) << name << " " << i;
        largest = std::max(largest, std::abs(e[i]));
      }
      EXPECT_GT(largest, 1e-3F) << name;
    }
  }

  static std::vector<float> numbers(std::int64_t count) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < count; ++i)
      values.push_back(std::sin(static_cast<float>(i) * 1.3F));
    return values;
  }
};

TEST_F(RecurrentArtifactsTest, Lstm) {
  expect_same_gradients(
      "y, yh, yc = LSTM <hidden_size = 3> (x, w, r, b, , h0)",
      "y, yh, yc, call, iofc = com.microsoft.LSTMTraining <hidden_size = 3> (x, w, r, b, , h0)",
      ", w_grad, r_grad, b_grad, h0_grad = com.microsoft.LSTMGrad <hidden_size = 3> "
      "(x, w, r, , h0, y, call, iofc, y_grad, , )",
      4);
}

TEST_F(RecurrentArtifactsTest, Gru) {
  expect_same_gradients(
      "y, yh = GRU <hidden_size = 3, linear_before_reset = 1> (x, w, r, b, , h0)",
      "y, yh, zrh = com.microsoft.GRUTraining <hidden_size = 3, linear_before_reset = 1> "
      "(x, w, r, b, , h0)",
      ", w_grad, r_grad, b_grad, h0_grad = com.microsoft.GRUGrad <hidden_size = 3, "
      "linear_before_reset = 1> (x, w, r, b, , h0, y, zrh, y_grad, )",
      3);
}

}  // namespace
}  // namespace mezzo::test
