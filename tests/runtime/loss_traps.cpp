// Losses as exporters and people spell them, on data that reach the ends of their functions.
#include "numeric_traps.h"

namespace mezzo::test {
namespace {

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
    {.title = "gumbel_noise",
     .nodes = "c = Clip(t, c_7, c_near1)\nl = Log(c)\nn = Neg(l)\nl2 = Log(n)\ng = Sub(h, l2)\n"
              "p = Softmax(g)\nf = Mul(p, t)\nd = Mul(f, f)\nloss = ReduceMean<keepdims = 0>(d)"},
    {.title = "structural_similarity",
     .nodes = "p = Sigmoid(h)\ni = Reshape(p, image)\nj0 = Mul(t, c_half)\nj = Reshape(j0, image)\n"
              "mi = Conv(i, c_window)\nmj = Conv(j, c_window)\nii = Mul(i, i)\njj = Mul(j, j)\n"
              "ij = Mul(i, j)\nsi = Conv(ii, c_window)\nsj = Conv(jj, c_window)\n"
              "sij = Conv(ij, c_window)\nmii = Mul(mi, mi)\nmjj = Mul(mj, mj)\nmij = Mul(mi, mj)\n"
              "vi = Sub(si, mii)\nvj = Sub(sj, mjj)\nvij = Sub(sij, mij)\na = Mul(vij, c_2)\n"
              "b = Add(a, c_1e5)\nc = Add(vi, vj)\nd = Add(c, c_1e5)\nr = Div(b, d)\n"
              "m = ReduceMean<keepdims = 0>(r)\nloss = Sub(c_1, m)",
     .x = 0.1F,
     .more =
         [](ModelText& m) {
           m.ints("image", {-1, 1, 2, 4})
               .values("c_window", {1, 1, 2, 2}, {0.4F, 0.1F, 0.3F, 0.2F});
         }},
    {.title = "generalised_mean_pooling",
     .nodes = "c = Max(h, c_1e6)\np = Pow(c, c_3)\nm = ReduceMean<axes = [1]>(p)\n"
              "r = Pow(m, c_third)\nd = Mul(r, t)\nloss = ReduceMean<keepdims = 0>(d)",
     .x = 100,
     .more = [](ModelText& m) { m.filled("c_third", {}, 1.0F / 3); }},
    {.title = "additive_angular_margin",
     .nodes = "r = ReduceL2<axes = [-1]>(h)\nn = Div(h, r)\nu = ReduceL2<axes = [0]>(v)\n"
              "vn = Div(v, u)\ncos = MatMul(n, vn)\nq = Mul(cos, cos)\ni = Sub(c_1, q)\n"
              "ic = Max(i, c_1e6)\nsin = Sqrt(ic)\na = Mul(cos, c_cm)\nb = Mul(sin, c_sm)\n"
              "z = Sub(a, b)\nl = Mul(z, c_64)\nls = LogSoftmax(l)\n"
              "p = ReduceMean<keepdims = 0>(ls)\nloss = Neg(p)",
     .more =
         [](ModelText& m) {
           m.filled("c_cm", {}, 0.8776F).filled("c_sm", {}, 0.4794F).filled("c_64", {}, 64);
         }},
    {.title = "division_by_a_low_temperature",
     .nodes =
         "l = Div(h, c_07)\np = LogSoftmax(l)\nc = GatherElements<axis = 1>(p, k)\nd = Neg(c)\n"
         "loss = ReduceMean<keepdims = 0>(d)",
     .x = 3,
     .more = [](ModelText& m) { m.filled("c_07", {}, 0.07F); }},
    {.title = "entropy_with_an_epsilon",
     .nodes =
         "p = Softmax(h)\npe = Add(p, c_tiny)\nl = Log(pe)\na = Mul(p, l)\n"
         "s = ReduceSum<keepdims = 0>(a, last)\nm = ReduceMean<keepdims = 0>(s)\nloss = Neg(m)",
     .x = 8,
     .more = [](ModelText& m) { m.filled("c_tiny", {}, 1e-12F); }},
};

}  // namespace

std::span<const Trap> loss_traps() { return kTraps; }

}  // namespace mezzo::test
