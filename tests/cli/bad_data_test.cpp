// Training data, inputs and output places.

#include <unistd.h>

#include <filesystem>
#include <limits>

#include "bad_input.h"

namespace mezzo::test {
namespace {

namespace fs = std::filesystem;

TEST_F(BadInput, ArchivesThatAreNone) {
  expect_refusal(train({"--data", "none.npz"}), 1, {"none.npz", "No such file"});
  write_text(file("text.npz"), "no archive");
  expect_refusal(train({"--data", "text.npz"}), 1, {"text.npz"});
  fs::create_directory(file("folder"));
  expect_refusal(train({"--data", "folder"}), 1, {"folder"});
  const std::string whole = read_text(file("data.npz"));
  for (const std::size_t size : {whole.size() / 4, whole.size() / 2, whole.size() - 3}) {
    write_text(file("cut.npz"), whole.substr(0, size));
    expect_refusal(train({"--data", "cut.npz"}), 1, {"cut.npz"});
  }
  std::string damaged = whole;
  damaged[damaged.find("NUMPY") + 140] ^= 0x55;  // among the numbers: the checksum is wrong
  write_text(file("damaged.npz"), damaged);
  expect_refusal(train({"--data", "damaged.npz"}), 1, {"damaged.npz"});
  expect_refusal(train({"--eval-data", "none.npz"}), 1, {"none.npz"});
}

TEST_F(BadInput, ArraysThatDoNotFit) {
  Data renamed;
  renamed.labels_name = "label";
  write_data("renamed.npz", renamed);
  expect_refusal(train({"--data", "renamed.npz"}), 1,
                 {"renamed.npz", "'labels'", "Did you mean 'label'?"});
  Data narrow;
  narrow.x_shape = {32, 2};
  write_data("narrow.npz", narrow);
  expect_refusal(train({"--data", "narrow.npz"}), 1, {"narrow.npz: array 'x'", "[N,4]", "[32,2]"});
  Data uneven;
  uneven.label_shape = {8};
  uneven.labels.resize(8);
  write_data("uneven.npz", uneven);
  expect_refusal(train({"--data", "uneven.npz"}), 1, {"uneven.npz", "8 samples", "16"});
  expect_refusal({"run", "classifier.onnxtxt", "--input", "uneven.npz", "--output", "y.npz"}, 1,
                 {"'N'", "8", "16"});
  Data none;
  none.x_shape = {0, 4};
  none.x.clear();
  none.label_shape = {0};
  none.labels.clear();
  write_data("none_at_all.npz", none);
  expect_refusal(train({"--data", "none_at_all.npz"}), 1, {"no samples"});
  expect_refusal(train({"--eval-data", "narrow.npz"}), 1, {"narrow.npz"});
}

TEST_F(BadInput, ValuesThatCannotBe) {
  Data holed;
  holed.x[5] = std::numeric_limits<float>::quiet_NaN();
  write_data("holed.npz", holed);
  expect_refusal(train({"--data", "holed.npz"}), 1, {"holed.npz: array 'x'", "[1,1]", "NaN"});
  expect_refusal(train({"--eval-data", "holed.npz"}), 1, {"holed.npz", "NaN"});
  Data infinite;
  infinite.x[63] = -std::numeric_limits<float>::infinity();
  write_data("infinite.npz", infinite);
  expect_refusal(train({"--data", "infinite.npz"}), 1,
                 {"infinite.npz: array 'x'", "[15,3]", "inf"});
}

// In the last sample, so that many steps would pass before it is met.
TEST_F(BadInput, LabelsOutOfRange) {
  Data data;
  data.labels.back() = 3;
  write_data("high.npz", data);
  expect_refusal(train({"--data", "high.npz"}), 1,
                 {"high.npz: array 'labels'", "sample 15", "3 is out of range", "0 to 2"});
  data.labels.back() = -1;
  write_data("negative.npz", data);
  expect_refusal(train({"--data", "negative.npz"}), 1, {"negative.npz", "-1 is out of range"});
  expect_refusal(train({"--eval-data", "high.npz"}), 1, {"high.npz", "out of range"});
}

TEST_F(BadInput, TokensOutOfTheVocabulary) {
  write_model("words.onnxtxt",
              R"((int64[N,4] labels) => (float loss) <float[5,2] table = {1,2,3,4,5,6,7,8,9,10}>
{ rows = Gather<axis = 0>(table, labels)
  loss = ReduceMean<keepdims = 0>(rows) })");
  Data data;
  data.label_shape = {4, 4};
  data.labels[7] = 5;
  write_data("words.npz", data);
  expect_refusal(
      {"train", "words.onnxtxt", "--data", "words.npz", "--batch-size", "2", "--steps", "1"}, 1,
      {"words.npz: array 'labels'", "sample 1", "5 is out of range", "-5 to 4"});
  expect_refusal({"run", "words.onnxtxt", "--input", "words.npz", "--output", "y.npz"}, 1,
                 {"Gather", "5"});
}

// Outputs that would take the place of what is read, or of one another.
TEST_F(BadInput, OutputInThePlaceOfAnotherFile) {
  const std::string model = "classifier.onnxtxt";
  for (const char* option : {"--report", "--json"}) {
    for (const std::string& place : {model, "./" + model, "none/../" + model}) {
      if (place.starts_with("none")) fs::create_directory(file("none"));
      expect_refusal(convert(model, {option, place}), 1,
                     {std::string(option) + " '" + place + "' and the model: expected different"});
    }
    expect_refusal(convert(model, {option, "mixed.onnx"}), 1, {"and -o: expected different files"});
    expect_refusal(convert(model, {option, "./mixed.onnx.data"}), 1, {"and the data of -o"});
  }
  expect_refusal(convert(model, {"--json", "r", "--report", "./r"}), 1, {"and --report"});
  expect_refusal({"report", model, "-o", model}, 1, {"-o '" + model + "' and the input"});
  expect_refusal({"report", model, "--json", model}, 1, {"--json '" + model + "' and the input"});
  expect_refusal({"report", model, "--json", "r", "-o", "r"}, 1, {"--json 'r' and -o"});
  expect_refusal({"compile", model, "-o", model, "--batch-size", "4"}, 1, {"and the model"});
  expect_refusal({"run", model, "--input", "data.npz", "--output", model}, 1, {"and the model"});
  expect_refusal({"run", model, "--input", "data.npz", "--output", "data.npz"}, 1, {"and --input"});
}

// Data that a conversion no longer needs are the model's all the same.
TEST_F(BadInput, OutputInThePlaceOfExternalData) {
  write_text(file("w.safetensors"), std::string(16, '\0'));
  write_text(file("m.onnxtxt"), R"(<ir_version: 8, opset_import: ["" : 17]>
g (float[2,2] x) => (float[2,2] y)
<float[2,2] w = ["location": "w.safetensors"], float[2,2] unused = ["location": "w.safetensors"]>
{ y = Add (x, x) })");
  ASSERT_EQ(mezzo({"convert", "m.onnxtxt", "-o", "mixed.onnx", "-q"}).status, 0);
  for (const std::string& option : {std::string("--report"), std::string("--json")}) {
    expect_refusal(convert("m.onnxtxt", {option, "./w.safetensors"}), 1,
                   {option + " './w.safetensors' and the model's data: expected different files"});
  }
  expect_refusal({"report", "m.onnxtxt", "--json", "w.safetensors"}, 1, {"the model's data"});
  expect_refusal({"compile", "m.onnxtxt", "-o", "w.plan"}, 1, {"the weights of -o"});
}

TEST_F(BadInput, OutputThatCannotBeWritten) {
  expect_refusal({"convert", "classifier.onnxtxt", "-o", "none/mixed.onnx"}, 1,
                 {"none/mixed.onnx", "folder"});
  expect_refusal({"convert", "classifier.onnxtxt", "-o", "."}, 1, {"cannot be written"});
  expect_refusal(convert("classifier.onnxtxt", {"--report", "none/r.html"}), 1, {"none/r.html"});
  expect_refusal(convert("classifier.onnxtxt", {"--json", "none/r.json"}), 1, {"none/r.json"});
  expect_refusal({"compile", "classifier.onnxtxt", "-o", "none/m.plan", "--batch-size", "4"}, 1,
                 {"none/m.plan"});
  expect_refusal({"compile", "classifier.onnxtxt", "-o", "m.safetensors", "--batch-size", "4"}, 1,
                 {"m.safetensors"});
  expect_refusal({"run", "classifier.onnxtxt", "--input", "data.npz", "--output", "none/y.npz"}, 1,
                 {"none/y.npz"});
  expect_refusal(train({"--out", "data.npz"}), 1, {"--out 'data.npz'", "is a file"});
  expect_refusal(train({"--out", "data.npz/run"}), 1, {"--out"});
  fs::create_directories(file("taken/checkpoint"));
  write_text(file("taken/checkpoint/precious.txt"), "mine");
  expect_refusal(train({"--out", "taken"}), 1, {"--out 'taken'", "not one of ours"});
}

TEST_F(BadInput, FoldersWithoutPermission) {
  if (::geteuid() == 0) GTEST_SKIP() << "the superuser may write everywhere";
  fs::create_directory(file("locked"));
  fs::permissions(file("locked"), fs::perms::owner_read | fs::perms::owner_exec);
  expect_refusal({"convert", "classifier.onnxtxt", "-o", "locked/mixed.onnx"}, 1,
                 {"locked/mixed.onnx", "Permission"});
  expect_refusal(train({"--out", "locked/run"}), 1, {"locked", "Permission"});
  fs::permissions(file("locked"), fs::perms::owner_all);
}

// A run that stops before its first step is over leaves no folder behind.
TEST_F(BadInput, FailureInTheFirstStep) {
  write_model(
      "hidden.onnxtxt",
      R"((float[N,4] x, int64[N] labels) => (float loss) <float[4,3] w = {1,1,1,1,1,1,1,1,1,1,1,1}, int64 two = {2}>
{ scores = MatMul(x, w)
  shifted = Add(labels, two)
  loss = SoftmaxCrossEntropyLoss<reduction = "mean">(scores, shifted) })");
  const auto before = contents();
  const CommandResult result = mezzo({"train", "hidden.onnxtxt", "--data", "data.npz",
                                      "--batch-size", "4", "--steps", "3", "--out", "a/b"});
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.err.find("label"), std::string::npos) << result.err;
  EXPECT_EQ(contents(), before);
}

TEST_F(BadInput, MoreEpochsThanCanBeCounted) {
  expect_refusal({"train", "classifier.onnxtxt", "--data", "data.npz", "--batch-size", "4",
                  "--epochs", "9000000000000000000"},
                 1, {"--epochs 9000000000000000000", "too large"});
}

}  // namespace
}  // namespace mezzo::test
