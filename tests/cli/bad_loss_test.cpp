// Losses that the command line adds, and the data and models that they do not go with.

#include <span>

#include "bad_input.h"
#include "runtime/io/npz.h"

namespace mezzo::test {
namespace {

using Dims = std::vector<std::int64_t>;

constexpr const char* kWeight =
    "<float[4,3] w = {0.1, -0.2, 0.3, 0.2, 0.1, -0.1, -0.3, 0.2, 0.1, 0.3, -0.1, 0.2}>";

class BadLoss : public BadInput {
 protected:
  BadLoss() {
    write_model("net.onnxtxt", std::string("(float[N,4] x) => (float[N,3] y) ") + kWeight +
                                   " { y = MatMul(x, w) }");
    write_model("sequence.onnxtxt", std::string("(float[N,5,4] x) => (float[N,5,3] y) ") + kWeight +
                                        " { y = MatMul(x, w) }");
    write("ok.npz", {8, 4}, "target", {8});
  }

  // x and integer targets; `bad` takes the place of one of them.
  void write(const std::string& name, const Dims& x, const std::string& target, const Dims& dims,
             std::int64_t bad = 0) const {
    const auto elems = [](const Dims& shape) {
      std::int64_t count = 1;
      for (const std::int64_t dim : shape) count *= dim;
      return static_cast<std::size_t>(count);
    };
    const std::vector<float> inputs(elems(x), 0.5F);
    std::vector<std::int64_t> labels(elems(dims), 1);
    labels[labels.size() / 2] = bad;
    auto writer = runtime::NpzWriter::create(file(name));
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE(writer->add("x", DType::kFloat32, x, std::as_bytes(std::span(inputs))).ok());
    ASSERT_TRUE(writer->add(target, DType::kInt64, dims, std::as_bytes(std::span(labels))).ok());
    ASSERT_TRUE(writer->commit().ok());
  }

  Arguments with(const std::string& model, const std::string& data, const Arguments& more) const {
    Arguments all = {"train", model, "--data", data, "--batch-size", "4", "--steps", "1"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
};

const Arguments kCrossEntropy = {"--loss", "cross-entropy"};

Arguments cross_entropy(const Arguments& more) {
  Arguments all = kCrossEntropy;
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST_F(BadLoss, OptionsThatDoNotGoTogether) {
  const auto refuse = [&](const Arguments& options, const std::vector<std::string>& needles) {
    expect_refusal(with("net.onnxtxt", "ok.npz", options), 2, needles);
  };
  refuse({"--loss", "huber"}, {"--loss", "cross-entropy", "'huber'"});
  refuse({"--label-smoothing", "0.1"}, {"--label-smoothing", "--loss cross-entropy"});
  refuse({"--loss", "mse", "--label-smoothing", "0.1"}, {"--label-smoothing", "got mse"});
  refuse({"--loss", "l1", "--pos-weights", "1,2,3"}, {"--pos-weights", "bce"});
  refuse(cross_entropy({"--label-smoothing", "1.5"}), {"--label-smoothing", "1.5"});
  refuse(cross_entropy({"--loss-output", "y"}), {"--loss-output", "--loss"});
  refuse({"--loss", "cosine", "--margin", "0.5"}, {"--margin", "two outputs"});
  refuse(cross_entropy({"--loss-input", "y", "--loss-input", "y"}), {"--loss-input", "2"});
}

TEST_F(BadLoss, OutputsThatCannotBeScored) {
  expect_refusal(with("net.onnxtxt", "ok.npz", cross_entropy({"--loss-input", "z"})), 1,
                 {"net.onnxtxt", "'z'", "'y' float[4,3]"});
  write_model("two.onnxtxt", std::string("(float[N,4] x) => (float[N,3] y, float[N,3] z) ") +
                                 kWeight + " { y = MatMul(x, w) z = Relu(y) }");
  expect_refusal(with("two.onnxtxt", "ok.npz", kCrossEntropy), 1,
                 {"two.onnxtxt", "'y'", "'z'", "--loss-input"});
  write_model("integers.onnxtxt", "(float[N,4] x) => (int64[N,1] y) { y = ArgMax<axis = 1>(x) }");
  expect_refusal(with("integers.onnxtxt", "ok.npz", cross_entropy({"--loss-input", "y"})), 1,
                 {"integers.onnxtxt", "'y'", "int64[4,1]"});
}

TEST_F(BadLoss, TargetsThatDoNotFit) {
  write("nowhere.npz", {8, 4}, "answers", {8});
  expect_refusal(with("net.onnxtxt", "nowhere.npz", kCrossEntropy), 1,
                 {"nowhere.npz", "target", "answers", "--loss-target"});
  expect_refusal(with("net.onnxtxt", "nowhere.npz", cross_entropy({"--loss-target", "answer"})), 1,
                 {"nowhere.npz", "'answer'", "Did you mean 'answers'?"});
  write("wide.npz", {8, 4}, "target", {8, 2});
  expect_refusal(with("net.onnxtxt", "wide.npz", kCrossEntropy), 1,
                 {"'target'", "expected class numbers int64[4]", "'y' float[4,3]", "int64[4,2]"});
  expect_refusal(with("net.onnxtxt", "wide.npz", {"--loss", "mse"}), 1,
                 {"'target'", "expected float[4,3]", "int64[4,2]"});
  expect_refusal(with("net.onnxtxt", "ok.npz", cross_entropy({"--loss-target", "x"})), 1,
                 {"'x'", "class numbers", "float[4,4]"});
  write("few.npz", {8, 4}, "target", {7});
  expect_refusal(with("net.onnxtxt", "few.npz", kCrossEntropy), 1, {"'target'", "7 samples", "8"});
}

TEST_F(BadLoss, LabelsOutsideTheClasses) {
  write("bad.npz", {8, 4}, "target", {8}, 3);
  const std::vector<std::string> needles = {"bad.npz", "'target'", "sample 4", "3 is out of range",
                                            "SoftmaxCrossEntropyLoss"};
  expect_refusal(with("net.onnxtxt", "bad.npz", kCrossEntropy), 1, needles);
  expect_refusal(with("net.onnxtxt", "bad.npz", cross_entropy({"--label-smoothing", "0.1"})), 1,
                 needles);
  write("row.npz", {8, 5, 4}, "target", {8, 5}, -7);
  expect_refusal(with("sequence.onnxtxt", "row.npz", kCrossEntropy), 1,
                 {"row.npz", "sample 4", "-7 is out of range"});
  // The bad label serves as its own mask, which is not 0.
  expect_refusal(with("net.onnxtxt", "bad.npz", cross_entropy({"--padding-mask", "target"})), 1,
                 needles);
}

TEST_F(BadLoss, WeightsAndMasksThatDoNotFit) {
  const auto refuse = [&](const Arguments& options, const std::vector<std::string>& needles) {
    expect_refusal(with("net.onnxtxt", "ok.npz", cross_entropy(options)), 1, needles);
  };
  refuse({"--class-weights", "1,2"}, {"--class-weights", "expected 3 numbers", "got 2"});
  refuse({"--class-weights", "1,2,x"}, {"--class-weights", "'1,2,x'"});
  refuse({"--class-weights", "1,2,-1"}, {"--class-weights", "at least 0", "-1"});
  refuse({"--class-weights", "none.npz"}, {"none.npz", "No such file"});
  refuse({"--class-weights", "ok.npz"}, {"ok.npz", "one array of one dimension"});
  refuse({"--padding-mask", "mask"}, {"ok.npz", "'mask'"});
  refuse({"--padding-mask", "x"}, {"padding mask 'x'", "expected float[4]", "float[4,4]"});
  refuse({"--class-axis", "3"}, {"--class-axis 3", "float[4,3]"});
}

TEST_F(BadLoss, NothingThatCouldBeTrained) {
  write_model("still.onnxtxt", std::string("(float[N,4] x) => (float[N,4] y) ") + kWeight +
                                   " { y = Relu(x) z = MatMul(x, w) }");
  write("four.npz", {8, 4}, "target", {8, 4});
  expect_refusal(with("still.onnxtxt", "four.npz", {"--loss", "mse"}), 1,
                 {"still.onnxtxt", "'loss'", "depends on no trainable initializer"});
  write_model("steps.onnxtxt", std::string("(float[N,4] x) => (float[N,3] y) ") + kWeight +
                                   " { h = MatMul(x, w) [last] y = com.microsoft.Inverse(h) }");
  expect_refusal(with("steps.onnxtxt", "ok.npz", kCrossEntropy), 1,
                 {"steps.onnxtxt", "node 'last' (com.microsoft.Inverse)", "gradient of 'h'"});
  write_model("ranks.onnxtxt", std::string("(float[N,4] x) => (float[N,1] y) ") + kWeight +
                                   " { h = MatMul(x, w) [rank] i = ArgMax<axis = 1>(h) "
                                   "j = Add(i, i) y = Cast<to = 1>(j) }");
  write("one.npz", {8, 4}, "target", {8, 1});
  expect_refusal(with("ranks.onnxtxt", "one.npz", {"--loss", "mse"}), 1,
                 {"ranks.onnxtxt", "no trainable initializer", "node 'rank' (ArgMax)", "'h'"});
  write_model(
      "counts.onnxtxt",
      "(float[N,4] x) => (float[N,3] y) <float[4,3] w = {1,2,3,4,5,6,7,8,9,1,2,3}, int64[3] "
      "counts = {1,2,3}> { h = MatMul(x, w) f = Cast<to = 1>(counts) y = Mul(h, f) }");
  expect_refusal(with("counts.onnxtxt", "ok.npz", cross_entropy({"--train", "^counts$"})), 1,
                 {"counts.onnxtxt", "'counts' int64[3]", "floating-point"});
}

TEST_F(BadLoss, BatchesThatTheGraphFixes) {
  write_model("fixed.onnxtxt",
              "(float[N,4] x) => (float[3,4] y) <float[4] w = {1,2,3,4}, int64[2] shape = {3, 4}> "
              "{ h = Mul(x, w) y = Reshape(h, shape) }");
  expect_refusal(with("fixed.onnxtxt", "ok.npz", kCrossEntropy), 1,
                 {"fixed.onnxtxt", "'y'", "batches of 4", "float[3,4]"});
}

// A model exported in FP16 has FP32 masters, and a note says so.
TEST_F(BadLoss, HalfModelsTrain) {
  write_model("half.onnxtxt",
              "(float16[N,4] x) => (float16[N,3] y) <float16[4,3] w = {11878, 12902, 13517, 11878, "
              "12902, 13517, 11878, 12902, 13517, 11878, 12902, 13517}> { y = MatMul(x, w) }");
  for (const char* precision : {"fp32", "bf16", "fp16"}) {
    const CommandResult run =
        mezzo(with("half.onnxtxt", "ok.npz", cross_entropy({"--precision", precision})));
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_NE(run.err.find("note: the model holds 1 weights in 16 bits"), std::string::npos)
        << run.err;
  }
}

}  // namespace
}  // namespace mezzo::test
