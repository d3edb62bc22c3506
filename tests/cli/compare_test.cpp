// Calibration, comparison and the search for NaN on the command line.
#include <gmock/gmock.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "cli_runner.h"
#include "runtime/io/npz.h"

namespace mezzo::test {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Scores that leave the range of FP16 before they are scaled: only data can tell.
constexpr const char* kScores = R"((float[1,2,4] q, float[1,4,2] k) => (float[1,2,2] y)
<float s = {20000}>
{
  [scores] a = MatMul (q, k)
  [scale] b = Div (a, s)
  [soft] y = Softmax (b)
})";

class Numerics : public CliTest {
 protected:
  Numerics() {
    write_model("scores.onnxtxt", kScores);
    write_inputs("x.npz", 200);
    write_inputs("small.npz", 2);
    // Everything low, whatever it holds.
    write_file("naive.json", R"({"precision": "fp16", "range_check": "off",
      "pins": {"normalization": "free", "softmax": "free", "embedding": "low", "loss": "free"},
      "categories": {"allow": "low", "infer": "low", "clear": "low", "deny": "low"}})");
  }

  void write_file(std::string_view name, std::string_view text) const {
    std::ofstream(file(name)) << text;
  }

  void write_inputs(std::string_view name, float size, std::int64_t samples = 1) const {
    const auto all = [&](float value) {
      std::vector<float> values;
      for (std::int64_t i = 0; i < samples * 8; ++i)
        values.push_back(i % 3 == 0 ? value : value / 2);
      return values;
    };
    auto writer = runtime::NpzWriter::create(file(name));
    ASSERT_TRUE(writer.ok());
    const auto add = [&](const char* array, std::vector<std::int64_t> dims) {
      const std::vector<float> values = all(size);
      ASSERT_TRUE(writer->add(array, DType::kFloat32, dims, std::as_bytes(std::span(values))).ok());
    };
    add("q", {samples, 2, 4});
    add("k", {samples, 4, 2});
    ASSERT_TRUE(writer->commit().ok());
  }

  json read_json(std::string_view name) const {
    std::ifstream in(file(name));
    return json::parse(in, nullptr, false);
  }

  CommandResult make_naive() const {
    return mezzo({"convert", "scores.onnxtxt", "-o", "naive.onnx", "--policy", "naive.json", "-q"});
  }
};

TEST_F(Numerics, CalibrationKeepsWhatSamplesShow) {
  const CommandResult result =
      mezzo({"convert", "scores.onnxtxt", "-o", "mixed.onnx", "--precision", "fp16", "--calibrate",
             "x.npz", "--json", "report.json", "--report", "report.html"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("calibrated on 1 sample of x.npz: 1 of 5 tensors near the limits, 1 "
                              "node kept FP32"),
                    HasSubstr("'a' reaches 1e+05 on the samples, beyond float16's 65504"),
                    HasSubstr("--precision bf16"), HasSubstr("outputs on 1 sample: within")));
  const json report = read_json("report.json");
  EXPECT_EQ(report["calibration"]["changes"][0]["node"], "scores");
  EXPECT_EQ(report["calibration"]["changes"][0]["before"], "float16");
  EXPECT_EQ(report["calibration"]["samples"], 1);
  EXPECT_LT(report["calibration"]["output_error"], 1e-3);
  std::ifstream page(file("report.html"));
  const std::string html{std::istreambuf_iterator<char>(page), {}};
  EXPECT_THAT(html, HasSubstr("\"near_limit\""));
}

TEST_F(Numerics, SamplesInOneFileOrSeveral) {
  write_inputs("many.npz", 2, 3);
  const CommandResult result =
      mezzo({"convert", "scores.onnxtxt", "-o", "mixed.onnx", "--precision", "fp16", "--calibrate",
             "many.npz", "--calibrate", "x.npz"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("calibrated on 4 samples of many.npz and 1 more: 1 of 5"));
  const CommandResult small = mezzo({"convert", "scores.onnxtxt", "-o", "mixed.onnx", "--precision",
                                     "fp16", "--calibrate", "many.npz"});
  EXPECT_THAT(small.out, HasSubstr("0 of 5 tensors near the limits, 0 nodes kept FP32"));
}

TEST_F(Numerics, SamplesThatDoNotFit) {
  const auto with = [](const std::string& samples) {
    return std::vector<std::string>{"convert",    "scores.onnxtxt", "-o",
                                    "mixed.onnx", "--calibrate",    samples};
  };
  write_floats("names.npz", "z", {1}, {1});
  expect_refusal(with("names.npz"), 1, {"names.npz: has no array 'q'"});
  write_floats("shape.npz", "q", {1, 2, 3}, {1, 2, 3, 4, 5, 6});
  expect_refusal(with("shape.npz"), 1, {"shape.npz", "'k'"});
  expect_refusal(with("none.npz"), 1, {"none.npz"});
  expect_refusal(
      {"convert", "scores.onnxtxt", "-o", "mixed.onnx", "--calibrate", "x.npz", "--json", "x.npz"},
      1, {"x.npz", "different files"});
  auto writer = runtime::NpzWriter::create(file("uneven.npz"));
  ASSERT_TRUE(writer.ok());
  const std::vector<float> values(24, 1.0F);
  const auto add = [&](const char* name, std::vector<std::int64_t> dims, std::size_t count) {
    ASSERT_TRUE(
        writer->add(name, DType::kFloat32, dims, std::as_bytes(std::span(values).first(count)))
            .ok());
  };
  add("q", {3, 2, 4}, 24);
  add("k", {2, 4, 2}, 16);
  ASSERT_TRUE(writer->commit().ok());
  expect_refusal(with("uneven.npz"), 1, {"uneven.npz: input 'q' has 3 samples, and input 'k' 2"});
}

TEST_F(Numerics, CompareOfEqualModels) {
  ASSERT_EQ(mezzo({"convert", "scores.onnxtxt", "-o", "mixed.onnx", "--precision", "fp16"}).status,
            0);
  const CommandResult result =
      mezzo({"compare", "scores.onnxtxt", "mixed.onnx", "--input", "small.npz"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, AllOf(HasSubstr("within 0.02"), HasSubstr("no tensor departs"),
                                Not(HasSubstr("blame"))));
}

TEST_F(Numerics, CompareNamesTheFirstDepartureAndTheBlamed) {
  ASSERT_EQ(make_naive().status, 0);
  const CommandResult result =
      mezzo({"compare", "scores.onnxtxt", "naive.onnx", "--input", "x.npz", "--json", "c.json"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("error: naive.onnx: output 'y': its error beside "
                                    "scores.onnxtxt is infinite, more than 0.02. Hint: --fix"));
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("first to depart: 'a' (float16), made by 'scores' (MatMul)"),
                    HasSubstr("blame: 2 of 3 lowered nodes"), HasSubstr("'scores' (MatMul)"),
                    HasSubstr("none of them can be left out")));
  const json found = read_json("c.json");
  EXPECT_EQ(found["format"], "mezzo-comparison");
  EXPECT_EQ(found["agrees"], false);
  EXPECT_EQ(found["first_departure"]["node"], "scores");
  EXPECT_EQ(found["first_departure"]["error"], "inf");
  EXPECT_EQ(found["blame"]["outcome"], "found");
  EXPECT_EQ(found["blame"]["minimal"], true);
  EXPECT_EQ(found["blame"]["nodes"][0]["node"], "scores");
  EXPECT_EQ(found["blame"]["nodes"].size(), 2U);
  EXPECT_LE(found["runs"], 100);
}

TEST_F(Numerics, TheFixMendsTheConversion) {
  ASSERT_EQ(make_naive().status, 0);
  const CommandResult fixed = mezzo({"compare", "scores.onnxtxt", "naive.onnx", "--input", "x.npz",
                                     "--policy", "naive.json", "--fix", "fix.json"});
  ASSERT_EQ(fixed.status, 0) << fixed.err;
  EXPECT_THAT(fixed.out, HasSubstr("wrote fix.json: converted with it, the outputs come within"));
  ASSERT_EQ(mezzo({"convert", "scores.onnxtxt", "-o", "fixed.onnx", "--policy", "fix.json"}).status,
            0);
  const CommandResult again =
      mezzo({"compare", "scores.onnxtxt", "fixed.onnx", "--input", "x.npz", "-q"});
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_EQ(again.out, "");
}

TEST_F(Numerics, FaultsOfComparing) {
  ASSERT_EQ(make_naive().status, 0);
  const auto with = [](const std::string& a, const std::string& b,
                       std::vector<std::string> more = {"--input", "x.npz"}) {
    more.insert(more.begin(), {"compare", a, b});
    return more;
  };
  expect_refusal(with("naive.onnx", "scores.onnxtxt"), 1, {"give the FP32 model first"});
  expect_refusal(with("scores.onnxtxt", "classifier.onnxtxt"), 1,
                 {"scores.onnxtxt, classifier.onnxtxt: the models differ in their inputs: 'q', 'k' "
                  "and"});
  expect_refusal(with("scores.onnxtxt", "naive.onnx", {"--input", "data.npz"}), 1,
                 {"data.npz: has no array 'q'"});
  expect_refusal(with("scores.onnxtxt", "naive.onnx", {"--input", "x.npz", "--fix", "x.npz"}), 1,
                 {"--fix", "different files"});
  expect_refusal(
      with("scores.onnxtxt", "naive.onnx", {"--input", "x.npz", "--fix", "no/such/fix.json"}), 1,
      {"no/such/fix.json"});
  expect_refusal(with("scores.onnxtxt", "naive.onnx", {}), 2, {"--input is missing"});
  expect_refusal(with("scores.onnxtxt", "naive.onnx", {"--input", "x.npz", "--max-runs", "1"}), 2,
                 {"--max-runs: expected a whole number from 8"});
  expect_refusal(with("scores.onnxtxt", "naive.onnx", {"--input", "x.npz", "--tolerance", "0"}), 2,
                 {"--tolerance: expected a number above 0"});
}

TEST_F(Numerics, TraceNamesTheFirstNan) {
  ASSERT_EQ(make_naive().status, 0);
  const CommandResult result =
      mezzo({"run", "naive.onnx", "--input", "x.npz", "--trace", "nan", "--output", "y.npz"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err,
              HasSubstr("error: naive.onnx: node 'scores' (MatMul) makes infinities in "));
  EXPECT_THAT(result.err, HasSubstr("it reads 'q_fp16' 100 to 200, 'k_fp16' 100 to 200"));
  EXPECT_THAT(result.out, AllOf(HasSubstr("wrote y.npz"), HasSubstr("the first NaN: node 'soft'")));
  const CommandResult fp32 = mezzo({"run", "scores.onnxtxt", "--input", "x.npz", "--trace", "nan"});
  EXPECT_EQ(fp32.status, 0) << fp32.err;
  EXPECT_EQ(fp32.out, "no node makes inf or NaN of finite numbers\n");
  EXPECT_EQ(
      mezzo({"run", "scores.onnxtxt", "--input", "x.npz", "--trace", "nan", "--precision", "fp16"})
          .status,
      1);
  expect_refusal({"run", "scores.onnxtxt", "--input", "x.npz", "--trace", "inf"}, 2,
                 {"--trace: expected nan"});
  expect_refusal({"run", "scores.onnxtxt", "--input", "x.npz"}, 2, {"--output is missing"});
}

}  // namespace
}  // namespace mezzo::test
