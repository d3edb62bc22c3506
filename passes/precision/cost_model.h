// Predicted time of nodes and casts: a roofline per target.
//
// A kernel takes max(flops / peak, bytes / bandwidth) + launch. The figures are the vendors' data
// sheets', dense, at half of the peak, which large kernels reach in practice; the cut needs ratios,
// not absolute times.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/support/dtype.h"
#include "compiler/support/status.h"

namespace mezzo::passes {

struct TargetFacts {
  std::string_view name;
  double fp32_tflops;    // contractions in FP32 (TF32 not used)
  double low_tflops;     // contractions in FP16 or BF16
  double vector_tflops;  // all else
  double bandwidth_gbs;  // memory, GB/s
  double launch_us;      // fixed cost of a kernel
  // What an elementwise op in FP16 takes, as a multiple of the same in FP32; 0: its bytes decide.
  double fp16_vector_ratio;
};

// InvalidArgument lists the targets.
StatusOr<const TargetFacts*> find_target(std::string_view name);
std::vector<std::string> target_names();

// Element count of a value; unknown and symbolic dimensions count as 16.
std::int64_t estimated_elems(const Value& value);

class CostModel {
 public:
  explicit CostModel(const TargetFacts& target) : target_(target) {}

  // Microseconds of a node whose floating FP32 operands and results have `dtype`.
  double node_us(const Node& node, DType dtype) const;
  // Microseconds of a cast of a value between FP32 and a 16-bit type.
  double cast_us(const Value& value) const;
  // Bytes that a node reads and writes.
  std::uint64_t node_bytes(const Node& node, DType dtype) const;

 private:
  const TargetFacts& target_;
};

}  // namespace mezzo::passes
