// What other policies would make of a model.
#pragma once

#include <string>

#include "compiler/report/report.h"
#include "compiler/support/status.h"
#include "passes/precision/policy.h"

namespace mezzo::cli {

enum class Compared { kDefaultAndInference, kAllPresets };

// Converts the model (again) under each preset, with the low type, target, padding, I/O types and
// the options of `chosen`, whose own conversion `report` describes, and notes the figures of all in
// the report, the chosen one first. Presets that come to the same policy are one row.
Status compare_presets(const std::string& path, const passes::PrecisionPolicy& chosen,
                       Compared compared, Report& report);

}  // namespace mezzo::cli
