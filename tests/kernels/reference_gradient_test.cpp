// Every gradient kernel against central differences of its forward kernel, in double.
//
// A case runs the forward op, takes loss = sum of dy y with random dy, and compares the gradient
// kernel's results with (loss(x + h) - loss(x - h)) / 2h for every element of the operand.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>

#include "tests/kernels/reference_gradient_cases.h"
#include "tests/support/status_test.h"

namespace mezzo::kernels::test {
namespace {

using mezzo::test::IsOk;
using mezzo::test::value_or_die;

class Checker {
 public:
  explicit Checker(const GradientCase& c)
      : case_(c), attributes_(attributes(c.attributes)), inputs_(c.operands) {
    for (std::size_t i = 0; i < c.results.size(); ++i) {
      const DType dtype = i < c.result_dtypes.size() ? c.result_dtypes[i] : DType::kFloat64;
      descs_.push_back({dtype, c.results[i], Layout::kRowMajor});
    }
    results_ = forward();
    dy_ = random_tensor(c.results[0]);
  }

  void check(const Gradient& gradient) {
    SCOPED_TRACE(gradient.op);
    std::vector<Tensor> operands;
    std::vector<std::size_t> sources;  // operand of the forward op that result i is the gradient of
    std::vector<TensorDesc> descs;
    std::istringstream in(gradient.operands);
    for (std::string word; in >> word;) operands.push_back(named(word));
    std::istringstream out(gradient.results);
    for (std::string word; out >> word;) {
      sources.push_back(word == "-" ? 0 : static_cast<std::size_t>(word[1] - '0'));
      descs.push_back(word == "-" ? TensorDesc{} : inputs_[sources.back()].desc());
    }
    Attributes merged = attributes_;
    for (const AttributeValue& value : gradient.attributes) merged.set(value.name, value.value);
    const auto got = run(gradient.op, merged, operands, descs);
    ASSERT_THAT(got, IsOk());
    for (std::size_t r = 0; r < got->size(); ++r) {
      if (descs[r].present()) compare((*got)[r], numeric(sources[r]));
    }
  }

 private:
  std::vector<Tensor> forward() const {
    return value_or_die(run(case_.op, attributes_, inputs_, descs_));
  }

  Tensor named(const std::string& word) const {
    if (word == "-") return {};
    if (word == "dy") return dy_;
    const auto index = static_cast<std::size_t>(word[1] - '0');
    return word[0] == 'x' ? inputs_[index] : results_[index];
  }

  double loss() const {
    const std::vector<Tensor> results = forward();
    double sum = 0.0;
    for (std::int64_t i = 0; i < dy_.elems(); ++i) sum += dy_.at(i) * results[0].at(i);
    return sum;
  }

  std::vector<double> numeric(std::size_t operand) {
    constexpr double kStep = 1e-5;
    std::vector<double> slopes;
    Tensor& x = inputs_[operand];
    for (std::int64_t i = 0; i < x.elems(); ++i) {
      const double value = x.at(i);
      x.set(i, value + kStep);
      const double above = loss();
      x.set(i, value - kStep);
      const double below = loss();
      x.set(i, value);
      slopes.push_back((above - below) / (2.0 * kStep));
    }
    return slopes;
  }

  // The difference has an error of about 1e-16 / 1e-5 from rounding and 1e-10 f''' from its step.
  static void compare(const Tensor& got, const std::vector<double>& expected) {
    ASSERT_EQ(static_cast<std::size_t>(got.elems()), expected.size());
    double scale = 1.0;
    bool some = false;
    for (const double value : expected) {
      scale = std::max(scale, std::fabs(value));
      some = some || std::fabs(value) > 1e-3;
    }
    EXPECT_TRUE(some) << "every gradient is about zero: the case shows nothing";
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(got.at(static_cast<std::int64_t>(i)), expected[i], 2e-8 * scale)
          << "element " << i;
    }
  }

  const GradientCase& case_;
  Attributes attributes_;
  std::vector<Tensor> inputs_;
  std::vector<TensorDesc> descs_;
  std::vector<Tensor> results_;
  Tensor dy_;
};

TEST(ReferenceGradients, EqualCentralDifferences) {
  for (const GradientCase& c : gradient_cases()) {
    SCOPED_TRACE(c.title);
    Checker checker(c);
    for (const Gradient& gradient : c.gradients) checker.check(gradient);
  }
}

TEST(ReferenceGradients, AreAllChecked) {
  std::set<std::string> checked;
  for (const GradientCase& c : gradient_cases()) {
    for (const Gradient& gradient : c.gradients) checked.insert(gradient.op);
  }
  for (const std::string& op : listed_ops()) {
    if (op.find("Grad") == std::string::npos && op != "SumTo") continue;
    EXPECT_TRUE(checked.contains(op)) << op << " has no gradient case";
  }
}

}  // namespace
}  // namespace mezzo::kernels::test
