#include "passes/precision/cost_model.h"

#include <algorithm>
#include <array>

#include "compiler/ops/op_def.h"
#include "compiler/support/text.h"

namespace mezzo::passes {
namespace {

constexpr double kReached = 0.5;  // share of the peak that kernels reach

constexpr std::array<TargetFacts, 4> kTargets = {{
    // One core of a server with 512-bit vectors and BF16 dot products; no launch but a call. FP16
    // is
    // converted on every load and store, which costs more than the smaller tensor saves in cache.
    {"cpu", 0.23, 0.46, 0.05, 20, 0.5, 1.05},
    // NVIDIA data sheets: V100 SXM2, A100 SXM 40 GB, H100 SXM.
    {"v100", 15.7, 125, 15.7, 900, 3, 0},
    {"a100", 19.5, 312, 19.5, 1555, 3, 0},
    {"h100", 67, 989, 67, 3350, 3, 0},
}};

bool is_contraction(const Node& node) {
  const OpDef* def = find_op(node);
  return def != nullptr && def->precision == PrecisionCategory::kAllow;
}

// Bytes of a value if FP32 tensors have `dtype`.
double value_bytes(const Value* value, DType dtype) {
  if (value == nullptr || !value->type.is_tensor()) return 0;
  const DType actual = value->dtype() == DType::kFloat32 ? dtype : value->dtype();
  return static_cast<double>(estimated_elems(*value)) * dtype_bits(actual) / 8;
}

}  // namespace

StatusOr<const TargetFacts*> find_target(std::string_view name) {
  for (const TargetFacts& target : kTargets) {
    if (target.name == name) return &target;
  }
  const std::vector<std::string> names = target_names();
  return invalid_argument("--target '" + std::string(name) + "': no such target." +
                          did_you_mean(name, names) + " There are " + join(names, ", "));
}

std::vector<std::string> target_names() {
  std::vector<std::string> names;
  for (const TargetFacts& target : kTargets) names.emplace_back(target.name);
  return names;
}

std::int64_t estimated_elems(const Value& value) {
  if (!value.type.is_tensor() || !value.tensor_type().shape) return 1;
  double elems = 1;
  for (const Dim& dim : *value.tensor_type().shape)
    elems *= static_cast<double>(dim.known() ? dim.value : kAssumedExtent);
  return static_cast<std::int64_t>(std::min(elems, 1e15));
}

double CostModel::node_us(const Node& node, DType dtype) const {
  if (dtype == DType::kFloat16 && target_.fp16_vector_ratio > 0 && !is_contraction(node)) {
    return node_us(node, DType::kFloat32) * target_.fp16_vector_ratio;
  }
  const double peak = is_contraction(node)
                          ? (is_low(dtype) ? target_.low_tflops : target_.fp32_tflops)
                          : target_.vector_tflops;
  const double compute_us = flops(node) / (peak * kReached * 1e6);
  const double memory_us =
      static_cast<double>(node_bytes(node, dtype)) / (target_.bandwidth_gbs * 1e3);
  return std::max(compute_us, memory_us) + target_.launch_us;
}

double CostModel::cast_us(const Value& value) const {
  const double bytes = static_cast<double>(estimated_elems(value)) * (4 + 2);
  return bytes / (target_.bandwidth_gbs * 1e3) + target_.launch_us;
}

std::uint64_t CostModel::node_bytes(const Node& node, DType dtype) const {
  double bytes = 0;
  for (const Value* operand : node.operands()) bytes += value_bytes(operand, dtype);
  for (const Value* result : node.results()) bytes += value_bytes(result, dtype);
  return static_cast<std::uint64_t>(std::min(bytes, 1e18));
}

}  // namespace mezzo::passes
