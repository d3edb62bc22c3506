#include "passes/precision/reads_any_type.h"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "compiler/ops/op_def.h"

namespace mezzo::passes {
namespace {

// Kernels that move bits as they are (kernels/README.md, "Data movement"), whatever the category of
// the operators that are lowered to them.
constexpr std::string_view kMovingKernels[] = {
    "Reshape",         "Transpose", "Concat",        "Split",   "Slice", "SliceGrad",
    "Gather",          "Expand",    "Pad",           "Reorder", "Trilu", "TopK",
    "ScatterElements", "ScatterND", "TensorScatter", "Unique"};

}  // namespace

bool reads_any_type(const Node& node) {
  const OpDef* def = find_op(node);
  if (def == nullptr || def->no_kernel.data() != nullptr || node.is("Cast")) return false;
  if (def->precision == PrecisionCategory::kClear || def->precision == PrecisionCategory::kAllow ||
      def->pin == PinKind::kEmbedding) {
    return false;
  }
  const StatusOr<LoweredOp> lowered = lower(node);
  return lowered.ok() && !lowered->alias &&
         std::find(std::begin(kMovingKernels), std::end(kMovingKernels), lowered->kernel) ==
             std::end(kMovingKernels);
}

}  // namespace mezzo::passes
