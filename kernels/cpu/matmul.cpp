// MatMul, MatMulT and Gemm of float64 and of 32 and 64 bit integers, and the 8-bit products
// MatMulInteger and QLinearMatMul. Letters: M K N matrix sizes.
//
// a is brought into rows along K where it is transposed, b into panels (product.h). 8-bit operands
// become int16 without their zero points before that. One matrix of the batch after the other, each
// with threads; what does not change from one to the next is brought into form once, and constant
// 8-bit weights when the kernel is prepared.
#include <array>
#include <cmath>
#include <limits>

#include "kernels/cpu/product.h"
#include "kernels/cpu/quantized.h"
#include "kernels/cpu/strided.h"

namespace mezzo::kernels::cpu {
namespace {

// An operand's matrices: rows x depth (b: columns x depth), found in the buffer by strides.
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
  StridedCopy copy_a;  // into rows along the depth
  double alpha = 1.0, beta = 0.0;
  Int c_row = 0, c_column = 0;  // strides of c

  Int a_bytes() const {
    if (shape.a.along_depth()) return 0;
    return padded_floats(shape.a.elems() * operand_bytes(product.kind) / 4 + 1) * 4;
  }
  Int b_bytes() const { return panel_bytes(*isa, product.kind, shape.b.rows, shape.b.depth); }
};

StridedCopy into_rows(const Side& side, Int bytes) {
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
  plan.product.c_stride = right.rows;
  plan.copy_a = into_rows(left, operand_bytes(plan.product.kind));
  const Int room = plan.a_bytes() + plan.b_bytes();
  return make_kernel(
      isa, static_cast<std::size_t>(room),
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

  // Workspace, in this order: panels of b, int16 of a and b, sums.
  Int panels_bytes() const { return panel_bytes(*isa, product.kind, shape.b.rows, shape.b.depth); }
  static Int int16_bytes(const Side& side) { return padded_floats(side.elems() / 2 + 1) * 4; }
  Int sums_bytes() const {
    return requantizes ? padded_floats(product.rows * product.columns) * 4 : 0;
  }
  Int workspace_bytes() const {
    return panels_bytes() + int16_bytes(shape.a) + int16_bytes(shape.b) + sums_bytes();
  }
};

// Rows of one matrix of a as int16, every row without its zero point.
void widen_a(const QuantizedPlan& plan, const KernelArguments& arguments, Int matrix,
             std::int16_t* to) {
  const Side& side = plan.shape.a;
  const auto* from =
      static_cast<const std::uint8_t*>(arguments.inputs[plan.a.operand]) + matrix * side.elems();
  parallel_units(side.rows, threads_for(side.elems(), plan.threads), [&](Int row, int) {
    plan.isa->widen_bytes(plan.a.is_signed, from + row * side.depth,
                          plan.a.zero(arguments, matrix, row), to + row * side.depth, side.depth);
  });
}

// One matrix of b[depth][columns] in panels, every column without its zero point.
void pack_b(const QuantizedPlan& plan, const KernelArguments& arguments, Int matrix,
            std::int16_t* room, void* panels) {
  const Side& side = plan.shape.b;
  const auto* from =
      static_cast<const std::uint8_t*>(arguments.inputs[plan.b.operand]) + matrix * side.elems();
  const bool one_zero = plan.b.zeros <= 1;
  parallel_units(side.depth, threads_for(side.elems(), plan.threads), [&](Int k, int) {
    std::int16_t* row = room + k * side.rows;
    plan.isa->widen_bytes(plan.b.is_signed, from + k * side.rows,
                          one_zero ? plan.b.zero(arguments, matrix, 0) : 0, row, side.rows);
    for (Int j = 0; !one_zero && j < side.rows; ++j) {
      row[j] = static_cast<std::int16_t>(row[j] - plan.b.zero(arguments, matrix, j));
    }
  });
  pack_panels(*plan.isa, plan.product.kind, room, side.rows, 1, side.rows, side.depth, panels,
              plan.threads);
}

void run_quantized(const QuantizedPlan& plan, const KernelArguments& arguments, const void* kept) {
  const Shape& shape = plan.shape;
  auto* workspace = static_cast<char*>(arguments.workspace);
  char* room_a = workspace + plan.panels_bytes();
  char* room_b = room_a + QuantizedPlan::int16_bytes(shape.a);
  char* room_sums = room_b + QuantizedPlan::int16_bytes(shape.b);
  auto* a = reinterpret_cast<std::int16_t*>(room_a);
  const void* panels = kept != nullptr ? kept : workspace;
  const Int y_elems = plan.product.rows * plan.product.columns;
  Int in_a = -1;
  Int in_b = kept != nullptr ? 0 : -1;
  for (Int i = 0; i < shape.batches; ++i) {
    const Int a_matrix = shape.a.batch[static_cast<std::size_t>(i)];
    const Int b_matrix = shape.b.batch[static_cast<std::size_t>(i)];
    if (a_matrix != in_a) widen_a(plan, arguments, a_matrix, a);
    in_a = a_matrix;
    if (b_matrix != in_b) {
      pack_b(plan, arguments, b_matrix, reinterpret_cast<std::int16_t*>(room_b), workspace);
    }
    in_b = b_matrix;
    auto* sums = plan.requantizes ? reinterpret_cast<std::int32_t*>(room_sums)
                                  : static_cast<std::int32_t*>(arguments.outputs[0]) + i * y_elems;
    run_product(*plan.isa, plan.product, a, panels, sums, plan.threads);
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

class QuantizedKernel final : public Kernel {
 public:
  // Packs b now if it, and its zero point, are constant and it is one matrix.
  QuantizedKernel(QuantizedPlan plan, const KernelRequest& request) : plan_(std::move(plan)) {
    const std::size_t zero = plan_.b.zero_operand;
    const bool fixed = request.constant(plan_.b.operand) != nullptr &&
                       plan_.shape.b.matrices == 1 &&
                       (plan_.b.zeros == 0 || request.constant(zero) != nullptr);
    if (!fixed) return;
    kept_.resize(static_cast<std::size_t>(plan_.panels_bytes()) / sizeof(Line));
    std::vector<std::int16_t> room(static_cast<std::size_t>(plan_.shape.b.elems()));
    const KernelArguments arguments{request.constants, {}, nullptr};
    pack_b(plan_, arguments, 0, room.data(), kept_.data());
  }

  std::size_t workspace_bytes() const override {
    return static_cast<std::size_t>(plan_.workspace_bytes());
  }
  std::size_t held_bytes() const override { return kept_.size() * sizeof(Line); }
  std::string_view implementation() const override { return plan_.isa->name; }
  Status run(const KernelArguments& arguments) override {
    run_quantized(plan_, arguments, kept_.empty() ? nullptr : kept_.data());
    return ok_status();
  }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  QuantizedPlan plan_;
  std::vector<Line> kept_;
};

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
  plan.product = {ProductKind::kPairs, left.rows, right.rows, left.depth, left.depth, right.rows};
  return std::unique_ptr<Kernel>(std::make_unique<QuantizedKernel>(std::move(plan), request));
}

}  // namespace

Prepared prepare_matmul_integer(const KernelRequest& request, const Isa& isa) {
  return prepare_quantized(request, isa, 1);
}

Prepared prepare_qlinear_matmul(const KernelRequest& request, const Isa& isa) {
  return prepare_quantized(request, isa, 3);
}

}  // namespace mezzo::kernels::cpu
