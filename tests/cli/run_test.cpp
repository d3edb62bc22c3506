// mezzo run: whatever a graph holds, in npz and in folders of messages, and what it refuses.

#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "cli_runner.h"
#include "compiler/onnx/value_file.h"
#include "compiler/support/atomic_file.h"
#include "runtime/io/npz.h"

namespace mezzo::test {
namespace {

using testing::ElementsAre;

class Run : public CliTest {
 protected:
  void run(const std::vector<std::string>& arguments) const {
    std::vector<std::string> all = {"run"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const CommandResult result = mezzo(all);
    EXPECT_EQ(result.status, 0) << result.err;
  }

  std::vector<float> floats(const std::string& npz, const std::string& name) const {
    const auto file_ = runtime::NpzFile::open(file(npz));
    if (!file_.ok()) return {};
    const auto data = file_->read(name);
    if (!data.ok()) return {};
    std::vector<float> values(data->bytes.size() / sizeof(float));
    if (!values.empty()) std::memcpy(values.data(), data->bytes.data(), data->bytes.size());
    return values;
  }

  void write_message(const std::string& name, TensorRef tensor) const {
    StoredValue value;
    value.kind = StoredValue::Kind::kTensor;
    value.tensor = std::move(tensor);
    std::filesystem::create_directories(std::filesystem::path(file(name)).parent_path());
    const Status written = write_value_file(file(name), value, Type(TensorType()));
    EXPECT_TRUE(written.ok()) << written.message();
  }
  StoredValue message(const std::string& name, const Type& type) const {
    auto value = read_value_file(file(name), type);
    EXPECT_TRUE(value.ok()) << value.status().message();
    return value.ok() ? std::move(value).value() : StoredValue();
  }
};

constexpr std::string_view kLoop = R"((float[N] x, int64 n) => (float[N] y) {
  y = Loop(n, , x) <body = b (int64 i, bool go, float[N] s) => (bool on, float[N] t) {
    on = Identity(go)
    t = Add(s, x)
  }>
})";

TEST_F(Run, ALoopInAFolderOfMessages) {
  write_model("loop.onnxtxt", kLoop);
  const float x[] = {1, -2, 3};
  const std::int64_t n = 4;
  write_message("in/input_0.pb", Tensor::from_floats({3}, x));
  write_message("in/input_1.pb", Tensor::from_ints({}, {&n, 1}));
  run({"loop.onnxtxt", "--input", "in", "--output", "out"});
  const StoredValue y = message("out/output_0.pb", Type(TensorType()));
  ASSERT_EQ(y.kind, StoredValue::Kind::kTensor);
  EXPECT_THAT(y.tensor->to_doubles(), ElementsAre(5, -10, 15));
}

TEST_F(Run, MessagesHoldBFloat16AndSequences) {
  write_model("mixed.onnxtxt", R"((bfloat16[2] x) => (bfloat16[2] y, seq(bfloat16[1]) parts) {
    y = Add(x, x)
    parts = SplitToSequence(y)
  })");
  const float x[] = {1.5F, -3};
  write_message("in/input_0.pb",
                Tensor::cast_of(Tensor::from_floats({2}, x), DType::kBFloat16, false));
  run({"mixed.onnxtxt", "--input", "in", "--output", "out"});
  const StoredValue y = message("out/output_0.pb", Type(TensorType()));
  EXPECT_EQ(y.tensor->dtype(), DType::kBFloat16);
  EXPECT_THAT(y.tensor->to_doubles(), ElementsAre(3, -6));
  Type sequence;
  sequence.kind = Type::Kind::kSequence;
  const StoredValue parts = message("out/output_1.pb", sequence);
  ASSERT_EQ(parts.elements.size(), 2U);
  EXPECT_THAT(parts.elements[1].tensor->to_doubles(), ElementsAre(-6));
  expect_refusal({"run", "mixed.onnxtxt", "--input", "in", "--output", "y.npz"}, 1,
                 {"output 'parts'", "npz cannot hold", "Hint: give --output a folder"});
}

// Sums of float16 beyond its range are infinite, whatever the CPU could hold.
TEST_F(Run, RoundsToDeclaredTypes) {
  write_model("half.onnxtxt", R"((float[2,3] x) => (float[2,1] y) <float[3,1] w = {300, 300, 300}> {
    low = Cast<to = 10>(x)
    low_w = Cast<to = 10>(w)
    product = MatMul(low, low_w)
    y = Cast<to = 1>(product)
  })");
  write_floats("x.npz", "x", {2, 3}, {100, 100, 100, 100, 1, 0.0625});
  run({"half.onnxtxt", "--input", "x.npz", "--output", "y.npz"});
  // 90000 is beyond 65504; 30318.75 rounds to a multiple of 16.
  EXPECT_THAT(floats("y.npz", "y"), ElementsAre(INFINITY, 30320));
}

TEST_F(Run, AnInputMayHaveADefault) {
  write_model("default.onnxtxt", R"((float[2] x, float[2] b = {10, 20}) => (float[2] y) {
    y = Add(x, b)
  })");
  write_floats("x.npz", "x", {2}, {1, 2});
  run({"default.onnxtxt", "--input", "x.npz", "--output", "y.npz"});
  EXPECT_THAT(floats("y.npz", "y"), ElementsAre(11, 22));
  // What is given goes before it.
  const float x[] = {1, 2}, b[] = {100, 200};
  write_message("in/input_0.pb", Tensor::from_floats({2}, x));
  write_message("in/input_1.pb", Tensor::from_floats({2}, b));
  run({"default.onnxtxt", "--input", "in", "--output", "y.npz"});
  EXPECT_THAT(floats("y.npz", "y"), ElementsAre(101, 202));
}

TEST_F(Run, SizesMayDependOnTheData) {
  write_model("found.onnxtxt", R"((float[N] x) => (float[M] y, int64[R,M] at) {
    zero = Constant<value = float {0.0}>()
    positive = Greater(x, zero)
    y = Compress<axis = 0>(x, positive)
    at = NonZero(positive)
  })");
  write_floats("x.npz", "x", {5}, {-1, 2, 0, 3, 4});
  run({"found.onnxtxt", "--input", "x.npz", "--output", "y.npz"});
  EXPECT_THAT(floats("y.npz", "y"), ElementsAre(2, 3, 4));
  write_floats("x.npz", "x", {2}, {-1, -2});
  run({"found.onnxtxt", "--input", "x.npz", "--output", "y.npz"});
  EXPECT_THAT(floats("y.npz", "y"), ElementsAre());
}

TEST_F(Run, RefusesInputsThatDoNotFit) {
  write_model("loop.onnxtxt", kLoop);
  write_floats("x.npz", "x", {3}, {1, 2, 3});
  expect_refusal({"run", "loop.onnxtxt", "--input", "x.npz", "--output", "y.npz"}, 1,
                 {"x.npz", "has no array 'n'"});
  write_floats("rank.npz", "x", {3, 1}, {1, 2, 3});
  expect_refusal({"run", "loop.onnxtxt", "--input", "rank.npz", "--output", "y.npz"}, 1,
                 {"rank.npz: array 'x': expected float[N], got float[3,1]"});
  std::filesystem::create_directories(file("empty"));
  expect_refusal({"run", "loop.onnxtxt", "--input", "empty", "--output", "y.npz"}, 1,
                 {"there is no input_0.pb for input 'x' (float[N])"});
  const float x[] = {1, 2};
  write_message("half/input_0.pb", Tensor::from_floats({2}, x));
  write_message("half/input_1.pb", Tensor::from_floats({2}, x));
  expect_refusal({"run", "loop.onnxtxt", "--input", "half", "--output", "y.npz"}, 1,
                 {"input_1.pb: input 'n': expected int64[], got float[2]"});
  EXPECT_TRUE(write_file(file("half/input_1.pb"), "no message").ok());
  expect_refusal({"run", "loop.onnxtxt", "--input", "half", "--output", "y.npz"}, 1,
                 {"input_1.pb: expected a TensorProto of ONNX"});
}

TEST_F(Run, EndsALoopWithoutEnd) {
  write_model("loop.onnxtxt", kLoop);
  const float x[] = {1, 2};
  const std::int64_t n = 1'000'000'000'000;
  write_message("in/input_0.pb", Tensor::from_floats({2}, x));
  write_message("in/input_1.pb", Tensor::from_ints({}, {&n, 1}));
  expect_refusal({"run", "loop.onnxtxt", "--input", "in", "--output", "out", "--loop-limit", "50"},
                 1, {"(Loop): still runs after 50 iterations", "--loop-limit"});
}

TEST_F(Run, RefusesMoreMemoryThanThereIs) {
  write_model("huge.onnxtxt", R"((int64[R] shape) => (float s) {
    a = ConstantOfShape(shape)
    s = ReduceSum<keepdims = 0>(a)
  })");
  const std::int64_t shape[] = {std::int64_t{1} << 31, std::int64_t{1} << 20};
  write_message("in/input_0.pb", Tensor::from_ints({2}, shape));
  expect_refusal({"run", "huge.onnxtxt", "--input", "in", "--output", "out"}, 1,
                 {"(ConstantOfShape)"});
}

}  // namespace
}  // namespace mezzo::test
