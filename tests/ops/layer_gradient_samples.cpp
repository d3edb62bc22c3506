// More forms of convolutions, pools, images, signals and recurrent layers than a sample of the
// operator needs: every attribute that its gradient must heed, odd sizes, other ranks. Of the
// gradients' own operators one sample each.
#include "tests/ops/samples.h"

namespace mezzo::test {
namespace {

using Ints = std::vector<std::int64_t>;
using Attributes = std::vector<Builder::NamedValue>;

Builder::NamedValue text(std::string_view name, const char* value) {
  return {name, std::string(value)};
}
Builder::NamedValue number(std::string_view name, std::int64_t value) { return {name, value}; }
Builder::NamedValue list(std::string_view name, Ints values) { return {name, std::move(values)}; }

void add_convolutions(std::vector<OpSample>& samples) {
  const auto conv = [&](Ints x, Ints w, Attributes attributes) {
    const std::int64_t results = w[0];
    samples.push_back({.op = "Conv",
                       .operands = {f(std::move(x)), f(std::move(w)), f({results})},
                       .attributes = std::move(attributes)});
  };
  conv({1, 4, 5, 7}, {4, 1, 3, 3}, {number("group", 4), list("pads", {1, 1, 1, 1})});
  conv({1, 2, 7, 5}, {2, 2, 3, 2}, {list("dilations", {2, 3}), list("pads", {2, 0, 1, 3})});
  conv({1, 2, 4, 3, 3}, {2, 1, 2, 2, 3},
       {number("group", 2), list("strides", {2, 1, 1}), list("pads", {1, 0, 1, 0, 1, 1})});
  conv({2, 1, 9}, {3, 1, 4}, {list("strides", {3}), list("pads", {2, 1})});
  conv({1, 1, 6, 6}, {1, 1, 3, 3}, {text("auto_pad", "VALID"), list("strides", {2, 2})});
  const auto transposed = [&](Ints x, Ints w, std::int64_t results, Attributes attributes) {
    samples.push_back({.op = "ConvTranspose",
                       .operands = {f(std::move(x)), f(std::move(w)), f({results})},
                       .attributes = std::move(attributes)});
  };
  transposed({1, 2, 3, 3}, {2, 2, 3, 3}, 2, {list("dilations", {2, 1}), list("strides", {2, 3})});
  transposed({1, 2, 3, 2}, {2, 1, 3, 3}, 1,
             {list("strides", {2, 2}), list("output_shape", {6, 5})});
  transposed(
      {1, 1, 3, 3}, {1, 2, 3, 3}, 2,
      {list("strides", {3, 3}), list("output_shape", {10, 8}), text("auto_pad", "SAME_LOWER")});
  transposed({1, 2, 2, 2, 2}, {2, 1, 2, 3, 2}, 2,
             {number("group", 2), list("strides", {1, 2, 2}), list("pads", {0, 1, 0, 1, 1, 0}),
              list("output_padding", {0, 1, 1})});
  transposed({2, 1, 4}, {1, 2, 5}, 2, {list("strides", {2}), list("pads", {2, 1})});
  transposed({1, 1, 3, 3}, {1, 1, 2, 2}, 1, {list("strides", {3, 3})});  // gaps between windows
  // More behind the last window than a stride.
  transposed({1, 1, 3}, {1, 2, 3}, 2,
             {list("strides", {2}), list("dilations", {3}), list("output_padding", {2})});
}

void add_deformable(std::vector<OpSample>& samples) {
  samples.push_back({.op = "DeformConv",
                     .operands = {f({1, 2, 4, 5}), f({2, 2, 2, 3}), f({1, 12, 3, 3}, -1.3, 1.3),
                                  f({2}), f({1, 6, 3, 3}, 0.2, 1.0)}});
  samples.push_back(
      {.op = "DeformConv",
       .operands = {f({2, 4, 4, 3}), f({2, 2, 2, 2}), f({2, 16, 4, 1}, -0.9, 0.9), absent(),
                    f({2, 8, 4, 1}, 0.2, 1.0)},
       .attributes = {number("group", 2), number("offset_group", 2), list("pads", {1, 1, 0, 0}),
                      list("strides", {1, 2}), list("dilations", {1, 2})}});
}

void add_pools(std::vector<OpSample>& samples) {
  const std::vector<std::pair<Ints, Attributes>> windows = {
      {{1, 2, 9}, {list("kernel_shape", {3}), list("strides", {2}), list("pads", {1, 0})}},
      {{1, 1, 4, 5, 3},
       {list("kernel_shape", {2, 3, 2}), list("strides", {2, 1, 1}),
        list("pads", {0, 1, 1, 0, 1, 0})}},
      {{2, 1, 7, 7},
       {list("kernel_shape", {3, 3}), list("strides", {2, 3}), number("ceil_mode", 1),
        list("pads", {1, 1, 0, 1})}},
      {{1, 2, 6, 7},
       {list("kernel_shape", {2, 3}), list("dilations", {2, 2}), list("pads", {1, 2, 1, 0})}},
      {{1, 1, 5, 5}, {list("kernel_shape", {3, 3}), text("auto_pad", "SAME_LOWER")}}};
  for (const auto& [x, attributes] : windows) {
    for (const char* op : {"MaxPool", "AveragePool", "LpPool"}) {
      samples.push_back({.op = op, .operands = {f(x)}, .attributes = attributes});
    }
    samples.push_back({.op = "AveragePool", .operands = {f(x)}, .attributes = attributes});
    samples.back().attributes.push_back(number("count_include_pad", 1));
    samples.push_back({.op = "LpPool", .operands = {f(x)}, .attributes = attributes});
    samples.back().attributes.push_back(number("p", 1));
  }
  // Windows larger than the image and of padding alone.
  samples.push_back({.op = "AveragePool",
                     .operands = {f({1, 1, 3, 2})},
                     .attributes = {list("kernel_shape", {2, 2}), list("pads", {1, 1, 1, 1}),
                                    list("strides", {2, 3})}});
  for (const std::size_t results : {1, 2}) {
    samples.push_back({.op = "MaxPool",
                       .operands = {f({1, 2, 4, 5})},
                       .attributes = {list("kernel_shape", {2, 2}), number("storage_order", 1)},
                       .results = results});
  }
  samples.push_back(
      {.op = "GlobalLpPool", .operands = {f({2, 2, 5})}, .attributes = {number("p", 3)}});
  samples.push_back(
      {.op = "GlobalLpPool", .operands = {f({1, 2, 2, 3, 2})}, .attributes = {number("p", 1)}});
  samples.push_back({.op = "MaxUnpool",
                     .operands = {f({1, 2, 3}), integers({1, 2, 3}, {1, 2, 4, 6, 9, 11})},
                     .attributes = {list("kernel_shape", {2}), list("strides", {2})}});
}

void add_resizes(std::vector<OpSample>& samples) {
  const auto scaled = [&](Ints x, std::vector<double> scales, Attributes attributes) {
    const auto rank = static_cast<std::int64_t>(scales.size());
    samples.push_back({.op = "Resize",
                       .operands = {f(std::move(x)), absent(), constant({rank}, scales)},
                       .attributes = std::move(attributes)});
  };
  const auto sized = [&](Ints x, const Ints& sizes, Attributes attributes) {
    samples.push_back({.op = "Resize",
                       .operands = {f(std::move(x)), absent(), absent(), ints(sizes)},
                       .attributes = std::move(attributes)});
  };
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    for (const char* coordinates : {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel",
                                    "align_corners", "asymmetric"}) {
      const Attributes attributes = {text("mode", mode),
                                     text("coordinate_transformation_mode", coordinates)};
      scaled({1, 2, 3, 5}, {1, 1, 2, 1.7}, attributes);
      sized({1, 1, 7, 5}, {1, 1, 3, 9}, attributes);
    }
    const Builder::NamedValue kind = text("mode", mode);
    sized({1, 2, 3, 4, 2}, {1, 2, 5, 3, 4}, {kind});  // three dims
    sized({2, 1, 6}, {2, 1, 4}, {kind});
    sized({2, 3}, {4, 5}, {kind});
    scaled({1, 1, 2, 3}, {1, 1, 4, 0.7}, {kind});
    samples.push_back(
        {.op = "Resize",
         .operands = {f({1, 1, 4, 3}), constant({8}, {0, 0, 0.1, 0, 1, 1, 0.7, 1.4}), absent(),
                      ints({1, 1, 3, 4})},
         .attributes = {kind, text("coordinate_transformation_mode", "tf_crop_and_resize")}});
  }
  for (const char* rounding : {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"}) {
    scaled({1, 1, 4, 3}, {1, 1, 1.5, 2.5}, {text("nearest_mode", rounding)});
  }
  for (const char* mode : {"linear", "cubic"}) {
    scaled({1, 1, 7, 6}, {1, 1, 0.4, 0.6}, {text("mode", mode), number("antialias", 1)});
    scaled({1, 1, 7, 6}, {1, 1, 0.4, 1.6},
           {text("mode", mode), number("antialias", 1), number("exclude_outside", 1)});
  }
  scaled({1, 1, 4, 5}, {1, 1, 2, 0.6},
         {text("mode", "cubic"), number("exclude_outside", 1), {"cubic_coeff_a", -0.5F}});
  samples.push_back({.op = "Resize",
                     .operands = {f({1, 4, 6, 2}), absent(), absent(), ints({7, 5})},
                     .attributes = {text("mode", "linear"), list("axes", {1, 2}),
                                    text("keep_aspect_ratio_policy", "not_larger")}});
  samples.push_back({.op = "Resize",
                     .operands = {f({1, 2, 3, 3}), absent(), constant({2}, {2, 3})},
                     .attributes = {text("mode", "linear"), list("axes", {2, 3})}});
}

void add_sampling(std::vector<OpSample>& samples) {
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    for (const char* padding : {"zeros", "border", "reflection"}) {
      for (const std::int64_t align : {0, 1}) {
        samples.push_back({.op = "GridSample",
                           .operands = {f({1, 2, 4, 3}), f({1, 2, 3, 2}, -1.3, 1.27)},
                           .attributes = {text("mode", mode), text("padding_mode", padding),
                                          number("align_corners", align)}});
      }
    }
  }
  samples.push_back(
      {.op = "GridSample", .operands = {f({2, 1, 2, 3, 2}), f({2, 1, 2, 2, 3}, -1.1, 1.06)}});
  samples.push_back({.op = "AffineGrid",
                     .operands = {f({2, 3, 4}), ints({2, 1, 2, 3, 2})},
                     .attributes = {number("align_corners", 1)}});
  for (const char* mode : {"avg", "max"}) {
    for (const char* coordinates : {"half_pixel", "output_half_pixel"}) {
      samples.push_back(
          {.op = "RoiAlign",
           .operands = {f({2, 2, 5, 6}),
                        constant({3, 4}, {0.3, 0.7, 4.2, 3.9, 1, 1, 9, 8, 2.2, 0, 3.1, 4.4}),
                        integers({3}, {0, 1, 0})},
           .attributes = {text("mode", mode),
                          text("coordinate_transformation_mode", coordinates),
                          number("output_height", 2),
                          number("output_width", 3),
                          number("sampling_ratio", 2),
                          {"spatial_scale", 0.9F}}});
    }
  }
  samples.push_back(
      {.op = "RoiAlign",
       .operands = {f({1, 1, 6, 6}), constant({1, 4}, {0.2, 0.4, 5.1, 4.7}), integers({1}, {0})},
       .attributes = {number("output_height", 2), number("output_width", 2)}});
  samples.push_back(
      {.op = "MaxRoiPool",
       .operands = {f({2, 1, 5, 6}), constant({2, 5}, {1, 0, 0, 7, 5, 0, 2, 1, 9, 8})},
       .attributes = {list("pooled_shape", {3, 2}), {"spatial_scale", 0.5F}}});
  samples.push_back({.op = "Col2Im",
                     .operands = {f({1, 8, 9}), ints({5, 6}), ints({2, 2})},
                     .attributes = {list("strides", {2, 2}), list("dilations", {1, 2}),
                                    list("pads", {0, 1, 1, 0})}});
  samples.push_back({.op = "Col2Im", .operands = {f({2, 6, 4}), ints({6}), ints({3})}});
}

void add_transforms(std::vector<OpSample>& samples) {
  const OperandSample axis = constant({}, {1}, DType::kInt64);
  const auto length = [](double n) { return constant({}, {n}, DType::kInt64); };
  for (const std::int64_t parts : {1, 2}) {
    for (const std::int64_t inverse : {0, 1}) {
      for (const double n : {5.0, 6.0, 4.0, 8.0}) {
        samples.push_back({.op = "DFT",
                           .operands = {f({2, 6, 2, parts}), length(n), axis},
                           .attributes = {number("inverse", inverse)}});
      }
    }
  }
  for (const double n : {5.0, 6.0, 9.0}) {
    samples.push_back({.op = "DFT",
                       .operands = {f({2, 6, 1}), length(n), axis},
                       .attributes = {number("onesided", 1)}});
    samples.push_back({.op = "DFT",
                       .operands = {f({2, 4, 2}), length(n), axis},
                       .attributes = {number("onesided", 1), number("inverse", 1)}});
  }
  for (const std::int64_t onesided : {0, 1}) {
    samples.push_back({.op = "STFT",
                       .operands = {f({2, 11, 1}), constant({}, {3}, DType::kInt64), f({5}),
                                    constant({}, {5}, DType::kInt64)},
                       .attributes = {number("onesided", onesided)}});
  }
  samples.push_back({.op = "STFT",
                     .operands = {f({1, 9, 2}), constant({}, {2}, DType::kInt64), absent(),
                                  constant({}, {4}, DType::kInt64)},
                     .attributes = {number("onesided", 0)}});
}

// Every operand there, one form per row.
void add_recurrent(std::vector<OpSample>& samples) {
  const std::vector<std::pair<const char*, std::int64_t>> cells = {
      {"RNN", 1}, {"GRU", 3}, {"LSTM", 4}};
  for (const auto& cell : cells) {
    const char* op = cell.first;
    const std::int64_t gates = cell.second;
    const bool lstm = gates == 4;
    const auto layer = [&](std::int64_t directions, bool batch_first, OperandSample lengths,
                           Attributes attributes, double range = 2.0) {
      const auto g = [&](Ints dims) { return f(std::move(dims), -range, range); };
      const std::int64_t t = 4, b = 3, i = 2, h = 2;
      const Ints x = batch_first ? Ints{b, t, i} : Ints{t, b, i};
      const Ints state = batch_first ? Ints{b, directions, h} : Ints{directions, b, h};
      OpSample sample{
          .op = op,
          .operands = {g(x), g({directions, gates * h, i}), g({directions, gates * h, h}),
                       g({directions, 2 * gates * h}), std::move(lengths), g(state)},
          .attributes = std::move(attributes),
          .results = lstm ? 3U : 2U};
      sample.attributes.push_back(number("hidden_size", h));
      if (lstm) {
        sample.operands.push_back(g(state));
        sample.operands.push_back(g({directions, 3 * h}));
      }
      samples.push_back(std::move(sample));
    };
    const OperandSample lengths = integers({3}, {4, 1, 3}, DType::kInt32);
    layer(1, false, absent(), {});
    layer(1, false, lengths, {text("direction", "reverse")});
    layer(2, false, lengths,
          {text("direction", "bidirectional"), number("linear_before_reset", 1)});
    layer(2, true, lengths,
          {text("direction", "bidirectional"), number("layout", 1),
           number("input_forget", lstm ? 1 : 0)});
    layer(1, true, integers({3}, {2, 0, 4}, DType::kInt32), {number("layout", 1)});
    layer(1, false, absent(), {{"clip", 0.8F}, number("linear_before_reset", 1)});
    const std::vector<std::vector<std::string>> activations = {
        {"Softsign", "Affine", "Elu"},
        {"HardSigmoid", "ScaledTanh", "Softplus"},
        {"Sigmoid", "LeakyRelu", "Tanh"},
        {"Softplus", "ThresholdedRelu", "Softsign"},
        {"Elu", "Sigmoid", "HardSigmoid"}};
    for (const std::vector<std::string>& names : activations) {
      const std::vector<std::string> used(names.begin(), names.begin() + (lstm         ? 3
                                                                          : gates == 3 ? 2
                                                                                       : 1));
      layer(1, false, absent(),
            {{"activations", used},
             {"activation_alpha", std::vector<float>{0.3F, 0.7F}},
             {"activation_beta", std::vector<float>{0.4F, 0.6F}}},
            0.7);  // some of them grow without bound, and so do the differences' errors
    }
  }
}

void add_linear_attention(std::vector<OpSample>& samples) {
  const Builder::NamedValue queries = number("q_num_heads", 4), keys = number("kv_num_heads", 2);
  for (const char* rule : {"linear", "gated", "delta", "gated_delta"}) {
    const bool gated = std::string(rule).find("gated") == 0;
    const bool delta = std::string(rule).find("delta") != std::string::npos;
    samples.push_back({.op = "LinearAttention",
                       .operands = {f({2, 3, 12}), f({2, 3, 6}), f({2, 3, 4}), f({2, 2, 3, 2}),
                                    gated ? f({2, 3, 2}, -1.0, -0.1) : absent(),
                                    delta ? f({2, 3, 1}, 0.1, 0.9) : absent()},
                       .attributes = {queries, keys, {"update_rule", std::string(rule)}},
                       .results = 2});
  }
  samples.push_back({.op = "LinearAttention",
                     .operands = {f({1, 5, 4}), f({1, 5, 4}), f({1, 5, 6}), absent(),
                                  f({1, 5, 4}, -1.0, -0.1), f({1, 5, 2}, 0.1, 0.9)},
                     .attributes = {number("q_num_heads", 2), keys, {"scale", 0.7F}},
                     .results = 2});
}

void add_own(std::vector<OpSample>& samples) {
  const auto own = [&](const char* op, std::vector<OperandSample> operands, Ints dims,
                       Attributes attributes) {
    samples.push_back({.op = op,
                       .operands = std::move(operands),
                       .attributes = std::move(attributes),
                       .domain = "ai.mezzo",
                       .result_dims = std::move(dims)});
  };
  own("ResizeGrad", {f({1, 1, 4, 6})}, {1, 1, 2, 3}, {text("mode", "linear")});
  own("GridSampleGrad", {f({1, 2, 2, 2}), f({1, 2, 3, 3}), f({1, 2, 2, 2}, -1, 1)}, {1, 2, 3, 3},
      {});
  own("AffineGridGrad", {f({1, 2, 3, 2})}, {1, 2, 3}, {});
  own("RoiAlignGrad",
      {f({1, 1, 2, 2}), f({1, 1, 4, 4}), constant({1, 4}, {0, 0, 3, 3}), integers({1}, {0})},
      {1, 1, 4, 4}, {number("output_height", 2), number("output_width", 2)});
  own("MaxRoiPoolGrad", {f({1, 1, 2, 2}), f({1, 1, 4, 4}), constant({1, 5}, {0, 0, 0, 3, 3})},
      {1, 1, 4, 4}, {list("pooled_shape", {2, 2})});
  own("Col2ImGrad", {f({1, 2, 3, 4})}, {1, 8, 6}, {list("block_shape", {2, 2})});
  own("LpPoolGrad", {f({1, 1, 3, 3}), f({1, 1, 4, 4}), f({1, 1, 3, 3}, 1, 2)}, {1, 1, 4, 4},
      {list("kernel_shape", {2, 2})});
  own("DeformConvGrad", {f({1, 2, 2, 2}), f({1, 2, 3, 3}), f({2, 2, 2, 2}), f({1, 8, 2, 2})},
      {1, 2, 3, 3}, {});
  own("DFTGrad", {f({1, 4, 2})}, {1, 4, 1}, {number("axis", 1)});
  own("STFTGrad", {f({1, 3, 3, 2}), f({1, 8, 1}), f({4})}, {1, 8, 1}, {number("frame_step", 2)});
  own("LinearAttentionGrad", {f({1, 3, 4}), absent(), f({1, 3, 4}), f({1, 3, 4}), f({1, 3, 4})},
      {1, 3, 4},
      {number("q_num_heads", 2), number("kv_num_heads", 2), text("update_rule", "linear")});
  for (const auto& [op, gates] : std::vector<std::pair<const char*, std::int64_t>>{
           {"RNNGrad", 1}, {"GRUGrad", 3}, {"LSTMGrad", 4}}) {
    own(op,
        {f({3, 1, 2, 2}), absent(), absent(), f({3, 2, 2}), f({1, 2 * gates, 2}),
         f({1, 2 * gates, 2})},
        {3, 2, 2}, {});
    samples.back().results = 3;
  }
}

}  // namespace

void add_layer_gradient_samples(std::vector<OpSample>& samples) {
  add_convolutions(samples);
  add_deformable(samples);
  add_pools(samples);
  add_resizes(samples);
  add_sampling(samples);
  add_transforms(samples);
  add_recurrent(samples);
  add_linear_attention(samples);
  add_own(samples);
}

}  // namespace mezzo::test
