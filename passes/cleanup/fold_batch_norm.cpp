// For every BatchNormalization in inference form:
//
// 1. Its operand is a Conv's result that it alone reads; weights, bias and statistics are constants
//    of float32 whose sizes agree.
// 2. New weights and bias become initializers; the Conv gives the normalisation's result.
// 3. What is no longer read is left to `dce`.

#include "passes/cleanup/fold_batch_norm.h"

#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "passes/cleanup/match.h"

namespace mezzo::passes {
namespace {

using Floats = std::vector<float>;

// The elements of a constant of float32 with `elems` elements (any number: -1).
std::optional<Floats> floats_of(const Value* value, std::int64_t elems = -1) {
  const TensorRef data = constant_of(value);
  if (!data || data->dtype() != DType::kFloat32 || (elems >= 0 && data->elems() != elems))
    return std::nullopt;
  const std::vector<std::byte> bytes = data->copy_bytes();
  Floats values(bytes.size() / sizeof(float));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

bool normalises_by_constants(const Node& node) {
  if (!node.is("BatchNormalization") || node.int_attribute("training_mode", 0) != 0) return false;
  for (std::size_t i = 1; i < node.results().size(); ++i) {
    if (node.result(i) != nullptr && node.result(i)->has_uses()) return false;
  }
  return node.result()->dtype() == DType::kFloat32;
}

struct Folded {
  Floats w, b;
};

std::optional<Folded> fold(const Node& conv, const Node& norm) {
  const auto dims = static_dims(conv.operand(1));
  if (!dims || dims->empty() || dims->front() < 1) return std::nullopt;
  const std::int64_t channels = dims->front();
  auto w = floats_of(conv.operand(1));
  auto b = conv.operand(2) == nullptr
               ? std::optional(Floats(static_cast<std::size_t>(channels), 0.0F))
               : floats_of(conv.operand(2), channels);
  const auto scale = floats_of(norm.operand(1), channels),
             bias = floats_of(norm.operand(2), channels);
  const auto mean = floats_of(norm.operand(3), channels),
             var = floats_of(norm.operand(4), channels);
  if (!w || !b || !scale || !bias || !mean || !var) return std::nullopt;
  const auto epsilon = static_cast<double>(norm.float_attribute("epsilon", 1e-5F));
  const std::size_t per_channel = w->size() / static_cast<std::size_t>(channels);
  Folded folded{std::move(*w), std::move(*b)};
  for (std::size_t c = 0; c < static_cast<std::size_t>(channels); ++c) {
    const double s = (*scale)[c] / std::sqrt(static_cast<double>((*var)[c]) + epsilon);
    for (std::size_t i = c * per_channel; i < (c + 1) * per_channel; ++i)
      folded.w[i] = static_cast<float>(folded.w[i] * s);
    folded.b[c] = static_cast<float>((folded.b[c] - static_cast<double>((*mean)[c])) * s +
                                     static_cast<double>((*bias)[c]));
  }
  return folded;
}

}  // namespace

StatusOr<bool> fold_batch_norm(Model& model, PassContext& ctx) {
  Graph& graph = *model.graph;
  bool changed = false;
  for (Node* norm : graph.node_list()) {
    if (!normalises_by_constants(*norm)) continue;
    Value* between = norm->operand(0);
    Node* conv = producer_if(between, "Conv");
    if (conv == nullptr || conv->graph() != &graph || !has_one_reader(*between) ||
        between->dtype() != DType::kFloat32) {
      continue;
    }
    const auto folded = fold(*conv, *norm);
    if (!folded) continue;
    const std::string name = conv->operand(1)->name() + "_normalised";
    const std::vector<std::int64_t> dims = *static_dims(conv->operand(1));
    conv->set_operand(
        1, graph.add_initializer(graph.unique_name(name), Tensor::from_floats(dims, folded->w)));
    conv->set_operand(2, graph.add_initializer(graph.unique_name(name + "_bias"),
                                               Tensor::from_floats({dims.front()}, folded->b)));
    graph.replace_uses(norm->result(), between);
    graph.erase(norm);
    ctx.stats.add("batch-norms-folded", 1);
    changed = true;
  }
  return changed;
}

}  // namespace mezzo::passes
