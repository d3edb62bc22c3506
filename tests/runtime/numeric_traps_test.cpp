// Training graphs with what goes wrong in 16 bits unless somebody sees to it: losses, norms, masks,
// positions and sums spelled out as exporters and people write them, on data that spring the trap.
// Without the user's help, losses and first gradients must stay beside those of FP32.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "model_text.h"
#include "runtime/io/npz.h"
#include "tests/support/status_test.h"
#include "training_session.h"

namespace mezzo {
namespace {

using test::ModelText;
using test::Session;
using test::SessionOptions;
using test::value_or_die;

// Every graph has x [N, 6], t [N, 8] in 0 .. 1, k [N, 1] in 0 .. 7, h = x w [N, 8], and gives loss.
struct Trap {
  std::string title, nodes;
  float x = 1, w = 0.5F;  // magnitudes
  void (*more)(ModelText&) = [](ModelText&) {};
  float scale = 128;  // of the loss, in FP16: less where the true gradients are large
  float fp16 = 0.01F, bf16 = 0.06F;  // how far gradients may be off, relative
};

ModelText start(const Trap& trap) {
  ModelText model;
  model.input("float[N,6] x").input("float[N,8] t").input("int64[N,1] k").output("float loss");
  model.weight("w", {6, 8}, trap.w).weight("v", {8, 5});
  for (const auto& [name, value] : {std::pair("c_0", 0.0F),
                                    {"c_1", 1.0F},
                                    {"c_2", 2.0F},
                                    {"c_3", 3.0F},
                                    {"c_half", 0.5F},
                                    {"c_8", 8.0F},
                                    {"c_1e8", 1e-8F},
                                    {"c_1e6", 1e-6F},
                                    {"c_1e5", 1e-5F},
                                    {"c_1e3", 1e-3F},
                                    {"c_7", 1e-7F},
                                    {"c_near1", 1.0F - 1e-6F},
                                    {"c_low", -3.4028235e38F},
                                    {"c_1e9", -1e9F}})
    model.filled(name, {}, value);
  model.ints("last", {-1}).ints("first", {0}).ints("both", {0, 1});
  trap.more(model);
  model.nodes("h = MatMul(x, w)");
  model.nodes(trap.nodes);
  return model;
}

const Trap kTraps[] = {
    {.title = "bce_with_logits_as_exported",
     .nodes = "p = Sigmoid(h)\nlp = Log(p)\nq = Sub(c_1, p)\nlq = Log(q)\nu = Sub(c_1, t)\n"
              "a = Mul(t, lp)\nb = Mul(u, lq)\nc = Add(a, b)\nd = Neg(c)\n"
              "loss = ReduceMean<keepdims = 0>(d)",
     .x = 40},
    {.title = "bce_of_probabilities_with_epsilon",
     .nodes = "p = Sigmoid(h)\npe = Add(p, c_1e8)\nlp = Log(pe)\nq = Sub(c_1, p)\n"
              "qe = Add(q, c_1e8)\nlq = Log(qe)\nu = Sub(c_1, t)\na = Mul(t, lp)\nb = Mul(u, lq)\n"
              "c = Add(a, b)\nd = Neg(c)\nloss = ReduceMean<keepdims = 0>(d)",
     .x = 6},
    {.title = "bce_of_limited_probabilities",
     .nodes = "s = Sigmoid(h)\np = Clip(s, c_1e6, c_near1)\nlp = Log(p)\nq = Sub(c_1, p)\n"
              "lq = Log(q)\nu = Sub(c_1, t)\na = Mul(t, lp)\nb = Mul(u, lq)\nc = Add(a, b)\n"
              "d = Neg(c)\nloss = ReduceMean<keepdims = 0>(d)",
     .x = 6},
    {.title = "log_of_softmax",
     .nodes = "p = Softmax(h)\nl = Log(p)\nc = GatherElements<axis = 1>(l, k)\nd = Neg(c)\n"
              "loss = ReduceMean<keepdims = 0>(d)",
     .x = 60},
    {.title = "log_of_chosen_softmax",
     .nodes = "p = Softmax(h)\nc = GatherElements<axis = 1>(p, k)\nl = Log(c)\nd = Neg(l)\n"
              "loss = ReduceMean<keepdims = 0>(d)",
     .x = 60},
    {.title = "label_smoothing_spelled",
     .nodes = "m = ReduceMax<axes = [1]>(h)\ns = Sub(h, m)\ne = Exp(s)\nz = ReduceSum(e, last)\n"
              "lz = Log(z)\nl = Sub(s, lz)\nc = GatherElements<axis = 1>(l, k)\n"
              "u = ReduceMean<axes = [1]>(l)\na = Mul(c, c_09)\nb = Mul(u, c_01)\nd = Add(a, b)\n"
              "f = Neg(d)\nloss = ReduceMean<keepdims = 0>(f)",
     .x = 20,
     .more = [](ModelText& m) { m.filled("c_09", {}, 0.9F).filled("c_01", {}, 0.1F); }},
    {.title = "focal_loss",
     .nodes = "l = LogSoftmax(h)\nc = GatherElements<axis = 1>(l, k)\np = Exp(c)\nq = Sub(c_1, p)\n"
              "g = Pow(q, c_2)\na = Mul(g, c)\nd = Neg(a)\nloss = ReduceMean<keepdims = 0>(d)",
     .x = 4},
    {.title = "sigmoid_focal_loss",
     .nodes = "p = Sigmoid(h)\nlp = Log(p)\nq = Sub(c_1, p)\nlq = Log(q)\nu = Sub(c_1, t)\n"
              "a = Mul(t, lp)\nb = Mul(u, lq)\nc = Add(a, b)\nce = Neg(c)\npt1 = Mul(p, t)\n"
              "pt2 = Mul(q, u)\npt = Add(pt1, pt2)\nr = Sub(c_1, pt)\nf = Pow(r, c_2)\n"
              "d = Mul(f, ce)\nloss = ReduceMean<keepdims = 0>(d)",
     .x = 6},
    {.title = "dice_of_squares_over_many",
     .nodes = "b = Expand(h, wide)\np = Sigmoid(b)\nn = Mul(p, p)\na = ReduceSum<keepdims = 0>(n)\n"
              "tt = Mul(t, t)\nte = Expand(tt, wide)\nc = ReduceSum<keepdims = 0>(te)\n"
              "it = Mul(p, t)\ni = ReduceSum<keepdims = 0>(it)\ni2 = Mul(i, c_2)\n"
              "num = Add(i2, c_1)\nac = Add(a, c)\nden = Add(ac, c_1)\ndice = Div(num, den)\n"
              "loss = Sub(c_1, dice)",
     .more =
         [](ModelText& m) {
           m.ints("wide", {512, 4, 8});
         }},
    {.title = "kl_spelled",
     .nodes = "p = Softmax(h)\nlp = Log(p)\nlt = LogSoftmax(t)\nd = Sub(lp, lt)\na = Mul(p, d)\n"
              "s = ReduceSum<keepdims = 0>(a, last)\nloss = ReduceMean<keepdims = 0>(s)",
     .x = 30},
    {.title = "vae_kl",
     .nodes = "mu, lv = Split<axis = 1>(h, halves)\nm2 = Mul(mu, mu)\nev = Exp(lv)\n"
              "a = Add(lv, c_1)\nb = Sub(a, m2)\nc = Sub(b, ev)\n"
              "s = ReduceSum<keepdims = 0>(c, last)\nmean = ReduceMean<keepdims = 0>(s)\n"
              "hm = Mul(mean, c_half)\nloss = Neg(hm)",
     .x = 4,
     .more =
         [](ModelText& m) {
           m.ints("halves", {4, 4});
         }},
    {.title = "infonce_with_learned_temperature",
     .nodes = "q = Mul(h, h)\ns = ReduceSum(q, last)\nr = Sqrt(s)\nn = Max(r, c_1e8)\n"
              "z = Div(h, n)\nzt = Transpose<perm = [1, 0]>(z)\ng = MatMul(z, zt)\n"
              "e = Exp(temperature)\nl = Mul(g, e)\nls = LogSoftmax(l)\nc = Mul(ls, c_eye)\n"
              "d = ReduceSum<keepdims = 0>(c)\nloss = Neg(d)",
     .more =
         [](ModelText& m) {
           m.filled("temperature", {}, 2.6F);
           m.values("c_eye", {4, 4}, {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1});
         },
     .fp16 = 0.02F,
     .bf16 = 0.15F},
    {.title = "mask_of_the_lowest_number_added",
     .nodes = "ki = Cast<to = 1>(k)\nm = Less(ki, c_8)\nq = Cast<to = 1>(m)\nu = Sub(c_1, t)\n"
              "b = Greater(t, c_half)\nbf = Cast<to = 1>(b)\nmask = Mul(bf, c_low)\n"
              "s = Add(h, mask)\np = Softmax(s)\ny = MatMul(p, v)\ny2 = Mul(y, y)\n"
              "loss = ReduceMean<keepdims = 0>(y2)"},
    {.title = "mask_of_minus_1e9_added",
     .nodes = "b = Greater(t, c_half)\nbf = Cast<to = 1>(b)\nmask = Mul(bf, c_1e9)\n"
              "s = Add(h, mask)\np = Softmax(s)\ny = MatMul(p, v)\ny2 = Mul(y, y)\n"
              "loss = ReduceMean<keepdims = 0>(y2)"},
    {.title = "mask_chosen",
     .nodes = "b = Greater(t, c_half)\ns = Where(b, c_low, h)\np = Softmax(s)\ny = MatMul(p, v)\n"
              "y2 = Mul(y, y)\nloss = ReduceMean<keepdims = 0>(y2)"},
    {.title = "rms_norm_spelled",
     .nodes = "q = Pow(h, c_2)\nm = ReduceMean<axes = [-1]>(q)\ne = Add(m, c_1e6)\nr = Sqrt(e)\n"
              "i = Reciprocal(r)\nn = Mul(h, i)\ny = MatMul(n, v)\nd = Mul(y, y)\n"
              "e3 = Mul(d, y)\nloss = ReduceMean<keepdims = 0>(e3)",
     .x = 600},
    {.title = "rms_norm_of_small_values",
     .nodes = "q = Mul(h, h)\nm = ReduceMean<axes = [-1]>(q)\ne = Add(m, c_1e8)\nr = Sqrt(e)\n"
              "n = Div(h, r)\ny = MatMul(n, v)\nd = Mul(y, y)\ne3 = Mul(d, y)\n"
              "loss = ReduceMean<keepdims = 0>(e3)",
     .x = 1e-3F,
     .scale = 1},
    {.title = "layer_norm_spelled",
     .nodes =
         "a = ReduceMean<axes = [-1]>(h)\nc = Sub(h, a)\nq = Pow(c, c_2)\n"
         "m = ReduceMean<axes = [-1]>(q)\ne = Add(m, c_1e5)\nr = Sqrt(e)\nn = Div(c, r)\n"
         "y = MatMul(n, v)\nd = Mul(y, y)\ne3 = Mul(d, y)\nloss = ReduceMean<keepdims = 0>(e3)",
     .x = 600},
    {.title = "cosine_similarity_of_short_vectors",
     .nodes = "c = Mul(h, t)\ndot = ReduceSum<keepdims = 0>(c, last)\nq = Mul(h, h)\n"
              "s = ReduceSum<keepdims = 0>(q, last)\nr = Sqrt(s)\nq2 = Mul(t, t)\n"
              "s2 = ReduceSum<keepdims = 0>(q2, last)\nr2 = Sqrt(s2)\nrr = Mul(r, r2)\n"
              "e = Max(rr, c_1e8)\ncos = Div(dot, e)\nd = Sub(c_1, cos)\n"
              "loss = ReduceMean<keepdims = 0>(d)",
     .x = 1e-4F,
     .scale = 1},
    {.title = "unit_length_by_reduce_l2",
     .nodes = "r = ReduceL2<axes = [-1]>(h)\ne = Max(r, c_1e8)\nn = Div(h, e)\nd = Mul(n, t)\n"
              "loss = ReduceMean<keepdims = 0>(d)",
     .x = 300},
    {.title = "time_step_embedding",
     .nodes = "kf = Cast<to = 1>(k)\nsteps = Mul(kf, c_step)\nangle = Mul(steps, c_freq)\n"
              "s = Sin(angle)\nc = Cos(angle)\nf = Concat<axis = 1>(s, c)\ny = MatMul(f, u)\n"
              "a = Mul(y, h)\nd = Mul(a, a)\nloss = ReduceMean<keepdims = 0>(d)",
     .more =
         [](ModelText& m) {
           m.filled("c_step", {}, 411).values("c_freq", {1, 4}, {1, 0.1F, 0.01F, 0.001F});
           m.weight("u", {8, 8});
         }},
    {.title = "positions_times_frequencies_by_matmul",
     .nodes = "kf = Cast<to = 1>(k)\nsteps = Add(kf, c_3000)\nangle = MatMul(steps, c_freq)\n"
              "s = Sin(angle)\nc = Cos(angle)\nf = Concat<axis = 1>(s, c)\ny = MatMul(f, u)\n"
              "a = Mul(y, h)\nd = Mul(a, a)\nloss = ReduceMean<keepdims = 0>(d)",
     .more =
         [](ModelText& m) {
           m.filled("c_3000", {}, 3000).values("c_freq", {1, 4}, {1, 0.1F, 0.01F, 0.001F});
           m.weight("u", {8, 8});
         }},
    {.title = "fourier_features",
     .nodes = "b = MatMul(x, c_b)\nangle = Mul(b, c_2pi)\ns = Sin(angle)\nc = Cos(angle)\n"
              "f = Concat<axis = 1>(s, c)\ny = MatMul(f, u)\na = Mul(y, h)\nd = Mul(a, a)\n"
              "loss = ReduceMean<keepdims = 0>(d)",
     .more =
         [](ModelText& m) {
           m.filled("c_2pi", {}, 6.2831853F).weight("c_b", {6, 4}, 10).weight("u", {8, 8});
         }},
    {.title = "sine_network",
     .nodes = "a = Mul(h, c_30)\ns = Sin(a)\ny = MatMul(s, v)\nd = Mul(y, y)\n"
              "loss = ReduceMean<keepdims = 0>(d)",
     .more = [](ModelText& m) { m.filled("c_30", {}, 30); }},
    {.title = "sum_before_the_mean",
     .nodes = "b = Expand(h, wide)\nd = Sub(b, t)\nq = Mul(d, d)\ns = ReduceSum<keepdims = 0>(q)\n"
              "loss = Div(s, c_n)",
     .x = 10,
     .more =
         [](ModelText& m) {
           m.ints("wide", {512, 4, 8}).filled("c_n", {}, 16384);
         }},
    {.title = "token_counts_in_float",
     .nodes = "b = Expand(h, wide)\ng = Greater(b, c_0)\nm = Cast<to = 1>(g)\n"
              "n = ReduceSum<keepdims = 0>(m)\nq = Mul(b, b)\nqm = Mul(q, m)\n"
              "s = ReduceSum<keepdims = 0>(qm)\nloss = Div(s, n)",
     .more =
         [](ModelText& m) {
           m.ints("wide", {511, 4, 8});
         }},
    {.title = "softplus_by_hand",
     .nodes = "e = Exp(h)\np = Add(e, c_1)\nl = Log(p)\nd = Mul(l, t)\n"
              "loss = ReduceMean<keepdims = 0>(d)",
     .x = 20},
    {.title = "log_sum_exp_by_hand",
     .nodes = "e = Exp(h)\ns = ReduceSum(e, last)\nl = Log(s)\nc = GatherElements<axis = 1>(h, k)\n"
              "d = Sub(l, c)\nloss = ReduceMean<keepdims = 0>(d)",
     .x = 20},
    {.title = "sigmoid_by_hand",
     .nodes = "n = Neg(h)\ne = Exp(n)\np = Add(c_1, e)\ns = Div(c_1, p)\nd = Sub(s, t)\n"
              "q = Mul(d, d)\nloss = ReduceMean<keepdims = 0>(q)",
     .x = 60},
    {.title = "division_by_a_small_sum",
     .nodes = "a = Abs(h)\ns = ReduceSum(a, last)\ne = Add(s, c_1e8)\nn = Div(h, e)\n"
              "d = Mul(n, t)\nloss = ReduceMean<keepdims = 0>(d)",
     .x = 1e-4F,
     .scale = 1},
    {.title = "variance_as_difference_of_means",
     .nodes = "b = Gemm(x, w, c_50)\nm = ReduceMean<axes = [0]>(b)\nq = Mul(b, b)\n"
              "mq = ReduceMean<axes = [0]>(q)\nm2 = Mul(m, m)\nvar = Sub(mq, m2)\n"
              "e = Add(var, c_1e3)\nsd = Sqrt(e)\nd = Sub(c_1, sd)\nr = Relu(d)\n"
              "loss = ReduceMean<keepdims = 0>(r)",
     .more = [](ModelText& m) { m.filled("c_50", {8}, 50); }},
    {.title = "batch_norm_spelled",
     .nodes = "m = ReduceMean<axes = [0]>(h)\nc = Sub(h, m)\nq = Mul(c, c)\n"
              "var = ReduceMean<axes = [0]>(q)\ne = Add(var, c_1e5)\nr = Sqrt(e)\nn = Div(c, r)\n"
              "d = Mul(n, t)\nloss = ReduceMean<keepdims = 0>(d)",
     .x = 400},
    {.title = "gelu_by_tanh_with_x_cubed",
     .nodes =
         "p = Pow(h, c_3)\nq = Mul(p, c_0447)\ns = Add(h, q)\na = Mul(s, c_0797)\nf = Tanh(a)\n"
         "g = Add(f, c_1)\nhh = Mul(h, c_half)\ny = Mul(hh, g)\nz = MatMul(y, v)\n"
         "d = Mul(z, c_1e3)\nd2 = Mul(d, d)\nloss = ReduceMean<keepdims = 0>(d2)",
     .x = 80,
     .more =
         [](ModelText& m) { m.filled("c_0447", {}, 0.044715F).filled("c_0797", {}, 0.79788456F); }},
    {.title = "fast_gelu_factored",
     .nodes = "x2 = Mul(h, h)\nq = Mul(x2, c_0447)\ns = Add(q, c_1)\nb = Mul(h, c_0797)\n"
              "a = Mul(b, s)\nf = Tanh(a)\ng = Add(f, c_1)\nhh = Mul(h, c_half)\ny = Mul(hh, g)\n"
              "z = MatMul(y, v)\nd = Mul(z, c_1e3)\nd2 = Mul(d, d)\n"
              "loss = ReduceMean<keepdims = 0>(d2)",
     .x = 80,
     .more =
         [](ModelText& m) { m.filled("c_0447", {}, 0.044715F).filled("c_0797", {}, 0.79788456F); }},
    {.title = "attention_scale_behind_the_product",
     .nodes = "ht = Transpose<perm = [1, 0]>(h)\ns = MatMul(h, ht)\nc = Mul(s, c_scale)\n"
              "p = Softmax(c)\ny = MatMul(p, t)\nd = Mul(y, y)\nloss = ReduceMean<keepdims = 0>(d)",
     .x = 200,
     .more = [](ModelText& m) { m.filled("c_scale", {}, 1e-5F); }},
    {.title = "squared_distances_by_products",
     .nodes = "hb = Gemm(x, w, c_away)\nq = Mul(hb, hb)\ns = ReduceSum(q, last)\n"
              "st = Transpose<perm = [1, 0]>(s)\nht = Transpose<perm = [1, 0]>(hb)\n"
              "g = MatMul(hb, ht)\ng2 = Mul(g, c_2)\na = Add(s, st)\nd2 = Sub(a, g2)\n"
              "dm = Max(d2, c_1e6)\nd = Sqrt(dm)\ndo = Mul(d, c_off)\n"
              "loss = ReduceMean<keepdims = 0>(do)",
     .more =
         [](ModelText& m) {
           m.filled("c_away", {8}, 3);
           m.values("c_off", {4, 4}, {0, 1, 1, 1, 1, 0, 1, 1, 1, 1, 0, 1, 1, 1, 1, 0});
         }},
    {.title = "charbonnier",
     .nodes = "d = Sub(h, t)\nds = Mul(d, c_1e3)\nq = Mul(ds, ds)\ne = Add(q, c_1e6)\nr = Sqrt(e)\n"
              "loss = ReduceMean<keepdims = 0>(r)"},
    {.title = "decay_of_small_weights_in_the_loss",
     .nodes = "d = Sub(h, t)\nq = Mul(d, d)\nm = ReduceMean<keepdims = 0>(q)\nu2 = Mul(u, u)\n"
              "s = ReduceSum<keepdims = 0>(u2)\nloss = Add(m, s)",
     .more =
         [](ModelText& m) {
           m.weight("u", {8, 8}, 1e-4F);
         }},
    {.title = "gumbel_noise",
     .nodes = "c = Clip(t, c_7, c_near1)\nl = Log(c)\nn = Neg(l)\nl2 = Log(n)\ng = Sub(h, l2)\n"
              "p = Softmax(g)\nf = Mul(p, t)\nd = Mul(f, f)\nloss = ReduceMean<keepdims = 0>(d)"},
};

std::vector<float> floats_of(const runtime::NpzFile& file, const std::string& name) {
  const runtime::ArrayInfo* info = value_or_die(file.get(name));
  const runtime::ArrayData data = value_or_die(file.read(name));
  const auto* values = reinterpret_cast<const float*>(data.bytes.data());
  return {values, values + info->elems};
}

SessionOptions options_for(const Trap& trap, const std::string& precision) {
  SessionOptions options;
  options.precision = precision;
  options.batch_size = 4;
  options.samples = 8;
  options.freeze = {"^c_"};
  options.classes = 8;
  options.trainer.optimizer.lr = 1e-4;
  options.trainer.schedule.base_lr = 1e-4;
  options.trainer.save_gradients_step = 1;
  options.trainer.loss_scale.mode =
      precision == "fp16" ? runtime::LossScaleMode::kStatic : runtime::LossScaleMode::kOff;
  options.trainer.loss_scale.init_scale = static_cast<double>(trap.scale);
  options.edit_floats = [&trap](const std::string& name, std::vector<float>& values) {
    for (float& value : values) value = name == "x" ? value * trap.x : std::fabs(value);
  };
  return options;
}

class NumericTrap : public testing::TestWithParam<Trap> {};

TEST_P(NumericTrap, IsKeptSafe) {
  const Trap& trap = GetParam();
  const std::string text = start(trap).text();
  const auto exact = value_or_die(Session::open(text, options_for(trap, "fp32")));
  const auto want = exact->steps(3);
  const auto want_gradients = value_or_die(runtime::NpzFile::open(exact->file("gradients_1.npz")));
  for (const std::string precision : {"fp16", "bf16"}) {
    const double limit = static_cast<double>(precision == "fp16" ? trap.fp16 : trap.bf16);
    const auto session = value_or_die(Session::open(text, options_for(trap, precision)));
    const auto got = session->steps(3);
    for (std::size_t i = 0; i < want.size(); ++i) {
      EXPECT_FALSE(got[i].skipped) << precision << " step " << i + 1;
      EXPECT_NEAR(got[i].loss, want[i].loss, limit * std::fabs(static_cast<double>(want[i].loss)))
          << precision << " step " << i + 1;
    }
    const auto gradients = value_or_die(runtime::NpzFile::open(session->file("gradients_1.npz")));
    for (const std::string& name : want_gradients.names()) {
      const std::vector<float> a = floats_of(want_gradients, name), b = floats_of(gradients, name);
      double off = 0, size = 0;
      for (std::size_t i = 0; i < a.size(); ++i) {
        off += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
        size += std::pow(static_cast<double>(a[i]), 2);
      }
      EXPECT_GT(size, 0) << name << ": the trap must train it";
      EXPECT_LE(std::sqrt(off / size), limit) << precision << ": gradient of " << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Traps, NumericTrap, testing::ValuesIn(kTraps),
                         [](const auto& trap) { return trap.param.title; });

}  // namespace
}  // namespace mezzo
