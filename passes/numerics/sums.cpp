#include "passes/numerics/sums.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <string>

#include "passes/cleanup/match.h"
#include "passes/numerics/elements.h"
#include "passes/numerics/tensor_range.h"

namespace mezzo::numerics {
namespace {

using passes::is_one_of;
using Dims = std::vector<std::int64_t>;

const HostTensor* tensor_at(const NodeRun& run, std::size_t operand) {
  if (operand >= run.operands.size() || run.operands[operand] == nullptr ||
      !run.operands[operand]->is_tensor())
    return nullptr;
  return &run.operands[operand]->tensor;
}

double product(const Dims& dims, std::size_t first) {
  double elems = 1;
  for (std::size_t i = first; i < dims.size(); ++i) elems *= static_cast<double>(dims[i]);
  return elems;
}

double window(const Node& node) {
  double elems = 1;
  for (const std::int64_t side : node.ints_attribute("kernel_shape"))
    elems *= static_cast<double>(side);
  return elems;
}

// The labels of an einsum equation that no result has, with their extents. An ellipsis stands for
// leading dimensions, which the result always keeps.
std::optional<double> einsum_elems(const NodeRun& run) {
  const std::string equation = run.node.string_attribute("equation", "");
  const std::size_t arrow = equation.find("->");
  if (arrow == std::string::npos || equation.find('.') != std::string::npos) return std::nullopt;
  std::map<char, double> extents;
  std::size_t operand = 0, position = 0;
  for (const char label : equation.substr(0, arrow)) {
    if (label == ' ') continue;
    if (label == ',') {
      ++operand;
      position = 0;
      continue;
    }
    const HostTensor* tensor = tensor_at(run, operand);
    if (tensor == nullptr || position >= tensor->dims.size()) return std::nullopt;
    extents[label] = static_cast<double>(tensor->dims[position++]);
  }
  double elems = 1;
  for (const auto& [label, extent] : extents) {
    if (equation.find(label, arrow) == std::string::npos) elems *= extent;
  }
  return elems;
}

bool contracts(const Node& node) {
  return is_one_of(node, {"MatMul", "Gemm", "Conv", "ConvTranspose", "Einsum"});
}
bool averages(const Node& node) {
  return is_one_of(node, {"ReduceMean", "AveragePool", "GlobalAveragePool"});
}
bool adds_up(const Node& node) { return is_one_of(node, {"ReduceSum", "ReduceL1", "CumSum"}); }

std::optional<double> reduced_elems(const NodeRun& run, const HostTensor& x) {
  if (run.results.empty() || run.results[0] == nullptr || !run.results[0]->is_tensor())
    return std::nullopt;
  const std::int64_t results = run.results[0]->tensor.elems();
  if (results == 0) return std::nullopt;
  return static_cast<double>(x.elems()) / static_cast<double>(results);
}

std::optional<double> cumulated_elems(const NodeRun& run, const HostTensor& x) {
  const HostTensor* axis = tensor_at(run, 1);
  if (axis == nullptr || axis->elems() != 1) return std::nullopt;
  std::int64_t at = axis->dtype == DType::kInt64 ? *axis->data_as<std::int64_t>()
                                                 : *axis->data_as<std::int32_t>();
  const auto rank = static_cast<std::int64_t>(x.dims.size());
  if (at < 0) at += rank;
  if (at < 0 || at >= rank) return std::nullopt;
  return static_cast<double>(x.dims[static_cast<std::size_t>(at)]);
}

HostTensor magnitudes(const HostTensor& x) {
  return mapped(x, [](float value) { return std::fabs(value); });
}

double largest(const HostTensor* tensor) {
  return tensor == nullptr ? 0 : range_of(*tensor).largest();
}

// depth x largest products, plus the bias.
double cheap_bound(const NodeRun& run, double depth) {
  const HostTensor* x = tensor_at(run, 0);
  if (!contracts(run.node)) return depth * largest(x);
  double products = depth;
  const std::size_t factors = run.node.is("Einsum") ? run.operands.size() : 2;
  for (std::size_t i = 0; i < factors; ++i) products *= largest(tensor_at(run, i));
  return run.node.is("Einsum") ? products : products + largest(tensor_at(run, 2));
}

std::optional<double> exact_sum(const NodeRun& run, double depth,
                                const NodeRunnerOptions& options) {
  std::vector<RuntimeValue> values(run.operands.size());
  std::vector<const RuntimeValue*> operands;
  for (std::size_t i = 0; i < run.operands.size(); ++i) {
    const HostTensor* tensor = tensor_at(run, i);
    if (tensor != nullptr && tensor->dtype == DType::kFloat32) {
      values[i] = magnitudes(*tensor);
      operands.push_back(&values[i]);
    } else {
      operands.push_back(run.operands[i]);
    }
  }
  const auto results = run_node(run.node, operands, options);
  if (!results.ok() || results->empty() || !results->front().is_tensor()) return std::nullopt;
  const passes::TensorRange range = range_of(results->front().tensor);
  if (range.infinities + range.nans > 0) return std::numeric_limits<float>::max();
  return range.largest() * (averages(run.node) ? depth : 1);
}

}  // namespace

std::optional<double> summed_elems(const NodeRun& run) {
  const Node& node = run.node;
  const HostTensor *x = tensor_at(run, 0), *w = tensor_at(run, 1);
  if (x == nullptr || x->dtype != DType::kFloat32) return std::nullopt;
  if (node.is("Einsum")) return einsum_elems(run);
  if (contracts(node)) {
    if (w == nullptr || x->dims.empty() || w->dims.empty()) return std::nullopt;
    if (node.is("MatMul")) return static_cast<double>(x->dims.back());
    if (node.is("Gemm")) {
      const bool transposed = node.int_attribute("transA", 0) != 0;
      return x->dims.size() == 2 ? std::optional(static_cast<double>(x->dims[transposed ? 0 : 1]))
                                 : std::nullopt;
    }
    if (node.is("Conv")) return product(w->dims, 1);
    const auto groups =
        static_cast<double>(std::max<std::int64_t>(1, node.int_attribute("group", 1)));
    return static_cast<double>(w->dims[0]) / groups *
           product(w->dims, 2);  // ConvTranspose, at most
  }
  if (node.is("CumSum")) return cumulated_elems(run, *x);
  if (node.is("AveragePool")) return window(node);
  if (averages(node) || adds_up(node)) return reduced_elems(run, *x);
  return std::nullopt;
}

std::optional<passes::SumRange> largest_sum(const NodeRun& run, double enough,
                                            const NodeRunnerOptions& options) {
  const std::optional<double> depth = summed_elems(run);
  if (!depth || *depth <= 1) return std::nullopt;
  const double bound = cheap_bound(run, *depth);
  if (bound <= enough) return passes::SumRange{bound, *depth};
  const std::optional<double> exact = exact_sum(run, *depth, options);
  if (!exact) return std::nullopt;
  return passes::SumRange{*exact, *depth};
}

}  // namespace mezzo::numerics
