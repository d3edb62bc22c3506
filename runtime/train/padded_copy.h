// Copies between a tensor and the larger, padded one whose corner at the origin it is.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "compiler/support/status.h"

namespace mezzo::runtime {

// InvalidArgument unless both have one rank and dims[i] <= padded[i] everywhere.
Status check_padding(std::string_view name, std::span<const std::int64_t> dims,
                     std::span<const std::int64_t> padded);

// to[dims] = the corner of from[padded]. REQUIRES: check_padding is ok; both in C order.
void copy_without_padding(const float* from, std::span<const std::int64_t> padded, float* to,
                          std::span<const std::int64_t> dims);

// to[padded] = from[dims] in the corner, 0 elsewhere.
void copy_with_padding(const float* from, std::span<const std::int64_t> dims, float* to,
                       std::span<const std::int64_t> padded);

}  // namespace mezzo::runtime
