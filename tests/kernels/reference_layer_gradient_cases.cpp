// Gradient cases of layers, images, regions and signals; every row of results one direction back.
#include "tests/kernels/reference_gradient_cases.h"

namespace mezzo::kernels::test {
namespace {

void add_recurrent(std::vector<GradientCase>& cases) {
  for (const auto& [cell, gates] :
       std::vector<std::pair<std::string, std::int64_t>>{{"RNN", 1}, {"GRU", 3}, {"LSTM", 4}}) {
    const std::int64_t t = 3, b = 2, i = 2, h = 2;
    const bool lstm = cell == "LSTM";
    std::vector<Tensor> operands = {
        random_tensor({t, b, i}),           random_tensor({1, gates * h, i}),
        random_tensor({1, gates * h, h}),   random_tensor({1, 2 * gates * h}),
        Tensor(DType::kInt32, {b}, {3, 2}), random_tensor({1, b, h})};
    const std::string states = lstm ? "x6 x7" : "- -";
    if (lstm) operands.push_back(random_tensor({1, b, h}));
    if (lstm) operands.push_back(random_tensor({1, 3 * h}));
    std::vector<Dims> results = {{t, 1, b, h}, {1, b, h}};
    if (lstm) results.push_back({1, b, h});
    cases.push_back({cell,
                     cell,
                     {},
                     operands,
                     results,
                     {{cell + "Grad", "dy - - x0 x1 x2 x3 x4 x5 " + states,
                       "x0 x1 x2 x3 x5" + std::string(lstm ? " x6 x7" : "")},
                      {cell + "Grad", "dy - - x0 x1 x2 x3 x4 x5 " + states, "- x1"}}});
  }
  cases.push_back(
      {"LinearAttention",
       "LinearAttention",
       {{"q_num_heads", 2}, {"kv_num_heads", 1}},
       {random_tensor({1, 3, 4}), random_tensor({1, 3, 2}), random_tensor({1, 3, 3}),
        random_tensor({1, 1, 2, 3}), random_tensor({1, 3, 1}), random_tensor({1, 3, 1}, true)},
       {{1, 3, 6}, {1, 1, 2, 3}},
       {{"LinearAttentionGrad", "dy - x0 x1 x2 x3 x4 x5", "x0 x1 x2 x3 x4 x5"}}});
}

void add_functions(std::vector<GradientCase>& cases) {
  cases.push_back({"RMSNormalization",
                   "RMSNormalization",
                   {},
                   {random_tensor({2, 3, 4}), random_tensor({4})},
                   {{2, 3, 4}},
                   {{"RMSNormalizationGrad", "dy x0 x1", "x0 x1"}}});
  cases.push_back({"CumProd",
                   "CumProd",
                   {{"axis", 1}, {"reverse", 1}},
                   {random_tensor({2, 4})},
                   {{2, 4}},
                   {{"CumProdGrad", "dy x0", "x0"}}});
  cases.push_back(
      {"Det", "Det", {}, {random_tensor({2, 3, 3})}, {{2}}, {{"DetGrad", "dy x0", "x0"}}});
  cases.push_back({"LpPool",
                   "LpPool",
                   {{"kernel_shape", Ints{2, 3}}, {"pads", Ints{1, 0, 0, 1}}, {"p", 3}},
                   {random_tensor({1, 2, 4, 5})},
                   {{1, 2, 4, 4}},
                   {{"LpPoolGrad", "dy x0 y0", "x0"}}});
}

void add_images(std::vector<GradientCase>& cases) {
  for (const std::string mode : {"nearest", "linear", "cubic"}) {
    cases.push_back({"Resize, " + mode,
                     "Resize",
                     {{"mode", mode}, {"sizes", Ints{1, 2, 5, 2}}},
                     {random_tensor({1, 2, 3, 4})},
                     {{1, 2, 5, 2}},
                     {{"ResizeGrad", "dy", "x0"}}});
  }
  for (const std::string mode : {"linear", "cubic"}) {
    cases.push_back(
        {"GridSample, " + mode,
         "GridSample",
         {{"mode", mode}},
         {random_tensor({1, 2, 3, 4}), random_tensor({1, 2, 2, 2})},
         {{1, 2, 2, 2}},
         {{"GridSampleGrad", "dy x0 x1", "x0 x1"}, {"GridSampleGrad", "dy x0 x1", "- x1"}}});
  }
  cases.push_back({"AffineGrid",
                   "AffineGrid",
                   {},
                   {random_tensor({1, 2, 3})},
                   {{1, 2, 3, 2}},
                   {{"AffineGridGrad", "dy", "x0"}}});
  for (const std::string mode : {"avg", "max"}) {
    cases.push_back(
        {"RoiAlign, " + mode,
         "RoiAlign",
         {{"mode", mode}, {"output_height", 2}, {"output_width", 2}, {"sampling_ratio", 2}},
         {random_tensor({1, 2, 4, 4}), Tensor(DType::kFloat64, {1, 4}, {0.2, 0.4, 3.3, 2.9}),
          i64({1}, {0})},
         {{1, 2, 2, 2}},
         {{"RoiAlignGrad", "dy x0 x1 x2", "x0"}}});
  }
  cases.push_back({"MaxRoiPool",
                   "MaxRoiPool",
                   {{"pooled_shape", Ints{2, 2}}},
                   {random_tensor({1, 2, 4, 4}), Tensor(DType::kFloat64, {1, 5}, {0, 0, 1, 3, 3})},
                   {{1, 2, 2, 2}},
                   {{"MaxRoiPoolGrad", "dy x0 x1", "x0"}}});
  cases.push_back({"Col2Im",
                   "Col2Im",
                   {{"block_shape", Ints{2, 2}}},
                   {random_tensor({1, 8, 6})},
                   {{1, 2, 3, 4}},
                   {{"Col2ImGrad", "dy", "x0"}}});
  cases.push_back({"DeformConv",
                   "DeformConv",
                   {},
                   {random_tensor({1, 2, 4, 4}), random_tensor({2, 2, 2, 2}),
                    random_tensor({1, 8, 3, 3}), Tensor(), random_tensor({1, 4, 3, 3}, true)},
                   {{1, 2, 3, 3}},
                   {{"DeformConvGrad", "dy x0 x1 x2 x4", "x0 x1 x2 x4"},
                    {"DeformConvGrad", "dy x0 x1 x2 x4", "- x1"}}});
}

void add_signals(std::vector<GradientCase>& cases) {
  cases.push_back({"DFT",
                   "DFT",
                   {{"axis", 1}, {"onesided", 1}},
                   {random_tensor({2, 5, 1})},
                   {{2, 3, 2}},
                   {{"DFTGrad", "dy", "x0"}}});
  cases.push_back({"STFT",
                   "STFT",
                   {{"frame_step", 2}, {"frame_length", 4}},
                   {random_tensor({1, 8, 1}), random_tensor({4})},
                   {{1, 3, 3, 2}},
                   {{"STFTGrad", "dy x0 x1", "x0 x1"}}});
}

void add_attention(std::vector<GradientCase>& cases) {
  cases.push_back({"ScaledDotProductAttention",
                   "ScaledDotProductAttention",
                   {{"causal", 1}},
                   {random_tensor({2, 4, 3, 2}), random_tensor({2, 2, 5, 2}),
                    random_tensor({2, 2, 5, 3}), random_tensor({2, 1, 3, 5})},
                   {{2, 4, 3, 3}, {2, 4, 3}},
                   {{"ScaledDotProductAttentionGrad", "dy x0 x1 x2 x3 y0 y1", "x0 x1 x2"}}});
}

}  // namespace

void add_layer_cases(std::vector<GradientCase>& cases) {
  add_recurrent(cases);
  add_functions(cases);
  add_images(cases);
  add_signals(cases);
  add_attention(cases);
}

}  // namespace mezzo::kernels::test
