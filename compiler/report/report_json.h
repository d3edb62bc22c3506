// The report as a JSON value; report.h gives it as text.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "compiler/report/report.h"

namespace mezzo {

nlohmann::json report_to_json(const Report& report);

}  // namespace mezzo
