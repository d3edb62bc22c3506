#include "passes/numerics/calibrate.h"

#include <algorithm>

#include "compiler/ops/constants.h"
#include "passes/numerics/sums.h"
#include "passes/numerics/tensor_range.h"

namespace mezzo::numerics {
namespace {

class Measurer {
 public:
  Measurer(const Model& model, const CalibrateOptions& options)
      : ranges_{options.low, options.mask},
        most_(float_facts(options.low).max),
        runner_{&model, options.threads} {}

  Status observe(const NodeRun& run) {
    // What graphs inside nodes are given has no producer: it is measured where it is read.
    for (std::size_t i = 0; i < run.operands.size(); ++i) {
      const Value* value = run.node.operand(i);
      if (value != nullptr && value->producer() == nullptr && !constant_of(value))
        measure(*value, run.operands[i]);
    }
    for (std::size_t i = 0; i < run.results.size(); ++i) {
      const Value* value = run.node.result(i);
      if (value != nullptr && !run.node.is("Constant")) measure(*value, run.results[i]);
    }
    if (run.node.result() == nullptr || !run.node.subgraphs().empty()) return ok_status();
    if (const auto sum = largest_sum(run, most_, runner_); sum && sum->most > most_) {
      passes::SumRange& known = found.sums[passes::measured_key(*run.node.result())];
      known.most = std::max(known.most, sum->most);
      known.depth = std::max(known.depth, sum->depth);
    }
    return ok_status();
  }

  passes::Calibration found;

 private:
  void measure(const Value& value, const RuntimeValue* at) {
    if (at == nullptr || !at->is_tensor() || at->tensor.dtype != DType::kFloat32) return;
    found.tensors[passes::measured_key(value)].merge(range_of(at->tensor, ranges_));
  }

  RangeOptions ranges_;
  double most_;
  NodeRunnerOptions runner_;
};

Status check_inputs(const Graph& graph, const std::vector<RuntimeValue>& inputs) {
  for (std::size_t i = 0; i < std::min(inputs.size(), graph.inputs().size()); ++i) {
    if (!inputs[i].is_tensor() || !is_floating(inputs[i].tensor.dtype)) continue;
    const passes::TensorRange range = range_of(inputs[i].tensor);
    if (range.nans == 0) continue;
    return invalid_argument("input '" + graph.inputs()[i]->name() + "' holds " +
                            std::to_string(range.nans) +
                            " NaN, of which no range follows. Hint: samples are to be inputs that "
                            "the model meets in use");
  }
  return ok_status();
}

}  // namespace

StatusOr<passes::Calibration> calibrate(const Model& model, std::uint64_t samples,
                                        const SampleReader& read, const CalibrateOptions& options) {
  if (samples == 0) return invalid_argument("there is no sample");
  Measurer measurer(model, options);
  InterpreterOptions interpreter_options;
  interpreter_options.threads = options.threads;
  interpreter_options.most_iterations = options.most_iterations;
  interpreter_options.observer = [&](const NodeRun& run) { return measurer.observe(run); };
  Interpreter interpreter(model, interpreter_options);
  if (options.progress) options.progress(0);
  for (std::uint64_t i = 0; i < samples; ++i) {
    const std::string where = "sample " + std::to_string(i);
    auto inputs = read(i);
    if (!inputs.ok()) return inputs.status();
    MEZZO_RETURN_IF_ERROR(check_inputs(*model.graph, *inputs).with_context(where));
    MEZZO_RETURN_IF_ERROR(interpreter.run(*std::move(inputs)).status().with_context(where));
    if (options.progress) options.progress(i + 1);
  }
  measurer.found.samples = samples;
  if (measurer.found.tensors.empty()) {
    return invalid_argument(
        "no node of the model computes in FP32, so there is nothing to calibrate");
  }
  return std::move(measurer.found);
}

}  // namespace mezzo::numerics
