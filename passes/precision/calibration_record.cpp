// What samples showed and changed, for the report.

#include <algorithm>
#include <unordered_map>

#include "compiler/ops/constants.h"
#include "passes/precision/borders.h"
#include "passes/precision/calibration.h"

namespace mezzo::passes {
namespace {

// The note without the name that begins it: the record has that by itself.
std::string note_of(const Value& value, const std::string& cause) {
  const std::string name = "'" + value.name() + "' ";
  return cause.starts_with(name) ? cause.substr(name.size()) : cause;
}

void record_tensor(const Value* value, const Calibration& measured, const CalibrationCheck& check,
                   const ReachAnalysis& reach, CalibrationRecord& record) {
  if (value == nullptr || constant_of(value)) return;
  const TensorRange* range = measured.find(*value);
  if (range == nullptr) return;
  const std::string cause = check.why_not(*value, reach);
  if (cause.empty()) return;
  MeasuredTensor tensor;
  tensor.tensor = value->name();
  tensor.scope = scope_of(*value->graph());
  tensor.lowest = range->lowest;
  tensor.highest = range->highest;
  tensor.smallest_nonzero = range->smallest_nonzero;
  tensor.infinities = range->infinities;
  tensor.nans = range->nans;
  tensor.note = note_of(*value, cause);
  record.near_limit.push_back(std::move(tensor));
}

// A tensor that a caller gives or takes in the low type cannot be kept in FP32 here.
void warn_of_low_io(const Graph& graph, const CalibrationCheck& check, const ReachAnalysis& reach,
                    Records& records) {
  const auto warn = [&](const char* what, const Value& value) {
    if (value.dtype() != DType::kFloat32) return;
    if (const std::string cause = check.why_not(value, reach); !cause.empty())
      records.warnings.push_back(std::string(what) + " " + cause + ", and with --io low it has " +
                                 "that type. Hint: --io keep");
  };
  for (const Value* input : graph.inputs()) warn("input", *input);
  for (const Value* output : graph.outputs()) warn("output", *output);
}

// What is no number in FP32 already, no precision mends.
class NanNote {
 public:
  void look(const Value* value, const Calibration& measured) {
    const TensorRange* range = value == nullptr ? nullptr : measured.find(*value);
    if (range == nullptr || range->nans == 0) return;
    if (count_++ == 0) first_ = scope_of(*value->graph()) + value->name();
  }
  void tell(Records& records) const {
    if (count_ == 0) return;
    records.warnings.push_back("on the samples " + std::to_string(count_) +
                               (count_ == 1 ? " tensor holds" : " tensors hold") +
                               " NaN in FP32 already, the first is '" + first_ +
                               "'. Hint: `mezzo run --trace nan` names the node that makes it");
  }

 private:
  std::size_t count_ = 0;
  std::string first_;
};

LowSlots all_fp32_slots(const Node& node) {
  LowSlots slots;
  slots.possible = true;
  for (const Value* operand : node.operands()) slots.operands.push_back(is_fp32(operand));
  for (const Value* result : node.results()) slots.results.push_back(is_fp32(result));
  return slots;
}

}  // namespace

void record_calibration(const Model& model, PassContext& ctx,
                        const std::vector<NodeDecision>& without) {
  const Calibration& measured = *ctx.calibration;
  CalibrationRecord record;
  record.sources = measured.sources;
  record.samples = measured.samples;
  record.tensors = measured.tensors.size();
  const ReachAnalysis reach(model, ctx.policy.low, ctx.policy.thresholds.mask);
  const CalibrationCheck check(measured, ctx.policy.low, ctx.policy);
  const CalibrationCheck in_bf16(measured, DType::kBFloat16, ctx.policy);
  std::unordered_map<std::string, const Node*> nodes;
  NanNote nans;
  for_each_graph(*model.graph, [&](const Graph& graph) {
    for (const Value* input : graph.inputs()) record_tensor(input, measured, check, reach, record);
    for (const auto& node : graph.nodes()) {
      nodes.emplace(scope_of(graph) + display_name(*node), node.get());
      for (const Value* result : node->results()) {
        record_tensor(result, measured, check, reach, record);
        nans.look(result, measured);
      }
    }
  });
  const std::vector<NodeDecision>& with = ctx.records.nodes;
  for (std::size_t i = 0; i < std::min(with.size(), without.size()); ++i) {
    if (with[i].dtype == without[i].dtype) continue;
    record.changes.push_back(
        {with[i].node, with[i].scope, with[i].op_type, without[i].dtype, with[i].dtype});
    const auto node = nodes.find(with[i].scope + with[i].node);
    if (ctx.policy.low == DType::kFloat16 && with[i].rule == Rule::kCalibration &&
        node != nodes.end() &&
        in_bf16.why_fp32(*node->second, all_fp32_slots(*node->second), reach).empty())
      ++record.avoided_by_bf16;
  }
  nans.tell(ctx.records);
  if (ctx.policy.io == IoTypes::kLow) warn_of_low_io(*model.graph, check, reach, ctx.records);
  ctx.records.calibration = std::move(record);
}

}  // namespace mezzo::passes
