// MatMul, MatMulT and Gemm of float64 and of 32 and 64 bit integers. Letters: M K N matrix sizes.
//
// a is brought into rows along K where it is transposed, b into panels (product.h). One matrix of
// the batch after the other, each with threads; what does not change from one to the next is
// brought into form once.
#include <cmath>
#include <limits>

#include "kernels/cpu/matmul_shape.h"
#include "kernels/cpu/product.h"
#include "kernels/truncated.h"

namespace mezzo::kernels::cpu {
namespace {

struct Plan {
  const Isa* isa = nullptr;
  int threads = 1;
  DType dtype = DType::kNone;
  MatrixShape shape;
  Product product;
  StridedCopy copy_a;  // into rows along the depth
  double alpha = 1.0, beta = 0.0;
  Int c_row = 0, c_column = 0;  // strides of c

  Int a_bytes() const {
    if (shape.a.along_depth()) return 0;
    return padded_floats(shape.a.elems() * operand_bytes(product.kind) / 4 + 1) * 4;
  }
  Int b_bytes() const { return panel_bytes(*isa, product.kind, shape.b.rows, shape.b.depth); }
};

StridedCopy into_rows(const MatrixSide& side, Int bytes) {
  return StridedCopy::make(bytes, {side.rows, side.depth}, {side.row_stride, side.depth_stride},
                           {side.depth, 1}, {0, 1}, 0, 0);
}

// y = alpha y + beta c, for what integers promise: see the reference.
template <typename T, typename Wide>
void scale_add(const Plan& plan, const void* c_data, void* y_data) {
  const auto* c = static_cast<const T*>(c_data);
  auto* y = static_cast<T*>(y_data);
  const auto times = [](T value, double factor) -> T {
    if constexpr (std::is_floating_point_v<T>) {
      return factor * value;
    } else {
      if (std::trunc(factor) == factor && std::fabs(factor) < 9007199254740992.0) {
        return static_cast<T>(static_cast<Wide>(value) *
                              static_cast<Wide>(static_cast<std::int64_t>(factor)));
      }
      return truncated<T>(static_cast<double>(value) * factor);
    }
  };
  const Int columns = plan.product.columns;
  parallel_units(plan.product.rows, threads_for(plan.product.rows * columns, plan.threads),
                 [&](Int row, int) {
                   T* line = y + row * columns;
                   for (Int i = 0; i < columns; ++i) {
                     T value = plan.alpha == 1.0 ? line[i] : times(line[i], plan.alpha);
                     if (plan.beta != 0.0) {
                       const T term = c[row * plan.c_row + i * plan.c_column];
                       const T scaled = plan.beta == 1.0 ? term : times(term, plan.beta);
                       value = static_cast<T>(static_cast<Wide>(value) + static_cast<Wide>(scaled));
                     }
                     line[i] = value;
                   }
                 });
}

void finish(const Plan& plan, const void* c, void* y) {
  if (plan.alpha == 1.0 && plan.beta == 0.0) return;
  switch (plan.dtype) {
    case DType::kFloat64: return scale_add<double, double>(plan, c, y);
    case DType::kInt32: return scale_add<std::int32_t, std::uint32_t>(plan, c, y);
    case DType::kUInt32: return scale_add<std::uint32_t, std::uint32_t>(plan, c, y);
    case DType::kUInt64: return scale_add<std::uint64_t, std::uint64_t>(plan, c, y);
    default: return scale_add<std::int64_t, std::uint64_t>(plan, c, y);
  }
}

void run(const Plan& plan, const KernelArguments& arguments) {
  const MatrixShape& shape = plan.shape;
  const ProductKind kind = plan.product.kind;
  const Int bytes = operand_bytes(kind);
  auto* panels = static_cast<char*>(arguments.workspace);
  char* room = panels + plan.b_bytes();
  Int a_in_room = -1;
  Int b_in_panels = -1;
  const Int y_bytes = plan.product.rows * plan.product.columns * bytes;
  for (Int i = 0; i < shape.batches; ++i) {
    const Int a_matrix = shape.a.batch[static_cast<std::size_t>(i)];
    const Int b_matrix = shape.b.batch[static_cast<std::size_t>(i)];
    const auto* a =
        static_cast<const char*>(arguments.inputs[0]) + a_matrix * shape.a.elems() * bytes;
    if (!shape.a.along_depth()) {
      if (a_in_room != a_matrix) plan.copy_a.run(*plan.isa, a, room, plan.threads);
      a_in_room = a_matrix;
      a = room;
    }
    if (b_in_panels != b_matrix) {
      const auto* b =
          static_cast<const char*>(arguments.inputs[1]) + b_matrix * shape.b.elems() * bytes;
      pack_panels(*plan.isa, kind, b, shape.b.depth_stride, shape.b.row_stride, shape.b.rows,
                  shape.b.depth, panels, plan.threads);
      b_in_panels = b_matrix;
    }
    char* y = static_cast<char*>(arguments.outputs[0]) + i * y_bytes;
    run_product(*plan.isa, plan.product, a, panels, y, plan.threads);
    finish(plan, in_buffer(arguments, 2), y);
  }
}

StatusOr<ProductKind> product_kind(DType dtype) {
  switch (dtype) {
    case DType::kFloat64: return ProductKind::kFloat64;
    case DType::kInt32:
    case DType::kUInt32: return ProductKind::kInt32;
    case DType::kInt64:
    case DType::kUInt64: return ProductKind::kInt64;
    default:
      return unimplemented("operand 0: expected double or integers of 32 or 64 bits, got " +
                           std::string(dtype_name(dtype)));
  }
}

}  // namespace

Prepared prepare_matmul(const KernelRequest& request, const Isa& isa) {
  const TensorDesc& a = request.inputs[0];
  for (const auto* side : {&request.inputs, &request.outputs}) {
    for (const TensorDesc& desc : *side) {
      if (desc.present() && desc.dtype != a.dtype) return unimplemented("operands of two dtypes");
      if (desc.layout != Layout::kRowMajor) return unimplemented("channels-last matrices");
    }
  }
  const Attributes& attributes = request.attributes;
  const auto flag = [&](const char* name, const char* gemm_name) {
    return attributes.get_int(request.op == "Gemm" ? gemm_name : name, 0) == 1;
  };
  Plan plan;
  plan.isa = &isa;
  plan.threads = std::max(request.threads, 1);
  plan.dtype = a.dtype;
  MEZZO_ASSIGN_OR_RETURN(plan.product.kind, product_kind(a.dtype));
  const bool plain = request.op == "MatMul";
  MEZZO_ASSIGN_OR_RETURN(plan.shape,
                         read_matrices(a, request.inputs[1], !plain && flag("trans_a", "transA"),
                                       !plain && flag("trans_b", "transB")));
  plan.alpha = plain ? 1.0 : attributes.get_float("alpha", 1.0);
  const TensorDesc& c = in_desc(request, 2);
  if (c.present()) {
    plan.beta = attributes.get_float("beta", 1.0);
    const Dims strides = strides_within(c, request.outputs[0].dims);
    plan.c_row = strides[0];
    plan.c_column = strides[1];
  }
  const MatrixSide& left = plan.shape.a;
  const MatrixSide& right = plan.shape.b;
  plan.product.rows = left.rows;
  plan.product.columns = right.rows;
  plan.product.depth = left.depth;
  plan.product.a_stride = left.depth;
  plan.product.c_stride = right.rows;
  plan.copy_a = into_rows(left, operand_bytes(plan.product.kind));
  const Int room = plan.a_bytes() + plan.b_bytes();
  return make_kernel(
      isa, static_cast<std::size_t>(room),
      [plan = std::move(plan)](const KernelArguments& arguments) { run(plan, arguments); });
}

}  // namespace mezzo::kernels::cpu
