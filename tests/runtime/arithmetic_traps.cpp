// Norms, masks, positions, sums and differences, on data that leave the range or lose the digits.
#include <utility>

#include "numeric_traps.h"

namespace mezzo::test {
namespace {

const Trap kTraps[] = {
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
    {.title = "large_product_times_a_tiny_scale",
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
    {.title = "covariance_as_difference_of_means",
     .nodes = "b = Gemm(x, w, c_away)\nbt = Mul(b, t)\nm = ReduceMean<axes = [0]>(b)\n"
              "n = ReduceMean<axes = [0]>(t)\nmbt = ReduceMean<axes = [0]>(bt)\nmn = Mul(m, n)\n"
              "cov = Sub(mbt, mn)\nq = Mul(cov, cov)\nloss = ReduceMean<keepdims = 0>(q)",
     .more = [](ModelText& m) { m.filled("c_away", {8}, 6); }},
    {.title = "masked_mean_of_nothing",
     .nodes = "g = Greater(k, zero)\nm = Cast<to = 1>(g)\nme = Expand(m, wide)\nhm = Mul(h, me)\n"
              "s = ReduceSum(hm, last)\nn = ReduceSum(me, last)\nc = Max(n, c_1e9th)\n"
              "a = Div(s, c)\nd = Mul(a, a)\nloss = ReduceMean<keepdims = 0>(d)",
     .more =
         [](ModelText& m) {
           m.ints("zero", {2}).ints("wide", {4, 8}).filled("c_1e9th", {}, 1e-9F);
         }},
    {.title = "distances_of_positions_in_the_scores",
     .nodes =
         "kf = Cast<to = 1>(k)\nat = Add(kf, c_3000)\nd = Sub(at, c_places)\nb = Mul(d, c_slope)\n"
         "s = Add(h, b)\np = Softmax(s)\ny = MatMul(p, v)\ny2 = Mul(y, y)\n"
         "loss = ReduceMean<keepdims = 0>(y2)",
     .more =
         [](ModelText& m) {
           m.filled("c_3000", {}, 3000).filled("c_slope", {}, -0.5F);
           m.values("c_places", {1, 8}, {2999, 3001, 3000, 3003, 3005, 3002, 3004, 3007});
         }},
    {.title = "positions_by_a_cumulative_sum",
     .nodes = "g = GreaterOrEqual(k, zero)\nm = Cast<to = 1>(g)\nme = Expand(m, wide)\n"
              "n = CumSum(me, axis)\nf = Mul(n, c_1e3)\nangle = Mul(f, c_50)\ns = Sin(angle)\n"
              "hm = ReduceMean<axes = [1]>(h)\na = Mul(s, hm)\nd = Mul(a, a)\n"
              "loss = ReduceMean<keepdims = 0>(d)",
     .more =
         [](ModelText& m) {
           m.ints("zero", {0}).ints("wide", {4, 3000}).ints("axis", {1}).filled("c_50", {}, 50);
         }},
    {.title = "weights_normalised_by_their_length",
     .nodes =
         "q = Mul(u, u)\ns = ReduceSum(q, first)\nr = Sqrt(s)\nn = Div(u, r)\nwn = Mul(n, gain)\n"
         "y = MatMul(h, wn)\nd = Mul(y, y)\nloss = ReduceMean<keepdims = 0>(d)",
     .more =
         [](ModelText& m) {
           m.weight("u", {8, 8}, 1e-4F).weight("gain", {8});
         },
     .scale = 1},
};

}  // namespace

std::span<const Trap> arithmetic_traps() { return kTraps; }

std::string trap_text(const Trap& trap) {
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
  return model.text();
}

}  // namespace mezzo::test
