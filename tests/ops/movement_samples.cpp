#include "tests/ops/samples.h"

namespace mezzo::test {
namespace {

using Ints = std::vector<std::int64_t>;

void add_reshapes(std::vector<OpSample>& samples) {
  samples.push_back({.op = "Identity", .operands = {f({2, 3})}});
  samples.push_back({.op = "Reshape", .operands = {f({2, 6}), ints({3, -1})}});
  samples.push_back({.op = "Reshape", .operands = {f({2, 3, 2}), ints({0, 6})}});
  samples.push_back({.op = "Flatten", .operands = {f({2, 3, 2})}});
  samples.push_back(
      {.op = "Flatten", .operands = {f({2, 3, 2})}, .attributes = {{"axis", std::int64_t{2}}}});
  samples.push_back({.op = "Squeeze", .operands = {f({1, 3, 1}), ints({0})}});
  samples.push_back({.op = "Squeeze", .operands = {f({1, 3, 1})}});
  samples.push_back({.op = "Unsqueeze", .operands = {f({2, 3}), ints({0, -1})}});
  samples.push_back({.op = "Transpose", .operands = {f({2, 3})}});
  samples.push_back(
      {.op = "Transpose", .operands = {f({2, 3, 4})}, .attributes = {{"perm", Ints{2, 0, 1}}}});
}

void add_parts(std::vector<OpSample>& samples) {
  samples.push_back(
      {.op = "Concat", .operands = {f({2, 3})}, .attributes = {{"axis", std::int64_t{0}}}});
  samples.push_back({.op = "Concat",
                     .operands = {f({2, 3}), f({2, 1}), f({2, 2})},
                     .attributes = {{"axis", std::int64_t{-1}}}});
  samples.push_back({.op = "Split",
                     .operands = {f({2, 6}), ints({1, 3, 2})},
                     .attributes = {{"axis", std::int64_t{1}}},
                     .results = 3});
  samples.push_back({.op = "Split",
                     .operands = {f({5, 2})},
                     .attributes = {{"num_outputs", std::int64_t{2}}},
                     .results = 2});
  samples.push_back(
      {.op = "Slice",
       .operands = {f({4, 5}), ints({1, 0}), ints({3, 4}), ints({0, 1}), ints({1, 2})}});
  samples.push_back(
      {.op = "Slice", .operands = {f({6}), ints({-1}), ints({-7}), ints({0}), ints({-2})}});
  samples.push_back({.op = "Slice", .operands = {f({3, 4}), ints({1}), ints({1000})}});
  samples.push_back({.op = "Pad", .operands = {f({2, 3}), ints({1, 0, 0, 2})}});
  samples.push_back(
      {.op = "Pad", .operands = {f({2, 3}), ints({1, 2}), constant({}, {0.5}), ints({-1})}});
  samples.push_back({.op = "Pad", .operands = {f({2, 3}), ints({0, 0, 0, 0})}});
  samples.push_back({.op = "Expand", .operands = {f({3, 1}), ints({2, 3, 4})}});
  samples.push_back({.op = "Expand", .operands = {f({2, 3}), ints({2, 3})}});
  samples.push_back({.op = "Trilu", .operands = {f({3, 4})}});
  samples.push_back({.op = "Trilu",
                     .operands = {f({2, 3, 3}), constant({}, {-1}, DType::kInt64)},
                     .attributes = {{"upper", std::int64_t{0}}}});
}

void add_indices(std::vector<OpSample>& samples) {
  samples.push_back({.op = "Gather", .operands = {f({5, 3}), integers({2, 2}, {0, 4, -1, 0})}});
  samples.push_back({.op = "Gather",
                     .operands = {f({2, 4, 2}), integers({3}, {1, 1, 2}, DType::kInt32)},
                     .attributes = {{"axis", std::int64_t{1}}}});
  samples.push_back({.op = "Gather",
                     .operands = {f({2, 3}), integers({}, {1})},
                     .attributes = {{"axis", std::int64_t{-1}}}});
}

void add_reductions(std::vector<OpSample>& samples) {
  for (const char* op :
       {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSumSquare",
        "ReduceL2", "ReduceL1", "ReduceLogSum", "ReduceLogSumExp"}) {
    const OperandSample x = f({2, 3, 4}, 0.2, 2.0);
    samples.push_back({.op = op, .operands = {x}});
    samples.push_back({.op = op, .operands = {x, ints({1})}});
    samples.push_back(
        {.op = op, .operands = {x, ints({0, -1})}, .attributes = {{"keepdims", std::int64_t{0}}}});
    samples.push_back({.op = op,
                       .operands = {f({3, 2}, 0.2, 2.0), ints({-1})},
                       .attributes = {{"keepdims", std::int64_t{0}}}});
  }
  for (const char* op : {"ReduceSum", "ReduceSumSquare", "ReduceL1", "ReduceLogSumExp"}) {
    samples.push_back({.op = op,
                       .operands = {f({2, 2})},
                       .attributes = {{"noop_with_empty_axes", std::int64_t{1}}}});
  }
  for (const char* op : {"ArgMax", "ArgMin"}) {
    samples.push_back(
        {.op = op, .operands = {f({2, 3})}, .attributes = {{"axis", std::int64_t{1}}}});
  }
  for (const char* op : {"CumSum", "CumProd"}) {
    samples.push_back({.op = op, .operands = {f({2, 3}), constant({}, {-1}, DType::kInt64)}});
    samples.push_back(
        {.op = op,
         .operands = {f({2, 3}), constant({}, {0}, DType::kInt64)},
         .attributes = {{"exclusive", std::int64_t{1}}, {"reverse", std::int64_t{1}}}});
  }
  samples.push_back({.op = "Det", .operands = {f({2, 3, 3})}});
}

void add_shapes(std::vector<OpSample>& samples) {
  samples.push_back(
      {.op = "Shape", .operands = {f({2, 3})}, .attributes = {{"start", std::int64_t{-1}}}});
  samples.push_back({.op = "Size", .operands = {f({2, 3})}});
  samples.push_back({.op = "ConstantOfShape", .operands = {ints({2, 3})}});
  samples.push_back(
      {.op = "Range",
       .operands = {constant({}, {1}, DType::kInt64), constant({}, {7}, DType::kInt64),
                    constant({}, {2}, DType::kInt64)}});
  samples.push_back({.op = "Dropout", .operands = {f({2, 3})}});
  samples.push_back(
      {.op = "Dropout",
       .operands = {f({2, 3}), constant({}, {0.0}), constant({}, {1}, DType::kBool)}});
}

}  // namespace

void add_movement_samples(std::vector<OpSample>& samples) {
  add_reshapes(samples);
  add_parts(samples);
  add_indices(samples);
  add_reductions(samples);
  add_shapes(samples);
}

}  // namespace mezzo::test
