// What other policies would make of a model.
#pragma once

#include <memory>
#include <string>

#include "compiler/report/report.h"
#include "compiler/support/status.h"
#include "passes/precision/calibration.h"
#include "passes/precision/policy.h"
#include "tools/mezzo/options.h"

namespace mezzo::cli {

enum class Compared { kDefaultAndInference, kAllPresets };

// Converts the model (again) under each preset and the same `options`, and with the low type,
// target, padding and I/O types of `chosen`, the policy that they give and that `report` describes;
// `calibration`, if there is one, holds for all of them.
// Notes the figures of all in the report, the chosen one first. Presets that come to the same
// policy are one row; one under which the model cannot be converted is a warning of the report.
// Nothing is compared where everything stays FP32.
Status compare_presets(const std::string& path, const PolicyOptions& options,
                       const passes::PrecisionPolicy& chosen, Compared compared, Report& report,
                       const std::shared_ptr<const passes::Calibration>& calibration = nullptr);

}  // namespace mezzo::cli
