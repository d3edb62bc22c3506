// Softmax, LogSoftmax and their gradients over one axis. Letters, in the order of memory: O outer,
// D along the axis, I inner.
//
// With I = 1 a line of D numbers lies together and is worked on where the result goes. Otherwise
// kColumns lines at a time are brought into a dense tile [D][columns].
#include "kernels/cpu/common.h"

namespace mezzo::kernels::cpu {
namespace {

constexpr Int kColumns = 64;
constexpr Int kUnit = 4096;  // numbers per unit of work, about

struct Plan {
  const Isa* isa = nullptr;
  bool log = false;
  bool grad = false;
  int threads = 1;
  Int outer = 1, length = 1, inner = 1;
  DType in[2] = {DType::kNone, DType::kNone};
  DType out = DType::kNone;

  Int columns() const { return std::min(inner, kColumns); }
  Int tile_floats() const { return padded_floats(length * columns()); }
  Int tiles() const { return grad ? 2 : 1; }  // per thread: dy as well as y
};

// Brings lines [first, first + width) of an outer index into a dense tile.
void read_tile(const Plan& plan, DType dtype, const void* data, Int first, Int width, float* tile) {
  for (Int i = 0; i < plan.length; ++i) {
    plan.isa->unpack(dtype, at(data, first + i * plan.inner, dtype), tile + i * width, width);
  }
}

void write_tile(const Plan& plan, const float* tile, Int width, void* data, Int first) {
  if (width == plan.inner) {
    plan.isa->pack(plan.out, tile, at(data, first, plan.out), plan.length * width);
    return;
  }
  for (Int i = 0; i < plan.length; ++i) {
    plan.isa->pack(plan.out, tile + i * width, at(data, first + i * plan.inner, plan.out), width);
  }
}

// `width` lines that start at element `first`; `room` holds a tile, or two for the gradient.
void run_tile(const Plan& plan, const KernelArguments& arguments, Int first, Int width,
              float* room) {
  void* out = arguments.outputs[0];
  const bool whole = width == plan.inner;
  const auto read = [&](std::size_t operand, float* to) -> const float* {
    if (whole) {
      return floats(*plan.isa, plan.in[operand], arguments.inputs[operand], first,
                    plan.length * width, to);
    }
    read_tile(plan, plan.in[operand], arguments.inputs[operand], first, width, to);
    return to;
  };
  float* tile = whole ? float_target(plan.out, out, first, room) : room;
  const float* x = read(0, room);
  if (plan.grad) {
    if (x != tile) std::copy_n(x, plan.length * width, tile);
    plan.isa->softmax_grad(tile, read(1, room + plan.tile_floats()), plan.length, width, plan.log);
  } else {
    plan.isa->softmax(x, tile, plan.length, width, plan.log);
  }
  if (tile == room) write_tile(plan, tile, width, out, first);
}

void run_plan(const Plan& plan, const KernelArguments& arguments) {
  const Int all = plan.outer * plan.length * plan.inner;
  if (all == 0) return;
  const Int tiles = ceil_div(plan.inner, plan.columns());
  const Int group = std::max<Int>(1, kUnit / (plan.length * plan.columns()));
  const Int jobs = plan.outer * tiles;
  auto* workspace = static_cast<float*>(arguments.workspace);
  parallel_units(ceil_div(jobs, group), threads_for(all, plan.threads), [&](Int unit, int thread) {
    float* room = workspace + thread * plan.tiles() * plan.tile_floats();
    for (Int job = unit * group; job < std::min(jobs, (unit + 1) * group); ++job) {
      const Int column = job % tiles * plan.columns();
      const Int width = std::min(plan.columns(), plan.inner - column);
      run_tile(plan, arguments, job / tiles * plan.length * plan.inner + column, width, room);
    }
  });
}

}  // namespace

Prepared prepare_softmax(const KernelRequest& request, const Isa& isa) {
  MEZZO_RETURN_IF_ERROR(expect_packed_floats(request));
  MEZZO_RETURN_IF_ERROR(expect_one_layout(request));
  const TensorDesc& x = request.inputs[0];
  Plan plan;
  plan.isa = &isa;
  plan.log = request.op.starts_with("Log");
  plan.grad = request.op.ends_with("Grad");
  plan.threads = std::max(request.threads, 1);
  Int axis = request.attributes.get_int("axis", -1);
  if (axis < 0) axis += static_cast<Int>(x.dims.size());
  bool passed = false;
  for (const std::size_t dim : memory_order(x.dims.size(), x.layout)) {
    const bool is_axis = static_cast<Int>(dim) == axis;
    (is_axis ? plan.length : passed ? plan.inner : plan.outer) *= x.dims[dim];
    passed = passed || is_axis;
  }
  for (std::size_t i = 0; i < (plan.grad ? 2U : 1U); ++i) plan.in[i] = request.inputs[i].dtype;
  plan.out = request.outputs[0].dtype;
  const Int room = x.elems() == 0 ? 0 : plan.tiles() * plan.tile_floats() * plan.threads;
  return make_kernel(isa, static_cast<std::size_t>(room) * sizeof(float),
                     [plan](const KernelArguments& arguments) { run_plan(plan, arguments); });
}

}  // namespace mezzo::kernels::cpu
