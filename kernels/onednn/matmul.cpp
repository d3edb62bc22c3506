// MatMul, MatMulT and Gemm: y = alpha op(a) op(b) + beta c.
//
// a [.., M, K] and b [.., K, N] before op, y [.., M, N], c broadcast to [M, N]. Transposes are
// strides: the library packs both operands anyway. The result is overwritten.
#include "kernels/onednn/matmul.h"

#include <cstring>
#include <optional>

#include "compiler/support/text.h"
#include "kernels/onednn/choice.h"
#include "kernels/onednn/matmul_shape.h"
#include "kernels/onednn/sequence.h"

namespace mezzo::kernels::onednn {
namespace {

using KernelPtr = std::unique_ptr<Kernel>;
using MatMul = dnnl::matmul;

struct Product {
  MatMulShape shape;
  float alpha = 1;
  float beta = 1;              // of c
  std::optional<Operand> c{};  // as in the request
};

MemoryDesc view(const Strided& strided, DType dtype) {
  return {strided.dims, library_type(dtype), strided.strides};
}

// Operand i as the request describes it, read as `strided`.
Operand viewed(const SequenceBuilder& builder, const KernelRequest& request, std::size_t i,
               const Strided& strided) {
  return {builder.input(i).buffer, view(strided, request.inputs[i].dtype)};
}

// Operand `desc` in the compute dtype (still dense), read as `strided`.
StatusOr<Operand> factor(SequenceBuilder& builder, const Operand& operand, const Strided& strided,
                         DType dtype) {
  const Dims dims = operand.desc.get_dims();
  MEZZO_ASSIGN_OR_RETURN(const Operand dense,
                         builder.as(operand, dense_desc(dims, dtype, Layout::kRowMajor)));
  return Operand{dense.buffer, view(strided, dtype)};
}

// True if the library can add c as it adds a bias: one float32 or bfloat16 per column of y.
bool is_bias(const Product& product) {
  if (!product.c || product.alpha != 1 || product.beta != 1) return false;
  const Dims dims = product.c->desc.get_dims();
  const std::int64_t columns = product.shape.y.dims.back();
  return dims == Dims{columns} || dims == Dims{1, columns};
}

// beta c as a matrix that the library broadcasts to y itself: 1 x 1, 1 x N or M x N. A column is
// spread to M x N, which the library's fast code does not do.
StatusOr<Operand> addend(SequenceBuilder& builder, const Product& product, const Choice& choice) {
  const Dims y_dims = product.shape.y.dims;
  const DType c_dtype = dtype_of(product.c->desc);
  Dims dims = product.c->desc.get_dims();
  while (dims.size() < 2) dims.insert(dims.begin(), 1);
  const bool spread = dims[1] == 1 && dims[0] != 1 && y_dims[1] != 1;
  const bool changed = spread || product.beta != 1;
  const DType dtype = changed ? DType::kFloat32 : choice.result_dtype(c_dtype);
  const Operand matrix = {product.c->buffer, dense_desc(dims, c_dtype, Layout::kRowMajor)};
  MEZZO_ASSIGN_OR_RETURN(const Operand c,
                         builder.as(matrix, dense_desc(dims, dtype, Layout::kRowMajor)));
  if (!changed) return c;
  const std::int64_t rows = dims[0];
  const std::int64_t columns = spread ? y_dims[1] : dims[1];
  const std::int64_t row_step = spread ? 1 : columns;
  const std::int64_t column_step = spread ? 0 : 1;
  const Operand scaled =
      builder.temporary(dense_desc({rows, columns}, DType::kFloat32, Layout::kRowMajor));
  const float beta = product.beta;
  builder.add({c.buffer, scaled.buffer}, [=](std::span<void* const> at) {
    const auto* from = static_cast<const float*>(at[0]);
    auto* to = static_cast<float*>(at[1]);
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) {
        to[i * columns + j] = beta * from[i * row_step + j * column_step];
      }
    }
    return ok_status();
  });
  return scaled;
}

// No rows, columns or batches: nothing to write. No depth: a sum of nothing.
StatusOr<KernelPtr> prepare_empty(const KernelRequest& request) {
  SequenceBuilder builder(request);
  if (request.outputs[0].elems() > 0) {
    if (request.inputs.size() > 2 && request.inputs[2].present()) {
      return unimplemented("operand c with an inner dimension of 0");
    }
    const std::size_t bytes = request.outputs[0].bytes();
    builder.add({builder.output(0).buffer}, [bytes](std::span<void* const> at) {
      std::memset(at[0], 0, bytes);  // all bits zero is 0 in every floating type
      return ok_status();
    });
  }
  return builder.finish("onednn:empty");
}

StatusOr<KernelPtr> prepare_product(const KernelRequest& request, const Product& product,
                                    DType compute_dtype) {
  MEZZO_ASSIGN_OR_RETURN(const dnnl::engine engine, cpu_engine());
  const MatMulShape& shape = product.shape;
  const Choice choice{compute_dtype, Layout::kRowMajor};
  SequenceBuilder builder(request);
  MEZZO_ASSIGN_OR_RETURN(const Operand a,
                         factor(builder, builder.input(0), shape.a, compute_dtype));
  // A constant matrix is packed once, in the order that the library asks for. Batches of matrices
  // are not: it asks for none there.
  const bool packs = request.constant(1) != nullptr && shape.b.dims.size() == 2;
  Operand b;
  if (packs) {
    b.desc = any_desc(shape.b.dims, compute_dtype);
  } else {
    MEZZO_ASSIGN_OR_RETURN(b, factor(builder, builder.input(1), shape.b, compute_dtype));
  }

  std::vector<std::pair<int, Operand>> arguments = {{DNNL_ARG_SRC, a}};
  dnnl::primitive_attr attributes = base_attributes();
  dnnl::post_ops post_ops;
  MemoryDesc bias;
  if (product.alpha != 1) {
    post_ops.append_eltwise(dnnl::algorithm::eltwise_linear, product.alpha, 0.0F);
  }
  if (is_bias(product)) {
    const DType dtype = choice.result_dtype(dtype_of(product.c->desc));
    const Dims dims = {1, shape.y.dims.back()};
    MEZZO_ASSIGN_OR_RETURN(
        const Operand c, builder.as({product.c->buffer, dense_desc(dims, dtype_of(product.c->desc),
                                                                   Layout::kRowMajor)},
                                    dense_desc(dims, dtype, Layout::kRowMajor)));
    bias = c.desc;
    arguments.emplace_back(DNNL_ARG_BIAS, c);
  } else if (product.c) {
    MEZZO_ASSIGN_OR_RETURN(const Operand c, addend(builder, product, choice));
    const int number = DNNL_ARG_ATTR_MULTIPLE_POST_OP(post_ops.len()) | DNNL_ARG_SRC_1;
    arguments.emplace_back(number, c);
    post_ops.append_binary(dnnl::algorithm::binary_add, c.desc);
  }
  attributes.set_post_ops(post_ops);

  // The result is dense; `y` sees it with the batches folded.
  const Operand result = builder.output(0);
  const DType y_dtype = choice.result_dtype(request.outputs[0].dtype);
  const Operand dense =
      builder.place_for(result, dense_desc(result.desc.get_dims(), y_dtype, Layout::kRowMajor));
  const Operand y = {dense.buffer, view(shape.y, y_dtype)};
  arguments.emplace_back(DNNL_ARG_DST, y);

  MEZZO_ASSIGN_OR_RETURN(const auto desc, attempt([&] {
                           return MatMul::primitive_desc(engine, a.desc, b.desc, bias, y.desc,
                                                         attributes);
                         }));
  MEZZO_ASSIGN_OR_RETURN(const MatMul primitive, attempt([&] { return MatMul(desc); }));
  if (packs) {
    MEZZO_ASSIGN_OR_RETURN(b,
                           builder.as(viewed(builder, request, 1, shape.b), desc.weights_desc()));
  }
  arguments.emplace_back(DNNL_ARG_WEIGHTS, b);
  MEZZO_RETURN_IF_ERROR(builder.add(desc, primitive, arguments));
  MEZZO_RETURN_IF_ERROR(builder.store(dense, result));
  return builder.finish(implementation_name(desc.impl_info_str(), request, choice));
}

StatusOr<KernelPtr> prepare(const KernelRequest& request, Transposed transposed_a,
                            Transposed transposed_b, Product product) {
  for (const TensorDesc* desc : {&request.inputs[0], &request.inputs[1], &request.outputs[0]}) {
    if (desc->layout != Layout::kRowMajor) return unimplemented("channels-last matrices");
  }
  MEZZO_ASSIGN_OR_RETURN(product.shape,
                         matmul_shape(request.inputs[0].dims, transposed_a, request.inputs[1].dims,
                                      transposed_b, request.outputs[0].dims));
  if (request.outputs[0].elems() == 0 || product.shape.depth == 0) return prepare_empty(request);
  const ThreadScope threads(request.threads);
  StatusOr<KernelPtr> kernel = unimplemented("no compute dtype");
  for (const DType dtype : compute_dtypes(request, 2)) {
    kernel = prepare_product(request, product, dtype);
    if (kernel.ok()) return kernel;
  }
  return kernel;
}

Transposed flag(const Attributes& attributes, std::string_view name) {
  return attributes.get_int(name, 0) != 0 ? Transposed::kYes : Transposed::kNo;
}

// c may have lower rank, and 1 in any dimension.
Status check_c(const Dims& c, const Dims& y) {
  bool fits = c.size() <= 2;
  for (std::size_t i = 0; fits && i < c.size(); ++i) {
    const std::int64_t dim = c.end()[-1 - static_cast<std::ptrdiff_t>(i)];
    fits = dim == 1 || dim == y.end()[-1 - static_cast<std::ptrdiff_t>(i)];
  }
  if (fits) return ok_status();
  return invalid_argument("operand 2 (c) of " + format_dims(c) + " does not broadcast to " +
                          format_dims(y));
}

}  // namespace

StatusOr<KernelPtr> prepare_matmul(const KernelRequest& request) {
  MEZZO_RETURN_IF_ERROR(check_operands(request, {2, 2, 1, 1}));
  return prepare(request, Transposed::kNo, Transposed::kNo, {});
}

StatusOr<KernelPtr> prepare_matmul_transposed(const KernelRequest& request) {
  MEZZO_RETURN_IF_ERROR(check_operands(request, {2, 2, 1, 1}));
  const std::size_t rank = request.inputs[0].dims.size();
  if (rank < 2 || (request.inputs[1].dims.size() != rank && request.inputs[1].dims.size() != 2)) {
    return invalid_argument(
        "expected operands of equal rank 2 or more, or a matrix as the second, got " +
        format_dims(request.inputs[0].dims) + " and " + format_dims(request.inputs[1].dims));
  }
  Product product;
  product.alpha = static_cast<float>(request.attributes.get_float("alpha", 1));
  return prepare(request, flag(request.attributes, "trans_a"), flag(request.attributes, "trans_b"),
                 product);
}

StatusOr<KernelPtr> prepare_gemm(const KernelRequest& request) {
  MEZZO_RETURN_IF_ERROR(check_operands(request, {2, 3, 1, 1}));
  if (request.inputs[0].dims.size() != 2 || request.inputs[1].dims.size() != 2 ||
      request.outputs[0].dims.size() != 2) {
    return invalid_argument("expected matrices, got " + format_dims(request.inputs[0].dims) + ", " +
                            format_dims(request.inputs[1].dims) + " and " +
                            format_dims(request.outputs[0].dims));
  }
  Product product;
  product.alpha = static_cast<float>(request.attributes.get_float("alpha", 1));
  product.beta = static_cast<float>(request.attributes.get_float("beta", 1));
  const bool has_c = request.inputs.size() > 2 && request.inputs[2].present() && product.beta != 0;
  if (has_c) {
    if (request.inputs[2].layout != Layout::kRowMajor) return unimplemented("channels-last c");
    MEZZO_RETURN_IF_ERROR(check_c(request.inputs[2].dims, request.outputs[0].dims));
    product.c = SequenceBuilder(request).input(2);
  }
  return prepare(request, flag(request.attributes, "transA"), flag(request.attributes, "transB"),
                 product);
}

}  // namespace mezzo::kernels::onednn
