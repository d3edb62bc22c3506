// Elementwise operations with broadcasting.
//
// Dims that every operand walks through alike are joined, which leaves few: an inner one, in which
// an operand is either dense or one repeated element, rows above it, and the rest. Work is cut
// into units of at most kPiece elements of the result. Float32 operands that lie dense go to the
// loop as they are; all others pass through blocks on the stack.
#include <array>
#include <limits>

#include "kernels/cpu/common.h"
#include "kernels/philox.h"

namespace mezzo::kernels::cpu {
namespace {

constexpr std::size_t kMaxOperands = 4;
constexpr Int kPiece = 16384;  // elements per unit where the inner dim is long
constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct OpRow {
  std::string_view name;
  ElementwiseOp op;
  float alpha = 0.0F;  // default of the attribute
  float beta = 0.0F;
};

constexpr OpRow kOps[] = {
    {"Add", ElementwiseOp::kAdd},
    {"Sub", ElementwiseOp::kSub},
    {"Mul", ElementwiseOp::kMul},
    {"Div", ElementwiseOp::kDiv},
    {"Pow", ElementwiseOp::kPow},
    {"Max", ElementwiseOp::kMax},
    {"Min", ElementwiseOp::kMin},
    {"Relu", ElementwiseOp::kRelu},
    {"Sigmoid", ElementwiseOp::kSigmoid},
    {"Tanh", ElementwiseOp::kTanh},
    {"Erf", ElementwiseOp::kErf},
    {"Exp", ElementwiseOp::kExp},
    {"Log", ElementwiseOp::kLog},
    {"Sqrt", ElementwiseOp::kSqrt},
    {"Reciprocal", ElementwiseOp::kReciprocal},
    {"Neg", ElementwiseOp::kNeg},
    {"Abs", ElementwiseOp::kAbs},
    {"Softplus", ElementwiseOp::kSoftplus},
    {"HardSigmoid", ElementwiseOp::kHardSigmoid, 0.2F, 0.5F},
    {"HardSwish", ElementwiseOp::kHardSwish},
    {"LeakyRelu", ElementwiseOp::kLeakyRelu, 0.01F},
    {"Elu", ElementwiseOp::kElu, 1.0F},
    {"Sin", ElementwiseOp::kSin},
    {"Cos", ElementwiseOp::kCos},
    {"Floor", ElementwiseOp::kFloor},
    {"Ceil", ElementwiseOp::kCeil},
    {"Round", ElementwiseOp::kRound},
    {"Sign", ElementwiseOp::kSign},
    {"Gelu", ElementwiseOp::kGelu},
    {"Swish", ElementwiseOp::kSwish, 1.0F},
    {"Clip", ElementwiseOp::kClip},
    {"Where", ElementwiseOp::kWhere},
    {"Equal", ElementwiseOp::kEqual},
    {"Less", ElementwiseOp::kLess},
    {"Greater", ElementwiseOp::kGreater},
    {"LessOrEqual", ElementwiseOp::kLessOrEqual},
    {"GreaterOrEqual", ElementwiseOp::kGreaterOrEqual},
    {"And", ElementwiseOp::kAnd},
    {"Or", ElementwiseOp::kOr},
    {"Not", ElementwiseOp::kNot},
    {"Cast", ElementwiseOp::kIdentity},
    {"GlobalAveragePoolGrad", ElementwiseOp::kScale},
    {"ReluGrad", ElementwiseOp::kReluGrad},
    {"SigmoidGrad", ElementwiseOp::kSigmoidGrad},
    {"TanhGrad", ElementwiseOp::kTanhGrad},
    {"GeluGrad", ElementwiseOp::kGeluGrad},
    {"SwishGrad", ElementwiseOp::kSwishGrad, 1.0F},
    {"ErfGrad", ElementwiseOp::kErfGrad},
    {"SoftplusGrad", ElementwiseOp::kSoftplusGrad},
    {"HardSwishGrad", ElementwiseOp::kHardSwishGrad},
    {"HardSigmoidGrad", ElementwiseOp::kHardSigmoidGrad, 0.2F, 0.5F},
    {"LeakyReluGrad", ElementwiseOp::kLeakyReluGrad, 0.01F},
    {"EluGrad", ElementwiseOp::kEluGrad, 1.0F},
    {"LogGrad", ElementwiseOp::kLogGrad},
    {"AbsGrad", ElementwiseOp::kAbsGrad},
    {"SinGrad", ElementwiseOp::kSinGrad},
    {"CosGrad", ElementwiseOp::kCosGrad},
    {"ExpGrad", ElementwiseOp::kExpGrad},
    {"SqrtGrad", ElementwiseOp::kSqrtGrad},
    {"ReciprocalGrad", ElementwiseOp::kReciprocalGrad},
    {"ClipGrad", ElementwiseOp::kClipGrad},
    {"PowGrad", ElementwiseOp::kPowGrad},
    {"DropoutGrad", ElementwiseOp::kDropoutGrad},
};

struct Operand {
  DType dtype = DType::kNone;  // kNone: absent, every element is `fallback`
  float fallback = 0.0F;
  std::array<Int, kMaxRank + 2> strides{};  // in elements, per joined dim; inner: 0 or 1
};

// One prepared operation.
struct Plan {
  const Isa* isa = nullptr;
  ElementwiseLoop loop = nullptr;
  float parameters[2] = {0.0F, 0.0F};
  int threads = 1;
  std::size_t operand_count = 0;
  std::array<Operand, kMaxOperands> operands;
  DType out = DType::kNone;
  std::size_t rank = 0;  // at least 2: ..., rows, inner
  std::array<Int, kMaxRank + 2> dims{};

  Int inner() const { return dims[rank - 1]; }
  Int rows() const { return dims[rank - 2]; }
};

// Offsets in elements of every operand at the start of a unit.
using Offsets = std::array<Int, kMaxOperands>;

struct Blocks {
  alignas(64) float in[kMaxOperands][kBlock];
  alignas(64) float out[kBlock];
};

float read_one(const Plan& plan, const Operand& operand, const void* data, Int offset) {
  if (operand.dtype == DType::kNone) return operand.fallback;
  float value;
  plan.isa->unpack(operand.dtype, at(data, offset, operand.dtype), &value, 1);
  return value;
}

// Elements [first, first + n) of one row.
void run_piece(const Plan& plan, const KernelArguments& arguments, const Offsets& offsets,
               Int out_offset, Int n, Blocks& blocks) {
  const std::size_t inner = plan.rank - 1;
  std::array<const float*, kMaxOperands> x{};
  bool direct = plan.out == DType::kFloat32;
  for (std::size_t k = 0; k < plan.operand_count; ++k) {
    const Operand& operand = plan.operands[k];
    const void* data = in_buffer(arguments, k);
    if (operand.dtype == DType::kNone || operand.strides[inner] == 0) {
      std::fill_n(blocks.in[k], std::min(n, kBlock), read_one(plan, operand, data, offsets[k]));
      x[k] = blocks.in[k];
      direct = false;
    } else if (operand.dtype != DType::kFloat32) {
      direct = false;
    } else {
      x[k] = static_cast<const float*>(data) + offsets[k];
    }
  }
  void* out = arguments.outputs[0];
  if (direct) {
    plan.loop(x.data(), static_cast<float*>(out) + out_offset, n, plan.parameters);
    return;
  }
  for (Int done = 0; done < n; done += kBlock) {
    const Int count = std::min(kBlock, n - done);
    std::array<const float*, kMaxOperands> block = x;
    for (std::size_t k = 0; k < plan.operand_count; ++k) {
      const Operand& operand = plan.operands[k];
      if (x[k] == blocks.in[k]) continue;
      block[k] = floats(*plan.isa, operand.dtype, in_buffer(arguments, k), offsets[k] + done, count,
                        blocks.in[k]);
    }
    plan.loop(block.data(), float_target(plan.out, out, out_offset + done, blocks.out), count,
              plan.parameters);
    flush(*plan.isa, plan.out, blocks.out, out, out_offset + done, count);
  }
}

// `rows` rows of a short inner dim as one block: what the operand holds for them, in `room`.
const float* gather_rows(const Plan& plan, const Operand& operand, const void* data, Int offset,
                         Int rows, float* room) {
  const Int inner = plan.inner();
  const Int step = operand.strides[plan.rank - 1];
  const Int row_step = operand.strides[plan.rank - 2];
  const Int n = rows * inner;
  if (operand.dtype == DType::kNone || (step == 0 && row_step == 0)) {
    std::fill_n(room, n, read_one(plan, operand, data, offset));
  } else if (step == 1 && (row_step == inner || rows == 1)) {
    return floats(*plan.isa, operand.dtype, data, offset, n, room);
  } else if (step == 1 && row_step == 0) {
    plan.isa->unpack(operand.dtype, at(data, offset, operand.dtype), room, inner);
    for (Int filled = inner; filled < n; filled *= 2) {
      std::copy_n(room, std::min(filled, n - filled), room + filled);
    }
  } else if (step == 1) {
    for (Int r = 0; r < rows; ++r) {
      plan.isa->unpack(operand.dtype, at(data, offset + r * row_step, operand.dtype),
                       room + r * inner, inner);
    }
  } else if (row_step == 1) {
    alignas(64) float firsts[kBlock];
    plan.isa->unpack(operand.dtype, at(data, offset, operand.dtype), firsts, rows);
    for (Int r = 0; r < rows; ++r) std::fill_n(room + r * inner, inner, firsts[r]);
  } else {
    for (Int r = 0; r < rows; ++r) {
      std::fill_n(room + r * inner, inner, read_one(plan, operand, data, offset + r * row_step));
    }
  }
  return room;
}

void run_rows(const Plan& plan, const KernelArguments& arguments, const Offsets& offsets,
              Int out_offset, Int rows, Blocks& blocks) {
  std::array<const float*, kMaxOperands> x{};
  for (std::size_t k = 0; k < plan.operand_count; ++k) {
    x[k] = gather_rows(plan, plan.operands[k], in_buffer(arguments, k), offsets[k], rows,
                       blocks.in[k]);
  }
  const Int n = rows * plan.inner();
  void* out = arguments.outputs[0];
  plan.loop(x.data(), float_target(plan.out, out, out_offset, blocks.out), n, plan.parameters);
  flush(*plan.isa, plan.out, blocks.out, out, out_offset, n);
}

// Element offsets of the operands at place (outer, row, column).
Offsets offsets_at(const Plan& plan, Int outer, Int row, Int column) {
  Offsets offsets{};
  const auto add = [&](std::size_t dim, Int index) {
    for (std::size_t k = 0; k < plan.operand_count; ++k) {
      offsets[k] += plan.operands[k].strides[dim] * index;
    }
  };
  add(plan.rank - 1, column);
  add(plan.rank - 2, row);
  for (std::size_t dim = plan.rank - 2; dim > 0; --dim) {
    add(dim - 1, outer % plan.dims[dim - 1]);
    outer /= plan.dims[dim - 1];
  }
  return offsets;
}

void run_plan(const Plan& plan, const KernelArguments& arguments) {
  Int outer = 1;
  for (std::size_t dim = 0; dim + 2 < plan.rank; ++dim) outer *= plan.dims[dim];
  const Int inner = plan.inner();
  const Int rows = plan.rows();
  if (outer * rows * inner == 0) return;
  const bool by_piece = inner > kBlock / 2;
  const Int rows_per_unit = by_piece ? 1 : kBlock / inner;
  const Int pieces = by_piece ? ceil_div(inner, kPiece) : 1;
  const Int groups = ceil_div(rows, rows_per_unit);
  const int threads = threads_for(outer * rows * inner, plan.threads);
  parallel_units(outer * groups * pieces, threads, [&](Int unit, int) {
    Blocks blocks;
    const Int first = unit % pieces * kPiece;
    const Int row = unit / pieces % groups * rows_per_unit;
    const Int place = unit / pieces / groups;
    const Offsets offsets = offsets_at(plan, place, row, first);
    const Int out_offset = (place * rows + row) * inner + first;
    if (by_piece) {
      run_piece(plan, arguments, offsets, out_offset, std::min(kPiece, inner - first), blocks);
    } else {
      run_rows(plan, arguments, offsets, out_offset, std::min(rows_per_unit, rows - row), blocks);
    }
  });
}

// Joins dims (in the order of the result's memory) that all operands walk through alike.
Status join_dims(const KernelRequest& request, Plan& plan) {
  const TensorDesc& y = request.outputs[0];
  const std::size_t rank = y.dims.size();
  std::array<Dims, kMaxOperands> strides;
  for (std::size_t k = 0; k < plan.operand_count; ++k) {
    if (plan.operands[k].dtype != DType::kNone) {
      strides[k] = strides_within(request.inputs[k], y.dims);
    } else {
      strides[k].assign(rank, 0);
    }
  }
  plan.dims[0] = 1;  // rows, if nothing else is above the inner dim
  plan.rank = 1;
  for (const std::size_t dim : memory_order(rank, y.layout)) {
    const Int size = y.dims[dim];
    if (size == 1) continue;
    bool joins = plan.rank > 1;
    for (std::size_t k = 0; k < plan.operand_count && joins; ++k) {
      joins = plan.operands[k].strides[plan.rank - 1] == strides[k][dim] * size;
    }
    if (!joins) {
      plan.dims[plan.rank++] = 1;
    }
    plan.dims[plan.rank - 1] *= size;
    for (std::size_t k = 0; k < plan.operand_count; ++k) {
      plan.operands[k].strides[plan.rank - 1] = strides[k][dim];
    }
  }
  if (plan.rank == 1) plan.dims[plan.rank++] = 1;
  for (std::size_t k = 0; k < plan.operand_count; ++k) {
    if (plan.operands[k].strides[plan.rank - 1] > 1) {
      return unimplemented("operand " + std::to_string(k) + " lies in another layout");
    }
  }
  return ok_status();
}

const OpRow* find_op(std::string_view name) {
  for (const OpRow& row : kOps) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

ElementwiseOp variant_of(const OpRow& row, const KernelRequest& request) {
  const bool by_tanh = request.attributes.get_string("approximate", "none") == "tanh";
  if (row.op == ElementwiseOp::kGelu && by_tanh) return ElementwiseOp::kGeluTanh;
  if (row.op == ElementwiseOp::kGeluGrad && by_tanh) return ElementwiseOp::kGeluTanhGrad;
  return row.op;
}

void set_parameters(const OpRow& row, const KernelRequest& request, Plan& plan) {
  if (row.op == ElementwiseOp::kDropoutGrad) {
    const double ratio = request.attributes.get_float("ratio", 0.5);
    plan.parameters[0] = static_cast<float>(dropout_scale(ratio));
    return;
  }
  if (row.op == ElementwiseOp::kScale) {  // the mean's share: dims 2.. of the result
    Int pixels = 1;
    const Dims& dims = request.outputs[0].dims;
    for (std::size_t dim = 2; dim < dims.size(); ++dim) pixels *= dims[dim];
    plan.parameters[0] = static_cast<float>(1.0 / static_cast<double>(pixels));
    return;
  }
  plan.parameters[0] = static_cast<float>(request.attributes.get_float("alpha", row.alpha));
  plan.parameters[1] = static_cast<float>(request.attributes.get_float("beta", row.beta));
}

bool has_loader(DType dtype) { return is_packed_float(dtype) || dtype == DType::kBool; }

}  // namespace

Prepared prepare_elementwise(const KernelRequest& request, const Isa& isa) {
  const OpRow* row = find_op(request.op);
  if (row == nullptr) return internal_error("no elementwise loop for '" + request.op + "'");
  Plan plan;
  plan.isa = &isa;
  plan.loop = isa.elementwise(variant_of(*row, request));
  plan.threads = request.threads;
  set_parameters(*row, request, plan);
  // Clip and ClipGrad always have both bounds.
  const bool clips = row->op == ElementwiseOp::kClip || row->op == ElementwiseOp::kClipGrad;
  plan.operand_count = clips ? (row->op == ElementwiseOp::kClip ? 3 : 4) : request.inputs.size();
  if (plan.operand_count > kMaxOperands) return unimplemented("more than 4 operands");
  for (std::size_t k = 0; k < plan.operand_count; ++k) {
    const TensorDesc& desc = in_desc(request, k);
    plan.operands[k].dtype = desc.dtype;
    if (desc.present() && !has_loader(desc.dtype)) {
      return unimplemented("operand " + std::to_string(k) + " of dtype " +
                           std::string(dtype_name(desc.dtype)));
    }
  }
  if (clips) {
    plan.operands[plan.operand_count - 2].fallback = -kInfinity;
    plan.operands[plan.operand_count - 1].fallback = kInfinity;
  }
  plan.out = request.outputs[0].dtype;
  if (!has_loader(plan.out)) {
    return unimplemented("result of dtype " + std::string(dtype_name(plan.out)));
  }
  MEZZO_RETURN_IF_ERROR(join_dims(request, plan));
  return make_kernel(isa, 0,
                     [plan](const KernelArguments& arguments) { run_plan(plan, arguments); });
}

}  // namespace mezzo::kernels::cpu
