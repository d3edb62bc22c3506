// From a model file to something the runtime can execute: which passes run, and how their results
// become a plan. Shared by train, compile and run.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/plan/plan_builder.h"
#include "compiler/support/status.h"
#include "passes/pass.h"
#include "passes/pass_runner.h"
#include "runtime/exec/executor.h"

namespace mezzo::cli {

struct CompileOptions {
  passes::PrecisionPolicy policy;
  passes::TrainingOptions training;
  passes::LossOptions loss;
  passes::PadOptions padding;
  DeviceKind device = DeviceKind::kCpu;  // that the plan is made for; it runs on the others, too
  std::map<std::string, std::int64_t> dims;  // symbolic dimension -> size, from --dim
  std::int64_t batch_size = 0;  // binds the first dimension of inputs; 0: as in the model
  // Shapes of arrays that will be given for inputs: they size what the model leaves open.
  std::map<std::string, std::vector<std::int64_t>> input_dims;
  bool train = false;
  bool evaluate = true;  // with train: add the FP32 evaluate phase
  passes::RunnerOptions runner;
};

struct Compiled {
  std::shared_ptr<PlanDraft> draft;  // placed
  Records records;
  std::vector<passes::PassRun> passes;
  std::vector<std::string> trained;              // initializers, with train
  std::map<std::string, std::string> untrained;  // initializers that could be, and why they are not
  std::vector<std::string> data_files;           // external data that the model is read from
  std::shared_ptr<const proto::Plan> plan() const { return {draft, &draft->plan}; }
};

// `path` is an .onnx or .onnxtxt file.
StatusOr<Compiled> compile_model(const std::string& path, const CompileOptions& options);
// A model that is loaded already, from `path`; data_files stays empty.
StatusOr<Compiled> compile_loaded(std::unique_ptr<Model> model, const std::string& path,
                                  const CompileOptions& options);

// Weights straight from the compiled model, for running in the same process.
runtime::WeightSource weights_of(const std::shared_ptr<PlanDraft>& draft);

// Writes the plan and, beside it, the weights.
Status write_plan(const PlanDraft& draft, const std::string& path);
// NAME.safetensors for NAME.plan.
std::string weights_path_of(const std::string& plan_path);

}  // namespace mezzo::cli
