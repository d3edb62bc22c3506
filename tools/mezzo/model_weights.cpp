#include "tools/mezzo/model_weights.h"

#include <algorithm>
#include <set>

#include "compiler/support/dtype.h"
#include "passes/autodiff/parameter_roles.h"
#include "runtime/io/safetensors.h"

namespace mezzo::cli {

ModelWeights ModelWeights::of(const Graph& graph) {
  ModelWeights weights;
  for (const Value* value : graph.initializers()) {
    if (!value->constant()) continue;
    weights.tensors.emplace_back(value->name(), value->constant());
    if (is_floating(value->dtype())) weights.names.all.push_back(value->name());
  }
  weights.names.undecayed = passes::norms_and_biases(graph);
  return weights;
}

void ModelWeights::set_trained(const proto::Plan& plan) {
  names.trained.clear();
  for (const proto::Parameter& parameter : plan.parameters()) {
    if (parameter.gradient() < 0) continue;
    names.trained.push_back(parameter.name());
    if (parameter.logical_dims_size() <= 1) names.undecayed.insert(parameter.name());
  }
}

std::vector<runtime::FixedTensor> ModelWeights::fixed(const proto::Plan& plan) {
  std::set<std::string> changing;
  for (const proto::Parameter& parameter : plan.parameters()) changing.insert(parameter.name());
  for (const proto::State& state : plan.states()) changing.insert(state.name());
  std::erase_if(tensors, [&](const auto& row) {
    return changing.count(row.first) > 0 || !runtime::safetensors_holds(row.second->dtype());
  });
  // A reader that maps the file finds all of them aligned if the large elements come first.
  std::stable_sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    return dtype_bits(a.second->dtype()) > dtype_bits(b.second->dtype());
  });
  std::vector<runtime::FixedTensor> result;
  for (const auto& [name, tensor] : tensors) {
    std::span<const std::byte> bytes = tensor->stored_bytes();
    if (bytes.empty() && tensor->byte_size() > 0)
      bytes = copies_.emplace_back(tensor->copy_bytes());
    result.push_back({name, tensor->dtype(), tensor->dims(), bytes});
  }
  return result;
}

}  // namespace mezzo::cli
