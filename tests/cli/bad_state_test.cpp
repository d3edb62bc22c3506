// Checkpoints, plans and other files that mezzo wrote, damaged or of another run.

#include <filesystem>

#include "bad_input.h"

namespace mezzo::test {
namespace {

namespace fs = std::filesystem;

class BadCheckpoint : public BadInput {
 protected:
  BadCheckpoint() {
    const CommandResult made = mezzo(train({"--out", "run"}));
    EXPECT_EQ(made.status, 0) << made.err;
  }
  Arguments resume(const std::string& from, const Arguments& more = {}) const {
    Arguments all = train({"--steps", "6", "--out", "next", "--resume", from});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
};

TEST_F(BadCheckpoint, ThatIsNone) {
  expect_refusal(resume("none"), 1, {"none"});
  fs::create_directory(file("hollow"));
  expect_refusal(resume("hollow"), 1, {"hollow"});
  write_text(file("hollow/state.json"), "{}");
  expect_refusal(resume("hollow"), 1, {"hollow/state.json"});
  write_text(file("hollow/state.json"), "not JSON");
  expect_refusal(resume("hollow"), 1, {"hollow/state.json"});
  expect_refusal(resume("data.npz"), 1, {"data.npz"});
}

TEST_F(BadCheckpoint, OfAnotherRun) {
  expect_refusal(resume("run/checkpoint", {"--optimizer", "adam"}), 1,
                 {"run/checkpoint", "other options"});
  expect_refusal(resume("run/checkpoint", {"--lr", "0.5"}), 1, {"other options"});
  expect_refusal(resume("run/checkpoint", {"--no-shuffle"}), 1, {"order of samples"});
  write_model(
      "other.onnxtxt",
      R"((float[N,4] x, int64[N] labels) => (float loss) <float[4,3] v = {1,1,1,1,1,1,1,1,1,1,1,1}>
{ scores = MatMul(x, v)
  loss = SoftmaxCrossEntropyLoss<reduction = "mean">(scores, labels) })");
  Arguments other = resume("run/checkpoint");
  other[1] = "other.onnxtxt";
  expect_refusal(other, 1, {"run/checkpoint"});
  expect_refusal(resume("run/checkpoint", {"--steps", "3"}), 1, {"3 steps"});
}

TEST_F(BadCheckpoint, Damaged) {
  for (const char* part : {"model.safetensors", "optimizer.safetensors", "state.json"}) {
    fs::remove_all(file("hurt"));
    fs::copy(file("run/checkpoint"), file("hurt"), fs::copy_options::recursive);
    const std::string path = file(std::string("hurt/") + part);
    std::string content = read_text(path);
    content.resize(content.size() / 2);
    write_text(path, content);
    SCOPED_TRACE(part);
    expect_refusal(resume("hurt"), 1, {"hurt"});
    fs::remove(path);
    expect_refusal(resume("hurt"), 1, {"hurt"});
  }
}

TEST_F(BadInput, Plans) {
  ASSERT_EQ(mezzo({"compile", "classifier.onnxtxt", "-o", "m.plan", "--batch-size", "16"}).status,
            0);
  const std::string whole = read_text(file("m.plan"));
  const auto run = [](const std::string& plan) {
    return Arguments{"run", plan, "--input", "data.npz", "--output", "y.npz"};
  };
  expect_refusal(run("none.plan"), 1, {"none.plan"});
  write_text(file("junk.plan"), "junk junk junk");
  expect_refusal(run("junk.plan"), 1, {"junk.plan"});
  write_text(file("empty.plan"), "");
  expect_refusal(run("empty.plan"), 1, {"empty.plan"});
  for (std::size_t size = 7; size < whole.size(); size += whole.size() / 11) {
    write_text(file("cut.plan"), whole.substr(0, size));
    SCOPED_TRACE(size);
    expect_refusal(run("cut.plan"), 1, {"cut.plan"});
  }
  // Weights too large to lie in the plan itself.
  std::string weights = "1";
  for (int i = 1; i < 4 * 2048; ++i) weights += ",1";
  write_model("wide.onnxtxt", "(float[N,4] x) => (float[N,2048] y) <float[4,2048] w = {" + weights +
                                  "}> { y = MatMul(x, w) }");
  ASSERT_EQ(mezzo({"compile", "wide.onnxtxt", "-o", "wide.plan", "--batch-size", "16"}).status, 0);
  std::string stored = read_text(file("wide.safetensors"));
  stored.resize(stored.size() - 1);
  write_text(file("wide.safetensors"), stored);
  expect_refusal(run("wide.plan"), 1, {"wide.safetensors"});
  fs::remove(file("wide.safetensors"));
  expect_refusal(run("wide.plan"), 1, {"wide.safetensors"});
  expect_refusal({"run", "classifier.onnxtxt", "--input", "none.npz", "--output", "y.npz"}, 1,
                 {"none.npz"});
}

// Any single byte of a plan changed: refused, or run; never a crash.
TEST_F(BadInput, PlansWithOneByteChanged) {
  ASSERT_EQ(mezzo({"compile", "classifier.onnxtxt", "-o", "m.plan", "--batch-size", "16"}).status,
            0);
  const std::string whole = read_text(file("m.plan"));
  for (std::size_t at = 0; at < whole.size(); at += 1 + whole.size() / 60) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ (1 << (at % 8)));
    write_text(file("m.plan"), changed);
    const CommandResult result =
        mezzo({"run", "m.plan", "--input", "data.npz", "--output", "y.npz"});
    EXPECT_LE(result.status, 1) << "byte " << at << ": " << result.err;
  }
}

TEST_F(BadInput, InspectAndReport) {
  expect_refusal({"inspect", "none"}, 1, {"none"});
  fs::create_directory(file("folder"));
  expect_refusal({"inspect", "folder"}, 1, {"folder"});
  write_text(file("noise.bin"), "\x01\x02\x03");
  expect_refusal({"inspect", "noise.bin"}, 1, {"noise.bin"});
  expect_refusal({"report", "data.npz"}, 1, {"data.npz"});
  expect_refusal({"report", "classifier.onnxtxt", "-o", "none/r.html"}, 1, {"none/r.html"});
  expect_refusal({"opt", "classifier.onnxtxt", "--passes=fold-cast"}, 1,
                 {"'fold-cast'", "Did you mean 'fold-casts'?"});
}

}  // namespace
}  // namespace mezzo::test
