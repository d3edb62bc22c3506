// Calibration for `convert`: samples from files, measured on the FP32 graph; and how the converted
// model does on them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/report/records.h"
#include "compiler/support/status.h"
#include "passes/precision/calibration.h"
#include "passes/precision/policy.h"
#include "tools/mezzo/samples.h"

namespace mezzo::cli {

class ModelCalibration {
 public:
  // Reads the model at `path` and the samples, and runs the one on the others.
  static StatusOr<ModelCalibration> measure(const std::string& path,
                                            const std::vector<std::string>& samples,
                                            const passes::PrecisionPolicy& policy, int threads,
                                            bool quiet);

  const std::shared_ptr<const passes::Calibration>& ranges() const { return ranges_; }
  // Runs the first samples on `converted` too and notes in `records` how far its outputs are from
  // FP32; a warning where it cannot be executed here.
  void check(const Model& converted, Records& records);

 private:
  ModelCalibration(std::unique_ptr<Model> model, Samples samples)
      : model_(std::move(model)), samples_(std::move(samples)) {}

  std::unique_ptr<Model> model_;  // prepared
  Samples samples_;
  std::shared_ptr<const passes::Calibration> ranges_;
  int threads_ = 1;
  bool quiet_ = false;
};

}  // namespace mezzo::cli
