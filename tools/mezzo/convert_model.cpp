#include "tools/mezzo/convert_model.h"

#include <filesystem>

#include "compiler/onnx/check.h"
#include "compiler/onnx/export.h"
#include "compiler/onnx/import.h"
#include "passes/pipeline.h"
#include "passes/precision/cost_model.h"
#include "passes/precision/policy_words.h"
#include "tools/mezzo/options.h"
#include "tools/mezzo/trained_weights.h"

namespace mezzo::cli {
namespace {

std::uint64_t weight_bytes(const Graph& graph) {
  std::uint64_t bytes = 0;
  for (const Value* value : graph.initializers())
    bytes += value->constant() ? value->constant()->byte_size() : 0;
  return bytes;
}

// Bytes of all node results with a shape, unknown dimensions as the cost model counts them.
std::uint64_t activation_bytes(const Graph& graph) {
  std::uint64_t bytes = 0;
  for (const auto& node : graph.nodes()) {
    for (const Value* result : node->results()) {
      if (result == nullptr || !result->type.is_tensor() || !result->tensor_type().shape) continue;
      bytes += dtype_bytes(result->dtype(), passes::estimated_elems(*result));
    }
  }
  return bytes;
}

}  // namespace

StatusOr<Converted> convert_model(const std::string& path, const passes::PrecisionPolicy& policy,
                                  const passes::PadOptions& padding,
                                  const passes::RunnerOptions& runner,
                                  std::shared_ptr<const passes::Calibration> calibration,
                                  const std::string& weights) {
  Converted converted;
  ImportOptions import_options;
  import_options.warnings = &converted.records.warnings;
  import_options.data_files = &converted.data_files;
  MEZZO_ASSIGN_OR_RETURN(converted.model, load_model(path, import_options));
  if (converted.model->opset() > newest_opset()) {
    converted.records.warnings.push_back("opset " + std::to_string(converted.model->opset()) +
                                         " is newer than " + std::to_string(newest_opset()) +
                                         ", the newest that this build knows");
  }
  if (!weights.empty()) {
    MEZZO_RETURN_IF_ERROR(
        apply_trained_weights(*converted.model, weights, converted.records.warnings));
  }
  passes::PassContext ctx;
  ctx.policy = policy;
  ctx.padding = padding;
  ctx.calibration = std::move(calibration);
  ctx.records.warnings = std::move(converted.records.warnings);
  Model& model = *converted.model;
  ctx.records.weight_bytes_before = weight_bytes(*model.graph);
  ctx.records.model = std::filesystem::path(path).filename().string();
  ctx.records.tool_version = MEZZO_VERSION;
  ctx.records.precision = passes::precision_word(policy);
  const auto pipeline = passes::convert_pipeline(ctx);
  // Activations are counted once types are known, and again at the end.
  MEZZO_RETURN_IF_ERROR(
      passes::run_passes(model, ctx, {passes::find_pass("infer-shapes")}, {}, nullptr)
          .with_context(path));
  ctx.records.activation_bytes_before = activation_bytes(*model.graph);
  MEZZO_RETURN_IF_ERROR(
      passes::run_passes(model, ctx, pipeline, runner, &converted.passes).with_context(path));
  MEZZO_RETURN_IF_ERROR(check_policy_used(policy, ctx.records).with_context(path));
  refresh_value_info(*model.graph);
  ctx.records.weight_bytes_after = weight_bytes(*model.graph);
  ctx.records.activation_bytes_after = activation_bytes(*model.graph);
  converted.records = std::move(ctx.records);
  return converted;
}

}  // namespace mezzo::cli
