#include "compiler/ops/random_rules.h"

#include <bit>
#include <string>

#include "compiler/ops/constants.h"
#include "compiler/ops/lowering_helpers.h"

namespace mezzo {
namespace {

// True if an ONNX Dropout hands its operand on unchanged: not in training mode, or ratio 0.
bool is_identity(const Node& node) {
  if (const Value* mode = node.operand(2); mode != nullptr) {
    if (constant_scalar(mode) == 0.0) return true;
  } else {
    return true;  // training_mode defaults to false
  }
  return node.operand(1) != nullptr && constant_scalar(node.operand(1)) == 0.0;
}

Status depends_on_the_run(const Node& node, std::size_t operand, std::string_view name) {
  return unimplemented(describe(node) + ", operand " + std::to_string(operand) + " '" +
                       node.operand(operand)->name() + "': the runtime needs a constant for " +
                       std::string(name) + ", this one depends on the run");
}

// The attribute's bits; without it a number of the node's own, the same in every run of a program.
std::int64_t seed_of(const Node& node) {
  const Attribute* attribute = node.attribute("seed");
  if (attribute != nullptr) {
    if (const auto* seed = std::get_if<float>(&attribute->value)) {
      return std::bit_cast<std::uint32_t>(*seed);
    }
    return node.int_attribute("seed", 0);
  }
  std::uint64_t hash = 0xcbf29ce484222325U;  // FNV-1a
  const std::string& name = node.result(0) != nullptr ? node.result(0)->name() : node.name;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return static_cast<std::int64_t>(hash);
}

Status needs_counter(const Node& node) {
  return unimplemented(describe(node) +
                       ": in training mode it must become the counter-based Dropout of " +
                       std::string(kMezzoDomain) + " first, so that runs can be repeated");
}

}  // namespace

StatusOr<Gradients> grad_dropout(GradientContext& ctx) {
  if (!is_identity(ctx.node)) return needs_counter(ctx.node);
  Gradients grads = no_gradients(ctx);
  grads[0] = ctx.result_grads[0];
  return grads;
}

StatusOr<Gradients> grad_counted_dropout(GradientContext& ctx) {
  MEZZO_ASSIGN_OR_RETURN(Value* const mask, require_result(ctx, 1, "mask"));
  Gradients grads = no_gradients(ctx);
  grads[0] = op_like(ctx, "DropoutGrad", {ctx.result_grads[0], mask},
                     {{"ratio", ctx.node.float_attribute("ratio", 0.5F)}}, *ctx.node.operand(0));
  return grads;
}

// In training mode, or where its mask is used: our kernel, which counts its runs.
Status lower_dropout(const Node& node, LoweredOp& lowered) {
  const bool uses_mask = node.result(1) != nullptr && node.result(1)->has_uses();
  if (is_identity(node) && !uses_mask) return lower_alias(node, lowered);
  double ratio = 0.0;
  if (!is_identity(node)) {
    const Value* mode = node.operand(2);
    if (!constant_scalar(mode)) return depends_on_the_run(node, 2, "training_mode");
    const Value* given = node.operand(1);
    if (given != nullptr && !constant_scalar(given)) return depends_on_the_run(node, 1, "ratio");
    ratio = given != nullptr ? *constant_scalar(given) : 0.5;
  }
  lowered.attributes.clear();
  keep_operands(lowered, 1);
  set_attribute(lowered, "ratio", static_cast<float>(ratio));
  set_attribute(lowered, "seed", seed_of(node));
  return ok_status();
}

Status lower_random(const Node& node, LoweredOp& lowered) {
  lowered.kernel = node.op_type().rfind("RandomNormal", 0) == 0 ? "RandomNormal" : "RandomUniform";
  lowered.operands.clear();
  return lower_draw(node, lowered);
}

Status lower_draw(const Node& node, LoweredOp& lowered) {
  set_attribute(lowered, "seed", seed_of(node));
  for (const char* name : {"dtype", "shape"}) erase_attribute(lowered, name);
  return ok_status();
}

}  // namespace mezzo
