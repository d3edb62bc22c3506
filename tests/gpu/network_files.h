// Weights and data of the networks of models/benchmark, drawn as export.py's recipe says.
#pragma once

#include <string>

#include "tests/gpu/check.h"

namespace mezzo::gpu {

// Both throw where a file cannot be written or a recipe does not fit together.
void write_weights(const std::string& path, const Json& recipe);
void write_data(const std::string& path, const Json& recipe);

}  // namespace mezzo::gpu
