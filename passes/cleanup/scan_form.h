// What a Scan's attributes and operands say about how it walks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/support/status.h"

namespace mezzo::passes {

struct ScanForm {
  std::size_t states = 0, inputs = 0;  // operands, in this order
  std::int64_t trips = 0;
  std::vector<std::int64_t> input_axes;  // one per input, from 0
  std::vector<std::int64_t> output_axes, input_directions, output_directions;  // as given

  // 0 where the list is shorter.
  static std::int64_t at(const std::vector<std::int64_t>& list, std::size_t i) {
    return i < list.size() ? list[i] : 0;
  }
};

// Unimplemented: a rank or the trip count is not known. InvalidArgument: the inputs' lengths
// differ, or there is no such axis.
StatusOr<ScanForm> read_scan(const Node& node);

}  // namespace mezzo::passes
