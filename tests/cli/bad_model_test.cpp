// Models that are none, or that cannot be converted, run or trained.

#include <filesystem>

#include "bad_input.h"
#include "compiler/support/atomic_file.h"
#include "tests/support/shared_data.h"

namespace mezzo::test {
namespace {

namespace fs = std::filesystem;

TEST_F(BadInput, FilesThatAreNoModels) {
  expect_refusal(convert("none.onnx"), 1, {"none.onnx", "No such file"});
  fs::create_directory(file("folder.onnx"));
  expect_refusal(convert("folder.onnx"), 1, {"folder.onnx", "folder"});
  write_text(file("empty.onnx"), "");
  expect_refusal(convert("empty.onnx"), 1, {"empty.onnx", "empty file"});
  write_text(file("noise.onnx"), "MZ\x90\x03\x04 this is no model at all \xff\xfe\xfd");
  expect_refusal(convert("noise.onnx"), 1, {"noise.onnx", "expected an ONNX model"});
  expect_refusal(convert("data.npz"), 1, {"data.npz", "expected an ONNX model"});
  write_text(file("broken.onnxtxt"),
             "<ir_version: 8, opset_import: [\"\" : 17]>\nnet (float[2] x) => (float[2] y) { y = "
             "Relu(x }");
  expect_refusal(convert("broken.onnxtxt"), 1, {"broken.onnxtxt"});
}

// Wherever a model is cut off, it is refused, or what is left is a model.
TEST_F(BadInput, TruncatedModels) {
  make_onnx("whole.onnx");
  const std::string whole = read_text(file("whole.onnx"));
  ASSERT_GT(whole.size(), 200U);
  for (std::size_t size = 1; size < whole.size(); size += whole.size() / 23) {
    write_text(file("cut.onnx"), whole.substr(0, size));
    SCOPED_TRACE(size);
    expect_refusal(convert("cut.onnx"), 1, {"cut.onnx"});
  }
}

TEST_F(BadInput, ModelsThatContradictThemselves) {
  write_model("undefined.onnxtxt", "(float[2] x) => (float[2] y) { y = Add(x, nowhere) }");
  expect_refusal(convert("undefined.onnxtxt"), 1, {"undefined.onnxtxt", "nowhere"});
  write_model("shapes.onnxtxt",
              "(float[2,3] x) => (float[2,3] y) <float[4,3] w = {1,1,1,1,1,1,1,1,1,1,1,1}> { y = "
              "MatMul(x, w) }");
  expect_refusal(convert("shapes.onnxtxt"), 1, {"shapes.onnxtxt"});
}

TEST_F(BadInput, OperatorsThatCannotRunOrTrain) {
  write_model("picture.onnxtxt", R"((uint8[N] bytes) => (uint8[H,W,3] picture)
{ picture = ImageDecoder(bytes) })",
              20);
  write_floats("picture.npz", "bytes", {4}, {1, 2, 3, 4});
  expect_refusal({"run", "picture.onnxtxt", "--input", "picture.npz", "--output", "y.npz"}, 1,
                 {"picture.npz", "expected uint8[N], got float[4]"});
  std::filesystem::create_directories(file("in"));
  ASSERT_TRUE(
      write_file(file("in/input_0.pb"), std::string("\x08\x04\x10\x02\x4a\x04\x01\x02\x03\x04", 10))
          .ok());
  expect_refusal({"run", "picture.onnxtxt", "--input", "in", "--output", "out"}, 1,
                 {"picture.onnxtxt", "(ImageDecoder)"});
  write_model("foreign.onnxtxt", R"((float[4,4] x) => (float loss)
<float[4] w = {1,2,3,4}, float[4,4] s> { h = Mul(x, w)
  s = elsewhere.Magic(h)
  loss = ReduceMean<keepdims = 0>(s) })");
  expect_refusal(
      {"train", "foreign.onnxtxt", "--data", "data.npz", "--batch-size", "4", "--steps", "1"}, 1,
      {"foreign.onnxtxt", "Magic", "Hint: "});
  write_model("inverse.onnxtxt", R"((float[4,4] x) => (float loss)
<float[4] w = {1,2,3,4}> { h = Mul(x, w)
  [turn] s = com.microsoft.Inverse(h)
  loss = ReduceMean<keepdims = 0>(s) })",
              18);
  expect_refusal(
      {"train", "inverse.onnxtxt", "--data", "data.npz", "--batch-size", "4", "--steps", "1"}, 1,
      {"inverse.onnxtxt", "node 'turn' (com.microsoft.Inverse)", "gradient of 'h'"});
}

TEST_F(BadInput, LossesAndParameters) {
  const Arguments rest = {"--data", "data.npz", "--batch-size", "4", "--steps", "1"};
  const auto refuse = [&](const std::string& model, const std::vector<std::string>& needles) {
    Arguments arguments = {"train", model};
    arguments.insert(arguments.end(), rest.begin(), rest.end());
    expect_refusal(arguments, 1, needles);
  };
  write_model("no_loss.onnxtxt",
              "(float[N,4] x) => (float[N,4] y) <float[4] w = {1,2,3,4}> { y = Mul(x, w) }");
  refuse("no_loss.onnxtxt", {"no_loss.onnxtxt", "no loss", "'y'"});
  write_model("two.onnxtxt",
              R"((float[N,4] x) => (float a, float b) <float[4] w = {1,2,3,4}> { y = Mul(x, w)
  a = ReduceMean<keepdims = 0>(y)
  b = ReduceMax<keepdims = 0>(y) })");
  refuse("two.onnxtxt", {"more than one output", "--loss-output"});
  write_model("integers.onnxtxt",
              R"((int64[N,4] x) => (float loss) <int64[4] w = {1,2,3,4}> { h = Mul(x, w)
  f = Cast<to = 1>(h)
  loss = ReduceMean<keepdims = 0>(f) })");
  refuse("integers.onnxtxt", {"nothing to train"});
  write_model("doubles.onnxtxt",
              R"((float[N,4] x) => (double loss) <double[4] w = {1,2,3,4}> { d = Cast<to = 11>(x)
  h = Mul(d, w)
  loss = ReduceMean<keepdims = 0>(h) })");
  refuse("doubles.onnxtxt", {"'w'", "double"});
  expect_refusal(train({"--loss-output", "los"}), 1, {"'los'", "'loss'"});
  expect_refusal(train({"--loss-output", "scores"}), 1, {"'scores'", "scalar"});
  expect_refusal(train({"--freeze", "nothing_like_it"}), 1,
                 {"--freeze 'nothing_like_it'", "matches no initializer"});
  expect_refusal(train({"--freeze", "."}), 1, {"nothing to train"});
  expect_refusal(convert("classifier.onnxtxt", {"--pin", "nothing_like_it"}), 1,
                 {"--pin 'nothing_like_it'", "matches no node"});
  expect_refusal(convert("classifier.onnxtxt", {"--deny-op", "MatMull"}), 1,
                 {"--deny-op 'MatMull'", "Did you mean 'MatMul'?"});
  expect_refusal(train({"--dim", "M=3"}), 1, {"--dim M"});
}

TEST_F(BadInput, BatchSizeOfAFixedGraph) {
  write_model("fixed.onnxtxt",
              R"((float[8,4] x) => (float loss) <float[4] w = {1,2,3,4}> { h = Mul(x, w)
  loss = ReduceMean<keepdims = 0>(h) })");
  expect_refusal(
      {"train", "fixed.onnxtxt", "--data", "data.npz", "--batch-size", "4", "--steps", "1"}, 1,
      {"fixed.onnxtxt", "'x'", "batches of 8", "--batch-size 4"});
}

// The optimising exporter folds BatchNormalization into convolutions; what it took is named.
TEST_F(BadInput, ExportsThatLostTheirBatchNormalization) {
  const auto shared = shared_folder();
  if (!shared) GTEST_SKIP() << kNoSharedFolder;
  const std::string zoo = (*shared / "zoo" / "resnet_tiny_train_loss_dyn").string();
  expect_refusal(
      {"train", zoo + ".onnx", "--data", zoo + ".inputs.npz", "--batch-size", "8", "--steps", "1"},
      1, {"BatchNormalization", "are gone", "optimize=False"});
}

}  // namespace
}  // namespace mezzo::test
