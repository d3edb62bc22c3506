// Conversion of a model to mixed precision, shared by convert and report.
#pragma once

#include <memory>
#include <string>

#include "compiler/ir/graph.h"
#include "compiler/report/records.h"
#include "compiler/support/status.h"
#include "passes/pass.h"
#include "passes/pass_runner.h"

namespace mezzo::cli {

struct Converted {
  std::unique_ptr<Model> model;
  Records records;
  std::vector<passes::PassRun> passes;
  std::vector<std::string> data_files;  // external data that the model is read from
};

// `calibration` may be null. `weights`: a checkpoint to take weights from (trained_weights.h), or
// "".
StatusOr<Converted> convert_model(const std::string& path, const passes::PrecisionPolicy& policy,
                                  const passes::PadOptions& padding,
                                  const passes::RunnerOptions& runner,
                                  std::shared_ptr<const passes::Calibration> calibration = nullptr,
                                  const std::string& weights = "");

}  // namespace mezzo::cli
