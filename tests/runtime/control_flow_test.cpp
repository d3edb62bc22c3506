// Control flow in training: a Loop, Scan or If trains like the straight line that it stands for.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model_text.h"
#include "tests/support/status_test.h"
#include "training_session.h"

namespace mezzo {
namespace {

using test::IsOk;
using test::ModelText;
using test::Session;
using test::SessionOptions;
using test::value_or_die;
using testing::HasSubstr;

SessionOptions adamw() {
  SessionOptions options;
  options.evaluate = true;
  options.trainer.optimizer.kind = runtime::OptimizerKind::kAdamW;
  options.trainer.optimizer.lr = 0.02;
  options.trainer.loss_scale.mode = runtime::LossScaleMode::kOff;
  return options;
}

// x [N, 4, 5] -> hidden 5 -> loss; weights w, r, bias; `nodes` make h [N, 5] and ys [N, 4, 5].
ModelText recurrent(const std::string& nodes) {
  ModelText model;
  model.input("float[N,4,5] x").output("float loss");
  model.weight("w", {5, 5}).weight("r", {5, 5}).weight("bias", {5});
  model.nodes(R"(
    zero = Constant <value = float[1] {0}> ()
    mean = ReduceMean <keepdims = 0> (x, axis_1)
    h0 = Mul (mean, zero)
)" + nodes + R"(
    square = Mul (ys, ys)
    a = ReduceMean <keepdims = 0> (square)
    b = ReduceMean <keepdims = 0> (h)
    loss = Add (a, b)
)");
  model.ints("axis_1", {1});
  return model;
}

std::string cell(const std::string& x, const std::string& before, const std::string& after) {
  return "p_" + after + " = MatMul (" + x + ", w)\nq_" + after + " = MatMul (" + before +
         ", r)\ns_" + after + " = Add (p_" + after + ", q_" + after + ")\nt_" + after +
         " = Add (s_" + after + ", bias)\n" + after + " = Tanh (t_" + after + ")\n";
}

// The cell four times over, from the last column to the first.
std::string backwards_by_hand() {
  std::string nodes =
      "sizes = Constant <value_ints = [1, 1, 1, 1]> ()\n"
      "c0, c1, c2, c3 = Split <axis = 1> (x, sizes)\n";
  std::string before = "h0";
  for (const std::string t : {"3", "2", "1", "0"}) {
    nodes += "x" + t + " = Squeeze (c" + t + ", axis_1)\n" + cell("x" + t, before, "y" + t) + "u" +
             t + " = Unsqueeze (y" + t + ", axis_1)\n";
    before = "y" + t;
  }
  return nodes + "ys = Concat <axis = 1> (u0, u1, u2, u3)\nh = Identity (y0)\n";
}

std::string backwards_by_scan() {
  return "[scan] h, ys = Scan <num_scan_inputs = 1, scan_input_axes = [1], "
         "scan_input_directions = [1], scan_output_axes = [1], scan_output_directions = [1], "
         "body = b (float[N,5] before, float[N,5] column) => (float[N,5] after, float[N,5] row) {" +
         cell("column", "before", "after") + "row = Identity (after) }> (h0, x)\n";
}

// Gathers its column by a number that it counts down, and collects the rows in a sequence.
std::string backwards_by_loop() {
  return "trips = Constant <value_int = 4> ()\n"
         "empty = SequenceEmpty <dtype = 1> ()\n"
         "[loop] h, rows = Loop (trips, \"\", h0, empty) <body = b (int64 i, bool going, "
         "float[N,5] before, seq(float[N,1,5]) rows_in) => (bool go_on, float[N,5] after, "
         "seq(float[N,1,5]) rows_out) {"
         "go_on = Identity (going)\n"
         "last = Constant <value_int = 3> ()\nat = Sub (last, i)\n"
         "column = Gather <axis = 1> (x, at)\n" +
         cell("column", "before", "after") +
         "row = Unsqueeze (after, axis_1)\nfront = Constant <value_int = 0> ()\n"
         "rows_out = SequenceInsert (rows_in, row, front) }>\n"
         "ys = ConcatFromSequence <axis = 1> (rows)\n";
}

void expect_equal_training(const std::string& one, const std::string& other,
                           const std::string& precision) {
  std::vector<float> losses[2], weights[2];
  double evaluated[2];
  for (const int side : {0, 1}) {
    SessionOptions options = adamw();
    options.precision = precision;
    const auto session = value_or_die(Session::open(side == 0 ? one : other, options));
    for (const runtime::StepMetrics& step : session->steps(6)) losses[side].push_back(step.loss);
    for (const char* name : {"w", "r", "bias"}) {
      for (const float v : session->master(name)) weights[side].push_back(v);
    }
    evaluated[side] = value_or_die(session->trainer().evaluate(session->data_path())).loss;
  }
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_EQ(weights[0], weights[1]);
  EXPECT_EQ(evaluated[0], evaluated[1]);
  EXPECT_LT(losses[0].at(3), losses[0].at(0)) << "the same batch, three steps later";
}

TEST(ControlFlow, ScanTrainsLikeItsStraightLine) {
  for (const char* precision : {"fp32", "bf16", "fp16"}) {
    SCOPED_TRACE(precision);
    expect_equal_training(recurrent(backwards_by_hand()).text(),
                          recurrent(backwards_by_scan()).text(), precision);
  }
}

TEST(ControlFlow, LoopTrainsLikeItsStraightLine) {
  expect_equal_training(recurrent(backwards_by_hand()).text(),
                        recurrent(backwards_by_loop()).text(), "fp32");
}

// The branch is chosen by the batch: in some steps one weight moves, in others the other.
TEST(ControlFlow, IfTrainsTheBranchThatIsTaken) {
  ModelText model;
  model.input("float[N,3] x").output("float loss");
  model.weight("yes", {3}).weight("no", {3}).filled("limit", {}, 0.0F);
  model.nodes(R"(
    sum = ReduceSum <keepdims = 0> (x)
    positive = Greater (sum, limit)
    [choose] y = If (positive) <then_branch = t () => (float[N,3] a) { a = Mul (x, yes) },
                                else_branch = e () => (float[N,3] b) { b = Mul (x, no) }>
    square = Mul (y, y)
    loss = ReduceMean <keepdims = 0> (square)
)");
  SessionOptions options = adamw();
  options.trainer.optimizer.kind = runtime::OptimizerKind::kSgd;
  options.freeze = {"limit"};
  options.samples = 8;
  options.edit_floats = [](const std::string&, std::vector<float>& values) {
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = i < values.size() / 2 ? 0.5F : -0.5F;
  };
  const auto session = value_or_die(Session::open(model.text(), options));
  const std::vector<float> yes = session->master("yes"), no = session->master("no");
  session->steps(1);
  EXPECT_NE(session->master("yes"), yes);
  EXPECT_EQ(session->master("no"), no);
  const std::vector<float> yes_then = session->master("yes");
  session->steps(1);
  EXPECT_EQ(session->master("yes"), yes_then);
  EXPECT_NE(session->master("no"), no);
}

// The derivative of the branch that is not taken is infinite.
TEST(ControlFlow, IfKeepsTheOtherBranchOut) {
  ModelText model;
  model.input("float[N,3] x").output("float loss");
  model.filled("w", {3}, 0.5F).filled("limit", {}, 0.0F).filled("factor", {}, 2.0F);
  model.nodes(R"(
    least = ReduceMin <keepdims = 0> (x)
    positive = Greater (least, limit)
    [choose] y = If (positive) <then_branch = t () => (float[N,3] a) { p = Mul (x, w) q = Mul (p, factor) a = Log (q) },
                                else_branch = e () => (float[N,3] b) { r = Mul (x, w) b = Mul (r, r) }>
    loss = ReduceMean <keepdims = 0> (y)
)");
  SessionOptions options = adamw();
  options.trainer.optimizer.kind = runtime::OptimizerKind::kSgd;
  options.freeze = {"limit"};
  options.edit_floats = [](const std::string&, std::vector<float>& values) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = i % 3 == 0 ? 0.0F : 1.0F;
  };
  const auto session = value_or_die(Session::open(model.text(), options));
  EXPECT_FALSE(session->steps(1).at(0).skipped);
  EXPECT_EQ(session->master("factor")[0], 2.0F);
  const std::vector<float> w = session->master("w");
  EXPECT_EQ(w[0], 0.5F);
  EXPECT_FLOAT_EQ(w[1], 0.5F - 0.02F * 2 * 0.5F / 3);  // d/dw of mean (x w)^2
}

// One Split with a result per trip.
TEST(ControlFlow, ManyTrips) {
  ModelText model;
  model.input("float[N,300,2] x").output("float loss").weight("w", {2}).filled("zeros", {4, 2}, 0);
  model.nodes(R"(
    [sum] h, last = Scan <num_scan_inputs = 1, scan_input_axes = [1], body = b (float[N,2] before, float[N,2] column)
      => (float[N,2] after, float row) {
        p = Mul (column, w)
        after = Add (before, p)
        row = ReduceMean <keepdims = 0> (after)
      }> (zeros, x)
    square = Mul (h, h)
    loss = ReduceMean <keepdims = 0> (square)
)");
  SessionOptions options = adamw();
  options.freeze = {"zeros"};
  const auto session = value_or_die(Session::open(model.text(), options));
  const auto steps = session->steps(4);
  EXPECT_LT(steps[3].loss, steps[0].loss);
}

TEST(ControlFlow, UnknownTripCountIsRefused) {
  ModelText model;
  model.input("float[N,3] x").output("float loss").weight("w", {3}).filled("limit", {}, 9.0F);
  model.nodes(R"(
    start = Mul (x, w)
    [grow] y = Loop ("", "", start) <body = b (int64 i, bool going, float[N,3] h) => (bool go_on, float[N,3] next) {
      next = Add (h, h)
      sum = ReduceSum <keepdims = 0> (next)
      go_on = Less (sum, limit)
    }>
    loss = ReduceMean <keepdims = 0> (y)
)");
  const auto session = Session::open(model.text(), adamw());
  ASSERT_FALSE(session.ok());
  EXPECT_THAT(session.status().message(), HasSubstr("node 'grow' (Loop): whether it makes trip 1"));
}

}  // namespace
}  // namespace mezzo
