// Which values of a joint forward and backward graph play which part in training.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace mezzo {

// What the compiler knows of the training part of a graph. Values are named, as names of graph
// inputs, outputs and initializers survive passes.
struct TrainingRoles {
  std::string loss;            // graph output, FP32 scalar
  std::string loss_gradient;   // graph input set by the runtime: loss_scale / accumulate
  std::string random_counter;  // graph input, int64 scalar; "" if the graph draws no numbers
  std::map<std::string, std::string> gradients;  // trained initializer -> graph output
  std::map<std::string, std::string> states;     // running statistic -> graph output, its new value
  std::map<std::string, std::vector<std::int64_t>>
      logical_dims;  // of padded initializers and ports
};

}  // namespace mezzo
