// Small instances of every operator that the runtime executes: the generated tests run them, lower
// them and check their gradients. An executable operator without one fails the tests.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/builder.h"
#include "compiler/ir/graph.h"
#include "tests/ops/interpreter.h"

namespace mezzo::test {

// One operand. Floating operands without values are filled with distinct numbers in [low, high], in
// random order, none of them 0.
struct OperandSample {
  std::vector<std::int64_t> dims = {};
  DType dtype = DType::kFloat32;
  double low = -2.0, high = 2.0;
  std::vector<double> values = {};  // instead of random ones
  bool constant = false;            // an initializer, otherwise a graph input
  bool absent = false;
};

struct OpSample {
  std::string op;
  std::vector<OperandSample> operands = {};
  std::vector<Builder::NamedValue> attributes = {};
  std::size_t results = 1;
  std::string domain = {};
  // Dims of result 0 for operators whose operand types do not tell (see mezzo_rules.h).
  std::vector<std::int64_t> result_dims = {};
  // Upper bounds of the results' dims for operators whose result sizes depend on the data.
  std::vector<TensorType> result_bounds = {};
};

std::vector<OpSample> all_samples();
// These, and forms that are only differentiated: decomposed, they need no kernel of their own.
std::vector<OpSample> gradient_samples();

// "Conv(float[1,2,5,5], float[2,1,3,3])"
std::string to_string(const OpSample& sample);

// The sample as a model of one node, at the newest opset, with types inferred.
struct BuiltSample {
  Model model;
  Node* node = nullptr;
  Environment inputs;  // of the graph inputs
};
StatusOr<BuiltSample> build_sample(const OpSample& sample, std::uint32_t seed);

// Short forms for the tables.
inline OperandSample f(std::vector<std::int64_t> dims, double low = -2.0, double high = 2.0) {
  return {.dims = std::move(dims), .low = low, .high = high};
}
inline OperandSample ints(const std::vector<std::int64_t>& values) {
  return {.dims = {static_cast<std::int64_t>(values.size())},
          .dtype = DType::kInt64,
          .values = std::vector<double>(values.begin(), values.end()),
          .constant = true};
}
inline OperandSample integers(std::vector<std::int64_t> dims, const std::vector<double>& values,
                              DType dtype = DType::kInt64) {
  return {.dims = std::move(dims), .dtype = dtype, .values = values};
}
inline OperandSample constant(std::vector<std::int64_t> dims, const std::vector<double>& values,
                              DType dtype = DType::kFloat32) {
  return {.dims = std::move(dims), .dtype = dtype, .values = values, .constant = true};
}
inline OperandSample absent() { return {.absent = true}; }

// The families of all_samples().
void add_elementwise_samples(std::vector<OpSample>& samples);
void add_layer_samples(std::vector<OpSample>& samples);  // contractions, convolutions, norms, pools
void add_movement_samples(std::vector<OpSample>& samples);   // movement, reductions, shapes
void add_index_samples(std::vector<OpSample>& samples);      // scattering, selection, images
void add_recurrent_samples(std::vector<OpSample>& samples);  // recurrent, quantised, signals, draws
void add_layer_gradient_samples(std::vector<OpSample>& samples);  // more forms of layers, images
// Not among all_samples(): most have no kernel of their own.
void add_attention_samples(std::vector<OpSample>& samples);
void add_further_forms(std::vector<OpSample>& samples);
void add_contrib_samples(std::vector<OpSample>& samples);
void add_mezzo_samples(std::vector<OpSample>& samples);  // ai.mezzo and com.microsoft

}  // namespace mezzo::test
