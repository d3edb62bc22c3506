#include "tests/ops/samples.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "compiler/ops/op_def.h"

namespace mezzo::test {
namespace {

constexpr std::int64_t kNewestOpset = 28;

std::int64_t elems_of(const std::vector<std::int64_t>& dims) {
  return std::accumulate(dims.begin(), dims.end(), std::int64_t{1}, std::multiplies<>());
}

std::vector<double> values_for(const OperandSample& operand, std::mt19937& random) {
  if (!operand.values.empty()) return operand.values;
  const std::int64_t count = elems_of(operand.dims);
  std::vector<double> values(count);
  for (std::int64_t i = 0; i < count; ++i) {
    // 0.37 instead of the middle of a step: a symmetric range has no 0 then.
    values[i] =
        operand.low + (operand.high - operand.low) * (static_cast<double>(i) + 0.37) / count;
  }
  std::shuffle(values.begin(), values.end(), random);
  return values;
}

Buffer buffer_for(const OperandSample& operand, const std::vector<double>& values) {
  if (is_floating(operand.dtype)) return Buffer::doubles(operand.dims, values);
  return Buffer::ints(operand.dtype, operand.dims,
                      std::vector<std::int64_t>(values.begin(), values.end()));
}

TensorRef tensor_for(const OperandSample& operand, const std::vector<double>& values) {
  if (operand.dtype == DType::kFloat32) {
    return Tensor::from_floats(operand.dims, std::vector<float>(values.begin(), values.end()));
  }
  if (operand.dtype == DType::kInt64) {
    return Tensor::from_ints(operand.dims, std::vector<std::int64_t>(values.begin(), values.end()));
  }
  const Buffer buffer = buffer_for(operand, values);
  const auto* bytes = static_cast<const std::byte*>(buffer.data());
  return Tensor::from_bytes(operand.dtype, operand.dims, {bytes, bytes + buffer.desc.bytes()});
}

}  // namespace

std::string to_string(const OpSample& sample) {
  std::string text = (sample.domain.empty() ? "" : sample.domain + ".") + sample.op + "(";
  for (std::size_t i = 0; i < sample.operands.size(); ++i) {
    if (i > 0) text += ", ";
    const OperandSample& operand = sample.operands[i];
    text += operand.absent ? "-" : to_string(TensorType::of(operand.dtype, operand.dims));
  }
  text += ")";
  for (const auto& [name, value] : sample.attributes) {
    text += " " + std::string(name);
    if (const auto* number = std::get_if<std::int64_t>(&value))
      text += "=" + std::to_string(*number);
  }
  return text;
}

StatusOr<BuiltSample> build_sample(const OpSample& sample, std::uint32_t seed) {
  std::mt19937 random(seed);
  BuiltSample built;
  built.model.set_opset("", kNewestOpset);
  built.model.graph = std::make_unique<Graph>("sample");
  Graph& graph = *built.model.graph;
  std::vector<Value*> operands;
  for (std::size_t i = 0; i < sample.operands.size(); ++i) {
    const OperandSample& operand = sample.operands[i];
    const std::string name = "operand" + std::to_string(i);
    if (operand.absent) {
      operands.push_back(nullptr);
      continue;
    }
    const std::vector<double> values = values_for(operand, random);
    if (operand.constant) {
      operands.push_back(graph.add_initializer(name, tensor_for(operand, values)));
    } else {
      operands.push_back(graph.add_input(name, TensorType::of(operand.dtype, operand.dims)));
      built.inputs[operands.back()] = buffer_for(operand, values);
    }
  }
  Builder builder(graph, nullptr);
  built.node = builder.node(sample.op, operands, sample.results, sample.attributes, sample.domain);
  if (!sample.result_dims.empty()) {
    built.node->result()->type = TensorType::of(DType::kFloat32, sample.result_dims);
  }
  MEZZO_RETURN_IF_ERROR(infer_types(*built.node, &built.model));
  for (std::size_t i = 0; i < sample.result_bounds.size(); ++i) {
    built.node->result(i)->type = sample.result_bounds[i];
  }
  return built;
}

std::vector<OpSample> all_samples() {
  std::vector<OpSample> samples;
  add_elementwise_samples(samples);
  add_layer_samples(samples);
  add_movement_samples(samples);
  add_index_samples(samples);
  add_recurrent_samples(samples);
  add_layer_gradient_samples(samples);
  add_mezzo_samples(samples);
  return samples;
}

}  // namespace mezzo::test
