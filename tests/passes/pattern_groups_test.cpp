// Spelled-out normalisations and Softmax as exporters and people write them, and near misses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "compiler/onnx/import.h"
#include "passes/cleanup/recognise.h"
#include "passes/pass_runner.h"
#include "passes/pipeline.h"
#include "tests/support/status_test.h"

namespace mezzo::passes {
namespace {

using test::IsOk;

// Name of the first result -> pattern, for the nodes of a body that gives y.
std::map<std::string, std::string> groups_of(const std::string& body, const std::string& x,
                                             const std::string& constants) {
  const auto model = test::value_or_die(
      import_text("<ir_version: 10, opset_import: [\"\" : 17]>\ng (" + x +
                  ", float[4,8] t) => (y)\n<" + constants + ">\n{\n" + body + "\n}"));
  PassContext ctx;
  EXPECT_THAT(run_passes(*model, ctx, {find_pass("infer-shapes")}), IsOk());
  std::map<std::string, std::string> names;
  for (const auto& [node, pattern] : pattern_groups(*model->graph))
    names[node->result()->name()] = pattern;
  return names;
}

struct Spelling {
  std::string title, pattern, body;
  std::string x = "float[4,8] x";
  std::string apart = "";  // results of nodes that do not belong to it, between blanks
};

constexpr const char* kConstants =
    "float eps = {1e-6}, float one = {1}, float two = {2}, float three = {3}, float half = {0.5}, "
    "float mhalf = "
    "{-0.5}, "
    "float count = {8}, float[8] g = {1,2,3,4,5,6,7,8}, float[8] b = {1,2,3,4,5,6,7,8}, "
    "float[1,8,1,1] gc = {1,2,3,4,5,6,7,8}, float[1,8,1,1] var = {1,2,3,4,5,6,7,8}, "
    "int64[1] last = {-1}, int64[3] groups = {2,4,-1}, int64[4] full = {2,8,6,6}";

const Spelling kSpellings[] = {
    {"a sum that divides something else", "", "s = ReduceSum (x, last)\ny = Div (t, s)"},
    {"sum of magnitudes by its own operator", "LpNormalization",
     "s = ReduceL1 <axes = [-1]> (x)\nm = Max (s, eps)\ny = Div (x, m)"},
    {"sum of magnitudes", "LpNormalization",
     "a = Abs (x)\ns = ReduceSum (a, last)\ne = Add (s, eps)\ny = Div (x, e)", "float[4,8] x",
     " a "},
    {"weights that sum to one", "LpNormalization",
     "a = Relu (x)\ns = ReduceSum (a, last)\ni = Reciprocal (s)\ny = Mul (a, i)", "float[4,8] x",
     " a "},
    {"pow and div", "LayerNormalization",
     "m = ReduceMean <axes = [-1]> (x)\nd = Sub (x, m)\nq = Pow (d, two)\nv = ReduceMean <axes = "
     "[-1]> (q)\n"
     "e = Add (v, eps)\ns = Sqrt (e)\no = Div (d, s)\np = Mul (o, g)\ny = Add (p, b)"},
    {"product, power of -0.5", "LayerNormalization",
     "m = ReduceMean <axes = [-1]> (x)\nd = Sub (x, m)\nq = Mul (d, d)\nv = ReduceMean <axes = "
     "[-1]> (q)\n"
     "e = Add (v, eps)\ns = Pow (e, mhalf)\no = Mul (d, s)\ny = Mul (g, o)"},
    {"one over the root, inner value read outside", "LayerNormalization",
     "m = ReduceMean <axes = [-1]> (x)\nd = Sub (x, m)\nq = Mul (d, d)\nv = ReduceMean <axes = "
     "[-1]> (q)\n"
     "e = Add (eps, v)\ns = Sqrt (e)\ni = Div (one, s)\no = Mul (d, i)\nz = Relu (m)\ny = Add (o, "
     "z)",
     "float[4,8] x", " z y "},
    {"mean of squares less square of mean", "LayerNormalization",
     "m = ReduceMean <axes = [-1]> (x)\nq = Mul (x, x)\nv = ReduceMean <axes = [-1]> (q)\nmm = Mul "
     "(m, m)\n"
     "u = Sub (v, mm)\ne = Add (u, eps)\ns = Sqrt (e)\nd = Sub (x, m)\ny = Div (d, s)"},
    {"sum over a count", "LayerNormalization",
     "m = ReduceMean <axes = [-1]> (x)\nd = Sub (x, m)\nq = Mul (d, d)\nu = ReduceSum (q, last)\nv "
     "= Div (u, count)\n"
     "e = Add (v, eps)\ns = Sqrt (e)\ny = Div (d, s)"},
    {"root mean square", "RMSNormalization",
     "q = Pow (x, two)\nv = ReduceMean <axes = [-1]> (q)\ne = Add (v, eps)\ns = Sqrt (e)\ni = "
     "Reciprocal (s)\n"
     "o = Mul (x, i)\ny = Mul (o, g)"},
    {"root mean square, power of 0.5 and a limit", "RMSNormalization",
     "q = Mul (x, x)\nv = ReduceMean <axes = [-1]> (q)\ne = Max (v, eps)\ns = Pow (e, half)\ny = "
     "Div (x, s)"},
    {"unit length", "LpNormalization",
     "q = Mul (x, x)\nv = ReduceSum (q, last)\ns = Sqrt (v)\ne = Max (s, eps)\ny = Div (x, e)"},
    {"unit length by ReduceL2", "LpNormalization",
     "s = ReduceL2 <axes = [-1]> (x)\ne = Clip (s, eps)\ny = Div (x, e)"},
    {"cosine similarity", "LpNormalization",
     "c = Mul (x, t)\ndot = ReduceSum <keepdims = 0> (c, last)\nq = Mul (x, x)\nv = ReduceSum "
     "<keepdims = 0> (q, last)\n"
     "s = Sqrt (v)\nq2 = Mul (t, t)\nv2 = ReduceSum <keepdims = 0> (q2, last)\ns2 = Sqrt (v2)\nss "
     "= Mul (s, s2)\n"
     "e = Max (ss, eps)\ny = Div (dot, e)",
     "float[4,8] x", " c dot "},
    {"over height and width", "InstanceNormalization",
     "m = ReduceMean <axes = [2, 3]> (x)\nd = Sub (x, m)\nq = Mul (d, d)\nv = ReduceMean <axes = "
     "[2, 3]> (q)\n"
     "e = Add (v, eps)\ns = Sqrt (e)\no = Div (d, s)\np = Mul (o, gc)\ny = Add (p, gc)",
     "float[2,8,6,6] x"},
    {"by pooling", "InstanceNormalization",
     "m = GlobalAveragePool (x)\nd = Sub (x, m)\nq = Mul (d, d)\nv = GlobalAveragePool (q)\n"
     "e = Add (v, eps)\ns = Sqrt (e)\ny = Div (d, s)",
     "float[2,8,6,6] x"},
    {"groups", "GroupNormalization",
     "r = Reshape (x, groups)\nm = ReduceMean <axes = [2]> (r)\nd = Sub (r, m)\nq = Mul (d, d)\n"
     "v = ReduceMean <axes = [2]> (q)\ne = Add (v, eps)\ns = Sqrt (e)\no = Div (d, s)\nf = Reshape "
     "(o, full)\n"
     "y = Mul (f, gc)",
     "float[2,8,6,6] x", " r f y "},
    {"stored statistics", "BatchNormalization",
     "d = Sub (x, gc)\ne = Add (var, eps)\ns = Sqrt (e)\no = Div (d, s)\np = Mul (o, gc)\ny = Add "
     "(p, gc)",
     "float[2,8,6,6] x"},
    {"with the maximum", "Softmax",
     "m = ReduceMax <axes = [-1]> (x)\nd = Sub (x, m)\ne = Exp (d)\ns = ReduceSum (e, last)\ny = "
     "Div (e, s)"},
    {"by the reciprocal", "Softmax",
     "e = Exp (x)\ns = ReduceSum (e, last)\ni = Reciprocal (s)\ny = Mul (e, i)"},
    {"logarithm of the sum", "ReduceLogSumExp",
     "e = Exp (x)\ns = ReduceSum (e, last)\ny = Log (s)"},
    {"taken from the shifted scores", "LogSoftmax",
     "m = ReduceMax <axes = [-1]> (x)\nd = Sub (x, m)\ne = Exp (d)\ns = ReduceSum (e, last)\nl = "
     "Log (s)\n"
     "y = Sub (d, l)"},
    {"log of one plus", "Softplus", "e = Exp (x)\np = Add (one, e)\ny = Log (p)"},
    {"one over one plus", "Sigmoid", "n = Neg (x)\ne = Exp (n)\np = Add (e, one)\ny = Div (one, p)",
     "float[4,8] x", " n "},
    // Near misses.
    {"a root that nothing is divided by", "",
     "q = Mul (x, x)\nv = ReduceMean <axes = [-1]> (q)\ns = Sqrt (v)\ny = Add (x, s)"},
    {"a root of no squares", "", "v = ReduceMean <axes = [-1]> (x)\ns = Sqrt (v)\ny = Div (x, s)"},
    {"squares that are not reduced", "",
     "q = Mul (x, x)\ne = Add (q, eps)\ns = Sqrt (e)\ny = Div (x, s)"},
    {"a product of two values", "",
     "q = Mul (x, t)\nv = ReduceMean <axes = [-1]> (q)\ns = Sqrt (v)\ny = Div (x, s)"},
    {"stored variance, mean of another kind", "",
     "e = Add (var, eps)\ns = Sqrt (e)\ny = Div (x, s)", "float[2,8,6,6] x"},
    {"a cube", "",
     "q = Pow (x, three)\nv = ReduceMean <axes = [-1]> (q)\ns = Sqrt (v)\ny = Div (x, s)"},
    {"another sum", "", "e = Exp (x)\ns = ReduceSum (t, last)\ny = Div (e, s)"},
    {"the sum divided", "", "e = Exp (x)\ns = ReduceSum (e, last)\ny = Div (s, t)"},
    {"plus two", "", "e = Exp (x)\np = Add (e, two)\ny = Log (p)"},
    {"two over one plus", "", "e = Exp (x)\np = Add (e, one)\ny = Div (two, p)"},
};

class Spelled : public testing::TestWithParam<Spelling> {};

TEST_P(Spelled, IsSeen) {
  const Spelling& spelling = GetParam();
  const auto groups = groups_of(spelling.body, spelling.x, kConstants);
  if (spelling.pattern.empty()) {
    EXPECT_THAT(groups, testing::IsEmpty());
    return;
  }
  std::size_t at = 0;
  while (at < spelling.body.size()) {
    const std::string result = spelling.body.substr(at, spelling.body.find(" = ", at) - at);
    const std::size_t end = spelling.body.find('\n', at);
    at = end == std::string::npos ? spelling.body.size() : end + 1;
    const auto found = groups.find(result);
    const bool apart = spelling.apart.find(" " + result + " ") != std::string::npos;
    EXPECT_EQ(found == groups.end() ? "" : found->second, apart ? "" : spelling.pattern) << result;
  }
}

INSTANTIATE_TEST_SUITE_P(Patterns, Spelled, testing::ValuesIn(kSpellings),
                         [](const testing::TestParamInfo<Spelling>& spelling) {
                           std::string name = spelling.param.pattern + "_" + spelling.param.title;
                           for (char& c : name) {
                             if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
                           }
                           return name;
                         });

}  // namespace
}  // namespace mezzo::passes
