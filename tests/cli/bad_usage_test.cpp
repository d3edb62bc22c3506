// Usage errors: exit status 2.

#include "bad_input.h"

namespace mezzo::test {
namespace {

TEST_F(BadInput, Commands) {
  expect_refusal({}, 2, {"no command given", "mezzo --help"});
  expect_refusal({"convrt"}, 2, {"unknown command 'convrt'", "Did you mean 'convert'?"});
  expect_refusal({"convert"}, 2, {"'model' is missing", "mezzo convert --help"});
  expect_refusal({"convert", "classifier.onnxtxt"}, 2, {"--output is missing"});
  expect_refusal({"train", "classifier.onnxtxt"}, 2, {" is missing"});
}

TEST_F(BadInput, UnknownOptions) {
  expect_refusal(convert("classifier.onnxtxt", {"--precison", "fp16"}), 2,
                 {"unknown option '--precison'", "Did you mean '--precision'?"});
  expect_refusal(train({"--batchsize=4"}), 2,
                 {"unknown option '--batchsize'", "Did you mean '--batch-size'?"});
  expect_refusal(train({"--qqqqqqqq"}), 2, {"unknown option '--qqqqqqqq'"});
  expect_refusal(train({"second.onnx"}), 2, {"unexpected argument 'second.onnx'"});
}

TEST_F(BadInput, NumbersAndWords) {
  expect_refusal(train({"--lr", "fast"}), 2, {"--lr: expected a number of at least 0, got 'fast'"});
  expect_refusal(train({"--lr", "-1"}), 2, {"--lr", "got '-1'"});
  expect_refusal(train({"--lr", "nan"}), 2, {"--lr", "got 'nan'"});
  expect_refusal(train({"--lr", "inf"}), 2, {"--lr", "got 'inf'"});
  expect_refusal(train({"--lr", ""}), 2, {"--lr"});
  expect_refusal(train({"--steps", "0"}), 2, {"--steps: expected a whole number of at least 1"});
  expect_refusal(train({"--steps", "2.5"}), 2, {"--steps"});
  expect_refusal(train({"--steps", "99999999999999999999"}), 2, {"--steps"});
  expect_refusal(train({"--steps"}), 2, {"--steps: expected a value"});
  expect_refusal(train({"--epochs", "2"}), 2, {"--epochs", "--steps", "cannot be given together"});
  expect_refusal(train({"--batch-size", "0"}), 2, {"--batch-size"});
  expect_refusal(train({"--threads", "0"}), 2,
                 {"--threads: expected a whole number from 1 to 1024"});
  expect_refusal(train({"--optimizer", "adamq"}), 2,
                 {"--optimizer", "sgd, adam, adamw", "Did you mean 'adam"});
  expect_refusal(train({"--precision", "fp17"}), 2, {"Did you mean 'fp16'?"});
  expect_refusal(train({"--schedule", "sawtooth"}), 2, {"--schedule", "warmup-cosine"});
  expect_refusal(train({"--betas", "0.9"}), 2, {"--betas", "0.9,0.999"});
  expect_refusal(train({"--betas", "0.9,1"}), 2, {"--betas"});
  expect_refusal(train({"--device", "gpu"}), 2, {"--device", "cpu, cuda or cuda:N", "got 'gpu'"});
  expect_refusal(train({"--dim", "N"}), 2, {"--dim", "NAME=N"});
  expect_refusal(convert("classifier.onnxtxt", {"--pad-channels", "7"}), 2,
                 {"--pad-channels", "off, 8, 16"});
  expect_refusal(convert("classifier.onnxtxt", {"--target", "abacus"}), 2, {"--target", "cpu"});
}

TEST_F(BadInput, EmptyPaths) {
  expect_refusal(train({"--out", ""}), 2, {"--out: expected a path, got ''"});
  expect_refusal({"convert", "classifier.onnxtxt", "-o", ""}, 2, {"--output: expected a path"});
  for (const char* option : {"--report", "--json", "--policy", "--dump-to"})
    expect_refusal(convert("classifier.onnxtxt", {option, ""}), 2, {option, "expected a path"});
}

TEST_F(BadInput, LossScale) {
  expect_refusal(train({"--loss-scale", "static"}), 2,
                 {"--loss-scale: expected dynamic, static:F or off"});
  expect_refusal(train({"--loss-scale", "static:0"}), 2, {"--loss-scale"});
  expect_refusal(train({"--loss-scale", "static:many"}), 2, {"--loss-scale"});
  expect_refusal(train({"--loss-scale", "dynamic", "--loss-scale-backoff", "2"}), 2,
                 {"backoff", "got 2"});
  expect_refusal(train({"--loss-scale", "dynamic", "--loss-scale-growth", "0.5"}), 2, {"growth"});
  expect_refusal(train({"--loss-scale", "dynamic", "--loss-scale-init", "131072"}), 2,
                 {"init", "65536", "131072"});
  expect_refusal(train({"--loss-scale-growth-interval", "0"}), 2, {"--loss-scale-growth-interval"});
  expect_refusal(train({"--loss-scale-max", "all"}), 2, {"--loss-scale-max", "none"});
}

TEST_F(BadInput, RegularExpressions) {
  expect_refusal(convert("classifier.onnxtxt", {"--pin", "("}), 2,
                 {"--pin: '('", "not a regular expression"});
  expect_refusal(train({"--freeze", "["}), 2, {"--freeze: '['", "not a regular expression"});
  expect_refusal(train({"--train", "*"}), 2, {"--train: '*'", "not a regular expression"});
}

TEST_F(BadInput, ConfigFile) {
  expect_refusal(train({"--config", "none.json"}), 2, {"none.json", "No such file"});
  write_text(file("c.json"), "{\"lr\": 0.1,");
  expect_refusal(train({"--config", "c.json"}), 2, {"c.json"});
  write_text(file("c.json"), "[1, 2]");
  expect_refusal(train({"--config", "c.json"}), 2, {"c.json", "expected a JSON object"});
  write_text(file("c.json"), R"({"learning-rate": 0.1, "lrr": 1})");
  expect_refusal(train({"--config", "c.json"}), 2,
                 {"c.json: unknown option", "keys are written without dashes"});
  write_text(file("c.json"), R"({"loss-scal": "off"})");
  expect_refusal(train({"--config", "c.json"}), 2,
                 {"unknown option 'loss-scal'", "Did you mean 'loss-scale'?"});
  write_text(file("c.json"), R"({"lr": "fast"})");
  expect_refusal(train({"--config=c.json"}), 2, {"--lr", "got 'fast'"});
  write_text(file("c.json"), R"({"lr": [0.1, 0.2]})");
  expect_refusal(train({"--config", "c.json"}), 2, {"'lr'", "expected text or a number"});
  write_text(file("c.json"), R"({"nesterov": "yes"})");
  expect_refusal(train({"--config", "c.json"}), 2, {"'nesterov'", "true or false"});
  write_text(file("c.json"), R"({"lr": 0.1, "lr": 0.2})");
  expect_refusal(train({"--config", "c.json"}), 2, {"c.json"});
}

}  // namespace
}  // namespace mezzo::test
