// MatMul, MatMulT and Gemm of float64 and of 32 and 64 bit integers, and the 8-bit products
// MatMulInteger and QLinearMatMul. Letters: M K N matrix sizes.
//
// Operands are brought into rows along K: a where it is transposed, b where it is not. 8-bit
// operands become int16 without their zero point on the way. One matrix of the batch after the
// other, each with threads.
#include <array>
#include <cmath>
#include <limits>

#include "kernels/cpu/product.h"
#include "kernels/cpu/quantized.h"
#include "kernels/cpu/strided.h"

namespace mezzo::kernels::cpu {
namespace {

// An operand's matrices: rows x depth, found in the buffer by strides.
struct Side {
  Int rows = 1, depth = 1;
  Int row_stride = 0, depth_stride = 1;
  Int matrices = 1;
  std::vector<Int> batch;  // number of the matrix for every matrix of the result

  Int elems() const { return rows * depth; }
  bool along_depth() const { return depth_stride == 1 || depth <= 1; }
};

struct Shape {
  Side a, b;
  Int batches = 1;
};

// For every index of `dims`, the number of the matrix in an operand with batch dims `own`.
std::vector<Int> matrix_numbers(const Dims& dims, const Dims& own) {
  const TensorDesc desc = {DType::kFloat32, own};
  const Dims strides = strides_within(desc, dims);
  std::vector<Int> numbers;
  Dims index(dims.size(), 0);
  Int count = 1;
  for (const Int dim : dims) count *= dim;
  for (Int i = 0; i < count; ++i) {
    Int at = 0;
    for (std::size_t d = 0; d < dims.size(); ++d) at += index[d] * strides[d];
    numbers.push_back(at);
    for (std::size_t d = dims.size(); d > 0 && ++index[d - 1] == dims[d - 1]; --d) index[d - 1] = 0;
  }
  return numbers;
}

constexpr Int kMostBatches = Int{1} << 24;  // the plan keeps their numbers

// numpy's rules: vectors are a row of a, a column of b. The reference has checked that all fits.
StatusOr<Shape> read_shape(const TensorDesc& a, const TensorDesc& b, bool trans_a, bool trans_b) {
  if (a.layout != Layout::kRowMajor || b.layout != Layout::kRowMajor) {
    return unimplemented("channels-last matrices");
  }
  Dims a_dims = a.dims;
  Dims b_dims = b.dims;
  if (a_dims.size() == 1) a_dims.insert(a_dims.begin(), 1);
  if (b_dims.size() == 1) b_dims.push_back(1);
  Shape shape;
  const auto read_side = [](const Dims& dims, bool along_depth, Side& side) {
    const Int outer = dims.end()[-2];
    const Int inner = dims.end()[-1];
    side.rows = along_depth ? outer : inner;
    side.depth = along_depth ? inner : outer;
    side.row_stride = along_depth ? inner : 1;
    side.depth_stride = along_depth ? 1 : inner;
  };
  read_side(a_dims, !trans_a, shape.a);
  read_side(b_dims, trans_b, shape.b);
  const Dims a_batch(a_dims.begin(), a_dims.end() - 2);
  const Dims b_batch(b_dims.begin(), b_dims.end() - 2);
  Dims batch(std::max(a_batch.size(), b_batch.size()), 1);
  for (const Dims* own : {&a_batch, &b_batch}) {
    for (std::size_t i = 0; i < own->size(); ++i) {
      Int& dim = batch[batch.size() - own->size() + i];
      if ((*own)[i] != 1) dim = (*own)[i];
    }
  }
  for (const Int dim : batch) shape.batches *= dim;
  if (shape.batches > kMostBatches) return unimplemented("2^24 matrices or more");
  for (const Int dim : a_batch) shape.a.matrices *= dim;
  for (const Int dim : b_batch) shape.b.matrices *= dim;
  shape.a.batch = matrix_numbers(batch, a_batch);
  shape.b.batch = matrix_numbers(batch, b_batch);
  return shape;
}

// ---- one dtype throughout

struct Plan {
  const Isa* isa = nullptr;
  int threads = 1;
  DType dtype = DType::kNone;
  Shape shape;
  Product product;
  StridedCopy copy_a, copy_b;  // into rows along the depth
  double alpha = 1.0, beta = 0.0;
  Int c_row = 0, c_column = 0;  // strides of c
};

StridedCopy into_rows(const Side& side, Int bytes) {
  return StridedCopy::make(bytes, {side.rows, side.depth}, {side.row_stride, side.depth_stride},
                           {side.depth, 1}, {0, 1}, 0, 0);
}

// The matrix of `side`, in its buffer or in `room`.
const char* rows_of(const Plan& plan, const Side& side, const StridedCopy& copy, const void* data,
                    Int matrix, char* room, Int& in_room) {
  const char* at_matrix =
      static_cast<const char*>(data) + matrix * side.elems() * operand_bytes(plan.product.kind);
  if (side.along_depth()) return at_matrix;
  if (in_room != matrix) copy.run(*plan.isa, at_matrix, room, plan.threads);
  in_room = matrix;
  return room;
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
      return static_cast<T>(
          static_cast<std::int64_t>(std::trunc(static_cast<double>(value) * factor)));
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
  const Shape& shape = plan.shape;
  const Int bytes = operand_bytes(plan.product.kind);
  auto* room_a = static_cast<char*>(arguments.workspace);
  char* room_b =
      room_a + (shape.a.along_depth() ? 0 : padded_floats(shape.a.elems() * bytes / 4 + 1) * 4);
  Int in_room_a = -1;
  Int in_room_b = -1;
  const Int y_bytes = plan.product.rows * plan.product.columns * bytes;
  for (Int i = 0; i < shape.batches; ++i) {
    const auto number = static_cast<std::size_t>(i);
    const char* a = rows_of(plan, shape.a, plan.copy_a, arguments.inputs[0], shape.a.batch[number],
                            room_a, in_room_a);
    const char* b = rows_of(plan, shape.b, plan.copy_b, arguments.inputs[1], shape.b.batch[number],
                            room_b, in_room_b);
    char* y = static_cast<char*>(arguments.outputs[0]) + i * y_bytes;
    run_product(*plan.isa, plan.product, a, b, y, plan.threads);
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
                         read_shape(a, request.inputs[1], !plain && flag("trans_a", "transA"),
                                    !plain && flag("trans_b", "transB")));
  plan.alpha = plain ? 1.0 : attributes.get_float("alpha", 1.0);
  const TensorDesc& c = in_desc(request, 2);
  if (c.present()) {
    plan.beta = attributes.get_float("beta", 1.0);
    const Dims strides = strides_within(c, request.outputs[0].dims);
    plan.c_row = strides[0];
    plan.c_column = strides[1];
  }
  const Side& left = plan.shape.a;
  const Side& right = plan.shape.b;
  plan.product.rows = left.rows;
  plan.product.columns = right.rows;
  plan.product.depth = left.depth;
  plan.product.a_stride = left.depth;
  plan.product.b_stride = right.depth;
  plan.product.c_stride = right.rows;
  const Int bytes = operand_bytes(plan.product.kind);
  plan.copy_a = into_rows(left, bytes);
  plan.copy_b = into_rows(right, bytes);
  Int room = 16;
  for (const Side* side : {&left, &right}) {
    if (!side->along_depth()) room += padded_floats(side->elems() * bytes / 4 + 1);
  }
  return make_kernel(
      isa, static_cast<std::size_t>(room) * sizeof(float),
      [plan = std::move(plan)](const KernelArguments& arguments) { run(plan, arguments); });
}

namespace {

// ---- 8-bit operands

struct QuantizedPlan {
  const Isa* isa = nullptr;
  int threads = 1;
  Shape shape;
  Product product;
  QuantizedSide a, b;
  bool requantizes = false;
  Requantization to;
  StridedCopy turn_b;  // bytes of b into rows along the depth

  // Workspace, in this order: int16 of a and b, bytes of b turned, sums.
  Int a_bytes() const { return padded_floats(shape.a.elems() / 2 + 1) * 4; }
  Int b_bytes() const { return padded_floats(shape.b.elems() / 2 + 1) * 4; }
  Int turned_bytes() const { return padded_floats(shape.b.elems() / 4 + 1) * 4; }
  Int sum_bytes() const { return padded_floats(product.rows * product.columns) * 4; }
};

// Rows of one matrix as int16, every row without its zero point.
void widen_rows(const QuantizedPlan& plan, const KernelArguments& arguments,
                const QuantizedSide& side, const Side& matrices, const void* bytes, Int matrix,
                std::int16_t* to) {
  const auto* from = static_cast<const std::uint8_t*>(bytes);
  parallel_units(matrices.rows, threads_for(matrices.elems(), plan.threads), [&](Int row, int) {
    plan.isa->widen_bytes(side.is_signed, from + row * matrices.depth,
                          side.zero(arguments, matrix, row), to + row * matrices.depth,
                          matrices.depth);
  });
}

void run_quantized(const QuantizedPlan& plan, const KernelArguments& arguments) {
  const Shape& shape = plan.shape;
  auto* workspace = static_cast<char*>(arguments.workspace);
  auto* a = reinterpret_cast<std::int16_t*>(workspace);
  auto* b = reinterpret_cast<std::int16_t*>(workspace + plan.a_bytes());
  char* turned = workspace + plan.a_bytes() + plan.b_bytes();
  const Int y_elems = plan.product.rows * plan.product.columns;
  Int in_a = -1;
  Int in_b = -1;
  for (Int i = 0; i < shape.batches; ++i) {
    const Int a_matrix = shape.a.batch[static_cast<std::size_t>(i)];
    const Int b_matrix = shape.b.batch[static_cast<std::size_t>(i)];
    if (a_matrix != in_a) {
      const auto* from = static_cast<const char*>(arguments.inputs[plan.a.operand]);
      widen_rows(plan, arguments, plan.a, shape.a, from + a_matrix * shape.a.elems(), a_matrix, a);
      in_a = a_matrix;
    }
    if (b_matrix != in_b) {
      const auto* from = static_cast<const char*>(arguments.inputs[plan.b.operand]);
      plan.turn_b.run(*plan.isa, from + b_matrix * shape.b.elems(), turned, plan.threads);
      widen_rows(plan, arguments, plan.b, shape.b, turned, b_matrix, b);
      in_b = b_matrix;
    }
    auto* sums = plan.requantizes ? reinterpret_cast<std::int32_t*>(turned + plan.turned_bytes())
                                  : static_cast<std::int32_t*>(arguments.outputs[0]) + i * y_elems;
    run_product(*plan.isa, plan.product, a, b, sums, plan.threads);
    if (!plan.requantizes) continue;
    auto* y = static_cast<std::uint8_t*>(arguments.outputs[0]) + i * y_elems;
    const Requantization::Ends ends = plan.to.ends(arguments);
    parallel_units(plan.product.rows, threads_for(y_elems, plan.threads), [&](Int row, int) {
      const double row_scale = plan.a.scale(arguments, a_matrix, row);
      for (Int column = 0; column < plan.product.columns; ++column) {
        const Int place = row * plan.product.columns + column;
        const double factor = row_scale * plan.b.scale(arguments, b_matrix, column) / ends.scale;
        y[place] = ends.quantize(sums[place] * factor);
      }
    });
  }
}

Prepared prepare_quantized(const KernelRequest& request, const Isa& isa, std::size_t b_operand) {
  QuantizedPlan plan;
  plan.isa = &isa;
  plan.threads = std::max(request.threads, 1);
  plan.requantizes = request.op == "QLinearMatMul";
  MEZZO_ASSIGN_OR_RETURN(plan.shape,
                         read_shape(request.inputs[0], request.inputs[b_operand], false, false));
  const Side& left = plan.shape.a;
  const Side& right = plan.shape.b;
  if (plan.requantizes) {
    plan.a = QuantizedSide::of(request, 0, 2, 1, left.rows);
    plan.b = QuantizedSide::of(request, 3, 5, 4, right.rows);
    plan.to = Requantization::of(request, 6, 7);
    MEZZO_RETURN_IF_ERROR(Requantization::check(request, 7));
  } else {
    plan.a = QuantizedSide::of(request, 0, 2, kNoOperand, left.rows);
    plan.b = QuantizedSide::of(request, 1, 3, kNoOperand, right.rows);
  }
  MEZZO_RETURN_IF_ERROR(plan.a.check(request));
  MEZZO_RETURN_IF_ERROR(plan.b.check(request));
  plan.product = {ProductKind::kPairs, left.rows,   right.rows, left.depth,
                  left.depth,          right.depth, right.rows};
  plan.turn_b = into_rows(right, 1);
  const Int bytes = plan.a_bytes() + plan.b_bytes() + plan.turned_bytes() + plan.sum_bytes();
  return make_kernel(isa, static_cast<std::size_t>(bytes),
                     [plan = std::move(plan)](const KernelArguments& arguments) {
                       run_quantized(plan, arguments);
                     });
}

}  // namespace

Prepared prepare_matmul_integer(const KernelRequest& request, const Isa& isa) {
  return prepare_quantized(request, isa, 1);
}

Prepared prepare_qlinear_matmul(const KernelRequest& request, const Isa& isa) {
  return prepare_quantized(request, isa, 3);
}

}  // namespace mezzo::kernels::cpu
