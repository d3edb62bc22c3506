#include "tests/ops/samples.h"

namespace mezzo::test {
namespace {

using Ints = std::vector<std::int64_t>;

Builder::NamedValue axis(std::int64_t value) { return {"axis", value}; }
TensorType integers_of(Ints dims) { return TensorType::of(DType::kInt64, std::move(dims)); }
TensorType floats_of(Ints dims) { return TensorType::of(DType::kFloat32, std::move(dims)); }

void add_gathering(std::vector<OpSample>& samples) {
  samples.push_back(
      {.op = "GatherElements", .operands = {f({3, 2}), integers({2, 2}, {1, -1, 1, 0})}});
  samples.push_back({.op = "GatherElements",
                     .operands = {f({2, 3}), integers({2, 2}, {0, 2, 1, 1}, DType::kInt32)},
                     .attributes = {axis(1)}});
  samples.push_back({.op = "GatherND", .operands = {f({3, 2}), integers({2, 1}, {2, -1})}});
  samples.push_back(
      {.op = "GatherND", .operands = {f({3, 2}), integers({3, 2}, {2, 0, 0, 1, 2, 0})}});
}

void add_scattering(std::vector<OpSample>& samples) {
  for (const char* op : {"Scatter", "ScatterElements"}) {
    samples.push_back(
        {.op = op, .operands = {f({3, 3}), integers({2, 3}, {1, 0, 2, 0, 2, -2}), f({2, 3})}});
  }
  samples.push_back({.op = "ScatterElements",
                     .operands = {f({2, 3}), integers({2, 2}, {1, 1, 0, -1}), f({2, 2})},
                     .attributes = {axis(1), {"reduction", std::string("add")}}});
  samples.push_back(
      {.op = "ScatterND", .operands = {f({3, 2}), integers({2, 1}, {2, 0}), f({2, 2})}});
  samples.push_back({.op = "ScatterND",
                     .operands = {f({3, 2}), integers({2, 1}, {2, 2}), f({2, 2})},
                     .attributes = {{"reduction", std::string("add")}}});
  samples.push_back({.op = "TensorScatter",
                     .operands = {f({2, 1, 4, 2}), f({2, 1, 1, 2}), integers({2}, {3, 1})}});
}

void add_selection(std::vector<OpSample>& samples) {
  samples.push_back({.op = "TopK", .operands = {f({2, 5}), ints({3})}, .results = 2});
  samples.push_back({.op = "TopK",
                     .operands = {f({4, 2}), ints({2})},
                     .attributes = {axis(0), {"largest", std::int64_t{0}}},
                     .results = 2});
  samples.push_back(
      {.op = "OneHot", .operands = {integers({2, 2}, {0, -1, 2, 5}), ints({3}), f({2})}});
  samples.push_back(
      {.op = "NonZero", .operands = {f({2, 3})}, .result_bounds = {integers_of({2, 6})}});
  samples.push_back({.op = "Compress",
                     .operands = {f({2, 3}), integers({3}, {1, 0, 1}, DType::kBool)},
                     .attributes = {axis(1)},
                     .result_bounds = {floats_of({2, 3})}});
  samples.push_back(
      {.op = "Unique",
       .operands = {f({5})},
       .results = 4,
       .result_bounds = {floats_of({5}), integers_of({5}), integers_of({5}), integers_of({5})}});
  samples.push_back({.op = "NonMaxSuppression",
                     .operands = {f({1, 4, 4}), f({1, 2, 4}), ints({2})},
                     .result_bounds = {integers_of({4, 3})}});
}

void add_others(std::vector<OpSample>& samples) {
  samples.push_back(
      {.op = "EyeLike", .operands = {f({2, 3})}, .attributes = {{"k", std::int64_t{1}}}});
  samples.push_back({.op = "ReverseSequence", .operands = {f({4, 2, 2}), integers({2}, {1, 3})}});
  samples.push_back(
      {.op = "ReverseSequence",
       .operands = {f({2, 3}), integers({2}, {2, 3})},
       .attributes = {{"batch_axis", std::int64_t{0}}, {"time_axis", std::int64_t{1}}}});
}

void add_images(std::vector<OpSample>& samples) {
  const OperandSample scales = constant({4}, {1, 1, 2, 1.5});
  for (const char* mode : {"nearest", "linear", "cubic"}) {
    samples.push_back({.op = "Resize",
                       .operands = {f({1, 2, 3, 4}), absent(), scales},
                       .attributes = {{"mode", std::string(mode)}}});
  }
  samples.push_back(
      {.op = "Resize",
       .operands = {f({1, 1, 3, 4}), constant({8}, {0, 0, 0, 0, 1, 1, 0.5, 1}), absent(),
                    ints({1, 1, 2, 4})},
       .attributes = {{"coordinate_transformation_mode", std::string("tf_crop_and_resize")}}});
  samples.push_back({.op = "Upsample", .operands = {f({1, 1, 2, 2}), constant({4}, {1, 1, 2, 3})}});
  samples.push_back({.op = "GridSample", .operands = {f({1, 2, 3, 3}), f({1, 2, 2, 2}, -1, 1)}});
  samples.push_back({.op = "AffineGrid", .operands = {f({1, 2, 3}), ints({1, 1, 2, 3})}});
  samples.push_back(
      {.op = "RoiAlign",
       .operands = {f({1, 2, 4, 4}), constant({2, 4}, {0.2, 0.4, 2.7, 3.1, 1.1, 0, 3.2, 1.9}),
                    integers({2}, {0, 0})}});
  samples.push_back(
      {.op = "MaxRoiPool",
       .operands = {f({1, 2, 4, 4}), integers({1, 5}, {0, 0, 1, 2, 3}, DType::kFloat32)},
       .attributes = {{"pooled_shape", Ints{2, 2}}}});
  samples.push_back({.op = "MaxUnpool",
                     .operands = {f({1, 1, 2, 2}), integers({1, 1, 2, 2}, {0, 3, 9, 15})},
                     .attributes = {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}}});
  samples.push_back(
      {.op = "MaxUnpool",
       .operands = {f({1, 1, 2, 2}), integers({1, 1, 2, 2}, {0, 3, 9, 15}), ints({1, 1, 5, 5})},
       .attributes = {{"kernel_shape", Ints{2, 2}}, {"strides", Ints{2, 2}}}});
  samples.push_back({.op = "Col2Im", .operands = {f({1, 8, 6}), ints({3, 4}), ints({2, 2})}});
  samples.push_back({.op = "DeformConv",
                     .operands = {f({1, 2, 3, 3}), f({2, 2, 2, 2}), f({1, 8, 2, 2}), f({2})}});
}

}  // namespace

void add_index_samples(std::vector<OpSample>& samples) {
  add_gathering(samples);
  add_scattering(samples);
  add_selection(samples);
  add_others(samples);
  add_images(samples);
}

}  // namespace mezzo::test
