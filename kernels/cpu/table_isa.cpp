#include "kernels/cpu/loops.h"

#define MEZZO_TEXT_OF(name) #name
#define MEZZO_TEXT(name) MEZZO_TEXT_OF(name)

namespace mezzo::kernels::MEZZO_ISA {
namespace {

ElementwiseLoop elementwise(ElementwiseOp op) {
  if (const ElementwiseLoop loop = unary_loop(op)) return loop;
  if (const ElementwiseLoop loop = binary_loop(op)) return loop;
  return gradient_loop(op);
}

TypedLoop typed(ElementwiseOp op, DType dtype) {
  if (const TypedLoop loop = typed_arithmetic(op, dtype)) return loop;
  if (const TypedLoop loop = typed_logic(op, dtype)) return loop;
  return typed_unary(op, dtype);
}

constexpr cpu::Isa kTable = {
    .name = "cpu:" MEZZO_TEXT(MEZZO_ISA),
    .unpack = unpack,
    .pack = pack,
    .elementwise = elementwise,
    .typed = typed,
    .cast = cast,
    .cast_to_odd = cast_to_odd,
    .typed_reduction = typed_reduction,
    .arg_rows = arg_rows,
    .reduce_run = reduce_run,
    .reduce_rows = reduce_rows,
    .softmax = softmax,
    .softmax_grad = softmax_grad,
    .moments = moments,
    .normalize = normalize,
    .layer_norm_grad = layer_norm_grad,
    .affine_run = affine_run,
    .affine_rows = affine_rows,
    .grad_sums_run = grad_sums_run,
    .grad_sums_rows = grad_sums_rows,
    .grad_affine_run = grad_affine_run,
    .grad_affine_rows = grad_affine_rows,
    .moments_rows = moments_rows,
    .transpose = transpose,
    .max_of_rows = max_of_rows,
    .max_with_place = max_with_place,
    .blend_rows = blend_rows,
    .blend_taps = blend_taps,
    .blend_sorted_taps = blend_sorted_taps,
    .take_every = take_every,
    .panel_columns = panel_columns,
    .pack_panels = pack_panels,
    .multiply = multiply,
    .widen_bytes = widen_bytes,
    .dropout_mask = dropout_mask,
};

}  // namespace

const cpu::Isa& isa_table() { return kTable; }

}  // namespace mezzo::kernels::MEZZO_ISA
