// Shapes, constants and generators. Most of them are folded into constants before anything
// runs; what they generate is exact in FP32 only.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>

#include "compiler/ops/constants.h"
#include "compiler/ops/families.h"
#include "compiler/ops/index_rules.h"
#include "compiler/ops/merge_types.h"

namespace mezzo {
namespace {

using enum PrecisionCategory;
using enum PadRule;

// The kernel takes the value as a second operand, which a tensor in an attribute is not.
Status lower_constant_of_shape(const Node& node, LoweredOp&) {
  const Attribute* value = node.attribute("value");
  const auto* tensor = value ? std::get_if<NamedTensor>(&value->value) : nullptr;
  if (tensor == nullptr || !tensor->tensor) return ok_status();
  for (const double element : tensor->tensor->to_doubles()) {
    if (element != 0.0) return unimplemented(describe(node) + ": " + std::string(kFolded));
  }
  return ok_status();
}

// ceil((limit - start) / delta), at least 0. Integers are counted exactly.
StatusOr<std::int64_t> range_size(const Tensor& start, const Tensor& limit, const Tensor& delta) {
  const Status zero = invalid_argument("delta is zero");
  if (is_floating(start.dtype())) {
    const double step = delta.to_doubles()[0];
    if (step == 0.0) return zero;
    const double count = std::ceil((limit.to_doubles()[0] - start.to_doubles()[0]) / step);
    if (!(count < 0x1p62)) return invalid_argument("it has no end");
    return count > 0.0 ? static_cast<std::int64_t>(count) : 0;
  }
  __extension__ using Wide = __int128;
  const Wide from = start.to_ints()[0], to = limit.to_ints()[0], step = delta.to_ints()[0];
  if (step == 0) return zero;
  const Wide span = step > 0 ? to - from : from - to;
  const Wide stride = step > 0 ? step : -step;
  const Wide count = span <= 0 ? 0 : (span + stride - 1) / stride;
  if (count >= Wide{1} << 62) return invalid_argument("it has no end");
  return static_cast<std::int64_t>(count);
}

// The schema's inference insists on operands without dimensions; models, and the function bodies of
// ONNX itself, give them one of size 1.
Status infer_range(Node& node) {
  if (node.result() == nullptr || node.operand(0) == nullptr ||
      node.operand(0)->dtype() == DType::kNone) {
    return ok_status();
  }
  TensorType type(node.operand(0)->dtype(), {Dim()});
  TensorRef operands[3];
  for (std::size_t i = 0; i < 3; ++i) operands[i] = constant_of(node.operand(i));
  const bool known = std::all_of(std::begin(operands), std::end(operands), [&](const TensorRef& t) {
    return t != nullptr && t->elems() == 1 && t->dtype() == type.dtype;
  });
  if (known) {
    MEZZO_ASSIGN_OR_RETURN(const std::int64_t size,
                           range_size(*operands[0], *operands[1], *operands[2]));
    type.shape = {Dim(size)};
  }
  return merge_type(*node.result(), Type(type));
}

constexpr std::string_view kShapeOnly = "it depends on its operand's shape alone";

constexpr OpDef kShapeOps[] = {
    {.name = "Shape",
     .precision = kClear,
     .no_gradient_operands = kAllBits,
     .padding = kUnpadded,
     .not_differentiable = kNoFloatResult},
    {.name = "Size",
     .precision = kClear,
     .no_gradient_operands = kAllBits,
     .padding = kUnpadded,
     .not_differentiable = kNoFloatResult},
    {.name = "Constant",
     .precision = kClear,
     .padding = kUnpadded,
     .not_differentiable = kNoFloatOperand,
     .no_kernel = kFolded},
    {.name = "ConstantOfShape",
     .precision = kClear,
     .no_gradient_operands = kAllBits,
     .padding = kUnpadded,
     .not_differentiable = kNoFloatOperand,
     .lower = lower_constant_of_shape},
    // Steps add up: above 2048 float16 cannot count.
    {.name = "Range",
     .precision = kDeny,
     .padding = kUnpadded,
     .infer_types = infer_range,
     .not_differentiable = kDataSizedRule},
    {.name = "EyeLike",
     .precision = kClear,
     .no_gradient_operands = kAllBits,
     .padding = kUnpadded,
     .not_differentiable = kShapeOnly,
     .lower = lower_eye_like},
    {.name = "BlackmanWindow",
     .precision = kDeny,
     .no_gradient_operands = kAllBits,
     .padding = kUnpadded,
     .not_differentiable = kNoFloatOperand,
     .no_kernel = kFolded},
    {.name = "HannWindow",
     .precision = kDeny,
     .no_gradient_operands = kAllBits,
     .padding = kUnpadded,
     .not_differentiable = kNoFloatOperand,
     .no_kernel = kFolded},
    {.name = "HammingWindow",
     .precision = kDeny,
     .no_gradient_operands = kAllBits,
     .padding = kUnpadded,
     .not_differentiable = kNoFloatOperand,
     .no_kernel = kFolded},
    {.name = "MelWeightMatrix",
     .precision = kDeny,
     .no_gradient_operands = kAllBits,
     .padding = kUnpadded,
     .not_differentiable = kNoFloatOperand},
};

}  // namespace

std::span<const OpDef> shape_ops() { return kShapeOps; }

}  // namespace mezzo
