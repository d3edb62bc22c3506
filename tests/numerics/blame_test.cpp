// Planted causes are found: the nodes blamed hold the culprit, none of them can be left out, and
// the policy made of them mends the conversion.
#include "passes/numerics/blame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>

#include "passes/numerics/compare.h"
#include "passes/numerics/prepare.h"
#include "passes/precision/policy_file.h"
#include "tests/numerics/numeric_case.h"
#include "tests/support/status_test.h"
#include "tests/support/temp_dir.h"
#include "tools/mezzo/compare_fix.h"

namespace mezzo::test {
namespace {

using numerics::Blame;
using numerics::BlameOptions;
using numerics::Lowering;

struct Planted {
  const char* what;
  std::string graph;
  std::vector<RuntimeValue> inputs;
  std::string culprit;  // name of a node
  DType low = DType::kFloat16;
};
void PrintTo(const Planted& planted, std::ostream* out) { *out << planted.what; }

std::vector<float> steps(float from, float step, int count) {
  std::vector<float> values;
  for (int i = 0; i < count; ++i) values.push_back(from + step * static_cast<float>(i));
  return values;
}

std::vector<Planted> planted() {
  // Work around the fault that must stay low: two products and an activation.
  const auto within = [](const std::string& body, const std::string& constants,
                         const std::string& inputs = "") {
    return "g (float[4,4] x" + inputs +
           ") => (float[4,4] y)\n<float[4,4] w = {1,0.5,0,0,0,1,0.5,0,0,0,1,0.5,0.5,0,0,1}" +
           constants + ">\n{ [first] h = MatMul (x, w)\n[act] g0 = Relu (h)\n" + body +
           "\n[last] y = MatMul (r, w) }";
  };
  const RuntimeValue x = floats({4, 4}, steps(1, 0.25F, 16));
  return {
      {"a product that overflows",
       within("[square] a = Mul (g0, k)\n[down] r = Div (a, k)", ", float k = {40000}"),
       {x},
       "square"},
      {"a sum of squares",
       within("[sq] a = Mul (g0, g0)\n[big] b = Mul (a, k)\n[sum] s = ReduceSum (b, ax)\n"
              "[root] t = Sqrt (s)\n[norm] r = Div (g0, t)",
              ", float k = {2000}, int64[1] ax = {1}"),
       {x},
       "sum"},
      {"an epsilon that vanishes",
       within("[zero] z = Sub (g0, g0)\n[eps] d = Add (z, e)\n[ratio] q = Div (d, d)\n"
              "[keep] r = Mul (g0, q)",
              ", float e = {0.000000001}"),
       {x},
       "eps"},
      {"an exponential",
       within("[exp] a = Exp (g0)\n[up] b = Mul (a, k)\n[log] r = Log (b)", ", float k = {3000}"),
       {x},
       "up"},
      {"positions",
       within("[cast] p = Cast <to = 1> (pos)\n[angle] a = Mul (p, f)\n[cos] c = Cos (a)\n"
              "[turn] r = Mul (g0, c)",
              ", float f = {0.7}", ", int64[4,1] pos"),
       {x, integers({4, 1}, {4001, 4002, 4003, 4005})},
       "angle"},
      {"a mask that is multiplied",
       within("[not] n = Sub (one, m)\n[mask] a = Mul (n, never)\n[add] b = Add (g0, a)\n"
              "[soft] r = Softmax (b)",
              ", float one = {1}, float never = {-3.4028234663852886e38}", ", float[4,4] m"),
       {x, floats({4, 4}, {1, 1, 0, 0, 1, 1, 1, 0, 1, 0, 0, 0, 1, 1, 1, 1})},
       "mask"},
      {"many digits lost in a difference",
       within("[shift] a = Add (g0, k)\n[back] r = Sub (a, k)", ", float k = {3000}"),
       {x},
       "shift"},
      {"the same in BF16",
       within("[shift] a = Add (g0, k)\n[back] r = Sub (a, k)", ", float k = {300}"),
       {x},
       "shift",
       DType::kBFloat16},
      {"an overflow in a loop",
       "g (int64 n, float[2,2] s) => (float[2,2] y)\n<float[2,2] w = {1,0,0,1}, float k = {2}>\n"
       "{ [loop] t = Loop <body = b (int64 i, bool c, float[2,2] t0) => (bool d, float[2,2] u)\n"
       "{ d = Identity (c)\n[twice] u = Mul (t0, k) }> (n, \"\", s)\n[log] l = Log (t)\n"
       "[last] y = MatMul (l, w) }",
       {integers({}, {20}), floats({2, 2}, {1, 2, 3, 4})},
       "loop"},
  };
}

struct Found {
  std::unique_ptr<Model> a, b;
  Lowering lowering;
  std::vector<RuntimeValue> outputs;
  Blame blame;

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const numerics::BlamedNode& node : blame.nodes)
      names.push_back(display_name(*node.lowered->node));
    return names;
  }
};

Found blame(const std::string& graph, const std::vector<RuntimeValue>& inputs, DType low,
            BlameOptions options = {}) {
  Found found;
  found.a = prepared(graph);
  found.b = converted(graph, naive_policy(low));
  const numerics::ModelMatch match = value_or_die(numerics::match_models(*found.a, *found.b));
  found.lowering = value_or_die(numerics::read_lowering(*found.a, *found.b, match));
  auto compared = value_or_die(numerics::compare_models(*found.a, *found.b, match, inputs, {}));
  found.outputs = std::move(compared.outputs_of_a);
  found.blame =
      value_or_die(numerics::find_blame(*found.a, found.lowering, inputs, found.outputs, options));
  // Lowering the same nodes in the original gives the very numbers of the conversion.
  EXPECT_EQ(found.blame.error_before, compared.output_error());
  return found;
}

double tolerance_of(DType low) { return low == DType::kBFloat16 ? 5e-2 : 2e-2; }

class PlantedCause : public testing::TestWithParam<Planted> {};

TEST_P(PlantedCause, IsBlamed) {
  const Planted& planted = GetParam();
  BlameOptions options;
  options.tolerance = tolerance_of(planted.low);
  const Found found = blame(planted.graph, planted.inputs, planted.low, options);
  ASSERT_EQ(found.blame.outcome, Blame::Outcome::kFound);
  EXPECT_GT(found.blame.error_before, options.tolerance);
  EXPECT_LE(found.blame.error_after, options.tolerance);
  EXPECT_TRUE(found.blame.minimal);
  EXPECT_LE(found.blame.runs, options.most_runs);
  EXPECT_THAT(found.names(), testing::Contains(planted.culprit));
  EXPECT_THAT(found.names(), testing::Not(testing::Contains("last")));
}

TEST_P(PlantedCause, NoneOfTheBlamedCanBeLeftOut) {
  const Planted& planted = GetParam();
  BlameOptions options;
  options.tolerance = tolerance_of(planted.low);
  const Found found = blame(planted.graph, planted.inputs, planted.low, options);
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < found.lowering.nodes.size(); ++i) {
    for (const numerics::BlamedNode& node : found.blame.nodes) {
      if (node.lowered->node == found.lowering.nodes[i].node) all.push_back(i);
    }
  }
  const auto error_with = [&](const std::vector<std::size_t>& kept) {
    const auto model =
        value_or_die(numerics::lower_all_but(*found.a, found.lowering, {kept.begin(), kept.end()}));
    const auto outputs = observe(*model, planted.inputs, nullptr);
    return numerics::difference(found.outputs[0], outputs[0]).error;
  };
  EXPECT_LE(error_with(all), options.tolerance);
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::vector<std::size_t> rest = all;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_GT(error_with(rest), options.tolerance) << "without " << found.names()[i];
  }
}

TEST_P(PlantedCause, IsMendedByThePolicy) {
  const Planted& planted = GetParam();
  BlameOptions options;
  options.tolerance = tolerance_of(planted.low);
  const Found found = blame(planted.graph, planted.inputs, planted.low, options);
  const TempDir folder;
  const std::string path = folder.file("model.onnxtxt");
  std::ofstream(path) << "<ir_version: 10, opset_import: [\"\" : 17]>\n" << planted.graph;
  const cli::Fix fix =
      value_or_die(cli::make_fix(path, *found.a, naive_policy(planted.low), found.blame,
                                 planted.inputs, found.outputs, options));
  EXPECT_TRUE(fix.enough);
  EXPECT_THAT(fix.nodes, testing::Contains(planted.culprit));
  const passes::PrecisionPolicy policy =
      value_or_die(passes::parse_policy(fix.json, "fix.json")).resolve();
  EXPECT_EQ(policy.low, planted.low);
  const auto mended = converted(planted.graph, policy);
  const auto outputs = observe(*mended, planted.inputs, nullptr);
  EXPECT_LE(numerics::difference(found.outputs[0], outputs[0]).error, options.tolerance);
}

INSTANTIATE_TEST_SUITE_P(Blame, PlantedCause, testing::ValuesIn(planted()));

TEST(Blame, RunsAreBounded) {
  // Every node of a long chain loses digits, and all must go back.
  std::string body;
  for (int i = 0; i < 40; ++i) {
    const std::string from = i == 0 ? "x" : "v" + std::to_string(i - 1);
    const std::string to = i == 39 ? "y" : "v" + std::to_string(i);
    body += "[n" + std::to_string(i) + "] " + to + " = " + (i % 2 == 0 ? "Add" : "Sub") + " (" +
            from + ", k)\n";
  }
  const std::string graph =
      "g (float[4] x) => (float[4] y) <float k = {1234.5678}>\n{ " + body + "}";
  BlameOptions options;
  options.tolerance = 1e-4;
  options.most_runs = 12;
  const Found few =
      blame(graph, {floats({4}, {0.11F, 0.22F, 0.33F, 0.44F})}, DType::kFloat16, options);
  EXPECT_LE(few.blame.runs, 12U);
  EXPECT_FALSE(few.blame.minimal);
  options.most_runs = 4;
  const Found fewer =
      blame(graph, {floats({4}, {0.11F, 0.22F, 0.33F, 0.44F})}, DType::kFloat16, options);
  EXPECT_EQ(fewer.blame.outcome, Blame::Outcome::kOutOfRuns);
  EXPECT_LE(fewer.blame.runs, 4U);
}

TEST(Blame, SaysWhereTheCauseIsNotTheLowering) {
  const std::string text =
      "g (float[2,2] x) => (float[2,2] y) <float[2,2] w = {1,2,3,4}>\n"
      "{ [mm] y = MatMul (x, w) }";
  const std::string other =
      "g (float[2,2] x) => (float[2,2] y) <float[2,2] w = {1,2,3,4}, float k = {9}>\n"
      "{ [mm] h = MatMul (x, w)\n[more] y = Add (h, k) }";
  const std::vector<RuntimeValue> inputs = {floats({2, 2}, {1, 2, 3, 4})};
  const auto a = prepared(text), b = converted(other, naive_policy()), c = prepared(other);
  const auto outputs = observe(*a, inputs, nullptr);
  for (const auto& [model, outcome] : {std::pair(b.get(), Blame::Outcome::kNotReproduced),
                                       std::pair(c.get(), Blame::Outcome::kNothingLow)}) {
    const numerics::ModelMatch match = value_or_die(numerics::match_models(*a, *model));
    const Lowering lowering = value_or_die(numerics::read_lowering(*a, *model, match));
    EXPECT_EQ(value_or_die(numerics::find_blame(*a, lowering, inputs, outputs, {})).outcome,
              outcome);
  }
}

// A converter that clamps constants, or has other weights: they are part of what it did.
TEST(Blame, ConstantsThatAreNotTheOriginals) {
  const std::string text =
      "g (float[2,2] x) => (float[2,2] y) <float[2,2] w = {1,2,3,4}, float[2,2] v = {1,0,0,1}>\n"
      "{ [a] h = MatMul (x, v)\n[b] y = MatMul (h, w) }";
  const std::string other =
      "g (float[2,2] x) => (float[2,2] y) <float[2,2] w = {1,2,3,9}, float[2,2] v = {1,0,0,1}>\n"
      "{ [a] h = MatMul (x, v)\n[b] y = MatMul (h, w) }";
  const std::vector<RuntimeValue> inputs = {floats({2, 2}, {1, 2, 3, 4})};
  const auto a = prepared(text), b = converted(other, naive_policy());
  const auto outputs = observe(*a, inputs, nullptr);
  const numerics::ModelMatch match = value_or_die(numerics::match_models(*a, *b));
  const Lowering lowering = value_or_die(numerics::read_lowering(*a, *b, match));
  const Blame found = value_or_die(numerics::find_blame(*a, lowering, inputs, outputs, {}));
  ASSERT_EQ(found.outcome, Blame::Outcome::kFound);
  ASSERT_EQ(found.nodes.size(), 1U);
  EXPECT_EQ(found.nodes[0].lowered->node->name, "b");
  EXPECT_DOUBLE_EQ(found.error_before, 20.0 / 22) << "[3,4] [2,9] is 42 instead of 22";
}

}  // namespace
}  // namespace mezzo::test
