// Milliseconds per training step, FP32 and BF16 side by side, on one thread.
//
// One iteration is a step in FP32 and a step in BF16, so that a change of clock or load meets both.
// Reported are the medians over the iterations:
//   fp32_ms bf16_ms            time of a whole step: forward, backward, optimizer
//   bf16_speedup               fp32_ms / bf16_ms
//   fp32_gflops bf16_gflops    matrix products and convolutions only, by their exact count
//
// --save=DIR writes DIR/NAME.onnx and DIR/NAME.npz and measures nothing, for
//   mezzo train DIR/bert.onnx --data DIR/bert.npz --batch-size 16 --steps 20 --threads 1 --profile
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/onnx/export.h"
#include "compiler/ops/op_def.h"
#include "runtime/exec/trainer.h"
#include "runtime/io/npz.h"
#include "tests/bench/bench_models.h"
#include "tests/support/temp_dir.h"
#include "tools/mezzo/compile_model.h"

namespace mezzo::bench {
namespace {

constexpr int kWarmupSteps = 2;
constexpr std::int64_t kBatches = 2;  // distinct batches; training goes round

// One model being trained in one precision.
struct Run {
  cli::Compiled compiled;
  std::unique_ptr<runtime::Executor> executor;
  std::unique_ptr<runtime::Dataset> data;
  std::unique_ptr<runtime::Trainer> trainer;
  std::vector<double> step_ms;

  double median_ms() const {
    std::vector<double> sorted = step_ms;
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2];
  }

  // Of the matrix products and convolutions of a step.
  double contraction_flops() const {
    double sum = 0;
    for (const NodeDecision& node : compiled.records.nodes) {
      const OpDef* op = find_op(node.op_type, node.domain);
      if (op != nullptr && op->precision == PrecisionCategory::kAllow) sum += node.flops;
    }
    return sum;
  }
};

struct BenchCase {
  const char* name;
  StatusOr<std::unique_ptr<Model>> (*make)(std::int64_t batch);
  std::int64_t batch;
  runtime::OptimizerGroup optimizer;
};

std::vector<BenchCase> bench_cases() {
  runtime::OptimizerGroup sgd;
  sgd.kind = runtime::OptimizerKind::kSgd;
  sgd.lr = 0.002;
  sgd.momentum = 0.9;
  sgd.weight_decay = 1e-4;
  runtime::OptimizerGroup adamw;
  adamw.kind = runtime::OptimizerKind::kAdamW;
  adamw.lr = 1e-4;
  adamw.weight_decay = 0.01;
  return {{"wide_resnet", make_wide_resnet, 16, sgd}, {"bert", make_bert, 16, adamw}};
}

// Random inputs: normal numbers for float inputs, tokens or classes for integer ones.
Status write_data(const Graph& graph, const std::string& path) {
  std::mt19937 random(0);
  MEZZO_ASSIGN_OR_RETURN(runtime::NpzWriter npz, runtime::NpzWriter::create(path));
  for (const Value* input : graph.inputs()) {
    std::vector<std::int64_t> dims = input->tensor_type().dims();
    dims[0] *= kBatches;
    std::size_t elems = 1;
    for (const std::int64_t dim : dims) elems *= static_cast<std::size_t>(dim);
    if (input->dtype() == DType::kFloat32) {
      std::normal_distribution<float> normal;
      std::vector<float> values(elems);
      for (float& value : values) value = normal(random);
      MEZZO_RETURN_IF_ERROR(
          npz.add(input->name(), DType::kFloat32, dims, std::as_bytes(std::span(values))));
    } else {
      std::uniform_int_distribution<std::int64_t> classes(
          0, (dims.size() > 1 ? kVocabulary : kClasses) - 1);
      std::vector<std::int64_t> values(elems);
      for (std::int64_t& value : values) value = classes(random);
      MEZZO_RETURN_IF_ERROR(
          npz.add(input->name(), DType::kInt64, dims, std::as_bytes(std::span(values))));
    }
  }
  return npz.commit();
}

std::string model_path(const BenchCase& bench, const std::string& folder) {
  return folder + "/" + bench.name + ".onnx";
}

std::string data_path(const BenchCase& bench, const std::string& folder) {
  return folder + "/" + bench.name + ".npz";
}

Status save_model(const BenchCase& bench, const std::string& folder) {
  MEZZO_ASSIGN_OR_RETURN(const std::unique_ptr<Model> model, bench.make(bench.batch));
  MEZZO_RETURN_IF_ERROR(export_model(*model, model_path(bench, folder)));
  return write_data(*model->graph, data_path(bench, folder));
}

StatusOr<std::unique_ptr<Run>> start_run(const BenchCase& bench, const std::string& folder,
                                         bool fp32) {
  auto run = std::make_unique<Run>();
  cli::CompileOptions options;
  options.policy.force_fp32 = fp32;
  options.policy.low = DType::kBFloat16;
  options.batch_size = bench.batch;
  options.train = true;
  options.evaluate = false;
  MEZZO_ASSIGN_OR_RETURN(run->compiled, cli::compile_model(model_path(bench, folder), options));
  MEZZO_ASSIGN_OR_RETURN(
      run->executor,
      runtime::Executor::create(run->compiled.plan(), cli::weights_of(run->compiled.draft), {}));
  runtime::DatasetOptions data_options;
  data_options.batch_size = bench.batch;
  data_options.shuffle = false;
  MEZZO_ASSIGN_OR_RETURN(
      runtime::Dataset data,
      runtime::Dataset::open(data_path(bench, folder),
                             runtime::input_expectations(*run->compiled.plan()), data_options));
  run->data = std::make_unique<runtime::Dataset>(std::move(data));
  runtime::TrainerOptions trainer_options;
  trainer_options.optimizer = bench.optimizer;
  trainer_options.schedule.base_lr = bench.optimizer.lr;
  trainer_options.loss_scale.mode = runtime::LossScaleMode::kOff;
  trainer_options.threads = 1;
  MEZZO_ASSIGN_OR_RETURN(run->trainer,
                         runtime::Trainer::create(*run->executor, *run->data, trainer_options));
  return run;
}

Status step(Run& run) {
  MEZZO_ASSIGN_OR_RETURN(const runtime::StepMetrics metrics, run.trainer->step());
  run.step_ms.push_back(metrics.step_ms);
  return ok_status();
}

Status train_side_by_side(benchmark::State& state, const BenchCase& bench) {
  const test::TempDir folder;
  MEZZO_RETURN_IF_ERROR(save_model(bench, folder.path()));
  MEZZO_ASSIGN_OR_RETURN(const std::unique_ptr<Run> fp32, start_run(bench, folder.path(), true));
  MEZZO_ASSIGN_OR_RETURN(const std::unique_ptr<Run> bf16, start_run(bench, folder.path(), false));
  for (Run* run : {fp32.get(), bf16.get()}) {
    for (int i = 0; i < kWarmupSteps; ++i) MEZZO_RETURN_IF_ERROR(step(*run));
    run->step_ms.clear();
  }
  for (auto _ : state) {
    MEZZO_RETURN_IF_ERROR(step(*fp32));
    MEZZO_RETURN_IF_ERROR(step(*bf16));
    state.SetIterationTime((fp32->step_ms.back() + bf16->step_ms.back()) / 1000);
  }
  state.counters["fp32_ms"] = fp32->median_ms();
  state.counters["bf16_ms"] = bf16->median_ms();
  state.counters["bf16_speedup"] = fp32->median_ms() / bf16->median_ms();
  state.counters["fp32_gflops"] = fp32->contraction_flops() / fp32->median_ms() / 1e6;
  state.counters["bf16_gflops"] = bf16->contraction_flops() / bf16->median_ms() / 1e6;
  return ok_status();
}

void register_cases() {
  for (const BenchCase& bench : bench_cases()) {
    const auto body = [bench](benchmark::State& state) {
      const Status status = train_side_by_side(state, bench);
      if (!status.ok()) state.SkipWithError(status.message().c_str());
    };
    benchmark::RegisterBenchmark(bench.name, body)
        ->UseManualTime()
        ->Unit(benchmark::kMillisecond)
        ->MinTime(3);
  }
}

Status save_cases(const std::string& folder) {
  for (const BenchCase& bench : bench_cases()) MEZZO_RETURN_IF_ERROR(save_model(bench, folder));
  return ok_status();
}

}  // namespace
}  // namespace mezzo::bench

int main(int argc, char** argv) {
  constexpr std::string_view kSave = "--save=";
  if (argc == 2 && std::string_view(argv[1]).starts_with(kSave)) {
    const mezzo::Status status = mezzo::bench::save_cases(argv[1] + kSave.size());
    if (!status.ok()) std::fprintf(stderr, "error: %s\n", status.message().c_str());
    return status.ok() ? 0 : 1;
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  mezzo::bench::register_cases();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
