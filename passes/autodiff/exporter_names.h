// Names that exporters make up, told from those that people give.
#pragma once

#include <set>
#include <string>

#include "compiler/ir/graph.h"

namespace mezzo::passes {

class ExporterNames {
 public:
  // `computed`: initializers that passes made, whose names say nothing of the file.
  ExporterNames(const Graph& graph, const std::set<std::string>& computed);

  // Names that exporters give to constants: "val_12", "onnx::Mul_7", "/block/Constant_output_0",
  // "scalar_tensor_default_1". Whole names: "const_scale" may be anybody's. Plain numbers ("42")
  // only where some floating-point initializer has a proper name: older exporters and converters
  // number parameters and constants alike.
  bool is_anonymous(const std::string& name) const;

 private:
  bool numbers_are_anonymous_ = false;
};

// Names that an epsilon or a limit has: "norm.eps", "clip_min", "max_value".
bool names_a_limit(const std::string& name);

}  // namespace mezzo::passes
