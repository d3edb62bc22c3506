#include "tools/mezzo/compile_model.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <unordered_map>

#include "compiler/artifacts/accumulators.h"
#include "compiler/ir/clone.h"
#include "compiler/onnx/import.h"
#include "compiler/support/atomic_file.h"
#include "compiler/support/text.h"
#include "kernels/kernel.h"
#include "passes/autodiff/adopt_backward.h"
#include "passes/layout/choose_layouts.h"
#include "passes/memory/plan_memory.h"
#include "passes/pipeline.h"
#include "passes/precision/policy_words.h"
#include "runtime/exec/plan_file.h"
#include "runtime/io/safetensors.h"
#include "tools/mezzo/options.h"

namespace mezzo::cli {
namespace {

// Sizes for symbolic dimensions: --dim, and the batch size for the first dimension of every input.
StatusOr<std::map<std::string, std::int64_t>> symbol_values(const Graph& graph,
                                                            const CompileOptions& options) {
  std::map<std::string, std::int64_t> values = options.dims;
  std::vector<std::string> symbols;
  for (const Value* input : graph.inputs()) {
    if (input->is_initializer() || !input->type.is_tensor() || !input->type.tensor.shape) continue;
    const std::vector<Dim>& dims = *input->type.tensor.shape;
    for (const Dim& dim : dims) {
      if (!dim.symbol.empty()) symbols.push_back(dim.symbol);
    }
    if (options.batch_size == 0 || dims.empty()) continue;
    if (!dims[0].symbol.empty()) values.emplace(dims[0].symbol, options.batch_size);
    if (dims[0].known() && dims[0].value != options.batch_size) {
      return invalid_argument(
          "input '" + input->name() + "': the graph is fixed to batches of " +
          std::to_string(dims[0].value) + ", got --batch-size " +
          std::to_string(options.batch_size) +
          ". Hint: use that batch size, or export with a symbolic batch dimension");
    }
  }
  for (const auto& [name, size] : options.dims) {
    if (std::find(symbols.begin(), symbols.end(), name) == symbols.end()) {
      return invalid_argument("--dim " + name + ": no input has a dimension of that name." +
                              did_you_mean(name, symbols) +
                              (symbols.empty() ? "" : " There are " + join(symbols, ", ")));
    }
  }
  return values;
}

// A first dimension without a name takes the batch size, too.
void bind_unnamed_batch(Graph& graph, std::int64_t batch_size) {
  if (batch_size == 0) return;
  for (Value* input : graph.inputs()) {
    if (input->is_initializer() || !input->type.is_tensor() || !input->type.tensor.shape) continue;
    std::vector<Dim>& dims = *input->type.tensor.shape;
    if (!dims.empty() && !dims[0].known() && dims[0].symbol.empty()) dims[0] = Dim(batch_size);
  }
}

// Sizes what the model leaves open by the shapes of the arrays that will be given: named dimensions
// go to `values`, unnamed ones and missing shapes into the graph. Sizes that the model fixes are
// compared when the arrays are read.
Status bind_to_arrays(Graph& graph, const std::map<std::string, std::vector<std::int64_t>>& arrays,
                      std::map<std::string, std::int64_t>& values) {
  for (Value* input : graph.inputs()) {
    const auto array = arrays.find(input->name());
    if (array == arrays.end() || !input->type.is_tensor()) continue;
    const std::vector<std::int64_t>& sizes = array->second;
    std::optional<std::vector<Dim>>& shape = input->type.tensor.shape;
    if (!shape) shape = std::vector<Dim>(sizes.size());
    for (std::size_t d = 0; shape->size() == sizes.size() && d < sizes.size(); ++d) {
      Dim& dim = (*shape)[d];
      if (dim.known()) continue;
      if (dim.symbol.empty()) {
        dim = Dim(sizes[d]);
      } else if (const auto [at, fresh] = values.emplace(dim.symbol, sizes[d]);
                 !fresh && at->second != sizes[d]) {
        return invalid_argument("input '" + input->name() + "': dimension '" + dim.symbol +
                                "' is " + std::to_string(sizes[d]) + " in the array given, but " +
                                std::to_string(at->second) + " elsewhere");
      }
    }
  }
  return ok_status();
}

passes::PassContext make_context(const CompileOptions& options) {
  passes::PassContext ctx;
  ctx.policy = options.policy;
  ctx.training_options = options.training;
  ctx.loss = options.loss;
  ctx.padding = options.padding;
  ctx.for_runtime = true;
  ctx.device = options.device;
  return ctx;
}

// A graph that holds its own backward pass: its frame (parameters as inputs, buffers for gradients)
// is exchanged before anything looks at the inputs.
Status adopt_backward(Model& model, const CompileOptions& options, passes::PassContext& ctx,
                      Compiled& compiled) {
  if (ctx.padding.multiple > 0) {
    ctx.padding = {};
    ctx.records.warnings.push_back(
        "channels are not padded: the graph holds its own backward pass");
  }
  return passes::run_passes(model, ctx, {passes::find_pass("adopt-backward")}, options.runner,
                            &compiled.passes);
}

// The evaluate phase of a training run: the model in FP32, with inference semantics.
StatusOr<std::unique_ptr<Model>> evaluation_model(std::unique_ptr<Model> model,
                                                  const passes::PassContext& training,
                                                  const CompileOptions& options) {
  passes::PassContext ctx = make_context(options);
  ctx.policy.force_fp32 = true;
  ctx.padding = training.padding;
  ctx.symbol_values = training.symbol_values;
  MEZZO_RETURN_IF_ERROR(passes::run_passes(*model, ctx, passes::inference_pipeline(ctx)));
  return model;
}

// What can be done about an operator that the runtime does not execute.
Status with_advice(const Status& status) {
  if (status.code() != StatusCode::kUnimplemented ||
      status.message().find("Hint: ") != std::string::npos) {
    return status;
  }
  return unimplemented(
      status.message() +
      ". Hint: kernels/README.md lists what runs here; `mezzo convert` rewrites the "
      "model for other runtimes in any case");
}

std::uint64_t total_weight_bytes(const Graph& graph) {
  std::uint64_t bytes = 0;
  for (const Value* value : graph.initializers())
    bytes += value->constant() ? value->constant()->byte_size() : 0;
  return bytes;
}

// The plan of a graph that has become what the runtime runs; `evaluation` may be null.
StatusOr<PlanDraft> make_draft(const Model& model, std::unique_ptr<Model> evaluation,
                               const passes::PassContext& ctx, const CompileOptions& options) {
  PlanInputs inputs;
  inputs.model = &model;
  inputs.precision = passes::precision_word(options.policy);
  inputs.target = device_word(options.device);
  inputs.result_may_be_absent = kernels::result_may_be_absent;
  if (options.train) inputs.training = &*ctx.training;
  if (evaluation) {
    MEZZO_ASSIGN_OR_RETURN(evaluation, evaluation_model(std::move(evaluation), ctx, options));
    inputs.evaluate = evaluation.get();
  }
  StatusOr<PlanDraft> draft = build_plan(inputs);
  if (!draft.ok()) return with_advice(draft.status());
  passes::choose_layouts(*draft, options.device);
  const Status placed = passes::plan_memory(*draft);
  if (!placed.ok()) return unimplemented(placed.message());
  return draft;
}

// What reports and the plan's provenance say, beside what the passes have recorded.
void complete_records(const std::string& path, const CompileOptions& options, Compiled& compiled) {
  Records& records = compiled.records;
  records.model = std::filesystem::path(path).filename().string();
  records.precision = passes::precision_word(options.policy);
  records.tool_version = MEZZO_VERSION;
  for (const proto::Arena& arena : compiled.draft->plan.arenas()) {
    if (arena.name() != "activations") continue;
    records.planned_peak_bytes = arena.bytes();
    records.live_bytes = arena.live_bytes();
  }
  proto::Provenance* provenance = compiled.draft->plan.mutable_provenance();
  provenance->set_tool_version(MEZZO_VERSION);
  provenance->set_source_name(records.model);
  for (const auto& [name, value] : options.policy.describe())
    (*provenance->mutable_options())[name] = value;
}

}  // namespace

StatusOr<Compiled> compile_model(const std::string& path, const CompileOptions& options) {
  std::vector<std::string> data_files;
  ImportOptions import_options;
  import_options.data_files = &data_files;
  MEZZO_ASSIGN_OR_RETURN(std::unique_ptr<Model> model, load_model(path, import_options));
  MEZZO_ASSIGN_OR_RETURN(Compiled compiled, compile_loaded(std::move(model), path, options));
  compiled.data_files = std::move(data_files);
  return compiled;
}

StatusOr<Compiled> compile_loaded(std::unique_ptr<Model> model, const std::string& path,
                                  const CompileOptions& options) {
  Compiled compiled;
  passes::PassContext ctx = make_context(options);
  if (options.train && accumulates_gradients(*model->graph)) {
    MEZZO_RETURN_IF_ERROR(adopt_backward(*model, options, ctx, compiled).with_context(path));
  }
  bind_unnamed_batch(*model->graph, options.batch_size);
  auto symbols = symbol_values(*model->graph, options);
  if (!symbols.ok()) return symbols.status().with_context(path);
  MEZZO_RETURN_IF_ERROR(
      bind_to_arrays(*model->graph, options.input_dims, *symbols).with_context(path));
  ctx.symbol_values = *symbols;
  std::unique_ptr<Model> evaluation;
  if (options.train && options.evaluate) evaluation = clone_model(*model);
  if (evaluation && ctx.training) passes::drop_backward(*evaluation, *ctx.training);

  const std::uint64_t weight_bytes = total_weight_bytes(*model->graph);
  const auto pipeline = options.train ? passes::training_pipeline(ctx) : passes::run_pipeline(ctx);
  MEZZO_RETURN_IF_ERROR(passes::run_passes(*model, ctx, pipeline, options.runner, &compiled.passes)
                            .with_context(path));
  MEZZO_RETURN_IF_ERROR(check_policy_used(options.policy, ctx.records).with_context(path));

  StatusOr<PlanDraft> draft = make_draft(*model, std::move(evaluation), ctx, options);
  if (!draft.ok()) return draft.status().with_context(path);
  compiled.draft = std::make_shared<PlanDraft>(std::move(draft).value());
  if (options.train) {
    for (const auto& [parameter, gradient] : ctx.training->gradients)
      compiled.trained.push_back(parameter);
    compiled.untrained = std::move(ctx.untrained);
  }
  compiled.records = std::move(ctx.records);
  compiled.records.weight_bytes_before = weight_bytes;
  compiled.records.weight_bytes_after = total_weight_bytes(*model->graph);
  complete_records(path, options, compiled);
  return compiled;
}

runtime::WeightSource weights_of(const std::shared_ptr<PlanDraft>& draft) {
  // Computed tensors (weights stored low) are materialised once, when asked for.
  auto by_name = std::make_shared<std::unordered_map<std::string, TensorRef>>();
  for (const auto& [index, tensor] : draft->weights)
    by_name->emplace(draft->plan.tensors(index).name(), tensor);
  auto copies = std::make_shared<std::unordered_map<std::string, std::vector<std::byte>>>();
  return [draft, by_name, copies](const std::string& name) -> StatusOr<std::span<const std::byte>> {
    const auto found = by_name->find(name);
    if (found == by_name->end()) return internal_error("no weights for '" + name + "'");
    const std::span<const std::byte> stored = found->second->stored_bytes();
    if (!stored.empty() || found->second->byte_size() == 0) return stored;
    auto copy = copies->find(name);
    if (copy == copies->end()) copy = copies->emplace(name, found->second->copy_bytes()).first;
    return std::span<const std::byte>(copy->second);
  };
}

std::string weights_path_of(const std::string& plan_path) {
  return std::filesystem::path(plan_path).replace_extension(".safetensors").string();
}

Status write_plan(const PlanDraft& draft, const std::string& path) {
  proto::Plan plan = draft.plan;
  // The plan's file is created first and renamed last: no weights are left without their plan.
  MEZZO_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path));
  if (!draft.weights.empty()) {
    const std::string weights_path = weights_path_of(path);
    // Tensors follow each other without gaps: whole multiples of 64 bytes first, so that as many as
    // can be lie aligned and are used where they are mapped.
    std::vector<std::pair<std::int32_t, TensorRef>> weights(draft.weights.begin(),
                                                            draft.weights.end());
    std::stable_partition(weights.begin(), weights.end(),
                          [](const auto& weight) { return weight.second->byte_size() % 64 == 0; });
    std::vector<runtime::SafetensorsDecl> declarations;
    for (const auto& [index, tensor] : weights) {
      declarations.push_back({plan.tensors(index).name(), tensor->dtype(), tensor->dims()});
    }
    MEZZO_ASSIGN_OR_RETURN(auto writer,
                           runtime::SafetensorsWriter::create(weights_path, declarations));
    for (const auto& [index, tensor] : weights) {
      MEZZO_RETURN_IF_ERROR(
          tensor->stream([&](std::span<const std::byte> piece) { return writer.write(piece); }));
    }
    MEZZO_RETURN_IF_ERROR(writer.commit());
    plan.mutable_provenance()->set_weights_file(
        std::filesystem::path(weights_path).filename().string());
  }
  MEZZO_RETURN_IF_ERROR(file.write(runtime::plan_file_bytes(plan)));
  return file.commit();
}

}  // namespace mezzo::cli
