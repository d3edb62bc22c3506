#include "kernels/cpu/attention_plan.h"

namespace mezzo::kernels::cpu {
namespace {

// c = alpha a b, one or the other transposed; of rows x depth x columns.
struct ProductForm {
  Int rows = 0, depth = 0, columns = 0;
  bool trans_a = false, trans_b = false;
  double alpha = 1.0;
  DType a = DType::kFloat32, b = DType::kFloat32, c = DType::kFloat32;
};

StatusOr<std::unique_ptr<Kernel>> prepare_product(const ProductForm& form) {
  KernelRequest request;
  request.op = "MatMulT";
  request.attributes.set("trans_a", std::int64_t{form.trans_a});
  request.attributes.set("trans_b", std::int64_t{form.trans_b});
  request.attributes.set("alpha", form.alpha);
  const auto matrix = [](DType dtype, Int rows, Int columns, bool transposed) {
    return TensorDesc{dtype, transposed ? Dims{columns, rows} : Dims{rows, columns}};
  };
  request.inputs = {matrix(form.a, form.rows, form.depth, form.trans_a),
                    matrix(form.b, form.depth, form.columns, form.trans_b)};
  request.outputs = {matrix(form.c, form.rows, form.columns, false)};
  return prepare_kernel(request, Backend::kCpu);
}

}  // namespace

StatusOr<BlockKernels> prepare_block(const AttentionPlan& plan, Int rows, Int keys) {
  const AttentionShape& shape = plan.shape;
  const DType t = plan.dtype;
  BlockKernels made;
  MEZZO_ASSIGN_OR_RETURN(made.scores, prepare_product({.rows = rows,
                                                       .depth = shape.size,
                                                       .columns = keys,
                                                       .trans_b = true,
                                                       .alpha = shape.scale,
                                                       .a = t,
                                                       .b = t}));
  if (!plan.grad) {
    MEZZO_ASSIGN_OR_RETURN(
        made.values,
        prepare_product(
            {.rows = rows, .depth = keys, .columns = shape.v_size, .a = t, .b = t, .c = t}));
    return made;
  }
  MEZZO_ASSIGN_OR_RETURN(
      made.dp,
      prepare_product(
          {.rows = rows, .depth = shape.v_size, .columns = keys, .trans_b = true, .a = t, .b = t}));
  MEZZO_ASSIGN_OR_RETURN(made.dq, prepare_product({.rows = rows,
                                                   .depth = keys,
                                                   .columns = shape.size,
                                                   .alpha = shape.scale,
                                                   .a = t,
                                                   .b = t,
                                                   .c = t}));
  MEZZO_ASSIGN_OR_RETURN(made.dk, prepare_product({.rows = keys,
                                                   .depth = rows,
                                                   .columns = shape.size,
                                                   .trans_a = true,
                                                   .alpha = shape.scale,
                                                   .a = t,
                                                   .b = t}));
  MEZZO_ASSIGN_OR_RETURN(
      made.dv,
      prepare_product(
          {.rows = keys, .depth = rows, .columns = shape.v_size, .trans_a = true, .a = t, .b = t}));
  return made;
}

}  // namespace mezzo::kernels::cpu
