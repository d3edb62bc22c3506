// Operators of com.microsoft taken apart, against ONNX Runtime (contrib_cases.py).
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "compiler/support/dtype.h"
#include "passes/cleanup/decompose.h"
#include "passes/cleanup/fold_constants.h"
#include "tests/ops/decomposed.h"
#include "tests/support/status_test.h"

namespace mezzo::test {
namespace {

struct ContribCase {
  std::string title;
  OpSample sample;
  std::vector<OperandSample> results;
};

std::vector<std::string> items_of(std::string text) {
  for (char& c : text) c = c == '[' || c == ']' || c == ',' ? ' ' : c;
  std::istringstream stream(text);
  std::vector<std::string> items;
  for (std::string item; stream >> item;) items.push_back(item);
  return items;
}

bool is_real(const std::string& text) { return text.find_first_of(".e") != std::string::npos; }

Attribute::Value attribute_of(const std::string& text) {
  if (text.front() != '[') {
    if (std::isalpha(static_cast<unsigned char>(text.front())) != 0) return text;
    if (is_real(text)) return std::stof(text);
    return static_cast<std::int64_t>(std::stoll(text));
  }
  std::vector<std::int64_t> ints;
  std::vector<float> floats;
  for (const std::string& item : items_of(text)) {
    floats.push_back(std::stof(item));
    ints.push_back(static_cast<std::int64_t>(floats.back()));
  }
  if (is_real(text)) return floats;
  return ints;
}

OperandSample tensor_of(std::istringstream& line) {
  std::string dtype, dims;
  line >> dtype >> dims;
  if (dtype == "-") return absent();
  OperandSample sample;
  sample.dtype = dtype_from_name(dtype).value();
  for (const std::string& item : items_of(dims)) sample.dims.push_back(std::stoll(item));
  for (double value = 0.0; line >> value;) sample.values.push_back(value);
  return sample;
}

std::vector<ContribCase> read_cases() {
  std::ifstream file(MEZZO_CONTRIB_CASES);
  std::vector<ContribCase> cases;
  for (std::string text; std::getline(file, text);) {
    std::istringstream line(text);
    std::string word;
    line >> word;
    if (word == "case") {
      std::string title;
      std::getline(line >> std::ws, title);
      OpSample sample;
      sample.op = title.substr(0, title.find(':'));
      sample.domain = "com.microsoft";
      sample.results = 0;
      cases.push_back({title, std::move(sample), {}});
    } else if (word == "attr") {
      std::string name, value;
      line >> name >> value;
      static std::vector<std::unique_ptr<std::string>> names;  // samples hold views
      names.push_back(std::make_unique<std::string>(name));
      cases.back().sample.attributes.emplace_back(*names.back(), attribute_of(value));
    } else if (word == "in" || word == "const") {
      cases.back().sample.operands.push_back(tensor_of(line));
      cases.back().sample.operands.back().constant = word == "const";
    } else if (word == "out") {
      cases.back().results.push_back(tensor_of(line));
      ++cases.back().sample.results;
    }
  }
  return cases;
}

// Quantised results may differ by one: there the sum is rounded to float first.
void expect_results(const Doubles& got, const OperandSample& expected) {
  ASSERT_EQ(got.size(), expected.values.size());
  double largest = 1.0;
  for (const double value : expected.values) largest = std::max(largest, std::fabs(value));
  const double bound = is_floating(expected.dtype)       ? 3e-4 * largest
                       : dtype_bits(expected.dtype) == 8 ? 1.0
                                                         : 0.0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_NEAR(got[i], expected.values[i], bound) << "element " << i;
  }
}

// As decomposed(), but only results that a case has are asked for.
StatusOr<BuiltSample> decomposed_case(const ContribCase& c) {
  MEZZO_ASSIGN_OR_RETURN(BuiltSample built, build_sample(c.sample, 5));
  Graph& graph = *built.model.graph;
  for (std::size_t i = 0; i < c.results.size(); ++i) {
    if (!c.results[i].absent) graph.add_output(built.node->result(i));
  }
  passes::PassContext ctx;
  for (int round = 0; round < 2; ++round) {
    MEZZO_RETURN_IF_ERROR(passes::decompose(built.model, ctx).status());
    MEZZO_RETURN_IF_ERROR(passes::fold_constants(built.model, ctx).status());
  }
  MEZZO_RETURN_IF_ERROR(interpret(graph, built.inputs));
  return built;
}

TEST(DecomposeContrib, EqualsOnnxRuntime) {
  const std::vector<ContribCase> cases = read_cases();
  ASSERT_GT(cases.size(), 60U);
  for (const ContribCase& c : cases) {
    SCOPED_TRACE(c.title);
    const auto built = decomposed_case(c);
    ASSERT_THAT(built, IsOk());
    std::size_t output = 0;
    for (const OperandSample& result : c.results) {
      if (result.absent) continue;
      const Value* value = built->model.graph->outputs()[output++];
      expect_results(built->inputs.at(value).to_doubles(), result);
    }
  }
}

// What the rules do not cover stays as it is and says so.
TEST(DecomposeContrib, LeavesOtherFormsAlone) {
  const auto packed = decomposed({.op = "GroupNorm",
                                  .operands = {f({2, 3, 8}), f({8}), f({8})},
                                  .attributes = {{"groups", std::int64_t{4}}},
                                  .domain = "com.microsoft"});
  EXPECT_THAT(packed, FailsWith(StatusCode::kUnimplemented, testing::HasSubstr("GroupNorm")));
}

}  // namespace
}  // namespace mezzo::test
