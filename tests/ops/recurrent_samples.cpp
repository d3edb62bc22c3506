// Recurrent layers, quantised products, signals, random numbers and optimizers.
#include "tests/ops/samples.h"

namespace mezzo::test {
namespace {

using Ints = std::vector<std::int64_t>;

OperandSample bytes(std::vector<std::int64_t> dims, DType dtype = DType::kUInt8) {
  std::int64_t elems = 1;
  for (const std::int64_t dim : dims) elems *= dim;
  std::vector<double> values;
  for (std::int64_t i = 0; i < elems; ++i) values.push_back(static_cast<double>(i * 37 % 120));
  return integers(std::move(dims), values, dtype);
}

OperandSample zero_point(double value, DType dtype = DType::kUInt8) {
  return integers({}, {value}, dtype);
}

void add_recurrent(std::vector<OpSample>& samples) {
  for (const auto& [op, gates] :
       std::vector<std::pair<const char*, std::int64_t>>{{"RNN", 1}, {"GRU", 3}, {"LSTM", 4}}) {
    const std::size_t results = gates == 4 ? 3 : 2;
    const Builder::NamedValue hidden = {"hidden_size", std::int64_t{2}};
    samples.push_back({.op = op,
                       .operands = {f({3, 2, 3}), f({1, gates * 2, 3}), f({1, gates * 2, 2})},
                       .attributes = {hidden},
                       .results = results});
    samples.push_back({.op = op,
                       .operands = {f({2, 3, 3}), f({2, gates * 2, 3}), f({2, gates * 2, 2}),
                                    f({2, gates * 4}), integers({2}, {3, 1}, DType::kInt32)},
                       .attributes = {hidden,
                                      {"direction", std::string("bidirectional")},
                                      {"layout", std::int64_t{1}},
                                      {"clip", 1.5F}},
                       .results = results});
  }
}

void add_linear_attention(std::vector<OpSample>& samples) {
  const Builder::NamedValue queries = {"q_num_heads", std::int64_t{4}};
  const Builder::NamedValue keys = {"kv_num_heads", std::int64_t{2}};
  samples.push_back({.op = "LinearAttention",
                     .operands = {f({2, 3, 12}), f({2, 3, 6}), f({2, 3, 4})},
                     .attributes = {queries, keys, {"update_rule", std::string("linear")}},
                     .results = 2});
  samples.push_back({.op = "LinearAttention",
                     .operands = {f({2, 3, 12}), f({2, 3, 6}), f({2, 3, 4}), f({2, 2, 3, 2}),
                                  f({2, 3, 2}, -1.0, 0.0), f({2, 3, 1}, 0.0, 1.0)},
                     .attributes = {queries, keys},
                     .results = 2});
}

void add_quantised(std::vector<OpSample>& samples) {
  samples.push_back({.op = "MatMulInteger",
                     .operands = {bytes({2, 3}), bytes({3, 4}, DType::kInt8), zero_point(7)}});
  samples.push_back(
      {.op = "QLinearMatMul",
       .operands = {bytes({2, 3}), f({}, 0.1, 0.2), zero_point(3), bytes({3, 2}), f({2}, 0.1, 0.2),
                    integers({2}, {1, 2}, DType::kUInt8), f({}, 1.0, 2.0), zero_point(9)}});
  samples.push_back({.op = "ConvInteger",
                     .operands = {bytes({1, 2, 4, 4}), bytes({2, 2, 3, 3}), zero_point(5)},
                     .attributes = {{"auto_pad", std::string("SAME_UPPER")}}});
  samples.push_back(
      {.op = "QLinearConv",
       .operands = {bytes({1, 2, 4, 4}), f({}, 0.1, 0.2), zero_point(3), bytes({2, 2, 3, 3}),
                    f({2}, 0.1, 0.2), zero_point(1), f({}, 1.0, 2.0), zero_point(9),
                    integers({2}, {10, -20}, DType::kInt32)},
       .attributes = {{"pads", Ints{1, 1, 1, 1}}}});
}

void add_signals(std::vector<OpSample>& samples) {
  samples.push_back({.op = "DFT", .operands = {f({2, 5, 1})}});
  samples.push_back({.op = "DFT",
                     .operands = {f({2, 5, 3, 2}), constant({}, {4}, DType::kInt64),
                                  constant({}, {1}, DType::kInt64)},
                     .attributes = {{"inverse", std::int64_t{1}}}});
  samples.push_back({.op = "STFT",
                     .operands = {f({1, 9, 1}), constant({}, {2}, DType::kInt64), f({4}),
                                  constant({}, {4}, DType::kInt64)}});
  samples.push_back(
      {.op = "MelWeightMatrix",
       .operands = {constant({}, {3}, DType::kInt64), constant({}, {16}, DType::kInt64),
                    constant({}, {8192}, DType::kInt64), constant({}, {0.0}),
                    constant({}, {4096.0})}});
}

void add_draws(std::vector<OpSample>& samples) {
  for (const char* op : {"RandomNormal", "RandomUniform"}) {
    samples.push_back({.op = op, .attributes = {{"shape", Ints{2, 3}}, {"seed", 3.0F}}});
    samples.push_back({.op = std::string(op) + "Like", .operands = {f({2, 3})}});
  }
  samples.push_back({.op = "Bernoulli", .operands = {f({5}, 0.1, 0.9)}});
  samples.push_back({.op = "Multinomial",
                     .operands = {f({2, 3})},
                     .attributes = {{"sample_size", std::int64_t{4}}}});
}

void add_optimizers(std::vector<OpSample>& samples) {
  const std::string domain = "ai.onnx.preview.training";
  const OperandSample rate = f({}, 0.1, 0.2);
  const OperandSample step = integers({}, {2});
  const OperandSample square = f({3}, 0.5, 1.0);
  samples.push_back({.op = "Adagrad",
                     .operands = {rate, step, f({3}), f({3}), square},
                     .results = 2,
                     .domain = domain});
  samples.push_back({.op = "Adam",
                     .operands = {rate, step, f({3}), f({3}), f({3}), square},
                     .results = 3,
                     .domain = domain});
  samples.push_back({.op = "Momentum",
                     .operands = {rate, step, f({3}), f({3}), f({3})},
                     .attributes = {{"mode", std::string("nesterov")},
                                    {"alpha", 0.9F},
                                    {"beta", 0.9F},
                                    {"norm_coefficient", 0.1F}},
                     .results = 2,
                     .domain = domain});
}

}  // namespace

void add_recurrent_samples(std::vector<OpSample>& samples) {
  add_recurrent(samples);
  add_linear_attention(samples);
  add_quantised(samples);
  add_signals(samples);
  add_draws(samples);
  add_optimizers(samples);
}

}  // namespace mezzo::test
