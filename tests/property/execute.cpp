#include "tests/property/execute.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <unordered_map>

#include "compiler/ir/cast_elems.h"
#include "compiler/ops/constants.h"
#include "compiler/ops/op_def.h"
#include "kernels/kernel.h"

namespace mezzo::test {
namespace {

using Bytes = std::vector<std::byte>;

kernels::TensorDesc desc_of(const Value* value) {
  if (value == nullptr) return {};
  return {value->dtype(), value->tensor_type().dims(), kernels::Layout::kRowMajor};
}

void set(kernels::Attributes& into, const Attribute& from) {
  if (const auto* i = std::get_if<std::int64_t>(&from.value)) into.set(from.name, *i);
  if (const auto* f = std::get_if<float>(&from.value)) into.set(from.name, static_cast<double>(*f));
  if (const auto* s = std::get_if<std::string>(&from.value)) into.set(from.name, *s);
  if (const auto* list = std::get_if<std::vector<std::int64_t>>(&from.value))
    into.set(from.name, *list);
  if (const auto* list = std::get_if<std::vector<float>>(&from.value)) {
    into.set(from.name, std::vector<double>(list->begin(), list->end()));
  }
}

class Execution {
 public:
  Execution(const Graph& graph, std::uint64_t seed) : graph_(graph), seed_(seed) {}

  StatusOr<Results> run() {
    for (const Value* input : graph_.inputs()) fill(*input);
    for (const auto& node : graph_.nodes()) MEZZO_RETURN_IF_ERROR(run(*node));
    Results results;
    for (const Value* output : graph_.outputs()) {
      MEZZO_ASSIGN_OR_RETURN(const Bytes bytes, bytes_of(*output));
      results[output->name()] =
          Tensor::from_bytes(output->dtype(), output->tensor_type().dims(), bytes)->to_doubles();
    }
    return results;
  }

 private:
  void fill(const Value& input) {
    if (!is_floating(input.dtype())) return;
    std::mt19937_64 random(seed_ ^ std::hash<std::string>()(input.name()));
    const auto elems = static_cast<std::size_t>(input.tensor_type().elems());
    std::vector<float> values;
    for (std::size_t i = 0; i < elems; ++i)
      values.push_back(static_cast<float>(static_cast<int>(random() % 2001) - 1000) / 1000.0F);
    Bytes& bytes = values_[&input];
    bytes.resize(dtype_bytes(input.dtype(), static_cast<std::int64_t>(elems)));
    cast_elems(DType::kFloat32, input.dtype(), Overflow::kInfinity,
               reinterpret_cast<const std::byte*>(values.data()), bytes.data(), elems);
  }

  StatusOr<Bytes> bytes_of(const Value& value) const {
    if (const auto found = values_.find(&value); found != values_.end()) return found->second;
    if (const TensorRef constant = constant_of(&value)) return constant->copy_bytes();
    return internal_error("'" + value.name() + "' has no value");
  }

  Status run(const Node& node) {
    if (node.is("Constant")) return ok_status();
    MEZZO_ASSIGN_OR_RETURN(const LoweredOp lowered, lower(node));
    std::vector<Bytes> buffers;
    kernels::KernelRequest request;
    request.op = lowered.kernel;
    for (const Attribute& attribute : lowered.attributes) set(request.attributes, attribute);
    for (const Value* operand : lowered.operands) {
      request.inputs.push_back(desc_of(operand));
      buffers.emplace_back();
      if (operand == nullptr) continue;
      MEZZO_ASSIGN_OR_RETURN(buffers.back(), bytes_of(*operand));
    }
    if (lowered.alias) {
      values_[node.result()] = buffers.at(0);
      return ok_status();
    }
    for (const Value* result : node.results()) request.outputs.push_back(desc_of(result));
    auto kernel = kernels::prepare_kernel(request, kernels::Backend::kReference);
    if (!kernel.ok()) return kernel.status().with_context(describe(node));
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
    for (std::size_t i = 0; i < buffers.size(); ++i)
      inputs.push_back(lowered.operands[i] != nullptr ? buffers[i].data() : nullptr);
    for (std::size_t i = 0; i < node.results().size(); ++i) {
      if (node.result(i) == nullptr) {
        outputs.push_back(nullptr);
        continue;
      }
      Bytes& bytes = values_[node.result(i)];
      bytes.resize(request.outputs[i].bytes());
      outputs.push_back(bytes.data());
    }
    Bytes workspace((*kernel)->workspace_bytes());
    return (*kernel)->run({inputs, outputs, workspace.data()}).with_context(describe(node));
  }

  const Graph& graph_;
  std::uint64_t seed_;
  std::unordered_map<const Value*, Bytes> values_;
};

}  // namespace

StatusOr<Results> execute(const Graph& graph, std::uint64_t seed) {
  return Execution(graph, seed).run();
}

double difference(const Results& expected, const Results& actual) {
  double worst = 0;
  for (const auto& [name, values] : expected) {
    const auto found = actual.find(name);
    if (found == actual.end() || found->second.size() != values.size())
      return std::numeric_limits<double>::infinity();
    double scale = 1;
    for (const double v : values) scale = std::max(scale, std::fabs(v));
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double apart = std::fabs(found->second[i] - values[i]) / scale;
      if (!std::isfinite(apart)) return std::numeric_limits<double>::infinity();
      worst = std::max(worst, apart);
    }
  }
  return worst;
}

}  // namespace mezzo::test
