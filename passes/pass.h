// What a pass is, and what it is given.
//
// A pass changes a Model and returns whether it did; the runner (pass_runner.h) verifies the graph
// after each, checks that claim by fingerprint, dumps, times, and writes a reproducer on failure.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ir/training_roles.h"
#include "compiler/plan/device_kind.h"
#include "compiler/report/records.h"
#include "compiler/support/dtype.h"
#include "compiler/support/status.h"
#include "passes/autodiff/loss_options.h"
#include "passes/precision/policy.h"

namespace mezzo::passes {

struct Assignment;
struct Calibration;

// How `differentiate` chooses what is trained; DESIGN section 7, "What is trained".
struct TrainingOptions {
  std::string loss_output;                 // "" : the only scalar float output
  std::vector<std::string> freeze, train;  // regular expressions; `train` overrules
  std::vector<std::string> parameters;     // names; not empty: these and no others, then as above
};

struct PadOptions {
  int multiple = 0;     // 0: off; else 8, 16, 32, 64
  bool always = false;  // also where the cost model says it does not pay
};

class PassStats {
 public:
  void add(std::string_view name, std::int64_t count) { counts_[std::string(name)] += count; }
  const std::map<std::string, std::int64_t>& counts() const { return counts_; }

 private:
  std::map<std::string, std::int64_t> counts_;
};

struct PassContext {
  PrecisionPolicy policy;
  TrainingOptions training_options;
  LossOptions loss;
  PadOptions padding;
  // Set where the graph is compiled for our runtime, whose kernels take mixed operand types and
  // give FP32 results from low operands; not set for exported ONNX, where schemas rule.
  bool for_runtime = false;
  DeviceKind device = DeviceKind::kCpu;  // with for_runtime: where the plan is meant to run
  std::map<std::string, std::int64_t>
      symbol_values;  // symbolic dimension -> value, for fixed shapes

  std::shared_ptr<const Calibration> calibration;  // ranges measured on samples, if there are any

  std::optional<TrainingRoles> training;  // set by prepare-training and differentiate
  std::uint64_t inferred = 0;  // fingerprint of the model as infer-shapes left it; 0: never ran
  std::set<std::string> computed_constants;  // initializers that passes made: no weights
  // Set by differentiate: initializers that the loss depends on and that are not trained, and why.
  std::map<std::string, std::string> untrained;
  std::string loss_scope;  // set by attach-loss: nodes whose names begin so stay FP32; or ""
  std::shared_ptr<const Assignment> assignment;  // set by assign-precision for insert-casts
  Records records;
  PassStats stats;
};

// REQUIRES: the pass's precondition (pipeline.h). Returns whether the model changed.
using PassFunction = StatusOr<bool> (*)(Model&, PassContext&);

}  // namespace mezzo::passes
