#include "passes/precision/vanishing.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "compiler/ops/constants.h"
#include "passes/cleanup/match.h"

namespace mezzo::passes {
namespace {

// The dimension of the weights that numbers the channels of the result, counted from the front;
// nullopt for other nodes.
std::optional<std::size_t> channel_dimension(const Node& node, std::size_t rank) {
  if (node.is("Conv")) return 0;
  if (node.is("MatMul") && rank == 2) return 1;
  if (node.is("Gemm") && rank == 2) return node.int_attribute("transB", 0) != 0 ? 0 : 1;
  return std::nullopt;
}

// Largest magnitude per channel, read piece by piece.
std::vector<float> channel_maxima(const Tensor& weights, std::size_t dimension) {
  if (weights.elems() == 0) return {};  // however many channels its dims claim
  const std::vector<std::int64_t>& dims = weights.dims();
  std::size_t inner = 1;
  for (std::size_t i = dimension + 1; i < dims.size(); ++i)
    inner *= static_cast<std::size_t>(dims[i]);
  const auto channels = static_cast<std::size_t>(dims[dimension]);
  std::vector<float> maxima(channels, 0.0F);
  std::size_t channel = 0, left = inner;  // elements of the channel before the next one
  const Status status = weights.stream([&](std::span<const std::byte> piece) {
    for (std::size_t i = 0; i + sizeof(float) <= piece.size(); i += sizeof(float)) {
      float element = 0;
      std::memcpy(&element, piece.data() + i, sizeof element);
      maxima[channel] = std::max(maxima[channel], std::fabs(element));
      if (--left > 0) continue;
      left = inner;
      if (++channel == channels) channel = 0;
    }
    return ok_status();
  });
  return status.ok() ? maxima : std::vector<float>();
}

std::vector<double> elements(const Value* value) {
  const TensorRef data = constant_of(value);
  return data ? data->to_doubles() : std::vector<double>();
}

// What scales each channel behind the node; null if nothing does.
const Node* rescaler(const Node& node) {
  const Value* value = node.result();
  for (int depth = 0; depth < 4 && value != nullptr && value->uses().size() == 1; ++depth) {
    const Node& user = *value->uses()[0].node;
    if (user.is("BatchNormalization") || user.is("InstanceNormalization") ||
        user.is("GroupNormalization"))
      return &user;
    const Value* other = user.operand(user.operand(0) == value ? 1 : 0);
    const TensorRef constant = other == nullptr ? nullptr : constant_of(other);
    if ((user.is("Mul") || user.is("Div")) && constant && constant->elems() > 1) return &user;
    if (!user.is("Identity") && !(user.is("Add") && constant)) return nullptr;
    value = user.result();
  }
  return nullptr;
}

// Factor per channel of a BatchNormalization with constant statistics; empty for others.
std::vector<double> gains(const Node& node) {
  if (!node.is("BatchNormalization")) return {};
  std::vector<double> scale = elements(node.operand(1));
  const std::vector<double> variance = elements(node.operand(4));
  if (scale.empty() || scale.size() != variance.size()) return {};
  const double epsilon = node.float_attribute("epsilon", 1e-5F);
  for (std::size_t i = 0; i < scale.size(); ++i)
    scale[i] = std::fabs(scale[i]) / std::sqrt(std::max(variance[i] + epsilon, 1e-300));
  return scale;
}

}  // namespace

bool every_element_matters(const Node& node, std::size_t operand) {
  if (node.is("Div")) return operand == 1;
  if (node.is("BatchNormalization")) return operand == 4;  // variance
  return is_one_of(node, {"Sqrt", "Reciprocal", "Log"});
}

double least_precise(DType low) { return float_facts(low).min_subnormal * 128; }

std::optional<double> vanishing_channel(const Node& node, DType low) {
  const TensorRef weights = constant_of(node.operand(1));
  if (!weights || weights->dtype() != DType::kFloat32) return std::nullopt;
  const auto dimension = channel_dimension(node, weights->dims().size());
  if (!dimension || *dimension >= weights->dims().size()) return std::nullopt;
  const Node* behind = rescaler(node);
  if (behind == nullptr) return std::nullopt;
  const std::vector<float> maxima = channel_maxima(*weights, *dimension);
  const std::vector<double> gain = gains(*behind);
  std::optional<double> smallest;
  for (std::size_t i = 0; i < maxima.size(); ++i) {
    const double largest = maxima[i];
    const bool revived = gain.size() != maxima.size() || largest * gain[i] >= least_precise(low);
    if (largest == 0 || largest >= least_precise(low) || !revived) continue;
    smallest = std::min(smallest.value_or(largest), largest);
  }
  return smallest;
}

}  // namespace mezzo::passes
