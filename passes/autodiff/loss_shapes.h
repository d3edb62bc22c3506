// Private to passes/autodiff: how the shapes of outputs and targets go together.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/support/status.h"
#include "passes/autodiff/loss_options.h"

namespace mezzo::passes {

using Dims = std::vector<std::int64_t>;

Dims without_axis(const Dims& dims, std::size_t axis);
std::int64_t product(const Dims& dims);
// The same shape, dimensions of 1 aside: elements then lie in the same order.
bool is_like(const Dims& a, const Dims& b);

// "target 'labels': expected EXPECTED for output 'y' float[4,3], got int64[4,2] per batch"
Status misfit(std::string_view what, const std::string& name, const Value& output,
              const std::string& expected, DType dtype, const Dims& got);

struct ClassPlace {
  std::size_t axis = 1;
  bool soft = false;  // targets are probabilities of the output's shape
  Dims labels;        // shape of the targets per batch
};

// Where the classes of `output` lie, as the shape of a batch of targets tells (dims empty: nobody
// knows). Both the second and the last axis fitting, the second is taken and a note added.
// InvalidArgument: the shapes do not go together.
StatusOr<ClassPlace> find_classes(const Value& output, const ArrayShape& target,
                                  const LossOptions& options, std::vector<std::string>& notes);

}  // namespace mezzo::passes
