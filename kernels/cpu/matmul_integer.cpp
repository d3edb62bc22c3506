// MatMulInteger and QLinearMatMul. Letters: M K N matrix sizes.
//
// Bytes become int16 without their zero points, a in rows along K, b in panels (product.h); the
// sums are int32. Constant weights are brought into form when the kernel is prepared.
#include "kernels/cpu/matmul_shape.h"
#include "kernels/cpu/product.h"
#include "kernels/cpu/quantized.h"

namespace mezzo::kernels::cpu {
namespace {

struct QuantizedPlan {
  const Isa* isa = nullptr;
  int threads = 1;
  MatrixShape shape;
  Product product;
  QuantizedSide a, b;
  bool requantizes = false;
  Requantization to;

  // Workspace, in this order: panels of b, int16 of a and b, sums.
  Int panels_bytes() const { return panel_bytes(*isa, product.kind, shape.b.rows, shape.b.depth); }
  static Int int16_bytes(const MatrixSide& side) { return padded_floats(side.elems() / 2 + 1) * 4; }
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
  const MatrixSide& side = plan.shape.a;
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
  const MatrixSide& side = plan.shape.b;
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
  const MatrixShape& shape = plan.shape;
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
                         read_matrices(request.inputs[0], request.inputs[b_operand], false, false));
  const MatrixSide& left = plan.shape.a;
  const MatrixSide& right = plan.shape.b;
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
