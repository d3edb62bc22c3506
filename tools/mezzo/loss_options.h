// Options of the loss that `mezzo train` adds to a graph without one.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/support/status.h"
#include "passes/autodiff/loss_options.h"

namespace CLI {
class App;
}

namespace mezzo::cli {

struct LossArguments {
  void add_to(CLI::App& app);
  bool given() const { return !kind_.empty(); }
  // How the options fit together; reads no file. Its message is a usage error.
  Status check() const;
  // Reads --class-weights and the headers of the arrays in `data` ("" : there is none).
  // InvalidArgument: no array for the target, or for the mask.
  StatusOr<passes::LossOptions> resolve(const std::string& data, std::int64_t batch_size,
                                        const Graph* graph = nullptr) const;
  // All that is given, as text: a run and its continuation must not differ in it.
  std::string describe() const;

 private:
  std::string kind_, target_, padding_mask_, class_weights_, pos_weights_;
  std::vector<std::string> outputs_;
  double label_smoothing_ = 0, margin_ = 0;
  std::int64_t ignore_index_ = kUnset, class_axis_ = kUnset;

  static constexpr std::int64_t kUnset = std::numeric_limits<std::int64_t>::min();
};

}  // namespace mezzo::cli
