// RMSNormalization's gradient. Letters: R rows, D elements per row. With r = 1 / sqrt(mean(x^2) +
// epsilon) and g = dy scale: dx = r (g - x r^2 mean(g x)), dscale = sum over rows of dy x r.
//
// Rows are unpacked to float32 once and rounded once. dscale is summed over fixed chunks of rows,
// then over the chunks in order, so it does not depend on the threads.
#include <cmath>

#include "kernels/cpu/common.h"

namespace mezzo::kernels::cpu {
namespace {

constexpr Int kMostChunks = 16;
constexpr Int kChunkElems = 16384;

struct Plan {
  const Isa* isa = nullptr;
  int threads = 1;
  Int rows = 1, length = 1;
  double epsilon = 1e-5;
  DType dy = DType::kNone, x = DType::kNone, scale = DType::kNone;
  DType dx = DType::kNone, dscale = DType::kNone;

  Int row_floats() const { return padded_floats(length); }
  Int chunks() const { return std::clamp<Int>(rows * length / kChunkElems, 1, kMostChunks); }
};

StatusOr<Plan> read_plan(const KernelRequest& request, const Isa& isa) {
  MEZZO_RETURN_IF_ERROR(expect_packed_floats(request));
  for (const auto* side : {&request.inputs, &request.outputs}) {
    for (const TensorDesc& desc : *side) {
      if (desc.layout != Layout::kRowMajor) return unimplemented("channels-last operands");
    }
  }
  Plan plan;
  plan.isa = &isa;
  plan.threads = std::max(request.threads, 1);
  plan.epsilon = request.attributes.get_float("epsilon", 1e-5);
  const Dims& dims = request.inputs[0].dims;
  Int axis = request.attributes.get_int("axis", -1);
  if (axis < 0) axis += static_cast<Int>(dims.size());
  for (std::size_t dim = 0; dim < dims.size(); ++dim) {
    (static_cast<Int>(dim) < axis ? plan.rows : plan.length) *= dims[dim];
  }
  if (plan.rows * plan.length == 0) return unimplemented("empty operands");
  if (request.inputs[2].elems() != plan.length) return unimplemented("a scale that is broadcast");
  plan.dy = request.inputs[0].dtype;
  plan.x = request.inputs[1].dtype;
  plan.scale = request.inputs[2].dtype;
  plan.dx = out_desc(request, 0).dtype;
  plan.dscale = out_desc(request, 1).dtype;
  return plan;
}

// room = dy scale x, and the sum of it.
double scaled_product(const Plan& plan, const float* __restrict dy, const float* __restrict x,
                      const float* __restrict scale, float* __restrict room) {
#pragma omp simd
  for (Int i = 0; i < plan.length; ++i) room[i] = dy[i] * scale[i] * x[i];
  double sum = 0.0;
  for (Int first = 0; first < plan.length; first += kBlock) {
    const Int n = std::min(kBlock, plan.length - first);
    sum += static_cast<double>(plan.isa->reduce_run(ReduceOp::kSum, room + first, n));
  }
  return sum;
}

// Adds to dscale. `dx` holds the products at first.
void one_row(const Plan& plan, const float* __restrict dy, const float* __restrict x,
             const float* __restrict scale, float* __restrict dscale, float* __restrict dx) {
  const double square = mean_square(*plan.isa, x, plan.length);
  const double r = 1.0 / std::sqrt(square + plan.epsilon);
  const double product = scaled_product(plan, dy, x, scale, dx);
  const auto inverse = static_cast<float>(r);
  const auto share = static_cast<float>(r * r * r * product / static_cast<double>(plan.length));
#pragma omp simd
  for (Int i = 0; i < plan.length; ++i) {
    const float normal = dy[i] * inverse;
    dscale[i] += normal * x[i];
    dx[i] = normal * scale[i] - x[i] * share;
  }
}

// Workspace: scale, then dscale of every chunk, then three rows per thread.
void run(const Plan& plan, const KernelArguments& arguments) {
  auto* workspace = static_cast<float*>(arguments.workspace);
  const Isa& isa = *plan.isa;
  const Int width = plan.row_floats();
  const auto& in = arguments.inputs;
  const float* scale = floats(isa, plan.scale, in[2], 0, plan.length, workspace);
  float* sums = workspace + width;
  float* rooms = sums + plan.chunks() * width;
  const int threads = threads_for(plan.rows * plan.length, plan.threads);
  parallel_units(plan.chunks(), threads, [&](Int chunk, int thread) {
    float* dscale = sums + chunk * width;
    std::fill_n(dscale, width, 0.0F);
    float* room = rooms + thread * 3 * width;
    const Int end = plan.rows * (chunk + 1) / plan.chunks();
    for (Int row = plan.rows * chunk / plan.chunks(); row < end; ++row) {
      const Int first = row * plan.length;
      const float* dy = floats(isa, plan.dy, in[0], first, plan.length, room);
      const float* x = floats(isa, plan.x, in[1], first, plan.length, room + width);
      void* out = out_buffer(arguments, 0);
      const bool wanted = plan.dx != DType::kNone && out != nullptr;
      float* dx = wanted ? float_target(plan.dx, out, first, room + 2 * width) : room + 2 * width;
      one_row(plan, dy, x, scale, dscale, dx);
      if (wanted) flush(isa, plan.dx, dx, out, first, plan.length);
    }
  });
  void* to = out_buffer(arguments, 1);
  if (plan.dscale == DType::kNone || to == nullptr) return;
  alignas(64) float sum[kBlock];
  for (Int first = 0; first < plan.length; first += kBlock) {
    const Int n = std::min(kBlock, plan.length - first);
    std::fill_n(sum, n, 0.0F);
    isa.reduce_rows(ReduceOp::kSum, sums + first, plan.chunks(), n, width, sum);
    isa.pack(plan.dscale, sum, at(to, first, plan.dscale), n);
  }
}

}  // namespace

Prepared prepare_rms_norm_grad(const KernelRequest& request, const Isa& isa) {
  MEZZO_ASSIGN_OR_RETURN(const Plan plan, read_plan(request, isa));
  const Int room = (1 + plan.chunks() + 3 * plan.threads) * plan.row_floats();
  return make_kernel(isa, static_cast<std::size_t>(room) * sizeof(float),
                     [plan](const KernelArguments& arguments) { run(plan, arguments); });
}

}  // namespace mezzo::kernels::cpu
