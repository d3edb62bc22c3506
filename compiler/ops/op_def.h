// The op catalogue: one OpDef per operator, the only place that says what an operator means for
// precision, types, gradients, padding and lowering. Tables are constexpr arrays by family,
// gathered in all_ops.cpp; tests/ops/completeness_test checks that no field is left to chance.
//
// Type constraints per operand ("does this operand take float16 at opset 17?") are not repeated
// here: they come from the ONNX library's schemas, see schema.h.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/builder.h"
#include "compiler/ir/graph.h"
#include "compiler/support/status.h"

namespace mezzo {

// Is low precision safe for this operator?
enum class PrecisionCategory : std::uint8_t {
  kAllow,  // runs in low precision: contractions with wide accumulation
  kInfer,  // safe in either, follows its neighbours
  kClear,  // only moves data, computes nothing
  kDeny,   // stays FP32: exp, log, pow, sums, statistics, losses
};
std::string_view category_name(PrecisionCategory category);  // "allow", ...

// What the default policy keeps in FP32 by kind, whatever the category.
enum class PinKind : std::uint8_t { kNone, kEmbedding, kNormalization, kSoftmax, kLoss };
std::string_view pin_name(PinKind pin);

// What happens to the padded channels (dimension 1 or the last one) that hold zeros.
enum class PadRule : std::uint8_t {
  kKeepsZero,      // elementwise with f(0, 0) = 0, or moving data: padding passes through
  kZeroTimesAny,   // Mul: zero if either operand is
  kBreaksZero,     // f(0) != 0, as Sigmoid: the padded part turns into garbage
  kContraction,    // MatMul, Gemm, Conv: weights can be padded in or out
  kNormalization,  // per channel parameters are padded so that zero stays zero
  kUnpadded,       // needs the logical shape: slice before
};

// Asked of a gradient rule: nodes that compute the gradients of a node's operands.
struct GradientContext {
  Builder& builder;                  // inserts behind the forward graph
  Node& node;                        // the forward node; a rule may ask it for more results
  std::vector<Value*> result_grads;  // per result; null where no gradient arrives
  std::vector<bool> wanted;          // per operand
};
// One value per operand, of the operand's shape; null where not wanted or constant zero.
using GradientRule = StatusOr<std::vector<Value*>> (*)(GradientContext&);

// Sets result types from operand types. Shape inference of ONNX's own operators comes from their
// schemas (kFromSchema); ours have a function. Where the shape of a result is no function of
// operand types (GatherGrad, SumTo, ...: see mezzo.cpp and mezzo_grad.cpp) whoever makes the node
// sets it, and it stays.
using TypeRule = Status (*)(Node&);
inline constexpr TypeRule kFromSchema = nullptr;

// A node in the form the runtime executes: a kernel's name and attributes (kernels/README.md), and
// which operands it takes. Attributes use ONNX's names and newest form.
struct LoweredOp {
  std::string kernel;
  std::vector<Attribute> attributes;  // kFloat, kInt, kString, kInts, kFloats only
  std::vector<Value*> operands;       // null: absent
  bool alias = false;                 // result 0 is operand 0's bytes: no kernel runs
};
// Fills `lowered` (kernel, attributes, operands are preset from the node). Unimplemented with a
// reason where the runtime has no kernel for this form (for example Slice with unknown starts).
using LoweringRule = Status (*)(const Node& node, LoweredOp& lowered);
inline constexpr LoweringRule kLowerAsIs = nullptr;

struct OpDef {
  std::string_view name;
  std::string_view domain = "";
  PrecisionCategory precision;
  PinKind pin = PinKind::kNone;
  // Operands that stay FP32 although the node runs low (bit per operand), and results that are FP32
  // then (statistics). Only for executing in the runtime; exported ONNX follows the schema.
  std::uint32_t fp32_operands = 0;
  std::uint32_t fp32_results = 0;
  // Index operands, labels, masks and the like take no gradient (bit per operand).
  std::uint32_t no_gradient_operands = 0;
  PadRule padding = PadRule::kUnpadded;
  TypeRule infer_types = kFromSchema;
  GradientRule gradient = nullptr;           // exactly one of these two is set
  std::string_view not_differentiable = {};  // why
  LoweringRule lower = kLowerAsIs;
  std::string_view no_kernel = {};  // why the runtime cannot execute it, if it cannot
};

// Null if the operator is not in the catalogue. "ai.onnx" is "".
const OpDef* find_op(std::string_view name, std::string_view domain);
inline const OpDef* find_op(const Node& node) { return find_op(node.op_type(), node.domain()); }
std::span<const OpDef* const> all_ops();  // sorted by domain, then name

// Sets the types of the node's results: OpDef::infer_types, or the schema's inference at the
// model's opset with constants known. Leaves results untouched that inference cannot tell; merges
// with what is known. InvalidArgument: operands contradict (names node, operand, expected, got).
// `model` gives the opsets and may be null (newest opset).
Status infer_types(Node& node, const Model* model);
// All nodes in order, subgraphs included.
Status infer_types(Model& model);
// For Builder.
Builder::InferTypes type_inference(const Model& model);

// The kernel form of a node; see LoweringRule. REQUIRES: ONNX's nodes mean what they mean at opset
// 13 or later (`raise_to_current` raises older models), as Softmax changed its meaning there.
StatusOr<LoweredOp> lower(const Node& node);

// What a dimension counts as in estimates whose extent is not known ("batch" and its like). Only
// the ratios between nodes matter, and 16 is enough for a batch to be more than one sample.
inline constexpr std::int64_t kAssumedExtent = 16;

// Floating-point operations of a node (2 per multiply-add), unknown dimensions as above; 0 where
// not even the rank is known.
double flops(const Node& node);

}  // namespace mezzo
